"""Clients that hold themselves to the stable API, and exhaust cursors, which PyMongo has of members of replica sets only."""

import bson
import pytest
from pymongo import CursorType, MongoClient
from pymongo.errors import OperationFailure
from pymongo.server_api import ServerApi

from server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--cache", "64MiB", "--replica-set", "rs0"])
    process.start()
    yield process
    process.stop()


@pytest.fixture
def strict(server, database):
    api = ServerApi("1", strict=True, deprecation_errors=True)
    with MongoClient(server.uri, server_api=api) as client:
        yield client[database.name]


def test_a_strict_client_can_do_its_work(strict):
    things = strict["things"]
    things.insert_many([{"_id": i, "a": i % 3} for i in range(10)])
    things.create_index("a")
    assert len(list(things.find({"a": 1}, batch_size=2))) == 3
    assert things.count_documents({}) == 10 and things.estimated_document_count() == 10
    assert things.find_one_and_update({"_id": 0}, {"$set": {"b": 1}})["_id"] == 0
    assert things.delete_many({"a": 2}).deleted_count == 3
    with things.watch(max_await_time_ms=100) as stream, strict.client.start_session() as session:
        session.with_transaction(lambda session: things.insert_one({"_id": 10}, session=session))
        assert next(stream)["operationType"] == "insert"
    assert sorted(index["name"] for index in things.list_indexes()) == ["_id_", "a_1"]
    assert strict.list_collection_names() == ["things"]
    strict.client.admin.command("ping")


@pytest.mark.parametrize(
    "operation",
    [
        lambda database: database.command("serverStatus"),
        lambda database: database.c.distinct("a"),
        lambda database: list(database.c.find(show_record_id=True)),
        lambda database: list(database.c.find(cursor_type=CursorType.TAILABLE)),
        lambda database: database.create_collection("capped", capped=True, size=4096),
        lambda database: database.c.create_index("a", sparse=True),
        lambda database: list(database.c.aggregate([{"$indexStats": {}}])),
        lambda database: database.command({"aggregate": "c", "pipeline": [], "cursor": {}, "explain": True}),
        lambda database: database.command("explain", {"distinct": "c", "key": "a"}),
    ],
)
def test_what_is_not_in_the_version_is_refused(strict, operation):
    with pytest.raises(OperationFailure) as caught:
        operation(strict)
    assert (caught.value.code, caught.value.details["codeName"]) == (323, "APIStrictError")


def test_a_client_that_is_not_strict_can_do_everything(server, database):
    with MongoClient(server.uri, server_api=ServerApi("1")) as client:
        assert client[database.name].c.distinct("a") == []
        assert client.admin.command("serverStatus")["ok"] == 1


def test_a_time_from_far_ahead_is_refused(database, client):
    ahead = {"clusterTime": bson.Timestamp(4_000_000_000, 1), "signature": {"hash": b"", "keyId": bson.Int64(0)}}
    with client.start_session() as session:
        session.advance_cluster_time(ahead)
        with pytest.raises(OperationFailure) as caught:
            database.command("ping", session=session)
    assert (caught.value.code, caught.value.details["codeName"]) == (202, "ClusterTimeFailsRateLimiter")


def test_an_exhaust_cursor_is_given_all_batches(collection):
    collection.insert_many([{"_id": i} for i in range(1000)])
    cursor = collection.find(batch_size=10, cursor_type=CursorType.EXHAUST).sort("_id", 1)
    assert [document["_id"] for document in cursor] == list(range(1000))
    # Another one is left in the midst of its stream, and its connection with it.
    left = collection.find(batch_size=10, cursor_type=CursorType.EXHAUST)
    assert [next(left)["_id"] is not None for _ in range(15)] == [True] * 15
    left.close()
    assert collection.count_documents({}) == 1000
