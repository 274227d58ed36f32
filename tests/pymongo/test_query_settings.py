"""Query settings: `setQuerySettings`, `removeQuerySettings`, `$querySettings`, and what comes of them; the manual's pages of these names say how."""

import pytest
from bson import SON
from pymongo.errors import OperationFailure

REJECTED = 412


@pytest.fixture
def orders(client, database):
    collection = database["orders"]
    collection.insert_many([{"_id": number, "size": number % 3, "total": number, "at": number} for number in range(30)])
    collection.create_index("at")
    collection.create_index("total")
    yield collection
    for known in listed(client):
        client.admin.command("removeQuerySettings", known["queryShapeHash"])


def listed(client, **options):
    return list(client.admin.aggregate([{"$querySettings": options}]))


def find(collection, **fields):
    return SON([("find", collection.name), *fields.items(), ("$db", collection.database.name)])


def set_for(collection, query, **settings):
    return collection.database.client.admin.command("setQuerySettings", query, settings=settings)


def hint(collection, *indexes):
    return {"ns": {"db": collection.database.name, "coll": collection.name}, "allowedIndexes": list(indexes)}


def index_of(explained):
    stage = explained["queryPlanner"]["winningPlan"]
    while "inputStage" in stage:
        stage = stage["inputStage"]
    return stage.get("indexName", stage["stage"])


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        result = call()
        list(result) if hasattr(result, "next") else None
    return caught.value.code


def test_an_index_for_a_shape(client, orders):
    query = find(orders, filter={"at": {"$gt": 5}, "total": 7}, sort={"total": 1})
    asked = lambda at=3, total=9: orders.find({"at": {"$gt": at}, "total": total}).sort("total", 1)
    assert index_of(asked().explain()) == "total_1"
    said = set_for(orders, query, indexHints=hint(orders, "at_1"), queryFramework="classic")
    explained = asked().explain()
    assert index_of(explained) == "at_1" and explained["queryShapeHash"] == said["queryShapeHash"]
    expected = {"indexHints": [hint(orders, "at_1")], "queryFramework": "classic"}
    assert explained["queryPlanner"]["querySettings"] == expected == said["settings"]
    assert explained["queryPlanner"]["indexFilterSet"] is False
    # It stands above the hint, and is about this shape alone.
    assert index_of(asked().hint("total_1").explain()) == "at_1"
    assert index_of(orders.find({"total": 9}).explain()) == "total_1"
    assert [document["_id"] for document in asked()] == [9]
    [known] = listed(client, showDebugQueryShape=True)
    assert known["settings"] == expected and known["representativeQuery"] == query
    shape = {"cmdNs": {"db": orders.database.name, "coll": "orders"}, "command": "find"}
    shape |= {"filter": {"at": {"$gt": "?number"}, "total": {"$eq": "?number"}}, "sort": {"total": 1}}
    assert known["debugQueryShape"] == shape
    assert "debugQueryShape" not in listed(client)[0]
    # What is said anew stands beside what was said.
    set_for(orders, known["queryShapeHash"], comment="by hash")
    assert listed(client)[0]["settings"] == expected | {"comment": "by hash"}
    client.admin.command("removeQuerySettings", find(orders, filter={"at": {"$gt": -1}, "total": 0}, sort={"total": 1}))
    assert listed(client) == [] and index_of(asked().explain()) == "total_1"


def test_other_commands(client, orders):
    database = orders.database
    by_at = hint(orders, "at_1")
    set_for(orders, SON([("distinct", "orders"), ("key", "size"), ("query", {"at": 1, "total": 1}), ("$db", database.name)]), indexHints=by_at)
    distinct = SON([("distinct", "orders"), ("key", "size"), ("query", {"at": 5, "total": 5})])
    assert index_of(database.command("explain", distinct)) == "at_1"
    assert orders.distinct("size", {"at": 5, "total": 5}) == [2]
    stages = [{"$match": {"total": 1, "at": {"$gt": 0}}}, {"$group": {"_id": "$size", "sum": {"$sum": "$total"}}}]
    set_for(orders, SON([("aggregate", "orders"), ("pipeline", stages), ("$db", database.name)]), indexHints=by_at)
    asked = [{"$match": {"total": 8, "at": {"$gt": 3}}}, {"$group": {"_id": "$size", "sum": {"$sum": "$total"}}}]
    explained = database.command("aggregate", "orders", pipeline=asked, explain=True)
    cursor = explained["stages"][0]["$cursor"] if "stages" in explained else explained
    assert index_of(cursor) == "at_1" and "querySettings" in cursor["queryPlanner"]
    assert list(orders.aggregate(asked)) == [{"_id": 2, "sum": 8}]
    # A scan, for what a pipeline looks up elsewhere.
    natural = hint(orders, {"$natural": 1})
    set_for(orders, find(orders, filter={"at": 1}), indexHints=[natural])
    assert index_of(orders.find({"at": 4}).explain()) == "COLLSCAN"
    set_for(orders, find(orders, filter={"at": 1}), indexHints=[hint(orders, {"at": 1})])
    assert index_of(orders.find({"at": 4}).explain()) == "at_1"
    assert len(listed(client)) == 3


def test_on_a_view(orders):
    database = orders.database
    database.create_collection("seen", viewOn="orders", pipeline=[{"$match": {"size": {"$lt": 3}}}])
    view = database["seen"]
    set_for(orders, find(view, filter={"total": 1, "at": 1}), indexHints=hint(orders, "at_1"))
    assert list(view.find({"total": 4, "at": 4}))[0]["_id"] == 4
    set_for(orders, find(view, filter={"total": 1, "at": 1}), reject=True)
    assert code_of(lambda: list(view.find({"total": 4, "at": 4}))) == REJECTED


def test_a_rejected_shape(client, orders):
    set_for(orders, find(orders, filter={"size": 1}), reject=True, queryFramework="sbe")
    with pytest.raises(OperationFailure) as caught:
        list(orders.find({"size": 2}))
    assert (caught.value.code, caught.value.details["codeName"]) == (REJECTED, "QueryRejectedBySettings")
    assert len(list(orders.find({"size": 2, "at": {"$gt": 20}}))) == 3
    # It is explained, and nothing else is rejected.
    assert orders.find({"size": 2}).explain()["queryPlanner"]["querySettings"]["reject"] is True
    assert orders.count_documents({"size": 2, "_id": {"$gte": 0}}) == 10
    set_for(orders, find(orders, filter={"size": 1}), reject=False)
    assert len(list(orders.find({"size": 2}))) == 10 and listed(client)[0]["settings"] == {"queryFramework": "sbe"}


def test_settings_survive_a_restart(client, orders, restart):
    set_for(orders, find(orders, filter={"size": 1}), reject=True, comment="kept")
    before = listed(client)
    restart()
    assert listed(client) == before and len(before) == 1
    with pytest.raises(OperationFailure) as caught:
        list(orders.find({"size": 2}))
    assert caught.value.code == REJECTED
    client.admin.command("removeQuerySettings", before[0]["queryShapeHash"])
    restart()
    assert listed(client) == [] and len(list(orders.find({"size": 2}))) == 10


def test_what_is_refused(client, orders):
    query = find(orders, filter={"a": 1})
    admin = client.admin
    assert code_of(lambda: set_for(orders, query)) == 7746604
    assert code_of(lambda: set_for(orders, query, reject=False)) == 7746604
    assert code_of(lambda: set_for(orders, query, queryFramework="fast")) == 2
    assert code_of(lambda: set_for(orders, query, other=1)) == 40415
    assert code_of(lambda: set_for(orders, query, reject=1)) == 14
    assert code_of(lambda: set_for(orders, query, indexHints={"ns": {"db": "x"}, "allowedIndexes": ["a"]})) == 2
    assert code_of(lambda: set_for(orders, query, indexHints={"ns": {"db": "x", "coll": "y"}, "allowedIndexes": []})) == 2
    assert code_of(lambda: set_for(orders, query, indexHints=[hint(orders, "a"), hint(orders, "b")])) == 2
    assert code_of(lambda: set_for(orders, {"find": "orders"}, reject=True)) == 40414
    assert code_of(lambda: set_for(orders, SON([("find", "c"), ("$db", "admin")]), reject=True)) == 2
    assert code_of(lambda: set_for(orders, SON([("count", "c"), ("$db", "test")]), reject=True)) == 7746402
    assert code_of(lambda: set_for(orders, SON([("find", "c"), ("filter", {"$no": 1}), ("$db", "test")]), reject=True)) == 2
    assert code_of(lambda: set_for(orders, "F427", reject=True)) == 2
    assert code_of(lambda: admin.command("setQuerySettings", query)) == 40414
    assert code_of(lambda: admin.command("removeQuerySettings", query)) == 7746701
    assert code_of(lambda: orders.database.command("setQuerySettings", query, settings={"reject": True})) == 13
    assert code_of(lambda: orders.aggregate([{"$querySettings": {}}])) == 73
    assert code_of(lambda: admin.aggregate([{"$querySettings": {"x": 1}}])) == 40415
    assert listed(client) == []


def test_the_catalog_of_the_cluster(client, orders):
    database = orders.database
    database.create_collection("seen", viewOn="orders", pipeline=[])
    found = {document["ns"]: document for document in database.aggregate([{"$listClusterCatalog": {}}])}
    of_orders, of_view = found[f"{database.name}.orders"], found[f"{database.name}.seen"]
    assert (of_orders["db"], of_orders["type"], of_orders["sharded"], "shards" in of_orders) == (database.name, "collection", False, False)
    assert of_orders["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"} and of_orders["info"]["readOnly"] is False
    assert of_view["type"] == "view" and of_view["options"] == {"viewOn": "orders", "pipeline": []}
    everything = [document["ns"] for document in client.admin.aggregate([{"$listClusterCatalog": {"shards": True, "balancingConfiguration": True}}])]
    assert set(found) <= set(everything)
    named = database.aggregate([{"$listClusterCatalog": {"shards": True}}, {"$match": {"db": database.name}}, {"$project": {"shards": 1, "_id": 0}}])
    assert all(document == {"shards": []} for document in named)
    assert code_of(lambda: database.aggregate([{"$listClusterCatalog": {"x": 1}}])) == 40415
    assert code_of(lambda: orders.aggregate([{"$listClusterCatalog": {}}])) == 73
