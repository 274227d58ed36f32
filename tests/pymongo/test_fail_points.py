"""Failures made on purpose, and how drivers come through them: retryable writes, commits, labels."""

import time

import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure, WriteConcernError

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
        ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"namespace": "a.b"}}, 238),
        ({"configureFailPoint": "another", "mode": "alwaysOn"}, 238),
    ],
)
def test_what_cannot_be_set_is_refused(client, command, code):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command(command)
    assert caught.value.code == code
