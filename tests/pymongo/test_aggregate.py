"""aggregate: each stage, expressions, cursors, $out; errors."""

import threading

import pytest
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from interruption import wait_until


@pytest.fixture
def sales(collection):
    rows = [("pen", 2, 10), ("ink", 5, 1), ("pen", 3, 5), ("cup", 8, 2), ("ink", 5, 7)]
    collection.insert_many([{"_id": i, "item": n, "price": p, "count": c} for i, (n, p, c) in enumerate(rows)])
    return collection


def run(collection, *pipeline, **options):
    return list(collection.aggregate(list(pipeline), **options))


@pytest.mark.parametrize(
    "pipeline, expected",
    [
        ([{"$match": {"item": "pen"}}, {"$project": {"price": 1}}], [{"_id": 0, "price": 2}, {"_id": 2, "price": 3}]),
        ([{"$match": {"_id": 0}}, {"$project": {"item": 0, "count": 0}}], [{"_id": 0, "price": 2}]),
        (
            [{"$match": {"_id": 1}}, {"$addFields": {"total": {"$multiply": ["$price", "$count"]}}}],
            [{"_id": 1, "item": "ink", "price": 5, "count": 1, "total": 5}],
        ),
        ([{"$match": {"_id": 1}}, {"$set": {"price": 6}}, {"$unset": ["item", "count"]}], [{"_id": 1, "price": 6}]),
        (
            [{"$group": {"_id": "$item", "n": {"$sum": 1}, "most": {"$max": "$price"}}}, {"$sort": {"_id": 1}}],
            [{"_id": "cup", "n": 1, "most": 8}, {"_id": "ink", "n": 2, "most": 5}, {"_id": "pen", "n": 2, "most": 3}],
        ),
        (
            [{"$group": {"_id": 0, "sum": {"$sum": "$count"}, "mean": {"$avg": "$price"}, "low": {"$min": "$price"}}}],
            [{"_id": 0, "sum": 25, "mean": 4.6, "low": 2}],
        ),
        (
            [
                {"$sort": {"_id": 1}},
                {"$group": {"_id": "$item", "all": {"$push": "$count"}, "first": {"$first": "$_id"}}},
                {"$match": {"_id": "ink"}},
            ],
            [{"_id": "ink", "all": [1, 7], "first": 1}],
        ),
        ([{"$sort": {"price": -1, "_id": 1}}, {"$limit": 2}, {"$project": {"_id": 1}}], [{"_id": 3}, {"_id": 1}]),
        ([{"$sort": {"_id": 1}}, {"$skip": 3}, {"$project": {"_id": 1}}], [{"_id": 3}, {"_id": 4}]),
        ([{"$match": {"price": {"$gt": 2}}}, {"$count": "many"}], [{"many": 4}]),
        ([{"$match": {"price": {"$gt": 99}}}, {"$count": "many"}], []),
        ([{"$match": {"_id": 0}}, {"$replaceRoot": {"newRoot": {"name": "$item"}}}], [{"name": "pen"}]),
        ([{"$match": {"_id": 0}}, {"$replaceWith": {"name": "$item"}}], [{"name": "pen"}]),
        ([{"$sortByCount": "$item"}, {"$match": {"_id": "cup"}}], [{"_id": "cup", "count": 1}]),
        (
            [
                {"$match": {"_id": 0}},
                {"$project": {"_id": 0, "v": {"$cond": [{"$gt": ["$price", 1]}, "more", "less"]}}},
            ],
            [{"v": "more"}],
        ),
        (
            [{"$match": {"_id": 0}}, {"$project": {"_id": 0, "v": {"$concat": [{"$toUpper": "$item"}, "!"]}}}],
            [{"v": "PEN!"}],
        ),
        ([{"$match": {"$expr": {"$gt": ["$count", "$price"]}}}, {"$sort": {"_id": 1}}, {"$project": {"_id": 1}}],
         [{"_id": 0}, {"_id": 2}, {"_id": 4}]),
    ],
)
def test_stages(sales, pipeline, expected):
    assert run(sales, *pipeline) == expected


def test_unwind(collection):
    collection.insert_many([{"_id": 0, "a": [1, 2]}, {"_id": 1, "a": []}, {"_id": 2}, {"_id": 3, "a": 7}])
    sort = {"$sort": {"_id": 1}}
    assert run(collection, sort, {"$unwind": "$a"}) == [{"_id": 0, "a": 1}, {"_id": 0, "a": 2}, {"_id": 3, "a": 7}]
    options = {"path": "$a", "preserveNullAndEmptyArrays": True, "includeArrayIndex": "i"}
    kept = run(collection, sort, {"$unwind": options})
    assert [(row["_id"], row.get("a"), row["i"]) for row in kept] == [
        (0, 1, 0),
        (0, 2, 1),
        (1, None, None),
        (2, None, None),
        (3, 7, None),
    ]


def test_lookup(sales):
    makers = [{"_id": 1, "item": "pen"}, {"_id": 2, "item": "pen"}, {"_id": 3, "item": "cup"}]
    sales.database["makers"].insert_many(makers)
    lookup = {"$lookup": {"from": "makers", "localField": "item", "foreignField": "item", "as": "by"}}
    found = run(sales, {"$sort": {"_id": 1}}, lookup)
    assert [sorted(maker["_id"] for maker in row["by"]) for row in found] == [[1, 2], [], [1, 2], [3], []]


def test_sample(sales):
    assert len(run(sales, {"$sample": {"size": 3}})) == 3
    assert len({row["_id"] for row in run(sales, {"$sample": {"size": 50}})}) == 5


def test_out_replaces_a_collection(sales):
    sales.database["totals"].insert_one({"_id": "old"})
    pipeline = [{"$group": {"_id": "$item", "n": {"$sum": "$count"}}}, {"$out": "totals"}]
    assert run(sales, *pipeline) == []
    assert {row["_id"]: row["n"] for row in sales.database["totals"].find()} == {"pen": 15, "ink": 8, "cup": 2}


def test_out_obeys_the_validator_of_what_it_replaces_unless_told_otherwise(sales):
    database = sales.database
    database.create_collection("checked", validator={"n": {"$gt": 5}})
    database["checked"].insert_one({"_id": "old", "n": 9})
    pipeline = [{"$group": {"_id": "$item", "n": {"$sum": "$count"}}}, {"$out": "checked"}]
    with pytest.raises(OperationFailure) as caught:
        run(sales, *pipeline)
    assert caught.value.code == 121
    assert [row["_id"] for row in database["checked"].find()] == ["old"]
    list(sales.aggregate(pipeline, bypassDocumentValidation=True))
    assert {row["_id"]: row["n"] for row in database["checked"].find()} == {"pen": 15, "ink": 8, "cup": 2}


def test_out_reads_nothing_linearizably(sales):
    pipeline = [{"$match": {}}, {"$out": "copy"}]
    with pytest.raises(OperationFailure) as caught:
        sales.database.command(
            "aggregate", sales.name, pipeline=pipeline, cursor={}, readConcern={"level": "linearizable"}
        )
    assert (caught.value.code, caught.value.details["codeName"]) == (72, "InvalidOptions")
    assert "copy" not in sales.database.list_collection_names()


def test_dates_beyond_what_python_knows(collection):
    dates = [253_402_300_799_999, 253_402_300_800_000, 2**63 - 1, -(2**63)]
    collection.insert_many([{"_id": place, "at": DatetimeMS(date)} for place, date in enumerate(dates)])
    project = {
        "year": {"$year": "$at"},
        "day": {"$dayOfMonth": {"date": "$at", "timezone": "Asia/Tokyo"}},
        "start": {"$toLong": {"$dateTrunc": {"date": "$at", "unit": "hour"}}},
    }
    rows = list(collection.aggregate([{"$match": {"_id": {"$lt": 3}}}, {"$project": project}]))
    assert [(row["year"], row["day"]) for row in rows] == [(9999, 1), (10000, 1), (292278994, 17)]
    assert all(0 <= date - row["start"] < 3_600_000 for row, date in zip(rows, dates))
    [row] = collection.aggregate([{"$match": {"_id": 3}}, {"$project": {"year": {"$year": "$at"}}}])
    assert row["year"] == -292275055


def test_index_statistics(sales):
    sales.create_index("item")
    list(sales.find({"item": "pen"}).hint("item_1"))
    rows = {row["name"]: row for row in run(sales, {"$indexStats": {}})}
    assert set(rows) == {"_id_", "item_1"}
    assert rows["item_1"]["key"] == {"item": 1}
    assert rows["item_1"]["accesses"]["ops"] >= 1


def test_collection_statistics(sales):
    [row] = run(sales, {"$collStats": {"count": {}, "storageStats": {}}})
    assert row["ns"] == sales.full_name
    assert row["count"] == 5
    assert row["storageStats"]["count"] == 5


def test_batches(collection):
    collection.insert_many([{"_id": i} for i in range(500)])
    reply = collection.database.command("aggregate", collection.name, pipeline=[], cursor={"batchSize": 10})
    assert len(reply["cursor"]["firstBatch"]) == 10 and reply["cursor"]["id"] != 0
    rows = collection.aggregate([{"$sort": {"_id": -1}}], batchSize=7)
    assert [row["_id"] for row in rows] == list(range(499, -1, -1))


def test_group_of_many(collection):
    collection.insert_many([{"_id": i, "k": i % 5000} for i in range(20_000)])
    rows = run(collection, {"$group": {"_id": "$k", "n": {"$sum": 1}}}, allowDiskUse=True)
    assert len(rows) == 5000 and all(row["n"] == 4 for row in rows)


def test_absent_collection(database):
    assert run(database["absent"], {"$match": {}}) == []
    assert run(database["absent"], {"$group": {"_id": None, "n": {"$sum": 1}}}) == []


def test_explain_of_a_pipeline(sales):
    reply = sales.database.command(
        "explain", {"aggregate": sales.name, "pipeline": [{"$match": {"item": "pen"}}], "cursor": {}}
    )
    assert reply["ok"] == 1.0


@pytest.mark.parametrize(
    "pipeline, code",
    [
        ([{"$unknown": {}}], 40324),
        ([{"$match": {}, "$limit": 1}], 40323),
        ([{"$match": 5}], 15959),
        ([{"$limit": 0}], 15958),
        ([{"$limit": -1}], None),
        ([{"$skip": -1}], None),
        ([{"$group": {}}], 15955),
        ([{"$group": {"_id": 1, "a": 5}}], 40234),
        ([{"$group": {"_id": 1, "a": {"$unknown": 1}}}], 15952),
        ([{"$project": {}}], 51272),
        ([{"$project": {"a": {"$unknown": 1}}}], 31325),
        ([{"$project": {"a": 1, "b": 0}}], 31254),
        ([{"$unwind": "a"}], 28818),
        ([{"$count": ""}], None),
        ([{"$out": "x"}, {"$match": {}}], 40601),
        ([{"$group": {"_id": {"a": 1}}}], 17390),
        ([{"$addFields": {"a": {"$divide": [1, 0]}}}], 2),
        ([{"$replaceRoot": {"newRoot": "$price"}}], 40228),
        ([{"$sort": {"a": 2}}], 15975),
        ([{"$sort": {}}], 15976),
        ([{"$sample": {"size": -1}}], None),
        ([{"$lookup": {"from": "x"}}], None),
    ],
)
def test_refused(sales, pipeline, code):
    with pytest.raises(OperationFailure) as caught:
        run(sales, *pipeline)
    assert caught.value.details["codeName"]
    if code is not None:
        assert caught.value.code == code, caught.value.details


def test_a_cursor_must_be_asked_for(sales):
    with pytest.raises(OperationFailure) as caught:
        sales.database.command({"aggregate": sales.name, "pipeline": []})
    assert caught.value.code == 9


def test_lookup_without_an_index_reads_the_foreign_collection_once(database):
    """As many documents as would take minutes if each of them scanned the foreign collection."""
    local, foreign = database["local"], database["foreign"]
    local.insert_many([{"_id": i, "key": i % 5000} for i in range(5000)])
    foreign.insert_many([{"_id": i, "key": i % 5000} for i in range(10_000)])
    pipeline = [
        {"$lookup": {"from": "foreign", "localField": "key", "foreignField": "key", "as": "found"}},
        {"$project": {"ids": "$found._id"}},
    ]
    joined = {document["_id"]: document["ids"] for document in local.aggregate(pipeline)}
    assert joined == {i: [i, i + 5000] for i in range(5000)}


def test_lookup_gives_the_same_with_and_without_an_index(database):
    local, foreign = database["local"], database["foreign"]
    values = [None, 1, 1.0, "a", [1, 2], [], [[1]], {"b": 1}, [{"b": 1}, {"b": [1, 3]}], True, {"b": None}, 2]
    local.insert_many([{"_id": i, "v": value} for i, value in enumerate(values)] + [{"_id": "missing"}])
    foreign.insert_many([{"_id": i, "a": value} for i, value in enumerate(values)] + [{"_id": "missing"}])
    for path in ("a", "a.b"):
        stage = {"$lookup": {"from": "foreign", "localField": "v", "foreignField": path, "as": "found"}}
        pipeline = [{"$sort": {"_id": 1}}, stage, {"$project": {"ids": "$found._id"}}]
        expected = {d["_id"]: [str(f) for f in d["ids"]] for d in local.aggregate(pipeline)}
        name = foreign.create_index(path)
        found = {d["_id"]: sorted((str(f) for f in d["ids"])) for d in local.aggregate(pipeline)}
        assert found == {key: sorted(ids) for key, ids in expected.items()}, path
        foreign.drop_index(name)


def test_bucket(collection):
    collection.insert_many([{"_id": i, "a": i} for i in (1, 5, 9, 10, 19, 25, 99)] + [{"_id": "text", "a": "x"}])
    output = {"count": {"$sum": 1}, "values": {"$push": "$a"}}
    stage = {"$bucket": {"groupBy": "$a", "boundaries": [0, 10, 20], "default": "others", "output": output}}
    assert list(collection.aggregate([{"$sort": {"_id": 1}}, stage, {"$sort": {"_id": 1}}])) == [
        {"_id": 0, "count": 3, "values": [1, 5, 9]},
        {"_id": 10, "count": 2, "values": [10, 19]},
        {"_id": "others", "count": 3, "values": [25, 99, "x"]},
    ]
    with pytest.raises(OperationFailure):
        list(collection.aggregate([{"$bucket": {"groupBy": "$a", "boundaries": [0, 10]}}]))


def test_union_with(database):
    database["one"].insert_many([{"_id": i, "of": "one"} for i in range(3)])
    database["two"].insert_many([{"_id": i, "of": "two"} for i in range(3)])
    pipeline = [{"$match": {"_id": {"$gt": 0}}}, {"$project": {"of": 1}}]
    found = list(database["one"].aggregate([{"$unionWith": {"coll": "two", "pipeline": pipeline}}]))
    assert [(d["_id"], d["of"]) for d in found] == [(0, "one"), (1, "one"), (2, "one"), (1, "two"), (2, "two")]
    assert len(list(database["one"].aggregate([{"$unionWith": "two"}]))) == 6
    assert len(list(database["one"].aggregate([{"$unionWith": "missing"}]))) == 3


# The stages in the manual of version 8.2, by whether they are here.
STAGES = {
    True: """$_internalUnpackBucket $addFields $bucket $bucketAuto $changeStream $changeStreamSplitLargeEvent $collStats $count $currentOp $densify $documents $facet $fill
        $geoNear $graphLookup $group $indexStats $limit $listClusterCatalog $listLocalSessions $listSessions $lookup $match $merge $out $planCacheStats $project $querySettings $queryStats $redact $replaceRoot $replaceWith $sample $score $set $setWindowFields $skip $sort
        $sortByCount $unionWith $unset $unwind""",
    False: """$listSampledQueries $listSearchIndexes $rankFusion $scoreFusion $search $searchMeta
        $shardedDataDistribution $vectorSearch""",
}


@pytest.mark.parametrize("stage", STAGES[False].split())
def test_stages_that_are_not_here_are_refused_by_name(client, collection, stage):
    collection.insert_one({"_id": 1})
    of_collection = {"aggregate": collection.name, "pipeline": [{stage: {}}], "cursor": {}}
    within = {**of_collection, "pipeline": [{"$match": {}}, {"$facet": {"a": [{stage: {}}]}}]}
    for database, command in [(collection.database, of_collection), (collection.database, within), (client.admin, {**of_collection, "aggregate": 1})]:
        with pytest.raises(OperationFailure) as caught:
            database.command(command)
        told = caught.value.details
        assert (told["code"], told["codeName"]) == (238, "NotImplemented") and f"The {stage} stage" in told["errmsg"], told
    # Of these some are no stages of an update, and the others are not here: an error of the statement in any case.
    with pytest.raises(OperationFailure) as caught:
        collection.update_one({}, [{stage: {}}])
    assert caught.value.code == 72 and stage in str(caught.value)


@pytest.mark.parametrize("stage", STAGES[True].split())
def test_stages_that_are_here_are_known(collection, stage):
    collection.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as caught:
        # What no stage takes.
        list(collection.aggregate([{stage: {"$nonsense": {"$nonsense": -1}}}]))
    assert caught.value.code not in (238, 40324), caught.value.details


def test_a_stage_that_nobody_knows(collection):
    for stage in ("$nonsense", "$planCacheStat", "$Match"):
        with pytest.raises(OperationFailure) as caught:
            collection.aggregate([{stage: {}}])
        assert caught.value.code == 40324 and f"'{stage}'" in caught.value.details["errmsg"]


def test_documents_of_no_collection(client, collection):
    database = collection.database
    collection.insert_many([{"_id": 1, "zip": 10}, {"_id": 2, "zip": 20}])
    made = {"$documents": [{"zip": 10, "city": "A"}, {"zip": {"$add": [10, 10]}, "city": "B"}]}
    assert [document["city"] for document in database.aggregate([made, {"$sort": {"zip": -1}}])] == ["B", "A"]
    joined = database.aggregate([made, {"$lookup": {"from": collection.name, "localField": "zip", "foreignField": "zip", "as": "found"}}])
    assert [[found["_id"] for found in document["found"]] for document in joined] == [[1], [2]]
    cities = {"$lookup": {"localField": "zip", "foreignField": "zip", "as": "city", "pipeline": [made, {"$project": {"_id": 0, "city": 1}}]}}
    assert [document["city"] for document in collection.aggregate([cities, {"$sort": {"_id": 1}}])] == [[{"city": "A"}], [{"city": "B"}]]
    with pytest.raises(OperationFailure) as caught:
        collection.aggregate([made])
    assert caught.value.code == 73
    assert len(list(client.admin.aggregate([made]))) == 2


def test_what_a_kill_leaves_of_out_is_dropped(server, kill_and_restart):
    target = {"db": "abandoned", "coll": "series", "timeseries": {"timeField": "at"}}
    ends = [[{"$out": "copy"}], [{"$set": {"at": "$$NOW"}}, {"$out": target}]]
    endless = [{"$lookup": {"from": "numbers", "pipeline": [], "as": "all"}}, {"$unwind": "$all"}, {"$unset": "_id"}]
    with MongoClient(server.uri) as client:
        database = client["abandoned"]
        database["numbers"].insert_many([{"n": n} for n in range(2_000)])
        database["tmp.agg_out.mine"].insert_one({})

        def write(end):
            with pytest.raises(PyMongoError):
                list(database["numbers"].aggregate(endless + end))

        def unfinished():
            return [name for name in database.list_collection_names() if "tmp.agg_out." in name and "mine" not in name]

        threads = [threading.Thread(target=write, args=[end]) for end in ends]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(unfinished()) == 3, seconds=20)
        # All that was written before a durable write is durable.
        client.get_database("abandoned", write_concern=WriteConcern(j=True))["numbers"].insert_one({})
        kill_and_restart()
        for thread in threads:
            thread.join()
    with MongoClient(server.uri) as client:
        assert sorted(client["abandoned"].list_collection_names()) == ["numbers", "tmp.agg_out.mine"]
        client.drop_database("abandoned")
