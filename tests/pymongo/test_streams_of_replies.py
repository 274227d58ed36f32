"""Requests that allow several replies (exhaustAllowed), by hand on the wire: hello and getMore. And commands whose clients go away."""

import threading
import time

import bson
import pytest
from pymongo import MongoClient

from wire import EXHAUST_ALLOWED, Wire


@pytest.fixture
def wire(server, client):
    connection = Wire(server)
    yield connection
    connection.close()


def test_hellos_are_streamed_until_the_client_closes(wire, client):
    version = wire.run({"hello": 1})["topologyVersion"]
    answered = wire.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 100}, EXHAUST_ALLOWED)
    began = time.monotonic()
    for _ in range(3):
        number, to, more, hello = wire.receive()
        assert (to, more, hello["ok"], hello["topologyVersion"]) == (answered, True, 1, version)
        answered = number
    assert 0.3 <= time.monotonic() - began < 10


def test_one_reply_to_a_client_that_takes_one(wire):
    version = wire.run({"hello": 1})["topologyVersion"]
    for flags, fields in ((0, {"topologyVersion": version, "maxAwaitTimeMS": 50}), (EXHAUST_ALLOWED, {})):
        wire.send({"hello": 1, **fields}, flags)
        assert wire.receive()[2] is False
        assert wire.run({"ping": 1})["ok"] == 1


def test_a_stream_tells_at_once_that_the_server_stops(server, wire, restart):
    version = wire.run({"hello": 1})["topologyVersion"]
    wire.send({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000}, EXHAUST_ALLOWED)
    stopping = threading.Timer(0.3, restart)
    stopping.start()
    began = time.monotonic()
    _, _, more, stopped = wire.receive()
    assert time.monotonic() - began < 20
    assert (more, stopped["ok"], stopped["code"], stopped["codeName"]) == (False, 0, 91, "ShutdownInProgress")
    assert stopped["topologyVersion"]["processId"] == version["processId"]
    assert stopped["topologyVersion"]["counter"] > version["counter"]
    stopping.join()


def test_batches_of_a_cursor_are_streamed(wire, collection):
    collection.insert_many([{"_id": i} for i in range(100)])
    database = collection.database.name
    wire.send({"find": collection.name, "batchSize": 10, "sort": {"_id": 1}}, EXHAUST_ALLOWED, database)
    _, _, more, found = wire.receive()
    assert more is False, "only getMore has more replies"
    ids = [document["_id"] for document in found["cursor"]["firstBatch"]]
    get_more = {"getMore": bson.Int64(found["cursor"]["id"]), "collection": collection.name, "batchSize": 10}
    answered, batches = wire.send(get_more, EXHAUST_ALLOWED, database), 0
    more = True
    while more:
        number, to, more, reply = wire.receive()
        assert to == answered and more == (reply["cursor"]["id"] != 0)
        answered, batches = number, batches + 1
        ids += [document["_id"] for document in reply["cursor"]["nextBatch"]]
    assert ids == list(range(100)) and batches >= 9
    assert wire.run({"ping": 1})["ok"] == 1


def test_a_stream_ends_with_an_error(wire, collection):
    collection.insert_many([{"_id": i} for i in range(10)])
    get_more = {"getMore": bson.Int64(12345), "collection": collection.name}
    wire.send(get_more, EXHAUST_ALLOWED, collection.database.name)
    _, _, more, reply = wire.receive()
    assert (more, reply["code"]) == (False, 43)


def test_a_cursor_is_read_with_the_api_parameters_that_it_was_opened_with(wire, collection):
    collection.insert_many([{"_id": i} for i in range(5)])
    database, api = collection.database.name, {"apiVersion": "1", "apiStrict": True}
    cursor = wire.run({"find": collection.name, "batchSize": 2, **api}, database)["cursor"]
    get_more = {"getMore": bson.Int64(cursor["id"]), "collection": collection.name}
    refused = wire.run(get_more, database)
    assert (refused["code"], refused["codeName"]) == (325, "APIMismatchError")
    assert len(wire.run({**get_more, **api}, database)["cursor"]["nextBatch"]) == 3


def running(client, comment):
    return list(client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": comment}}]))


def wait_until(what, is_so):
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


# Long enough that only its end can be why it is gone.
ENDLESS = [{"$project": {"a": {"$reduce": {"input": {"$range": [0, 3_000_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}}}]


def test_a_read_ends_when_its_client_goes_away(server, client, collection):
    collection.insert_many([{"_id": i} for i in range(1000)])
    wire = Wire(server)
    command = {"aggregate": collection.name, "pipeline": ENDLESS, "cursor": {}, "comment": "left alone"}
    wire.send(command, 0, collection.database.name)
    wait_until("it runs", lambda: running(client, "left alone"))
    wire.close()
    wait_until("it has ended", lambda: not running(client, "left alone"))


def test_an_awaiting_get_more_ends_when_its_client_goes_away(server, client, database):
    ring = database.create_collection("ring", capped=True, size=16384)
    ring.insert_one({"_id": 0})
    wire = Wire(server)
    found = wire.run({"find": "ring", "tailable": True, "awaitData": True}, database.name)
    get_more = {"getMore": bson.Int64(found["cursor"]["id"]), "collection": "ring", "maxTimeMS": 600_000, "comment": "waits"}
    wire.send(get_more, 0, database.name)
    wait_until("it waits", lambda: running(client, "waits"))
    wire.close()
    wait_until("it has ended", lambda: not running(client, "waits"))


def test_a_write_goes_on_when_its_client_goes_away(server, client, collection):
    collection.insert_many([{"_id": i} for i in range(200)])
    wire = Wire(server)
    pipeline = [{"$set": {"a": ENDLESS[0]["$project"]["a"]}}, {"$set": {"a": 1}}]
    pipeline[0]["$set"]["a"]["$reduce"]["input"] = {"$range": [0, 20_000]}
    command = {"update": collection.name, "updates": [{"q": {}, "u": pipeline, "multi": True}], "comment": "goes on"}
    wire.send(command, 0, collection.database.name)
    wait_until("it runs", lambda: running(client, "goes on"))
    wire.close()
    wait_until("it is done", lambda: not running(client, "goes on"))
    assert collection.count_documents({"a": 1}) == 200
