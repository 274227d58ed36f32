"""What operators and shells ask: parameters, logs, status, running operations, sessions, fsync, shutdown."""

import datetime
import threading
import time

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure


def test_parameters(client):
    everything = client.admin.command("getParameter", "*")
    assert len(everything) > 2
    version = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)
    assert version["featureCompatibilityVersion"]["version"] == "8.0"
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("getParameter", 1, noSuchParameter=1)
    assert caught.value.code == 72 and caught.value.details["codeName"] == "InvalidOptions"


def test_log(client):
    names = client.admin.command("getLog", "*")["names"]
    assert {"global", "startupWarnings"} <= set(names)
    reply = client.admin.command("getLog", "global")
    assert reply["totalLinesWritten"] >= len(reply["log"]) > 0
    assert isinstance(client.admin.command("getLog", "startupWarnings")["log"], list)
    with pytest.raises(OperationFailure):
        client.admin.command("getLog", "no such log")


def test_command_line(client, server):
    reply = client.admin.command("getCmdLineOpts")
    assert any(str(server.port) in word for word in reply["argv"])
    assert reply["parsed"]


def test_host(client):
    reply = client.admin.command("hostInfo")
    assert reply["system"]["numCores"] >= 1 and reply["system"]["memSizeMB"] > 0
    assert reply["os"]["type"] == "Linux"


def test_server_status(client):
    client.test.things.find_one()
    status = client.admin.command("serverStatus")
    assert status["process"] == "plimsoll"
    assert status["uptime"] >= 0 and isinstance(status["localTime"], datetime.datetime)
    assert status["connections"]["current"] >= 1
    assert {"insert", "query", "update", "delete", "getmore", "command"} <= set(status["opcounters"])
    assert status["mem"]["resident"] > 0
    before = status["opcounters"]["insert"]
    client.test.counted.insert_many([{}, {}, {}])
    assert client.admin.command("serverStatus")["opcounters"]["insert"] == before + 3


def test_operations_are_counted_whatever_becomes_of_them(client):
    def counted(operation):
        def counters():
            return {name: number for name, number in client.admin.command("serverStatus")["opcounters"].items() if name != "command"}

        before = counters()
        try:
            operation()
        except OperationFailure:
            pass
        after = counters()
        return {name: after[name] - before[name] for name in before if isinstance(after[name], int) and after[name] != before[name]}

    things = client.test.failing
    things.drop()
    things.insert_one({"_id": 1, "a": "text"})
    assert counted(lambda: things.insert_one({"_id": 1})) == {"insert": 1}
    assert counted(lambda: things.insert_one({"_id": [1]})) == {"insert": 1}
    # What comes after the first error of an ordered command is not tried.
    assert counted(lambda: things.insert_many([{"_id": 1}, {"_id": 2}])) == {"insert": 1}
    assert counted(lambda: things.insert_many([{"_id": 1}, {"_id": 3}], ordered=False)) == {"insert": 2}
    assert counted(lambda: things.update_one({"_id": 1}, {"$inc": {"a": 1}})) == {"update": 1}
    assert counted(lambda: things.delete_one({"$nonsense": 1})) == {"delete": 1}
    assert counted(lambda: things.find_one({"$nonsense": 1})) == {"query": 1}
    commands = client.admin.command("serverStatus")["metrics"]["commands"]
    assert counted(lambda: client.test.command({"getMore": bson.Int64(1), "collection": "failing"})) == {"getmore": 1}
    again = client.admin.command("serverStatus")["metrics"]["commands"]
    for name, change in [("getMore", 1), ("find", 0)]:
        assert again[name]["failed"] - commands[name]["failed"] == again[name]["total"] - commands[name]["total"] == change


def test_list_commands(client):
    commands = client.admin.command("listCommands")["commands"]
    assert {"find", "insert", "update", "delete", "aggregate", "hello"} <= set(commands)
    assert all(description["help"] for description in commands.values())


def test_top(client):
    client.test.topped.insert_one({})
    assert "test.topped" in client.admin.command("top")["totals"]


def test_sessions(client):
    with client.start_session() as session:
        client.test.things.insert_one({"in": "session"}, session=session)
        identifier = session.session_id
        assert client.admin.command("refreshSessions", [identifier])["ok"] == 1.0
    assert client.admin.command("endSessions", [identifier])["ok"] == 1.0
    reply = client.admin.command("startSession")
    assert reply["timeoutMinutes"] == 30
    assert reply["id"]["id"].subtype == 4


def test_a_cursor_belongs_to_its_session(client):
    client.test.many.drop()
    client.test.many.insert_many([{"_id": i} for i in range(300)])
    with client.start_session() as session:
        cursor = client.test.many.find(batch_size=10, session=session)
        assert len(list(cursor)) == 300


def test_current_operations_and_kill(server, client):
    client.test.slow.drop()
    client.test.slow.insert_many([{"_id": i, "s": "x" * 200} for i in range(20_000)])
    failures = []

    def scan():
        with MongoClient(server.uri) as other:
            try:
                for _ in range(100):
                    list(other.test.slow.find({"s": {"$regex": "(x+)+y$"}}).comment("to be killed"))
            except OperationFailure as error:
                failures.append(error)

    thread = threading.Thread(target=scan)
    thread.start()
    deadline = time.monotonic() + 20
    while not failures and time.monotonic() < deadline:
        for operation in client.admin.command("currentOp")["inprog"]:
            if operation.get("command", {}).get("comment") == "to be killed":
                assert operation["ns"] == "test.slow" and operation["op"] == "query"
                client.admin.command("killOp", op=operation["opid"])
        time.sleep(0.01)
    thread.join()
    assert failures and failures[0].code == 11601, failures
    assert failures[0].details["codeName"] == "Interrupted"


def test_fsync(client):
    assert client.admin.command("fsync")["ok"] == 1.0


def test_a_log_that_is_no_file_is_not_rotated(client):
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("logRotate")
    assert caught.value.code == 96 and caught.value.details["codeName"] == "OperationFailed"


@pytest.mark.parametrize("name", ["listDatabases", "getLog", "fsync", "currentOp", "shutdown", "top"])
def test_only_on_admin(client, name):
    with pytest.raises(OperationFailure) as caught:
        client.test.command({name: 1 if name != "getLog" else "global"})
    assert caught.value.code == 13 and caught.value.details["codeName"] == "Unauthorized"
    assert "may only be run against the admin database" in caught.value.details["errmsg"]


def test_shutdown(server, client):
    client.test.before.replace_one({"_id": 1}, {"a": 1}, upsert=True)
    with pytest.raises(AutoReconnect):
        client.admin.command("shutdown")
        client.admin.command("ping")
        raise AssertionError("the server is still there")
    assert server.process.wait(20) == 0
    server.start()
    assert client.test.before.find_one() == {"_id": 1, "a": 1}
