"""A shared log that is trimmed by its set: what is older than the window goes, members that were away for longer get a copy, and a log that cannot be trimmed says so."""

import signal
import time

import pymongo
import pytest
from pymongo import WriteConcern

from test_object_log import ObjectReplicaSet, store  # noqa: F401
from test_replica_set import ReplicaSet, check_new_member, copies, fill, of_log

WINDOW_SECONDS = 12
# A member stores each ten seconds how far it has read, and a copy is younger than that.
TRIMMED_SECONDS = 90


class TrimmedSet(ReplicaSet):
    """One whose log is kept for seconds."""

    window = f"{WINDOW_SECONDS}s"

    def add(self, number):
        member = super().add(number)
        member.arguments += ["--log-window", self.window]
        return member


class TrimmedObjectSet(TrimmedSet, ObjectReplicaSet):
    """The same in an object store."""


class ObjectSetWithoutCopies(TrimmedObjectSet):
    """And without a place for copies."""

    window = "5s"

    def log_url(self):
        return super().log_url().split("?")[0]


def started(found):
    try:
        yield found.start()
    finally:
        found.stop()


@pytest.fixture
def replica_set(tmp_path):
    yield from started(TrimmedSet(tmp_path))


def first_record(replica_set):
    """Where the log begins, as the primary has seen it."""
    primary = replica_set.primary()
    return of_log(primary).get("firstRecord", 0) if primary else 0


class Writing:
    """Writes a document at each look, so that the log grows."""

    def __init__(self, client):
        self.collection = client.test.written
        self.count = 0

    def go_on(self):
        self.collection.insert_one({"_id": self.count})
        self.count += 1

    def until(self, replica_set, holds, seconds=TRIMMED_SECONDS):
        def looks():
            self.go_on()
            time.sleep(0.2)
            return holds()

        replica_set.wait_until(looks, seconds)


def check_all(replica_set, writing):
    for member in replica_set.members:
        with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as direct:
            replica_set.wait_until(lambda: direct.test.written.count_documents({}) == writing.count)
            assert direct.test.command("validate", "written")["valid"]


def test_a_set_trims_its_log_and_keeps_two_copies(replica_set):
    with replica_set.client() as client:
        writing = Writing(client)
        writing.until(replica_set, lambda: first_record(replica_set) > 0)
        begins = first_record(replica_set)
        # The lead goes on to another one, who does the same.
        replica_set.primary().kill()
        replica_set.wait_until(replica_set.primary)
        next(member for member in replica_set.members if member.process is None).start()
        replica_set.wait_until(replica_set.is_whole)
        writing.until(replica_set, lambda: first_record(replica_set) > begins and len(copies(replica_set, "standing-*")) > 1)
        writing.until(replica_set, lambda: of_log(replica_set.primary())["trimmed"]["copies"] > 0)
        # The newest may not be read back yet.
        assert len(copies(replica_set, "standing-*")) <= 3
        trimmed = of_log(replica_set.primary())["trimmed"]
        assert trimmed["times"] > 0 and trimmed["records"] >= trimmed["times"]
        assert of_log(replica_set.primary())["keptBecause"] == []
        code, said = replica_set.log("check")
        assert code == 0 and "judged         from record" in said, said
        records = sorted(int(path.stem) for path in (replica_set.directory / "log/records").iterdir())
        assert records[0] >= begins
        # A new one gets a copy; and all go on after a start.
        replica_set.add(3).start()
        replica_set.wait_until(replica_set.is_whole, 60)
        for member in replica_set.members:
            member.kill()
            member.start()
        replica_set.wait_until(replica_set.is_whole, 60)
        writing.go_on()
        check_all(replica_set, writing)


def test_members_that_were_away_for_longer_than_the_window_get_a_copy(replica_set):
    away, stopped = replica_set.secondaries()
    with replica_set.client() as client:
        writing = Writing(client)
        writing.go_on()
        client.test.written.with_options(write_concern=WriteConcern(w=3)).update_one({"_id": 0}, {"$set": {"seen": True}})
        needs = [of_log(member)["nextRecord"] for member in (away, stopped)]
        away.kill()
        stopped.process.send_signal(signal.SIGSTOP)
        writing.until(replica_set, lambda: first_record(replica_set) > max(needs) + 1)
        stopped.process.send_signal(signal.SIGCONT)
        away.start()
        replica_set.wait_until(replica_set.is_whole, 60)
        assert "was away for longer than the shared log is kept" in away.log_tail(500)
        assert "gets another member's data" in stopped.log_tail(500)
        for member in (away, stopped):
            assert "has another member's data" in member.log_tail(500)
            assert not (member.directory / "data" / "aside").exists()
        writing.go_on()
        check_all(replica_set, writing)
        # They lead as well as any.
        replica_set.primary().kill()
        replica_set.wait_until(replica_set.primary)
        writing.go_on()


def test_a_member_that_is_killed_while_it_gets_a_copy_has_its_data_until_it_is_there(replica_set):
    away = replica_set.secondaries()[0]
    with replica_set.client() as client:
        documents = fill(client)
        needs = of_log(away)["nextRecord"]
        away.kill()
        writing = Writing(client)
        writing.until(replica_set, lambda: first_record(replica_set) > needs + 1)
        began = time.monotonic()
        away.launch()
        while not (away.directory / "data" / "restore.unfinished").exists():
            assert time.monotonic() - began < 60
            time.sleep(0.001)
        away.kill()
        assert (away.directory / "data" / "aside" / "oplog").is_dir()
        away.start()
        replica_set.wait_until(replica_set.is_whole, 60)
        assert not (away.directory / "data" / "aside").exists()
        check_new_member(away, documents)
        check_all(replica_set, writing)


def test_a_damaged_copy_does_not_stand_for_what_is_trimmed(replica_set):
    with replica_set.client() as client:
        writing = Writing(client)
        writing.until(replica_set, lambda: copies(replica_set, "standing-*"))
        damaged = copies(replica_set, "standing-*")[0].name.removeprefix("standing-")
        begins = first_record(replica_set)
        for path in (replica_set.directory / "log/copies/backups/backups" / damaged / "pages").iterdir():
            path.write_bytes(path.read_bytes()[:-1])
        # It may have been read back before that; then the next copy, which builds upon it, is found to be damaged.
        writing.until(replica_set, lambda: copies(replica_set, "damaged-*") or first_record(replica_set) > begins + 400, 150)
        assert copies(replica_set, "damaged-*")
        writing.until(replica_set, lambda: len(copies(replica_set, "read-*")) > len(copies(replica_set, f"read-{damaged}")))
        code, said = replica_set.log("check")
        assert code == 0, said


def test_a_log_in_an_object_store_is_trimmed(tmp_path, store):
    found = TrimmedObjectSet(tmp_path)
    try:
        found.start()
        with found.client() as client:
            writing = Writing(client)
            writing.until(found, lambda: first_record(found) > 0)
            begins = first_record(found)
            left = sorted(int(name.rsplit("/", 1)[1]) for name in store.names("logs") if "/records/" in name)
            assert left[0] >= begins
            found.add(3).start()
            found.wait_until(found.is_whole, 60)
            check_all(found, writing)
    finally:
        found.stop()


def test_a_log_that_cannot_be_trimmed_says_so(tmp_path, store):
    found = ObjectSetWithoutCopies(tmp_path, 1)
    try:
        found.start()
        with found.client() as client:
            writing = Writing(client)
            writing.until(found, lambda: of_log(found.members[0])["keptBecause"], 40)
            assert "option copies" in of_log(found.members[0])["keptBecause"][0]
            warned = lambda: [warning["pattern"] for warning in client.admin.command("serverStatus")["plimsoll"]["warnings"]]
            writing.until(found, lambda: "sharedLogNotTrimmed" in warned(), 30)
            assert of_log(found.members[0])["firstRecord"] == 0
    finally:
        found.stop()
