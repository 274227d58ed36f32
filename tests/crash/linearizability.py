"""Whether a history of reads and writes of one register is linearizable, for writes of which each has a value of its own.

After Gibbons and Korach, "Testing Shared Memories" (1997): a write and the reads of its value are a cluster, whose zone lies
between the first end of one of its operations and the last begin. If the end comes first, the zone is a forward one: the value
must hold all through it. Otherwise the value can hold at any moment of the zone. There is an order if and only if no read ends
before its write begins, no two forward zones overlap, and no backward zone lies within a forward one.
"""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Operation:
    """A read or a write. One whose outcome is not known ends never; if nobody has read what it wrote, it may not have been."""

    is_write: bool
    value: object
    begin: float
    end: float


# The value that was there first: written before everything.
INITIAL = Operation(True, None, -inf, -inf)


def complaints(operations):
    """What no order explains, in words; nothing if the history is linearizable."""
    clusters = {}
    for operation in [INITIAL, *operations]:
        clusters.setdefault(operation.value, []).append(operation)
    found, forward, backward = [], [], []
    for value, cluster in clusters.items():
        writes = [operation for operation in cluster if operation.is_write]
        reads = [operation for operation in cluster if not operation.is_write]
        if not writes:
            found.append(f"{value!r} was read and never written")
            continue
        if len(writes) > 1:
            raise ValueError(f"{value!r} was written twice: values must be different")
        if not reads and writes[0].end == inf:
            continue
        if any(read.end < writes[0].begin for read in reads):
            found.append(f"{value!r} was read before it was written")
        first_end, last_begin = min(one.end for one in cluster), max(one.begin for one in cluster)
        zone = (min(first_end, last_begin), max(first_end, last_begin), value)
        (forward if first_end < last_begin else backward).append(zone)
    forward.sort(key=lambda zone: zone[:2])
    for (_, end, value), (begin, _, other) in zip(forward, forward[1:]):
        if begin < end:
            found.append(f"{value!r} and {other!r} must both hold from {begin} to {end}")
    for begin, end, value in backward:
        holds = [other for from_, until, other in forward if from_ < begin and end < until]
        found.extend(f"{value!r} was there while {other!r} must hold, from {begin} to {end}" for other in holds)
    return found
