"""`serverStatus` and `top`: the sections and columns that mongostat, mongotop, Compass and exporters read, and that they move with what is done."""

import threading
import time

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure


def status(client, **options):
    return client.admin.command("serverStatus", **options)


def test_what_mongostat_reads(client):
    client.test.stat.insert_one({})
    found = status(client, recordStats=0)
    assert {"bytesIn", "bytesOut", "numRequests"} <= set(found["network"])
    for group in ("currentQueue", "activeClients"):
        counts = found["globalLock"][group]
        assert counts["total"] == counts["readers"] + counts["writers"]
    assert found["globalLock"]["totalTime"] > 0
    assert {"current", "available", "totalCreated"} <= set(found["connections"])
    assert {"resident", "virtual", "bits", "supported"} <= set(found["mem"])
    cache = found["wiredTiger"]["cache"]
    used, most = cache["bytes currently in the cache"], cache["maximum bytes configured"]
    assert 0 < used <= most and 0 <= cache["tracked dirty bytes in the cache"] <= used
    assert found["wiredTiger"]["transaction"]["transaction checkpoints"] >= 0
    assert {"insert", "query", "update", "delete", "getmore", "command"} == set(found["opcounters"])
    # Snapshots are read in `test_read_concern.py`.
    assert found["storageEngine"]["supportsSnapshotReadConcern"] is True
    assert set(found["opcountersRepl"].values()) == {0}
    assert found["extra_info"]["page_faults"] >= 0 and found["extra_info"]["threads"] > 0
    assert {"regular", "warning", "msg", "user", "rollovers"} <= set(found["asserts"])
    for gate in found["wiredTiger"]["concurrentTransactions"].values():
        assert gate["out"] + gate["available"] >= gate["totalTickets"] > 0


def test_the_network_is_counted(server, client):
    before = status(client)["network"]
    client.test.command("ping", comment="x" * 10_000)
    after = status(client)["network"]
    assert after["bytesIn"] >= before["bytesIn"] + 10_000
    assert after["numRequests"] >= before["numRequests"] + 2
    with MongoClient(server.uri, compressors="zlib") as compressed:
        compressed.test.compressed.insert_one({"text": "x" * 100_000})
        found = status(client)["network"]
    assert found["bytesIn"] - found["physicalBytesIn"] > 50_000


def test_latencies_are_counted_by_kind(client):
    before = status(client)["opLatencies"]
    client.test.latency.insert_one({})
    client.test.latency.find_one()
    client.test.command("ping")
    after = status(client, opLatencies={"histograms": True})["opLatencies"]
    for kind in ("reads", "writes", "commands"):
        assert after[kind]["ops"] > before[kind]["ops"]
        assert after[kind]["latency"] >= before[kind]["latency"]
        histogram = after[kind]["histogram"]
        assert sum(entry["count"] for entry in histogram) == after[kind]["ops"]
        assert [entry["micros"] for entry in histogram] == sorted(entry["micros"] for entry in histogram)
    assert "histogram" not in before["reads"] and "transactions" in after


def test_commands_and_their_failures_are_counted(client):
    before = status(client)
    client.test.counting.distinct("a")
    with pytest.raises(OperationFailure):
        client.test.command("distinct", "counting")
    with pytest.raises(OperationFailure):
        client.test.command("noSuchCommand")
    after = status(client)

    def grown(name, figure):
        return after["metrics"]["commands"][name][figure] - before["metrics"]["commands"][name][figure]

    assert (grown("distinct", "total"), grown("distinct", "failed")) == (2, 1)
    unknown = "<UNKNOWN>"
    assert after["metrics"]["commands"][unknown] == before["metrics"]["commands"][unknown] + 1
    assert after["asserts"]["user"] >= before["asserts"]["user"] + 2
    assert after["asserts"]["regular"] == before["asserts"]["regular"]


def test_operations_are_counted_as_mongodb_counts_them(client):
    collection = client.test.operations
    collection.drop()
    collection.insert_many([{"_id": number} for number in range(10)])
    before = status(client)
    # A document that is refused was tried; those behind it in an ordered batch were not.
    with pytest.raises(BulkWriteError):
        collection.insert_many([{"_id": 10}, {"_id": 0}, {"_id": 11}])
    with pytest.raises(BulkWriteError):
        collection.insert_many([{"_id": 0}, {"_id": 12}], ordered=False)
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"_id": 0})
    collection.update_many({"_id": {"$lt": 4}}, {"$set": {"a": 1}})
    collection.update_many({"_id": {"$lt": 4}}, {"$set": {"a": 1}})
    collection.delete_one({"_id": 10})
    list(collection.find({}, batch_size=3))
    list(collection.aggregate([{"$match": {"_id": 1}}]))
    after = status(client)

    def grown(section, name):
        return after[section][name] - before[section][name]

    assert grown("opcounters", "insert") == 2 + 2 + 1
    assert grown("opcounters", "update") == 2 and grown("opcounters", "delete") == 1
    assert grown("opcounters", "query") == 1 and grown("opcounters", "getmore") >= 3
    # The aggregation, asking for the status, and what the driver's monitor asks now and then.
    monitored = [counts["metrics"]["commands"].get("hello", {"total": 0})["total"] for counts in (before, after)]
    assert grown("opcounters", "command") == 2 + monitored[1] - monitored[0]
    documents = {
        name: count - before["metrics"]["document"][name] for name, count in after["metrics"]["document"].items()
    }
    # Updated are those that matched, changed or not.
    assert documents == {"inserted": 2, "updated": 8, "deleted": 1, "returned": 11 + 1}


def test_what_queries_examine_is_counted(client):
    collection = client.test.examined
    collection.drop()
    collection.insert_many([{"_id": number, "a": number % 10} for number in range(100)])
    collection.create_index("a")
    before = status(client)["metrics"]
    assert len(list(collection.find({"a": 3}))) == 10
    assert len(list(collection.find({"b": None}).sort("b", 1))) == 100
    after = status(client)["metrics"]
    examined = {name: after["queryExecutor"][name] - before["queryExecutor"][name] for name in ("scanned", "scannedObjects")}
    # A scan may have to look at the key behind its range.
    assert examined["scanned"] in (10, 11) and examined["scannedObjects"] == 110
    scans = [metrics["queryExecutor"]["collectionScans"]["total"] for metrics in (before, after)]
    assert scans[1] == scans[0] + 1
    assert after["operation"]["scanAndOrder"] == before["operation"]["scanAndOrder"] + 1


def test_transactions_are_counted(client):
    client.test.counted_transactions.insert_one({"_id": 0})
    before = status(client)["transactions"]
    with client.start_session() as session:
        with session.start_transaction():
            client.test.counted_transactions.insert_one({"_id": 1}, session=session)
            during = status(client)["transactions"]
        session.start_transaction()
        client.test.counted_transactions.insert_one({"_id": 2}, session=session)
        session.abort_transaction()
    after = status(client)["transactions"]
    assert during["currentOpen"] == before["currentOpen"] + 1 and during["currentInactive"] >= 1
    grown = {name: after[name] - before[name] for name in ("totalStarted", "totalCommitted", "totalAborted")}
    assert grown == {"totalStarted": 2, "totalCommitted": 1, "totalAborted": 1}


def test_sections_can_be_chosen(client):
    only = status(client, none=1, network=1)
    assert "network" in only and "metrics" not in only
    without = status(client, metrics=0, wiredTiger=0)
    assert "metrics" not in without and "wiredTiger" not in without and "network" in without
    # What a server of MongoDB may have or not, as exporters ask for it.
    assert status(client, tcmalloc=1, locks=True, repl=1)["ok"] == 1.0
    with pytest.raises(OperationFailure):
        status(client, noSuchSection=1)


COLUMNS = {"total", "readLock", "writeLock", "queries", "getmore", "insert", "update", "remove", "commands"}


def test_top_has_all_columns_and_counts_operations(client):
    collection = client.test.top_columns
    collection.drop()
    collection.insert_many([{"_id": number} for number in range(300)])
    list(collection.find(batch_size=100))
    collection.update_one({"_id": 1}, {"$set": {"a": 1}})
    collection.delete_one({"_id": 2})
    collection.find_one_and_update({"_id": 3}, {"$set": {"a": 1}})
    list(collection.aggregate([{"$limit": 1}]))
    entry = client.admin.command("top")["totals"]["test.top_columns"]
    assert set(entry) == COLUMNS
    assert all(isinstance(usage["time"], Int64) and isinstance(usage["count"], Int64) for usage in entry.values())
    counts = {name: usage["count"] for name, usage in entry.items()}
    getmores = counts["getmore"]
    assert getmores in (2, 3)
    assert counts["insert"] == counts["queries"] == counts["update"] == counts["remove"] == 1
    assert counts["commands"] == 2
    assert counts["readLock"] == 1 + getmores + 1 and counts["writeLock"] == 4
    assert counts["total"] == counts["readLock"] + counts["writeLock"]
    # A batch of many documents is one operation.
    assert client.admin.command("top")["totals"]["test.top_columns"]["insert"]["count"] == 1


def test_a_dropped_collection_is_forgotten(client):
    client.test.top_dropped.insert_one({})
    client.test.top_dropped.drop()
    assert "test.top_dropped" not in client.admin.command("top")["totals"]


def test_waiting_for_events_is_not_counted_as_work(client):
    with client.test.quiet.watch(max_await_time_ms=700) as stream:
        stream.try_next()
        entry = client.admin.command("top")["totals"]["test.quiet"]
    assert entry["getmore"]["count"] >= 1
    assert entry["getmore"]["time"] < 300_000, entry
