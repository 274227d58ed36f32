"""Tailable cursors, with and without awaitData."""

import threading
import time

import pytest
from pymongo import CursorType
from pymongo.errors import OperationFailure


@pytest.fixture
def ring(database):
    return database.create_collection("ring", capped=True, size=16384)


def test_a_tailable_cursor_stays_open_at_the_end(ring):
    ring.insert_many([{"_id": i} for i in range(5)])
    cursor = ring.find(cursor_type=CursorType.TAILABLE)
    assert [document["_id"] for document in cursor] == [0, 1, 2, 3, 4]
    assert cursor.alive
    ring.insert_one({"_id": 5})
    assert next(cursor)["_id"] == 5
    with pytest.raises(StopIteration):
        next(cursor)
    assert cursor.alive
    cursor.close()


def test_a_filter_applies_to_what_comes(ring):
    ring.insert_one({"_id": 0, "a": 1})
    cursor = ring.find({"a": 1}, cursor_type=CursorType.TAILABLE)
    assert next(cursor)["_id"] == 0
    ring.insert_many([{"_id": 1, "a": 2}, {"_id": 2, "a": 1}])
    assert next(cursor)["_id"] == 2


def test_an_awaiting_cursor_is_woken_by_an_insert(ring):
    ring.insert_one({"_id": 0})
    cursor = ring.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(20_000)
    assert next(cursor)["_id"] == 0
    timer = threading.Timer(0.3, lambda: ring.insert_one({"_id": 1}))
    begun = time.monotonic()
    timer.start()
    assert next(cursor)["_id"] == 1
    assert time.monotonic() - begun < 15, "woken, not timed out"
    cursor.close()


def test_an_awaiting_cursor_gives_up_after_its_time(ring):
    ring.insert_one({"_id": 0})
    cursor = ring.find(cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(200)
    assert next(cursor)["_id"] == 0
    begun = time.monotonic()
    with pytest.raises(StopIteration):
        next(cursor)
    assert 0.15 < time.monotonic() - begun < 10 and cursor.alive


def test_a_cursor_that_is_overtaken_loses_its_position(ring):
    ring.insert_many([{"_id": i, "pad": "x" * 100} for i in range(50)])
    # The driver swallows this error of tailable cursors, so by hand.
    cursor_id = ring.database.command({"find": "ring", "tailable": True, "batchSize": 2})["cursor"]["id"]
    ring.insert_many([{"_id": 1000 + i, "pad": "x" * 1000} for i in range(400)])
    with pytest.raises(OperationFailure) as caught:
        for _ in range(1000):
            ring.database.command({"getMore": cursor_id, "collection": "ring", "batchSize": 2})
    assert caught.value.code == 136 and caught.value.details["codeName"] == "CappedPositionLost"


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"awaitData": True}, 9),
        ({"tailable": True, "sort": {"a": 1}}, 2),
        ({"tailable": True, "sort": {"$natural": -1}}, 2),
    ],
)
def test_refused(ring, fields, code):
    with pytest.raises(OperationFailure) as caught:
        ring.database.command({"find": "ring", **fields})
    assert caught.value.code == code


def test_only_capped_collections_can_be_tailed(database):
    database["plain"].insert_one({})
    with pytest.raises(OperationFailure) as caught:
        database.command({"find": "plain", "tailable": True})
    assert caught.value.code == 2


def test_max_time_is_for_awaiting_cursors_only(ring):
    ring.insert_many([{"_id": i} for i in range(5)])
    reply = ring.database.command({"find": "ring", "batchSize": 1})
    with pytest.raises(OperationFailure) as caught:
        ring.database.command({"getMore": reply["cursor"]["id"], "collection": "ring", "maxTimeMS": 100})
    assert caught.value.code == 2


def test_killing_a_cursor_ends_its_wait(ring):
    ring.insert_one({"_id": 0})
    reply = ring.database.command({"find": "ring", "tailable": True, "awaitData": True})
    cursor_id = reply["cursor"]["id"]
    threading.Timer(0.3, lambda: ring.database.command({"killCursors": "ring", "cursors": [cursor_id]})).start()
    with pytest.raises(OperationFailure) as caught:
        ring.database.command({"getMore": cursor_id, "collection": "ring", "maxTimeMS": 20_000})
    assert caught.value.code == 237


@pytest.mark.parametrize("cursor_type", [CursorType.TAILABLE, CursorType.TAILABLE_AWAIT])
def test_a_cursor_on_an_empty_collection_is_closed_at_once(ring, cursor_type):
    cursor = ring.find(cursor_type=cursor_type)
    assert next(cursor, None) is None and not cursor.alive
    assert ring.database.command({"find": "nothing", "tailable": True})["cursor"]["id"] == 0
    ring.insert_one({"_id": 0, "a": 1})
    cursor = ring.find({"a": 2}, cursor_type=cursor_type)
    assert next(cursor, None) is None and cursor.alive, "nothing matches, but there is something"
    cursor.close()


def test_who_opens_another_cursor_sees_the_first_document(ring):
    threading.Timer(0.3, lambda: ring.insert_one({"_id": 0})).start()
    found, end = None, time.monotonic() + 20
    while found is None and time.monotonic() < end:
        found = next(ring.find(cursor_type=CursorType.TAILABLE_AWAIT), None)
        time.sleep(0.01)
    assert found == {"_id": 0}
