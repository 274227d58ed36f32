"""Fixtures of all Python suites: a server for each file, a client, a database of the test's own.

After each test every collection in its database is validated in full. The databases stay until the last test of the
file is through; then the server is stopped and started again, and everything in all of them must be as it was.
"""

import shutil

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for the tests of one file."""
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"))
    process.start()
    yield process
    ensure_running(process)
    before = contents(process)
    process.stop()
    process.start()
    after = contents(process)
    process.stop()
    assert before == after, "a restart changed what is stored"
    # What a failure leaves is kept to be looked at; of the rest the disk would become full.
    shutil.rmtree(process.directory)


@pytest.fixture
def client(server):
    """A client of the server; a server that a test stopped is started again."""
    ensure_running(server)
    with MongoClient(server.uri, serverSelectionTimeoutMS=10_000) as client:
        yield client


@pytest.fixture
def database(client, request):
    """An empty database, validated after the test."""
    name = "t_" + request.node.name.split("[")[0][:50]
    client.drop_database(name)
    yield client[name]
    assert_valid(client[name])


@pytest.fixture
def collection(database):
    """An empty collection."""
    return database["things"]


@pytest.fixture
def restart(server, client):
    """Stops the server in an orderly way and starts it again on the same data."""

    def restart_now():
        server.stop()
        server.start()
        client.admin.command("ping")

    return restart_now


@pytest.fixture
def kill_and_restart(server, client):
    """Ends the server as a crash would and starts it again on the same data."""

    def restart_now():
        server.kill()
        server.start()
        client.admin.command("ping")

    return restart_now


def ensure_running(server):
    """Starts the server if a test left it stopped."""
    if server.process is None or server.process.poll() is not None:
        server.kill()
        server.start()


def assert_valid(database):
    """Validates every collection of a database in full."""
    for name in database.list_collection_names(filter={"type": {"$ne": "view"}}):
        report = database.command("validate", name, full=True)
        problems = {index: found for index, found in report["indexDetails"].items() if not found["valid"]}
        # In full: pytest shortens what it compares.
        assert report["valid"] and not report["errors"], f"{report['ns']}: {report['errors']}\n{problems}\n{report}"


def contents(server):
    """Everything a server stores: for each collection its options, indexes and the bytes of its documents, in order."""
    found = {}
    as_bytes = CodecOptions(document_class=RawBSONDocument)
    with MongoClient(server.uri) as client:
        # What the server keeps for itself in `local`, the oplog among it, goes on with each start.
        for database_name in set(client.list_database_names()) - {"local"}:
            database = client[database_name]
            for information in database.list_collections():
                name = information["name"]
                if information["type"] == "view":
                    # What it shows is stored elsewhere.
                    found[database_name, name] = (information, [], [])
                    continue
                natural = database.get_collection(name, as_bytes).find().sort("$natural", 1)
                indexes = sorted(bson.encode(index) for index in database[name].list_indexes())
                found[database_name, name] = (information, indexes, [document.raw for document in natural])
    return found
