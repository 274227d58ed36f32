"""What is running, and ending it: currentOp, $currentOp, killOp, maxTimeMS, top."""

import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

INTERRUPTED = 11601
WAIT_SECONDS_MAX = 30


def wait_for(condition):
    """What `condition` gives as soon as that is something."""
    end = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.002)
    raise AssertionError("it did not come")


@pytest.fixture(scope="module")
def many(server):
    """Enough documents for an index build or a validation to take a while."""
    with MongoClient(server.uri) as client:
        collection = client["operations"]["many"]
        for start in range(0, 100_000, 20_000):
            collection.insert_many([{"_id": i, "a": i * 7919 % 100_003} for i in range(start, start + 20_000)])
        yield collection


def fails_when_killed(client, collection, name, run):
    """Runs a command and kills it once it is seen to run."""
    outcome = []

    def work():
        try:
            outcome.append(run())
        except OperationFailure as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    is_ours = {f"command.{name}": collection.name}
    running = wait_for(lambda: outcome or client.admin.command({"currentOp": 1, **is_ours})["inprog"])
    if not outcome:
        assert running[0]["ns"] == collection.full_name and running[0]["active"]
        client.admin.command("killOp", op=running[0]["opid"])
    thread.join(WAIT_SECONDS_MAX)
    (error,) = outcome
    assert isinstance(error, OperationFailure) and error.code == INTERRUPTED, error


def test_an_index_build_is_killed_and_leaves_nothing(client, many):
    fails_when_killed(client, many, "createIndexes", lambda: many.create_index("a", name="killed"))
    assert list(many.index_information()) == ["_id_"]


def test_what_is_to_end_says_so_and_a_step_of_a_transaction_shows_the_transaction(client, collection):
    collection.insert_many([{"_id": number} for number in range(1000)])
    failures = []

    def wait_in_a_transaction():
        with MongoClient(*client.address, directConnection=True) as other, other.start_session() as session:
            session.start_transaction()
            endless = {"$reduce": {"input": {"$range": [0, 1_000_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}
            try:
                pipeline = [{"$project": {"a": endless}}]
                list(other[collection.database.name][collection.name].aggregate(pipeline, session=session, comment="in a transaction"))
            except OperationFailure as error:
                failures.append(error.code)

    thread = threading.Thread(target=wait_in_a_transaction)
    thread.start()
    ours = {"command.comment": "in a transaction"}
    (running,) = wait_for(lambda: client.admin.command({"currentOp": 1, **ours})["inprog"])
    transaction = running["transaction"]
    assert transaction["parameters"]["autocommit"] is False and transaction["readTimestamp"].time > 0
    assert transaction["timeOpenMicros"] == transaction["timeActiveMicros"] + transaction["timeInactiveMicros"]
    assert "killPending" not in running
    client.admin.command("killOp", op=running["opid"])
    left = client.admin.command({"currentOp": 1, **ours})["inprog"]
    assert not left or left[0]["killPending"] is True
    thread.join(WAIT_SECONDS_MAX)
    assert failures == [INTERRUPTED]


def test_a_validation_is_killed(client, many):
    fails_when_killed(client, many, "validate", lambda: many.database.command("validate", many.name))


def test_time_limits_end_builds_and_validations(many):
    with pytest.raises(ExecutionTimeout):
        many.create_index("a", maxTimeMS=1)
    with pytest.raises(ExecutionTimeout):
        many.database.command("validate", many.name, maxTimeMS=1)
    assert list(many.index_information()) == ["_id_"]


def test_current_op_as_command_and_as_stage(client):
    (itself,) = client.admin.command("currentOp", **{"command.currentOp": 1})["inprog"]
    assert itself["active"] and itself["op"] == "command"
    pipeline = [{"$currentOp": {"allUsers": True}}, {"$match": {"command.aggregate": 1}}]
    (itself,) = client.admin.aggregate(pipeline)
    assert itself["active"] and itself["ns"] == "admin.$cmd" or itself["ns"].startswith("admin.")


def test_a_large_command_is_found_by_its_collection_and_comment(client, collection):
    collection.insert_one({"s": "a" * 100_000})
    pattern = "(?:" + "|".join(f"a{number}" for number in range(5000)) + "|a)*[xy]"

    def search():
        list(collection.find({"s": {"$regex": pattern}}).comment("large"))

    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(pytest.raises(OperationFailure, search)))
    thread.start()
    (running,) = wait_for(lambda: client.admin.command({"currentOp": 1, "command.comment": "large"})["inprog"])
    assert running["ns"] == collection.full_name and "$truncated" in running["command"]
    client.admin.command("killOp", op=running["opid"])
    thread.join(WAIT_SECONDS_MAX)
    assert outcome[0].value.code == INTERRUPTED


@pytest.mark.parametrize(
    "loop",
    [
        {"$map": {"input": "$n", "in": {"$size": {"$map": {"input": "$n", "in": {"$range": [0, 9]}}}}}},
        {"$filter": {"input": "$n", "cond": {"$filter": {"input": "$n", "cond": {"$filter": {"input": "$n", "cond": 1}}}}}},
        {"$reduce": {"input": "$n", "initialValue": 0, "in": {"$sum": {"$map": {"input": "$n", "in": {"$sum": "$n"}}}}}},
    ],
    ids=lambda loop: next(iter(loop)),
)
def test_time_limits_end_loops_inside_of_a_document(collection, loop):
    collection.insert_one({"n": list(range(20_000))})
    with pytest.raises(ExecutionTimeout):
        list(collection.aggregate([{"$project": {"x": loop}}], maxTimeMS=100))
    with pytest.raises(ExecutionTimeout):
        collection.find_one({"$expr": {"$eq": [loop, 1]}}, max_time_ms=100)


def test_idle_connections_are_listed_on_request(client, server):
    with MongoClient(server.uri) as other:
        other.admin.command("ping")
        assert all(entry["active"] for entry in client.admin.command("currentOp")["inprog"])
        everything = client.admin.command({"currentOp": 1, "$all": True})["inprog"]
        assert any(not entry["active"] for entry in everything)
        stage = list(client.admin.aggregate([{"$currentOp": {"idleConnections": True}}]))
        assert any(not entry["active"] for entry in stage)


@pytest.mark.parametrize(
    "database, options, code",
    [("other", {}, 73), ("admin", {"unknown": True}, 9), ("admin", {"allUsers": 1}, 9), ("admin", {"backtrace": True}, 238)],
)
def test_current_op_stage_refuses(client, database, options, code):
    with pytest.raises(OperationFailure) as failure:
        client[database].aggregate([{"$currentOp": options}])
    assert failure.value.code == code


def test_a_database_is_no_collection(client):
    with pytest.raises(OperationFailure) as failure:
        client.admin.aggregate([{"$match": {}}])
    assert failure.value.code == 73


def test_top_counts_reads_and_writes(client, collection):
    def figures():
        entry = client.admin.command("top")["totals"].get(collection.full_name)
        return (entry["readLock"]["count"], entry["writeLock"]["count"]) if entry else (0, 0)

    collection.insert_many([{"_id": i} for i in range(300)])
    reads, writes = figures()
    assert writes == 1, "a batch of documents is one operation"
    collection.find_one({"_id": 1})
    list(collection.find())  # and its getMore
    collection.count_documents({})  # an aggregate
    collection.estimated_document_count()
    collection.distinct("_id")
    assert figures() == (reads + 6, writes)


def test_memory_is_shown_by_use(client):
    memory = client.admin.command("serverStatus")["plimsoll"]["memory"]
    assert memory["limitBytes"] >= memory["reservedBytes"] >= sum(memory["uses"].values()) * 0.9
    assert set(memory["uses"]) == {
        "frames", "files", "history", "log", "rings", "fixed", "threads", "connections", "cursors", "operations", "writeSets", "pageTables",
        "definitions", "sessions", "remembered",
    }


def test_cursors_are_counted_while_they_are_open(client, collection):
    def cursors():
        return client.admin.command("serverStatus")["plimsoll"]["memory"]["uses"]["cursors"]

    collection.insert_many([{"_id": i} for i in range(1000)])
    before = cursors()
    cursor = collection.find(batch_size=10)
    next(cursor)
    assert cursors() > before
    cursor.close()
    assert wait_for(lambda: cursors() == before)
