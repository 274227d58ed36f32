"""Backups and the archive in an object store: the same as in a directory, while the store fails as stores and networks do."""

import contextlib
import os
import re
import secrets
import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from backups import archiving_server, run
from certificates import made_certificates
from object_store_server import ObjectStoreServer, store_of_the_environment
from server_process import ServerProcess

PLACE = "s3://shop-backups/plimsoll/first"


@pytest.fixture
def store(monkeypatch):
    with store_of_the_environment(monkeypatch) as store:
        yield store


@pytest.fixture
def server(tmp_path, store):
    with archiving_server(tmp_path, PLACE) as server:
        yield server


def fill(client, begin, count, size=400):
    client.shop.things.insert_many({"_id": number, "text": secrets.token_hex(size // 2)} for number in range(begin, begin + count))


def content(client):
    return list(client.shop.things.find().sort("_id"))


def restored_content(tmp_path, place, *options):
    directory = tmp_path / f"restored-{secrets.token_hex(4)}"
    directory.mkdir()
    run("restore", "--from", place, "--to", directory / "data", *options)
    process = ServerProcess(directory, ("--cache", "32MiB"))
    process.start()
    try:
        with MongoClient(process.uri) as client:
            assert client.shop.command("validate", "things")["valid"]
            return content(client)
    finally:
        process.stop()


def test_all_that_is_done_with_a_directory_is_done_with_an_object_store(server, store, tmp_path):
    with MongoClient(server.uri) as client:
        fill(client, 0, 30_000)
        first = client.admin.command("plimsollBackup", 1, to=PLACE)
        fill(client, 30_000, 10)
        second = client.admin.command("plimsollBackup", 1, to=PLACE)
        assert first["reusedBytes"] == 0 < second["reusedBytes"]
        fill(client, 40_000, 10)
        moment = client.admin.command("ping")["operationTime"]
        expected = content(client)
        client.shop.things.drop()
    server.stop()
    names = store.names("shop-backups")
    assert names and all(name.startswith("plimsoll/first/") for name in names)
    assert first["id"] in (listed := run("backup", "list", "--from", PLACE)) and second["id"] in listed
    assert restored_content(tmp_path, PLACE, "--timestamp", f"{moment.time}:{moment.inc}") == expected
    assert "were validated" in run("backup", "verify", "--from", PLACE, "--within", tmp_path)
    pruned = run("backup", "prune", "--from", PLACE, "--keep", 1)
    assert first["id"] in pruned and len(store.names("shop-backups")) < len(names)
    run("backup", "verify", "--from", PLACE, "--within", tmp_path)
    lost = next(name for name in store.names("shop-backups") if "/table/" in name)
    del store.objects[("shop-backups", lost)]
    assert "is missing" in run("backup", "verify", "--from", PLACE, "--within", tmp_path, code=1)
    assert "there are no backups in s3://shop-backups/elsewhere" in run("backup", "list", "--from", "s3://shop-backups/elsewhere", code=1)


def test_a_store_that_fails_often_costs_time_only(server, store, tmp_path):
    with MongoClient(server.uri) as client:
        store.trouble = 0.4
        fill(client, 0, 20_000)
        client.admin.command("plimsollBackup", 1, to=PLACE)
        fill(client, 20_000, 100)
        expected = content(client)
    server.stop()
    assert restored_content(tmp_path, PLACE) == expected
    methods = {method for method, _ in store.requests}
    assert {"GET", "HEAD", "PUT"} <= methods


def kill_when_more_is_stored(server, store):
    """Ends the server once another chunk of a backup is there."""
    chunks = lambda: sum("/index/" in name for name in store.names("shop-backups"))
    before = chunks()
    while chunks() == before:
        time.sleep(0.01)
    server.kill()


def test_kills_and_a_store_that_goes_away(server, store, tmp_path):
    with MongoClient(server.uri) as client:
        fill(client, 0, 30_000)
    for _ in range(3):
        killer = threading.Thread(target=kill_when_more_is_stored, args=(server, store))
        with MongoClient(server.uri, socketTimeoutMS=20_000) as client:
            killer.start()
            with contextlib.suppress(PyMongoError):
                client.admin.command("plimsollBackup", 1, to=PLACE, bytesPerSecond=4_000_000)
        killer.join()
        server.start()
    with MongoClient(server.uri) as client:
        # What the killed ones have stored is used.
        assert client.admin.command("plimsollBackup", 1, to=PLACE)["reusedBytes"] > 0
        store.is_gone = True
        fill(client, 30_000, 100)
        time.sleep(4)
        # Asking does not wait for the store.
        began = time.monotonic()
        archive = client.admin.command("serverStatus")["plimsoll"]["backups"]["archive"]
        assert time.monotonic() - began < 1 and archive["bytesBehind"] > 0 and archive["lagSeconds"] > 0
        store.is_gone = False
        fill(client, 30_100, 100)
        expected = content(client)
    server.stop()
    assert restored_content(tmp_path, PLACE) == expected


def test_a_large_object_is_sent_in_parts(server, store, tmp_path):
    with MongoClient(server.uri) as client:
        client.admin.command("plimsollBackup", 1, to=PLACE)
        # More than a segment of the oplog, which is put together when it has ended.
        for begin in range(0, 160, 20):
            fill(client, begin, 20, 1 << 20)
        expected = content(client)
        end = time.monotonic() + 30
        while not any(method == "POST" and "uploadId" in path for method, path in store.requests):
            assert time.monotonic() < end
            fill(client, 1000 + int(time.monotonic() * 1000), 1, 1 << 20)
            expected = content(client)
            time.sleep(0.5)
    server.stop()
    assert not store.uploads
    assert restored_content(tmp_path, PLACE) == expected


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_the_stores_of_google_and_azure(server, store, tmp_path, monkeypatch, scheme):
    for name, value in (store.google_environment() | store.azure_environment()).items():
        monkeypatch.setenv(name, value)
    with MongoClient(server.uri) as client:
        fill(client, 0, 1000)
        expected = content(client)
    server.stop()
    place = f"{scheme}://other-backups/plimsoll"
    run("backup", "--data", server.directory / "data", "--to", place)
    run("backup", "--data", server.directory / "data", "--to", place, "--full")
    before = store.names("other-backups")
    assert "removed" in run("backup", "prune", "--from", place, "--keep", 1)
    assert len(store.names("other-backups")) < len(before)
    assert restored_content(tmp_path, place) == expected


def test_what_is_wrong_is_told_at_once(server, store, monkeypatch):
    began = time.monotonic()
    with MongoClient(server.uri) as client:
        for to, what in [
            ("s3://", "a bucket is missing"),
            ("s3://bucket/a?b", "question marks"),
            ("ftp://bucket", "must begin with"),
        ]:
            with pytest.raises(OperationFailure, match=re.escape(what)):
                client.admin.command("plimsollBackup", 1, to=to)
        store.objects[("taken", "photos/1")] = b"a photo"
        with pytest.raises(OperationFailure, match="is no backup"):
            client.admin.command("plimsollBackup", 1, to="s3://taken/photos")
    assert time.monotonic() - began < 5
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "not encrypted" in run("backup", "list", "--from", PLACE, code=1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert "127.0.0.1:1" in run("backup", "list", "--from", PLACE, code=1)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "SecretAccessKey" in run("backup", "list", "--from", PLACE, code=1).replace(" ", "")
    assert time.monotonic() - began < 25


def test_an_encrypted_connection_needs_a_certificate_of_somebody_known(monkeypatch, tmp_path):
    files = made_certificates(tmp_path)
    with ObjectStoreServer([files / "server.pem"]) as store:
        for name, value in store.environment().items():
            monkeypatch.setenv(name, value)
        assert "certificate" in run("backup", "list", "--from", PLACE, code=1)
        monkeypatch.setenv("SSL_CERT_FILE", str(files / "ca.pem"))
        assert "there are no backups" in run("backup", "list", "--from", PLACE, code=1)
