"""Taking a set number of events from a change stream, for the suites that watch something."""

import time


def take(stream, count):
    """The next events of a stream."""
    found = []
    until = time.monotonic() + 20
    while len(found) < count and time.monotonic() < until:
        event = stream.try_next()
        if event is not None:
            found.append(event)
    assert len(found) == count, found
    return found
