"""`bulkWrite`, as MongoDB's manual and the drivers' specification of bulk writes have it: sent as it stands, and by a
driver."""

import uuid

import bson
import pytest
from bson.binary import Binary, UuidRepresentation
from bson.int64 import Int64
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.errors import ClientBulkWriteException, OperationFailure

from test_retryable_writes import raw_command


def bulk(client, names, ops, session=None, **options):
    infos = [{"ns": name} for name in names]
    return client.admin.command({"bulkWrite": 1, "ops": ops, "nsInfo": infos, **options}, session=session)


COUNTS = ["nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted"]


def counts(reply):
    return [reply[name] for name in COUNTS]


@pytest.fixture
def names(database):
    return [f"{database.name}.a", f"{database.name}.b"]


def test_operations_of_several_collections(client, database, names):
    reply = bulk(
        client,
        names,
        [
            {"insert": 0, "document": {"_id": 1, "n": 1}},
            {"insert": 1, "document": {"_id": 1, "n": 1}},
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 5}}},
            {"update": 1, "filter": {"n": {"$gt": 0}}, "updateMods": [{"$set": {"n": {"$add": ["$n", "$$x"]}}}], "multi": True, "constants": {"x": 7}},
            {"update": 0, "filter": {"_id": 2}, "updateMods": {"k": 1}, "upsert": True},
            {"update": 0, "filter": {"_id": 9}, "updateMods": {"$set": {"k": 1}}},
            {"delete": 1, "filter": {"_id": 1}},
            {"insert": 1, "document": {"n": 3}},
            {"insert": 1, "document": {"n": 3}},
            {"delete": 1, "filter": {"n": 3}, "multi": True},
        ],
    )
    assert reply["cursor"]["id"] == 0 and reply["cursor"]["ns"] == "admin.$cmd.bulkWrite"
    results = reply["cursor"]["firstBatch"]
    assert [(r["ok"], r["idx"], r["n"], r.get("nModified")) for r in results] == [
        (1, 0, 1, None), (1, 1, 1, None), (1, 2, 1, 1), (1, 3, 1, 1), (1, 4, 1, 0), (1, 5, 0, 0), (1, 6, 1, None), (1, 7, 1, None), (1, 8, 1, None), (1, 9, 2, None),
    ]
    assert results[4]["upserted"] == {"_id": 2}
    assert counts(reply) == [0, 4, 2, 2, 1, 3]
    assert list(database["a"].find(sort=[("_id", 1)])) == [{"_id": 1, "n": 6}, {"_id": 2, "k": 1}]
    assert database["b"].count_documents({}) == 0


def test_errors(client, database, names):
    ops = [{"insert": 0, "document": {"_id": n}} for n in (1, 1, 2)] + [{"update": 0, "filter": {}, "updateMods": {"$inc": {"_id": 1}}}]
    reply = bulk(client, names, ops)
    assert counts(reply) == [1, 1, 0, 0, 0, 0]
    failed = reply["cursor"]["firstBatch"][1]
    assert (failed["ok"], failed["idx"], failed["n"], failed["code"], failed["keyValue"]) == (0, 1, 0, 11000, {"_id": 1})
    assert len(reply["cursor"]["firstBatch"]) == 2, "the rest was not run"
    database["a"].delete_many({})
    reply = bulk(client, names, ops, ordered=False)
    assert [(r["idx"], r["ok"]) for r in reply["cursor"]["firstBatch"]] == [(0, 1), (1, 0), (2, 1), (3, 0)]
    assert reply["cursor"]["firstBatch"][3]["code"] == 66 and counts(reply)[:2] == [2, 2]
    database["a"].delete_many({})
    reply = bulk(client, names, ops, ordered=False, errorsOnly=True)
    assert [r["idx"] for r in reply["cursor"]["firstBatch"]] == [1, 3] and counts(reply)[:2] == [2, 2]
    reply = bulk(client, names, [{"insert": 0, "document": {"_id": 5}}], errorsOnly=True)
    assert reply["cursor"]["firstBatch"] == []


def test_a_cursor_of_results(client, names):
    reply = bulk(client, names, [{"insert": 0, "document": {"_id": n}} for n in range(5)], cursor={"batchSize": 2})
    assert len(reply["cursor"]["firstBatch"]) == 2 and reply["cursor"]["id"] and counts(reply)[1] == 5
    more = client.admin.command("getMore", reply["cursor"]["id"], collection="$cmd.bulkWrite")["cursor"]
    assert [r["idx"] for r in more["nextBatch"]] == [2, 3, 4] and more["id"] == 0


def test_variables_and_validation(client, database, names):
    database.create_collection("b", validator={"n": {"$exists": True}})
    bulk(client, names, [{"insert": 0, "document": {"_id": n, "n": n}} for n in range(3)])
    expression = {"$expr": {"$gte": ["$n", "$$least"]}}
    reply = bulk(client, names, [{"delete": 0, "filter": expression, "multi": True}], let={"least": 1})
    assert counts(reply)[5] == 2
    insert = [{"insert": 1, "document": {"_id": 1}}]
    failed = bulk(client, names, insert)["cursor"]["firstBatch"][0]
    assert (failed["code"], failed["errInfo"]["details"]["operatorName"]) == (121, "$exists")
    assert counts(bulk(client, names, insert, bypassDocumentValidation=True))[1] == 1


MISTAKES = {
    "no operation": ({"ops": []}, 16),
    "an operation that is none": ({"ops": [{"replace": 0}]}, 9),
    "a namespace that is not there": ({"ops": [{"insert": 7, "document": {}}]}, 2),
    "no document": ({"ops": [{"insert": 0}]}, 40414),
    "no filter": ({"ops": [{"delete": 0}]}, 40414),
    "no update": ({"ops": [{"update": 0, "filter": {}}]}, 40414),
    "a field of another command": ({"ops": [{"update": 0, "q": {}, "u": {}}]}, 40415),
    "an unknown field": ({"ops": [{"insert": 0, "document": {}, "filter": {}}]}, 40415),
    "a namespace without a collection": ({"nsInfo": [{"ns": "a"}], "ops": [{"insert": 0, "document": {}}]}, 73),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_the_command(client, database, names, mistake):
    options, code = MISTAKES[mistake]
    good = {"insert": 0, "document": {"_id": 1}}
    command = {"bulkWrite": 1, "nsInfo": [{"ns": names[0]}], **options}
    command["ops"] = [good, *command["ops"]] if command["ops"] else []
    with pytest.raises(OperationFailure) as caught:
        client.admin.command(command)
    assert caught.value.code == code, caught.value.details
    assert database["a"].count_documents({}) == 0, "nothing is done"
    with pytest.raises(OperationFailure) as caught:
        database.command({"bulkWrite": 1, "ops": [good], "nsInfo": [{"ns": names[0]}]})
    assert caught.value.code == 13


def test_a_retry_does_nothing_twice(client, database, names):
    lsid = {"id": Binary.from_uuid(uuid.uuid4(), UuidRepresentation.STANDARD)}
    ops = [
        {"insert": 0, "document": {"_id": 1, "n": 0}},
        {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
        {"update": 1, "filter": {"_id": 4}, "updateMods": {"$inc": {"n": 1}}, "upsert": True},
        {"delete": 1, "filter": {"_id": 4}},
    ]
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": name} for name in names], "lsid": lsid, "txnNumber": Int64(1), "$db": "admin"}
    first = raw_command(client, bson.encode(command))
    again = raw_command(client, bson.encode(command))
    assert counts(first) == counts(again) == [0, 1, 1, 1, 1, 1]
    assert again["retriedStmtIds"] == [0, 1, 2, 3]
    assert again["cursor"]["firstBatch"][2]["upserted"] == {"_id": 4}
    assert database["a"].find_one() == {"_id": 1, "n": 1}
    many = [{"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}, "multi": True}]
    refused = raw_command(client, bson.encode(command | {"ops": many, "txnNumber": Int64(2)}))
    assert refused["cursor"]["firstBatch"][0]["code"] == 72


def test_in_transactions(client, database, names):
    database.create_collection("a")
    with client.start_session() as session:
        with session.start_transaction():
            bulk(client, names, [{"insert": 0, "document": {"_id": 1}}, {"insert": 1, "document": {"_id": 1}}], session)
            assert database["a"].count_documents({}) == 0
        assert database["a"].count_documents({}) == database["b"].count_documents({}) == 1
        session.start_transaction()
        reply = bulk(client, names, [{"delete": 0, "filter": {}}, {"insert": 1, "document": {"_id": 1}}], session)
        assert counts(reply) == [1, 0, 0, 0, 0, 1]
        session.abort_transaction()
    assert database["a"].count_documents({}) == 1


def test_a_cursor_goes_on_in_its_transaction(client, database, names):
    database.create_collection("a")
    with client.start_session() as session, session.start_transaction():
        first = bulk(client, names, [{"insert": 0, "document": {"_id": n}} for n in range(3)], session, cursor={"batchSize": 1})["cursor"]
        rest = client.admin.command("getMore", first["id"], collection="$cmd.bulkWrite", session=session)["cursor"]
        assert [result["idx"] for result in first["firstBatch"] + rest["nextBatch"]] == [0, 1, 2]


def test_as_document_sequences(client, database, names):
    """As drivers send it: operations and namespaces beside the body."""
    import socket
    import struct

    def section(name, documents):
        payload = name.encode() + b"\0" + b"".join(bson.encode(document) for document in documents)
        return b"\1" + struct.pack("<i", len(payload) + 4) + payload

    body = b"\0" + bson.encode({"bulkWrite": 1, "$db": "admin"})
    message = struct.pack("<I", 0) + body + section("ops", [{"insert": 1, "document": {"_id": 1}}]) + section("nsInfo", [{"ns": n} for n in names])
    with socket.create_connection(client.address, timeout=10) as connection:
        connection.sendall(struct.pack("<iiii", 16 + len(message), 7, 0, 2013) + message)
        stream = connection.makefile("rb")
        length = struct.unpack("<i", stream.read(4))[0]
        reply = bson.decode(stream.read(length - 4)[12 + 5:])
    assert reply["ok"] == 1 and reply["nInserted"] == 1, reply
    assert database["b"].count_documents({}) == 1


def test_a_driver_sends_it(client, database, names):
    first, second = names
    result = client.bulk_write(
        [
            InsertOne(namespace=first, document={"_id": 1, "n": 1}),
            InsertOne(namespace=second, document={"_id": 2, "n": 2}),
            InsertOne(namespace=second, document={"_id": 3, "n": 3}),
            UpdateOne(namespace=second, filter={}, update={"$set": {"last": True}}, sort={"n": -1}),
            DeleteOne(namespace=first, filter={"_id": 1}),
        ],
        verbose_results=True,
    )
    assert (result.inserted_count, result.modified_count, result.deleted_count) == (3, 1, 1)
    assert result.insert_results[1].inserted_id == 2
    assert database["b"].find_one({"last": True})["_id"] == 3
    with pytest.raises(ClientBulkWriteException) as caught:
        client.bulk_write([InsertOne(namespace=second, document={"_id": 2}), InsertOne(namespace=first, document={"_id": 7})], ordered=False)
    assert [error["code"] for error in caught.value.write_errors] == [11000]
    assert database["a"].find_one() == {"_id": 7}
