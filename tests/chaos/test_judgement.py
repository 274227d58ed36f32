"""The judgement of the chaos suite finds what it is there to find: histories in which something was lost, and figures that are too large."""

import pathlib
import random
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "crash"), str(pathlib.Path(__file__).parent)]

import honest  # noqa: E402
import judgement  # noqa: E402

HOUR = 3600


def client_that_wrote(durable=True):
    client = honest.Client("mongodb://127.0.0.1:1", 0, 1)
    for version in (1, 2, 3):
        client.history.send("0:7", version)
        if version < 3:
            client.history.acknowledge("0:7", version, durable, when=10.0)
    return client


def found_after_a_kill(stored, durable=True, killed_at=20.0):
    client = client_that_wrote(durable)
    client.check(stored, killed_at)
    return client.wrong


def test_a_lost_write_is_found():
    assert found_after_a_kill({"0:7": 1})
    assert found_after_a_kill({})
    assert found_after_a_kill({"0:7": 1}, durable=False)


def test_what_was_under_way_may_be_there_or_not():
    assert not found_after_a_kill({"0:7": 2})
    assert not found_after_a_kill({"0:7": 3})
    # Acknowledged by w: 1 alone just before the kill.
    assert not found_after_a_kill({"0:7": 1}, durable=False, killed_at=10.05)


def test_what_nobody_wrote_is_found():
    assert found_after_a_kill({"0:7": 4})
    assert found_after_a_kill({"0:7": 2, "0:8": 1})


class Stored:
    """Stands for a collection with one document."""

    def __init__(self, version):
        self.document = {"version": version}

    def find_one(self, _filter):
        return self.document


def test_a_read_of_an_older_version_is_found():
    for version, is_wrong in ((0, True), (1, True), (2, False), (3, False), (4, True)):
        client = client_that_wrote()
        client.key = lambda: "0:7"
        client.read(Stored(version))
        assert bool(client.wrong) == is_wrong, version


def test_an_index_that_disagrees_is_found():
    assert judgement.of_indexes([1, 2], [2, 1], []) == []
    assert judgement.of_indexes([1, 2], [1], [])
    assert judgement.of_indexes([1], [1, 1], [])
    assert judgement.of_indexes([1], [1], ["a page is damaged"])


def test_too_much_memory_is_found():
    assert judgement.of_memory(115 << 20, 100 << 20) == []
    assert judgement.of_memory(116 << 20, 100 << 20)


def test_honest_clients_that_wait_are_found():
    chance = random.Random(4)
    alone = [chance.uniform(0.001, 0.002) for _ in range(1000)]
    assert judgement.of_waiting(alone, [4 * one for one in alone]) == []
    assert judgement.of_waiting(alone, [6 * one for one in alone])
    # One in a hundred is enough.
    assert judgement.of_waiting(alone, alone + [0.1] * 20)
    assert judgement.of_waiting(alone, alone[:10]), "nobody was served beside the hostile"


def test_time_that_cannot_be_is_found():
    time = judgement.ServerTime()
    assert time.seen(1000, 1000) == []
    assert time.jumped(3 * HOUR, 1000 + 3 * HOUR, 1000) == []
    # Set back: timestamps count on from where they are. So they do behind a jump that is not followed.
    assert time.jumped(0, 1001 + 3 * HOUR, 1100) == []
    assert time.seen(1002 + 3 * HOUR, 1100) == []
    assert time.seen(1000 + 2 * HOUR, 1101), "back"
    assert time.seen(1000 + 100 * 365 * 24 * HOUR, 1102), "a jump of a century was followed"
    assert judgement.ServerTime().jumped(3 * HOUR, 1000, 1000), "a jump that was to be followed was not"
