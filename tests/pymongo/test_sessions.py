"""Logical sessions: who begins and ends them, what ends with them, and the times in replies."""

import pytest
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure


def session_count(client):
    return client.admin.command("serverStatus")["logicalSessionRecordCache"]["activeSessionsCount"]


def test_replies_carry_the_cluster_time(client, database):
    database.c.insert_one({})
    reply = client.admin.command("ping")
    assert isinstance(reply["operationTime"], Timestamp)
    assert reply["$clusterTime"]["clusterTime"] == reply["operationTime"]
    with client.start_session() as session:
        database.c.insert_one({}, session=session)
        first = session.operation_time
        database.c.insert_one({}, session=session)
        assert session.operation_time > first
        assert session.cluster_time["clusterTime"] >= session.operation_time
    with pytest.raises(OperationFailure) as caught:
        client.admin.command("noSuchCommand")
    assert "$clusterTime" in caught.value.details


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("options", ["", "?directConnection=true"])
def test_every_way_of_connecting_sees_sessions(server, host, options):
    from pymongo import MongoClient

    with MongoClient(f"mongodb://{host}:{server.port}/{options}", serverSelectionTimeoutMS=5000) as client:
        with client.start_session() as session:
            assert client.admin.command("ping", session=session)["ok"] == 1
        assert client.address == (host, server.port)


def test_a_cursor_ends_with_its_session(client, database):
    database.c.insert_many([{"_id": number} for number in range(10)])
    session = client.start_session()
    cursor = database.c.find({}, session=session, batch_size=2)
    next(cursor)
    client.admin.command("endSessions", [session.session_id])
    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert caught.value.code == 43


@pytest.mark.parametrize(
    "command",
    [
        lambda lsid: {"killSessions": [lsid]},
        lambda lsid: {"killAllSessions": []},
        lambda lsid: {"killAllSessionsByPattern": [{"lsid": lsid}]},
        lambda lsid: {"killAllSessionsByPattern": [{}]},
    ],
)
def test_killed_sessions_lose_their_cursors(client, database, command):
    database.c.insert_many([{"_id": number} for number in range(10)])
    session = client.start_session()
    cursor = database.c.find({}, session=session, batch_size=2)
    next(cursor)
    client.admin.command(command(session.session_id))
    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert caught.value.code == 43


def test_sessions_of_nobody_are_not_killed(client, database):
    database.c.insert_many([{"_id": number} for number in range(10)])
    session = client.start_session()
    cursor = database.c.find({}, session=session, batch_size=2)
    next(cursor)
    client.admin.command({"killAllSessions": [{"user": "nobody", "db": "admin"}]})
    client.admin.command({"killAllSessionsByPattern": [{"uid": b"x" * 32}]})
    assert len(list(cursor)) == 9


def test_a_running_command_ends_with_its_session(client, database):
    import threading

    database.c.insert_many([{"_id": number} for number in range(2_000)])
    session = client.start_session()
    slow = {"$expr": {"$gt": [{"$size": {"$filter": {"input": {"$range": [0, 20_000]}, "cond": {"$lt": ["$$this", 0]}}}}, 0]}}
    errors = []

    def run():
        try:
            list(database.c.find(slow, session=session))
        except OperationFailure as error:
            errors.append(error.code)

    thread = threading.Thread(target=run)
    thread.start()
    while not any(
        operation.get("command", {}).get("find") == "c"
        for operation in client.admin.command("currentOp")["inprog"]
    ):
        pass
    client.admin.command("killSessions", [session.session_id])
    thread.join()
    assert errors == [11601]


def test_malformed_sessions_are_refused(client, database):
    for command, code in [
        ({"killSessions": [{"id": 5}]}, 14),
        ({"killAllSessionsByPattern": [{"x": 1}]}, 40415),
    ]:
        with pytest.raises(OperationFailure) as caught:
            client.admin.command(command)
        assert caught.value.code == code


def test_sessions_are_listed(client):
    with client.start_session() as session:
        client.admin.command("ping", session=session)
        listed = list(client.admin.aggregate([{"$listLocalSessions": {}}]))
        stored = list(client["config"]["system.sessions"].aggregate([{"$listSessions": {"allUsers": True}}]))
        for documents in (listed, stored):
            own = [document for document in documents if document["_id"]["id"] == session.session_id["id"]]
            assert len(own) == 1 and len(own[0]["_id"]["uid"]) == 32 and own[0]["lastUse"]
    assert list(client.admin.aggregate([{"$listLocalSessions": {"users": [{"user": "a", "db": "b"}]}}])) == []
    for stage, code in [({"$listLocalSessions": {"foo": 1}}, 40415), ({"$listLocalSessions": {"allUsers": 1}}, 14), ({"$listSessions": {}}, 73)]:
        with pytest.raises(OperationFailure) as caught:
            client.admin.aggregate([stage])
        assert caught.value.code == code, stage
