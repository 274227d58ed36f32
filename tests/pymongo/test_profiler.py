"""`profile`: levels, threshold, sample rate, filter, the records in `system.profile`, and the lines about slow operations."""

import threading
import time

import pytest
from pymongo import WriteConcern
from pymongo.errors import OperationFailure


@pytest.fixture
def profiled(client, request):
    name = "p_" + request.node.name.split("[")[0][:40]
    client.drop_database(name)
    yield client[name]
    client[name].command("profile", 0, slowms=100, sampleRate=1.0, filter="unset")
    client.drop_database(name)


def records(database, **filter):
    return list(database["system.profile"].find({"ns": {"$ne": f"{database.name}.system.profile"}, **filter}))


def test_settings_are_told_as_they_were(profiled):
    first = profiled.command("profile", -1)
    assert (first["was"], first["slowms"], first["sampleRate"]) == (0, 100, 1.0)
    assert profiled.command("profile", 1, slowms=20, sampleRate=0.5)["was"] == 0
    found = profiled.command("profile", -1)
    assert (found["was"], found["slowms"], found["sampleRate"]) == (1, 20, 0.5)
    # The level is the database's own; threshold and rate are the server's.
    other = profiled.client["another"].command("profile", -1)
    assert (other["was"], other["slowms"], other["sampleRate"]) == (0, 20, 0.5)
    for wrong in ({"sampleRate": 1.5}, {"sampleRate": -0.1}, {"filter": "no such thing"}):
        with pytest.raises(OperationFailure) as caught:
            profiled.command("profile", 0, **wrong)
        assert caught.value.code == 2
    with pytest.raises(OperationFailure):
        profiled.command("profile", 3)


def test_each_statement_of_a_write_is_recorded(profiled):
    things = profiled.things
    things.insert_many([{"_id": number, "a": number} for number in range(10)])
    things.create_index("a")
    profiled.command("profile", 2)
    updates = [
        {"q": {"a": 1}, "u": {"$set": {"b": 1}}},
        {"q": {"a": {"$gte": 5}}, "u": {"$set": {"b": 1}}, "multi": True},
        {"q": {"_id": "new"}, "u": {"$set": {"a": 11}}, "upsert": True},
        {"q": {"a": 2}, "u": {"$no": 1}},
    ]
    reply = profiled.command("update", "things", updates=updates, ordered=False)
    assert reply["writeErrors"][0]["index"] == 3
    found = records(profiled, op="update")
    assert [record["command"] for record in found] == updates
    done = [(record["nMatched"], record["nModified"], record["nUpserted"], record["keysExamined"]) for record in found]
    assert done == [(1, 1, 0, 1), (5, 5, 0, 5), (0, 0, 1, 0), (0, 0, 0, 0)]
    assert [record.get("errName") for record in found] == [None, None, None, "FailedToParse"]
    assert all(record["ns"] == f"{profiled.name}.things" for record in found)
    assert found[0]["planSummary"].startswith("IXSCAN")
    profiled.command("delete", "things", deletes=[{"q": {"a": number}, "limit": 1} for number in (1, 77)])
    assert [record["ndeleted"] for record in records(profiled, op="remove")] == [1, 0]
    # What is no list of statements is its command's.
    with pytest.raises(OperationFailure):
        profiled.command("update", "things", updates=[])
    assert records(profiled, op="update")[-1]["errName"] == "InvalidLength"


def test_everything_is_recorded_at_level_two(profiled):
    profiled.command("profile", 2)
    options = profiled.command("listCollections", filter={"name": "system.profile"})["cursor"]["firstBatch"][0]["options"]
    assert options["capped"] is True and options["size"] == 1 << 20
    things = profiled.things
    things.insert_many([{"_id": number, "a": number} for number in range(200)])
    list(things.find({"a": {"$lt": 150}}, batch_size=120))
    things.update_many({"a": {"$lt": 3}}, {"$set": {"b": 1}})
    things.delete_many({"a": {"$gte": 198}})
    list(things.aggregate([{"$match": {"a": 7}}]))
    with pytest.raises(OperationFailure):
        profiled.command("find", "things", filter={"$no": 1})
    namespace = f"{profiled.name}.things"
    insert = records(profiled, op="insert")[0]
    assert insert["ninserted"] == 200 and insert["ns"] == namespace and insert["command"]["insert"] == "things"
    query, failed = records(profiled, op="query")
    assert (query["nreturned"], query["docsExamined"], query["planSummary"]) == (120, 121, "COLLSCAN") or (
        query["nreturned"],
        query["planSummary"],
    ) == (120, "COLLSCAN")
    assert query["command"]["filter"] == {"a": {"$lt": 150}} and query["cursorid"] != 0
    assert failed["errCode"] == 2 and failed["errName"] == "BadValue" and "$no" in failed["errMsg"]
    getmore = records(profiled, op="getmore")[0]
    assert getmore["originatingCommand"]["find"] == "things" and getmore["cursorExhausted"] is True
    assert getmore["nreturned"] == 30 and getmore["cursorid"] == query["cursorid"]
    update = records(profiled, op="update")[0]
    assert (update["nMatched"], update["nModified"], update["docsExamined"]) == (3, 3, 200)
    assert update["command"] == {"q": {"a": {"$lt": 3}}, "u": {"$set": {"b": 1}}, "multi": True, "upsert": False}
    assert records(profiled, op="remove")[0]["ndeleted"] == 2
    assert records(profiled, op="remove")[0]["command"] == {"q": {"a": {"$gte": 198}}, "limit": 0}
    aggregation = records(profiled, **{"command.aggregate": "things"})[0]
    assert aggregation["op"] == "command" and aggregation["docsExamined"] == 198
    for record in records(profiled):
        assert record["millis"] >= 0 and record["ts"] and record["client"].startswith("127.0.0.1")
        assert record["protocol"] == "op_msg" and (record["op"] in ("update", "remove") or record["responseLength"] > 0)
        assert record["numYield"] >= 0 and (record["locks"], record["flowControl"]) == ({}, {})
    # With the profiler off nothing is added.
    profiled.command("profile", 0)
    before = profiled["system.profile"].count_documents({})
    things.find_one()
    assert profiled["system.profile"].count_documents({}) == before


def test_waiting_is_told_apart_from_working(client, profiled):
    things = profiled.get_collection("things", write_concern=WriteConcern(j=True))
    things.insert_one({"_id": 1})
    profiled.command("profile", 2)
    with client.start_session() as session:
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
        writer = threading.Thread(target=things.update_one, args=({"_id": 1}, {"$set": {"b": 1}}))
        writer.start()
        time.sleep(0.3)
        session.commit_transaction()
        writer.join()
    things.insert_one({"_id": 2})
    [waited] = [one for one in records(profiled, op="update") if one["command"]["u"] == {"$set": {"b": 1}}]
    locks = waited["plimsoll"]["waitedMicros"]["locks"] / 1000
    assert 250 < locks <= waited["millis"] + 1
    assert waited["workingMillis"] <= waited["millis"] - locks + 1
    insert = records(profiled, op="insert")[0]
    assert 0 < insert["plimsoll"]["waitedMicros"]["log"] <= 1000 * (insert["millis"] + 1)


def test_level_one_records_slow_operations(profiled):
    profiled.things.insert_one({"_id": 1})
    profiled.command("profile", 1, slowms=10_000)
    profiled.things.find_one()
    assert records(profiled) == []
    profiled.command("profile", 1, slowms=-1)
    profiled.things.find_one({"_id": 1})
    found = records(profiled, op="query")
    assert len(found) == 1 and found[0]["planSummary"] == "IDHACK"
    profiled.command("profile", 1, slowms=-1, sampleRate=0.0)
    before = len(records(profiled))
    profiled.things.find_one()
    assert len(records(profiled)) == before


def test_a_filter_takes_the_place_of_the_threshold(profiled):
    profiled.things.insert_one({"_id": 1})
    reply = profiled.command("profile", 1, slowms=10_000, filter={"op": "query", "nreturned": {"$gte": 1}})
    assert "filter" not in reply
    profiled.things.find_one({"_id": 1})
    profiled.things.find_one({"_id": 2})
    profiled.things.insert_one({"_id": 3})
    found = records(profiled)
    assert [record["op"] for record in found] == ["query"] and found[0]["nreturned"] == 1
    shown = profiled.command("profile", -1)
    assert shown["filter"] == {"op": "query", "nreturned": {"$gte": 1}} and "note" in shown
    profiled.command("profile", 1, filter="unset")
    assert "filter" not in profiled.command("profile", -1)
    with pytest.raises(OperationFailure):
        profiled.command("profile", 1, filter={"$nonsense": 1})


def test_the_records_can_only_be_read(profiled):
    profiled.command("profile", 2)
    profiled.things.find_one()
    with pytest.raises(OperationFailure) as caught:
        profiled["system.profile"].insert_one({})
    assert caught.value.code == 73
    with pytest.raises(OperationFailure) as caught:
        profiled["system.profile"].drop()
    assert caught.value.code == 20
    profiled.command("profile", 0)
    profiled["system.profile"].drop()


def test_slow_operations_are_logged(server, client, profiled):
    profiled.command("profile", 0, slowms=-1)
    profiled.things.find_one({"a": "a value to be looked for"})
    deadline = time.monotonic() + 10
    lines = []
    while not lines and time.monotonic() < deadline:
        log = client.admin.command("getLog", "global")["log"]
        lines = [line for line in log if "slow operation" in line and f"{profiled.name}.things" in line]
    assert lines and "duration_millis" in lines[-1] and "docs_examined" in lines[-1]
    assert "working_millis" in lines[-1] and "waited_micros_locks" in lines[-1]


def test_change_streams_do_not_tell_of_records(client, profiled):
    profiled.things.insert_one({"_id": 0})
    profiled.command("profile", 2)
    with profiled.watch() as stream:
        profiled.things.insert_one({"_id": 1})
        assert stream.next()["ns"]["coll"] == "things"
        assert stream.try_next() is None
