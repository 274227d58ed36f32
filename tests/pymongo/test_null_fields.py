"""A field that is null or undefined is as good as absent, in every command; but for those fields of which MongoDB refuses null."""

import struct

import bson
import pytest
from bson import Int64
from pymongo.errors import OperationFailure

from wire import Wire

UPDATE = {"q": {"_id": 1}, "u": {"$set": {"a": 1}}}

# Command, and the fields of which each may be null.
TAKEN = [
    ({"find": "things"}, ["let", "skip", "limit", "batchSize", "sort", "projection", "comment"]),
    ({"count": "things"}, ["query", "limit", "skip", "collation"]),
    ({"distinct": "things", "key": "a"}, ["query", "collation"]),
    (
        {"aggregate": "things", "pipeline": [], "cursor": {}},
        ["explain", "allowDiskUse", "bypassDocumentValidation", "let", "collation"],
    ),
    ({"aggregate": "things", "pipeline": []}, ["cursor.batchSize"]),
    ({"insert": "things", "documents": [{}]}, ["ordered", "bypassDocumentValidation", "writeConcern"]),
    ({"update": "things", "updates": [UPDATE]}, ["ordered", "bypassDocumentValidation", "let", "writeConcern"]),
    ({"delete": "things", "deletes": [{"q": {"_id": 9}, "limit": 1}]}, ["ordered", "let", "writeConcern"]),
    (
        {"findAndModify": "things", "update": {"$set": {"a": 1}}},
        ["query", "sort", "fields", "arrayFilters", "let", "remove", "new", "upsert", "bypassDocumentValidation", "collation"],
    ),
    (
        {"create": "new"},
        ["capped", "size", "max", "validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages", "viewOn",
         "pipeline", "timeseries", "collation", "storageEngine", "indexOptionDefaults", "idIndex", "clusteredIndex",
         "expireAfterSeconds", "autoIndexId", "writeConcern"],
    ),
    ({"createIndexes": "things", "indexes": [{"key": {"b": 1}, "name": "b"}]}, ["commitQuorum", "ignoreUnknownIndexOptions"]),
    (
        {"collMod": "things"},
        ["validator", "validationLevel", "validationAction", "index", "changeStreamPreAndPostImages", "cappedSize", "cappedMax",
         "viewOn", "pipeline", "expireAfterSeconds", "timeseries", "dryRun"],
    ),
    *(({"aggregate": "things", "pipeline": [{"$changeStream": {field: None}}], "cursor": {}}, ["comment"])
      for field in ["fullDocument", "fullDocumentBeforeChange", "resumeAfter", "startAfter", "startAtOperationTime", "showExpandedEvents"]),
    *(({"createIndexes": "things", "indexes": [{"key": {"b": 1}, "name": "b", field: None}]}, ["comment"])
      for field in ["unique", "sparse", "background", "hidden", "dropDups", "wildcardProjection", "weights", "storageEngine"]),
    *(({"update": "things", "updates": [{**UPDATE, field: None}]}, ["comment"])
      for field in ["upsert", "multi", "collation", "arrayFilters", "c"]),
    ({"collStats": "things"}, ["scale"]),
    ({"dbStats": 1}, ["scale", "freeStorage"]),
    ({"listCollections": 1}, ["filter", "nameOnly", "authorizedCollections", "cursor", "cursor.batchSize"]),
    ({"listIndexes": "things"}, ["cursor", "cursor.batchSize", "includeBuildUUIDs"]),
    ({"validate": "things"}, ["full", "background", "repair", "metadata"]),
    ({"convertToCapped": "things", "size": 100_000}, ["writeConcern"]),
    ({"drop": "absent"}, ["writeConcern", "comment"]),
    ({"dropIndexes": "things", "index": "*"}, ["writeConcern"]),
    ({"explain": {"find": "things"}}, ["verbosity"]),
    ({"killCursors": "things", "cursors": [Int64(1)]}, ["comment"]),
    ({"connectionStatus": 1}, ["showPrivileges"]),
    ({"serverStatus": 1}, ["repl", "none", "all"]),
    ({"hello": 1}, ["helloOk", "client", "compression", "saslSupportedMechs", "topologyVersion", "maxAwaitTimeMS"]),
    ({"ping": 1}, ["lsid", "txnNumber", "autocommit", "startTransaction", "apiVersion", "apiStrict", "readConcern", "$clusterTime"]),
]

ADMIN_TAKEN = [
    ({"listDatabases": 1}, ["filter", "nameOnly", "authorizedDatabases"]),
    ({"fsync": 1}, ["lock"]),
    ({"currentOp": 1}, ["$ownOps", "$all"]),
    ({"getParameter": {"allParameters": None}, "featureCompatibilityVersion": 1}, ["comment"]),
]

# Command with a null, and the error.
REFUSED = [
    *(({"find": "things", field: None}, 14) for field in ["filter", "min", "max"]),
    *(({**command, "hint": None}, 9) for command in [{"find": "things"}, {"count": "things"}, {"distinct": "things", "key": "a"}]),
    ({"update": "things", "updates": [{**UPDATE, "hint": None}]}, 9),
    ({"delete": "things", "deletes": [{"q": {}, "limit": 0, "hint": None}]}, 9),
    ({"find": "things", "maxTimeMS": None}, 2),
    ({"aggregate": "things", "pipeline": [], "cursor": {}, "maxTimeMS": None}, 2),
    ({"aggregate": "things", "pipeline": [], "cursor": None}, 14),
    ({"findAndModify": "things", "update": None}, 9),
    # What is required is missing. (Documents of write commands travel outside of them, where there is no null.)
    ({"aggregate": "things", "pipeline": None, "cursor": {}}, 40414),
    ({"distinct": "things", "key": None}, 40414),
    ({"update": "things", "updates": [{"q": None, "u": {}}]}, 40414),
    ({"delete": "things", "deletes": [{"q": None, "limit": 1}]}, 40414),
    ({"delete": "things", "deletes": [{"q": {}, "limit": None}]}, 40414),
    ({"getMore": Int64(1), "collection": None}, 40414),
    ({"killCursors": "things", "cursors": None}, 40414),
    ({"createIndexes": "things", "indexes": None}, 40414),
    ({"create": "new", "changeStreamPreAndPostImages": {"enabled": None}}, 40414),
    ({"collMod": "things", "changeStreamPreAndPostImages": {"enabled": None}}, 40414),
    *(({"createIndexes": "things", "indexes": [{"key": {"b": 1}, "name": "b", field: None}]}, code)
      for field, code in [("collation", 14), ("partialFilterExpression", 14), ("v", 14), ("expireAfterSeconds", 67)]),
    # What nobody knows is unknown, whatever its value.
    *(({**command, "nonsense": None}, 40415) for command, _ in TAKEN if "serverStatus" not in command),
    ({"update": "things", "updates": [{**UPDATE, "nonsense": None}]}, 40415),
    ({"aggregate": "things", "pipeline": [], "cursor": {"nonsense": None}}, 40415),
    ({"createIndexes": "things", "indexes": [{"key": {"b": 1}, "name": "b", "nonsense": None}]}, 197),
]


def encode_with_undefined(command):
    """As BSON with undefined wherever there is None."""

    def elements(document):
        pairs = document.items() if isinstance(document, dict) else ((str(at), value) for at, value in enumerate(document))
        for name, value in pairs:
            if value is None:
                yield b"\x06" + name.encode() + b"\0"
            elif isinstance(value, (dict, list)):
                kind = b"\x03" if isinstance(value, dict) else b"\x04"
                yield kind + name.encode() + b"\0" + encode_with_undefined(value)
            else:
                yield bson.encode({name: value})[4:-1]

    body = b"".join(elements(command))
    return struct.pack("<i", len(body) + 5) + body + b"\0"


@pytest.fixture
def wire(server, client):
    connection = Wire(server)
    yield connection
    connection.close()


def with_null(command, field):
    outer, _, inner = field.partition(".")
    return {**command, outer: {inner: None} if inner else None}


def flattened(table):
    return [pytest.param(with_null(command, field), id=f"{next(iter(command))}.{field}") for command, fields in table for field in fields]


@pytest.mark.parametrize("command", flattened(TAKEN))
def test_null_says_nothing(wire, database, command):
    """By hand on the wire, since a driver has fields of its own, and sends no undefined."""
    for encode in (bson.encode, encode_with_undefined):
        database["things"].drop()
        database["new"].drop()
        database["things"].insert_many([{"_id": 1, "a": 2}, {"_id": 2, "a": 1}])
        reply = wire.run_encoded(encode({**command, "$db": database.name}))
        assert reply["ok"] == 1.0, reply


@pytest.mark.parametrize("command", flattened(ADMIN_TAKEN))
def test_null_says_nothing_to_admin(client, command):
    assert client.admin.command(command)["ok"] == 1.0


@pytest.mark.parametrize("command, code", [pytest.param(*case, id=f"{next(iter(case[0]))}-{n}") for n, case in enumerate(REFUSED)])
def test_null_is_refused(wire, database, command, code):
    database["things"].insert_one({"_id": 1, "a": 2})
    for encode in (bson.encode, encode_with_undefined):
        reply = wire.run_encoded(encode({**command, "$db": database.name}))
        assert (reply["ok"], reply.get("code")) == (0.0, code), reply


def test_defaults_stay_what_they_are(database):
    things = database["things"]
    things.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 1}])
    reply = database.command({"find": "things", "limit": None, "skip": None, "batchSize": None})
    assert len(reply["cursor"]["firstBatch"]) == 2
    assert database.command({"count": "things", "limit": None})["n"] == 2
    # Ordered unless it is said otherwise.
    reply = database.command({"insert": "things", "documents": [{"_id": 1}, {"_id": 3}], "ordered": None})
    assert reply["n"] == 0 and len(reply["writeErrors"]) == 1
    deletes = [{"q": {"$nonsense": 1}, "limit": 1}, {"q": {"_id": 1}, "limit": 1}]
    assert database.command({"delete": "things", "deletes": deletes, "ordered": None})["n"] == 0
    # One document unless it is said otherwise.
    reply = database.command({"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 2}}, "multi": None, "upsert": None}]})
    assert (reply["n"], reply["nModified"]) == (1, 1)
    assert database.command({"create": "plain", "capped": None, "size": None})["ok"] == 1.0
    assert database.command("collStats", "plain")["capped"] is False


def test_indexes_as_typeorm_asks_for_them(database):
    given = {"key": {"a": 1}, "name": "a_1", "unique": False, "sparse": None, "background": None}
    database.command({"createIndexes": "things", "indexes": [given]})
    assert database["things"].index_information()["a_1"] == {"v": 2, "key": [("a", 1)]}
