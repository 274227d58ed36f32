"""Fields that the MongoDB Database Tools send to servers of the version that we announce: empty timestamps that stay, and index
options that nobody knows.
"""

import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

EMPTY = Timestamp(0, 0)


def stored(collection, identifier):
    return collection.find_one({"_id": identifier})


def test_insert_keeps_empty_timestamps_when_asked_to(database, collection):
    document = {"_id": 1, "a": EMPTY, "b": {"c": EMPTY}}
    database.command("insert", "things", documents=[document], bypassEmptyTsReplacement=True)
    assert stored(collection, 1) == document
    database.command("insert", "things", documents=[{**document, "_id": 2}], bypassEmptyTsReplacement=False)
    replaced = stored(collection, 2)
    assert replaced["a"].time > 0 and replaced["b"]["c"] == EMPTY


@pytest.mark.parametrize("is_upsert", [True, False])
def test_update_keeps_empty_timestamps_when_asked_to(database, collection, is_upsert):
    if not is_upsert:
        collection.insert_many([{"_id": 1}, {"_id": 2}])
    for identifier, keeps in ((1, True), (2, False)):
        statement = {"q": {"_id": identifier}, "u": {"a": EMPTY}, "upsert": is_upsert}
        database.command("update", "things", updates=[statement], bypassEmptyTsReplacement=keeps)
    assert stored(collection, 1)["a"] == EMPTY
    assert stored(collection, 2)["a"].time > 0


@pytest.mark.parametrize("is_upsert", [True, False])
def test_find_and_modify_keeps_empty_timestamps_when_asked_to(database, collection, is_upsert):
    if not is_upsert:
        collection.insert_many([{"_id": 1}, {"_id": 2}])
    for identifier, keeps in ((1, True), (2, False)):
        change = {"query": {"_id": identifier}, "update": {"a": EMPTY}, "upsert": is_upsert}
        database.command("findAndModify", "things", **change, bypassEmptyTsReplacement=keeps)
    assert stored(collection, 1)["a"] == EMPTY
    assert stored(collection, 2)["a"].time > 0


def test_a_deletion_has_the_field_too(database, collection):
    collection.insert_one({"_id": 1})
    statements = [{"q": {"_id": 1}, "limit": 1}]
    assert database.command("delete", "things", deletes=statements, bypassEmptyTsReplacement=True)["n"] == 1


def test_timestamps_rise_from_command_to_command(collection):
    """Each is later than any before, whatever command it was for, also within a second."""
    for identifier in range(0, 20, 4):
        collection.insert_many([{"_id": identifier, "t": EMPTY}, {"_id": identifier + 1, "t": EMPTY}])
        collection.update_one({"_id": identifier + 2}, {"$currentDate": {"t": {"$type": "timestamp"}}}, upsert=True)
        collection.find_one_and_replace({"_id": identifier + 3}, {"t": EMPTY}, upsert=True)
    written = [document["t"] for document in collection.find().sort("_id", 1)]
    assert len(written) == 20
    assert all(earlier < later for earlier, later in zip(written, written[1:]))


def test_unknown_index_options_are_ignored_when_asked_to(database, collection):
    index = {"key": {"a": 1}, "name": "a_1", "unique": True, "noSuchOption": 5}
    with pytest.raises(OperationFailure) as caught:
        database.command("createIndexes", "things", indexes=[index])
    assert caught.value.code == 197
    database.command("createIndexes", "things", indexes=[index], ignoreUnknownIndexOptions=True)
    assert collection.index_information()["a_1"] == {"v": 2, "key": [("a", 1)], "unique": True}
    # The index on _id of old dumps.
    identifier = {"key": {"_id": 1}, "name": "_id_", "v": 2, "safe": True}
    database.command("createIndexes", "things", indexes=[identifier], ignoreUnknownIndexOptions=True)
    # What is known is checked all the same.
    wrong = {"key": {"b": 1}, "name": "b_1", "expireAfterSeconds": "soon"}
    with pytest.raises(OperationFailure) as caught:
        database.command("createIndexes", "things", indexes=[wrong], ignoreUnknownIndexOptions=True)
    assert caught.value.code == 67
