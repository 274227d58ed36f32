"""The commands that the MongoDB Database Tools and monitoring programs send, in their order, to a server of the announced version.

The tools themselves are in no package registry; what each sends is written down here, command by command, and what it does with the replies is done here, too: a dump is
taken, restored elsewhere, and must be the same; lines are imported and exported; columns are printed from two statuses.
"""

import json
import time

import bson
import gridfs
import pytest
from bson import Int64, Timestamp, json_util
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

RAW = CodecOptions(document_class=RawBSONDocument)
PREFERENCE = {"$readPreference": {"mode": "primary"}}
BATCH = 1000


def fetch(database, reply):
    """All documents of a cursor, by getMore."""
    cursor = reply["cursor"]
    documents = list(cursor["firstBatch"])
    while cursor["id"]:
        collection = cursor["ns"].split(".", 1)[1]
        cursor = database.command("getMore", Int64(cursor["id"]), collection=collection, codec_options=RAW)["cursor"]
        documents += cursor["nextBatch"]
    return documents


def as_document(raw):
    return bson.decode(raw.raw) if isinstance(raw, RawBSONDocument) else raw


class Dump:
    """What mongodump writes: for each collection its options, its indexes and its documents' bytes."""

    def __init__(self, client, name):
        database = client[name]
        client.admin.command("ping")
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("atlasVersion", 1)
        assert caught.value.code == 59
        self.version = client.admin.command("buildInfo")["versionArray"]
        names = client.admin.command("listDatabases", 1, **PREFERENCE)["databases"]
        assert name in [entry["name"] for entry in names]
        client.admin.command("getParameter", 1, featureCompatibilityVersion=1)
        listed = fetch(database, database.command("listCollections", 1, cursor={}, codec_options=RAW))
        self.collections = {}
        for information in map(as_document, listed):
            collection = information["name"]
            if collection == "system.profile":
                continue
            indexes = fetch(database, database.command("listIndexes", collection, cursor={}, codec_options=RAW))
            count = database.command("count", collection, query={})["n"]
            find = {"find": collection, "filter": {}, "hint": {"_id": 1}, "noCursorTimeout": True, "batchSize": 200}
            if "capped" in information["options"]:
                find["hint"] = {"$natural": 1}
            documents = fetch(database, database.command(bson.SON(find), codec_options=RAW))
            assert len(documents) == count
            self.collections[collection] = (
                information["options"],
                information["info"]["uuid"],
                [as_document(index) for index in indexes],
                [document.raw for document in documents],
            )


class Restore:
    """What mongorestore does with a dump."""

    def __init__(self, client, dump, name, drop=False, stop_on_error=True):
        self.database = database = client[name]
        client.admin.command("ping")
        assert dump.version[:2] == [8, 0]
        with pytest.raises(OperationFailure):
            client.admin.command("atlasVersion", 1)
        client.admin.command("buildInfo")
        for collection, (options, _, indexes, documents) in dump.collections.items():
            self.prepare(collection, options, indexes, drop)
            self.insert(collection, documents, stop_on_error)
            self.index(collection, indexes)

    def prepare(self, collection, options, indexes, drop):
        filter = {"name": collection}
        there = fetch(self.database, self.database.command("listCollections", 1, filter=filter, cursor={}))
        if there and drop:
            self.database.command("drop", collection)
            there = []
        if not there:
            id_index = next(({**index, "ns": None} for index in indexes if index["name"] == "_id_"), None)
            command = {"create": collection, **options}
            if id_index:
                command["idIndex"] = {key: value for key, value in id_index.items() if key in ("key", "name", "v")}
            self.database.command(bson.SON(command))

    def insert(self, collection, documents, stop_on_error):
        for start in range(0, len(documents), BATCH):
            batch = [RawBSONDocument(document) for document in documents[start : start + BATCH]]
            reply = self.database.command(
                "insert", collection, documents=batch, ordered=stop_on_error, bypassDocumentValidation=True,
                bypassEmptyTsReplacement=True, writeConcern={"w": "majority"},
            )
            assert reply["n"] == len(batch) and "writeErrors" not in reply, reply

    def index(self, collection, indexes):
        others = [index for index in indexes if index["name"] != "_id_"]
        if others:
            self.database.command("createIndexes", collection, indexes=others, ignoreUnknownIndexOptions=True)


def fill(database):
    """Collections of all kinds, with values that a copy can get wrong."""
    things = database.things
    things.insert_many(
        [{"_id": number, "text": "x" * (number % 50), "list": [number, {"deep": None}], "at": Timestamp(number, 1)} for number in range(1500)]
    )
    database.command(
        "insert", "things", documents=[{"_id": "empty", "at": Timestamp(0, 0), "$odd": 1, "a.b": 2}], bypassEmptyTsReplacement=True
    )
    things.create_index("text")
    things.create_index([("list.deep", 1), ("at", -1)], sparse=True, name="deep")
    things.create_index("at", partialFilterExpression={"_id": {"$gt": 5}}, hidden=True)
    things.create_index("expires", expireAfterSeconds=3600)
    database.create_collection("ring", capped=True, size=1 << 16, max=100)
    database.ring.insert_many([{"_id": number} for number in range(150)])
    checked = {"validator": {"a": {"$type": "int"}}, "validationLevel": "moderate", "validationAction": "error"}
    database.create_collection("checked", **checked)
    database.checked.insert_one({"a": 1})
    database.command("insert", "checked", documents=[{"_id": "invalid"}], bypassDocumentValidation=True)
    database.create_collection("nothing_in_it")
    gridfs.GridFSBucket(database).upload_from_stream("file", bytes(range(256)) * 2000)


@pytest.fixture
def filled(client, database):
    fill(database)
    return database


def contents(client, name):
    found = Dump(client, name).collections
    return {
        collection: (options, sorted(indexes, key=lambda index: index["name"]), documents)
        for collection, (options, _, indexes, documents) in found.items()
    }


def test_a_dump_is_restored(client, filled):
    copy = client[filled.name + "_copy"]
    client.drop_database(copy.name)
    dump = Dump(client, filled.name)
    Restore(client, dump, copy.name)
    assert contents(client, copy.name) == contents(client, filled.name)
    assert copy.things.find_one({"_id": "empty"})["at"] == Timestamp(0, 0)
    # The same once more, in place of what is there.
    Restore(client, dump, copy.name, drop=True)
    assert contents(client, copy.name) == contents(client, filled.name)
    for collection in copy.list_collection_names():
        assert copy.command("validate", collection, full=True)["valid"]
    client.drop_database(copy.name)


def test_a_dump_of_a_whole_server_has_nothing_of_config(client, restart):
    """mongorestore restores nothing into a router (`isdbgrid`) when the dump has a collection of `config`; mongodump takes these along."""
    assert client.admin.command("hello")["msg"] == "isdbgrid"
    taken_along = {"chunks", "collections", "databases", "settings", "shards", "tags", "version"}
    client.admin.command("setDefaultRWConcern", defaultReadConcern={"level": "majority"})
    for _ in range(2):
        assert not taken_along & set(client.config.list_collection_names())
        # It is there for who asks for it.
        stored = client.config.settings.find_one({"_id": "ReadWriteConcernDefaults"})
        assert stored["defaultReadConcern"] == {"level": "majority"}
        assert client.admin.command("getDefaultRWConcern")["defaultReadConcern"] == {"level": "majority"}
        restart()
    client.admin.command("setDefaultRWConcern", defaultReadConcern={})


def test_what_is_there_already_is_left(client, filled):
    """Without --drop documents with the same _id are refused one by one, and the others are inserted."""
    filled.things.delete_one({"_id": 3})
    documents = [{"_id": number, "restored": True} for number in range(5)]
    reply = filled.command(
        "insert", "things", documents=documents, ordered=False, bypassDocumentValidation=True, bypassEmptyTsReplacement=True
    )
    assert reply["n"] == 1 and {error["code"] for error in reply["writeErrors"]} == {11000}
    assert filled.things.find_one({"_id": 3}) == {"_id": 3, "restored": True}


def test_options_of_other_servers_are_restored(client, database):
    """Metadata of old dumps: options that nobody knows any more, values that are other numbers."""
    index = {"key": {"a": 1.0}, "name": "a_1", "ns": "old.things", "background": True, "v": 2, "safe": None}
    database.command("create", "things", idIndex={"key": {"_id": 1}, "name": "_id_", "v": 2})
    database.command("createIndexes", "things", indexes=[index], ignoreUnknownIndexOptions=True)
    assert "a_1" in database.things.index_information()
    database.command("collMod", "things", index={"name": "a_1", "hidden": True})


def test_lines_are_imported_and_exported(client, database):
    lines = [
        json_util.dumps({"_id": number, "name": f"n{number}", "at": Timestamp(0, 0), "when": None}) for number in range(2500)
    ]
    client.admin.command("ping")
    client.admin.command("buildInfo")
    documents = [json_util.loads(line) for line in lines]
    for start in range(0, len(documents), BATCH):
        batch = documents[start : start + BATCH]
        reply = database.command(
            "insert", "imported", documents=batch, ordered=False, bypassDocumentValidation=False, bypassEmptyTsReplacement=True
        )
        assert reply["n"] == len(batch)
    # --mode=upsert and --mode=merge
    updates = [
        {"q": {"_id": document["_id"]}, "u": document | {"name": "other"}, "upsert": True, "multi": False} for document in documents[:10]
    ]
    updates.append({"q": {"_id": "new"}, "u": {"$set": {"name": "merged"}}, "upsert": True})
    reply = database.command("update", "imported", updates=updates, ordered=False, bypassEmptyTsReplacement=True)
    assert (reply["n"], reply["nModified"], len(reply["upserted"])) == (11, 10, 1)
    # --mode=delete
    reply = database.command("delete", "imported", deletes=[{"q": {"_id": "new"}, "limit": 1}], ordered=False)
    assert reply["n"] == 1
    # mongoexport: the count for its progress, then everything by _id.
    assert database.command("count", "imported", query={})["n"] == 2500
    exported = fetch(database, database.command("find", "imported", filter={}, sort={"_id": 1}, noCursorTimeout=True))
    lines_out = [json.loads(json_util.dumps(as_document(document))) for document in exported]
    expected = [json.loads(line) for line in lines]
    for line in expected[:10]:
        line["name"] = "other"
    assert lines_out == expected


def test_columns_of_mongostat(client):
    def status():
        return client.admin.command({"serverStatus": 1, "recordStats": 0})

    first, began = status(), time.monotonic()
    client.test.stat_columns.insert_many([{} for _ in range(50)])
    list(client.test.stat_columns.find())
    second, seconds = status(), time.monotonic() - began

    def rate(*path):
        values = []
        for found in (first, second):
            for name in path:
                found = found[name]
            values.append(found)
        return (values[1] - values[0]) / seconds

    assert rate("opcounters", "insert") * seconds == pytest.approx(50)
    assert rate("opcounters", "query") * seconds == pytest.approx(1)
    assert rate("network", "bytesIn") > 0 and rate("network", "bytesOut") > 0
    assert rate("metrics", "document", "inserted") * seconds == pytest.approx(50)
    cache = second["wiredTiger"]["cache"]
    for part in ("tracked dirty bytes in the cache", "bytes currently in the cache"):
        assert 0 <= cache[part] / cache["maximum bytes configured"] <= 1
    assert rate("wiredTiger", "transaction", "transaction checkpoints") >= 0
    queue, active = second["globalLock"]["currentQueue"], second["globalLock"]["activeClients"]
    assert all(isinstance(counts[name], int) for counts in (queue, active) for name in ("total", "readers", "writers"))
    assert second["connections"]["current"] >= 1 and second["mem"]["resident"] > 0
    assert second["pid"] > 0 and second["host"] and second["localTime"] >= first["localTime"]


def test_columns_of_mongotop(client):
    def totals():
        found = client.admin.command("top")["totals"]
        assert found.pop("note") == "all times in microseconds"
        return found

    client.test.top_of_tools.insert_one({})
    first = totals()
    client.test.top_of_tools.insert_many([{} for _ in range(100)])
    list(client.test.top_of_tools.find())
    second = totals()["test.top_of_tools"]
    before = first["test.top_of_tools"]
    for column in ("total", "readLock", "writeLock"):
        assert second[column]["time"] > before[column]["time"] and second[column]["count"] > before[column]["count"]


def test_commands_of_mongofiles(database):
    """put, list, get, delete_id."""
    content = bytes(range(256)) * 4000
    for collection in ("fs.files", "fs.chunks"):
        with pytest.raises(OperationFailure) as caught:
            database.command("listIndexes", collection, cursor={})
        assert caught.value.code == 26
    assert database.command("find", "fs.files", filter={}, projection={"_id": 1}, limit=1, singleBatch=True)["cursor"]["firstBatch"] == []
    database.command("createIndexes", "fs.files", indexes=[{"key": {"filename": bson.Int64(1), "uploadDate": bson.Int64(1)}, "name": "filename_1_uploadDate_1"}])
    database.command("createIndexes", "fs.chunks", indexes=[{"key": {"files_id": 1, "n": 1}, "name": "files_id_1_n_1", "unique": True}])
    identifier = bson.ObjectId()
    chunks = [
        {"_id": bson.ObjectId(), "files_id": identifier, "n": number, "data": content[start : start + 261_120]}
        for number, start in enumerate(range(0, len(content), 261_120))
    ]
    assert database.command("insert", "fs.chunks", documents=chunks, bypassEmptyTsReplacement=True)["n"] == len(chunks)
    file = {"_id": identifier, "length": len(content), "chunkSize": 261_120, "filename": "a.bin"}
    database.command("insert", "fs.files", documents=[file])
    listed = fetch(database, database.command("find", "fs.files", filter={"filename": {"$regex": "^a", "$options": ""}}))
    assert [as_document(found)["length"] for found in listed] == [len(content)]
    parts = fetch(database, database.command("find", "fs.chunks", filter={"files_id": identifier}, sort={"n": 1}))
    assert b"".join(part["data"] for part in parts) == content
    database.command("delete", "fs.files", deletes=[{"q": {"_id": identifier}, "limit": 1}])
    assert database.command("delete", "fs.chunks", deletes=[{"q": {"files_id": identifier}, "limit": 0}])["n"] == len(chunks)


def test_users_and_roles_are_asked_for(client):
    """--dumpDbUsersAndRoles."""
    assert client.admin.command("getParameter", 1, authSchemaVersion=1)["authSchemaVersion"] == 5
    version = client.admin.command("find", "system.version", filter={"_id": "authSchema"}, limit=1)
    assert version["cursor"]["firstBatch"] == []
    assert client.admin.command("count", "system.users", query={})["n"] == 0


def test_what_an_exporter_asks_for(client, database, collection):
    """Percona's mongodb_exporter and Datadog's agent: each answers, none with an error."""
    collection.insert_one({})
    admin = client.admin
    for command in (
        {"buildInfo": 1}, {"getCmdLineOpts": 1}, {"hello": 1}, {"isMaster": 1}, {"serverStatus": 1, "tcmalloc": True}, {"connPoolStats": 1},
        {"top": 1}, {"listDatabases": 1, "nameOnly": True}, {"getParameter": 1, "featureCompatibilityVersion": 1}, {"hostInfo": 1},
        {"connectionStatus": 1, "showPrivileges": False}, {"profile": -1},
    ):
        assert admin.command(command)["ok"] == 1.0, command
    assert database.command("dbStats", scale=1, freeStorage=1)["ok"] == 1.0
    assert database.command("collStats", "things")["ok"] == 1.0
    stage = {"$collStats": {"storageStats": {}, "latencyStats": {"histograms": True}}}
    found = next(collection.aggregate([stage, {"$project": {"storageStats.wiredTiger": 0, "storageStats.indexDetails": 0}}]))
    writes = found["latencyStats"]["writes"]
    assert found["storageStats"]["count"] == 1 and writes["ops"] >= 1
    assert sum(entry["count"] for entry in writes["histogram"]) == writes["ops"]
    assert set(found["latencyStats"]) == {"reads", "writes", "commands", "transactions"}
    assert list(collection.aggregate([{"$indexStats": {}}]))[0]["name"] == "_id_"
    running = list(admin.aggregate([{"$currentOp": {"allUsers": True, "idleConnections": True}}, {"$match": {"active": True}}]))
    assert any(entry["command"].get("aggregate") == 1 for entry in running)
