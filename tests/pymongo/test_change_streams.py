"""Change streams on a single server; what they tell is MongoDB's manual's."""

import threading
import time

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from change_events import take
from server_process import ServerProcess


def test_the_kinds_of_changes(collection, database):
    collection.insert_one({"_id": 0})
    with collection.watch(max_await_time_ms=100) as stream:
        collection.insert_one({"_id": 1, "a": 1, "b": {"c": 1, "d": [1, 2]}})
        collection.update_one({"_id": 1}, {"$set": {"a": 2, "b.c": 5}, "$unset": {"b.d": 1}})
        collection.replace_one({"_id": 1}, {"x": 1})
        collection.delete_one({"_id": 1})
        inserted, updated, replaced, deleted = take(stream, 4)
    namespace = {"db": database.name, "coll": collection.name}
    assert [event["operationType"] for event in (inserted, updated, replaced, deleted)] == ["insert", "update", "replace", "delete"]
    assert all(event["ns"] == namespace and event["documentKey"] == {"_id": 1} for event in (inserted, updated, replaced, deleted))
    assert inserted["fullDocument"] == {"_id": 1, "a": 1, "b": {"c": 1, "d": [1, 2]}}
    assert updated["updateDescription"] == {"updatedFields": {"a": 2, "b.c": 5}, "removedFields": ["b.d"], "truncatedArrays": []}
    assert "fullDocument" not in updated and "fullDocument" not in deleted
    assert replaced["fullDocument"] == {"_id": 1, "x": 1}
    tokens = [event["_id"]["_data"] for event in (inserted, updated, replaced, deleted)]
    assert tokens == sorted(tokens) and all(isinstance(token, str) for token in tokens)
    assert isinstance(inserted["clusterTime"], Timestamp) and "wallTime" in inserted


def test_other_collections_are_not_told(collection, database):
    with collection.watch(max_await_time_ms=100) as stream:
        database["other"].insert_one({})
        collection.insert_one({"_id": 1})
        assert take(stream, 1)[0]["documentKey"] == {"_id": 1}
        assert stream.try_next() is None


def test_a_waiting_stream_is_woken(collection):
    with collection.watch(max_await_time_ms=20_000) as stream:
        threading.Timer(0.3, lambda: collection.insert_one({"_id": 7})).start()
        begun = time.monotonic()
        assert next(stream)["documentKey"] == {"_id": 7}
        assert time.monotonic() - begun < 15


def test_databases_and_clusters(client, database):
    with database.watch(max_await_time_ms=100) as of_database, client.watch(max_await_time_ms=100) as of_cluster:
        database["a"].insert_one({"_id": 1})
        client[database.name + "_2"]["b"].insert_one({"_id": 2})
        assert take(of_database, 1)[0]["ns"]["coll"] == "a" and of_database.try_next() is None
        assert [event["ns"]["coll"] for event in take(of_cluster, 2)] == ["a", "b"]
    client.drop_database(database.name + "_2")


@pytest.mark.parametrize("way", ["resume_after", "start_after"])
def test_resuming_after_a_token(collection, way):
    with collection.watch(max_await_time_ms=100) as stream:
        collection.insert_many([{"_id": i} for i in range(5)])
        token = take(stream, 2)[1]["_id"]
    with collection.watch(max_await_time_ms=100, **{way: token}) as stream:
        assert [event["documentKey"]["_id"] for event in take(stream, 3)] == [2, 3, 4]


def test_starting_at_a_time(collection):
    with collection.watch(max_await_time_ms=100) as stream:
        collection.insert_many([{"_id": i} for i in range(4)])
        time_of_second = take(stream, 2)[1]["clusterTime"]
    with collection.watch(max_await_time_ms=100, start_at_operation_time=time_of_second) as stream:
        assert [event["documentKey"]["_id"] for event in take(stream, 3)] == [1, 2, 3]


def test_resuming_across_a_restart(collection, restart):
    with collection.watch(max_await_time_ms=100) as stream:
        collection.insert_one({"_id": 1})
        take(stream, 1)
        token = stream.resume_token
    collection.insert_one({"_id": 2})
    restart()
    collection.insert_one({"_id": 3})
    with collection.watch(max_await_time_ms=100, resume_after=token) as stream:
        assert [event["documentKey"]["_id"] for event in take(stream, 2)] == [2, 3]


def test_a_batch_without_events_has_a_token(collection):
    with collection.watch(max_await_time_ms=50) as stream:
        assert stream.try_next() is None
        token = stream.resume_token
    assert token and "_data" in token
    collection.insert_one({"_id": 1})
    with collection.watch(max_await_time_ms=100, resume_after=token) as stream:
        assert take(stream, 1)[0]["documentKey"] == {"_id": 1}


def test_full_document_lookup(collection):
    collection.insert_one({"_id": 1, "a": 1, "b": 1})
    with collection.watch(full_document="updateLookup", max_await_time_ms=100) as stream:
        collection.update_one({"_id": 1}, {"$set": {"a": 2}})
        assert take(stream, 1)[0]["fullDocument"] == {"_id": 1, "a": 2, "b": 1}
        collection.update_one({"_id": 1}, {"$set": {"a": 3}})
        collection.delete_one({"_id": 1})
        assert take(stream, 2)[0]["fullDocument"] is None, "it was gone"


def test_pre_and_post_images(database):
    things = database.create_collection("images", changeStreamPreAndPostImages={"enabled": True})
    assert things.options()["changeStreamPreAndPostImages"] == {"enabled": True}
    things.insert_one({"_id": 1, "a": 1, "n": {"x": 1}})
    with things.watch(full_document="required", full_document_before_change="required", max_await_time_ms=100) as stream:
        things.update_one({"_id": 1}, {"$set": {"n.x": 2}})
        things.replace_one({"_id": 1}, {"z": 1})
        things.delete_one({"_id": 1})
        updated, replaced, deleted = take(stream, 3)
    assert updated["fullDocumentBeforeChange"] == {"_id": 1, "a": 1, "n": {"x": 1}}
    assert updated["fullDocument"] == {"_id": 1, "a": 1, "n": {"x": 2}}
    assert replaced["fullDocumentBeforeChange"] == updated["fullDocument"]
    assert deleted["fullDocumentBeforeChange"] == {"_id": 1, "z": 1}


def test_images_that_are_not_there(collection, database):
    collection.insert_one({"_id": 1})
    with collection.watch(full_document="whenAvailable", full_document_before_change="whenAvailable", max_await_time_ms=100) as stream:
        collection.update_one({"_id": 1}, {"$set": {"a": 1}})
        event = take(stream, 1)[0]
        assert event["fullDocument"] is None and event["fullDocumentBeforeChange"] is None
    with collection.watch(full_document_before_change="required", max_await_time_ms=100) as stream:
        collection.update_one({"_id": 1}, {"$set": {"a": 2}})
        with pytest.raises(OperationFailure) as caught:
            take(stream, 1)
        assert caught.value.code == 47
    database.command("collMod", collection.name, changeStreamPreAndPostImages={"enabled": True})
    with collection.watch(full_document_before_change="required", max_await_time_ms=100) as stream:
        collection.update_one({"_id": 1}, {"$set": {"a": 3}})
        assert take(stream, 1)[0]["fullDocumentBeforeChange"] == {"_id": 1, "a": 2}


def test_dropping_what_is_watched(collection):
    collection.insert_one({})
    with collection.watch(max_await_time_ms=100) as stream:
        collection.drop()
        dropped, invalid = take(stream, 2)
        assert dropped["operationType"] == "drop" and invalid["operationType"] == "invalidate"
        assert not stream.alive
    with pytest.raises(OperationFailure) as caught:
        collection.watch(resume_after=invalid["_id"])
    assert caught.value.code == 260
    with collection.watch(start_after=invalid["_id"], max_await_time_ms=100) as stream:
        collection.insert_one({"_id": "again"})
        assert take(stream, 1)[0]["documentKey"] == {"_id": "again"}


def test_renaming_what_is_watched(collection, database):
    collection.insert_one({})
    with collection.watch(max_await_time_ms=100) as stream:
        collection.rename("renamed")
        renamed, invalid = take(stream, 2)
    assert renamed["operationType"] == "rename" and invalid["operationType"] == "invalidate"
    assert renamed["to"] == {"db": database.name, "coll": "renamed"}


def test_dropping_a_database(client):
    other = client["t_dropped_database"]
    other["a"].insert_one({})
    with other.watch(max_await_time_ms=100) as stream:
        client.drop_database("t_dropped_database")
        kinds = [event["operationType"] for event in take(stream, 3)]
    assert kinds == ["drop", "dropDatabase", "invalidate"]


def test_expanded_events(database):
    with database.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        database.create_collection("new")
        database["new"].create_index("a")
        database["new"].drop_index("a_1")
        database.command("collMod", "new", validator={"a": {"$gt": 0}})
        created, indexed, dropped, modified = take(stream, 4)
    assert [event["operationType"] for event in (created, indexed, dropped, modified)] == ["create", "createIndexes", "dropIndexes", "modify"]
    assert created["collectionUUID"] == modified["collectionUUID"] and created["nsType"] == "collection"
    assert indexed["operationDescription"]["indexes"][0]["name"] == "a_1"
    assert modified["operationDescription"] == {"validator": {"a": {"$gt": 0}}}
    assert modified["stateBeforeChange"] == {"collectionOptions": {"uuid": modified["collectionUUID"]}}
    with database.watch(max_await_time_ms=100) as stream:
        database.create_collection("quiet")
        assert stream.try_next() is None


def test_a_view_is_created(database):
    database["things"].insert_one({"_id": 1})
    pipeline = [{"$match": {"a": 1}}]
    with database.watch(show_expanded_events=True, max_await_time_ms=100) as stream, database.watch(max_await_time_ms=100) as plain:
        database.create_collection("seen", viewOn="things", pipeline=pipeline)
        database.command("collMod", "seen", viewOn="things", pipeline=[])
        database["things"].insert_one({"_id": 2})
        created, inserted = take(stream, 2)
        assert take(plain, 1)[0]["operationType"] == "insert"
    assert (created["operationType"], created["ns"], created["nsType"]) == ("create", {"db": database.name, "coll": "seen"}, "view")
    assert created["operationDescription"] == {"viewOn": "things", "pipeline": pipeline} and "collectionUUID" not in created
    assert inserted["operationType"] == "insert"
    # A stream goes on behind it.
    with database.watch(show_expanded_events=True, resume_after=created["_id"], max_await_time_ms=100) as stream:
        assert take(stream, 1)[0]["_id"] == inserted["_id"]


def test_what_a_modified_index_was_before(database):
    things = database["things"]
    things.create_index("at", expireAfterSeconds=60)
    with things.watch(show_expanded_events=True, max_await_time_ms=100) as stream:
        database.command("collMod", "things", index={"name": "at_1", "expireAfterSeconds": 600, "hidden": True})
        (modified,) = take(stream, 1)
    assert modified["operationDescription"] == {"index": {"name": "at_1", "hidden": True, "expireAfterSeconds": 600}}
    assert modified["stateBeforeChange"]["indexOptions"] == {"expireAfterSeconds": 60, "hidden": False}


def test_a_pipeline_behind_it(collection):
    pipeline = [{"$match": {"operationType": "insert", "fullDocument.a": {"$gt": 1}}}, {"$project": {"fullDocument.a": 1}}]
    with collection.watch(pipeline, max_await_time_ms=100) as stream:
        collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
        assert take(stream, 1)[0]["fullDocument"] == {"a": 2}
    with pytest.raises(OperationFailure) as caught:
        collection.watch([{"$group": {"_id": 1}}])
    assert caught.value.code == 20
    with collection.watch([{"$project": {"_id": 0}}], max_await_time_ms=100) as stream:
        collection.insert_one({"_id": 3})
        with pytest.raises(PyMongoError):
            take(stream, 1)


def test_many_streams_with_the_same_filter(collection):
    """Streams that share a filter, streams with another one, and one that expands what it matches."""
    pipelines = [
        [{"$match": {"operationType": "delete"}}],
        [{"$match": {"operationType": "delete"}}, {"$project": {"documentKey": 1}}],
        [{"$match": {"fullDocument.a": {"$gte": 3}}}],
        [{"$match": {"$expr": {"$eq": ["$fullDocument.a", 3]}}}],
    ]
    streams = [collection.watch(pipeline, max_await_time_ms=500) for pipeline in pipelines for _ in range(3)]
    updated = collection.watch(pipelines[2], full_document="updateLookup", max_await_time_ms=500)
    collection.insert_many([{"_id": i, "a": i} for i in range(5)])
    collection.update_one({"_id": 0}, {"$set": {"a": 9}})
    collection.delete_many({"_id": {"$lt": 2}})
    collection.insert_one({"_id": "last", "a": 3})
    expected = [[0, 1], [0, 1], [3, 4, "last"], [3, "last"]]
    for number, stream in enumerate(streams):
        wanted = expected[number // 3]
        assert [event["documentKey"]["_id"] for event in take(stream, len(wanted))] == wanted
        token = stream.resume_token
        stream.close()
        with collection.watch(pipelines[number // 3], resume_after=token, max_await_time_ms=100) as resumed:
            assert resumed.try_next() is None
    # What was updated is gone by the time it is looked up.
    assert [event["documentKey"]["_id"] for event in take(updated, 3)] == [3, 4, "last"]
    updated.close()
    with pytest.raises(OperationFailure):
        collection.watch([{"$match": {"a": {"$nonsense": 1}}}])


def test_large_events_can_be_split(collection):
    collection.database.command("create", collection.name, changeStreamPreAndPostImages={"enabled": True})
    collection.insert_one({"_id": 1, "b": b"x" * (9 << 20)})
    pipeline = [{"$changeStreamSplitLargeEvent": {}}]
    with collection.watch(pipeline, full_document="required", full_document_before_change="required", max_await_time_ms=100) as stream:
        collection.update_one({"_id": 1}, {"$set": {"a": 1}})
        first, second = take(stream, 2)
    assert first["splitEvent"] == {"fragment": 1, "of": 2} and second["splitEvent"] == {"fragment": 2, "of": 2}
    both = {**first, **second}
    assert len(both["fullDocument"]["b"]) == len(both["fullDocumentBeforeChange"]["b"]) == 9 << 20
    with collection.watch(pipeline, full_document="required", full_document_before_change="required", resume_after=first["_id"], max_await_time_ms=100) as stream:
        assert take(stream, 1)[0]["splitEvent"] == {"fragment": 2, "of": 2}
    with collection.watch(full_document="required", full_document_before_change="required", max_await_time_ms=100) as stream:
        collection.update_one({"_id": 1}, {"$set": {"a": 2}})
        with pytest.raises(OperationFailure) as caught:
            take(stream, 1)
        assert caught.value.code == 10334


@pytest.mark.parametrize(
    "options, code",
    [
        ({"resumeAfter": {"_data": "nonsense"}}, 260),
        ({"resumeAfter": {}}, 40647),
        ({"startAtOperationTime": 5}, 14),
        ({"fullDocument": "sometimes"}, 2),
        ({"unknown": 1}, 40415),
        ({"allChangesForCluster": True}, 72),
    ],
)
def test_refused(collection, options, code):
    with pytest.raises(OperationFailure) as caught:
        collection.database.command({"aggregate": collection.name, "pipeline": [{"$changeStream": options}], "cursor": {}})
    assert caught.value.code == code


@pytest.mark.parametrize("stage, code", [({"$nonsense": {}}, 40324), ({"$group": {"_id": None}}, 20), ({"$out": "x"}, 20)])
def test_stages_that_a_stream_cannot_have(collection, stage, code):
    with pytest.raises(OperationFailure) as caught:
        collection.watch([stage])
    assert caught.value.code == code


@pytest.mark.parametrize("level", ["local", "available", "snapshot", "linearizable"])
def test_a_stream_tells_what_a_majority_has(collection, level):
    command = {"aggregate": collection.name, "pipeline": [{"$changeStream": {}}], "cursor": {}}
    with pytest.raises(OperationFailure) as caught:
        collection.database.command({**command, "readConcern": {"level": level}})
    assert caught.value.code == 72
    reply = collection.database.command({**command, "readConcern": {"level": "majority"}})
    collection.database.command({"killCursors": collection.name, "cursors": [reply["cursor"]["id"]]})


def test_it_has_to_be_first(collection):
    with pytest.raises(OperationFailure):
        list(collection.aggregate([{"$match": {}}, {"$changeStream": {}}]))


def test_a_resume_point_that_is_gone(tmp_path):
    server = ServerProcess(tmp_path, ("--cache", "64MiB", "--oplog-size", "1MiB"))
    server.start()
    try:
        with MongoClient(server.uri) as client:
            things = client["t"]["things"]
            with things.watch(max_await_time_ms=100) as stream:
                things.insert_one({"_id": "first"})
                event = take(stream, 1)[0]
            for i in range(20):
                things.replace_one({"_id": 1}, {"b": bytes([i]) * (10 << 20)}, upsert=True)
                client.admin.command("fsync")
            for options in ({"resume_after": event["_id"]}, {"start_at_operation_time": event["clusterTime"]}):
                with pytest.raises(OperationFailure) as caught:
                    things.watch(**options)
                assert caught.value.code == 286 and caught.value.has_error_label("NonResumableChangeStreamError")
    finally:
        server.stop()


def test_many_streams_see_everything(collection):
    streams = [collection.watch(max_await_time_ms=1000) for _ in range(20)]
    collection.insert_many([{"_id": i} for i in range(100)])
    for stream in streams:
        assert [event["documentKey"]["_id"] for event in take(stream, 100)] == list(range(100))
        stream.close()
