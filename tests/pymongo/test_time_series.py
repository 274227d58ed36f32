"""Time-series collections as the manual's tutorial uses them, expiry, and what a point takes."""

import datetime

import pytest
from bson import ObjectId
from bson.int64 import Int64
from interruption import WAIT_SECONDS_MAX, wait_until
from pymongo.errors import BulkWriteError, OperationFailure

DAY = datetime.datetime(2021, 5, 18)


@pytest.fixture
def weather(database):
    # https://www.mongodb.com/docs/manual/core/timeseries/timeseries-procedures/
    options = {"timeField": "timestamp", "metaField": "metadata", "granularity": "hours"}
    collection = database.create_collection("weather", timeseries=options)
    collection.insert_many([
        {
            "metadata": {"sensorId": 5578, "type": "temperature"},
            "timestamp": DAY + datetime.timedelta(hours=4 * number),
            "temp": temperature,
        }
        for number, temperature in enumerate([12, 11, 11, 12, 16, 15, 13, 12, 11, 12, 17, 12])
    ])
    return collection


def test_the_tutorial(weather):
    found = weather.find_one({"timestamp": DAY})
    assert found["temp"] == 12 and isinstance(found["_id"], ObjectId)
    days = weather.aggregate([
        {"$project": {"date": {"$dateToParts": {"date": "$timestamp"}}, "temp": 1}},
        {"$group": {"_id": {"date": {"year": "$date.year", "month": "$date.month", "day": "$date.day"}},
                    "avgTmp": {"$avg": "$temp"}}},
        {"$sort": {"_id": 1}},
    ])
    assert [round(day["avgTmp"], 2) for day in days] == [12.83, 12.83]
    assert weather.count_documents({}) == weather.estimated_document_count() == 12
    assert sorted(weather.distinct("temp")) == [11, 12, 13, 15, 16, 17]


def test_a_retried_insert_is_done_once(weather):
    with weather.database.client.start_session() as session:
        command = {
            "insert": "weather",
            "documents": [{"timestamp": DAY, "metadata": 1, "n": number} for number in range(3)],
            "txnNumber": Int64(7),
        }
        for _ in range(2):
            assert weather.database.command(command, session=session)["n"] == 3
    assert weather.count_documents({"metadata": 1}) == 3


def test_deletes_and_updates(weather):
    assert weather.delete_many({"temp": {"$gte": 15}}).deleted_count == 3
    assert weather.delete_one({"temp": 11}).deleted_count == 1
    changed = weather.update_many({"metadata.sensorId": 5578}, {"$set": {"metadata.place": "Oslo"}})
    assert changed.modified_count == 8
    assert weather.count_documents({"metadata.place": "Oslo"}) == 8
    with pytest.raises(OperationFailure, match="time-series"):
        weather.update_one({"metadata.sensorId": 5578}, {"$set": {"temp": 0}})
    with pytest.raises(BulkWriteError) as refused:
        weather.insert_many([{"metadata": 1}], ordered=False)
    assert refused.value.details["writeErrors"][0]["code"] == 2


def test_transactions_read_and_do_not_write(weather):
    with weather.database.client.start_session() as session, session.start_transaction():
        assert weather.count_documents({}, session=session) == 12
        with pytest.raises(OperationFailure) as refused:
            weather.insert_one({"timestamp": DAY}, session=session)
        assert refused.value.code == 263
        session.abort_transaction()


def test_others_join_and_look_through(weather):
    database = weather.database
    database.sensors.insert_one({"_id": 5578, "name": "roof"})
    database.command("create", "warm", viewOn="weather", pipeline=[{"$match": {"temp": {"$gte": 15}}}])
    assert database.warm.count_documents({}) == 3
    [sensor] = database.sensors.aggregate([
        {"$lookup": {"from": "weather", "localField": "_id", "foreignField": "metadata.sensorId", "as": "all"}},
    ])
    assert len(sensor["all"]) == 12


def test_a_dump_is_restored(weather):
    database = weather.database
    before = list(weather.find().sort("_id"))
    [listed] = database.list_collections(filter={"type": "timeseries"})
    buckets = list(database["system.buckets.weather"].find())
    weather.drop()
    assert database.list_collection_names() == []
    database.command("create", listed["name"], **listed["options"])
    database["system.buckets.weather"].insert_many(buckets)
    assert list(weather.find().sort("_id")) == before
    with pytest.raises(BulkWriteError):
        database["system.buckets.weather"].insert_many([{"no": "bucket"}])
    with pytest.raises(OperationFailure):
        database["system.buckets.weather"].update_one({}, {"$set": {"control": 1}})


def test_buckets_are_left_out_by_time_and_series(database):
    series = database.create_collection("c", timeseries={"timeField": "t", "metaField": "m"})
    for hour in range(50):
        series.insert_many([
            {"t": DAY + datetime.timedelta(hours=hour, seconds=number), "m": number % 2, "v": number}
            for number in range(20)
        ])
    assert database["system.buckets.c"].count_documents({}) == 100
    wanted = {"t": {"$gte": DAY + datetime.timedelta(hours=48)}, "m": 1}
    stages = series.database.command(
        "explain", {"aggregate": "c", "pipeline": [{"$match": wanted}], "cursor": {}}, verbosity="executionStats",
    )["stages"]
    assert stages[0]["$cursor"]["executionStats"]["totalDocsExamined"] <= 6
    assert len(list(series.find(wanted))) == 20


def test_the_latest_are_read_without_all_others(database):
    series = database.create_collection("c", timeseries={"timeField": "t", "metaField": "m"})
    for hour in range(40):
        series.insert_many([
            {"t": DAY + datetime.timedelta(hours=hour, seconds=number), "m": number % 3, "v": hour * 100 + number}
            for number in range(30)
        ])
    latest = [found["v"] for found in series.find({"m": 1}).sort("t", -1).limit(3)]
    assert latest == [3928, 3925, 3922]
    assert [found["v"] for found in series.find({"v": {"$gt": 50}}).sort("t", 1).limit(2)] == [100, 101]
    stages = database.command("explain", {"find": "c", "sort": {"t": -1}, "limit": 1})["stages"]
    assert "'SORT'" not in str(stages[0]["$cursor"]["queryPlanner"]["winningPlan"])
    assert stages[1]["$_internalBoundedSort"]["limit"] == 1


def test_measurements_expire(database):
    client = database.client
    series = database.create_collection("c", timeseries={"timeField": "t"}, expireAfterSeconds=60)
    clustered = database.create_collection(
        "k", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=60)
    now = datetime.datetime.now(datetime.timezone.utc)
    old = now - datetime.timedelta(hours=5)
    for time in (old, now):
        series.insert_one({"t": time})
        clustered.insert_one({"_id": time})
    client.admin.command("setParameter", 1, ttlMonitorSleepSecs=1)
    wait_until(lambda: (series.count_documents({}), clustered.count_documents({})) == (1, 1), WAIT_SECONDS_MAX)
    client.admin.command("setParameter", 1, ttlMonitorSleepSecs=60)
    assert (series.count_documents({}), clustered.count_documents({})) == (1, 1)
