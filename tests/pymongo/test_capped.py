"""Capped collections, as the manual describes them. After each test every slot and index is validated, and a restart changes nothing."""

import pytest
from bson import encode
from pymongo import ASCENDING, DESCENDING, WriteConcern
from pymongo.errors import DuplicateKeyError, OperationFailure


def ids(cursor):
    return [document["_id"] for document in cursor]


def test_the_oldest_documents_make_room(database):
    ring = database.create_collection("ring", capped=True, size=8192)
    ring.insert_many([{"_id": i, "x": "y" * (i % 90)} for i in range(1000)])
    left = ids(ring.find())
    assert left == list(range(left[0], 1000)), "the newest are left, in order of insertion"
    assert sum(len(encode(document)) for document in ring.find()) <= 8192
    assert ids(ring.find().sort("$natural", DESCENDING)) == left[::-1]
    assert ids(ring.find({"_id": {"$gte": 0}}).sort("_id", ASCENDING)) == left, "the _id index has no more"
    assert ring.count_documents({}) == ring.estimated_document_count() == len(left)


def test_max_bounds_the_number_of_documents(database):
    ring = database.create_collection("ring", capped=True, size=100_000, max=5)
    for i in range(20):
        ring.insert_one({"_id": i})
    assert ids(ring.find()) == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("given, kept", [(1, 4096), (4096, 4096), (5000, 5120), (100_000, 100_096)])
def test_sizes_are_rounded(database, given, kept):
    database.create_collection("ring", capped=True, size=given)
    assert database["ring"].options()["size"] == kept
    assert database.command("collStats", "ring")["maxSize"] == kept


def test_options_and_figures(database):
    ring = database.create_collection("ring", capped=True, size=8192, max=10)
    assert ring.options() == {"capped": True, "size": 8192, "max": 10}
    ring.insert_many([{"_id": i} for i in range(7)])
    statistics = database.command("collStats", "ring")
    assert statistics["capped"] is True and statistics["max"] == 10 and statistics["count"] == 7
    assert statistics["extentCount"] >= 1 and statistics["deletedCount"] == 0
    report = database.command("validate", "ring")
    assert report["valid"] and report["extentCount"] >= 1 and report["deletedCount"] == 0
    database.create_collection("plain")
    with pytest.raises(OperationFailure) as caught:
        database.command("create", "other", capped=True)
    assert caught.value.code == 72
    with pytest.raises(OperationFailure):
        database.command("create", "other", size=4096)


def test_documents_may_be_updated_grow_and_be_deleted(database):
    ring = database.create_collection("ring", capped=True, size=8192)
    ring.create_index("a")
    ring.insert_many([{"_id": i, "a": i, "pad": "x" * 50} for i in range(30)])
    ring.update_one({"_id": 3}, {"$set": {"a": 333}})
    ring.update_one({"_id": 4}, {"$set": {"pad": "y" * 500}})
    ring.delete_one({"_id": 5})
    assert ids(ring.find()) == [i for i in range(30) if i != 5], "natural order stays"
    assert ring.find_one({"a": 333})["_id"] == 3 and ring.find_one({"a": 3}) is None
    assert database.command("collStats", "ring")["deletedCount"] == 1
    ring.insert_many([{"_id": 100 + i, "a": i, "pad": "x" * 50} for i in range(300)])
    left = ids(ring.find())
    assert left[0] > 100
    assert ids(ring.find({"a": {"$gte": 0}}).sort("a", ASCENDING)) == left
    assert database.command("collStats", "ring")["deletedCount"] == 0


def test_unique_indexes_hold(database):
    ring = database.create_collection("ring", capped=True, size=4096)
    ring.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError):
        ring.insert_one({"_id": 1})
    ring.insert_many([{"pad": "x" * 200} for _ in range(50)])
    assert ring.find_one({"_id": 1}) is None
    ring.insert_one({"_id": 1})


def test_documents_of_all_sizes(database):
    ring = database.create_collection("ring", capped=True, size=40 << 20)
    sizes = [1, 100, 70_000, 4 << 20, 16, (16 << 20) - 100, 5, 1 << 20] * 3
    for i, size in enumerate(sizes):
        ring.insert_one({"_id": i, "b": b"x" * size})
    left = list(ring.find())
    assert [document["_id"] for document in left] == list(range(left[0]["_id"], len(sizes)))
    assert all(len(document["b"]) == sizes[document["_id"]] for document in left)
    small = database.create_collection("small", capped=True, size=4096)
    with pytest.raises(OperationFailure):
        small.insert_one({"b": b"x" * 5000})


def test_coll_mod_changes_the_bounds(database):
    ring = database.create_collection("ring", capped=True, size=4096)
    ring.insert_many([{"_id": i, "pad": "x" * 100} for i in range(200)])
    before = ids(ring.find())
    database.command("collMod", "ring", cappedSize=16384)
    ring.insert_many([{"_id": 1000 + i, "pad": "x" * 100} for i in range(60)])
    assert ids(ring.find())[: len(before)] == before, "a larger ring loses nothing"
    database.command("collMod", "ring", cappedSize=4096)
    ring.insert_one({"_id": 2000})
    assert sum(len(encode(document)) for document in ring.find()) <= 4096
    database.command("collMod", "ring", cappedMax=3)
    ring.insert_one({"_id": 2001})
    assert ids(ring.find())[-1] == 2001 and ring.count_documents({}) == 3
    with pytest.raises(OperationFailure) as caught:
        database["plain"].insert_one({})
        database.command("collMod", "plain", cappedSize=4096)
    assert caught.value.code == 72


def test_convert_to_capped(database):
    plain = database["plain"]
    plain.insert_many([{"_id": i, "a": i, "pad": "x" * 100} for i in range(500)])
    plain.create_index("a")
    database.command("convertToCapped", "plain", size=8192)
    assert plain.options()["capped"] is True
    left = ids(plain.find())
    assert left == list(range(left[0], 500)) and 0 < left[0]
    assert [index["name"] for index in plain.list_indexes()] == ["_id_"]
    with pytest.raises(OperationFailure) as caught:
        database.command("convertToCapped", "absent", size=8192)
    assert caught.value.code == 26


def test_clone_collection_as_capped(database):
    database["plain"].insert_many([{"_id": i, "pad": "x" * 100} for i in range(500)])
    database.command("cloneCollectionAsCapped", "plain", toCollection="copy", size=8192)
    left = ids(database["copy"].find())
    assert left == list(range(left[0], 500)) and database["copy"].options()["capped"] is True
    assert database["plain"].count_documents({}) == 500


def test_no_ttl_index(database):
    ring = database.create_collection("ring", capped=True, size=8192)
    with pytest.raises(OperationFailure) as caught:
        ring.create_index("at", expireAfterSeconds=10)
    assert caught.value.code == 67


def test_record_ids_are_places(database):
    ring = database.create_collection("ring", capped=True, size=8192)
    ring.insert_many([{"_id": i, "pad": "x" * (i * 7 % 300)} for i in range(400)])
    records = [
        document["$recordId"] for document in database.command("find", "ring", showRecordId=True, batchSize=1000)["cursor"]["firstBatch"]
    ]
    assert records == sorted(records)
    reply = database.command({"plimsollPositions": "ring", "cursor": {"batchSize": 1000}})
    positions = reply["cursor"]["firstBatch"]
    assert [position["recordId"] for position in positions] == records
    jumps = [b["position"] - a["position"] for a, b in zip(positions, positions[1:])]
    assert sum(1 for jump in jumps if jump < 0) <= 1, "linear but for the wrap"
    with pytest.raises(OperationFailure):
        database["plain"].insert_one({})
        database.command("plimsollPositions", "plain")


def test_it_survives_kills(database, kill_and_restart):
    ring = database.create_collection("ring", capped=True, size=20_000)
    ring.create_index("a")
    name = database.name
    last = -1
    for round in range(3):
        majority = ring.with_options(write_concern=WriteConcern("majority"))
        for i in range(300):
            last += 1
            majority.insert_one({"_id": last, "a": last % 11, "pad": "x" * (last * 13 % 400)})
        kill_and_restart()
        left = ids(ring.find())
        assert left == list(range(left[0], last + 1))
        assert sorted(ids(ring.find({"a": {"$gte": 0}}).hint("a_1"))) == left
        assert database.command("validate", "ring")["valid"], name
