"""Every field that the manual of the announced version gives a command: it is taken with its meaning, or refused by name.

A version that is announced is a promise: what clients may send to such a server must be understood. The table is the manual's, command by
command; a field that is refused says so with NotImplemented and its name, and nothing is "an unknown field". What a field means is tested where its command is.
"""

import bson
import pytest
from bson import Binary, Int64
from pymongo.errors import OperationFailure

NOT_IMPLEMENTED = 238

# Of every command.
COMMON = {"comment": "why", "maxTimeMS": 60_000, "$readPreference": {"mode": "primary"}, "apiVersion": "1"}
WRITE_CONCERN = {"writeConcern": {"w": 1}}
READ_CONCERN = {"readConcern": {"level": "local"}}
COLLATION = {"collation": {"locale": "fr"}}

# All commands of the manual.
NAMES = """
abortMoveCollection abortReshardCollection abortTransaction abortUnshardCollection addShard addShardToZone aggregate analyzeShardKey appendOplogNote
applyOps authenticate autoCompact balancerCollectionStatus balancerStart balancerStatus balancerStop buildInfo bulkWrite checkMetadataConsistency
cleanupOrphaned cleanupReshardCollection cleanupStructuredEncryptionData clearJumboFlag cloneCollectionAsCapped collMod collStats
commitReshardCollection commitTransaction compact compactStructuredEncryptionData configureQueryAnalyzer connPoolStats connectionStatus
convertToCapped count create createIndexes createRole createSearchIndexes createUser currentOp dataSize dbHash dbStats delete distinct drop
dropAllRolesFromDatabase dropAllUsersFromDatabase dropConnections dropDatabase dropIndexes dropRole dropSearchIndex dropUser enableSharding
endSessions explain features filemd5 find findAndModify flushRouterConfig fsync fsyncUnlock getAuditConfig getClusterParameter getCmdLineOpts
getDefaultRWConcern getLog getMore getParameter getShardMap getShardVersion getnonce grantPrivilegesToRole grantRolesToRole grantRolesToUser hello
hostInfo insert invalidateUserCache isMaster isdbgrid killAllSessions killAllSessionsByPattern killCursors killOp killSessions listCollections
listCommands listDatabases listIndexes listSearchIndexes listShards lockInfo logApplicationMessage logRotate logout mapReduce medianKey mergeChunks
moveChunk moveCollection movePrimary moveRange ping planCacheClear planCacheClearFilters planCacheListFilters planCacheSetFilter profile reIndex
refineCollectionShardKey refreshSessions removeQuerySettings removeShard removeShardFromZone renameCollection replSetAbortPrimaryCatchUp replSetFreeze
replSetGetConfig replSetGetStatus replSetInitiate replSetMaintenance replSetReconfig replSetResizeOplog replSetStepDown replSetSyncFrom
reshardCollection revokePrivilegesFromRole revokeRolesFromRole revokeRolesFromUser rolesInfo rotateCertificates saslContinue saslStart serverStatus
setAllowMigrations setAuditConfig setClusterParameter setDefaultRWConcern setFeatureCompatibilityVersion setIndexCommitQuorum setParameter
setQuerySettings setShardVersion setUserWriteBlockMode shardCollection shardConnPoolStats shardingState shutdown split splitVector startSession top
transitionFromDedicatedConfigServer transitionToDedicatedConfigServer unsetSharding unshardCollection update updateRole updateSearchIndex updateUser
updateZoneKeyRange usersInfo validate validateDBMetadata whatsmyuri
""".split()

PRIVILEGE = {"resource": {"db": "fields", "collection": ""}, "actions": ["find"]}

# For each command: what is sent at least, its fields that are taken, its fields that are refused.
COMMANDS = {
    "aggregate": (
        {"aggregate": "things", "pipeline": [], "cursor": {}},
        {"explain": False, "allowDiskUse": True, "cursor": {"batchSize": 1}, "bypassDocumentValidation": True, "hint": {"_id": 1}, "let": {"a": 1}}
        | READ_CONCERN | WRITE_CONCERN | COLLATION,
        {},
    ),
    "count": (
        {"count": "things"},
        {"query": {}, "limit": 1, "skip": 1, "hint": {"_id": 1}} | READ_CONCERN | COLLATION,
        {},
    ),
    "distinct": (
        {"distinct": "things", "key": "a"},
        {"query": {}, "hint": {"_id": 1}} | READ_CONCERN | COLLATION,
        {},
    ),
    "find": (
        {"find": "things"},
        {
            "filter": {}, "sort": {"a": 1}, "projection": {"a": 1}, "hint": {"_id": 1}, "skip": 1, "limit": 1, "batchSize": 1, "singleBatch": True,
            "returnKey": True, "showRecordId": True, "tailable": False, "oplogReplay": True, "noCursorTimeout": False, "awaitData": False,
            "allowPartialResults": True, "allowDiskUse": True, "let": {"a": 1},
        } | READ_CONCERN | COLLATION,
        {},
    ),
    "findAndModify": (
        {"findAndModify": "things", "query": {"_id": 1}, "update": {"$set": {"a": 1}}},
        {
            "sort": {"_id": 1}, "remove": False, "new": True, "fields": {"a": 1}, "upsert": True, "bypassDocumentValidation": True,
            "arrayFilters": [], "hint": {"_id": 1}, "let": {"a": 1}, "bypassEmptyTsReplacement": True,
        } | WRITE_CONCERN | COLLATION,
        {},
    ),
    "mapReduce": (
        {"mapReduce": "things", "map": "function() { emit(1, 1); }", "reduce": "function(key, values) { return values.length; }", "out": {"inline": 1}},
        {
            "query": {}, "sort": {"_id": 1}, "limit": 5, "finalize": "function(key, value) { return value; }", "scope": {"x": 1}, "jsMode": False,
            "verbose": True, "bypassDocumentValidation": True, "out": "reduced",
        } | WRITE_CONCERN | COLLATION,
        {},
    ),
    "insert": (
        {"insert": "things", "documents": [{}]},
        {"ordered": False, "bypassDocumentValidation": True, "bypassEmptyTsReplacement": True} | WRITE_CONCERN,
        {},
    ),
    "update": (
        {"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        {"ordered": False, "bypassDocumentValidation": True, "bypassEmptyTsReplacement": True, "let": {"a": 1}} | WRITE_CONCERN,
        {},
    ),
    "delete": (
        {"delete": "things", "deletes": [{"q": {"_id": "none"}, "limit": 1}]},
        {"ordered": False, "let": {"a": 1}, "bypassEmptyTsReplacement": True} | WRITE_CONCERN,
        {},
    ),
    "explain": ({"explain": {"find": "things"}}, {"verbosity": "queryPlanner"}, {}),
    "killCursors": ({"killCursors": "things", "cursors": [Int64(1)]}, {}, {}),
    "planCacheClear": ({"planCacheClear": "things"}, {"query": {}}, {}),
    "planCacheSetFilter": (
        {"planCacheSetFilter": "things", "query": {"a": 1}, "indexes": ["a_1", {"a": 1}]},
        {"sort": {"a": 1}, "projection": {"a": 1}, "collation": {"locale": "simple"}},
        {},
    ),
    "planCacheListFilters": ({"planCacheListFilters": "things"}, {}, {}),
    "planCacheClearFilters": ({"planCacheClearFilters": "things"}, {"query": {}}, {}),
    "collStats": ({"collStats": "things"}, {"scale": 2}, {}),
    "dbStats": ({"dbStats": 1}, {"scale": 2, "freeStorage": 1}, {}),
    "dataSize": (
        {"dataSize": "fields.things"},
        {"keyPattern": {"_id": 1}, "estimate": True},
        {},
    ),
    "dbHash": ({"dbHash": 1}, {"collections": ["things"]}, {}),
    "filemd5": ({"filemd5": 1}, {"root": "fs", "partialOk": False}, {"partialOk": True, "md5state": Binary(b"")}),
    "validate": (
        {"validate": "things"},
        {"full": True, "background": True, "checkBSONConformance": True, "scandata": True, "repair": False, "metadata": False, "fixMultikey": False},
        {"repair": True, "metadata": True, "fixMultikey": True},
    ),
    "create": (
        {"create": "made"},
        {
            "capped": False, "validator": {"a": 1}, "validationLevel": "off", "validationAction": "warn", "storageEngine": {},
            "changeStreamPreAndPostImages": {"enabled": True}, "idIndex": {"key": {"_id": 1}, "name": "_id_", "v": 2}, "indexOptionDefaults": {},
            "timeseries": {"timeField": "t"}, "clusteredIndex": {"key": {"_id": 1}, "unique": True},
        } | WRITE_CONCERN | COLLATION,
        {
            "encryptedFields": {}, "storageEngine": {"wiredTiger": {}},
        },
    ),
    "collMod": (
        {"collMod": "things"},
        {"validator": {}, "validationLevel": "strict", "validationAction": "error", "changeStreamPreAndPostImages": {"enabled": False}} | WRITE_CONCERN,
        {
            "dryRun": True,
            "recordPreImages": True, "clusteredIndex": {"expireAfterSeconds": 5},
        },
    ),
    "createIndexes": (
        {"createIndexes": "things", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
        {"commitQuorum": None, "ignoreUnknownIndexOptions": True} | WRITE_CONCERN,
        {},
    ),
    "dropIndexes": ({"dropIndexes": "things", "index": "*"}, WRITE_CONCERN, {}),
    "drop": ({"drop": "made"}, WRITE_CONCERN, {}),
    "listCollections": (
        {"listCollections": 1},
        {"filter": {"name": "things"}, "nameOnly": True, "authorizedCollections": True, "cursor": {"batchSize": 1}},
        {"includePendingDrops": True},
    ),
    "listIndexes": ({"listIndexes": "things"}, {"cursor": {"batchSize": 1}}, {}),
    "convertToCapped": ({"convertToCapped": "to_be_capped", "size": 4096}, WRITE_CONCERN, {}),
    "cloneCollectionAsCapped": ({"cloneCollectionAsCapped": "things", "toCollection": "clone", "size": 4096}, WRITE_CONCERN, {}),
    "compact": ({"compact": "things"}, {"force": True}, {"dryRun": True, "freeSpaceTargetMB": 5}),
    "profile": ({"profile": 0}, {"slowms": 100, "sampleRate": 1.0, "filter": "unset"}, {}),
    "connectionStatus": ({"connectionStatus": 1}, {"showPrivileges": True}, {}),
    "ping": ({"ping": 1}, {}, {}),
    "createUser": (
        {"createUser": "made", "pwd": "p", "roles": []},
        {"customData": {"a": 1}, "roles": ["read"], "digestPassword": True, "authenticationRestrictions": [], "mechanisms": ["SCRAM-SHA-256"]}
        | WRITE_CONCERN,
        {"passwordDigestor": "client"},
    ),
    "updateUser": (
        {"updateUser": "kept", "pwd": "p"},
        {"customData": {"a": 1}, "roles": ["read"], "digestPassword": True, "authenticationRestrictions": [], "mechanisms": ["SCRAM-SHA-256"]}
        | WRITE_CONCERN,
        {"passwordDigestor": "client"},
    ),
    "dropUser": ({"dropUser": "kept"}, WRITE_CONCERN, {}),
    "dropAllUsersFromDatabase": ({"dropAllUsersFromDatabase": 1}, WRITE_CONCERN, {}),
    "grantRolesToUser": ({"grantRolesToUser": "kept", "roles": ["read"]}, WRITE_CONCERN, {}),
    "revokeRolesFromUser": ({"revokeRolesFromUser": "kept", "roles": ["read"]}, WRITE_CONCERN, {}),
    "usersInfo": (
        {"usersInfo": "kept"},
        {"showCredentials": True, "showCustomData": False, "showPrivileges": True, "showAuthenticationRestrictions": True, "filter": {}},
        {},
    ),
    "createRole": (
        {"createRole": "made", "privileges": [], "roles": []},
        {"privileges": [PRIVILEGE], "roles": ["read"], "authenticationRestrictions": []} | WRITE_CONCERN,
        {},
    ),
    "updateRole": (
        {"updateRole": "kept", "privileges": []},
        {"privileges": [PRIVILEGE], "roles": ["read"], "authenticationRestrictions": []} | WRITE_CONCERN,
        {},
    ),
    "dropRole": ({"dropRole": "kept"}, WRITE_CONCERN, {}),
    "dropAllRolesFromDatabase": ({"dropAllRolesFromDatabase": 1}, WRITE_CONCERN, {}),
    "grantPrivilegesToRole": ({"grantPrivilegesToRole": "kept", "privileges": [PRIVILEGE]}, WRITE_CONCERN, {}),
    "revokePrivilegesFromRole": ({"revokePrivilegesFromRole": "kept", "privileges": [PRIVILEGE]}, WRITE_CONCERN, {}),
    "grantRolesToRole": ({"grantRolesToRole": "kept", "roles": ["read"]}, WRITE_CONCERN, {}),
    "revokeRolesFromRole": ({"revokeRolesFromRole": "kept", "roles": ["read"]}, WRITE_CONCERN, {}),
    "rolesInfo": (
        {"rolesInfo": "kept"},
        {"showPrivileges": True, "showBuiltinRoles": True, "showAuthenticationRestrictions": True},
        {"showPrivileges": "asUserFragment"},
    ),
    "logout": ({"logout": 1}, {}, {}),
    "buildInfo": ({"buildInfo": 1}, {}, {}),
    "hello": ({"hello": 1}, {"saslSupportedMechs": "admin.user", "helloOk": True}, {"loadBalanced": True}),
    "hostInfo": ({"hostInfo": 1}, {}, {}),
    "listCommands": ({"listCommands": 1}, {}, {}),
    "serverStatus": ({"serverStatus": 1}, {"metrics": 0, "repl": 0, "mirroredReads": 0, "latchAnalysis": 0, "none": 1}, {}),
    "whatsmyuri": ({"whatsmyuri": 1}, {}, {}),
    "features": ({"features": 1}, {}, {"oidReset": 1}),
}

# The same of those that are for admin.
ADMIN_COMMANDS = {
    "bulkWrite": (
        {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "fields.things"}]},
        {"ordered": False, "errorsOnly": True, "let": {"a": 1}, "bypassDocumentValidation": True, "bypassEmptyTsReplacement": True,
         "cursor": {"batchSize": 1}} | WRITE_CONCERN,
        {},
    ),
    "currentOp": ({"currentOp": 1}, {"$ownOps": True, "$all": True, "active": True}, {}),
    "killOp": ({"killOp": 1, "op": 123_456}, {}, {}),
    "fsync": ({"fsync": 1}, {"lock": False, "fsyncLockAcquisitionTimeoutMillis": 1000}, {}),
    "getCmdLineOpts": ({"getCmdLineOpts": 1}, {}, {}),
    "getLog": ({"getLog": "global"}, {}, {}),
    "getParameter": ({"getParameter": 1, "quiet": 1}, {}, {}),
    "setParameter": ({"setParameter": 1, "quiet": False}, {}, {}),
    "setQuerySettings": ({"setQuerySettings": {"find": "things", "$db": "fields"}, "settings": {"queryFramework": "classic"}}, {}, {}),
    "removeQuerySettings": ({"removeQuerySettings": {"find": "things", "$db": "fields"}}, {}, {}),
    "listDatabases": ({"listDatabases": 1}, {"filter": {"name": "admin"}, "nameOnly": True, "authorizedDatabases": True}, {}),
    "renameCollection": (
        {"renameCollection": "fields.to_be_renamed", "to": "fields.renamed"},
        {"dropTarget": True} | WRITE_CONCERN,
        {},
    ),
    "setFeatureCompatibilityVersion": ({"setFeatureCompatibilityVersion": "8.0", "confirm": True}, WRITE_CONCERN, {"downgradeOnDiskChanges": True}),
    "top": ({"top": 1}, {}, {}),
    "invalidateUserCache": ({"invalidateUserCache": 1}, {}, {}),
    "lockInfo": ({"lockInfo": 1}, {}, {}),
    "connPoolStats": ({"connPoolStats": 1}, {}, {}),
    "validateDBMetadata": ({"validateDBMetadata": 1, "apiParameters": {"version": "1"}}, {"db": "fields", "collection": "things"}, {}),
}

UPDATE_STATEMENT = {"q": {"_id": 1}, "u": {"$set": {"a": 1}}}
DELETE_STATEMENT = {"q": {"_id": "none"}, "limit": 1}
INDEX = {"key": {"f": 1}, "name": "f_1"}
INDEX_CHANGE = {"name": "changed_1"}

# Fields inside of fields.
PARTS = {
    "update.updates": (
        lambda field: {"update": "things", "updates": [UPDATE_STATEMENT | field]},
        {"c": {"a": 1}, "upsert": True, "multi": False, "arrayFilters": [], "hint": {"_id": 1}, "sort": {"_id": 1}} | COLLATION,
        {},
    ),
    "delete.deletes": (
        lambda field: {"delete": "things", "deletes": [DELETE_STATEMENT | field]},
        {"hint": {"_id": 1}} | COLLATION,
        {},
    ),
    "createIndexes.indexes": (
        lambda field: {"createIndexes": "indexed", "indexes": [INDEX | field]},
        {"v": 2, "unique": True, "partialFilterExpression": {"a": 1}, "sparse": True, "expireAfterSeconds": 5, "hidden": True, "background": True, "storageEngine": {},
         "prepareUnique": True}
        | COLLATION,
        {
            "storageEngine": {"wiredTiger": {}},
        },
    ),
    "createIndexes.indexes of text": (
        lambda field: {"createIndexes": "indexed", "indexes": [{"key": {"t": "text"}, "name": "t"} | field]},
        {"weights": {"a": 1}, "default_language": "english", "language_override": "language", "textIndexVersion": 3},
        {"textIndexVersion": 2},
    ),
    "collMod.index": (
        lambda field: {"collMod": "things", "index": INDEX_CHANGE | field},
        {"hidden": False, "expireAfterSeconds": 7, "prepareUnique": True},
        {"forceNonUnique": True},
    ),
}


def prepare(database):
    """What the commands of the table are about."""
    database.client.drop_database("fields")
    database.command("dropAllUsersFromDatabase")
    database.command("dropAllRolesFromDatabase")
    query = {"find": "things", "$db": "fields"}
    database.client.admin.command("setQuerySettings", query, settings={"queryFramework": "classic"})
    database.command("createUser", "kept", pwd="p", roles=[])
    database.command("createRole", "kept", privileges=[], roles=[])
    database.things.insert_many([{"_id": number, "a": number} for number in range(3)])
    database.things.create_index("changed", expireAfterSeconds=5)
    for name in ("to_be_capped", "to_be_renamed", "indexed"):
        database[name].insert_one({"_id": 1})


@pytest.fixture
def fields(client):
    prepare(client["fields"])
    return client["fields"]


def send(database, command):
    """Without what the driver would add by itself."""
    return database.command(bson.SON(command))


# After these there must be made again what they are about.
CONSUMING = {"createUser", "dropUser", "createRole", "dropRole", "create", "drop", "dropIndexes", "convertToCapped", "cloneCollectionAsCapped", "renameCollection", "removeQuerySettings"}


def check_command(fields, database, name, base, taken, refused):
    for field, value in (COMMON | taken).items():
        if name in CONSUMING:
            prepare(fields)
        try:
            assert send(database, base | {field: value})["ok"] == 1.0
        except OperationFailure as error:
            raise AssertionError(f"{name}.{field}: {error.details}") from error
    for field, value in refused.items():
        check_refusal(database, base | {field: value}, field)
    with pytest.raises(OperationFailure) as caught:
        send(database, base | {"noSuchField": 1})
    told = caught.value.details
    # For these two other names are parameters, or a condition.
    if name not in ("getParameter", "currentOp"):
        assert "noSuchField" in told["errmsg"], told


def check_refusal(database, command, field):
    with pytest.raises(OperationFailure) as caught:
        send(database, command)
    told = caught.value.details
    assert (told["code"], told["codeName"]) == (NOT_IMPLEMENTED, "NotImplemented") and field in told["errmsg"], (field, told)


@pytest.mark.parametrize("name", COMMANDS)
def test_fields_of_commands(fields, name):
    check_command(fields, fields, name, *COMMANDS[name])


@pytest.mark.parametrize("name", ADMIN_COMMANDS)
def test_fields_of_commands_on_admin(fields, name):
    if name in ("getParameter", "currentOp"):
        base, taken, refused = ADMIN_COMMANDS[name]
        for field, value in (COMMON | taken).items():
            assert send(fields.client.admin, base | {field: value})["ok"] == 1.0, field
        return
    check_command(fields, fields.client.admin, name, *ADMIN_COMMANDS[name])


@pytest.mark.parametrize("part", PARTS)
def test_parts(fields, part):
    command, taken, refused = PARTS[part]
    for field, value in taken.items():
        fields.indexed.drop_indexes()
        reply = send(fields, command({field: value}))
        assert reply["ok"] == 1.0 and "writeErrors" not in reply, (field, reply)
    for field, value in refused.items():
        fields.indexed.drop_indexes()
        try:
            reply = send(fields, command({field: value}))
            codes = [error["code"] for error in reply.get("writeErrors", [])]
        except OperationFailure as error:
            codes = [error.code]
            assert field in str(error.details["errmsg"]), error.details
        assert codes == [NOT_IMPLEMENTED], (field, codes)


def test_min_and_max(fields):
    """These need each other, or what they belong to."""
    send(fields, {"find": "things", "min": {"_id": 0}, "max": {"_id": 2}, "hint": {"_id": 1}})
    send(fields, {"create": "ring", "capped": True, "size": 4096, "max": 5})
    send(fields, {"collMod": "ring", "cappedSize": 8192, "cappedMax": 7})
    send(fields, {"create": "a_view", "viewOn": "things", "pipeline": []})
    send(fields, {"collMod": "a_view", "viewOn": "things", "pipeline": [{"$match": {}}]})
    send(fields, {"drop": "a_view"})
    send(fields, {"dataSize": "fields.things", "keyPattern": {"_id": 1}, "min": {"_id": 0}, "max": {"_id": 2}})
    for name in ("planCacheClear", "planCacheClearFilters"):
        send(fields, {name: "things", "query": {}, "sort": {"a": 1}, "projection": {"a": 1}})


@pytest.mark.parametrize("end", ["commitTransaction", "abortTransaction"])
def test_of_the_ends_of_transactions(fields, end):
    with fields.client.start_session() as session:
        for number, (field, value) in enumerate((COMMON | WRITE_CONCERN).items(), 1000):
            own = {"txnNumber": Int64(number), "autocommit": False}
            start = {"insert": "things", "documents": [{}], "startTransaction": True} | own
            fields.command(start, session=session)
            assert fields.client.admin.command({end: 1} | own | {field: value}, session=session)["ok"] == 1.0, field


def test_of_get_more(fields):
    # maxTimeMS is of awaiting cursors only; the stable API is that of the command which has opened the cursor.
    for field in ("comment", "$readPreference", "batchSize"):
        cursor = send(fields, {"find": "things", "batchSize": 1})["cursor"]
        more = {"getMore": cursor["id"], "collection": "things"}
        assert send(fields, more | {field: (COMMON | {"batchSize": 1})[field]})["ok"] == 1.0


def test_of_the_oplog_size(fields):
    for field, value in COMMON.items():
        assert send(fields.client.admin, {"replSetResizeOplog": 1, "minRetentionHours": 1.5, field: value})["ok"] == 1.0
    send(fields.client.admin, {"replSetResizeOplog": 1, "size": 2000.0, "minRetentionHours": 0})


@pytest.mark.parametrize("command", ["find", "insert", "update", "aggregate", "delete"])
@pytest.mark.parametrize("field, value", [("collectionUUID", Binary(bytes(16), 4)), ("encryptionInformation", {})])
def test_of_everything_and_not_here(fields, command, field, value):
    check_refusal(fields, COMMANDS[command][0] | {field: value}, field)


def test_every_command_of_the_manual_is_there_or_refused_with_the_reason(fields):
    there = fields.client.admin.command("listCommands")["commands"]
    for name in NAMES:
        if name not in there:
            with pytest.raises(OperationFailure, match="Plimsoll does not implement it yet|sharded clusters") as caught:
                fields.client.admin.command(name, "things")
            assert caught.value.code == 59, name
