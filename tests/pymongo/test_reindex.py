"""`reIndex`: all indexes of a collection are built anew, while it is in use."""

import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, DuplicateKeyError, ExecutionTimeout, OperationFailure

from server_process import ServerProcess


def reindex(collection, **fields):
    return collection.database.command("reIndex", collection.name, **fields)


def listed(collection):
    return [dict(index) for index in collection.list_indexes()]


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": number, "a": number % 10, "b": [number, -number], "u": number} for number in range(2000)])
    collection.create_index("a")
    collection.create_index([("b", -1), ("a", 1)], name="both")
    collection.create_index("u", unique=True, sparse=True)
    collection.create_index("a", name="some", partialFilterExpression={"u": {"$gt": 100}})
    return collection


def test_it_tells_the_indexes(things):
    before = listed(things)
    reply = reindex(things, comment="why")
    assert (reply["nIndexesWas"], reply["nIndexes"], reply["ok"]) == (5, 5, 1.0)
    assert [dict(index) for index in reply["indexes"]] == before == listed(things)
    assert before[0] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def test_only_the_index_on_id(collection):
    collection.insert_one({"_id": 1})
    reply = reindex(collection)
    assert (reply["nIndexesWas"], reply["nIndexes"]) == (1, 1)
    assert collection.find_one({"_id": 1}) == {"_id": 1}


def test_everything_is_found_by_the_new_indexes(things):
    reindex(things)
    assert things.find_one({"_id": 77})["a"] == 7
    assert things.count_documents({"a": 3}) == 200
    assert things.count_documents({"b": -5}, hint="both") == 1
    assert things.find({"u": {"$gt": 1990}}, hint="u_1").distinct("_id") == list(range(1991, 2000))
    for document in ({"_id": 5}, {"_id": "new", "u": 5}):
        with pytest.raises(DuplicateKeyError):
            things.insert_one(document)
    things.insert_one({"_id": "new", "a": 3})
    assert things.count_documents({"a": 3}) == 201


def test_a_cursor_goes_on(things):
    cursor = things.find({"a": {"$gte": 0}}, hint="a_1", batch_size=10)
    by_id = things.find({"_id": {"$gte": 0}}, batch_size=10)
    first = [next(cursor)["_id"] for _ in range(10)] + [next(by_id)["_id"] for _ in range(10)]
    reindex(things)
    things.update_many({}, {"$inc": {"a": 100}})
    things.insert_one({"_id": 1_000_000, "a": 1_000_000})
    seen = first[:10] + [document["_id"] for document in cursor]
    assert sorted(seen) == list(range(2000))
    assert first[10:] + [document["_id"] for document in by_id] == list(range(2000))


def test_others_write_and_read_meanwhile(things, server):
    is_over, failures, counted = threading.Event(), [], [0]

    def work(number):
        with MongoClient(server.uri) as client:
            mine = client[things.database.name][things.name]
            step = 0
            while not is_over.is_set():
                step += 1
                id = 10_000 * (number + 1) + step
                try:
                    mine.insert_one({"_id": id, "a": step, "b": [step], "u": id})
                    mine.update_one({"_id": id}, {"$set": {"a": -step}})
                    mine.update_one({"u": step % 2000}, {"$inc": {"a": 1}})
                    if mine.find_one({"_id": id}) is None or mine.count_documents({"u": id}) != 1:
                        failures.append(id)
                    with pytest.raises(DuplicateKeyError):
                        mine.insert_one({"_id": -id, "u": 7})
                    if step % 3 == 0:
                        mine.delete_one({"_id": id})
                    counted[0] += 1
                except Exception as error:  # noqa: BLE001
                    failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            assert reindex(things)["nIndexes"] == 5
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not failures and counted[0] > 0


def test_a_capped_collection(database):
    ring = database.create_collection("ring", capped=True, size=20_000)
    ring.insert_many([{"_id": number, "a": number % 5, "text": "x" * 50} for number in range(1000)])
    ring.create_index("a")
    ids = [document["_id"] for document in ring.find()]
    assert reindex(ring)["nIndexes"] == 2
    assert [document["_id"] for document in ring.find()] == ids
    assert ring.find_one({"_id": ids[-1]})["_id"] == ids[-1]
    ring.insert_many([{"_id": number, "a": number % 5, "text": "x" * 50} for number in range(1000, 1100)])
    assert ring.count_documents({"a": 3}, hint="a_1") == sum(document["a"] == 3 for document in ring.find())


def test_options_stay(things):
    things.database.command("collMod", things.name, index={"name": "some", "hidden": True})
    before = listed(things)
    reindex(things)
    assert listed(things) == before and before[-1]["hidden"] is True


def test_an_open_transaction_is_waited_for(things, client):
    with client.start_session() as session:
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"a": 1000}}, session=session)
        with pytest.raises(ExecutionTimeout):
            reindex(things, maxTimeMS=300)
        assert things.find_one({"_id": 1}, session=session)["a"] == 1000
        session.abort_transaction()
    assert reindex(things)["nIndexes"] == 5


def test_a_transaction_of_before_begins_again(things, client):
    other = things.database["other"]
    other.insert_one({"_id": 1})
    with client.start_session() as session:
        session.start_transaction()
        other.find_one({"_id": 1}, session=session)
        reindex(things)
        with pytest.raises(OperationFailure) as caught:
            things.find_one({"_id": 1}, session=session)
        assert caught.value.code == 246 and caught.value.has_error_label("TransientTransactionError")


def test_time_limit_and_kill(things, client):
    before = listed(things)
    more = [{"_id": number, "a": number, "u": number, "b": list(range(4))} for number in range(10_000, 20_000)]
    things.insert_many(more)
    with pytest.raises(ExecutionTimeout) as caught:
        reindex(things, maxTimeMS=5)
    assert caught.value.code == 50
    assert listed(things) == before
    outcome = []

    def run():
        # One that is over before it is seen is not killed.
        while 11601 not in outcome and len(outcome) < 50:
            try:
                outcome.append(reindex(things)["ok"])
            except OperationFailure as error:
                outcome.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        for operation in client.admin.command("currentOp", True)["inprog"]:
            if "reIndex" in operation.get("command", {}):
                client.admin.command("killOp", op=operation["opid"])
    assert outcome[-1] == 11601 and set(outcome[:-1]) <= {1.0}
    assert listed(things) == before
    assert things.find_one({"_id": 15_000})["a"] == 15_000


def test_a_crash_in_the_midst(things, server, client):
    things.insert_many([{"_id": number, "a": number, "b": list(range(4))} for number in range(10_000, 20_000)])
    before = listed(things)
    count = things.count_documents({})

    def run():
        try:
            reindex(things)
        except (ConnectionFailure, OperationFailure):
            pass

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.3)
    things.insert_one({"_id": "late"})
    client.admin.command("fsync")
    server.kill()
    thread.join()
    server.start()
    assert listed(things) == before
    assert things.count_documents({}) == count + 1
    assert things.find_one({"_id": "late"}) == {"_id": "late"}
    assert reindex(things)["nIndexes"] == 5


def test_a_restart_afterwards(things, restart):
    reindex(things)
    before = listed(things)
    restart()
    assert listed(things) == before and things.count_documents({"a": 3}, hint="a_1") == 200


def test_what_is_not_there(database):
    with pytest.raises(OperationFailure) as caught:
        reindex(database.none)
    assert (caught.value.code, caught.value.details["codeName"]) == (26, "NamespaceNotFound")


def test_unknown_fields_and_wrong_types(things):
    with pytest.raises(OperationFailure, match="other") as caught:
        reindex(things, other=1)
    assert caught.value.code == 40415
    with pytest.raises(OperationFailure) as caught:
        things.database.command("reIndex", 1)
    assert caught.value.code == 73


def test_not_in_a_transaction(things, client):
    with client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            things.database.command("reIndex", things.name, session=session)
        assert caught.value.code == 263


def test_not_on_a_member_of_a_replica_set(tmp_path):
    process = ServerProcess(tmp_path, ["--replica-set", "rs0"])
    process.start()
    try:
        with MongoClient(process.uri) as client:
            client.test.things.insert_one({"_id": 1})
            with pytest.raises(OperationFailure, match="standalone") as caught:
                client.test.command("reIndex", "things")
            assert (caught.value.code, caught.value.details["codeName"]) == (20, "IllegalOperation")
            assert client.test.things.find_one({"_id": 1}) == {"_id": 1}
    finally:
        process.stop()
