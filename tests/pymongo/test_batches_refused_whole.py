"""A command with a malformed statement is refused whole: of the statements before it nothing is done."""

import pytest
from bson import SON
from pymongo.errors import OperationFailure

DELETE = {"q": {"_id": 1}, "limit": 1}
UPDATE = {"q": {"_id": 1}, "u": {"$set": {"x": 1}}}
INDEX = {"key": {"a": 1}, "name": "a_1"}


@pytest.fixture
def two(collection):
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
    return collection


def code_of(database, command):
    with pytest.raises(OperationFailure) as caught:
        database.command(command)
    return caught.value.code


def refused(collection, command, code):
    before = list(collection.find())
    assert code_of(collection.database, command) == code
    assert list(collection.find()) == before


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    "statement, code",
    [
        ({"q": {"_id": 2}}, 40414),
        ({"limit": 1}, 40414),
        ({"q": {"_id": 2}, "limit": 2}, 9),
        ({"q": {"_id": 2}, "limit": -1}, 9),
        ({"q": 5, "limit": 1}, 14),
        ({"q": {}, "limit": "x"}, 14),
        ({"q": {}, "limit": 1, "unknown": 1}, 40415),
        ({"q": {}, "limit": 1, "collation": 5}, 14),
    ],
)
def test_deletes(two, statement, code, ordered):
    refused(two, SON([("delete", two.name), ("deletes", [DELETE, statement]), ("ordered", ordered)]), code)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    "statement, code",
    [
        ({"q": {}}, 40414),
        ({"u": {"$set": {"x": 1}}}, 40414),
        ({"q": 5, "u": {"$set": {"x": 1}}}, 14),
        ({"q": {}, "u": 5}, 9),
        ({"q": {}, "u": {"$set": {"x": 1}}, "unknown": 1}, 40415),
        ({"q": {}, "u": {"$set": {"x": 1}}, "multi": "x"}, 14),
        ({"q": {}, "u": {"$set": {"x": 1}}, "upsert": "x"}, 14),
        ({"q": {}, "u": {"$set": {"x": 1}}, "arrayFilters": 5}, 14),
        ({"q": {}, "u": {"$set": {"x": 1}}, "c": 5}, 14),
        ({"q": {}, "u": [{"$unknown": 1}]}, 40324),
    ],
)
def test_updates(two, statement, code, ordered):
    refused(two, SON([("update", two.name), ("updates", [UPDATE, statement]), ("ordered", ordered)]), code)


@pytest.mark.parametrize("name, field", [("insert", "documents"), ("update", "updates"), ("delete", "deletes")])
def test_empty_batches(two, name, field):
    refused(two, SON([(name, two.name), (field, [])]), 16)


def test_what_is_wrong_with_a_filter_or_a_change_is_the_statements_own_affair(two):
    deletes = [DELETE, {"q": {"$unknown": 1}, "limit": 1}]
    reply = two.database.command("delete", two.name, deletes=deletes)
    assert (reply["n"], [(error["index"], error["code"]) for error in reply["writeErrors"]]) == (1, [(1, 2)])
    updates = [{"q": {"_id": 2}, "u": {"$set": {"x": 1}}}, {"q": {}, "u": {"$unknown": {"x": 1}}}]
    reply = two.database.command("update", two.name, updates=updates)
    assert (reply["n"], [(error["index"], error["code"]) for error in reply["writeErrors"]]) == (1, [(1, 9)])


@pytest.mark.parametrize(
    "specification, code",
    [
        ({"key": {"b": 1}}, 9),
        ({"name": "b"}, 9),
        ({"key": {}, "name": "b"}, 67),
        ({"key": {"b": 0}, "name": "b"}, 67),
        ({"key": {"b": 1}, "name": "b", "unknown": 1}, 197),
        ({"key": {"b": 1}, "name": "b", "unique": "x"}, 14),
        ({"key": {"b": 1}, "name": 5}, 14),
        ({"key": {"b": 1}, "name": "b", "expireAfterSeconds": -1}, 67),
        ({"key": {"b": 1}, "name": "a_1"}, 86),
        ({"key": {"_id": 1}, "name": "id", "unique": True}, 197),
    ],
)
def test_indexes(two, specification, code):
    assert code_of(two.database, SON([("createIndexes", two.name), ("indexes", [INDEX, specification])])) == code
    assert list(two.index_information()) == ["_id_"]


def test_indexes_of_which_one_cannot_be_built(two):
    two.update_many({}, {"$set": {"same": 1}})
    unique = {"key": {"same": 1}, "name": "same_1", "unique": True}
    assert code_of(two.database, SON([("createIndexes", two.name), ("indexes", [INDEX, unique])])) == 11000
    assert list(two.index_information()) == ["_id_"]


@pytest.mark.parametrize("names, code", [(["a_1", "absent"], 27), (["a_1", "_id_"], 72), (["a_1", 5], 14)])
def test_dropped_indexes(two, names, code):
    two.create_index("a")
    assert code_of(two.database, SON([("dropIndexes", two.name), ("index", names)])) == code
    assert sorted(two.index_information()) == ["_id_", "a_1"]
