"""A replica set of one, from a driver that finds it by name: initiation, terms over restarts, direct connections, tools' collections."""

import threading
import time

import bson
import pytest
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.errors import NotPrimaryError, OperationFailure, ServerSelectionTimeoutError
from pymongo.monitoring import ServerListener

from server_process import ServerProcess

MEMBER = ["--cache", "64MiB", "--replica-set", "rs0"]


def by_name(server, **options):
    """A client that goes by the name of the set."""
    uri = f"mongodb://127.0.0.1:{server.port}/"
    return MongoClient(uri, replicaSet="rs0", serverSelectionTimeoutMS=10_000, **options)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), MEMBER)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def waiting(tmp_path):
    """A member that is not initiated yet."""
    process = ServerProcess(tmp_path, [*MEMBER, "--replica-set-initiation", "on-command"])
    process.start()
    yield process
    process.stop()


def test_a_plain_start_is_a_set_that_drivers_find(server):
    with by_name(server) as client:
        client.admin.command("ping")
        assert client.topology_description.topology_type_name == "ReplicaSetWithPrimary"
        assert client.primary == ("127.0.0.1", server.port)
        assert client.nodes == {("127.0.0.1", server.port)}
        with client.start_session() as session, session.start_transaction():
            client.shop.orders.insert_one({"_id": 1}, session=session)
        assert client.shop.orders.count_documents({}) == 1
    with MongoClient(server.uri) as direct:
        assert direct.topology_description.topology_type_name == "Single"
        assert direct.shop.orders.find_one() == {"_id": 1}


def test_another_sets_name_finds_nobody(server):
    with MongoClient(f"mongodb://127.0.0.1:{server.port}/", replicaSet="other", serverSelectionTimeoutMS=500) as client:
        with pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")


def test_a_member_that_waits_refuses_what_drivers_know(waiting):
    with MongoClient(waiting.uri) as client:
        hello = client.admin.command("hello")
        assert not hello["isWritablePrimary"] and not hello["secondary"] and hello["isreplicaset"]
        assert "setName" not in hello and "msg" not in hello
        with pytest.raises(NotPrimaryError) as caught:
            client.shop.orders.insert_one({})
        assert caught.value.details["code"] == 10107
        assert caught.value.details["topologyVersion"]["processId"] == hello["topologyVersion"]["processId"]
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("replSetGetStatus")
        assert (caught.value.code, caught.value.details["codeName"]) == (94, "NotYetInitialized")


def test_initiation_wakes_clients_that_wait(waiting):
    address = f"127.0.0.1:{waiting.port}"

    class Described(ServerListener):
        primary = threading.Event()

        def opened(self, event):
            pass

        def closed(self, event):
            pass

        def description_changed(self, event):
            if event.new_description.server_type_name == "RSPrimary":
                self.primary.set()

    listener = Described()
    with MongoClient(f"mongodb://{address}/", replicaSet="rs0", event_listeners=[listener], heartbeatFrequencyMS=60_000) as client:
        with MongoClient(waiting.uri) as direct:
            started = time.monotonic()
            direct.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": address}]})
        assert listener.primary.wait(20)
        assert time.monotonic() - started < 10, "the change of topology was not told at once"
        client.shop.orders.insert_one({"_id": 1})
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": address}]})
        assert (caught.value.code, caught.value.details["codeName"]) == (23, "AlreadyInitialized")


def test_each_start_is_a_newer_primary(tmp_path):
    server = ServerProcess(tmp_path, MEMBER)
    server.start()
    found = []
    with by_name(server) as client:
        for stop in (server.stop, server.kill, None):
            hello = client.admin.command("hello")
            client.shop.orders.insert_one({})
            assert hello["lastWrite"]["opTime"]["t"] == len(found) + 1
            found.append((hello["electionId"], hello["setVersion"]))
            if stop:
                stop()
                server.start()
        assert client.shop.orders.count_documents({}) == 3
        terms = [entry["t"] for entry in client.local["oplog.rs"].find({"op": "i", "ns": "shop.orders"})]
        assert terms == [1, 2, 3]
        assert client.admin.command("replSetGetStatus")["term"] == 3
    assert [version for _, version in found] == [1, 1, 1]
    assert [id for id, _ in found] == sorted({id for id, _ in found})
    server.stop()


def test_the_address_that_is_advertised_is_told(tmp_path):
    server = ServerProcess(tmp_path, [*MEMBER, "--advertise", "db.example:4711"])
    server.start()
    with MongoClient(server.uri) as client:
        hello = client.admin.command("hello")
        assert (hello["me"], hello["hosts"], hello["setVersion"]) == ("db.example:4711", ["db.example:4711"], 1)
    server.stop()
    server.arguments = [*MEMBER, "--advertise", f"localhost:{server.port}"]
    server.start()
    with by_name(server) as client:
        assert client.admin.command("hello")["setVersion"] == 2
        assert client.primary == ("localhost", server.port)
    server.stop()
    server.arguments = ["--cache", "64MiB", "--replica-set", "other"]
    with pytest.raises(RuntimeError, match="'rs0'"):
        server.start()


def test_what_tools_read(server):
    with by_name(server) as client:
        local = client.local
        [stored] = local["system.replset"].find()
        assert (stored["_id"], stored["members"][0]["host"]) == ("rs0", f"127.0.0.1:{server.port}")
        assert client.admin.command("replSetGetConfig")["config"] == stored
        assert local["replset.election"].find_one()["term"] == 1
        names = set(local.list_collection_names())
        assert {"oplog.rs", "system.replset", "replset.election"} <= names
        assert {"admin", "config", "local"} <= set(client.list_database_names())
        status = client.admin.command("replSetGetStatus")
        [member] = status["members"]
        assert (member["stateStr"], member["self"], member["health"]) == ("PRIMARY", True, 1.0)
        assert status["optimes"]["durableOpTime"] == status["optimes"]["appliedOpTime"]
        last = local["oplog.rs"].find().sort("$natural", -1).limit(1)[0]
        assert not list(local["oplog.rs"].find({"ns": {"$regex": "^local[.]"}}))
        assert last["ts"] <= status["optimes"]["appliedOpTime"]["ts"]


def test_every_reply_has_the_times(server):
    with by_name(server) as client:
        replies = [client.admin.command("ping")]
        with pytest.raises(OperationFailure) as caught:
            client.admin.command("noSuchCommand")
        replies.append(caught.value.details)
        for reply in replies:
            assert reply["operationTime"] <= reply["$clusterTime"]["clusterTime"]
            assert set(reply["$clusterTime"]["signature"]) == {"hash", "keyId"}


def test_impossible_write_concerns_are_told_after_the_write(server):
    with by_name(server) as client:
        orders = client.shop.get_collection("impossible", write_concern=WriteConcern(w=1))
        reply = client.shop.command("insert", "impossible", documents=[{"_id": 1}], writeConcern={"w": 3}, check=False)
        assert reply["writeConcernError"]["code"] == 100
        with client.start_session() as session:
            session.start_transaction(write_concern=WriteConcern(w=2))
            orders.insert_one({"_id": 2}, session=session)
            with pytest.raises(OperationFailure) as caught:
                session.commit_transaction()
            assert caught.value.code == 100
        assert [found["_id"] for found in orders.find().sort("_id")] == [1, 2]


def test_impossible_write_concerns_are_told_when_nothing_is_done(server):
    with by_name(server) as client:
        client.shop.impossible.insert_one({})
        for command in ({"drop": "none"}, {"dropIndexes": "none", "index": "*"}, {"create": "impossible"}):
            reply = client.shop.command({**command, "writeConcern": {"w": 3}}, check=False)
            assert reply["writeConcernError"]["code"] == 100, reply
        reply = client.nothing_at_all.command("dropDatabase", writeConcern={"w": 3}, check=False)
        assert reply["ok"] == 1 and reply["writeConcernError"]["code"] == 100, reply
        # What does not take one says so, and nothing else.
        reply = client.shop.command("count", "impossible", writeConcern={"w": 3}, check=False)
        assert reply["code"] == 72 and "writeConcernError" not in reply, reply


def test_staleness_below_what_times_can_tell_is_refused(server):
    for uri in (server.uri, f"mongodb://127.0.0.1:{server.port}/?replicaSet=rs0"):
        with MongoClient(uri) as client:
            preference = {"mode": "nearest", "maxStalenessSeconds": 5}
            with pytest.raises(OperationFailure) as caught:
                client.shop.command({"find": "orders", "$readPreference": preference}, read_preference=ReadPreference.PRIMARY)
            assert caught.value.code == 160


def test_default_concerns_are_obeyed(tmp_path):
    server = ServerProcess(tmp_path, MEMBER)
    server.start()
    with by_name(server) as client:
        assert client.admin.command("getDefaultRWConcern")["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}
        client.admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1}, defaultReadConcern={"level": "majority"})
        server.kill()
        server.start()
        kept = client.admin.command("getDefaultRWConcern")
        assert (kept["defaultWriteConcern"], kept["defaultReadConcern"]) == ({"w": 1, "wtimeout": 0}, {"level": "majority"})
        # A dump of a set takes them along, and can be restored into a set.
        assert client.config.list_collection_names() == ["settings"]
    server.stop()


def test_a_dump_with_its_oplog_can_be_restored(server, tmp_path):
    """What `mongodump --oplog` asks, and `mongorestore --oplogReplay` sends: a copy while others write, and the oplog since it began."""
    target = ServerProcess(tmp_path, MEMBER)
    target.start()
    with by_name(server) as source, by_name(target) as restored:
        stock = source.dump.stock
        stock.create_index("sku", unique=True)
        stock.insert_many({"_id": number, "sku": f"s{number}", "left": 10} for number in range(100))
        began = source.local["oplog.rs"].find().sort("$natural", -1).limit(1)[0]["ts"]
        documents = list(stock.find())
        # While the dump runs:
        with source.start_session() as session, session.start_transaction():
            stock.update_one({"_id": 1}, {"$inc": {"left": -1}}, session=session)
            source.dump.sold.insert_one({"_id": 1, "sku": "s1"}, session=session)
        stock.update_many({"_id": {"$lt": 3}}, {"$push": {"log": {"by": "test"}}})
        stock.delete_one({"_id": 99})
        source.dump.late.create_index([("a", 1), ("b", -1)])
        # This finds the end of the dump, and that nothing was lost of the oplog meanwhile.
        ended = source.local["oplog.rs"].find().sort("$natural", -1).limit(1)[0]["ts"]
        assert source.local["oplog.rs"].find().sort("$natural", 1).limit(1)[0]["ts"] <= began
        entries = list(source.local["oplog.rs"].find({"ts": {"$gte": began, "$lte": ended}}))
        options = {"create": "stock", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}
        uuid = source.dump.command("listCollections", filter={"name": "stock"})["cursor"]["firstBatch"][0]["info"]["uuid"]
        restored.admin.command({"applyOps": [{"op": "c", "ns": "dump.$cmd", "ui": uuid, "o": options}]})
        restored.dump.stock.insert_many(documents)
        replay(restored, entries)
        for name in ("stock", "sold", "late"):
            assert list(restored.dump[name].find().sort("_id")) == list(source.dump[name].find().sort("_id"))
        assert restored.dump.command("listCollections", filter={"name": "stock"})["cursor"]["firstBatch"][0]["info"]["uuid"] == uuid
        assert "a_1_b_-1" in restored.dump.late.index_information()
    target.stop()


def replay(client, entries):
    """Sends entries as `mongorestore` does: a transaction's operations one by one, notes and begun index builds not at all."""
    for entry in entries:
        if entry["op"] == "n" or "startIndexBuild" in entry["o"]:
            continue
        operations = entry["o"]["applyOps"] if "applyOps" in entry["o"] else [entry]
        for operation in operations:
            operation = bson.SON((name, value) for name, value in operation.items() if name not in ("ui", "lsid", "txnNumber"))
            client.admin.command({"applyOps": [operation]})
