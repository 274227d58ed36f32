"""delete, findAndModify, count, distinct."""

import bson
import pytest
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, OperationFailure


@pytest.fixture
def numbers(collection):
    collection.insert_many([{"_id": i, "a": i % 3, "t": ["x", i % 2]} for i in range(30)])
    return collection


def test_delete_one_and_many(numbers):
    assert numbers.delete_one({"a": 1}).deleted_count == 1
    assert numbers.delete_many({"a": 1}).deleted_count == 9
    assert numbers.delete_many({"a": 1}).deleted_count == 0
    assert numbers.delete_many({}).deleted_count == 20
    assert numbers.count_documents({}) == 0


def test_delete_by_index_and_hint(numbers):
    numbers.create_index("a")
    assert numbers.delete_many({"a": 2}, hint="a_1").deleted_count == 10
    with pytest.raises(OperationFailure) as caught:
        numbers.delete_many({"a": 2}, hint="absent")
    assert caught.value.code == 2


def test_several_deletes_in_one_command(numbers):
    deletes = [{"q": {"a": 0}, "limit": 0}, {"q": {"a": 1}, "limit": 1}]
    assert numbers.database.command("delete", numbers.name, deletes=deletes)["n"] == 11


@pytest.mark.parametrize(
    "delete, code",
    [({"q": {}}, 40414), ({"q": {}, "limit": 2}, 9), ({"q": {"$bad": 1}, "limit": 0}, 2), ({"q": 5, "limit": 0}, 14)],
)
def test_refused_deletes(numbers, delete, code):
    try:
        reply = numbers.database.command("delete", numbers.name, deletes=[delete])
        assert reply["writeErrors"][0]["code"] == code, reply
    except OperationFailure as error:
        assert error.code == code, error.details
    assert numbers.count_documents({}) == 30


def test_find_and_modify_update(numbers):
    before = numbers.find_one_and_update({"a": 1}, {"$set": {"hit": 1}}, sort=[("_id", -1)])
    assert before == {"_id": 28, "a": 1, "t": ["x", 0]}
    after = numbers.find_one_and_update({"_id": 28}, {"$inc": {"hit": 1}}, return_document=ReturnDocument.AFTER)
    assert after["hit"] == 2
    shown = numbers.find_one_and_update({"_id": 28}, {"$inc": {"hit": 1}}, projection={"hit": 1, "_id": 0})
    assert shown == {"hit": 2}
    assert numbers.find_one_and_update({"_id": 99}, {"$set": {"a": 1}}) is None


def test_find_and_modify_upsert(numbers):
    assert numbers.find_one_and_update({"_id": 99}, {"$set": {"z": 1}}, upsert=True) is None
    after = numbers.find_one_and_update(
        {"_id": 100}, {"$set": {"z": 1}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    assert after == {"_id": 100, "z": 1}
    reply = numbers.database.command(
        "findAndModify", numbers.name, query={"_id": 101}, update={"$set": {"z": 1}}, upsert=True
    )
    assert reply["lastErrorObject"] == {"n": 1, "updatedExisting": False, "upserted": 101}
    assert reply["value"] is None


def test_find_and_modify_replace_and_remove(numbers):
    after = numbers.find_one_and_replace({"_id": 1}, {"b": 1}, return_document=ReturnDocument.AFTER)
    assert after == {"_id": 1, "b": 1}
    assert numbers.find_one_and_delete({"a": 0}, sort=[("_id", 1)])["_id"] == 0
    assert numbers.find_one({"_id": 0}) is None
    reply = numbers.database.command("findAndModify", numbers.name, query={"_id": 77}, remove=True)
    assert reply["lastErrorObject"] == {"n": 0} and reply["value"] is None


def test_find_and_modify_pipeline_and_array_filters(numbers):
    after = numbers.find_one_and_update(
        {"_id": 3}, [{"$set": {"twice": {"$multiply": ["$_id", 2]}}}], return_document=ReturnDocument.AFTER
    )
    assert after["twice"] == 6
    after = numbers.find_one_and_update(
        {"_id": 3}, {"$set": {"t.$[s]": "y"}}, array_filters=[{"s": "x"}], return_document=ReturnDocument.AFTER
    )
    assert after["t"] == ["y", 1]


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"query": {}}, 9),
        ({"remove": True, "update": {"$set": {"a": 1}}}, 9),
        ({"remove": True, "new": True}, 9),
        ({"remove": True, "upsert": True}, 9),
        ({"update": {"$bad": {"a": 1}}}, 9),
        ({"update": {"$set": {"_id": 3}}, "query": {"_id": 1}}, 66),
        ({"update": {"$set": {"a": 1}}, "unknownField": 1}, 40415),
    ],
)
def test_refused_find_and_modify(numbers, fields, code):
    with pytest.raises(OperationFailure) as caught:
        numbers.database.command({"findAndModify": numbers.name, **fields})
    assert caught.value.code == code, caught.value.details


def test_find_and_modify_keeps_unique_indexes(numbers):
    numbers.create_index("u", unique=True, sparse=True)
    numbers.update_one({"_id": 1}, {"$set": {"u": 1}})
    with pytest.raises(DuplicateKeyError):
        numbers.find_one_and_update({"_id": 2}, {"$set": {"u": 1}})


def test_counts(numbers):
    assert numbers.estimated_document_count() == 30
    assert numbers.count_documents({"a": 1}) == 10
    count = lambda **fields: numbers.database.command("count", numbers.name, **fields)["n"]
    assert count() == 30
    assert count(query={"a": 1}) == 10
    assert count(query={"a": 1}, skip=3) == 7
    assert count(query={"a": 1}, limit=4) == 4
    assert count(query={"a": 1}, skip=8, limit=4) == 2
    assert count(query={"_id": {"$gte": 10, "$lt": 20}}, hint="_id_") == 10
    assert numbers.database.command("count", "absent")["n"] == 0


def test_distinct(numbers):
    assert sorted(numbers.distinct("a")) == [0, 1, 2]
    assert numbers.distinct("a", {"_id": {"$lt": 2}}) == [0, 1]
    assert set(numbers.distinct("t")) == {"x", 0, 1}
    assert numbers.distinct("missing") == []
    numbers.create_index("a")
    assert numbers.distinct("a") == [0, 1, 2]


def test_distinct_sees_equal_numbers_as_one(collection):
    collection.insert_many([{"a": 1}, {"a": 1.0}, {"a": bson.Decimal128("1")}, {"a": {"b": 1}}, {"a": [{"b": 2}]}])
    assert len(collection.distinct("a")) == 3
    assert sorted(collection.distinct("a.b")) == [1, 2]
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("distinct", collection.name, key=5)
    assert caught.value.code == 14
