"""`fsync` with `lock`: nothing is written until `fsyncUnlock`, and whoever would write waits."""

import shutil
import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

from server_process import ServerProcess


@pytest.fixture
def locked(client):
    client.test.guarded.drop()
    client.test.guarded.insert_one({"_id": 0})
    reply = client.admin.command("fsync", lock=True)
    assert reply["lockCount"] == 1 and "fsyncUnlock" in reply["info"]
    yield client
    while client.admin.command("currentOp").get("fsyncLock"):
        client.admin.command("fsyncUnlock")


def in_background(server, act):
    outcome = []

    def run():
        with MongoClient(server.uri) as other:
            outcome.append(act(other))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def waiting_operations(client):
    return [entry for entry in client.admin.command("currentOp")["inprog"] if entry.get("waitingForLock")]


def wait_for_waiting(client, number):
    deadline = time.monotonic() + 20
    while len(waiting_operations(client)) < number:
        assert time.monotonic() < deadline, client.admin.command("currentOp")
        time.sleep(0.01)


def test_writes_wait_and_reads_do_not(server, locked):
    writes = [
        lambda other: other.test.guarded.insert_one({"_id": 1}),
        lambda other: other.test.guarded.update_one({"_id": 0}, {"$set": {"a": 1}}),
        lambda other: other.test.create_collection("made_meanwhile"),
    ]
    started = [in_background(server, write) for write in writes]
    wait_for_waiting(locked, len(writes))
    assert locked.admin.command("currentOp")["fsyncLock"] is True
    assert locked.test.guarded.find_one() == {"_id": 0}
    assert locked.test.guarded.count_documents({}) == 1
    info = locked.admin.command("lockInfo")["lockInfo"]
    assert len(info) == 1 and len(info[0]["pending"]) == len(writes)
    assert not any(outcome for _, outcome in started)
    assert locked.admin.command("fsyncUnlock")["lockCount"] == 0
    for thread, _ in started:
        thread.join(20)
    assert all(outcome for _, outcome in started)
    assert locked.test.guarded.count_documents({}) == 2
    assert locked.admin.command("lockInfo")["lockInfo"] == []
    locked.test.made_meanwhile.drop()


def test_a_waiting_write_can_be_killed_and_runs_out_of_time(server, locked):
    def insert(other):
        with pytest.raises(OperationFailure) as caught:
            other.test.command("insert", "guarded", documents=[{"_id": 9}])
        return caught.value.code

    thread, outcome = in_background(server, insert)
    wait_for_waiting(locked, 1)
    locked.admin.command("killOp", op=waiting_operations(locked)[0]["opid"])
    thread.join(20)
    assert outcome == [11601]
    locked.admin.command("fsyncUnlock")
    assert locked.test.guarded.count_documents({}) == 1


def test_a_transaction_cannot_commit_meanwhile(server, client):
    client.test.guarded.drop()
    client.test.guarded.insert_one({"_id": 0})
    with MongoClient(server.uri) as other, other.start_session() as session:
        session.start_transaction()
        other.test.guarded.insert_one({"_id": 1}, session=session)
        client.admin.command("fsync", lock=True)
        thread = threading.Thread(target=session.commit_transaction)
        thread.start()
        wait_for_waiting(client, 1)
        assert client.test.guarded.count_documents({}) == 1
        client.admin.command("fsyncUnlock")
        thread.join(20)
    assert client.test.guarded.count_documents({}) == 2


def test_it_is_counted(locked):
    assert locked.admin.command("fsync", lock=True)["lockCount"] == 2
    assert locked.admin.command("fsync")["ok"] == 1.0
    assert locked.admin.command("fsyncUnlock")["lockCount"] == 1
    assert locked.admin.command("currentOp")["fsyncLock"] is True
    assert locked.admin.command("fsyncUnlock")["lockCount"] == 0
    with pytest.raises(OperationFailure) as caught:
        locked.admin.command("fsyncUnlock")
    assert caught.value.code == 20 and caught.value.details["codeName"] == "IllegalOperation"


def test_files_copied_under_the_lock_are_a_database(server, client, tmp_path):
    client.test.copied.drop()
    client.test.copied.insert_many([{"_id": number, "a": number} for number in range(5000)])
    client.test.copied.create_index("a")
    client.admin.command("fsync", lock=True)
    try:
        shutil.copytree(server.directory / "data", tmp_path / "data")
    finally:
        client.admin.command("fsyncUnlock")
    client.test.copied.insert_one({"_id": -1})
    copy = ServerProcess(tmp_path)
    copy.start()
    try:
        with MongoClient(copy.uri) as other:
            assert other.test.copied.count_documents({}) == 5000
            assert other.test.command("validate", "copied", full=True)["valid"]
    finally:
        copy.stop()


def test_the_server_stops_under_the_lock(server, locked):
    thread, outcome = in_background(server, lambda other: other.test.guarded.insert_one({"_id": 5}) if False else None)
    thread.join()
    server.stop()
    server.start()
    with MongoClient(server.uri) as other:
        assert other.test.guarded.find_one() == {"_id": 0}
        other.test.guarded.insert_one({"_id": 1})
