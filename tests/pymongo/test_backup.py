"""Backups of a running server, the archive of its oplog, and what is restored from both: compared document by document, under load, with kills at random
moments; what is damaged or missing is told by its name."""

import contextlib
import datetime
import json
import pathlib
import random
import re
import secrets
import subprocess
import threading
import time

import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from backups import archiving_server, run
from server_process import ServerProcess, binary_path

WRITERS = 3


@pytest.fixture
def place(tmp_path):
    return f"file://{tmp_path}/backups"


@pytest.fixture
def server(tmp_path, place):
    with archiving_server(tmp_path, place) as server:
        yield server


def back_up(client, place, **fields):
    return client.admin.command("plimsollBackup", 1, to=place, **fields)


@contextlib.contextmanager
def restored(tmp_path, place, *options, arguments=()):
    """A server on what is restored."""
    directory = tmp_path / f"restored-{secrets.token_hex(4)}"
    directory.mkdir()
    told = run("restore", "--from", place, "--to", directory / "data", *options)
    process = ServerProcess(directory, ("--cache", "32MiB", *arguments))
    process.start()
    try:
        with MongoClient(process.uri) as client:
            for database in client.list_database_names():
                for name in set(client[database].list_collection_names(filter={"type": "collection"})) - {"oplog.rs"}:
                    assert client[database].command("validate", name)["valid"], (database, name)
            yield client, told
    finally:
        process.stop()
    assert json.loads((directory / "data/restored.json").read_text())["backup"] in told
    assert "this data directory was restored from a backup" in process.log_tail(200)


def content(client):
    """All documents of the tests' collections, as bytes, by _id."""
    options = CodecOptions(document_class=RawBSONDocument)
    found = {}
    for name in client.shop.list_collection_names():
        documents = client.shop.get_collection(name, options).find().sort("_id")
        found[name] = [document.raw for document in documents]
    return found


class Load:
    """Writers that note what was acknowledged to them: for each document of their own the newest version."""

    def __init__(self, uri):
        self.uri, self.ends, self.acknowledged = uri, threading.Event(), [{} for _ in range(WRITERS)]
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]

    def __enter__(self):
        [thread.start() for thread in self.threads]
        return self

    def __exit__(self, *_):
        self.ends.set()
        [thread.join() for thread in self.threads]

    def write(self, number):
        draw, own, version = random.Random(number), self.acknowledged[number], 0
        with MongoClient(self.uri, serverSelectionTimeoutMS=200, socketTimeoutMS=5000, journal=True) as client:
            things, ring = client.shop.things, client.shop.ring
            while not self.ends.is_set():
                version += 1
                key = f"{number}-{draw.randrange(2000)}"
                with contextlib.suppress(PyMongoError):
                    things.update_one({"_id": key}, {"$set": {"version": version, "text": "t" * draw.randrange(900)}}, upsert=True)
                    own[key] = version
                    ring.insert_one({"_id": f"{number}-{version}", "text": "r" * draw.randrange(300)})

    def wait_for(self, documents):
        while sum(map(len, self.acknowledged)) < documents:
            time.sleep(0.01)

    def seen(self):
        return [dict(own) for own in self.acknowledged]


def assert_has(client, seen):
    """What was acknowledged is there, in that version or a newer one."""
    versions = {document["_id"]: document["version"] for document in client.shop.things.find({}, {"version": 1})}
    for own in seen:
        for key, version in own.items():
            assert versions.get(key, 0) >= version, key


def prepare(client):
    client.shop.create_collection("ring", capped=True, size=1 << 20)
    client.shop.things.create_index("version")
    client.shop.still.insert_many({"_id": n, "text": secrets.token_hex(200)} for n in range(2000))


def test_a_backup_under_load_has_what_was_acknowledged_before_its_end(server, tmp_path, place):
    with MongoClient(server.uri) as client:
        # Before the load, which would create the ring as an ordinary collection.
        prepare(client)
    with MongoClient(server.uri) as client, Load(server.uri) as load:
        load.wait_for(500)
        first = back_up(client, place)
        load.wait_for(1500)
        before = load.seen()
        second = back_up(client, place)
        assert second["reusedBytes"] > 0 and first["reusedBytes"] == 0
        until = second["until"]
        end = f"{until.time}:{until.inc}"
        with restored(tmp_path, place, "--timestamp", end, "--backup", second["id"]) as (other, told):
            assert_has(other, before)
            assert end in told
            assert content(other)["still"] == content(client)["still"]
            # An upsert of what came later is in the oplog of the original, behind that.
            newest = max(document["_id"] for document in client.local["oplog.rs"].find({}, {"_id": "$ts"}))
            assert newest > until


def test_with_kills_everywhere_nothing_is_lost(server, tmp_path, place):
    draw = random.Random(5)
    with MongoClient(server.uri) as client:
        prepare(client)
    for _ in range(4):
        with Load(server.uri) as load:
            load.wait_for(200)
            killer = threading.Timer(draw.random() * 0.4, server.kill)
            with MongoClient(server.uri, socketTimeoutMS=20_000) as client, contextlib.suppress(PyMongoError):
                killer.start()
                back_up(client, place, compress=True)
            killer.join()
            before = load.seen()
        server.start()
        with MongoClient(server.uri) as client:
            assert_has(client, before)
    with MongoClient(server.uri) as client:
        back_up(client, place)
        client.shop.things.insert_one({"_id": "behind the backup", "version": 0})
        expected = content(client)
    # What is logged is archived before the server ends.
    server.stop()
    run("backup", "verify", "--from", place, "--within", tmp_path)
    killed = tmp_path / "killed"
    for _ in range(3):
        words = [str(binary_path()), "restore", "--from", place, "--to", str(killed / "data")]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(draw.random() * 0.1)
        process.kill()
        process.wait()
    if (killed / "data/restore.unfinished").exists():
        refused = ServerProcess(killed)
        with pytest.raises(RuntimeError, match="has not ended"):
            refused.start()
        run("restore", "--from", place, "--to", killed / "data")
    with restored(tmp_path, place) as (other, _):
        assert content(other) == expected


def test_any_moment(server, tmp_path, place):
    with MongoClient(server.uri) as client:
        prepare(client)
        back_up(client, place)
        moments = []
        for number in range(4):
            client.shop.still.update_many({"_id": {"$lt": 10}}, {"$set": {"round": number}})
            end = client.admin.command("ping")["operationTime"]
            moments.append((f"{end.time}:{end.inc}", content(client)))
        client.shop.still.drop()
        client.shop.things.insert_one({"_id": 1})
    server.stop()
    for end, expected in moments[::3]:
        with restored(tmp_path, place, "--timestamp", end) as (other, _):
            assert content(other) == expected
    with restored(tmp_path, place, "--before-operation", '"drop":"still"') as (other, told):
        assert content(other) == moments[-1][1]
        assert "c shop.$cmd" in told
    early = run("restore", "--from", place, "--to", tmp_path / "early", "--at", "2020-01-01T00:00:00Z", code=1)
    assert "all backups end after that moment" in early
    late = run("restore", "--from", place, "--to", tmp_path / "late", "--at", "2100-01-01T00:00:00Z", code=1)
    assert "is not reached" in late and not (tmp_path / "late/pages.plimsoll").exists()
    on_purpose = re.search(r"--timestamp \S+", late)[0].split()
    with restored(tmp_path, place, *on_purpose) as (other, _):
        assert "still" not in other.shop.list_collection_names()
    assert "is no timestamp" in run("restore", "--from", place, "--to", tmp_path / "early", "--timestamp", "x", code=1)
    taken = run("restore", "--from", place, "--to", server.directory / "data", code=1)
    assert "is not empty" in taken


def test_damaged_and_missing_files_are_named(server, tmp_path, place):
    with MongoClient(server.uri) as client:
        prepare(client)
        made = back_up(client, place)
    server.stop()
    folder = tmp_path / "backups/backups" / made["id"]
    assert made["id"] in run("backup", "list", "--from", place)
    for part in ("pages", "rings", "oplog", "table"):
        file = next(path for path in (folder / part).iterdir())
        whole = file.read_bytes()
        file.write_bytes(whole[:70] + bytes([whole[70] ^ 4]) + whole[71:])
        assert f"{part}/{file.name} is damaged" in run("backup", "verify", "--from", place, "--within", tmp_path, code=1)
        file.unlink()
        assert f"{part}/{file.name} is missing" in run("backup", "verify", "--from", place, "--within", tmp_path, code=1)
        file.write_bytes(whole)
    assert "were validated" in run("backup", "verify", "--from", place, "--within", tmp_path)
    assert not list(tmp_path.glob("plimsoll-verify-*"))


def test_backups_are_kept_by_rules(server, place):
    with MongoClient(server.uri) as client:
        prepare(client)
        told = run("backup", "--to", place, "--server", server.uri)
        made = [told.split()[1].strip(":"), back_up(client, place)["id"]]
    server.stop()
    made.append(run("backup", "--data", server.directory / "data", "--to", place).splitlines()[0].split()[1])
    told = run("backup", "prune", "--from", place, "--keep", 1)
    assert made[0] in told and made[1] in told and made[2] not in told
    assert re.findall(r"^\d{8}T\S+", run("backup", "list", "--from", place), re.MULTILINE) == made[2:]
    run("backup", "verify", "--from", place)


def test_an_encrypted_server_makes_encrypted_backups(tmp_path, place):
    key = tmp_path / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    process = ServerProcess(tmp_path, ("--cache", "32MiB", "--encryption-key-file", str(key), "--archive", place))
    process.start()
    mark = "MARKED-VALUE"
    with MongoClient(process.uri) as client:
        client.shop.things.insert_many({"_id": n, "name": f"{mark}{n}"} for n in range(1000))
        assert back_up(client, place, encrypt=True)["encrypted"]
        client.shop.things.insert_one({"_id": 1000, "name": mark})
        expected = content(client)
    process.stop()
    files = [path for path in pathlib.Path(tmp_path / "backups").rglob("*") if path.is_file()]
    assert len(files) > 5 and not any(mark.encode() in path.read_bytes() for path in files)
    assert "give the key" in run("restore", "--from", place, "--to", tmp_path / "without", code=1)
    options = ("--encryption-key-file", str(key))
    with restored(tmp_path, place, *options, arguments=options) as (other, _):
        assert content(other) == expected
    with restored(tmp_path, place, "--backup-key-file", str(key)) as (other, _):
        assert content(other) == expected


def test_what_cannot_be_is_refused_by_name(server, tmp_path, place):
    occupied = tmp_path / "occupied"
    occupied.mkdir()
    (occupied / "something").write_text("else")
    with MongoClient(server.uri) as client:
        for fields, code, what in [
            ({}, 40414, "to"),
            ({"to": 5}, 14, "to"),
            ({"to": place, "often": True}, 40415, "often"),
            ({"to": "ftp://host/backups"}, 72, "must begin with file://"),
            ({"to": "backups"}, 72, "must be a URL"),
            ({"to": f"file://{server.directory}/data/backups"}, 72, "apart from"),
            ({"to": f"file://{server.directory}"}, 72, "apart from"),
            ({"to": f"file://{occupied}"}, 72, "not empty"),
            ({"to": place, "encrypt": True}, 72, "no key"),
            ({"to": place, "bytesPerSecond": 0}, 2, "bytesPerSecond"),
        ]:
            with pytest.raises(OperationFailure, match=re.escape(what)) as refused:
                client.admin.command("plimsollBackup", 1, **fields)
            assert refused.value.code == code, refused.value
        with pytest.raises(OperationFailure) as refused:
            client.test.command("plimsollBackup", 1, to=place)
        assert refused.value.code == 13
    assert "there are no backups" in run("backup", "list", "--from", f"file://{tmp_path}/nowhere", code=1)


def test_one_that_is_being_made_is_shown_and_killed(server, place):
    with MongoClient(server.uri) as client:
        prepare(client)
        ended = []

        def make():
            with pytest.raises(OperationFailure) as killed:
                back_up(client, place, bytesPerSecond=1000)
            ended.append(killed.value)

        thread = threading.Thread(target=make)
        thread.start()
        query = {"command.plimsollBackup": 1, "progress.done": {"$gt": 0}}
        while not (running := list(client.admin.aggregate([{"$currentOp": {}}, {"$match": query}]))):
            time.sleep(0.02)
        assert running[0]["msg"].startswith("Backup: pages: ")
        with pytest.raises(OperationFailure) as second:
            back_up(client, place)
        assert second.value.code == 117
        client.admin.command("killOp", 1, op=running[0]["opid"])
        thread.join()
        assert ended[0].code == 11601
        # The next one goes on.
        assert back_up(client, place)["pageBytes"] > 0


def test_single_collections_get_into_a_running_server_beside_what_it_has(server, tmp_path, place):
    with MongoClient(server.uri) as client:
        prepare(client)
        client.shop.orders.insert_many({"_id": n, "text": "t" * 100} for n in range(3000))
        client.shop.orders.create_index([("text", 1), ("_id", -1)], name="by_text", partialFilterExpression={"_id": {"$lt": 50}})
        client.shop.create_collection("old_ones", viewOn="orders", pipeline=[{"$match": {"_id": {"$lt": 10}}}])
        # It would be gone within seconds of a server's start.
        client.shop.expired.create_index("at", expireAfterSeconds=0)
        client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
        client.shop.expired.insert_one({"_id": 1, "at": datetime.datetime(2020, 1, 1)})
        back_up(client, place)
        moment = client.admin.command("ping")["operationTime"]
        expected = content(client)
        client.shop.orders.delete_many({"_id": {"$gte": 100}})
        client.shop.expired.delete_many({})
        client.crm.people.insert_one({"_id": 1})
        # The archive has it.
        time.sleep(4)
        at = ("--from", place, "--into", server.uri, "--timestamp", f"{moment.time}:{moment.inc}", "--within", tmp_path)
        told = run("restore", *at, "--namespaces", "shop.orders", "--as", "shop.orders_before")
        assert "copied 1 collections, 3000 documents" in told and "both sides have the same" in told
        found = content(client)
        assert found["orders_before"] == expected["orders"] and len(found["orders"]) == 100
        assert "by_text" in client.shop.orders_before.index_information()
        run("restore", *at, "--namespaces", "shop", "--as", "shop_before")
        options = CodecOptions(document_class=RawBSONDocument)
        whole = client.get_database("shop_before", options)
        assert sorted(whole.list_collection_names()) == sorted(expected)
        for name in set(expected) - {"old_ones", "system.views"}:
            assert [document.raw for document in whole[name].find().sort("_id")] == expected[name], name
        assert client.shop_before.old_ones.count_documents({}) == 10
        assert client.shop_before.command("listCollections", filter={"name": "ring"})["cursor"]["firstBatch"][0]["options"]["capped"]
        # What is there is not touched.
        refused = run("restore", *at, "--namespaces", "shop.orders", code=1)
        assert "has documents in shop.orders already; --drop drops" in refused and client.shop.orders.count_documents({}) == 100
        run("restore", *at, "--namespaces", "shop.orders", "--drop")
        assert content(client)["orders"] == expected["orders"] and client.crm.people.count_documents({}) == 1
        for words, what in [
            (["--namespaces", "shop.nothing"], "the source has nothing of shop.nothing"),
            (["--namespaces", "shop.orders,shop.ring", "--as", "shop.x"], "--as is for one namespace"),
        ]:
            assert what in run("restore", *at, *words, code=1)
    assert "required" in run("restore", "--from", place, "--into", server.uri, code=2)
    assert not list(tmp_path.glob("plimsoll-restore-*"))


def test_the_server_says_how_far_archive_and_backups_are(server, tmp_path, place):
    with MongoClient(server.uri) as client:
        status = lambda: client.admin.command("serverStatus")["plimsoll"]["backups"]
        client.shop.things.insert_one({"_id": 1})
        end = time.monotonic() + 20
        while status()["archive"].get("bytesBehind") != 0:
            assert time.monotonic() < end, status()
            time.sleep(0.1)
        found = status()
        assert found["archive"]["place"] == place and found["archive"]["lagSeconds"] == 0 and "error" not in found["archive"]
        assert abs((found["archive"]["upTo"] - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)).total_seconds()) < 60
        assert "last" not in found and not found["isRunning"]
        made = back_up(client, place)
        last = status()["last"]
        assert (last["id"], last["to"], last["storedBytes"]) == (made["id"], place, made["storedBytes"])
        # One that does not get as far as its place is one that failed, too.
        within = f"file://{server.directory}/data/backups"
        with pytest.raises(OperationFailure) as refused:
            back_up(client, within)
        failed = status()["lastFailed"]
        assert failed["to"] == within and failed["reason"] in refused.value.details["errmsg"]
        assert status()["last"]["id"] == made["id"]
    server.stop()
    server.start()
    with MongoClient(server.uri) as client:
        while "last" not in status():
            time.sleep(0.1)
        # Of the last run: what the place of the archive has.
        assert status()["last"]["id"] == made["id"]
