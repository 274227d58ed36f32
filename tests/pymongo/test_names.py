"""Names that only the server itself may use."""

import pytest
from pymongo.errors import OperationFailure

INVALID_NAMESPACE = 73


def refused(operation):
    with pytest.raises(OperationFailure) as failure:
        operation()
    assert failure.value.code == INVALID_NAMESPACE


def test_system_collections_are_not_made_by_clients(database):
    system = database["system.mine"]
    refused(lambda: database.create_collection("system.mine"))
    refused(lambda: system.insert_one({"a": 1}))
    refused(lambda: system.create_index("a"))
    refused(lambda: system.update_one({"a": 1}, {"$set": {"b": 1}}, upsert=True))
    refused(lambda: system.find_one_and_replace({"a": 1}, {"a": 2}, upsert=True))
    database["things"].insert_one({"a": 1})
    with pytest.raises(OperationFailure) as failure:
        database["things"].aggregate([{"$out": "system.mine"}])
    assert failure.value.code == 17385
    assert database.list_collection_names() == ["things"]


def test_system_collections_are_not_renamed_to_or_from(database, client):
    database["things"].insert_one({"a": 1})
    for source, target in (("things", "system.mine"), ("system.mine", "things")):
        command = {"renameCollection": f"{database.name}.{source}", "to": f"{database.name}.{target}"}
        refused(lambda: client.admin.command(command))


def test_reading_them_finds_nothing(database):
    assert list(database["system.mine"].find()) == []


def test_stored_functions_may_be_kept(database):
    database["system.js"].insert_one({"_id": "add", "value": "function"})
    assert database["system.js"].count_documents({}) == 1
