"""What clients hold for long on a small server: forgotten cursors, open transactions, documents with very many index entries, large inserts."""

import threading
import time
import uuid

import bson
import pytest
from pymongo import ASCENDING, MongoClient
from pymongo.errors import BulkWriteError, OperationFailure, WriteError

from resident_memory import (  # noqa: F401
    Peak,
    assert_within,
    memory_group,
    small_server,
    test_the_server_is_in_a_memory_group_of_the_budget_and_15_percent,
)
from wire import Wire

CURSOR_NOT_FOUND = 43
NO_SUCH_TRANSACTION = 251
EXCEEDED_MEMORY_LIMIT = 146
TRANSACTION_TOO_LARGE = 319


@pytest.fixture
def database(server):
    with MongoClient(server.uri) as client:
        yield client["memory"]


@pytest.fixture(autouse=True)
def stays_in_budget(server):
    """Every test of this file holds the process to its budget."""
    peak = Peak(server)
    yield
    assert_within(peak)


def uses(database):
    return database.client.admin.command("serverStatus")["plimsoll"]["memory"]["uses"]


def test_forgotten_cursors_do_not_starve_others(server, database):
    database.many.drop()
    database.many.insert_many([{"_id": i} for i in range(1000)])
    forgotten = Wire(server)
    own = database.many.find(batch_size=10)
    next(own)
    ids = []
    for _ in range(4000):
        reply = forgotten.run({"find": "many", "batchSize": 2}, "memory")
        if reply["ok"] != 1:
            # All of them are young: there is nothing to close yet.
            assert reply["code"] == EXCEEDED_MEMORY_LIMIT, reply
            time.sleep(1.1)
            continue
        ids.append(reply["cursor"]["id"])
        assert len([next(own) for _ in range(1)]) == 1 if len(ids) % 20 == 0 and len(ids) < 2000 else True
    # Somebody else reads in as many batches as it likes, and goes on with a cursor of its own.
    assert len(list(database.many.find(batch_size=10))) == 1000
    assert len(list(own)) > 0
    # The oldest of the greedy client are gone, the newest are there.
    oldest = forgotten.run({"getMore": ids[0], "collection": "many"}, "memory")
    assert oldest["code"] == CURSOR_NOT_FOUND
    assert forgotten.run({"getMore": ids[-1], "collection": "many", "batchSize": 2}, "memory")["ok"] == 1
    server.log_text("idle cursors were closed")
    database.command({"killCursors": "many", "cursors": ids})
    forgotten.close()


def test_cursors_are_counted_with_the_large_documents_that_they_hold(server, database):
    database.large.drop()
    database.large.insert_many([{"_id": number, "pad": "x" * 200_000} for number in range(20)])
    client, ids = Wire(server), []
    for _ in range(100):
        reply = client.run({"find": "large", "batchSize": 1}, "memory")
        ids += [reply["cursor"]["id"]] if reply["ok"] == 1 else []
    assert len(ids) > 20
    assert uses(database)["cursors"] >= len(ids) * 200_000
    assert database.command("killCursors", "large", cursors=ids)["cursorsKilled"] == ids
    assert uses(database)["cursors"] < 200_000
    client.close()
    database.large.drop()


@pytest.mark.parametrize("operation", ["insert", "find"])
def test_twenty_thousand_open_transactions(server, database, operation):
    database.busy.drop()
    database.busy.insert_one({"_id": "there"})
    wire, codes, sessions = Wire(server), set(), []
    for number in range(20_000):
        sessions.append({"id": bson.Binary(uuid.uuid4().bytes, 4)})
        command = {"insert": "busy", "documents": [{"_id": number}]} if operation == "insert" else {"find": "busy"}
        command |= {"lsid": sessions[-1], "txnNumber": bson.Int64(1), "startTransaction": True, "autocommit": False}
        codes.add(wire.run(command, "memory").get("code", 0))
    assert codes <= {0, EXCEEDED_MEMORY_LIMIT, TRANSACTION_TOO_LARGE}
    # Beside them others read and write, also in transactions: the oldest of those that are forgotten make room.
    assert database.busy.find_one({"_id": "there"}) == {"_id": "there"}
    database.busy.insert_one({"_id": "beside"})
    with database.client.start_session() as session, session.start_transaction():
        database.busy.insert_one({"_id": "in a transaction"}, session=session)
    server.log_text("idle transactions were aborted")
    going_on = {"lsid": sessions[0], "txnNumber": bson.Int64(1), "autocommit": False}
    assert wire.run({"find": "busy"} | going_on, "memory")["code"] == NO_SUCH_TRANSACTION
    for start in range(0, len(sessions), 5000):
        database.client.admin.command({"killSessions": sessions[start : start + 5000]})
    deadline = time.monotonic() + 10
    while uses(database)["writeSets"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert uses(database)["writeSets"] == 0
    wire.close()


def test_sessions_and_names_without_end(server, database):
    """What is remembered of each: clients make as many as they like, and others go on."""
    wire, codes = Wire(server), set()
    for _ in range(30):
        sessions = [{"id": bson.Binary(uuid.uuid4().bytes, 4)} for _ in range(10_000)]
        codes.add(wire.run({"refreshSessions": sessions}, "admin").get("code", 0))
    assert codes <= {0, EXCEEDED_MEMORY_LIMIT}
    for number in range(5_000):
        assert wire.run({"count": f"{number}" * 40}, "memory")["ok"] == 1
    with database.client.start_session() as session:
        assert database.busy.find_one({"_id": "beside"}, session=session)
    wire.close()


def test_a_document_with_very_many_index_entries(server, database):
    database.entries.drop()
    for number in range(60):
        database.entries.create_index([("a", ASCENDING), (f"f{number}", ASCENDING)])
    stop, longest = threading.Event(), [0.0]

    def honest():
        with MongoClient(server.uri) as client:
            number = 0
            while not stop.is_set():
                started = time.monotonic()
                client.memory.honest.insert_one({"_id": number})
                assert client.memory.honest.find_one({"_id": number})
                longest[0] = max(longest[0], time.monotonic() - started)
                number += 1

    database.honest.drop()
    thread = threading.Thread(target=honest)
    thread.start()
    with pytest.raises((WriteError, OperationFailure)) as refused:
        database.entries.insert_one({"_id": 1, "a": list(range(1_000_000))})
    with pytest.raises((WriteError, OperationFailure)) as refused_update:
        database.entries.update_one({"_id": 2}, {"$set": {"a": list(range(1_000_000))}}, upsert=True)
    stop.set()
    thread.join()
    assert refused.value.code == EXCEEDED_MEMORY_LIMIT
    assert refused_update.value.code == EXCEEDED_MEMORY_LIMIT
    # A debug build beside others: what matters is that nobody waits for such a document.
    assert longest[0] < 3
    # One that fits goes in, and out.
    database.entries.insert_one({"_id": 3, "a": list(range(500))})
    assert database.entries.count_documents({"a": 499}) == 1
    assert database.entries.delete_one({"_id": 3}).deleted_count == 1
    database.entries.drop()


@pytest.mark.parametrize("elements, length", [(200_000, 6_000_000), (300_000, 1_900)])
def test_index_entries_that_are_many_times_their_document(server, database, elements, length):
    """A text beside an array in one index is in the key of every element."""
    database.multiplied.drop()
    database.multiplied.create_index([("a", ASCENDING), ("text", ASCENDING)])
    with pytest.raises(WriteError) as refused:
        database.multiplied.insert_one({"_id": 1, "a": list(range(elements)), "text": "x" * length})
    assert refused.value.code == EXCEEDED_MEMORY_LIMIT
    database.multiplied.insert_one({"_id": 2, "a": list(range(200)), "text": "x" * 1_900})
    assert database.multiplied.count_documents({}) == 1
    database.multiplied.drop()


def test_an_insert_of_45_megabytes_is_answered(server, database):
    database.large.drop()
    refusals = []
    for _ in range(3):
        documents = [{"_id": bson.ObjectId(), "pad": bytes(1_000_000)} for _ in range(45)]
        try:
            assert database.command({"insert": "large", "documents": documents[:1]})["n"] == 1
            database.large.insert_many(documents[1:])
        except (BulkWriteError, OperationFailure) as refused:
            codes = {error["code"] for error in (refused.details or {}).get("writeErrors", [])} or {refused.code}
            assert codes == {EXCEEDED_MEMORY_LIMIT}
            refusals.append((refused.details, uses(database)))
    assert database.large.estimated_document_count() > 100, refusals
    database.large.drop()


def test_many_inserts_of_45_megabytes_at_once_are_answered(server, database):
    database.large.drop()
    results, barrier = [None] * 8, threading.Barrier(8)

    def insert(number):
        documents = [{"_id": f"{number}.{i}", "pad": bytes(1_000_000)} for i in range(45)]
        with MongoClient(server.uri, retryWrites=False) as client:
            client.admin.command("ping")
            barrier.wait()
            try:
                results[number] = len(client.memory.large.insert_many(documents, ordered=False).inserted_ids)
            except BulkWriteError as refused:
                results[number] = {error["code"] for error in refused.details["writeErrors"]}
            except OperationFailure as refused:
                results[number] = {refused.code}

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        assert result == 45 or result <= {EXCEEDED_MEMORY_LIMIT, 462}, results
    assert 45 in results
    database.large.drop()
