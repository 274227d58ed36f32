"""What change streams tell of transactions, and what only expanded events tell."""

import pytest
from bson import Int64
from pymongo import WriteConcern

from change_events import take

SYNCED = WriteConcern(1, j=True)


def commit_something(client, database):
    """Six changes of two collections in one transaction; the session's id and the number of the transaction."""
    first, second = database["first"], database["second"]
    with client.start_session() as session:
        with session.start_transaction():
            first.insert_one({"_id": 1, "a": 1}, session=session)
            second.insert_one({"_id": "s"}, session=session)
            first.update_one({"_id": 0}, {"$set": {"a": 5}}, session=session)
            second.replace_one({"_id": "old"}, {"b": 1}, session=session)
            second.delete_one({"_id": "gone"}, session=session)
            first.insert_one({"_id": 2}, session=session)
            database["before"].insert_one({"_id": "outside"})
        return session.session_id


EXPECTED = [
    ("insert", "first", 1),
    ("insert", "second", "s"),
    ("update", "first", 0),
    ("replace", "second", "old"),
    ("delete", "second", "gone"),
    ("insert", "first", 2),
]


@pytest.fixture
def filled(database):
    database["first"].insert_one({"_id": 0, "a": 0})
    database["second"].insert_many([{"_id": "old"}, {"_id": "gone"}])
    return database


def told(events):
    return [(event["operationType"], event["ns"]["coll"], event["documentKey"]["_id"]) for event in events]


def test_a_transaction_is_told_in_order_and_as_one(client, filled):
    with filled.watch(max_await_time_ms=100) as stream:
        session = commit_something(client, filled)
        filled["after"].insert_one({"_id": "last"})
        outside, *events, last = take(stream, 8)
    # What was committed first comes first, though the transaction had begun before.
    assert told([outside]) == [("insert", "before", "outside")] and told([last]) == [("insert", "after", "last")]
    assert told(events) == EXPECTED
    assert "lsid" not in outside and "txnNumber" not in last
    assert all(event["lsid"]["id"] == session["id"] for event in events)
    assert len({event["txnNumber"] for event in events}) == 1 and isinstance(events[0]["txnNumber"], (int, Int64))
    assert len({event["clusterTime"] for event in events}) == 1
    assert outside["clusterTime"] < events[0]["clusterTime"] < last["clusterTime"]
    tokens = [event["_id"]["_data"] for event in (outside, *events, last)]
    assert tokens == sorted(tokens) and len(set(tokens)) == 8
    updated = next(event for event in events if event["documentKey"] == {"_id": 0})
    assert updated["updateDescription"]["updatedFields"] == {"a": 5}


def test_a_collection_is_told_its_part_only(client, filled):
    with filled["second"].watch(max_await_time_ms=100) as stream:
        commit_something(client, filled)
        assert told(take(stream, 3)) == [change for change in EXPECTED if change[1] == "second"]
        assert stream.try_next() is None


@pytest.mark.parametrize("way", ["resume_after", "start_after"])
def test_resuming_within_a_transaction(client, filled, restart, way):
    with filled.watch(max_await_time_ms=100) as stream:
        commit_something(client, filled)
        filled["after"].insert_one({"_id": "last"})
        events = take(stream, 8)
    restart()
    for seen, event in enumerate(events, start=1):
        with filled.watch(max_await_time_ms=100, **{way: event["_id"]}) as stream:
            rest = take(stream, 8 - seen)
            assert [event["_id"] for event in rest] == [event["_id"] for event in events[seen:]]
            assert told(rest) == told(events[seen:])


def test_an_aborted_transaction_is_not_told(client, filled):
    with filled.watch(max_await_time_ms=100) as stream:
        with client.start_session() as session:
            session.start_transaction()
            filled["first"].insert_one({"_id": 9}, session=session)
            session.abort_transaction()
        filled["first"].insert_one({"_id": 10})
        assert told(take(stream, 1)) == [("insert", "first", 10)]


def test_a_transaction_of_several_oplog_entries(client, filled):
    payload = b"x" * 700_000
    with filled["first"].watch(max_await_time_ms=100) as stream:
        with client.start_session() as session, session.start_transaction():
            for number in range(100, 120):
                filled["first"].insert_one({"_id": number, "b": payload}, session=session)
        events = take(stream, 20)
    assert [event["documentKey"]["_id"] for event in events] == list(range(100, 120))
    assert len({event["clusterTime"] for event in events}) == 1
    middle = 13
    with filled["first"].watch(max_await_time_ms=100, resume_after=events[middle]["_id"]) as stream:
        rest = take(stream, 20 - middle - 1)
        assert [event["_id"] for event in rest] == [event["_id"] for event in events[middle + 1 :]]


def test_a_large_event_of_a_transaction_is_split(client, database):
    images = database.create_collection("images", changeStreamPreAndPostImages={"enabled": True})
    images.insert_many([{"_id": 0}, {"_id": 1, "b": b"x" * (9 << 20)}, {"_id": 2}])
    wanted = {"full_document": "required", "full_document_before_change": "required", "max_await_time_ms": 100}
    pipeline = [{"$changeStreamSplitLargeEvent": {}}]
    with images.watch(pipeline, **wanted) as stream:
        with client.start_session() as session, session.start_transaction():
            images.update_one({"_id": 0}, {"$set": {"a": 1}}, session=session)
            images.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
            images.delete_one({"_id": 2}, session=session)
        updated, first, second, deleted = take(stream, 4)
    assert [event.get("splitEvent") for event in (updated, first, second, deleted)] == [
        None,
        {"fragment": 1, "of": 2},
        {"fragment": 2, "of": 2},
        None,
    ]
    both = {**first, **second}
    assert both["fullDocument"]["a"] == 1 and "a" not in both["fullDocumentBeforeChange"]
    for token, expected in ((updated["_id"], [1, 2, None]), (first["_id"], [2, None]), (second["_id"], [None])):
        with images.watch(pipeline, resume_after=token, **wanted) as stream:
            rest = take(stream, len(expected))
            assert [event.get("splitEvent", {}).get("fragment") for event in rest] == expected


def test_expanded_events_of_documents(client, database):
    things = database["things"]
    things.insert_one({"_id": 1, "a": {"0": 1, "b": [1, {"c": 2}]}, "0": 5})
    uuid = next(database.list_collections(filter={"name": "things"}))["info"]["uuid"]
    with database.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        things.update_one({"_id": 1}, {"$set": {"a.0": 2, "a.b.1.c": 3, "0": 6}})
        things.delete_one({"_id": 1})
        with client.start_session() as session, session.start_transaction():
            things.insert_one({"_id": 2}, session=session)
        updated, deleted, inserted = take(stream, 3)
    assert updated["updateDescription"]["updatedFields"] == {"a.0": 2, "a.b.1.c": 3, "0": 6}
    # A numeric name below the top could be a place in an array; the others can be read in one way only.
    assert updated["updateDescription"]["disambiguatedPaths"] == {"a.0": ["a", "0"]}
    assert all(event["collectionUUID"] == uuid for event in (updated, deleted, inserted))


def test_expanded_events_of_definitions(client):
    database = client["t_expanded_definitions"]
    client.drop_database(database.name)
    with database.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        database.create_collection("a", capped=True, size=4096)
        database["a"].create_index([("x", 1)], name="by_x", unique=True)
        database.create_collection("b")
        database["a"].rename("b", dropTarget=True)
        database["b"].drop_index("by_x")
        database["b"].drop()
        database.create_collection("c")
        client.drop_database(database.name)
        events = take(stream, 10)
    kinds = [event["operationType"] for event in events]
    assert kinds == [
        "create", "createIndexes", "create", "rename", "dropIndexes", "drop", "create", "drop", "dropDatabase", "invalidate",
    ]  # fmt: skip
    created, indexed, target, renamed, unindexed, dropped = events[:6]
    assert created["operationDescription"]["capped"] is True and created["operationDescription"]["idIndex"]["name"] == "_id_"
    index = {"v": 2, "key": {"x": 1}, "name": "by_x", "unique": True}
    assert indexed["operationDescription"] == {"indexes": [index]} == unindexed["operationDescription"]
    assert renamed["ns"]["coll"] == "a" and renamed["to"]["coll"] == "b"
    description = renamed["operationDescription"]
    assert description == {"to": {"db": database.name, "coll": "b"}, "dropTarget": target["collectionUUID"]}
    assert dropped["collectionUUID"] == created["collectionUUID"] == renamed["collectionUUID"] != target["collectionUUID"]
    assert events[8]["ns"] == {"db": database.name}


def test_each_change_of_a_document_is_told(client, filled, kill_and_restart):
    first = filled["first"]
    first.insert_many([{"_id": "kept", "n": 0, "text": "x" * 100}, {"_id": "gone"}])
    with filled.watch(max_await_time_ms=100) as stream:
        with client.start_session() as session, session.start_transaction(write_concern=SYNCED):
            first.insert_one({"_id": 1, "n": 1}, session=session)
            first.update_one({"_id": "kept"}, {"$inc": {"n": 1}}, session=session)
            first.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
            first.insert_one({"_id": 2}, session=session)
            first.replace_one({"_id": "kept"}, {"n": 7}, session=session)
            first.update_one({"_id": "gone"}, {"$set": {"n": 1}}, session=session)
            first.delete_one({"_id": 2}, session=session)
            first.update_one({"_id": "kept"}, {"$set": {"m": 8}}, session=session)
            first.delete_one({"_id": "gone"}, session=session)
        events = take(stream, 9)
    assert [(event["operationType"], event["documentKey"]["_id"]) for event in events] == [
        ("insert", 1),
        ("update", "kept"),
        ("update", 1),
        ("insert", 2),
        ("replace", "kept"),
        ("update", "gone"),
        ("delete", 2),
        ("update", "kept"),
        ("delete", "gone"),
    ]
    assert events[0]["fullDocument"] == {"_id": 1, "n": 1}
    updated = [event["updateDescription"]["updatedFields"] for event in events if event["operationType"] == "update"]
    assert updated == [{"n": 1}, {"n": 2}, {"n": 1}, {"m": 8}]
    assert events[4]["fullDocument"] == {"_id": "kept", "n": 7}
    left = [{"_id": 0, "a": 0}, {"_id": "kept", "n": 7, "m": 8}, {"_id": 1, "n": 2}]
    assert list(first.find()) == left
    entry = client.local["oplog.rs"].find_one({"o.applyOps": {"$exists": True}}, sort=[("$natural", -1)])
    operations = entry["o"]["applyOps"]
    assert [operation["op"] for operation in operations] == ["i", "u", "u", "i", "u", "u", "d", "u", "d"]
    assert not any("net" in operation or "step" in operation for operation in operations)
    kill_and_restart()
    assert list(first.find()) == left
    with filled.watch(max_await_time_ms=100, resume_after=events[4]["_id"]) as stream:
        assert [event["_id"] for event in take(stream, 4)] == [event["_id"] for event in events[5:]]


def test_a_document_inserted_and_deleted_is_told(client, filled):
    with filled["first"].watch(max_await_time_ms=100) as stream:
        with client.start_session() as session, session.start_transaction():
            filled["first"].insert_one({"_id": 5}, session=session)
            filled["first"].delete_one({"_id": 5}, session=session)
        assert [event["operationType"] for event in take(stream, 2)] == ["insert", "delete"]


def test_a_spilled_transaction_is_told_in_order(client, filled, kill_and_restart):
    """More than is kept in memory (16 MiB): two collections in turn, documents changed again long after."""
    payload, expected = b"x" * 900_000, []
    with filled.watch(max_await_time_ms=100) as stream:
        with client.start_session() as session, session.start_transaction(write_concern=SYNCED):
            for number in range(40):
                # Record ids follow the order of inserts, the changes of documents that there were do not.
                collection = filled["second" if number % 3 == 0 else "first"]
                collection.insert_one({"_id": 1000 + number, "b": payload}, session=session)
                expected.append(("insert", collection.name, 1000 + number))
                if number in (3, 30):
                    filled["first"].update_one({"_id": 0}, {"$inc": {"a": 1}}, session=session)
                    expected.append(("update", "first", 0))
                if number in (20, 35):
                    filled["second"].update_one({"_id": 1000}, {"$inc": {"c": 1}}, session=session)
                    expected.append(("update", "second", 1000))
        events = take(stream, len(expected))
    assert told(events) == expected
    updated = [event["updateDescription"]["updatedFields"] for event in events if event["operationType"] == "update"]
    assert updated == [{"a": 1}, {"c": 1}, {"a": 2}, {"c": 2}]
    assert "c" not in events[0]["fullDocument"]
    kill_and_restart()
    assert filled["first"].find_one({"_id": 0}) == {"_id": 0, "a": 2}
    assert filled["second"].find_one({"_id": 1000}, {"b": 0}) == {"_id": 1000, "c": 2}
    assert filled["first"].count_documents({}) == 27 and filled["second"].count_documents({}) == 16
