"""A damaged page costs its index or its collection, which are told and refuse by name; everything else is served."""

import json
import subprocess

import pytest
from bson import json_util
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure, PyMongoError

from server_process import ServerProcess, binary_path

DOCUMENTS = 3000


@pytest.fixture
def process(tmp_path):
    """A server that was stopped, with two collections on its disk."""
    process = ServerProcess(tmp_path)
    process.start()
    with MongoClient(process.uri) as client:
        for name in ["hurt", "whole"]:
            things = client["db"][name]
            things.create_index("text")
            things.create_index("unique", unique=True)
            things.insert_many([document(i) for i in range(DOCUMENTS)])
    process.stop()
    yield process
    process.kill()


def document(number):
    text = "".join(chr(97 + (number * 31 + at * at) % 26) for at in range(100))
    return {"_id": number, "text": f"{text}{number}", "unique": f"{number:06}{text}", "n": number}


def inspect(process, *arguments):
    command = [str(binary_path()), "inspect", "--data", str(process.directory / "data"), "--json", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json_util.loads(line) for line in result.stdout.splitlines()]


def damage_last_leaf(process, index=None):
    """Flips a bit in the last leaf of an index of `db.hurt`, or of its records."""
    trees = inspect(process, "trees")
    page = next(tree for tree in trees if tree.get("ns") == "db.hurt" and tree.get("index") == index)["tree"]
    while (node := inspect(process, "page", page)[0])["kind"] != "leaf":
        page = node["rightmost"]
    pages = max((path for path in (process.directory / "data").iterdir() if path.is_file()), key=lambda path: path.stat().st_size)
    with open(pages, "r+b") as file:
        file.seek(node["offset"] + 100)
        byte = file.read(1)[0]
        file.seek(node["offset"] + 100)
        file.write(bytes([byte ^ 4]))


def set_aside(client):
    reports = client.admin.command("serverStatus")["plimsoll"]["setAside"]
    return [(report["what"], report["ns"], report["index"]) for report in reports]


def health(process):
    command = [str(binary_path()), "health", process.uri]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_damaged_index_is_not_used_until_it_is_rebuilt(process):
    damage_last_leaf(process, "unique_1")
    process.start()
    expected = [("an index", "db.hurt", "unique_1")]
    for life in range(2):
        with MongoClient(process.uri) as client:
            hurt, whole = client["db"]["hurt"], client["db"]["whole"]
            if life == 0:
                with pytest.raises(PyMongoError, match="index 'unique_1' of db.hurt is damaged on disk"):
                    hurt.find_one({"unique": document(DOCUMENTS - 1)["unique"]})
            # Found all the same, without it.
            assert hurt.find_one({"unique": document(DOCUMENTS - 1)["unique"]}) == document(DOCUMENTS - 1)
            with pytest.raises(OperationFailure, match="index 'unique_1' of db.hurt is set aside: .* reIndex") as refused:
                hurt.insert_one(document(DOCUMENTS + 1))
            assert refused.value.code == 1
            hurt.update_one({"_id": 5}, {"$set": {"n": -life}})
            whole.insert_one(document(DOCUMENTS + life))
            assert set_aside(client) == expected
            assert "unique_1" in hurt.index_information()
            assert not client["db"].validate_collection("whole")["errors"]
            answer = health(process)
            assert answer.returncode == 0 and "set aside: an index db.hurt unique_1" in answer.stdout, answer
            if life == 1:
                warnings = client.admin.command("getLog", "startupWarnings")["log"]
                assert any("unique_1" in line and "set aside" in line for line in map(str, map(json.loads, warnings)))
                client["db"].command("reIndex", "hurt")
                assert set_aside(client) == []
                hurt.insert_one(document(DOCUMENTS + 1))
                assert client["db"].validate_collection("hurt")["valid"]
        process.stop()
        process.start()
    with MongoClient(process.uri) as client:
        assert set_aside(client) == []


def test_a_collection_that_lacks_changes_refuses_until_it_is_dropped(process):
    process.start()
    with MongoClient(process.uri) as client:
        durable = client.get_database("db", write_concern=WriteConcern(j=True))
        durable["hurt"].update_one({"_id": DOCUMENTS - 1}, {"$set": {"n": -1}})
        durable["whole"].update_one({"_id": 1}, {"$set": {"n": -1}})
    process.kill()
    damage_last_leaf(process)
    process.start()
    with MongoClient(process.uri) as client:
        assert set_aside(client) == [("a collection", "db.hurt", "")]
        for use in [
            lambda: client["db"]["hurt"].find_one({"_id": 1}),
            lambda: client["db"]["hurt"].insert_one({"_id": -1}),
            lambda: list(client["db"]["hurt"].aggregate([{"$match": {"n": 3}}])),
            lambda: list(client["db"]["whole"].aggregate([{"$lookup": {"from": "hurt", "localField": "n", "foreignField": "n", "as": "found"}}])),
        ]:
            with pytest.raises(OperationFailure, match="collection db.hurt is set aside: .*plimsoll repair"):
                use()
        assert client["db"]["whole"].find_one({"_id": 1})["n"] == -1
        assert sorted(client["db"].list_collection_names()) == ["hurt", "whole"]
        client["db"]["hurt"].drop()
        assert set_aside(client) == []
        client["db"]["hurt"].insert_one({"_id": 1})


def test_a_ring_without_its_file_and_an_entry_that_was_kept_are_told(tmp_path):
    process = ServerProcess(tmp_path)
    process.start()
    try:
        with MongoClient(process.uri) as client:
            client["db"].create_collection("ring", capped=True, size=50_000).insert_many([{"_id": i} for i in range(100)])
            client["db"]["whole"].insert_one({"_id": 1})
        process.stop()
        # The newest: the server has one of its own.
        ring = max((process.directory / "data/rings").iterdir())
        ring.write_bytes(b"?" * 4096 + ring.read_bytes()[4096:])
        # As a start leaves it that has met an entry of the oplog that makes no sense.
        kept = process.directory / "data/oplog" / f"damaged-{77:020}.entry"
        kept.write_bytes(b"?")
        expected = [("a collection", "db.ring", ""), ("an entry of the oplog", "", "")]
        for _life in range(2):
            process.start()
            with MongoClient(process.uri) as client:
                assert sorted(set_aside(client)) == expected
                with pytest.raises(OperationFailure, match="collection db.ring is set aside: .*plimsoll repair"):
                    client["db"]["ring"].insert_one({})
                assert client["db"]["whole"].count_documents({}) == 1
                warnings = "".join(client.admin.command("getLog", "startupWarnings")["log"])
                assert "db.ring" in warnings and kept.name in warnings
            answer = health(process)
            assert "set aside: a collection db.ring" in answer.stdout and kept.name in answer.stdout, answer
            process.stop()
        kept.unlink()
        process.start()
        with MongoClient(process.uri) as client:
            client["db"]["ring"].drop()
            assert set_aside(client) == []
    finally:
        process.kill()


def test_a_replica_set_whose_configuration_is_damaged_begins_anew(tmp_path):
    process = ServerProcess(tmp_path, ("--cache", "128MiB", "--replica-set", "rs0"))
    process.start()
    try:
        with MongoClient(process.uri, directConnection=True) as client:
            client.admin.command("setDefaultRWConcern", 1, defaultWriteConcern={"w": 1})
            client["db"]["things"].insert_one({"_id": 1})
        process.stop()
        trees = inspect(process, "trees")
        for namespace in ["local.system.replset", "config.settings"]:
            tree = next(tree for tree in trees if tree.get("ns") == namespace and tree.get("index") is None)["tree"]
            offset = inspect(process, "page", tree)[0]["offset"]
            pages = max((path for path in (process.directory / "data").iterdir() if path.is_file()), key=lambda path: path.stat().st_size)
            with open(pages, "r+b") as file:
                file.seek(offset + 90)
                byte = file.read(1)[0]
                file.seek(offset + 90)
                file.write(bytes([byte ^ 4]))
        process.start()
        with MongoClient(process.uri, directConnection=True) as client:
            assert client.admin.command("hello")["isWritablePrimary"]
            assert client["db"]["things"].find_one() == {"_id": 1}
            assert {namespace for _, namespace, _ in set_aside(client)} == {"local.system.replset", "config.settings"}
            assert "defaultWriteConcern" not in client.admin.command("getDefaultRWConcern") or (
                client.admin.command("getDefaultRWConcern")["defaultWriteConcernSource"] == "implicit"
            )
            client["db"]["things"].insert_one({"_id": 2})
        process.stop()
        process.start()
        with MongoClient(process.uri, directConnection=True) as client:
            assert set_aside(client) == []
            assert client["db"]["things"].count_documents({}) == 2
    finally:
        process.kill()
