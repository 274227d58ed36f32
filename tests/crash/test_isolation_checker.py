"""The checker of histories finds what it is there to find, and lets pass what snapshot isolation allows."""

import pytest

from isolation import ABORTED, COMMITTED, UNKNOWN, Transaction, problems


def history(*transactions):
    """Each transaction: client, outcome, operations; `a:1` appends 1 to a, `a?12` reads [1, 2] of a."""
    made = []
    for number, (client, outcome, *operations) in enumerate(transactions):
        made.append(Transaction(client, number, [], outcome))
        for operation in operations:
            if operation[1] == ":":
                made[-1].operations.append(("append", operation[0], int(operation[2:])))
            else:
                made[-1].operations.append(("read", operation[0], [int(value) for value in operation[2:]]))
    return made


C, A, U = COMMITTED, ABORTED, UNKNOWN

GOOD = {
    "in a row": (history((1, C, "a:1"), (2, C, "a?1", "a:2"), (1, C, "a?12")), {"a": [1, 2]}),
    "write skew": (history((1, C, "a?", "b:1"), (2, C, "b?", "a:2")), {"a": [2], "b": [1]}),
    "a lost reply": (history((1, U, "a:1", "b:2"), (2, C, "a?1", "b?2")), {"a": [1], "b": [2]}),
    "nothing of an abort": (history((1, A, "a:1"), (2, U, "a:2"), (3, C, "a?")), {}),
    "own appends": (history((1, C, "a:1", "a:2", "a?12"), (2, C, "a?12", "a:3", "a?123")), {"a": [1, 2, 3]}),
}

BAD = {
    "lost": (history((1, C, "a:1")), {"a": []}),
    "half": (history((1, U, "a:1", "b:2")), {"a": [1]}),
    "twice": (history((1, C, "a:1")), {"a": [1, 1]}),
    "from nowhere": (history(), {"a": [1]}),
    "aborted, and there": (history((1, A, "a:1")), {"a": [1]}),
    "read of an abort": (history((1, A, "a:1"), (2, C, "a?1")), {}),
    "intermediate": (history((1, C, "a:1", "a:2"), (2, C, "a?1")), {"a": [1, 2]}),
    "own append not read": (history((1, C, "a:1", "a?")), {"a": [1]}),
    "lost update": (history((1, C, "a?", "a:1"), (2, C, "a?", "a:2")), {"a": [1, 2]}),
    "fractured read": (history((1, C, "a:1", "b:2"), (2, C, "a?1", "b?")), {"a": [1], "b": [2]}),
    "long fork": (
        history((1, C, "a:1"), (2, C, "b:2"), (3, C, "a?1", "b?"), (4, C, "a?", "b?2")),
        {"a": [1], "b": [2]},
    ),
    "writes in a circle": (history((1, C, "a:1", "b:2"), (2, C, "a:3", "b:4")), {"a": [1, 3], "b": [4, 2]}),
    "a session goes back": (history((1, C, "a:1"), (1, C, "a?")), {"a": [1]}),
}


@pytest.mark.parametrize("name", GOOD)
def test_allowed(name):
    assert problems(*GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_found(name):
    assert problems(*BAD[name])
