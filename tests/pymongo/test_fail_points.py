"""Failures made on purpose, and how drivers come through them: retryable writes, commits, labels."""

import threading
import time

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, ExecutionTimeout, OperationFailure, WriteConcernError

from server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--cache", "64MiB", "--enable-test-commands"])
    process.start()
    yield process
    process.stop()


@pytest.fixture
def client(server):
    """One that soon looks again whether a server that said it was stopping is there."""
    with MongoClient(server.uri, heartbeatFrequencyMS=500, serverSelectionTimeoutMS=10_000) as client:
        yield client


@pytest.fixture
def fail(client):
    """Sets failCommand, and takes it away after the test."""

    def configure(mode, **data):
        return client.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": data})

    yield configure
    client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def test_it_needs_the_switch(tmp_path):
    process = ServerProcess(tmp_path)
    process.start()
    with MongoClient(process.uri) as plain, pytest.raises(OperationFailure) as caught:
        assert plain.admin.command("getParameter", 1, enableTestCommands=1)["enableTestCommands"] is False
        plain.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
    process.stop()
    assert caught.value.code == 59


def test_a_write_is_tried_again_after_a_lost_connection(client, database, fail):
    assert client.admin.command("getParameter", 1, enableTestCommands=1)["enableTestCommands"] is True
    database.c.insert_one({"_id": 0, "n": 0})
    for name, write in (
        ("insert", lambda: database.c.insert_one({"_id": 1})),
        ("update", lambda: database.c.update_one({"_id": 0}, {"$inc": {"n": 1}})),
        ("findAndModify", lambda: database.c.find_one_and_update({"_id": 0}, {"$inc": {"n": 1}})),
        ("delete", lambda: database.c.delete_one({"_id": 1})),
    ):
        fail({"times": 1}, failCommands=[name], closeConnection=True)
        write()
    assert list(database.c.find()) == [{"_id": 0, "n": 2}]
    fail({"times": 2}, failCommands=["insert"], closeConnection=True)
    with pytest.raises(AutoReconnect):
        database.c.insert_one({"_id": 2})


@pytest.mark.parametrize("code", [91, 189, 10107, 11600])
def test_errors_that_may_be_retried_are_labelled(database, fail, code):
    fail({"times": 1}, failCommands=["insert"], errorCode=code)
    database.c.insert_one({"_id": code})
    fail("alwaysOn", failCommands=["insert"], errorCode=code)
    with pytest.raises((OperationFailure, AutoReconnect)) as caught:
        database.c.insert_one({"_id": code + 1})
    assert caught.value.details["code"] == code and caught.value.has_error_label("RetryableWriteError")
    fail("alwaysOn", failCommands=["insert"], errorCode=code, errorLabels=["Mine"])
    with pytest.raises((OperationFailure, AutoReconnect)) as caught:
        database.c.insert_one({"_id": code + 2})
    assert caught.value.details["errorLabels"] == ["Mine"]


def test_a_commit_is_tried_again(client, database, fail):
    for number, data in enumerate(
        [
            {"closeConnection": True},
            {"errorCode": 91},
            {"writeConcernError": {"code": 91, "errmsg": "stopping"}},
        ]
    ):
        with client.start_session() as session:
            session.start_transaction()
            database.c.insert_one({"_id": number}, session=session)
            fail({"times": 1}, failCommands=["commitTransaction"], **data)
            session.commit_transaction()
        assert database.c.count_documents({}) == number + 1


def test_labels_of_transactions(client, database, fail):
    with client.start_session() as session:
        session.start_transaction()
        database.c.insert_one({"_id": 1}, session=session)
        fail({"times": 1}, failCommands=["insert"], closeConnection=True)
        with pytest.raises(AutoReconnect) as caught:
            database.c.insert_one({"_id": 2}, session=session)
        assert caught.value.has_error_label("TransientTransactionError")
        session.abort_transaction()
        session.start_transaction()
        database.c.insert_one({"_id": 1}, session=session)
        fail({"times": 1}, failCommands=["commitTransaction"], errorCode=251)
        with pytest.raises(OperationFailure) as caught:
            session.commit_transaction()
        assert caught.value.has_error_label("TransientTransactionError")
        assert not caught.value.has_error_label("UnknownTransactionCommitResult")
        fail({"times": 2}, failCommands=["commitTransaction"], closeConnection=True)
        with pytest.raises(AutoReconnect) as caught:
            session.commit_transaction()
        assert caught.value.has_error_label("UnknownTransactionCommitResult")
        session.commit_transaction()
    assert database.c.count_documents({}) == 1


def test_with_transaction_runs_again_after_a_transient_error(client, database, fail):
    runs = []

    def body(session):
        runs.append(1)
        database.c.insert_one({"run": len(runs)}, session=session)

    with client.start_session() as session:
        fail({"times": 2}, failCommands=["insert"], errorCode=112, errorLabels=["TransientTransactionError"])
        session.with_transaction(body)
    assert len(runs) == 3 and [document["run"] for document in database.c.find()] == [3]


def test_other_things_that_can_be_made_to_happen(server, client, database, fail):
    fail({"times": 1}, failCommands=["ping"], blockConnection=True, blockTimeMS=300)
    began = time.monotonic()
    client.admin.command("ping")
    assert time.monotonic() - began >= 0.3
    fail({"times": 1}, failCommands=["insert"], writeConcernError={"code": 64, "errmsg": "late"})
    with pytest.raises(WriteConcernError) as caught:
        database.c.insert_one({"_id": 1})
    assert caught.value.code == 64 and database.c.count_documents({}) == 1
    fail("alwaysOn", failCommands=["ping"], errorCode=6, appName="other")
    client.admin.command("ping")
    with MongoClient(server.uri, appname="other") as other, pytest.raises(OperationFailure):
        other.admin.command("ping")
    fail({"skip": 2}, failCommands=["ping"], errorCode=2)
    client.admin.command("ping")
    client.admin.command("ping")
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("ping")
    assert (caught.value.code, caught.value.details["codeName"]) == (2, "BadValue")


@pytest.mark.parametrize(
    "command, code",
    [
        ({"configureFailPoint": "failCommand"}, 40414),
        ({"configureFailPoint": "failCommand", "mode": "sometimes"}, 2),
        ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"x": 1}}, 40415),
        ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"threadName": "a"}}, 238),
        ({"configureFailPoint": "another", "mode": "alwaysOn"}, 238),
        ({"configureFailPoint": "wallClockIsAhead", "mode": "alwaysOn"}, 40414),
        ({"configureFailPoint": "wallClockIsAhead", "mode": {"times": 1}, "data": {"seconds": 1}}, 2),
        ({"configureFailPoint": "wallClockIsAhead", "mode": "alwaysOn", "data": {"minutes": 1}}, 40415),
    ],
)
def test_what_cannot_be_set_is_refused(client, command, code):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command(command)
    assert caught.value.code == code


@pytest.fixture
def fail_point(client):
    """Sets any fail point, and takes it away after the test."""
    names = set()

    def configure(name, mode, **data):
        names.add(name)
        return client.admin.command({"configureFailPoint": name, "mode": mode, **({"data": data} if data else {})})

    yield configure
    for name in names:
        client.admin.command({"configureFailPoint": name, "mode": "off"})


def test_the_first_hello_of_a_connection_obeys_the_name_of_its_application(server, fail_point):
    fail_point("failCommand", "alwaysOn", failCommands=["hello", "isMaster"], appName="unlucky", closeConnection=True)
    with MongoClient(server.uri, appname="unlucky", serverSelectionTimeoutMS=300) as unlucky:
        with pytest.raises(AutoReconnect):
            unlucky.admin.command("ping")
    with MongoClient(server.uri, appname="lucky", serverSelectionTimeoutMS=5000) as lucky:
        lucky.admin.command("ping")


def test_a_get_more_fails_after_it_has_found_its_cursor(server, database, fail_point):
    database.c.insert_many([{"_id": i} for i in range(10)])
    fail_point("failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=6, closeConnection=False)
    cursor = database.c.find(batch_size=2)
    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert caught.value.code == 6 and not caught.value.has_error_label("ResumableChangeStreamError")
    fail_point("failGetMoreAfterCursorCheckout", {"times": 1}, closeConnection=True)
    with pytest.raises(AutoReconnect):
        list(database.c.find(batch_size=2))


def test_a_change_stream_resumes_after_such_a_failure(database, fail_point):
    with database.c.watch(max_await_time_ms=200) as stream:
        database.c.insert_one({"_id": 1})
        assert next(stream)["documentKey"] == {"_id": 1}
        answer = fail_point("failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=6)
        before = answer["count"]
        database.c.insert_one({"_id": 2})
        assert next(stream)["documentKey"] == {"_id": 2}
        assert fail_point("failGetMoreAfterCursorCheckout", "off")["count"] == before + 1
        fail_point("failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=11601)
        with pytest.raises(OperationFailure) as caught:
            for _ in range(3):
                stream.try_next()
    assert caught.value.code == 11601


def test_a_retryable_write_loses_its_connection_before_or_after_it_is_done(client, database, fail_point):
    database.c.insert_one({"_id": 0, "n": 0})
    for lost_before in ({}, {"failBeforeCommitExceptionCode": 1}):
        for write in (
            lambda: database.c.update_one({"_id": 0}, {"$inc": {"n": 1}}),
            lambda: database.c.find_one_and_update({"_id": 0}, {"$inc": {"n": 1}}),
            lambda: database.c.insert_one({"_id": 1}),
            lambda: database.c.delete_one({"_id": 1}),
        ):
            before = fail_point("onPrimaryTransactionalWrite", {"times": 1}, **lost_before)["count"]
            write()
            assert fail_point("onPrimaryTransactionalWrite", "off")["count"] == before + 1
    assert list(database.c.find()) == [{"_id": 0, "n": 4}]


def test_a_statement_of_several_fails_before_it_is_done(client, database, fail_point):
    database.c.insert_many([{"_id": 0, "n": 0}, {"_id": 1, "n": 0}])
    fail_point("onPrimaryTransactionalWrite", {"skip": 1}, failBeforeCommitExceptionCode=1, closeConnection=False)
    statements = [{"q": {"_id": i}, "u": {"$inc": {"n": 1}}} for i in range(2)]
    with client.start_session() as session:
        command = {"update": "c", "updates": statements, "txnNumber": bson.Int64(1), "lsid": session.session_id}
        reply = database.command(command, check=False)
    assert (reply["n"], reply["writeErrors"][0]["index"], reply["writeErrors"][0]["code"]) == (1, 1, 1)
    # What is no retryable write is not struck.
    database.command({"update": "c", "updates": statements})
    assert [document["n"] for document in database.c.find().sort("_id", 1)] == [2, 1]


def test_time_limits_are_over_at_once_or_never(client, database, fail_point):
    database.c.insert_many([{"_id": i} for i in range(10)])
    cursor = database.c.find(batch_size=2).max_time_ms(60_000)
    next(cursor)
    fail_point("maxTimeAlwaysTimeOut", "alwaysOn")
    assert database.c.count_documents({}) == 10, "without a limit"
    for over in (lambda: database.c.find_one({}, max_time_ms=60_000), lambda: list(cursor)):
        with pytest.raises(ExecutionTimeout) as caught:
            over()
        assert caught.value.code == 50
    fail_point("maxTimeAlwaysTimeOut", "off")
    fail_point("maxTimeNeverTimeOut", "alwaysOn")
    slow = {"$reduce": {"input": {"$range": [0, 20_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}
    assert len(list(database.c.aggregate([{"$set": {"a": slow}}], maxTimeMS=1))) == 10


def test_waiting_for_a_fail_point(client, database, fail_point):
    struck = fail_point("failCommand", {"times": 1}, failCommands=["ping"], errorCode=2)["count"] + 1
    threading.Timer(0.3, lambda: pytest.raises(OperationFailure, client.admin.command, "ping")).start()
    client.admin.command({"waitForFailPoint": "failCommand", "timesEntered": struck, "maxTimeMS": 20_000})
    with pytest.raises(OperationFailure) as caught:
        client.admin.command({"waitForFailPoint": "failCommand", "timesEntered": struck + 1, "maxTimeMS": 100})
    assert caught.value.code == 50
    with pytest.raises(OperationFailure) as caught:
        client.admin.command({"configureFailPoint": "noSuchPoint", "mode": "off"})
    assert caught.value.code == 238


def test_a_command_on_one_collection_fails(database, fail_point):
    fail_point("failCommand", "alwaysOn", failCommands=["count"], namespace=f"{database.name}.a", errorCode=2)
    assert database.command("count", "b")["n"] == 0
    with pytest.raises(OperationFailure):
        database.command("count", "a")
