"""Commands that administrators' tools send: sizes, hashes, parameters, the feature compatibility version, what runs and what is idle."""

import datetime
import hashlib
import threading
import time

import bson
import gridfs
import pytest
from bson import Code, Int64
from pymongo import IndexModel, MongoClient
from pymongo.errors import OperationFailure


def refused(code):
    return pytest.raises(OperationFailure, check=lambda error: error.code == code)


def test_data_size(client, database, collection):
    collection.insert_many([{"_id": number, "a": number % 10, "text": "x" * number} for number in range(100)])
    collection.create_index("a")
    documents = list(collection.find())
    name = collection.full_name
    sizes = {document["_id"]: len(bson.encode(document)) for document in documents}
    whole = database.command("dataSize", name)
    assert (whole["numObjects"], whole["size"], whole["estimate"]) == (100, sum(sizes.values()), False)
    assert isinstance(whole["size"], Int64) and whole["millis"] >= 0
    part = database.command("dataSize", name, keyPattern={"_id": 1}, min={"_id": 10}, max={"_id": 20})
    assert (part["numObjects"], part["size"]) == (10, sum(sizes[number] for number in range(10, 20)))
    by_field = database.command("dataSize", name, keyPattern={"a": 1}, min={"a": 3}, max={"a": 5})
    assert by_field["numObjects"] == 20
    estimate = database.command("dataSize", name, min={"_id": 10}, max={"_id": 20}, estimate=True)
    assert estimate["estimate"] and estimate["size"] == 10 * (sum(sizes.values()) // 100)
    with refused(96):
        database.command("dataSize", name, keyPattern={"b": 1}, min={"b": 1}, max={"b": 2})
    with refused(2):
        database.command("dataSize", name, min={"_id": 1})
    with refused(73):
        database.command("dataSize", "nodot")
    assert database.command("dataSize", f"{database.name}.none")["numObjects"] == 0


def test_database_hash_depends_on_documents_and_not_on_their_order(client, database):
    other = client[database.name + "_copy"]
    client.drop_database(other.name)
    documents = [{"_id": number, "a": [number, {"b": None}]} for number in range(50)]
    database.things.insert_many(documents)
    other.things.insert_many(reversed(documents))
    database.create_collection("ring", capped=True, size=4096).insert_one({"_id": 1})
    first, second = database.command("dbHash"), other.command("dbHash")
    assert first["collections"]["things"] == second["collections"]["things"]
    assert first["capped"] == ["ring"] and set(first["uuids"]) == {"ring", "things"}
    assert len(first["md5"]) == 32 and first["md5"] != second["md5"]
    expected = hashlib.md5(b"".join(bson.encode(document) for document in documents)).hexdigest()
    assert first["collections"]["things"] == expected
    only = database.command("dbHash", collections=["things"])
    assert set(only["collections"]) == {"things"}
    other.things.update_one({"_id": 7}, {"$set": {"a": 0}})
    assert other.command("dbHash")["collections"]["things"] != expected
    client.drop_database(other.name)


def test_hash_of_a_file(database):
    content = bytes(range(256)) * 3000
    bucket = gridfs.GridFSBucket(database, chunk_size_bytes=10_000)
    identifier = bucket.upload_from_stream("file", content)
    reply = database.command("filemd5", identifier, root="fs")
    assert reply["md5"] == hashlib.md5(content).hexdigest() and reply["numChunks"] == 77
    database["fs.chunks"].delete_one({"n": 3})
    with refused(50985):
        database.command("filemd5", identifier, root="fs")
    nothing = database.command("filemd5", "none", root="fs")
    assert (nothing["numChunks"], nothing["md5"]) == (0, hashlib.md5().hexdigest())


def test_compact(database, collection):
    collection.insert_many([{"text": "x" * 1000} for _ in range(1000)])
    collection.delete_many({})
    reply = database.command("compact", "things")
    assert isinstance(reply["bytesFreed"], Int64) and reply["bytesFreed"] >= 0
    with refused(26):
        database.command("compact", "none")


def test_commands_about_what_is_not_here(client):
    pools = client.admin.command("connPoolStats")
    assert pools["totalCreated"] == 0 and pools["hosts"] == {} and pools["pools"] == {}
    assert client.admin.command("lockInfo")["lockInfo"] == []
    assert isinstance(client.test.command("features")["oidMachine"], int)


def test_metadata_and_the_stable_api(client, database, collection):
    collection.create_index("a", sparse=True)
    collection.create_index("b")
    strict = {"version": "1", "strict": True, "deprecationErrors": True}
    errors = client.admin.command("validateDBMetadata", db=database.name, apiParameters=strict)["apiVersionErrors"]
    assert [(error["ns"], error["code"], error["codeName"]) for error in errors] == [
        (collection.full_name, 323, "APIStrictError")
    ]
    lax = {"version": "1"}
    assert client.admin.command("validateDBMetadata", db=database.name, apiParameters=lax)["apiVersionErrors"] == []
    with refused(322):
        client.admin.command("validateDBMetadata", apiParameters={"version": "2"})
    with refused(40414):
        client.admin.command("validateDBMetadata")


def test_plans_are_forgotten(database, collection):
    collection.insert_many([{"a": number, "b": number} for number in range(100)])
    collection.create_index("a")
    collection.create_index("b")
    assert database.command("planCacheClear", "things")["ok"] == 1.0
    assert database.command("planCacheClear", "things", query={"a": 1, "b": 1}, sort={"a": 1})["ok"] == 1.0
    assert database.command("planCacheClear", "none")["ok"] == 1.0
    with refused(2):
        database.command("planCacheClear", "things", sort={"a": 1})


def test_parameters_with_details(client):
    assert client.admin.command("getParameter", 1, authSchemaVersion=1)["authSchemaVersion"] == 5
    plain = client.admin.command("getParameter", {"allParameters": True})
    detailed = client.admin.command("getParameter", {"allParameters": True, "showDetails": True})
    assert set(plain) == set(detailed)
    for name in ("ttlMonitorSleepSecs", "enableTestCommands"):
        assert detailed[name]["value"] == plain[name]
    assert detailed["ttlMonitorSleepSecs"]["settableAtRuntime"] is True
    assert detailed["enableTestCommands"]["settableAtRuntime"] is False
    one = client.admin.command("getParameter", {"showDetails": True}, quiet=1)
    assert one["quiet"] == {"value": False, "settableAtRuntime": True, "settableAtStartup": False}
    at_start = client.admin.command("getParameter", {"allParameters": True, "setAt": "startup"})
    assert "enableTestCommands" in at_start and "quiet" not in at_start


@pytest.fixture
def parameter(client):
    changed = {}

    def change(**values):
        for name, value in values.items():
            changed.setdefault(name, client.admin.command("getParameter", 1, **{name: 1})[name])
            assert "was" in client.admin.command("setParameter", 1, **{name: value})

    yield change
    for name, value in changed.items():
        client.admin.command("setParameter", 1, **{name: value})


def test_parameters_have_the_effect_they_say(server, client, database, collection, parameter):
    collection.insert_many([{"_id": number, "a": number} for number in range(300)])
    parameter(notablescan=True)
    with refused(291):
        list(collection.find({"a": 1}))
    assert collection.find_one({"_id": 1})["a"] == 1
    parameter(notablescan=False)
    assert collection.find_one({"a": 1})
    collection.create_index("expires", expireAfterSeconds=0)
    parameter(ttlMonitorSleepSecs=1)
    collection.insert_one({"_id": "old", "expires": datetime.datetime(2000, 1, 1)})
    deadline = time.monotonic() + 20
    while collection.find_one({"_id": "old"}) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not collection.find_one({"_id": "old"})
    parameter(ttlMonitorEnabled=False)
    passes = client.admin.command("serverStatus")["metrics"]["ttl"]["passes"]
    collection.insert_one({"_id": "kept", "expires": datetime.datetime(2000, 1, 1)})
    time.sleep(1.5)
    assert collection.find_one({"_id": "kept"})
    assert client.admin.command("serverStatus")["metrics"]["ttl"]["passes"] <= passes + 1
    # Nothing is to be deleted while the server is started again.
    collection.delete_one({"_id": "kept"})


def test_cursors_are_closed_after_a_while(client, collection, parameter):
    collection.insert_many([{"_id": number} for number in range(10)])
    parameter(cursorTimeoutMillis=100)
    forgotten, kept = collection.find(batch_size=2), collection.find(batch_size=2, no_cursor_timeout=True)
    next(forgotten), next(kept)
    before, deadline = client.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"], time.monotonic() + 60
    while client.admin.command("serverStatus")["metrics"]["cursor"]["timedOut"] == before and time.monotonic() < deadline:
        time.sleep(0.1)
    with refused(43):
        list(forgotten)
    assert len(list(kept)) == 9


def test_the_log_says_more_when_asked_to(server, client, parameter):
    parameter(logLevel=1)
    with MongoClient(server.uri, appName="told of at level one") as other:
        other.admin.command("ping")
    log = client.admin.command("getLog", "global")["log"]
    assert any("client metadata" in line and "told of at level one" in line for line in log)
    parameter(logLevel=0)
    parameter(logComponentVerbosity={"command": {"verbosity": 2}, "network": {"verbosity": -1}})
    found = client.admin.command("getParameter", 1, logComponentVerbosity=1)["logComponentVerbosity"]
    assert found["command"]["verbosity"] == 2 and found["network"]["verbosity"] == -1
    with refused(238):
        client.admin.command("setParameter", 1, logComponentVerbosity={"sharding": {"verbosity": 1}})
    parameter(quiet=True)
    with MongoClient(server.uri) as other:
        other.admin.command("ping")
        port = other.admin.command("whatsmyuri")["you"]
    assert not any(port in line for line in client.admin.command("getLog", "global")["log"])


@pytest.mark.parametrize("name, value, code", [
    ("noSuchParameter", 1, 72),
    ("internalQueryPlannerMaxIndexedSolutions", 5, 72),
    ("enableTestCommands", True, 20),
    ("authSchemaVersion", 3, 20),
    ("ttlMonitorSleepSecs", 0, 2),
    ("cursorTimeoutMillis", 0, 2),
    ("logLevel", 9, 2),
    ("requireApiVersion", True, 238),
    ("diagnosticDataCollectionEnabled", True, 238),
])
def test_parameters_that_are_refused(client, name, value, code):
    with refused(code):
        client.admin.command("setParameter", 1, **{name: value})


def test_feature_compatibility_version(client):
    version = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)["featureCompatibilityVersion"]
    stored = client.admin["system.version"].find_one({"_id": "featureCompatibilityVersion"})
    assert stored["version"] == version["version"] == "8.0"
    assert client.admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)["ok"] == 1.0
    with refused(7369100):
        client.admin.command("setFeatureCompatibilityVersion", "8.0")
    with refused(4926900):
        client.admin.command("setFeatureCompatibilityVersion", "7.0", confirm=True)
    with refused(20):
        client.admin["system.version"].drop()
    with refused(20):
        client.drop_database("admin")


def test_collection_statistics(database, collection):
    collection.insert_many([{"_id": number, "tags": ["a", "b"]} for number in range(100)])
    collection.create_index("tags")
    found = database.command("collStats", "things")
    assert found["numOrphanDocs"] == 0 and found["freeStorageSize"] >= 0
    assert set(found["indexDetails"]) == set(found["indexSizes"]) == {"_id_", "tags_1"}
    assert found["indexDetails"]["tags_1"]["isMultiKey"] and not found["indexDetails"]["_id_"]["isMultiKey"]
    scaled = database.command("collStats", "things", scale=10)
    assert scaled["size"] == found["size"] // 10 and scaled["scaleFactor"] == 10
    staged = next(collection.aggregate([{"$collStats": {"latencyStats": {}, "storageStats": {}, "count": {}}}]))
    assert staged["count"] == 100 and staged["storageStats"]["numOrphanDocs"] == 0
    latencies = staged["latencyStats"]
    assert latencies["writes"]["ops"] >= 1 and latencies["commands"]["ops"] >= 2 and latencies["reads"]["ops"] == 0
    collection.find_one()
    again = next(collection.aggregate([{"$collStats": {"latencyStats": {}}}]))["latencyStats"]
    # The aggregation before, and the query.
    assert again["reads"]["ops"] == 2 and isinstance(again["reads"]["latency"], Int64)
    assert "histogram" not in again["reads"]
    detailed = next(collection.aggregate([{"$collStats": {"latencyStats": {"histograms": True}}}]))["latencyStats"]
    for kind in ("reads", "writes", "commands", "transactions"):
        ranges = detailed[kind]["histogram"]
        assert sum(entry["count"] for entry in ranges) == detailed[kind]["ops"], kind
        assert all(set(entry) == {"micros", "count"} for entry in ranges)
        assert [entry["micros"] for entry in ranges] == sorted({entry["micros"] for entry in ranges})


def test_database_statistics(database, collection):
    collection.insert_one({})
    found = database.command("dbStats", freeStorage=1)
    for name in ("collections", "views", "objects", "indexes", "scaleFactor"):
        assert isinstance(found[name], Int64), name
    assert 0 < found["fsUsedSize"] <= found["fsTotalSize"]
    assert {"freeStorageSize", "indexFreeStorageSize", "totalFreeStorageSize"} <= set(found)
    assert "freeStorageSize" not in database.command("dbStats")
    scaled = database.command("dbStats", scale=1024)
    assert scaled["fsTotalSize"] == pytest.approx(found["fsTotalSize"] / 1024)


def test_validate_takes_the_old_option(database, collection):
    collection.insert_one({})
    assert database.command("validate", "things", scandata=True)["valid"]
    assert database.validate_collection("things", scandata=True)["valid"]


# What of MongoDB's locks and flow control there is here.
WITHOUT_LOCKS = {"locks": {}, "lockStats": {}, "waitingForLock": False, "waitingForFlowControl": False, "flowControlStats": {}}


def test_idle_cursors_and_transactions_are_listed(client, database, collection):
    collection.insert_many([{"_id": number} for number in range(10)])
    cursor = collection.find({"_id": {"$gte": 0}}, batch_size=2, no_cursor_timeout=True)
    next(cursor)
    stage = {"$currentOp": {"allUsers": True, "idleCursors": True}}
    idle = [entry for entry in client.admin.aggregate([stage]) if entry["type"] == "idleCursor"]
    mine = next(entry for entry in idle if entry["ns"] == collection.full_name)
    assert mine["cursor"]["cursorId"] == cursor.cursor_id and mine["cursor"]["noCursorTimeout"] is True
    assert mine["cursor"]["originatingCommand"]["filter"] == {"_id": {"$gte": 0}}
    assert (mine["cursor"]["nDocsReturned"], mine["cursor"]["nBatchesReturned"]) == (2, 1)
    assert isinstance(mine["cursor"]["createdDate"], datetime.datetime)
    cursor.close()
    with client.start_session() as session, session.start_transaction():
        collection.insert_one({"_id": 100}, session=session)
        listed = client.admin.command("currentOp")["inprog"]
        open_ones = [entry for entry in listed if entry["type"] == "idleSession"]
        own = next(entry for entry in open_ones if entry["lsid"]["id"] == session.session_id["id"])
        assert own["transaction"]["parameters"]["txnNumber"] >= 1 and own["active"] is False
        times = [own["transaction"][f"time{which}Micros"] for which in ("Open", "Active", "Inactive")]
        assert times[0] == times[1] + times[2] and min(times) > 0 and own["desc"] == "inactive transaction"
        begun, over = (datetime.datetime.fromisoformat(own["transaction"][name]) for name in ("startWallClockTime", "expiryTime"))
        lifetime = client.admin.command("getParameter", 1, transactionLifetimeLimitSeconds=1)["transactionLifetimeLimitSeconds"]
        assert over - begun == datetime.timedelta(seconds=lifetime)
        assert own | WITHOUT_LOCKS == own
        without = client.admin.aggregate([{"$currentOp": {"idleSessions": False}}])
        assert not any(entry["type"] == "idleSession" for entry in without)


def test_current_operations_show_who_runs_them(server, client):
    client.test.shown.drop()
    client.test.create_collection("shown", capped=True, size=4096).insert_one({"_id": 1})

    def follow():
        with MongoClient(server.uri, appName="the follower") as other:
            cursor = other.test.shown.find({"_id": {"$gte": 0}}, cursor_type=34, batch_size=1).max_await_time_ms(4000)
            for document in cursor:
                if document["_id"] == 2:
                    return

    thread = threading.Thread(target=follow)
    thread.start()
    deadline, found = time.monotonic() + 20, []
    while not found and time.monotonic() < deadline:
        listed = client.admin.command("currentOp", op="getmore")["inprog"]
        found = [entry for entry in listed if entry["ns"] == "test.shown"]
        time.sleep(0.01)
    entry = found[0]
    assert entry["appName"] == "the follower" and entry["clientMetadata"]["driver"]["name"].startswith("PyMongo")
    assert entry["cursor"]["originatingCommand"]["find"] == "shown"
    assert entry["cursor"]["originatingCommand"]["filter"] == {"_id": {"$gte": 0}}
    assert entry["cursor"]["operationUsingCursorId"] == entry["opid"]
    assert entry["lsid"]["id"].subtype == 4 and entry["currentOpTime"]
    assert entry | WITHOUT_LOCKS | {"numYields": 0} == entry and "killPending" not in entry
    stage = list(client.admin.aggregate([{"$currentOp": {"idleConnections": True}}]))
    assert all(other | WITHOUT_LOCKS | {"numYields": 0} == other for other in stage if other["type"] == "op")
    client.test.shown.insert_one({"_id": 2})
    thread.join(20)
    assert not thread.is_alive()
    client.test.shown.drop()


def uses(collection, name):
    return next(entry["accesses"]["ops"] for entry in collection.aggregate([{"$indexStats": {}}]) if entry["name"] == name)


def test_trials_and_explains_are_no_use_of_an_index(collection):
    collection.insert_many([{"a": number % 7, "b": number} for number in range(500)])
    collection.create_index("a")
    collection.create_index("b")
    # Both indexes are tried for the first query; one of them is used.
    assert len(list(collection.find({"a": 3, "b": {"$gte": 400}}))) > 0
    assert sorted([uses(collection, "a_1"), uses(collection, "b_1")]) == [0, 1]
    used = "a_1" if uses(collection, "a_1") else "b_1"
    collection.find({"a": 3, "b": {"$gte": 400}}).explain()
    assert uses(collection, used) == 1
    collection.count_documents({"b": 5})
    collection.update_one({"b": 6}, {"$set": {"c": 1}})
    assert uses(collection, "b_1") == 2 + (used == "b_1")
    collection.find_one({"_id": 1})
    assert uses(collection, "_id_") >= 1


def test_index_errors_show_the_specification(database, collection):
    collection.create_index("a", name="one")
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("b", name="one")
    assert caught.value.code == 86
    message = caught.value.details["errmsg"]
    assert '"b"' in message or "b: 1" in message
    assert "RawDocumentBuf" not in message and "0x" not in message and "hex" not in message
    with pytest.raises(OperationFailure) as caught:
        database.command("createIndexes", "things", indexes=[{"key": {"c": 1}, "name": "c", "wrong": 1}])
    assert "RawDocumentBuf" not in caught.value.details["errmsg"]
    with pytest.raises(OperationFailure) as caught:
        database.command("collMod", "things", index={"keyPattern": {"d": 1}, "hidden": True})
    assert caught.value.code == 27 and "RawDocument" not in caught.value.details["errmsg"]
    with pytest.raises(OperationFailure) as caught:
        collection.drop_index([("d", 1)])
    assert caught.value.code == 27
    with pytest.raises(OperationFailure) as caught:
        database.command("dropIndexes", "things", index={"d": 1})
    assert caught.value.code == 27 and "{ d: 1 }" in caught.value.details["errmsg"]
    collection.create_indexes([IndexModel(f"f{number}") for number in range(62)])
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("one_too_many")
    assert caught.value.code == 67 and "{ one_too_many: 1 }" in caught.value.details["errmsg"]
    collection.insert_many([{"c": Code("x", {"y": 1})} for _ in range(2)])
    collection.drop_index("f0_1")
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("c", unique=True)
    assert caught.value.code == 11000 and "RawDocument" not in caught.value.details["errmsg"]


@pytest.mark.parametrize("change, stage", [({"update": {"$set": {"b": 1}}}, "UPDATE"), ({"remove": True}, "DELETE")])
def test_explain_of_find_and_modify(database, collection, change, stage):
    collection.insert_many([{"a": number} for number in range(20)])
    collection.create_index("a")
    command = {"findAndModify": "things", "query": {"a": {"$gte": 5}}, "sort": {"a": 1}, **change}
    explained = database.command("explain", command, verbosity="executionStats")
    winning = explained["queryPlanner"]["winningPlan"]
    assert winning["stage"] == stage and "IXSCAN" in str(winning["inputStage"])
    assert explained["executionStats"]["executionStages"]["stage"] == stage
    assert explained["executionStats"]["totalDocsExamined"] == 1
    assert collection.count_documents({}) == 20 and collection.count_documents({"b": 1}) == 0


def test_host(client):
    host = client.admin.command("hostInfo")
    assert host["system"]["numCoresAvailableToProcess"] >= 1 and host["extra"]["pageSize"] > 0
