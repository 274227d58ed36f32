"""`plimsoll copy`: databases from one server to another, while the first one is in use."""

import json
import signal
import subprocess
import threading
import time

import bson
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from server_process import ServerProcess, binary_path


def running(directory, *arguments):
    process = ServerProcess(directory, ("--cache", "64MiB", *arguments))
    process.start()
    return process


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    process = running(tmp_path / "source", "--replica-set", "rs")
    yield process
    process.stop()


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    process = running(tmp_path / "target")
    yield process
    process.stop()


def copy_command(source, target, tmp_path, *options):
    state = str(tmp_path / "copy.state")
    return [str(binary_path()), "copy", source.uri, target.uri, "--state", state, *options]


def copied(source, target, tmp_path, *options, code=0):
    command = copy_command(source, target, tmp_path, *options)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def raw(client, namespace):
    """All documents of a collection, as bytes in the order of their _id."""
    database, name = namespace.split(".", 1)
    options = CodecOptions(document_class=RawBSONDocument)
    return [document.raw for document in client[database].get_collection(name, options).find().sort("_id")]


def test_everything_is_on_the_other_side(source, target, tmp_path):
    with MongoClient(source.uri) as one, MongoClient(target.uri) as other:
        orders = one.shop.orders
        orders.insert_many([{"_id": number, "n": number % 7, "text": "x" * (number % 50)} for number in range(30_000)])
        # _ids of all types: ranges by filters would lose some.
        one.shop.mixed.insert_many([{"_id": value} for value in (1, 2.5, "a", bson.ObjectId(), None, {"a": 1}, True, bson.Timestamp(1, 2))])
        orders.create_index([("n", 1), ("text", -1)], name="by_n", partialFilterExpression={"n": {"$gt": 2}})
        orders.create_index("text", unique=False, sparse=True)
        one.shop.create_collection("log", capped=True, size=100_000)
        one.shop.log.insert_many([{"_id": -number} for number in range(100)])
        one.shop.create_collection("strict", validator={"n": {"$type": "int"}}, validationAction="warn")
        one.shop.strict.insert_one({"n": "no"})
        one.shop.create_collection("cheap", viewOn="orders", pipeline=[{"$match": {"n": 1}}])
        one.crm.people.insert_one({"_id": 1})
        text = copied(source, target, tmp_path, "--verify")
        assert "both sides have the same" in text and "2 indexes, 1 views" in text, text
        for namespace in ("shop.orders", "shop.mixed", "shop.strict", "crm.people"):
            assert raw(other, namespace) == raw(one, namespace) != []
        assert [document["_id"] for document in other.shop.log.find()] == [-number for number in range(100)]
        assert other.shop.cheap.count_documents({}) == one.shop.cheap.count_documents({})
        assert other.shop.orders.index_information() == orders.index_information()
        assert other.shop.command("listCollections", filter={"name": "log"})["cursor"]["firstBatch"][0]["options"]["capped"]
    assert not (tmp_path / "copy.state").exists()


def test_what_is_chosen_and_what_is_there_already(source, target, tmp_path):
    with MongoClient(source.uri) as one, MongoClient(target.uri) as other:
        for name in ("year2023", "year2024", "other"):
            one.logs[name].insert_one({"_id": name})
        one.shop.orders.insert_one({"_id": 1})
        other.logs.year2024.insert_one({"_id": "mine"})
        text = copied(source, target, tmp_path, "--namespaces", "logs.year*", code=1)
        assert "has documents in logs.year2024 already" in text
        copied(source, target, tmp_path, "--namespaces", "logs.year*", "--drop")
        assert sorted(other.logs.list_collection_names()) == ["year2023", "year2024"]
        assert [document["_id"] for document in other.logs.year2024.find()] == ["year2024"]
        assert "shop" not in other.list_database_names()
    assert "the same server" in copied(source, source, tmp_path, code=1)
    assert "admin, config and local belong" in copied(source, target, tmp_path, "--namespaces", "admin", code=1)


def test_a_copy_that_was_killed_goes_on(source, target, tmp_path):
    with MongoClient(source.uri) as one, MongoClient(target.uri) as other:
        many = [{"_id": number, "text": "x" * 300} for number in range(120_000)]
        for begin in range(0, len(many), 20_000):
            one.shop.orders.insert_many(many[begin : begin + 20_000])
        process = subprocess.Popen(copy_command(source, target, tmp_path), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while other.shop.orders.estimated_document_count() < 20_000 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert (tmp_path / "copy.state").exists()
        copied(source, target, tmp_path, "--verify")
        assert raw(other, "shop.orders") == raw(one, "shop.orders")


def test_the_target_follows_a_source_in_use(source, target, tmp_path):
    with MongoClient(source.uri) as one, MongoClient(target.uri) as other:
        one.shop.orders.insert_many([{"_id": number, "n": 0} for number in range(5_000)])
        is_over = threading.Event()

        def use():
            number = 0
            while not is_over.is_set():
                number += 1
                one.shop.orders.update_one({"_id": number % 5_000}, {"$inc": {"n": 1}, "$set": {"last": number}})
                one.shop.orders.insert_one({"_id": 10_000 + number})
                one.shop.orders.delete_one({"_id": 10_000 + number - 50})
                one.shop.orders.replace_one({"_id": 7}, {"r": number})
                if number == 10:
                    one.shop.later.insert_one({"_id": "created while it is copied"})
                    one.shop.later.create_index("x", name="later_x")

        user = threading.Thread(target=use)
        user.start()
        command = copy_command(source, target, tmp_path, "--follow")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(4)
        is_over.set()
        user.join()
        process.send_signal(signal.SIGINT)
        told, complaints = process.communicate(timeout=120)
        assert process.returncode == 0, told + complaints
        assert "followed" in told
        for namespace in ("shop.orders", "shop.later"):
            assert raw(other, namespace) == raw(one, namespace)
        assert "later_x" in other.shop.later.index_information()


def test_differences_are_found(source, target, tmp_path):
    with MongoClient(source.uri) as one, MongoClient(target.uri) as other:
        one.shop.orders.insert_many([{"_id": number} for number in range(10)])
        # What the target refuses stays behind, and is named.
        one.shop.create_collection("old", capped=True, size=10_000)
        copied(source, target, tmp_path)
        other.shop.orders.delete_one({"_id": 3})
        other.shop.orders.update_one({"_id": 5}, {"$set": {"n": 1}})
        other.shop.orders.insert_one({"_id": 4.5})
        text = copied(source, target, tmp_path, "--namespaces", "shop.old", "--drop", "--verify")
        assert "both sides have the same" in text
        (tmp_path / "copy.state").write_text(state_of_done(source, target))
        text = copied(source, target, tmp_path, "--verify", code=3)
        for line in ("the target lacks the document with _id 3", "the document with _id 5 differs", "only the target has the document with _id 4.5"):
            assert line in text, text


def state_of_done(source, target):
    """As if all parts of both collections were copied."""
    hosts = [f"{process.address[0]}:{process.address[1]}" for process in (source, target)]
    done = {"orders": [{"isDone": True}], "old": [{"isDone": True}]}
    collections = {f"shop.{name}": parts for name, parts in done.items()}
    return json.dumps({"between": f"{hosts[0]} to {hosts[1]}, ", "collections": collections})


def test_users_and_roles_come_along(source, target, tmp_path):
    with MongoClient(source.uri) as one, MongoClient(target.uri) as other:
        one.shop.command("createRole", "reader", privileges=[], roles=["read"])
        one.shop.command("createUser", "ada", pwd="secret", roles=["reader"])
        one.shop.orders.insert_one({"_id": 1})
        text = copied(source, target, tmp_path, "--users")
        assert "1 users, 1 roles" in text
        assert [user["user"] for user in other.shop.command("usersInfo", "ada")["users"]] == ["ada"]
        assert "tempusers" not in other.admin.list_collection_names()
    with MongoClient(target.uri, username="ada", password="secret", authSource="shop") as ada:
        assert ada.shop.orders.count_documents({}) == 1
