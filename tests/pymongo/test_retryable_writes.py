"""Retryable writes: a statement is executed once, however often it is sent, also across kill -9.

Expectations are those of the drivers' retryable writes specification and of MongoDB's manual.
"""

import uuid

import bson
import pytest
from bson.binary import Binary, UuidRepresentation
from bson.int64 import Int64
from pymongo import ReturnDocument
from pymongo.errors import OperationFailure


@pytest.fixture
def lsid():
    return {"id": Binary.from_uuid(uuid.uuid4(), UuidRepresentation.STANDARD)}


def send(database, lsid, number, command):
    """Sends a command as a driver would that retries it; the session is ours and not the driver's."""
    body = bson.encode({**command, "lsid": lsid, "txnNumber": Int64(number), "$db": database.name})
    return raw_command(database.client, body)


def raw_command(client, body):
    """Sends bytes as an OP_MSG on a connection of its own, because a driver puts its own session into every command."""
    import socket
    import struct

    host, port = client.address
    with socket.create_connection((host, port), timeout=10) as connection:
        payload = struct.pack("<I", 0) + b"\0" + body
        connection.sendall(struct.pack("<iiii", 16 + len(payload), 7, 0, 2013) + payload)
        stream = connection.makefile("rb")
        length = struct.unpack("<i", stream.read(4))[0]
        reply = bson.decode(stream.read(length - 4)[12 + 5:])
    if not reply["ok"]:
        raise OperationFailure(reply["errmsg"], reply["code"], reply)
    return reply


def test_the_driver_retries_writes(client, database):
    """A driver that numbers its writes must find the server able to take them."""
    hello = client.admin.command("hello")
    assert hello["msg"] == "isdbgrid" and hello["logicalSessionTimeoutMinutes"] == 30
    database.things.insert_one({"_id": 1})
    database.things.update_one({"_id": 1}, {"$inc": {"n": 1}})
    assert database.things.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})["n"] == 1
    database.things.insert_many([{"_id": number} for number in range(2, 50)])
    database.things.delete_one({"_id": 2})
    assert database.things.count_documents({}) == 48


def test_a_retried_insert_inserts_nothing(database, lsid):
    documents = [{"_id": number} for number in range(100)]
    first = send(database, lsid, 1, {"insert": "c", "documents": documents[:60]})
    assert first["n"] == 60 and "retriedStmtIds" not in first
    again = send(database, lsid, 1, {"insert": "c", "documents": documents})
    assert again["n"] == 100 and again["retriedStmtIds"] == list(range(60))
    assert database.c.count_documents({}) == 100


def test_a_retried_update_updates_once(database, lsid):
    database.c.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
    command = {
        "update": "c",
        "updates": [
            {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}},
            {"q": {"_id": 3}, "u": {"$inc": {"n": 5}}, "upsert": True},
            {"q": {"_id": 2}, "u": {"$inc": {"n": 1}}, "upsert": True},
        ],
    }
    first = send(database, lsid, 7, command)
    second = send(database, lsid, 7, command)
    for reply in (first, second):
        assert (reply["n"], reply["nModified"]) == (3, 2)
        assert reply["upserted"] == [{"index": 1, "_id": 3}]
    assert second["retriedStmtIds"] == [0, 1, 2]
    assert [document["n"] for document in database.c.find().sort("_id", 1)] == [1, 1, 5]


def test_a_retried_delete_deletes_once(database, lsid):
    database.c.insert_many([{"_id": number, "same": 1} for number in range(3)])
    command = {"delete": "c", "deletes": [{"q": {"same": 1}, "limit": 1}]}
    assert send(database, lsid, 1, command)["n"] == 1
    assert send(database, lsid, 1, command)["n"] == 1
    assert database.c.count_documents({}) == 2


@pytest.mark.parametrize("new", [False, True])
def test_a_retried_find_and_modify_gives_the_same_document(database, lsid, new):
    database.c.insert_one({"_id": 1, "n": 0})
    command = {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": new}
    first = send(database, lsid, 1, command)
    second = send(database, lsid, 1, command)
    assert first["value"] == second["value"] == {"_id": 1, "n": 1 if new else 0}
    assert first["lastErrorObject"] == second["lastErrorObject"] == {"n": 1, "updatedExisting": True}
    command = {"findAndModify": "c", "query": {"_id": 1}, "remove": True, "fields": {"n": 1, "_id": 0}}
    first = send(database, lsid, 2, command)
    second = send(database, lsid, 2, command)
    assert first["value"] == second["value"] == {"n": 1}
    assert database.c.count_documents({}) == 0
    command = {"findAndModify": "c", "query": {"_id": 9}, "update": {"$set": {"n": 1}}, "upsert": True, "new": new}
    first = send(database, lsid, 3, command)
    second = send(database, lsid, 3, command)
    assert first["value"] == second["value"] == ({"_id": 9, "n": 1} if new else None)
    assert first["lastErrorObject"] == second["lastErrorObject"]
    assert second["lastErrorObject"] == {"n": 1, "updatedExisting": False, "upserted": 9}


def test_older_numbers_are_refused_and_newer_ones_forget(database, lsid):
    insert = {"insert": "c", "documents": [{}]}
    send(database, lsid, 5, insert)
    with pytest.raises(OperationFailure) as caught:
        send(database, lsid, 4, insert)
    assert caught.value.code == 225
    send(database, lsid, 6, insert)
    assert database.c.count_documents({}) == 2
    with pytest.raises(OperationFailure) as caught:
        send(database, lsid, 7, {"find": "c"})
    assert caught.value.code == 50768


def test_what_cannot_be_retried_is_refused(database, lsid):
    database.c.insert_one({})
    update = {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "multi": True}]}
    assert send(database, lsid, 1, update)["writeErrors"][0]["code"] == 72
    delete = {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}
    assert send(database, lsid, 2, delete)["writeErrors"][0]["code"] == 72
    assert database.c.count_documents({"a": {"$exists": False}}) == 1


def test_statements_may_be_numbered_by_the_client(database, lsid):
    command = {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}], "stmtIds": [8, 3]}
    send(database, lsid, 1, command)
    again = send(database, lsid, 1, {"insert": "c", "documents": [{"_id": 3}, {"_id": 4}], "stmtId": 8})
    assert again["n"] == 2 and again["retriedStmtIds"] == [8]
    assert sorted(document["_id"] for document in database.c.find()) == [1, 2, 4]
    with pytest.raises(OperationFailure) as caught:
        send(database, lsid, 2, {**command, "stmtIds": [1]})
    assert caught.value.code == 72


@pytest.mark.parametrize("ending", ["kill", "stop"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_executed_statements_survive(server, client, database, lsid, ending, checkpoint):
    insert = {"insert": "c", "documents": [{"_id": 1, "n": 0}, {"_id": 2}], "writeConcern": {"w": 1, "j": True}}
    send(database, lsid, 3, insert)
    other = {"id": Binary.from_uuid(uuid.uuid4(), UuidRepresentation.STANDARD)}
    modify = {
        "findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True,
        "writeConcern": {"w": "majority"},
    }
    value = send(database, other, 9, modify)["value"]
    if checkpoint:
        client.admin.command("fsync")
    if ending == "kill":
        server.kill()
    else:
        server.stop()
    server.start()
    reply = send(database, lsid, 3, insert)
    assert reply["n"] == 2 and reply["retriedStmtIds"] == [0, 1]
    assert send(database, other, 9, modify)["value"] == value
    assert database.c.find_one({"_id": 1})["n"] == 1
    with pytest.raises(OperationFailure) as caught:
        send(database, lsid, 2, insert)
    assert caught.value.code == 225
    assert database.c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, return_document=ReturnDocument.AFTER)["n"] == 2
