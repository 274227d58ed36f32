"""find, getMore, killCursors: what matches, in which order, in which batches."""

import re

import bson
import pytest
from pymongo import ASCENDING, DESCENDING, CursorType
from pymongo.errors import CursorNotFound, OperationFailure


def identifiers(cursor):
    return [document["_id"] for document in cursor]


@pytest.fixture
def numbers(collection):
    collection.insert_many([{"_id": i, "a": i % 10, "b": {"c": i * 2}, "d": [i, i + 1]} for i in range(100)])
    return collection


@pytest.mark.parametrize(
    "filter, expected",
    [
        ({"_id": 5}, [5]),
        ({"_id": {"$eq": 5}}, [5]),
        ({"_id": {"$gt": 97}}, [98, 99]),
        ({"_id": {"$gte": 98}}, [98, 99]),
        ({"_id": {"$lt": 2}}, [0, 1]),
        ({"_id": {"$lte": 1}}, [0, 1]),
        ({"_id": {"$in": [3, 1, 500]}}, [1, 3]),
        ({"_id": {"$nin": list(range(2, 100))}}, [0, 1]),
        ({"_id": {"$lt": 4, "$ne": 2}}, [0, 1, 3]),
        ({"$and": [{"a": 3}, {"_id": {"$lt": 20}}]}, [3, 13]),
        ({"$or": [{"_id": 7}, {"_id": 3}]}, [3, 7]),
        ({"$nor": [{"_id": {"$gte": 2}}]}, [0, 1]),
        ({"_id": {"$not": {"$gte": 2}}}, [0, 1]),
        ({"b.c": 8}, [4]),
        ({"b": {"c": 8}}, [4]),
        ({"d": 4}, [3, 4]),
        ({"d.1": 4}, [3]),
        ({"d": [4, 5]}, [4]),
        ({"d": {"$all": [4, 5]}}, [4]),
        ({"d": {"$elemMatch": {"$gt": 98, "$lt": 100}}}, [98, 99]),
        ({"d": {"$size": 2}, "_id": {"$lt": 2}}, [0, 1]),
        ({"_id": {"$mod": [50, 1]}}, [1, 51]),
        ({"missing": None, "_id": {"$lt": 2}}, [0, 1]),
        ({"missing": {"$exists": False}, "_id": 1}, [1]),
        ({"b": {"$type": "object"}, "_id": 1}, [1]),
        ({"b.c": {"$type": ["int", "string"]}, "_id": 1}, [1]),
        ({"$expr": {"$eq": ["$_id", "$b.c"]}}, [0]),
        ({"$expr": {"$gt": ["$b.c", 195]}}, [98, 99]),
        ({"_id": {"$bitsAllSet": 96}, "a": 9}, [99]),
    ],
)
def test_filters(numbers, filter, expected):
    assert identifiers(numbers.find(filter).sort("_id")) == expected


def test_regular_expressions(collection):
    collection.insert_many([{"_id": i, "s": s} for i, s in enumerate(["apple", "Apricot", "banana", "line\nabc"])])
    assert identifiers(collection.find({"s": re.compile("^ap")})) == [0]
    assert identifiers(collection.find({"s": {"$regex": "^ap", "$options": "i"}})) == [0, 1]
    assert identifiers(collection.find({"s": {"$regex": "^abc", "$options": "m"}})) == [3]
    assert identifiers(collection.find({"s": {"$in": [re.compile("na$"), "apple"]}})) == [0, 2]


def test_null_and_missing(collection):
    collection.insert_many([{"_id": 0}, {"_id": 1, "a": None}, {"_id": 2, "a": 1}, {"_id": 3, "a": []}])
    assert identifiers(collection.find({"a": None})) == [0, 1]
    assert identifiers(collection.find({"a": {"$ne": None}})) == [2, 3]
    assert identifiers(collection.find({"a": {"$exists": True}})) == [1, 2, 3]
    assert identifiers(collection.find({"a": {"$type": "null"}})) == [1]


def test_type_brackets_and_numbers(collection):
    values = [1, 1.0, bson.Decimal128("1"), "1", float("nan"), -0.0, 0, True, bson.MaxKey()]
    collection.insert_many([{"_id": i, "a": value} for i, value in enumerate(values)])
    assert identifiers(collection.find({"a": 1})) == [0, 1, 2]
    assert identifiers(collection.find({"a": 0})) == [5, 6]
    assert identifiers(collection.find({"a": {"$gte": 0}})) == [0, 1, 2, 5, 6]
    assert identifiers(collection.find({"a": float("nan")})) == [4]
    assert identifiers(collection.find({"a": {"$lt": "2"}})) == [3]


def test_order_of_all_types(collection):
    ascending = [
        bson.MinKey(),
        None,
        float("nan"),
        -1,
        2,
        "a",
        "b",
        {"a": 1},
        b"x",
        bson.ObjectId("5" * 24),
        False,
        True,
        bson.datetime_ms.DatetimeMS(5).as_datetime(),
        bson.Timestamp(1, 1),
        bson.Regex("a"),
        bson.MaxKey(),
    ]
    collection.insert_many([{"_id": i, "a": value} for i, value in reversed(list(enumerate(ascending)))])
    expected = list(range(len(ascending)))
    assert identifiers(collection.find().sort("a", ASCENDING)) == expected
    assert identifiers(collection.find().sort("a", DESCENDING)) == expected[::-1]
    collection.create_index("a")
    assert identifiers(collection.find().sort("a", ASCENDING).hint("a_1")) == expected
    assert identifiers(collection.find().sort("a", DESCENDING).hint("a_1")) == expected[::-1]


def test_sort_skip_limit(numbers):
    assert identifiers(numbers.find().sort([("a", 1), ("_id", -1)]).limit(3)) == [90, 80, 70]
    assert identifiers(numbers.find().sort("_id", -1).skip(5).limit(2)) == [94, 93]
    assert identifiers(numbers.find().sort("_id").skip(98)) == [98, 99]
    assert identifiers(numbers.find().sort("_id").limit(-2)) == [0, 1]
    assert identifiers(numbers.find().sort("b.c", -1).limit(1)) == [99]
    assert identifiers(numbers.find().sort("d", -1).limit(1)) == [99]


def test_natural_order(numbers):
    assert identifiers(numbers.find().sort("$natural", 1)) == list(range(100))
    assert identifiers(numbers.find().sort("$natural", -1)) == list(range(99, -1, -1))


@pytest.mark.parametrize(
    "projection, expected",
    [
        ({"a": 1}, {"_id": 3, "a": 3}),
        ({"a": 1, "_id": 0}, {"a": 3}),
        ({"b": 0, "d": 0}, {"_id": 3, "a": 3}),
        ({"b.c": 1}, {"_id": 3, "b": {"c": 6}}),
        ({"d": {"$slice": 1}, "a": 0, "b": 0}, {"_id": 3, "d": [3]}),
        ({"d": {"$elemMatch": {"$gt": 3}}}, {"_id": 3, "d": [4]}),
        ({"twice": {"$multiply": ["$a", 2]}}, {"_id": 3, "twice": 6}),
        ({"a": "$b.c"}, {"_id": 3, "a": 6}),
    ],
)
def test_projections(numbers, projection, expected):
    assert numbers.find_one({"_id": 3}, projection) == expected


def test_positional_projection(numbers):
    assert numbers.find_one({"_id": 3, "d": {"$gt": 3}}, {"d.$": 1}) == {"_id": 3, "d": [4]}


def test_batches(numbers):
    reply = numbers.database.command("find", numbers.name, sort={"_id": 1})
    assert len(reply["cursor"]["firstBatch"]) == 100
    assert reply["cursor"]["id"] == 0
    reply = numbers.database.command("find", numbers.name, sort={"_id": 1}, batchSize=30)
    assert len(reply["cursor"]["firstBatch"]) == 30
    cursor = reply["cursor"]["id"]
    assert isinstance(cursor, int) and cursor != 0
    assert reply["cursor"]["ns"] == numbers.full_name
    seen = []
    while cursor:
        reply = numbers.database.command("getMore", bson.Int64(cursor), collection=numbers.name, batchSize=30)
        seen.append(len(reply["cursor"]["nextBatch"]))
        cursor = reply["cursor"]["id"]
    assert seen[:2] == [30, 30] and sum(seen) == 70


def test_the_first_batch_is_101_and_later_ones_fill_16_mebibytes(collection):
    collection.insert_many([{"_id": i, "pad": "x" * 100_000} for i in range(300)])
    reply = collection.database.command("find", collection.name)
    assert len(reply["cursor"]["firstBatch"]) == 101
    reply = collection.database.command("getMore", bson.Int64(reply["cursor"]["id"]), collection=collection.name)
    assert 150 <= len(reply["cursor"]["nextBatch"]) <= 168
    assert identifiers(collection.find({}, {"_id": 1})) == list(range(300))


def test_batch_size_zero_and_single_batch(numbers):
    reply = numbers.database.command("find", numbers.name, batchSize=0)
    assert reply["cursor"]["firstBatch"] == [] and reply["cursor"]["id"] != 0
    reply = numbers.database.command("find", numbers.name, batchSize=10, singleBatch=True)
    assert len(reply["cursor"]["firstBatch"]) == 10 and reply["cursor"]["id"] == 0
    reply = numbers.database.command("find", numbers.name, limit=10, batchSize=10)
    assert len(reply["cursor"]["firstBatch"]) == 10 and reply["cursor"]["id"] == 0


def test_killed_cursors_are_gone(numbers):
    cursor = numbers.find(batch_size=10)
    next(cursor)
    number = cursor.cursor_id
    reply = numbers.database.command("killCursors", numbers.name, cursors=[number, bson.Int64(12345)])
    assert reply["cursorsKilled"] == [number]
    assert reply["cursorsNotFound"] == [12345]
    assert reply["cursorsAlive"] == [] and reply["cursorsUnknown"] == []
    with pytest.raises(CursorNotFound) as caught:
        list(cursor)
    assert caught.value.code == 43
    assert caught.value.details["codeName"] == "CursorNotFound"


def test_a_cursor_belongs_to_its_collection(numbers):
    reply = numbers.database.command("find", numbers.name, batchSize=1)
    with pytest.raises(OperationFailure) as caught:
        numbers.database.command("getMore", bson.Int64(reply["cursor"]["id"]), collection="other")
    assert caught.value.code == 13


def test_a_cursor_survives_changes_around_it(numbers):
    cursor = numbers.find(batch_size=10).sort("_id", 1)
    seen = [next(cursor)["_id"]]
    numbers.delete_many({"_id": {"$gte": 50}})
    numbers.insert_many([{"_id": i} for i in range(-10, 0)])
    seen += identifiers(cursor)
    assert seen == sorted(set(seen))
    assert set(range(50)) <= set(seen)


def test_dropping_the_collection_ends_its_cursors(numbers):
    cursor = numbers.find(batch_size=10)
    next(cursor)
    numbers.drop()
    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert caught.value.code in (43, 175)


def test_hints(numbers):
    numbers.create_index([("a", 1), ("_id", -1)], name="by_a")
    assert identifiers(numbers.find({"a": 3}).hint("by_a").limit(2)) == [93, 83]
    assert identifiers(numbers.find({"a": 3}).hint([("a", 1), ("_id", -1)]).limit(2)) == [93, 83]
    assert identifiers(numbers.find({"a": 3}).hint([("$natural", 1)]).limit(2)) == [3, 13]
    with pytest.raises(OperationFailure) as caught:
        list(numbers.find({"a": 3}).hint("absent"))
    assert caught.value.code == 2
    assert caught.value.details["codeName"] == "BadValue"


def test_min_max_return_key_record_id(numbers):
    numbers.create_index("a")
    found = identifiers(numbers.find().min([("a", 3)]).max([("a", 5)]).hint("a_1"))
    assert sorted(found) == sorted([i for i in range(100) if i % 10 in (3, 4)])
    assert list(numbers.find({"a": 3}, return_key=True).hint("a_1").limit(1)) == [{"a": 3}]
    shown = numbers.find_one({"_id": 0}, show_record_id=True)
    assert isinstance(shown["$recordId"], int)


def test_let_and_comment(numbers):
    found = numbers.find({"$expr": {"$eq": ["$_id", "$$wanted"]}}, let={"wanted": 4}, comment="by variable")
    assert identifiers(found) == [4]


def test_an_absent_collection_is_empty(database):
    assert list(database["absent"].find({"a": 1})) == []
    assert database["absent"].count_documents({}) == 0
    assert "absent" not in database.list_collection_names()


@pytest.mark.parametrize(
    "fields, code",
    [
        ({"filter": {"a": {"$unknown": 1}}}, 2),
        ({"filter": {"$unknown": 1}}, 2),
        ({"filter": 5}, 14),
        ({"filter": {"$and": []}}, 2),
        ({"filter": {"a": {"$in": 5}}}, 2),
        ({"filter": {"a": {"$regex": "("}}}, 51091),
        ({"filter": {"a": {"$mod": [0, 1]}}}, 2),
        ({"filter": {"$where": 1}}, 2),
        ({"skip": -1}, 51024),
        ({"batchSize": -1}, 51024),
        ({"sort": {"a": 5}}, 15975),
        ({"projection": {"a": 1, "b": 0}}, 31254),
        ({"unknownField": 1}, 40415),
        ({"collation": {"locale": "xx"}}, 2),
        ({"tailable": True}, 2),
        ({"min": {"a": 1}}, 51173),
    ],
)
def test_refused(numbers, fields, code):
    with pytest.raises(OperationFailure) as caught:
        numbers.database.command({"find": numbers.name, **fields})
    assert caught.value.details["codeName"]
    if code is not None:
        assert caught.value.code == code, caught.value.details


def test_a_tailable_cursor_needs_a_capped_collection(numbers):
    with pytest.raises(OperationFailure) as caught:
        list(numbers.find(cursor_type=CursorType.TAILABLE))
    assert caught.value.code == 2


def test_max_time_ends_a_long_scan(collection):
    collection.insert_many([{"_id": i, "s": "x" * 100} for i in range(50_000)])
    with pytest.raises(OperationFailure) as caught:
        list(collection.find({"s": {"$regex": "(x+x+)+y"}}).max_time_ms(1))
    assert caught.value.code == 50
    assert caught.value.details["codeName"] == "MaxTimeMSExpired"


def test_fields_of_references_in_paths(collection, database):
    """`$ref`, `$id` and `$db` are the fields of a DBRef, and may stand in every path."""
    people = database["people"]
    people.insert_many([{"_id": 1, "name": "a"}, {"_id": 2, "name": "b"}])
    collection.insert_many({"_id": i, "author": bson.DBRef("people", 1 + i % 2)} for i in range(4))
    collection.create_index("author.$id")
    assert identifiers(collection.find({"author.$id": 2, "author.$ref": "people"}).sort("_id")) == [1, 3]
    assert identifiers(collection.find().sort([("author.$id", -1), ("_id", 1)])) == [1, 3, 0, 2]
    assert collection.find_one({"_id": 1}, {"author.$id": 1}) == {"_id": 1, "author": {"$id": 2}}
    assert collection.find_one({"_id": 1}, {"author.$id": 0})["author"] == {"$ref": "people"}
    assert sorted(collection.distinct("author.$id")) == [1, 2]
    grouped = collection.aggregate([{"$group": {"_id": "$author.$id", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert list(grouped) == [{"_id": 1, "n": 2}, {"_id": 2, "n": 2}]
    lookup = {"from": "people", "localField": "author.$id", "foreignField": "_id", "as": "found"}
    joined = collection.aggregate([{"$lookup": lookup}, {"$sort": {"_id": 1}}, {"$project": {"n": "$found.name"}}])
    assert [found["n"] for found in joined] == [["a"], ["b"], ["a"], ["b"]]
    collection.update_one({"_id": 0}, {"$set": {"author.$id": 2}})
    assert collection.find_one({"_id": 0})["author"] == bson.DBRef("people", 2)
    assert identifiers(collection.find({"author": bson.DBRef("people", 2)}).sort("_id")) == [0, 1, 3]


def test_parts_of_references_are_operators(collection):
    collection.insert_one({"a": [{"$ref": "c", "$id": 1}]})
    for part in [{"$ref": "c"}, {"$id": 1}, {"$db": "d"}]:
        with pytest.raises(OperationFailure, match="unknown operator") as error:
            collection.find_one({"a": part})
        assert error.value.code == 2
    assert collection.find_one({"a": {"$elemMatch": {"$id": 1}}}) is not None


def test_bits_of_decimals(collection):
    collection.insert_many([{"_id": 1, "v": bson.Decimal128("42.13")}, {"_id": 2, "v": 42.13}, {"_id": 3, "v": 42}])
    assert identifiers(collection.find({"v": {"$bitsAllSet": [1, 5]}}).sort("_id")) == [1, 3]
    assert identifiers(collection.find({"v": {"$bitsAnyClear": 6}}).sort("_id")) == [1, 3]


@pytest.mark.parametrize("indexed", [False, True])
def test_paths_with_empty_components(collection, indexed):
    if indexed:
        collection.create_index("a")
    collection.insert_many([{"_id": 1, "a": 3}, {"_id": 2, "a": [3]}, {"_id": 3, "a": {"": 3}}, {"_id": 4, "a": [{"": 3}]}])
    assert identifiers(collection.find({"a.": {"$exists": True}}).sort("_id")) == [2, 3, 4]
    assert identifiers(collection.find({"a.": 3}).sort("_id")) == [2, 3]
    assert identifiers(collection.find({"a.": {"$exists": False}})) == [1]
    assert identifiers(collection.find({"a..": 3})) == []


def test_a_positional_projection_without_a_position(collection):
    collection.insert_many([{"_id": 1, "v": 1, "foo": [1, 2]}, {"_id": 2, "v": 2}])
    with pytest.raises(OperationFailure, match="couldn't find a matching element in the array") as error:
        collection.find_one({"v": 1}, {"foo.$": 1})
    assert error.value.code == 51246
    assert collection.find_one({"v": 2}, {"foo.$": 1}) == {"_id": 2}
