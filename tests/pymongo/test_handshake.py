"""hello, isMaster, ping and what drivers decide by their replies; compression."""

import datetime

import bson
import pytest
from pymongo import MongoClient


def test_hello_says_what_drivers_need(client):
    hello = client.admin.command("hello")
    assert hello["ok"] == 1.0
    assert hello["isWritablePrimary"] is True
    assert hello["maxBsonObjectSize"] == 16777216
    assert hello["maxMessageSizeBytes"] == 48000000
    assert hello["maxWriteBatchSize"] == 100000
    assert hello["logicalSessionTimeoutMinutes"] == 30
    assert hello["minWireVersion"] == 0
    assert hello["maxWireVersion"] >= 25
    assert hello["readOnly"] is False
    assert isinstance(hello["localTime"], datetime.datetime)
    assert isinstance(hello["connectionId"], int)
    assert isinstance(hello["topologyVersion"]["processId"], bson.ObjectId)
    assert isinstance(hello["topologyVersion"]["counter"], int)


@pytest.mark.parametrize("name", ["isMaster", "ismaster"])
def test_is_master_is_the_older_name(client, name):
    reply = client.admin.command(name)
    assert reply["ismaster"] is True
    assert reply["maxBsonObjectSize"] == 16777216


def test_hello_ok_is_answered(client):
    assert client.admin.command("isMaster", helloOk=True)["helloOk"] is True


def test_ping_on_any_database(client):
    assert client.admin.command("ping")["ok"] == 1.0
    assert client.anything.command("ping")["ok"] == 1.0


def test_build_information(client):
    information = client.admin.command("buildInfo")
    assert information["versionArray"][0] >= 7
    assert information["version"].split(".")[0] == str(information["versionArray"][0])
    assert information["maxBsonObjectSize"] == 16777216
    assert information["bits"] == 64
    assert client.server_info()["version"] == information["version"]


@pytest.mark.parametrize("compressor", ["zlib", "snappy", "zstd"])
def test_compression_carries_large_messages(server, database, compressor):
    if compressor == "snappy":
        pytest.importorskip("snappy")
    if compressor == "zstd":
        pytest.importorskip("backports.zstd")
    with MongoClient(server.uri, compressors=compressor) as client:
        hello = client.admin.command("hello", compression=[compressor])
        assert hello["compression"] == [compressor]
        things = client[database.name][compressor]
        things.insert_many([{"_id": i, "text": "x" * 10_000} for i in range(100)])
        assert sum(len(thing["text"]) for thing in things.find()) == 1_000_000


def test_who_am_i(client):
    host, port = client.admin.command("whatsmyuri")["you"].rsplit(":", 1)
    assert host == "127.0.0.1" and int(port) > 0
    status = client.admin.command("connectionStatus")
    assert status["authInfo"]["authenticatedUsers"] == []
    assert status["authInfo"]["authenticatedUserRoles"] == []
