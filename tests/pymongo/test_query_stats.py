"""`$queryStats`: statistics of queries by their shapes; the manual's page of that name says which fields, and its examples are here."""

import base64
import hashlib
import hmac

import pytest
from bson import Binary, Decimal128
from pymongo.errors import OperationFailure


@pytest.fixture
def products(client, database):
    """All queries are recorded, and nothing is known of earlier ones."""
    products = database["products"]
    products.insert_many([{"item": "card", "qty": 15}, {"item": "envelope", "qty": 20}, {"item": "stamps", "qty": 30}])
    for rate in (0, -1):
        client.admin.command("setParameter", 1, internalQueryStatsRateLimit=rate)
    yield products
    for rate in (0, 100):
        client.admin.command("setParameter", 1, internalQueryStatsRateLimit=rate)


def entries(client, collection, **options):
    namespace = {"db": collection.database.name, "coll": collection.name}
    found = list(client.admin.aggregate([{"$queryStats": options}]))
    return [entry for entry in found if entry["key"]["queryShape"]["cmdNs"] == namespace]


def test_the_manuals_example(client, products):
    list(products.find({"item": "card"}))
    list(products.find({"item": "stamps"}))
    list(products.aggregate([{"$match": {"qty": {"$gt": 20}}}]))
    assert products.distinct("item", {"qty": 15}) == ["card"]
    found = {entry["key"]["queryShape"]["command"]: entry for entry in entries(client, products)}
    assert set(found) == {"find", "aggregate", "distinct"}
    namespace = {"db": products.database.name, "coll": "products"}
    key = found["find"]["key"]
    assert key["queryShape"] == {"cmdNs": namespace, "command": "find", "filter": {"item": {"$eq": "?string"}}}
    assert key["collectionType"] == "collection" and "PyMongo" in key["client"]["driver"]["name"]
    metrics = found["find"]["metrics"]
    assert metrics["execCount"] == 2 and metrics["docsReturned"] == {"sum": 2, "max": 1, "min": 1, "sumOfSquares": Decimal128("2")}
    assert metrics["docsExamined"]["sum"] == 6 and metrics["keysExamined"]["sum"] == 0 and metrics["hasSortStage"] is False
    total = metrics["totalExecMicros"]
    assert 0 < total["min"] <= total["max"] <= total["sum"] and total == metrics["firstResponseExecMicros"]
    assert metrics["firstSeenTimestamp"] <= metrics["latestSeenTimestamp"]
    assert found["aggregate"]["key"]["queryShape"]["pipeline"] == [{"$match": {"qty": {"$gt": "?number"}}}]
    assert found["distinct"]["key"]["queryShape"]["key"] == "item"
    assert len({entry["keyHash"] for entry in found.values()}) == 3
    explained = products.find({"item": "x"}).explain()
    assert explained["queryShapeHash"] == found["find"]["queryShapeHash"]


def test_what_tells_queries_apart(client, products):
    products.create_index("qty")
    list(products.find({"qty": 1}).hint("qty_1").batch_size(5).comment("why").max_time_ms(10_000))
    list(products.find({"qty": 1}).hint([("qty", 1)]))
    list(products.find({"qty": 1}))
    list(products.find({"qty": "1"}))
    list(products.find({"qty": {"$in": [1, 2, 3]}}).sort("item", -1).limit(2))
    list(products.find({"qty": {"$in": [9]}}).sort("item", -1).limit(7))
    keys = [entry["key"] for entry in entries(client, products)]
    assert len(keys) == 5
    [named] = [key for key in keys if key.get("hint") == "?string"]
    assert (named["batchSize"], named["comment"], named["maxTimeMS"]) == ("?number", "?string", "?number")
    assert any(key.get("hint") == {"qty": 1} for key in keys)
    [sorted_key] = [key for key in keys if "sort" in key["queryShape"]]
    assert sorted_key["queryShape"]["sort"] == {"item": -1} and sorted_key["queryShape"]["limit"] == "?number"
    [of_sort] = [entry for entry in entries(client, products) if "sort" in entry["key"]["queryShape"]]
    assert of_sort["metrics"]["execCount"] == 2 and of_sort["metrics"]["hasSortStage"] is True


def test_a_query_ends_with_its_cursor(client, products):
    products.insert_many([{"item": "many", "qty": number} for number in range(100)])
    with products.find({"item": "many"}).batch_size(30) as cursor:
        next(cursor)
        assert entries(client, products) == []
        assert len(list(cursor)) == 99
    [entry] = entries(client, products)
    assert entry["metrics"]["execCount"] == 1 and entry["metrics"]["docsReturned"]["max"] == 100
    assert entry["metrics"]["totalExecMicros"]["sum"] > entry["metrics"]["firstResponseExecMicros"]["sum"]
    with products.find({"item": "many"}).batch_size(30) as cursor:
        next(cursor)
    [entry] = entries(client, products)
    assert entry["metrics"]["execCount"] == 2 and entry["metrics"]["docsReturned"]["min"] == 30


def test_kinds_of_collections(client, products):
    database = products.database
    database.create_collection("seen", viewOn="products", pipeline=[])
    list(database["seen"].find({"qty": 15}))
    list(database["nothing"].find({"qty": 15}))
    list(client.admin.aggregate([{"$currentOp": {}}]))
    for name, kind in [("seen", "view"), ("nothing", "nonExistent")]:
        assert [entry["key"]["collectionType"] for entry in entries(client, database[name])] == [kind]
    kinds = [entry["key"]["collectionType"] for entry in client.admin.aggregate([{"$queryStats": {}}, {"$match": {"key.queryShape.cmdNs.db": "admin"}}])]
    assert "virtual" in kinds


def test_names_that_nobody_can_read(client, products):
    list(products.find({"item": "card", "$expr": {"$gt": ["$qty", 5]}}))
    key = b"a key of the operator's"
    transform = {"algorithm": "hmac-sha-256", "hmacKey": Binary(key, 8)}
    made = lambda name: base64.b64encode(hmac.new(key, name.encode(), hashlib.sha256).digest()).decode()
    found = list(client.admin.aggregate([{"$queryStats": {"transformIdentifiers": transform}}]))
    shapes = [entry["key"]["queryShape"] for entry in found]
    expected = {
        "cmdNs": {"db": made(products.database.name), "coll": made("products")},
        "command": "find",
        "filter": {made("item"): {"$eq": "?string"}, "$expr": {"$gt": ["$" + made("qty"), "?number"]}},
    }
    assert expected in shapes
    assert "products" not in str(shapes)


@pytest.mark.parametrize(
    "options, code",
    [
        ({"x": 1}, 40415),
        ({"transformIdentifiers": 1}, 14),
        ({"transformIdentifiers": {"algorithm": "hmac-sha-256"}}, 40414),
        ({"transformIdentifiers": {"hmacKey": Binary(b"k", 8)}}, 40414),
        ({"transformIdentifiers": {"algorithm": "md5", "hmacKey": Binary(b"k", 8)}}, 2),
        ({"transformIdentifiers": {"algorithm": "hmac-sha-256", "hmacKey": Binary(b"k", 0)}}, 14),
    ],
)
def test_what_is_refused(client, options, code):
    with pytest.raises(OperationFailure) as caught:
        client.admin.aggregate([{"$queryStats": options}])
    assert caught.value.code == code


def test_it_is_for_the_admin_database(products):
    for call in (lambda: products.aggregate([{"$queryStats": {}}]), lambda: products.database.aggregate([{"$queryStats": {}}])):
        with pytest.raises(OperationFailure) as caught:
            call()
        assert caught.value.code == 73
