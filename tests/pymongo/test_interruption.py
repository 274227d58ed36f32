"""What is large ends when it is to: by killOp, by its time limit, when its client goes away, and when the server stops; and it takes time in proportion.

Each stage, accumulator and command of the registries has an entry, what is bounded as well: a new one without an entry fails. The operators of filters,
updates and expressions have theirs in `test_interruption_of_operators.py`, and beside the code (`crates/query_language/src/watch/tests.rs`). Times are those that a loaded debug build needs.
"""

import pathlib
import re
import time

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from interruption import END_SECONDS_MAX, WAIT_SECONDS_MAX, WAYS, assert_ends, note, running, wait_until, ways_of
from server_process import ServerProcess
from wire import Wire

DATABASE = "interruption"
RECORDS = 40_000

compatibility = (pathlib.Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()


def registered(section):
    """The names in a table of the generated page."""
    text = compatibility.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))


# Two million documents that nobody has stored.
ENDLESS = [{"$limit": 1}, {"$project": {"n": {"$range": [0, 2_000_000]}}}, {"$unwind": "$n"}]
COUNTED = [{"$group": {"_id": None, "count": {"$sum": 1}}}]
# An expression that takes seconds, on one document.
LONG_LOOP = {"$reduce": {"input": {"$range": [0, 5_000_000]}, "initialValue": 0, "in": {"$add": ["$$value", {"$strLenCP": "$s"}]}}}
LONG_FILTER = {"$expr": {"$lt": [LONG_LOOP, 0]}}

STAGES = {
    "$_internalUnpackBucket": [
        *ENDLESS,
        {"$replaceWith": {"control": {"version": 1}, "data": {"t": {"0": "$$NOW", "1": "$$NOW"}}}},
        {"$_internalUnpackBucket": {"timeField": "t", "bucketMaxSpanSeconds": 3600}},
    ],
    "$addFields": [*ENDLESS, {"$addFields": {"a": {"$add": ["$n", 1]}}}],
    "$set": [*ENDLESS, {"$set": {"a": {"$add": ["$n", 1]}}}],
    "$project": [*ENDLESS, {"$project": {"a": {"$add": ["$n", 1]}}}],
    "$unset": [*ENDLESS, {"$unset": "n"}],
    "$redact": [*ENDLESS, {"$redact": "$$DESCEND"}],
    "$score": [*ENDLESS, {"$score": {"score": "$n", "normalization": "minMaxScaler"}}],
    "$documents": [{"$unionWith": {"pipeline": [{"$documents": {"$map": {"input": {"$range": [0, 500_000]}, "in": {"n": "$$this"}}}}]}}],
    "$replaceRoot": [*ENDLESS, {"$replaceRoot": {"newRoot": {"a": "$n"}}}],
    "$replaceWith": [*ENDLESS, {"$replaceWith": {"a": "$n"}}],
    "$match": [*ENDLESS, {"$match": {"n": -1}}],
    "$skip": [*ENDLESS, {"$skip": 10_000_000}],
    "$limit": [*ENDLESS, {"$limit": 10_000_000}],
    "$unwind": [*ENDLESS, {"$unwind": "$n"}],
    "$count": [*ENDLESS, {"$count": "count"}],
    "$group": [*ENDLESS, {"$group": {"_id": "$n", "all": {"$push": "$n"}}}],
    "$bucket": [*ENDLESS, {"$bucket": {"groupBy": "$n", "boundaries": [0, 10, 100_000_000]}}],
    "$bucketAuto": [*ENDLESS, {"$bucketAuto": {"groupBy": "$n", "buckets": 5}}],
    "$densify": [*ENDLESS, {"$densify": {"field": "n", "range": {"step": 1, "bounds": "full"}}}],
    "$setWindowFields": [*ENDLESS, {"$setWindowFields": {"partitionBy": {"$floor": {"$divide": ["$n", 50_000]}}, "sortBy": {"n": 1}, "output": {"a": {"$sum": "$n", "window": {"documents": [-50, 50]}}}}}],
    "$fill": [*ENDLESS, {"$fill": {"partitionBy": {"$floor": {"$divide": ["$n", 50_000]}}, "sortBy": {"n": 1}, "output": {"a": {"method": "locf"}}}}],
    "$sort": [*ENDLESS, {"$sort": {"n": -1}}],
    "$sortByCount": [*ENDLESS, {"$sortByCount": "$n"}],
    "$sample": [*ENDLESS, {"$sample": {"size": 1_500_000}}],
    "$facet": [*ENDLESS, {"$facet": {"a": [{"$sort": {"n": -1}}, {"$limit": 1}], "b": [{"$sort": {"n": 1}}, {"$skip": 10_000_000}]}}],
    "$lookup": [*ENDLESS, {"$lookup": {"from": "many", "localField": "n", "foreignField": "a", "as": "a"}}],
    "$geoNear": [{"$geoNear": {"near": [0, 0], "distanceField": "d", "query": LONG_FILTER}}],
    "$graphLookup": [{"$limit": 1}, {"$graphLookup": {"from": "many", "startWith": {"$range": [0, 1_000_000]}, "connectFromField": "a", "connectToField": "a", "as": "b"}}],
    "$unionWith": [{"$unionWith": {"coll": "many", "pipeline": ENDLESS}}],
    "$out": [*ENDLESS, {"$unset": "_id"}, {"$out": "written"}],
    "$merge": [*ENDLESS, {"$unset": "_id"}, {"$merge": "merged"}],
}
# They read a few facts, or wait and have tests of their own.
SHORT_STAGES = {
    "$changeStream", "$changeStreamSplitLargeEvent", "$collStats", "$currentOp", "$indexStats", "$listClusterCatalog", "$listLocalSessions", "$listSessions",
    "$planCacheStats", "$querySettings", "$queryStats",
}

ACCUMULATORS = {
    **{name: "$n" for name in ["$addToSet", "$avg", "$first", "$last", "$max", "$min", "$push", "$stdDevPop", "$stdDevSamp", "$sum"]},
    **{name: {"$cond": [True, ["$n"], []]} for name in ["$concatArrays", "$setUnion"]},
    **{name: {"input": "$n", "n": 10_000_000} for name in ["$firstN", "$lastN", "$maxN", "$minN"]},
    **{name: {"output": "$n", "sortBy": {"n": 1}} for name in ["$bottom", "$top"]},
    **{name: {"output": "$n", "sortBy": {"n": 1}, "n": 10_000} for name in ["$bottomN", "$topN"]},
    "$_internalJsReduce": {"eval": "function(key, values) { return values.length; }", "data": {"k": 1, "v": "$n"}},
    "$accumulator": {
        "init": "function() { return 0; }", "accumulate": "function(sum, n) { return sum + n; }", "accumulateArgs": ["$n"],
        "merge": "function(one, other) { return one + other; }", "lang": "js",
    },
    "$count": {},
    "$median": {"input": "$n", "method": "approximate"},
    "$percentile": {"input": "$n", "p": [0.5, 0.9], "method": "approximate"},
    "$mergeObjects": {"a": "$n"},
}

# On one document whose values are as large as they may be.
VALUES = {
    "$sortArray": {"$sortArray": {"input": {"$map": {"input": {"$range": [0, 600_000]}, "in": {"$mod": [{"$multiply": ["$$this", 7919]}, 600_011]}}}, "sortBy": 1}},
    "$sortArray by fields": {"$sortArray": {"input": {"$map": {"input": {"$range": [0, 300_000]}, "in": {"a": {"$mod": [{"$multiply": ["$$this", 7919]}, 300_007]}}}}, "sortBy": {"a": 1}}},
    "$setUnion": {"$setUnion": [{"$range": [0, 600_000]}, {"$range": [300_000, 900_000]}]},
    "$setIntersection": {"$setIntersection": [{"$range": [0, 900_000]}, {"$range": [0, 900_000]}]},
    "$setDifference": {"$setDifference": [{"$range": [0, 900_000]}, {"$range": [900_000, 1_800_000]}]},
    "$setIsSubset": {"$setIsSubset": [{"$range": [0, 900_000]}, {"$range": [0, 900_000]}]},
    "$zip": {"$zip": {"inputs": [{"$range": [0, 900_000]}, {"$range": [0, 900_000]}]}},
    "$reverseArray": {"$reverseArray": {"$range": [0, 2_000_000]}},
    "$indexOfBytes": {"$indexOfBytes": ["$as", {"$concat": ["$half", "b"]}]},
    "$indexOfCP": {"$indexOfCP": ["$as", {"$concat": ["$half", "b"]}]},
    "$regexMatch": {"$regexMatch": {"input": "$as", "regex": "(a+)+[xy]"}},
    "$regexFindAll": {"$regexFindAll": {"input": "$as", "regex": "a[xy]?"}},
    "$split": {"$split": ["$as", "a"]},
    "$replaceAll": {"$replaceAll": {"input": "$as", "find": "a", "replacement": "bb"}},
    "$let": {"$let": {"vars": {f"v{number}": "$as" for number in range(20_000)}, "in": "$$v1"}},
    "$eq": {"$reduce": {"input": {"$range": [0, 200_000]}, "initialValue": 0, "in": {"$eq": [{"$range": [0, 50_000]}, {"$range": [0, 50_001]}]}}},
}


def find(**fields):
    return {"find": "many", **fields}


# What is long, and whether a client that goes away ends it.
COMMANDS = {
    "aggregate": ({"aggregate": "many", "pipeline": [{"$match": LONG_FILTER}], "cursor": {}}, True),
    "find": (find(filter=LONG_FILTER), True),
    "find with a projection": (find(projection={"a": LONG_LOOP}), True),
    "find with a sort": (find(filter={"$expr": {"$gte": [LONG_LOOP, 0]}}, sort={"s": 1}), True),
    "count": ({"count": "many", "query": LONG_FILTER}, True),
    "distinct": ({"distinct": "many", "key": "a", "query": LONG_FILTER}, True),
    "mapReduce": (
        {"mapReduce": "many", "map": "function() { for (var n = 0; n < 100000; n++) emit(n % 7, this.a); }", "reduce": "function(key, values) { return values.length; }", "out": {"inline": 1}},
        True,
    ),
    "explain": ({"explain": find(filter=LONG_FILTER), "verbosity": "executionStats"}, True),
    "findAndModify": ({"findAndModify": "many", "query": LONG_FILTER, "update": {"$set": {"b": 1}}}, False),
    "update": ({"update": "many", "updates": [{"q": LONG_FILTER, "u": {"$set": {"b": 1}}, "multi": True}]}, False),
    "update by a pipeline": ({"update": "many", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"b": LONG_LOOP}}]}]}, False),
    "delete": ({"delete": "many", "deletes": [{"q": LONG_FILTER, "limit": 0}]}, False),
    "bulkWrite": ({"bulkWrite": 1, "nsInfo": [{"ns": f"{DATABASE}.many"}], "ops": [{"update": 0, "filter": LONG_FILTER, "updateMods": {"$set": {"b": 1}}, "multi": True}]}, False),
    "insert": ({"insert": "validated", "documents": [{"s": "x"}]}, False),
    "createIndexes": ({"createIndexes": "many", "indexes": [{"key": {"s": 1, "a": 1}, "name": "killed"}]}, False),
    "validate": ({"validate": "many"}, True),
    "dbHash": ({"dbHash": 1}, True),
    "dataSize": ({"dataSize": f"{DATABASE}.many", "keyPattern": {"a": 1}, "min": {"a": 0}, "max": {"a": 1 << 30}}, True),
    "cloneCollectionAsCapped": ({"cloneCollectionAsCapped": "many", "toCollection": "clone", "size": 1 << 24}, False),
    "convertToCapped": ({"convertToCapped": "copied", "size": 1 << 24}, False),
    "applyOps": ({"applyOps": [{"op": "u", "ns": f"{DATABASE}.many", "o2": {"_id": number}, "o": {"$v": 2, "diff": {"u": {"b": 2}}}} for number in range(20_000)]}, False),
}
# They read what is stored, which a fast server may have done by then.
MAY_BE_DONE = {"createIndexes", "validate", "dbHash", "dataSize", "cloneCollectionAsCapped", "convertToCapped", "applyOps"}
# The work of these does not grow with what a client sends or has stored, beyond a pass over the message; or they wait, which has tests of its own.
SHORT_COMMANDS = set(
    """_mergeAuthzCollections abortTransaction appendOplogNote authenticate buildInfo collMod collStats commitTransaction compact configureFailPoint connPoolStats connectionStatus create
    createRole createUser dropAllRolesFromDatabase dropAllUsersFromDatabase dropRole dropUser grantPrivilegesToRole grantRolesToRole grantRolesToUser
    invalidateUserCache logout revokePrivilegesFromRole revokeRolesFromRole revokeRolesFromUser rolesInfo saslContinue saslStart updateRole updateUser usersInfo
    currentOp dbStats drop dropDatabase dropIndexes endSessions features filemd5 fsync fsyncUnlock getCmdLineOpts getDefaultRWConcern getLog
    getParameter hello hostInfo isMaster isdbgrid killAllSessions killAllSessionsByPattern killCursors killOp killSessions listCollections listCommands listDatabases
    listIndexes lockInfo logRotate ping planCacheClear planCacheClearFilters planCacheListFilters planCacheSetFilter plimsollFigures plimsollPositions plimsollProfile profile refreshSessions removeQuerySettings renameCollection replSetFreeze
    replSetGetConfig replSetGetStatus replSetInitiate replSetReconfig replSetResizeOplog replSetStepDown replSetSyncFrom rotateCertificates serverStatus setDefaultRWConcern
    setFeatureCompatibilityVersion setParameter setQuerySettings shutdown startSession top validateDBMetadata waitForFailPoint whatsmyuri""".split()
)
# These have tests of their own (`test_reindex.py` for reIndex, `test_backup.py`).
TESTED_APART = {"getMore", "plimsollBackup", "reIndex"}


def test_everything_in_the_registries_has_an_entry():
    assert registered("Pipeline stages") == set(STAGES) | SHORT_STAGES
    assert registered("Accumulators") == set(ACCUMULATORS)
    assert registered("Commands") == {name.split(" ")[0] for name in COMMANDS} | SHORT_COMMANDS | TESTED_APART


@pytest.fixture(scope="module")
def filled(server):
    """Enough for a command to take a while, and a document of large texts."""
    with MongoClient(server.uri) as client:
        database = client[DATABASE]
        for name in ["many", "copied"]:
            for start in range(0, RECORDS, 10_000):
                database[name].insert_many([{"_id": n, "a": n * 7919 % 40_009, "s": "x" * 20} for n in range(start, start + 10_000)])
        database["many"].create_index("a")
        database["many"].update_many({"_id": {"$lt": 100}}, {"$set": {"at": [1, 1]}})
        database["many"].create_index([("at", "2d")])
        database["large"].insert_one({"_id": 1, "as": "a" * 2_000_000, "half": "a" * 1_000_000})
        database.create_collection("validated", validator=LONG_FILTER)
        yield database
        client.drop_database(DATABASE)


def assert_command_ends(server, client, command, way, name):
    assert_ends(server, client, DATABASE, command, way, name, next(iter(command)) in MAY_BE_DONE)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("stage", STAGES)
def test_stages_end(server, client, filled, stage, way):
    writes = stage in ("$merge", "$out")
    sink = [] if writes else COUNTED
    command = {"aggregate": "many", "pipeline": [*STAGES[stage], *sink], "cursor": {}}
    # What writes goes on without its client.
    if not (writes and way == "client gone"):
        assert_command_ends(server, client, command, way, stage)


@pytest.mark.parametrize("name", ACCUMULATORS)
def test_accumulators_end(server, client, filled, name):
    group = {"$group": {"_id": None, "a": {name: ACCUMULATORS[name]}}}
    command = {"aggregate": "many", "pipeline": [*ENDLESS, group, *COUNTED], "cursor": {}}
    for way in ways_of(len(name)):
        assert_command_ends(server, client, command, way, f"accumulator {name}")


@pytest.mark.parametrize("name", VALUES)
def test_operators_on_large_values_end(server, client, filled, name):
    """Again and again, so that it lasts, and the kill comes in the midst of it."""
    repeated = {"$reduce": {"input": {"$range": [0, 500]}, "initialValue": 0, "in": {"$cond": [{"$eq": [VALUES[name], "$$value"]}, 0, 1]}}}
    command = {"aggregate": "large", "pipeline": [{"$project": {"r": repeated}}], "cursor": {}}
    for way in ways_of(len(name)):
        assert_command_ends(server, client, command, way, f"large {name}")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_end(server, client, filled, name, way):
    command, ends_with_client = COMMANDS[name]
    if way != "client gone" or ends_with_client:
        # The way before may have been late: then there is a copy already.
        filled["clone"].drop()
        assert_command_ends(server, client, command, way, name)


def test_get_more_ends(server, client, filled):
    first = {"find": "many", "filter": {"$or": [{"_id": 0}, LONG_FILTER]}, "batchSize": 1}
    for way in ["killOp", "client gone"]:
        wire = Wire(server)
        cursor = wire.run(first, DATABASE)["cursor"]
        assert_command_ends(server, client, {"getMore": cursor["id"], "collection": "many"}, way, "getMore")
        wire.close()


def test_clients_that_left_hold_no_tickets(server, client, filled):
    """Forty at once: more than run side by side."""
    wires = [Wire(server) for _ in range(40)]
    for wire in wires:
        wire.send({"aggregate": "many", "pipeline": [*ENDLESS, *COUNTED], "cursor": {}, "comment": "left"}, 0, DATABASE)
    wait_until(lambda: len(running(client, "left")) == len(wires), WAIT_SECONDS_MAX)
    for wire in wires:
        wire.close()
    begin = time.monotonic()
    assert filled["many"].find_one({"_id": 1})
    wait_until(lambda: not running(client, "left"), WAIT_SECONDS_MAX)
    taken = time.monotonic() - begin
    note("forty pipelines", "client gone", taken)
    assert taken < 2 * END_SECONDS_MAX


@pytest.mark.parametrize("name", ["aggregate", "update by a pipeline"])
def test_the_server_stops_promptly(tmp_path, name):
    """SIGTERM in the midst of a long expression."""
    process = ServerProcess(tmp_path)
    process.start()
    with MongoClient(process.uri) as client:
        client[DATABASE]["many"].insert_one({"_id": 1, "s": "x" * 20})
        command = COMMANDS[name][0]
        wire = Wire(process)
        wire.send({**command, "comment": "stopped"}, 0, DATABASE)
        wait_until(lambda: running(client, "stopped"), WAIT_SECONDS_MAX)
    begin = time.monotonic()
    process.stop()
    note(f"the server in {name}", "SIGTERM", time.monotonic() - begin)
    assert time.monotonic() - begin < 2 * END_SECONDS_MAX
    wire.close()


# Below: in proportion.

MANY = 200_000
GUARD_MS = 120_000


def fields(count, value=1, name="f"):
    return {f"{name}{number}": value for number in range(count)}


LARGE = {
    "projection": find(projection=fields(MANY)),
    "projection of expressions": find(projection=fields(MANY, {"$add": ["$a", 1]})),
    "filter": find(filter=fields(MANY)),
    "filter of ranges on an index": find(filter={"$or": [{"a": {"$gt": 2 * n, "$lt": 2 * n + 1}} for n in range(MANY // 20)]}),
    "ranges twice on an index": find(filter={"$and": [{"$or": [{"a": {"$gt": 2 * n + m, "$lt": 2 * n + 1}} for n in range(MANY // 40)]} for m in range(2)]}),
    "exclusions on an index": find(filter={"$and": [{"a": {"$ne": n}} for n in range(MANY // 8)]}),
    "let": find(let=fields(MANY, 1, "v"), filter={"$expr": {"$eq": ["$a", f"$$v{MANY - 1}"]}}),
    "variables that are used": find(let=fields(MANY // 4, 1, "v"), filter={"$expr": {"$and": [{"$lt": [-1, f"$$v{n}"]} for n in range(MANY // 4)]}}),
    "$let": {"aggregate": "one", "pipeline": [{"$set": {"r": {"$let": {"vars": fields(MANY // 2, "$a", "v"), "in": {"$add": [f"$$v{n}" for n in range(MANY // 2)]}}}}}], "cursor": {}},
    "stages of filters": {"aggregate": "one", "pipeline": [{"$match": {f"f{n}": {"$ne": "x" * 1000}}} for n in range(990)], "cursor": {}},
    "$unset": {"aggregate": "one", "pipeline": [{"$set": {"a": 1}}, {"$unset": [f"f{n}" for n in range(MANY)]}], "cursor": {}},
    "$switch": {"aggregate": "one", "pipeline": [{"$set": {"r": {"$switch": {"branches": [{"case": {"$eq": ["$a", -n - 1]}, "then": n} for n in range(MANY // 8)], "default": 0}}}}], "cursor": {}},
    "$set": {"update": "one", "updates": [{"q": {"_id": 1}, "u": {"$set": fields(MANY)}}]},
    "$rename": {"update": "one", "updates": [{"q": {"_id": 1}, "u": {"$rename": {f"f{n}": f"g{n}" for n in range(MANY)}}}]},
    "another order": {"update": "one", "updates": [{"q": {"_id": 1}, "u": fields(MANY, 2, "g")}, {"q": {"_id": 1}, "u": {f"g{n * 7919 % MANY}": 3 for n in range(MANY)}}]},
    "positions": {"update": "one", "updates": [{"q": {"_id": 1}, "u": {"list": list(range(MANY))}}, {"q": {"_id": 1}, "u": {"$set": {f"list.{n}": -1 for n in range(MANY)}}}]},
    "$addToSet": {"update": "one", "updates": [{"q": {"_id": 1}, "u": {"$addToSet": {"list": {"$each": [{"n": n} for n in range(MANY)]}}}}]},
    "$pullAll": {"update": "one", "updates": [{"q": {"_id": 1}, "u": {"$pullAll": {"list": [{"n": n} for n in range(MANY)]}}}]},
    "array filters": {"update": "one", "updates": [{"q": {"_id": 2}, "u": {"$set": {f"list.$[i{n}].x{n}": 1 for n in range(MANY // 20)}}, "arrayFilters": [{f"i{n}.x": n} for n in range(MANY // 20)]}]},
    "upsert": {"update": "new", "updates": [{"q": {"$and": [{f"f{n}": 1} for n in range(MANY)]}, "u": {"$set": {"z": 1}}, "upsert": True}]},
    "validate": {"validate": "keys"},
    "sessions that end": {"endSessions": [{"id": bson.Binary(n.to_bytes(16, "big"), 4)} for n in range(MANY // 2)]},
    "sessions to kill": {"killAllSessionsByPattern": [{"lsid": {"id": bson.Binary(n.to_bytes(16, "big"), 4)}} for n in range(MANY // 2)]},
    "cursors to kill": {"killCursors": "one", "cursors": [bson.Int64(n + 1) for n in range(MANY)]},
    "collections to hash": {"dbHash": 1, "collections": [f"c{n}" for n in range(MANY)]},
    "a list behind a range of an index": {"find": "behind", "filter": {"a": {"$gte": 0}, "b": {"$in": list(range(MANY // 2))}}},
    "a filter in a partial index": find(filter={"$and": [{"p": {"$gt": n}} for n in range(MANY // 8)]}),
    "a list in a partial index": find(filter={"p": {"$in": list(range(MANY // 2))}}),
    "fields of a partial index": {"update": "partial", "updates": [{"q": {"_id": 1}, "u": {"$set": fields(MANY)}}]},
}


@pytest.fixture(scope="module")
def one(server):
    with MongoClient(server.uri) as client:
        database = client["proportion"]
        database["one"].insert_many([{"_id": 1, "a": 1}, {"_id": 2, "list": [{"x": n} for n in range(3)], "far": []}])
        database["many"].insert_many([{"_id": n, "a": n} for n in range(100)])
        database["many"].create_index("a")
        wide = {"$and": [{"p": {"$in": list(range(20_000))}}, {"$or": [{f"q{n}": {"$gt": n}} for n in range(20_000)]}]}
        database["many"].create_index("p", name="p", partialFilterExpression=wide["$and"][0])
        database["many"].create_index([("p", -1)], name="wide", partialFilterExpression=wide)
        database["behind"].insert_many([{"_id": n, "a": n, "b": -1} for n in range(MANY // 10)])
        database["behind"].create_index([("a", 1), ("b", 1)])
        database["partial"].insert_one({"_id": 1})
        database["partial"].create_index("f1", partialFilterExpression={"$and": [{f"f{n}": {"$gt": n}} for n in range(20_000)]})
        # Keys of two documents between one another.
        database["keys"].create_index("k")
        database["keys"].insert_many([{"k": list(range(first, 40_000, 2))} for first in range(2)])
        yield database
        client.drop_database("proportion")


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_takes_time_in_proportion(one, name):
    """A square of these would take longer than the guard by far."""
    reply = one.client["admin" if "killAllSessionsByPattern" in LARGE[name] else one.name].command({**LARGE[name], "maxTimeMS": GUARD_MS})
    assert not reply.get("writeErrors"), str(reply)[:300]
    if name == "validate":
        assert reply["valid"] and reply["keysPerIndex"]["k_1"] == 40_000


def test_very_many_indexes_are_refused_before_they_are_compared(one):
    """A square of these comparisons would be made while other definitions wait."""
    with pytest.raises(OperationFailure) as refused:
        one.command({"createIndexes": "one", "indexes": [{"key": {f"f{n}": 1}, "name": f"f{n}"} for n in range(MANY // 2)], "maxTimeMS": GUARD_MS})
    assert refused.value.code == 67


def nested_either(levels):
    """`$or` and `$and` in turns: what a filter and a condition could be compared by takes a power of the levels."""
    condition = {"a": 1}
    for number in range(levels):
        condition = {"$or": [{"$and": [condition, {f"x{number}": 1}]}, {"$and": [{f"y{number}": 1}, {f"z{number}": 1}]}]}
    return condition


def test_a_nested_filter_beside_a_nested_partial_index(one):
    one["nested"].insert_one({"_id": 1, "a": 1})
    one["nested"].create_index("a", partialFilterExpression=nested_either(12))
    assert one.command({"find": "nested", "filter": {**nested_either(20), "a": 1}, "maxTimeMS": GUARD_MS})["ok"] == 1


def test_a_long_path_with_many_conditions_is_refused(one):
    """It would be written out for each of them."""
    for command in [
        find(filter={"p" * 400_000: {"$all": list(range(50_000))}}),
        find(filter={"p" * 400_000: {"$elemMatch": fields(50_000)}}),
        find(projection={"p" * 400_000: fields(50_000)}),
    ]:
        with pytest.raises(OperationFailure) as refused:
            one.command({**command, "maxTimeMS": GUARD_MS})
        assert refused.value.code == 10334


def test_positions_far_behind_one_another_do_not_fill_memory(one):
    with pytest.raises(OperationFailure) as refused:
        one["one"].update_one({"_id": 2}, {"$set": {f"far.{n * 1_400_000}": 1 for n in range(1, 300)}})
    assert refused.value.code == 17419
