"""`plimsoll check SOURCE`: what would be refused is found by trying it on an empty server in memory."""

import json
import subprocess

import pytest
from pymongo import MongoClient

from server_process import ServerProcess, binary_path

WOULD_BE_REFUSED = 3


def check(*arguments):
    command = [str(binary_path()), "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def source(tmp_path):
    server = ServerProcess(tmp_path)
    server.start()
    yield server
    server.stop()


def fill(client):
    shop = client.shop
    shop.create_collection("orders", validator={"$jsonSchema": {"required": ["customer"]}})
    shop.orders.insert_one({"_id": 1, "customer": "a", "lines": [{"price": 1}]})
    shop.orders.create_index([("customer", 1), ("lines.price", -1)])
    shop.create_collection("log", capped=True, size=100_000)
    shop.create_collection("dear", viewOn="orders", pipeline=[{"$match": {"lines.price": {"$gt": 5}}}])
    shop.command("profile", 2)
    list(shop.orders.aggregate([{"$unwind": "$lines"}, {"$group": {"_id": "$customer", "sum": {"$sum": "$lines.price"}}}]))
    for number in range(5):
        list(shop.orders.find({"customer": str(number)}).hint("customer_1_lines.price_-1"))
    shop.orders.update_many({"customer": "a"}, {"$inc": {"lines.$[].price": 1}})
    shop.orders.delete_many({"customer": "b"})
    shop.command("profile", 0)


def test_what_this_server_does_would_not_be_refused(source):
    with MongoClient(source.uri) as client:
        fill(client)
        before = client.shop.command("dbHash")["md5"]
        checked = check(source.uri, "--namespaces", "shop")
        assert client.shop.command("dbHash")["md5"] == before
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "looked at 2 collections, 1 indexes, 1 views" in checked.stdout
    assert "none of it would be refused" in checked.stdout
    kinds = int(checked.stdout.split(" kinds of queries")[0].rsplit(" ", 1)[1])
    assert kinds == 4, checked.stdout


def test_queries_of_a_log_are_tried_and_what_is_refused_is_named(source, tmp_path):
    def line(command, **more):
        attributes = {"type": "command", "ns": "shop.orders", "command": command, **more}
        return json.dumps({"t": {"$date": "2026-01-01T00:00:00.000Z"}, "msg": "Slow query", "attr": attributes})

    search = {"aggregate": "orders", "pipeline": [{"$search": {"text": {"query": "x", "path": "y"}}}], "cursor": {}, "$db": "shop"}
    lines = [
        line(search),
        line(search),
        line({"find": "orders", "filter": {"_id": {"$oid": "507f1f77bcf86cd799439011"}}, "$db": "shop", "lsid": {"id": 1}}),
        line({"find": "orders", "filter": {"a": {"$none": 1}}}, errCode=2),
        "no JSON",
    ]
    log = tmp_path / "mongod.log"
    log.write_text("\n".join(lines))
    with MongoClient(source.uri) as client:
        client.shop.orders.insert_one({"a": 1})
    checked = check(source.uri, "--log", str(log))
    assert checked.returncode == WOULD_BE_REFUSED, checked.stdout + checked.stderr
    assert "4 slow queries in 5 lines" in checked.stdout, checked.stdout
    assert "2 kinds of queries" in checked.stdout, checked.stdout
    assert "refused, queries:\n" in checked.stdout
    refused = checked.stdout.split("refused, queries:\n")[1].splitlines()[0]
    assert "$search" in refused and "seen 2 times" in refused


def test_a_source_that_is_not_there_is_told(tmp_path):
    checked = check("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=500")
    assert checked.returncode == 1
    assert "cannot use SOURCE" in checked.stderr
