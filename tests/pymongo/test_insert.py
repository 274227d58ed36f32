"""insert: results, write errors, order, sizes, identifiers, write concerns."""

import datetime
import uuid

import bson
import pytest
from bson.binary import UuidRepresentation
from pymongo import InsertOne, WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError


def test_one_and_many(collection):
    result = collection.insert_one({"a": 1})
    assert isinstance(result.inserted_id, bson.ObjectId)
    assert collection.find_one() == {"_id": result.inserted_id, "a": 1}
    result = collection.insert_many([{"_id": i} for i in range(1000)])
    assert result.inserted_ids == list(range(1000))
    assert collection.count_documents({}) == 1001


def test_the_server_makes_an_identifier_and_puts_it_first(collection):
    raw = bson.encode({"z": 1, "y": 2})
    reply = collection.database.command("insert", collection.name, documents=[bson.raw_bson.RawBSONDocument(raw)])
    assert reply["n"] == 1
    stored = collection.find_one()
    assert list(stored) == ["_id", "z", "y"]
    assert isinstance(stored["_id"], bson.ObjectId)


def test_an_identifier_is_moved_to_the_front(collection):
    collection.database.command("insert", collection.name, documents=[{"a": 1, "_id": 5}])
    assert list(collection.find_one()) == ["_id", "a"]


def test_every_type_comes_back(collection):
    document = {
        "_id": bson.ObjectId(),
        "double": 1.5,
        "string": "snowman \u2603",
        "object": {"a": {"b": []}},
        "array": [1, [2, {"c": 3}], None],
        "binary": b"\x00\xff",
        "uuid": bson.Binary.from_uuid(uuid.uuid4(), UuidRepresentation.STANDARD),
        "bool": True,
        "date": datetime.datetime(1900, 1, 1),
        "late": datetime.datetime(9999, 12, 31),
        "null": None,
        "regex": bson.Regex("^a", "i"),
        "code": bson.Code("function() {}"),
        "int": 7,
        "timestamp": bson.Timestamp(5, 6),
        "long": bson.Int64(1 << 40),
        "decimal": bson.Decimal128("1.10"),
        "min": bson.MinKey(),
        "max": bson.MaxKey(),
        "infinity": float("inf"),
    }
    collection.insert_one(document)
    assert collection.find_one() == document
    raw = bson.encode(document)
    assert bson.encode(collection.find_one()) == raw


def test_a_duplicate_identifier(collection):
    collection.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError) as caught:
        collection.insert_one({"_id": 1})
    assert caught.value.code == 11000
    details = caught.value.details
    assert details["keyPattern"] == {"_id": 1}
    assert details["keyValue"] == {"_id": 1}
    assert "E11000 duplicate key error collection: " in details["errmsg"]
    assert "index: _id_ dup key: { _id: 1 }" in details["errmsg"]


def test_ordered_stops_at_the_first_error(collection):
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 1}, {"_id": 3}])
    assert caught.value.details["nInserted"] == 2
    errors = caught.value.details["writeErrors"]
    assert [(error["index"], error["code"]) for error in errors] == [(2, 11000)]
    assert [thing["_id"] for thing in collection.find().sort("_id")] == [1, 2]


def test_unordered_goes_on(collection):
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": 2}, {"_id": 3}], ordered=False)
    assert caught.value.details["nInserted"] == 3
    assert [error["index"] for error in caught.value.details["writeErrors"]] == [1, 3]
    assert collection.count_documents({}) == 3


def test_one_and_1_point_0_are_the_same_identifier(collection):
    collection.insert_one({"_id": 1})
    for same in [1.0, bson.Int64(1), bson.Decimal128("1.00")]:
        with pytest.raises(DuplicateKeyError):
            collection.insert_one({"_id": same})


@pytest.mark.parametrize(
    "identifier, code", [([1], 53), (bson.Regex("a"), 53)], ids=["array", "regex"]
)
def test_values_that_are_no_identifiers(collection, identifier, code):
    with pytest.raises(WriteError) as caught:
        collection.insert_one({"_id": identifier})
    assert caught.value.code == code


def test_a_document_of_16_mebibytes_and_one_more_byte(collection):
    overhead = len(bson.encode({"_id": 1, "text": ""}))
    largest = {"_id": 1, "text": "x" * (16 * 1024 * 1024 - overhead)}
    collection.insert_one(largest)
    assert len(collection.find_one()["text"]) == len(largest["text"])
    # PyMongo refuses larger documents by itself; a raw command lets the server do it.
    documents = [{"_id": 2, "text": largest["text"] + "x"}]
    with pytest.raises(Exception) as caught:
        reply = collection.database.command("insert", collection.name, documents=documents)
        for error in reply["writeErrors"]:
            raise OperationFailure(error["errmsg"], error["code"])
    assert getattr(caught.value, "code", None) in (2, 10334), caught.value
    assert collection.count_documents({}) == 1


def test_unacknowledged_writes_arrive(collection):
    silent = collection.with_options(write_concern=WriteConcern(w=0))
    for i in range(100):
        silent.insert_one({"_id": i})
    deadline = 200
    while collection.count_documents({}) < 100 and deadline:
        deadline -= 1
    assert collection.count_documents({}) == 100


@pytest.mark.parametrize("concern", [{"w": 1}, {"w": "majority"}, {"w": 1, "j": True}, {"w": 1, "j": False}])
def test_write_concerns_are_accepted(collection, concern):
    collection.with_options(write_concern=WriteConcern(**concern)).insert_one({"a": 1})
    assert collection.count_documents({}) == 1


def test_two_members_cannot_be_waited_for(collection):
    reply = collection.database.command("insert", collection.name, documents=[{}], writeConcern={"w": 2})
    assert (reply["n"], reply["writeConcernError"]["code"]) == (1, 100)
    assert reply["writeConcernError"]["codeName"] == "UnsatisfiableWriteConcern"
    assert collection.count_documents({}) == 1


@pytest.mark.parametrize("field, value, code", [("unknownField", 1, 40415), ("ordered", "yes", 14)])
def test_wrong_fields(collection, field, value, code):
    with pytest.raises(OperationFailure) as caught:
        collection.database.command({"insert": collection.name, "documents": [{}], field: value})
    assert caught.value.code == code


def test_no_documents_and_too_many(collection):
    for documents in [[], [{}] * 100_001]:
        with pytest.raises(OperationFailure) as caught:
            collection.database.command("insert", collection.name, documents=documents)
        assert caught.value.code == 16
        assert caught.value.details["codeName"] == "InvalidLength"


def test_a_batch_of_100_000(collection):
    result = collection.bulk_write([InsertOne({"_id": i}) for i in range(100_000)], ordered=False)
    assert result.inserted_count == 100_000
    assert collection.count_documents({}) == 100_000


@pytest.mark.parametrize("name", ["", ".a"])
def test_bad_names(database, name):
    with pytest.raises(OperationFailure) as caught:
        database.command("insert", name, documents=[{}])
    assert caught.value.code == 73
    assert caught.value.details["codeName"] == "InvalidNamespace"
