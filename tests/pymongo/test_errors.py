"""Bad requests: refused with MongoDB's code and codeName, and nothing else is touched."""

import pytest
from pymongo.errors import OperationFailure


def error_of(database, command):
    with pytest.raises(OperationFailure) as caught:
        database.command(command)
    details = caught.value.details
    assert details["ok"] == 0.0 and details["errmsg"]
    return details["code"], details["codeName"]


@pytest.mark.parametrize("name", ["noSuchCommand", "atlasVersion", "FIND", "finD "])
def test_unknown_commands(database, name):
    assert error_of(database, {name: 1}) == (59, "CommandNotFound")


def test_the_message_names_the_command(database):
    with pytest.raises(OperationFailure, match="no such command: 'noSuchCommand'"):
        database.command("noSuchCommand")


@pytest.mark.parametrize(
    "command, expected",
    [
        ({"find": 5}, (73, "InvalidNamespace")),
        ({"find": ""}, (73, "InvalidNamespace")),
        ({"find": "a", "filter": []}, (14, "TypeMismatch")),
        ({"find": "a", "limit": "x"}, (14, "TypeMismatch")),
        ({"find": "a", "noSuchField": 1}, (40415, "Location40415")),
        ({"insert": "a"}, (40414, "Location40414")),
        ({"update": "a"}, (40414, "Location40414")),
        ({"update": "a", "updates": [{"q": {}}]}, (40414, "Location40414")),
        ({"delete": "a"}, (40414, "Location40414")),
        ({"getMore": "x", "collection": "a"}, (14, "TypeMismatch")),
        ({"killCursors": "a"}, (40414, "Location40414")),
        ({"distinct": "a"}, (40414, "Location40414")),
        ({"count": "a", "query": 5}, (14, "TypeMismatch")),
        ({"aggregate": "a", "pipeline": 5, "cursor": {}}, (14, "TypeMismatch")),
        ({"aggregate": "a", "cursor": {}}, (40414, "Location40414")),
        ({"createIndexes": "a"}, (40414, "Location40414")),
        ({"dropIndexes": "a", "index": "x"}, (26, "NamespaceNotFound")),
        ({"find": "a", "readConcern": {"level": "unknown"}}, (9, "FailedToParse")),
        ({"find": "a", "maxTimeMS": -1}, (2, "BadValue")),
    ],
)
def test_codes(database, command, expected):
    assert error_of(database, command) == expected
    assert database.list_collection_names() == []


@pytest.mark.parametrize("name", ["a b", "a/b", "a.b", "a$b", 'a"b', "x" * 64])
def test_bad_database_names(client, name):
    with pytest.raises(Exception) as caught:
        client[name].command("find", "a")
    if isinstance(caught.value, OperationFailure):
        assert caught.value.code == 73
    else:
        assert type(caught.value).__name__ == "InvalidName"


def nested(levels):
    document = {"a": 1}
    for _ in range(levels - 1):
        document = {"a": document}
    return document


def test_depth(collection):
    collection.insert_one({"_id": 1, "deep": nested(99)})
    assert collection.find_one({"_id": 1})["deep"] == nested(99)
    with pytest.raises(OperationFailure) as caught:
        collection.insert_one({"_id": 2, "deep": nested(200)})
    assert caught.value.code in (15, 22), caught.value.details
    assert caught.value.code != 22 or caught.value.details.get("codeName", "InvalidBSON") == "InvalidBSON"
    assert collection.count_documents({}) == 1


def test_a_deep_filter_is_refused(collection):
    filter = {"a": 1}
    for _ in range(120):
        filter = {"$and": [filter]}
    with pytest.raises(OperationFailure):
        collection.find_one(filter)
    assert collection.database.command("ping")["ok"] == 1.0


@pytest.mark.parametrize("name", ["listShards", "shardCollection", "balancerStatus", "getShardVersion"])
def test_commands_of_sharded_clusters_are_refused_with_the_reason(client, name):
    with pytest.raises(OperationFailure, match="sharded clusters") as caught:
        client.admin.command(name, 1)
    assert (caught.value.code, caught.value.details["codeName"]) == (59, "CommandNotFound")


@pytest.mark.parametrize("name", ["setIndexCommitQuorum"])
def test_known_commands_that_are_not_there(client, name):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command(name, 1)
    assert caught.value.code in (59, 115, 238)
