"""What clients did and were told, and whether what is stored after a crash agrees with it.

Each writer owns documents of its own, so that the last thing it did to each decides what may be there. A write is a
version number; versions of a document only grow. For a document:

    required   the newest version that was acknowledged with j:true or w:majority, or with w:1 alone more than
               GRACE_SECONDS before the kill
    possible   every version from there to the newest one sent, since a write in flight may or may not have happened
"""

GRACE_SECONDS = 0.1


class History:
    """The writes of one writer. Not shared between threads."""

    def __init__(self):
        self.sent = {}
        self.durable = {}
        self.acknowledged = {}

    def send(self, key, version):
        """A write is about to be sent."""
        self.sent[key] = version

    def acknowledge(self, key, version, is_durable, when):
        """The server said yes, at the time `when`."""
        if is_durable:
            self.durable[key] = version
        else:
            self.acknowledged.setdefault(key, []).append((when, version))

    def required(self, key, killed_at):
        """The least version that must be there; 0 if nothing must be."""
        versions = [self.durable.get(key, 0)]
        versions += [version for when, version in self.acknowledged.get(key, []) if when < killed_at - GRACE_SECONDS]
        return max(versions)

    def disagreements(self, stored, killed_at):
        """What `stored` (key to version) lacks or has too much, in words."""
        found = []
        for key, newest in self.sent.items():
            version = stored.get(key, 0)
            required = self.required(key, killed_at)
            if version < required:
                durable = self.durable.get(key)
                found.append(f"{key}: version {version} is stored, {required} was acknowledged (durable: {durable})")
            if version > newest:
                found.append(f"{key}: version {version} is stored, {newest} was the last one sent")
        for key in stored.keys() - self.sent.keys():
            found.append(f"{key}: is stored and was never written")
        return found

    def settle(self, stored):
        """After the check: what is stored is what counts from now on."""
        self.sent = dict(stored)
        self.durable = dict(stored)
        self.acknowledged = {}
