"""Long scans that are shared with a second thread, and joins that look for several at once, give what they always gave."""

import random
import threading
import time

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

from server_process import ServerProcess

DOCUMENTS = 4_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--cache", "64MiB", "--enable-test-commands"])
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def client(server):
    with MongoClient(server.uri) as client:
        yield client


@pytest.fixture(scope="module")
def collection(client):
    """Documents of many shapes, with gaps between their record ids."""
    collection = client.shared_scans.c
    chance = random.Random(35)
    values = [None, 1, 2.5, bson.Int64(3), "a", "B", "b" * 900, bson.Decimal128("1.5"), [1, 2], {"x": 1}, 0.1, 1e16, -1e16]
    document = lambda number: {
        "_id": number,
        "k": number % 7,
        "v": chance.choice(values),
        "d": chance.random() * 10 ** chance.randrange(-5, 15),
        "t": "x" * chance.randrange(60),
    }
    collection.insert_many([document(number) for number in range(DOCUMENTS)])
    collection.delete_many({"_id": {"$gte": 700, "$lt": 2_100, "$mod": [13, 5]}})
    collection.delete_many({"_id": {"$gte": 2_500, "$lt": 2_900}})
    return collection


def share(client, how):
    client.admin.command({"setParameter": 1, "plimsollScanSharing": how})


def second_threads(client):
    return client.admin.command("serverStatus")["plimsoll"]["admission"]["secondThreads"]


def both(client, run):
    """What it gives on one thread, then on two."""
    share(client, "never")
    before = second_threads(client)
    alone = run()
    assert second_threads(client) == before
    share(client, "always")
    shared = run()
    assert second_threads(client) > before
    share(client, "whenSpare")
    return alone, shared


def pipelines():
    return list(made_pipelines())


def made_pipelines():
    chance = random.Random(7)
    filters = [{}, {"k": {"$gt": 2}}, {"v": {"$gte": "a"}}, {"d": {"$lt": 1}}, {"$expr": {"$lt": ["$k", "$d"]}}, {"t": {"$regex": "^x{30}"}}]
    keys = ["$k", "$v", None, {"$mod": ["$_id", 11]}, "$t", "$_id"]
    fields = [
        {"n": {"$sum": 1}},
        {"sum": {"$sum": "$d"}, "mean": {"$avg": "$d"}},
        {"first": {"$first": "$_id"}, "last": {"$last": "$t"}},
        {"all": {"$push": "$_id"}, "least": {"$min": "$v"}},
        {"deviation": {"$stdDevPop": "$d"}, "set": {"$addToSet": "$k"}},
    ]
    for _ in range(40):
        stages = [{"$match": chance.choice(filters)}]
        if chance.random() < 0.4:
            stages.append({"$addFields": {"d": {"$multiply": ["$d", 3]}}})
            stages.append({"$match": {"d": {"$gt": chance.random()}}})
        stages.append({"$group": {"_id": chance.choice(keys), **chance.choice(fields)}})
        yield stages
    yield [{"$match": {"k": {"$ne": 3}}}, {"$project": {"s": {"$add": ["$k", 1]}}}, {"$count": "n"}]
    yield [{"$facet": {"a": [{"$group": {"_id": "$k", "n": {"$sum": 1}}}], "b": [{"$count": "n"}]}}]


@pytest.mark.parametrize("stages", pipelines(), ids=str)
def test_a_pipeline_gives_the_same(client, collection, stages):
    alone, shared = both(client, lambda: [bson.encode(found) for found in collection.aggregate(stages, hint={"$natural": 1})])
    assert alone == shared


@pytest.mark.parametrize("collation", [None, {"locale": "en", "strength": 2}])
def test_a_count_gives_the_same(client, collection, collation):
    for query in [{"k": 3}, {"v": {"$gte": "a"}}, {"v": "b"}, {"k": 99}]:
        alone, shared = both(client, lambda: collection.count_documents(query, hint={"$natural": 1}, collation=collation))
        assert alone == shared
        counted = {"count": "c", "query": query, "hint": {"$natural": 1}}
        assert len({*both(client, lambda: collection.database.command(counted)["n"])}) == 1


@pytest.mark.parametrize("stages", [[], [{"$sort": {"t": 1}}], [{"$match": {"k": 3}}], [{"$project": {"v": 1}}]])
def test_a_stage_that_counts_all(client, collection, stages):
    pipeline = [*stages, {"$count": "n"}]
    alone, shared = both(client, lambda: collection.aggregate(pipeline).to_list())
    assert alone == shared == [{"n": collection.count_documents(stages[0]["$match"] if "$match" in str(stages) else {})}]


def test_explain_tells_it(client, collection):
    slow = {"$expr": {"$gt": [{"$reduce": {"input": {"$range": [0, 300]}, "initialValue": "$k", "in": {"$add": ["$$value", 1]}}}, 301]}}
    command = {"explain": {"count": "c", "query": slow, "hint": {"$natural": 1}}, "verbosity": "executionStats"}
    explained = lambda: collection.database.command(command)["executionStats"]
    alone, shared = both(client, explained)
    assert alone["totalDocsExamined"] == shared["totalDocsExamined"] == collection.estimated_document_count()
    assert "docsExaminedBySecondThread" not in str(alone) and "docsExaminedBySecondThread" in str(shared)


def test_an_error_is_the_same(client, collection):
    stages = [{"$match": {"$expr": {"$gt": [{"$divide": [1, {"$subtract": ["$_id", 3_333]}]}, 5]}}}, {"$group": {"_id": "$k"}}]

    def run():
        with pytest.raises(OperationFailure) as failed:
            collection.aggregate(stages, hint={"$natural": 1})
        return failed.value.details["code"], failed.value.details["errmsg"]

    alone, shared = both(client, run)
    assert alone == shared


SLOW = {"$expr": {"$lt": [{"$reduce": {"input": {"$range": [0, 3_000]}, "initialValue": 0, "in": {"$add": ["$$value", 1]}}}, 0]}}


def test_it_ends_in_time_and_when_it_is_killed(client, collection):
    share(client, "always")
    try:
        with pytest.raises(ExecutionTimeout):
            collection.count_documents(SLOW, maxTimeMS=100)
        failures = []

        def count():
            try:
                collection.count_documents(SLOW, comment="to be killed")
            except OperationFailure as failure:
                failures.append(failure.code)

        thread = threading.Thread(target=count)
        thread.start()
        for _ in range(200):
            running = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": "to be killed"}}]).to_list()
            if running:
                client.admin.command({"killOp": 1, "op": running[0]["opid"]})
                break
            time.sleep(0.01)
        thread.join(30)
        assert failures == [11601]
    finally:
        share(client, "whenSpare")
    assert client.admin.command("serverStatus")["plimsoll"]["admission"]["longRunning"] <= 1


def test_transactions_and_rings_have_one_thread(client, collection):
    share(client, "always")
    try:
        at_first = second_threads(client)
        outside = collection.count_documents({"k": 3})
        before = second_threads(client)
        assert before > at_first, "outside of a transaction, and of a ring, there is one"
        with client.start_session() as session, session.start_transaction():
            collection.insert_one({"_id": -1, "k": 3}, session=session)
            assert collection.count_documents({"k": 3}, session=session) == outside + 1
            session.abort_transaction()
        ring = collection.database.create_collection("ring", capped=True, size=1 << 20)
        ring.insert_many([{"k": number % 7} for number in range(500)])
        assert ring.count_documents({"k": 3}) == 71
        assert second_threads(client) == before
    finally:
        share(client, "whenSpare")


def test_a_test_setting_needs_the_switch(client):
    with pytest.raises(OperationFailure) as refused:
        share(client, "sometimes")
    assert refused.value.code == 2


def outer_values():
    chance = random.Random(3)
    known = [number for number in range(50)] + [f"id {number}" for number in range(20)]
    others = [None, [1, 2, "id 3"], [], [None], 1.0, bson.Int64(2), bson.Decimal128("3"), 4.5, {"a": 1}, bson.Regex("^id"), "none"]
    for number in range(3_000):
        document = {"_id": number, "big": "x" * chance.randrange(200)}
        if chance.random() > 0.05:
            document["local"] = chance.choice(known if chance.random() < 0.7 else others)
        yield document


def equal(local, identifier):
    if isinstance(local, bson.Decimal128):
        local = int(local.to_decimal())
    return type(local) is not dict and not isinstance(local, bson.Regex) and local == identifier


@pytest.mark.parametrize("foreign_bytes", [10, 60_000])
def test_a_join_by_id_gives_what_belongs_to_each(client, foreign_bytes):
    """Duplicates, arrays, null, missing fields, numbers of several types, and more than is looked for at once."""
    database = client.shared_scans
    database.drop_collection("outer")
    database.drop_collection("foreign")
    identifiers = [number for number in range(40)] + [f"id {number}" for number in range(15)]
    database.foreign.insert_many([{"_id": identifier, "text": "y" * foreign_bytes} for identifier in identifiers])
    documents = list(outer_values())
    database.outer.insert_many(documents)
    lookup = {"$lookup": {"from": "foreign", "localField": "local", "foreignField": "_id", "as": "found"}}

    def expected(document):
        local = document.get("local")
        locals = local if isinstance(local, list) else [local]
        return [identifier for identifier in identifiers if any(equal(value, identifier) for value in locals)]

    wanted = [(document["_id"], expected(document)) for document in documents]
    shown = {"$project": {"found._id": 1}}
    joined = database.outer.aggregate([lookup, shown])
    assert [(found["_id"], [one["_id"] for one in found["found"]]) for found in joined] == wanted
    gathered = [{"$group": {"_id": None, "all": {"$push": {"id": "$_id", "found": "$found._id"}}}}]
    (all_of_them,) = database.outer.aggregate([lookup, *gathered])
    assert [(found["id"], found["found"]) for found in all_of_them["all"]] == wanted
    few = database.outer.aggregate([lookup, {"$match": {"found": {"$ne": []}}}, shown, {"$limit": 3}], batchSize=1)
    assert [found["_id"] for found in few] == [number for number, found in wanted if found][:3]


def test_a_join_with_a_pipeline_and_variables_is_as_it_was(client):
    database = client.shared_scans
    database.drop_collection("outer")
    database.drop_collection("foreign")
    database.foreign.insert_many([{"_id": number, "n": number * 2} for number in range(20)])
    database.outer.insert_many([{"_id": number, "local": number % 25, "least": 10} for number in range(100)])
    lookup = {
        "from": "foreign", "localField": "local", "foreignField": "_id", "as": "found",
        "let": {"least": "$least"}, "pipeline": [{"$match": {"$expr": {"$gte": ["$n", "$$least"]}}}],
    }
    for found in database.outer.aggregate([{"$lookup": lookup}]):
        local = found["local"]
        assert [one["_id"] for one in found["found"]] == ([local] if 5 <= local < 20 else [])
