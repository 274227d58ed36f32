"""Indexes: single, compound, multikey, unique, sparse, partial, TTL; building, dropping, hiding, using."""

import datetime
import time

import bson
import pytest
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure


def test_create_and_list(collection):
    assert collection.create_index([("a", 1), ("b", -1)]) == "a_1_b_-1"
    assert collection.create_index("c", name="by_c") == "by_c"
    assert [index["name"] for index in collection.list_indexes()] == ["_id_", "a_1_b_-1", "by_c"]
    information = collection.index_information()
    assert information["_id_"]["key"] == [("_id", 1)]
    assert information["a_1_b_-1"] == {"v": 2, "key": [("a", 1), ("b", -1)]}


def test_the_reply_counts(collection):
    command = {"createIndexes": collection.name, "indexes": [{"key": {"a": 1}, "name": "a_1"}]}
    reply = collection.database.command(command)
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (1, 2)
    assert reply["createdCollectionAutomatically"] is True
    reply = collection.database.command(command)
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (2, 2)
    assert reply["note"] == "all indexes already exist"


def test_an_index_over_existing_documents(collection):
    collection.insert_many([{"_id": i, "a": i % 7} for i in range(5000)])
    collection.create_index("a")
    assert collection.find({"a": 3}).hint("a_1").explain()["executionStats"]["totalKeysExamined"] in (714, 715)
    assert len(list(collection.find({"a": 3}).hint("a_1"))) == 714


def test_multikey(collection):
    collection.insert_many([{"_id": 1, "a": [1, 2, 2]}, {"_id": 2, "a": [{"b": 5}]}, {"_id": 3, "a": []}])
    collection.create_index("a")
    collection.create_index("a.b")
    assert [d["_id"] for d in collection.find({"a": 2}).hint("a_1")] == [1]
    assert [d["_id"] for d in collection.find({"a.b": 5}).hint("a.b_1")] == [2]
    assert [d["_id"] for d in collection.find({"a": []}).hint("a_1")] == [3]
    with pytest.raises(OperationFailure) as caught:
        collection.create_index([("a", 1), ("c", 1)])
        collection.insert_one({"a": [1], "c": [2]})
    assert caught.value.code == 171
    assert caught.value.details.get("codeName", "CannotIndexParallelArrays") == "CannotIndexParallelArrays"


def test_unique(collection):
    collection.create_index("a", unique=True)
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
    for duplicate in [{"a": 1}, {"a": 1.0}, {}, {"a": None}]:
        with pytest.raises(DuplicateKeyError) as caught:
            collection.insert_one(duplicate)
        assert caught.value.details["keyPattern"] == {"a": 1}
    with pytest.raises(DuplicateKeyError) as caught:
        collection.insert_one({"a": 1})
    assert caught.value.details["keyValue"] == {"a": 1}
    assert "index: a_1 dup key: { a: 1 }" in caught.value.details["errmsg"]


def test_a_unique_index_over_duplicates_fails(collection):
    collection.insert_many([{"a": 1}, {"a": 1}])
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("a", unique=True)
    assert caught.value.code == 11000
    assert list(collection.index_information()) == ["_id_"]


def test_unique_multikey(collection):
    collection.create_index("a", unique=True)
    collection.insert_one({"_id": 1, "a": [1, 2]})
    collection.insert_one({"_id": 2, "a": [3, 3]})
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"_id": 3, "a": [2, 5]})


def test_sparse(collection):
    collection.create_index("a", unique=True, sparse=True)
    collection.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3, "a": 1}])
    assert [d["_id"] for d in collection.find().hint("a_1")] == [3]
    assert collection.count_documents({"a": None}) == 2
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 1})


def test_partial(collection):
    collection.create_index("a", unique=True, partialFilterExpression={"kind": "x"})
    collection.insert_many([{"_id": 1, "a": 1, "kind": "x"}, {"_id": 2, "a": 1}, {"_id": 3, "a": 1, "kind": "y"}])
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 1, "kind": "x"})
    with pytest.raises(DuplicateKeyError):
        collection.update_one({"_id": 3}, {"$set": {"kind": "x"}})
    plan = collection.find({"a": 1, "kind": "x"}).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "FETCH"
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert collection.count_documents({"a": 1}) == 3


def test_updates_move_keys(collection):
    collection.create_index("a")
    collection.insert_many([{"_id": i, "a": i} for i in range(100)])
    collection.update_many({}, {"$mul": {"a": -1}})
    assert [d["_id"] for d in collection.find().sort("a", 1).hint("a_1").limit(3)] == [99, 98, 97]
    collection.delete_many({"a": {"$lt": -10}})
    assert len(list(collection.find().hint("a_1"))) == 11


def test_drop(collection):
    collection.create_indexes([IndexModel("a"), IndexModel("b"), IndexModel("c"), IndexModel([("d", 1), ("e", 1)])])
    collection.drop_index("a_1")
    collection.drop_index([("d", 1), ("e", 1)])
    reply = collection.database.command("dropIndexes", collection.name, index=["b_1"])
    assert reply["nIndexesWas"] == 3
    collection.drop_indexes()
    assert list(collection.index_information()) == ["_id_"]
    for wrong, code in [("absent", 27), ("_id_", 72)]:
        with pytest.raises(OperationFailure) as caught:
            collection.drop_index(wrong)
        assert caught.value.code == code, caught.value.details


def test_hidden(collection):
    collection.create_index("a")
    collection.insert_many([{"a": i} for i in range(10)])
    reply = collection.database.command("collMod", collection.name, index={"name": "a_1", "hidden": True})
    assert (reply["hidden_old"], reply["hidden_new"]) == (False, True)
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert collection.index_information()["a_1"]["hidden"] is True
    collection.database.command("collMod", collection.name, index={"name": "a_1", "hidden": False})
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "FETCH"


@pytest.mark.parametrize(
    "index, code",
    [
        ({"key": {"a": 1}}, None),
        ({"name": "a_1"}, None),
        ({"key": {}, "name": "x"}, 67),
        ({"key": {"a": 0}, "name": "x"}, 67),
        ({"key": {"a": "unknown"}, "name": "x"}, 67),
        ({"key": {"a": 1}, "name": "x", "unknownOption": 1}, 197),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": "soon"}, None),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": -1}, 67),
        ({"key": {"a": 1, "b": 1}, "name": "x", "expireAfterSeconds": 5}, 67),
        ({"key": {"a": 1}, "name": "x", "sparse": True, "partialFilterExpression": {"a": 1}}, None),
        ({"key": {"a": 1}, "name": "x", "partialFilterExpression": {"a": {"$ne": 1}}}, 67),
        ({"key": {"a": "text"}, "name": "x"}, None),
        ({"key": {"a": "2dsphere"}, "name": "x"}, None),
    ],
)
def test_refused(collection, index, code):
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("createIndexes", collection.name, indexes=[index])
    assert caught.value.details["codeName"]
    if code is not None:
        assert caught.value.code == code, caught.value.details


def test_conflicting_definitions(collection):
    collection.create_index("a", name="x")
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("b", name="x")
    assert caught.value.code == 86 and caught.value.details["codeName"] == "IndexKeySpecsConflict"
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("a", name="y")
    assert caught.value.code == 85 and caught.value.details["codeName"] == "IndexOptionsConflict"


def test_time_to_live(database):
    things = database["expiring"]
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    things.create_index("at", expireAfterSeconds=1)
    kept = [
        {"_id": "future", "at": now + hour},
        {"_id": "no date", "at": "text"},
        {"_id": "missing"},
        {"_id": "far", "at": datetime.datetime(9999, 1, 1)},
    ]
    gone = [{"_id": "past", "at": now - hour}, {"_id": "old", "at": datetime.datetime(1900, 1, 1)},
            {"_id": "array", "at": [now + hour, now - hour]}]
    things.insert_many(kept + gone)
    deadline = time.monotonic() + 75
    while things.count_documents({}) > len(kept) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert {d["_id"] for d in things.find()} == {d["_id"] for d in kept}
    reply = database.command("collMod", "expiring", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 7200})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (1, 7200)
    assert things.index_information()["at_1"]["expireAfterSeconds"] == 7200


def test_an_index_is_there_after_a_crash(collection, kill_and_restart):
    collection.insert_many([{"_id": i, "a": bson.Int64(i)} for i in range(1000)])
    collection.create_index("a", unique=True)
    kill_and_restart()
    assert collection.find_one({"a": 500})["_id"] == 500
    assert collection.find({"a": 500}).explain()["executionStats"]["totalDocsExamined"] == 1
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 500})
