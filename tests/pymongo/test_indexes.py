"""Indexes: single, compound, multikey, unique, sparse, partial, TTL; building, dropping, hiding, using."""

import datetime
import threading
import time

import bson
import pytest
from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure


def test_create_and_list(collection):
    assert collection.create_index([("a", 1), ("b", -1)]) == "a_1_b_-1"
    assert collection.create_index("c", name="by_c") == "by_c"
    assert [index["name"] for index in collection.list_indexes()] == ["_id_", "a_1_b_-1", "by_c"]
    information = collection.index_information()
    assert information["_id_"]["key"] == [("_id", 1)]
    assert information["a_1_b_-1"] == {"v": 2, "key": [("a", 1), ("b", -1)]}


def test_the_reply_counts(collection):
    command = {"createIndexes": collection.name, "indexes": [{"key": {"a": 1}, "name": "a_1"}]}
    reply = collection.database.command(command)
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (1, 2)
    assert reply["createdCollectionAutomatically"] is True
    reply = collection.database.command(command)
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (2, 2)
    assert reply["note"] == "all indexes already exist"


def test_an_index_over_existing_documents(collection):
    collection.insert_many([{"_id": i, "a": i % 7} for i in range(5000)])
    collection.create_index("a")
    assert collection.find({"a": 3}).hint("a_1").explain()["executionStats"]["totalKeysExamined"] in (714, 715)
    assert len(list(collection.find({"a": 3}).hint("a_1"))) == 714


def test_multikey(collection):
    collection.insert_many([{"_id": 1, "a": [1, 2, 2]}, {"_id": 2, "a": [{"b": 5}]}, {"_id": 3, "a": []}])
    collection.create_index("a")
    collection.create_index("a.b")
    assert [d["_id"] for d in collection.find({"a": 2}).hint("a_1")] == [1]
    assert [d["_id"] for d in collection.find({"a.b": 5}).hint("a.b_1")] == [2]
    assert [d["_id"] for d in collection.find({"a": []}).hint("a_1")] == [3]
    with pytest.raises(OperationFailure) as caught:
        collection.create_index([("a", 1), ("c", 1)])
        collection.insert_one({"a": [1], "c": [2]})
    assert caught.value.code == 171
    assert caught.value.details.get("codeName", "CannotIndexParallelArrays") == "CannotIndexParallelArrays"


def test_unique(collection):
    collection.create_index("a", unique=True)
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
    for duplicate in [{"a": 1}, {"a": 1.0}, {}, {"a": None}]:
        with pytest.raises(DuplicateKeyError) as caught:
            collection.insert_one(duplicate)
        assert caught.value.details["keyPattern"] == {"a": 1}
    with pytest.raises(DuplicateKeyError) as caught:
        collection.insert_one({"a": 1})
    assert caught.value.details["keyValue"] == {"a": 1}
    assert "index: a_1 dup key: { a: 1 }" in caught.value.details["errmsg"]


def test_a_unique_index_over_duplicates_fails(collection):
    collection.insert_many([{"a": 1}, {"a": 1}])
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("a", unique=True)
    assert caught.value.code == 11000
    assert list(collection.index_information()) == ["_id_"]


def test_unique_multikey(collection):
    collection.create_index("a", unique=True)
    collection.insert_one({"_id": 1, "a": [1, 2]})
    collection.insert_one({"_id": 2, "a": [3, 3]})
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"_id": 3, "a": [2, 5]})


def test_sparse(collection):
    collection.create_index("a", unique=True, sparse=True)
    collection.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 3, "a": 1}])
    assert [d["_id"] for d in collection.find().hint("a_1")] == [3]
    assert collection.count_documents({"a": None}) == 2
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 1})


def test_partial(collection):
    collection.create_index("a", unique=True, partialFilterExpression={"kind": "x"})
    collection.insert_many([{"_id": 1, "a": 1, "kind": "x"}, {"_id": 2, "a": 1}, {"_id": 3, "a": 1, "kind": "y"}])
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 1, "kind": "x"})
    with pytest.raises(DuplicateKeyError):
        collection.update_one({"_id": 3}, {"$set": {"kind": "x"}})
    plan = collection.find({"a": 1, "kind": "x"}).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "FETCH"
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert collection.count_documents({"a": 1}) == 3


def test_updates_move_keys(collection):
    collection.create_index("a")
    collection.insert_many([{"_id": i, "a": i} for i in range(100)])
    collection.update_many({}, {"$mul": {"a": -1}})
    assert [d["_id"] for d in collection.find().sort("a", 1).hint("a_1").limit(3)] == [99, 98, 97]
    collection.delete_many({"a": {"$lt": -10}})
    assert len(list(collection.find().hint("a_1"))) == 11


def test_drop(collection):
    collection.create_indexes([IndexModel("a"), IndexModel("b"), IndexModel("c"), IndexModel([("d", 1), ("e", 1)])])
    collection.drop_index("a_1")
    collection.drop_index([("d", 1), ("e", 1)])
    reply = collection.database.command("dropIndexes", collection.name, index=["b_1"])
    assert reply["nIndexesWas"] == 3
    collection.drop_indexes()
    assert list(collection.index_information()) == ["_id_"]
    for wrong, code in [("absent", 27), ("_id_", 72)]:
        with pytest.raises(OperationFailure) as caught:
            collection.drop_index(wrong)
        assert caught.value.code == code, caught.value.details


def test_hidden(collection):
    collection.create_index("a")
    collection.insert_many([{"a": i} for i in range(10)])
    reply = collection.database.command("collMod", collection.name, index={"name": "a_1", "hidden": True})
    assert (reply["hidden_old"], reply["hidden_new"]) == (False, True)
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert collection.index_information()["a_1"]["hidden"] is True
    collection.database.command("collMod", collection.name, index={"name": "a_1", "hidden": False})
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "FETCH"


@pytest.mark.parametrize(
    "index, code",
    [
        ({"key": {"a": 1}}, None),
        ({"name": "a_1"}, None),
        ({"key": {}, "name": "x"}, 67),
        ({"key": {"a": 0}, "name": "x"}, 67),
        ({"key": {"a": "unknown"}, "name": "x"}, 67),
        ({"key": {"a": 1}, "name": "x", "unknownOption": 1}, 197),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": "soon"}, None),
        ({"key": {"a": 1}, "name": "x", "expireAfterSeconds": -1}, 67),
        ({"key": {"a": 1, "b": 1}, "name": "x", "expireAfterSeconds": 5}, 67),
        ({"key": {"a": 1}, "name": "x", "sparse": True, "partialFilterExpression": {"a": 1}}, None),
        ({"key": {"a": 1}, "name": "x", "partialFilterExpression": {"a": {"$ne": 1}}}, 67),
        ({"key": {"a": "geoHaystack"}, "name": "x"}, None),
    ],
)
def test_refused(collection, index, code):
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("createIndexes", collection.name, indexes=[index])
    assert caught.value.details["codeName"]
    if code is not None:
        assert caught.value.code == code, caught.value.details


def test_conflicting_definitions(collection):
    collection.create_index("a", name="x")
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("b", name="x")
    assert caught.value.code == 86 and caught.value.details["codeName"] == "IndexKeySpecsConflict"
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("a", name="y")
    assert caught.value.code == 85 and caught.value.details["codeName"] == "IndexOptionsConflict"


def test_time_to_live(database):
    things = database["expiring"]
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    things.create_index("at", expireAfterSeconds=1)
    kept = [
        {"_id": "future", "at": now + hour},
        {"_id": "no date", "at": "text"},
        {"_id": "missing"},
        {"_id": "far", "at": datetime.datetime(9999, 1, 1)},
    ]
    gone = [{"_id": "past", "at": now - hour}, {"_id": "old", "at": datetime.datetime(1900, 1, 1)},
            {"_id": "array", "at": [now + hour, now - hour]}]
    things.insert_many(kept + gone)
    deadline = time.monotonic() + 75
    while things.count_documents({}) > len(kept) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert {d["_id"] for d in things.find()} == {d["_id"] for d in kept}
    reply = database.command("collMod", "expiring", index={"keyPattern": {"at": 1}, "expireAfterSeconds": 7200})
    assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (1, 7200)
    assert things.index_information()["at_1"]["expireAfterSeconds"] == 7200


def test_an_index_is_there_after_a_crash(collection, kill_and_restart):
    collection.insert_many([{"_id": i, "a": bson.Int64(i)} for i in range(1000)])
    collection.create_index("a", unique=True)
    kill_and_restart()
    assert collection.find_one({"a": 500})["_id"] == 500
    assert collection.find({"a": 500}).explain()["executionStats"]["totalDocsExamined"] == 1
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"a": 500})


def test_keys_longer_than_a_tree_takes(collection):
    """MongoDB has had no limit on keys since 4.2. What is expected is what a scan of the collection finds."""
    ends = ["", "a", "b", "c\0", "d" * 3000]
    collection.insert_many([{"_id": "i" * 3000 + end, "a": ["k" * 3000 + end, 1], "b": "k" * 2030 + end} for end in ends])
    collection.create_index("a")
    collection.create_index([("b", -1)], unique=True)
    for name, value in [("a", "k" * 3000 + "b"), ("b", "k" * 2030 + "d" * 3000), ("_id", "i" * 3000 + "a")]:
        for condition in [value, {"$gt": value}, {"$lte": value}, {"$in": [value, 5]}, {"$ne": value}]:
            for direction in (1, -1):
                order = [(name, direction)] if name == "_id" else [(name, direction), ("_id", 1)]
                hint = {"a": "a_1", "b": "b_-1", "_id": "_id_"}[name]
                found = list(collection.find({name: condition}).hint(hint).sort(order))
                assert found == list(collection.find({name: condition}).hint([("$natural", 1)]).sort(order))
    covered = collection.find({"b": {"$gte": "k"}}, {"_id": 0, "b": 1}).sort("b", 1)
    assert covered.explain()["executionStats"]["totalDocsExamined"] == 0
    assert [document["b"] for document in covered] == sorted("k" * 2030 + end for end in ends)
    assert sorted(collection.distinct("b")) == sorted("k" * 2030 + end for end in ends)
    assert collection.count_documents({"b": {"$gt": "k" * 2030 + "a"}}) == 3
    one = collection.find({"b": "k" * 2030 + "d" * 3000}).explain()["executionStats"]
    assert one["totalKeysExamined"] in (1, 2)
    with pytest.raises(DuplicateKeyError) as caught:
        collection.insert_one({"_id": 1, "b": "k" * 2030 + "d" * 3000})
    assert len(str(caught.value)) < 5000 and caught.value.details["keyPattern"] == {"b": -1}
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"_id": "i" * 3000 + "a", "b": 1})
    assert collection.delete_one({"_id": "i" * 3000 + "a"}).deleted_count == 1
    collection.insert_one({"_id": "i" * 3000 + "a", "b": "k" * 2030 + "a"})
    assert collection.update_one({"b": "k" * 2030 + "a"}, {"$set": {"b": 3}}).modified_count == 1
    collection.database.command("validate", collection.name, full=True)


def test_hashed(collection):
    """The manual's pages on hashed indexes: equality alone, doubles truncated, one hashed field, no arrays, not unique."""
    assert collection.create_index([("a", "hashed")]) == "a_hashed"
    assert collection.create_index([("b", 1), ("c.d", "hashed"), ("e", -1)]) == "b_1_c.d_hashed_e_-1"
    values = [1, 1.0, 1.7, "x", None, {"y": 1}, True, bson.ObjectId("5ea77f07fcb94966883f5d5e")]
    collection.insert_many([{"_id": i, "a": value, "b": i % 2, "c": {"d": value}} for i, value in enumerate(values)])
    collection.insert_one({"_id": 100})
    for condition in [*values, {"$in": [1, "x", None]}, {"$in": [5]}, {"y": 1.0}, {"$exists": False}]:
        for name, more, hint in [("a", {}, "a_hashed"), ("c.d", {"b": 1}, "b_1_c.d_hashed_e_-1")]:
            by_index = list(collection.find({name: condition, **more}).hint(hint).sort("_id", 1))
            assert by_index == list(collection.find({name: condition, **more}).hint([("$natural", 1)]).sort("_id", 1))
    plan = collection.find({"a": 1.7}).explain()
    scan = plan["queryPlanner"]["winningPlan"]["inputStage"]
    assert scan["indexName"] == "a_hashed" and plan["executionStats"]["totalDocsExamined"] == 3
    assert scan["indexBounds"]["a"][0].count("5902408780260971510") == 2
    ranges = collection.find({"a": {"$gt": 1}}).explain()["queryPlanner"]["winningPlan"]
    assert ranges["stage"] == "COLLSCAN"
    for array in [{"a": [1]}, {"c": [{"d": 1}]}, {"b": []}]:
        with pytest.raises(OperationFailure) as caught:
            collection.insert_one(array)
        assert caught.value.code == 16766
    for keys, options, code in [([("x", "hashed"), ("y", "hashed")], {}, 31303), ([("x", "hashed")], {"unique": True}, 16764)]:
        with pytest.raises(OperationFailure) as caught:
            collection.create_index(keys, **options)
        assert caught.value.code == code
    collection.insert_one({"_id": 101, "f": [1]})
    with pytest.raises(OperationFailure) as caught:
        collection.create_index([("f", "hashed")])
    assert caught.value.code == 16766
    for keys, code in [([("x", "hashed")], 67), ([("$**", 1)], 238)]:
        with pytest.raises(OperationFailure) as caught:
            collection.create_index(keys, collation={"locale": "fr"})
        assert caught.value.code == code
    collection.create_index([("$**", 1)])
    # Their keys tell text apart, and a query with a collation does not.
    assert [document["_id"] for document in collection.find({"a": "X"}).collation({"locale": "en", "strength": 2})] == [3]
    collection.drop_index([("a", "hashed")])
    assert "a_hashed" not in collection.index_information()


def test_wildcard(collection):
    """The manual's pages on wildcard indexes; what is found is what a scan of the collection finds."""
    assert collection.create_index([("$**", 1)]) == "$**_1"
    assert collection.create_index([("p.$**", -1)]) == "p.$**_-1"
    collection.create_index([("$**", 1)], name="some", wildcardProjection={"a": 1, "p.x": 1})
    assert collection.index_information()["some"]["wildcardProjection"] == {"a": 1, "p.x": 1}
    collection.insert_many([{"_id": i, "a": i % 10, "p": {"x": i, "y": {"z": "t" * (i % 3)}}} for i in range(100)])
    scan = collection.find({"p.x": {"$gte": 40, "$lt": 50}}).hint("$**_1").explain()["queryPlanner"]["winningPlan"]["inputStage"]
    assert scan["keyPattern"] == {"$_path": 1, "p.x": 1}
    assert scan["indexBounds"] == {"$_path": ['["p.x", "p.x"]'], "p.x": ["[40, 50)"]}
    assert scan["isSparse"] and not scan["isMultiKey"]
    sorted_scan = collection.find({"p.x": {"$gt": 90}}).sort("p.x", -1).hint("p.$**_-1").explain()["queryPlanner"]["winningPlan"]
    assert sorted_scan["stage"] == "FETCH" and sorted_scan["inputStage"]["direction"] == "forward"
    for extra in [None, {"_id": 200, "a": [1, {"b": 5}, [7]], "p": {"x": [95, 2], "y": {"z": None}}}]:
        if extra:
            collection.insert_one(extra)
        for condition in [{"a": 3}, {"a": {"$in": [1, 5]}}, {"p.y.z": {"$exists": True}}, {"p": {"$exists": True}}, {"a": {"$type": "array"}},
                          {"p.x": {"$gt": 90}, "a": {"$lt": 5}}, {"a.b": 5}, {"a": [7]}, {"p.y": {"z": "tt"}}, {"p.y.z": {"$regex": "^t"}},
                          {"$or": [{"a": 3}, {"p.x": 7}]}]:
            found = list(collection.find(condition).hint("$**_1").sort("_id", 1))
            assert found == list(collection.find(condition).hint([("$natural", 1)]).sort("_id", 1)), condition
            assert collection.count_documents(condition, hint="$**_1") == len(found)
    many = {f"f{i}": 1 for i in range(40)}
    assert list(collection.find(many).hint("$**_1")) == []
    for condition in [{"a": None}, {"z": {"$exists": False}}, {"a": {"$ne": 3}}, {"_id": {"$gt": 3}}, {}]:
        with pytest.raises(OperationFailure):
            list(collection.find(condition).hint("$**_1"))
    for keys, options, code in [([("$**", 1)], {"unique": True}, 67), ([("$**", 1)], {"expireAfterSeconds": 1}, 67), ([("$**", 1), ("a", 1)], {}, 67),
                                ([("$**", "hashed")], {}, 67), ([("a", 1)], {"wildcardProjection": {"a": 1}}, 2),
                                ([("a.$**", 1)], {"wildcardProjection": {"a": 1}}, 9), ([("$**", 1)], {"wildcardProjection": {}}, 9)]:
        with pytest.raises(OperationFailure) as caught:
            collection.create_index(keys, name="refused", **options)
        assert caught.value.code == code, keys
    collection.update_one({"_id": 5}, {"$unset": {"p": 1}, "$set": {"new": {"deep": [1, 2]}}})
    assert collection.count_documents({"new.deep": 2}, hint="$**_1") == 1
    assert collection.delete_many({"a": {"$gte": 5}}).deleted_count == 50


def test_an_index_becomes_unique(collection):
    """The manual's page "Convert an Existing Index to a Unique Index", and the drivers' test modifyCollection-errorResponse."""
    collection.insert_many([{"_id": 1, "x": 1}, {"_id": 2, "x": 1}, {"_id": 3, "x": 3}])
    collection.create_index("x")

    def modify(**index):
        more = {"dryRun": True} if index.pop("dry", False) else {}
        return collection.database.command("collMod", collection.name, index={"keyPattern": {"x": 1}, **index}, **more)

    with pytest.raises(OperationFailure) as caught:
        modify(unique=True)
    assert caught.value.code == 72
    reply = modify(prepareUnique=True)
    assert (reply["prepareUnique_old"], reply["prepareUnique_new"]) == (False, True)
    assert collection.index_information()["x_1"]["prepareUnique"] is True
    for write in [lambda: collection.insert_one({"_id": 4, "x": 1}), lambda: collection.update_one({"_id": 3}, {"$set": {"x": 1}})]:
        with pytest.raises(DuplicateKeyError):
            write()
    collection.update_one({"_id": 2}, {"$set": {"y": 1}})
    assert collection.database.command("validate", collection.name)["valid"]
    for dry in [True, False]:
        with pytest.raises(OperationFailure) as caught:
            modify(unique=True, dry=dry)
        assert caught.value.code == 359 and caught.value.details["codeName"] == "CannotConvertIndexToUnique"
        assert caught.value.details["violations"] == [{"ids": [1, 2]}]
    collection.delete_one({"_id": 2})
    assert modify(unique=True, dry=True)["ok"] == 1.0
    assert "unique" not in collection.index_information()["x_1"]
    assert modify(unique=True)["unique_new"] is True
    information = collection.index_information()["x_1"]
    assert information["unique"] is True and "prepareUnique" not in information
    with pytest.raises(DuplicateKeyError):
        collection.insert_one({"x": 3})
    for wrong, code in [({"unique": False}, 2), ({"prepareUnique": True, "hidden": True}, 72)]:
        with pytest.raises(OperationFailure) as caught:
            modify(**wrong)
        assert caught.value.code == code
    collection.create_index([("h", "hashed")])
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("collMod", collection.name, index={"name": "h_hashed", "prepareUnique": True})
    assert caught.value.code == 16764


def test_the_progress_of_a_build(collection, client):
    """A build waits for a document that a transaction has changed; meanwhile `currentOp` says how far it is, in the form of the manual's examples."""
    collection.insert_many([{"_id": i, "a": i} for i in range(100)])
    with client.start_session() as session:
        session.start_transaction()
        collection.update_one({"_id": 50}, {"$set": {"b": 1}}, session=session)
        build = threading.Thread(target=collection.create_index, args=("a",), kwargs={"unique": True})
        build.start()
        for _ in range(600):
            builds = [op for op in client.admin.command("currentOp")["inprog"] if op.get("command", {}).get("createIndexes") == collection.name]
            if builds and builds[0].get("progress", {}).get("done", 0) > 0:
                break
            time.sleep(0.05)
        progress = builds[0]["progress"]
        assert progress["total"] == 100 and 40 <= progress["done"] <= 60
        assert builds[0]["msg"].startswith("Index Build: scanning collection") and builds[0]["msg"].endswith("%")
        session.abort_transaction()
    build.join()
    assert collection.index_information()["a_1"]["unique"] is True


def test_more_violations_than_are_told(collection):
    collection.insert_many([{"_id": "i" * 1_000_000 + str(i), "x": 9} for i in range(8)])
    collection.create_index("x")
    collection.database.command("collMod", collection.name, index={"name": "x_1", "prepareUnique": True})
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("collMod", collection.name, index={"name": "x_1", "unique": True})
    assert len(caught.value.details["violations"][0]["ids"]) == 5
    collection.drop()


def test_compound_wildcard(collection):
    """The manual's page on compound wildcard indexes."""
    documents = [{"_id": number, "tenantId": number % 5, "customFields": {"addr": f"{number % 7} street", "n": [number % 3]}, "state": number % 2} for number in range(210)]
    collection.insert_many([*documents, {"_id": "without", "tenantId": 1}])
    collection.create_index([("tenantId", 1), ("customFields.$**", 1), ("state", -1)], name="tenant")
    filter = {"tenantId": 1, "customFields.addr": "3 street", "state": 0}
    explained = collection.find(filter).explain()
    scan = explained["queryPlanner"]["winningPlan"]["inputStage"]
    assert scan["keyPattern"] == {"tenantId": 1, "$_path": 1, "customFields.addr": 1, "state": -1}
    assert scan["indexBounds"]["$_path"] == ['["customFields.addr", "customFields.addr"]']
    assert explained["executionStats"]["totalDocsExamined"] == 3
    assert sorted(d["_id"] for d in collection.find(filter)) == [d["_id"] for d in documents if d["tenantId"] == 1 and d["_id"] % 7 == 3 and d["state"] == 0]
    # By the field before the wildcard alone, too: each document once, and those without anything below the wildcard.
    found = list(collection.find({"tenantId": 1}).hint("tenant"))
    assert len({d["_id"] for d in found}) == len(found) == 43
    assert collection.count_documents({"tenantId": 1, "customFields.n": 2}, hint="tenant") == sum(d["tenantId"] == 1 and d["customFields"]["n"] == [2] for d in documents)
    assert collection.find({"customFields.addr": "3 street"}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    collection.update_one({"_id": "without"}, {"$set": {"customFields.addr": "3 street", "state": 0}})
    assert collection.count_documents(filter, hint="tenant") == 4
    assert collection.database.validate_collection(collection.name, full=True)["valid"]
