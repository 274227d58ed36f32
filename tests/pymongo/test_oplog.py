"""local.oplog.rs: the oplog as tools read it."""

import pytest
from bson import Timestamp
from pymongo import CursorType, MongoClient
from pymongo.errors import OperationFailure


def entries(client, namespace):
    return list(client.local["oplog.rs"].find({"ns": namespace}))


def test_entries_have_the_shape_that_tools_expect(client, database):
    things = database["things"]
    things.insert_one({"_id": 1, "a": 1})
    things.update_one({"_id": 1}, {"$set": {"a": 2}})
    things.replace_one({"_id": 1}, {"b": 1})
    things.delete_one({"_id": 1})
    found = entries(client, f"{database.name}.things")
    assert [entry["op"] for entry in found] == ["i", "u", "u", "d"]
    inserted, updated, replaced, deleted = found
    assert inserted["o"] == {"_id": 1, "a": 1}
    assert updated["o2"] == {"_id": 1} and updated["o"]["$v"] == 2 and updated["o"]["diff"] == {"u": {"a": 2}}
    assert replaced["o"] == {"_id": 1, "b": 1} and replaced["o2"] == {"_id": 1}
    assert deleted["o"] == {"_id": 1}
    for entry in found:
        assert set(entry) <= {"op", "ns", "ui", "o", "o2", "ts", "t", "v", "wall", "lsid", "txnNumber", "stmtId"}
        assert isinstance(entry["ts"], Timestamp) and entry["v"] == 2 and entry["t"] == 1
    times = [entry["ts"] for entry in found]
    assert times == sorted(times) and len(set(times)) == 4


def test_changes_inside_documents_are_told_by_path(client, database):
    things = database["things"]
    things.insert_one({"_id": 1, "a": {"b": 1, "c": [1, 2, 3]}, "long": "x" * 200})
    things.update_one({"_id": 1}, {"$set": {"a.b": 2, "a.c.1": 9}})
    updated = entries(client, f"{database.name}.things")[-1]
    assert updated["o"]["diff"] == {"sa": {"u": {"b": 2}, "sc": {"a": True, "u1": 9}}}
    assert things.find_one()["a"] == {"b": 2, "c": [1, 9, 3]}


def test_natural_order_forward_and_backward(client, database):
    database["things"].insert_many([{"_id": i} for i in range(200)])
    oplog = client.local["oplog.rs"]
    forward = [entry["ts"] for entry in oplog.find().sort("$natural", 1)]
    backward = [entry["ts"] for entry in oplog.find().sort("$natural", -1)]
    assert backward == forward[::-1] and forward == sorted(forward)
    newest = oplog.find().sort("$natural", -1).limit(1).next()
    assert newest["ts"] == forward[-1]
    middle = forward[len(forward) // 2]
    assert [entry["ts"] for entry in oplog.find({"ts": {"$gte": middle}})] == [ts for ts in forward if ts >= middle]
    assert oplog.aggregate([{"$match": {"op": "i"}}, {"$count": "n"}]).next()["n"] >= 200


def test_figures_for_print_replication_info(client, database):
    database["things"].insert_one({})
    assert "oplog.rs" in client.local.list_collection_names()
    statistics = client.local.command("collStats", "oplog.rs")
    assert statistics["capped"] is True and statistics["maxSize"] >= 990 << 20 and statistics["size"] > 0
    stage = client.local["oplog.rs"].aggregate([{"$collStats": {"storageStats": {"scale": 1}}}]).next()
    assert stage["storageStats"]["maxSize"] == statistics["maxSize"]


def test_counting_and_distinct_values(client, database):
    database["things"].insert_many([{"_id": i, "a": i % 3} for i in range(30)])
    database["things"].delete_many({"a": 0})
    oplog, namespace = client.local["oplog.rs"], f"{database.name}.things"
    assert oplog.count_documents({"ns": namespace}) == 40
    local = client.local
    assert local.command("count", "oplog.rs", query={"ns": namespace, "op": "i"})["n"] == 30
    assert local.command("count", "oplog.rs", query={"ns": namespace, "op": "i"}, skip=5, limit=7)["n"] == 7
    assert local.command("count", "oplog.rs", query={"ns": namespace, "op": "d"}, skip=5)["n"] == 5
    assert local.command("count", "oplog.rs")["n"] == len(list(oplog.find()))
    assert oplog.distinct("op", {"ns": namespace}) == ["d", "i"]
    assert oplog.distinct("o.a", {"ns": namespace}) == [0, 1, 2]
    last = oplog.find().sort("$natural", -1).limit(1).next()["ts"]
    database["things"].insert_one({"_id": "after"})
    assert local.command("count", "oplog.rs", query={"ts": {"$gt": last}, "ns": namespace})["n"] == 1
    assert [entry["o"]["_id"] for entry in oplog.aggregate([{"$match": {"ts": {"$gt": last}, "ns": namespace}}])] == ["after"]
    with pytest.raises(OperationFailure) as caught:
        local.command("explain", {"count": "oplog.rs"})
    assert caught.value.code == 238


def test_it_can_be_tailed(client, database):
    database["things"].insert_one({"_id": 0})
    last = client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()["ts"]
    cursor = client.local["oplog.rs"].find({"ts": {"$gt": last}}, cursor_type=CursorType.TAILABLE_AWAIT).max_await_time_ms(5000)
    database["things"].insert_one({"_id": 1})
    assert next(cursor)["o"] == {"_id": 1}
    cursor.close()


def test_nobody_writes_to_it(client):
    with pytest.raises(OperationFailure) as caught:
        client.local["oplog.rs"].insert_one({})
    assert caught.value.code == 73


def test_a_new_size_holds_after_a_kill(client, kill_and_restart):
    client.admin.command({"replSetResizeOplog": 1, "size": 1500.0})
    kill_and_restart()
    assert client.local.command("collStats", "oplog.rs")["maxSize"] == 1500 << 20
    client.admin.command({"replSetResizeOplog": 1, "size": 1024.0})


def test_resizing(client):
    client.admin.command({"replSetResizeOplog": 1, "size": 2000.0, "minRetentionHours": 1.5})
    assert client.local.command("collStats", "oplog.rs")["maxSize"] == 2000 << 20
    for wrong in ({}, {"size": 5.0}, {"minRetentionHours": -1.0}):
        with pytest.raises(OperationFailure):
            client.admin.command({"replSetResizeOplog": 1, **wrong})
    client.admin.command({"replSetResizeOplog": 1, "size": 1024.0, "minRetentionHours": 0.0})


def test_it_is_there_after_a_restart(client, database, restart):
    database["things"].insert_one({"_id": "before"})
    namespace = f"{database.name}.things"
    restart()
    assert [entry["o"]["_id"] for entry in entries(client, namespace)] == ["before"]
