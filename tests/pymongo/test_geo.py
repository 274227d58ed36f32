"""Places: the manual's tutorial of neighbourhoods and restaurants, indexes of places, distances, and what is refused."""

import math

import pytest
from pymongo import GEO2D, GEOSPHERE
from pymongo.errors import OperationFailure, WriteError

RADIUS = 6_378_100
HOME = {"type": "Point", "coordinates": [-73.93414657, 40.82302903]}

# Parts of the tutorial's data: neighbourhoods as rectangles.
NEIGHBOURHOODS = {
    "Central Harlem": (-73.9550, 40.7980, -73.9300, 40.8300),
    "East Harlem": (-73.9480, 40.7850, -73.9290, 40.7975),
    "Midtown": (-73.9900, 40.7480, -73.9700, 40.7640),
}
RESTAURANTS = {
    "Yankee Tavern": (-73.925069, 40.8275556),
    "Corner Social": (-73.944805, 40.808305),
    "Red Rooster": (-73.944697, 40.808088),
    "Grand Central Oyster Bar": (-73.977209, 40.752673),
    "Riviera Caterer": (-73.98241999999999, 40.579505),
}


def haversine(one, other):
    (x, y), (u, v) = [[math.radians(number) for number in pair] for pair in (one, other)]
    half = math.sin((v - y) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((u - x) / 2) ** 2
    return 2 * RADIUS * math.asin(math.sqrt(half))


def point(longitude, latitude):
    return {"type": "Point", "coordinates": [longitude, latitude]}


def polygon(west, south, east, north):
    return {"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]]}


@pytest.fixture
def town(database):
    database.restaurants.insert_many([{"name": name, "location": point(*at)} for name, at in RESTAURANTS.items()])
    database.neighborhoods.insert_many([{"name": name, "geometry": polygon(*of)} for name, of in NEIGHBOURHOODS.items()])
    assert database.restaurants.create_index([("location", GEOSPHERE)]) == "location_2dsphere"
    assert database.neighborhoods.create_index([("geometry", "2dsphere")]) == "geometry_2dsphere"
    return database


def names(documents):
    return [document["name"] for document in documents]


def by_distance(within):
    apart = {name: haversine(at, HOME["coordinates"]) for name, at in RESTAURANTS.items()}
    return [name for name in sorted(apart, key=apart.get) if apart[name] <= within]


def test_the_tutorial(town):
    assert town.restaurants.index_information()["location_2dsphere"] == {"v": 2, "key": [("location", "2dsphere")], "2dsphereIndexVersion": 3}
    here = town.neighborhoods.find_one({"geometry": {"$geoIntersects": {"$geometry": HOME}}})
    assert here["name"] == "Central Harlem"
    inside = {"location": {"$geoWithin": {"$geometry": here["geometry"]}}}
    assert sorted(names(town.restaurants.find(inside))) == ["Corner Social", "Red Rooster"]
    assert town.restaurants.count_documents(inside) == 2
    around = {"location": {"$geoWithin": {"$centerSphere": [HOME["coordinates"], 5 / 3963.2]}}}
    assert sorted(names(town.restaurants.find(around))) == sorted(by_distance(5 / 3963.2 * RADIUS))
    near = {"location": {"$nearSphere": {"$geometry": HOME, "$maxDistance": 5 * 1609.34}}}
    assert names(town.restaurants.find(near)) == by_distance(5 * 1609.34)
    assert names(town.restaurants.find({"location": {"$near": {"$geometry": HOME}}}).limit(3)) == by_distance(10**7)[:3]
    assert names(town.restaurants.find({"location": {"$nearSphere": HOME["coordinates"]}})) == by_distance(10**7)


def test_geo_near(town):
    stage = {"near": HOME, "distanceField": "away", "spherical": True, "includeLocs": "at"}
    found = list(town.restaurants.aggregate([{"$geoNear": stage}]))
    assert names(found) == by_distance(10**7)
    for document in found:
        assert document["away"] == pytest.approx(haversine(document["location"]["coordinates"], HOME["coordinates"]), abs=0.01)
        assert document["at"] == document["location"]
    limited = [{"$geoNear": stage | {"query": {"name": {"$gt": "R"}}, "maxDistance": 9000}}, {"$limit": 1}]
    assert names(town.restaurants.aggregate(limited)) == ["Yankee Tavern"]
    inner = [{"$limit": 1}, {"$lookup": {"from": "restaurants", "pipeline": [{"$geoNear": stage}, {"$limit": 2}], "as": "nearest"}}]
    assert names(next(town.neighborhoods.aggregate(inner))["nearest"]) == by_distance(10**7)[:2]
    assert list(town.missing.aggregate([{"$geoNear": stage}])) == []


def test_plans(town):
    inside = town.restaurants.find({"location": {"$geoWithin": {"$geometry": polygon(-74, 40.7, -73.9, 40.9)}}}).explain()
    plan = inside["queryPlanner"]["winningPlan"]
    assert (plan["stage"], plan["inputStage"]["stage"]) == ("FETCH", "IXSCAN") and plan["filter"]
    bounds = plan["inputStage"]["indexBounds"]["location"]
    assert bounds and all(bound.startswith("[") and bound.endswith("]") for bound in bounds)
    assert inside["executionStats"]["totalDocsExamined"] < 5 + 1
    near = town.restaurants.find({"location": {"$near": {"$geometry": HOME}}}).explain()["queryPlanner"]["winningPlan"]
    assert (near["stage"], near["keyPattern"], near["indexName"]) == ("GEO_NEAR_2DSPHERE", {"location": "2dsphere"}, "location_2dsphere")


def test_pairs_in_the_plane(collection):
    collection.create_index([("at", GEO2D), ("kind", 1)], bits=20, min=-500, max=500)
    assert collection.index_information()["at_2d_kind_1"] == {"v": 2, "key": [("at", "2d"), ("kind", 1)], "bits": 20, "min": -500.0, "max": 500.0}
    collection.insert_many([{"_id": n, "at": [n % 20 * 10, n // 20 * 10], "kind": n % 3} for n in range(400)])
    box = {"at": {"$geoWithin": {"$box": [[0, 0], [30, 30]]}}, "kind": 1}
    assert sorted(d["_id"] for d in collection.find(box)) == [n for n in range(400) if n % 20 <= 3 and n // 20 <= 3 and n % 3 == 1]
    explained = collection.find(box).explain()
    assert explained["queryPlanner"]["winningPlan"]["inputStage"]["indexBounds"]["at"][0].startswith("[BinData(128")
    assert explained["executionStats"]["totalDocsExamined"] < 60
    near = [d["_id"] for d in collection.find({"at": {"$near": [101, 102], "$maxDistance": 12}})]
    assert near == [210, 230, 211, 209]
    assert collection.find({"at": {"$near": [101, 102]}}).explain()["queryPlanner"]["winningPlan"]["stage"] == "GEO_NEAR_2D"
    with pytest.raises(WriteError) as caught:
        collection.insert_one({"at": [501, 0]})
    assert caught.value.code == 13027
    with pytest.raises(WriteError) as caught:
        collection.insert_one({"at": point(1, 1)})
    assert caught.value.code == 13026
    assert collection.database.command("validate", collection.name)["valid"]


def test_writes_by_distance(collection):
    collection.create_index([("at", "2dsphere")])
    collection.insert_many([{"_id": n, "at": [n, 0]} for n in range(10)])
    near = {"at": {"$nearSphere": [0, 0], "$minDistance": math.radians(2.5)}}
    assert collection.find_one_and_update(near, {"$set": {"first": True}})["_id"] == 3
    assert collection.update_many(near, {"$set": {"far": True}}).modified_count == 7
    assert collection.delete_many({"at": {"$geoWithin": {"$centerSphere": [[0, 0], math.radians(1.5)]}}}).deleted_count == 2
    assert collection.distinct("_id", {"at": {"$geoIntersects": {"$geometry": point(5, 0)}}}) == [5]
    assert collection.database.command("count", collection.name, query=near)["n"] == 7
    assert [d["_id"] for d in collection.find(near).sort("_id", -1).limit(2)] == [9, 8]
    assert [d["_id"] for d in collection.find(near, batch_size=2).skip(1)] == [4, 5, 6, 7, 8, 9]


def test_what_is_no_shape_is_not_stored(collection):
    collection.create_index([("at", "2dsphere")])
    collection.insert_many([{"_id": 1}, {"_id": 2, "at": None}, {"_id": 3, "at": []}])
    bow = {"type": "Polygon", "coordinates": [[[0, 0], [9, 9], [9, 0], [0, 9], [0, 0]]]}
    for place in [bow, point(200, 0), [200, 0], "here", {"type": "Circle"}, 5, {"type": "LineString", "coordinates": [[0, 0]]}]:
        with pytest.raises(WriteError) as caught:
            collection.insert_one({"at": place})
        assert caught.value.code == 16755 and "Can't extract geo keys" in caught.value.details["errmsg"]
    with pytest.raises(WriteError) as caught:
        collection.update_one({"_id": 1}, {"$set": {"at": bow}})
    assert caught.value.code == 16755
    other = collection.database["other"]
    other.insert_one({"at": bow})
    with pytest.raises(OperationFailure) as caught:
        other.create_index([("at", "2dsphere")])
    assert caught.value.code == 16755
    assert collection.count_documents({}) == 3


def test_cells_are_bounded(collection):
    collection.create_index([("at", "2dsphere")], coarsestIndexedLevel=18)
    with pytest.raises(WriteError) as caught:
        collection.insert_one({"at": polygon(0, 0, 1, 1)})
    assert caught.value.code == 16755
    collection.insert_one({"at": polygon(0, 0, 0.001, 0.001)})
    inside = {"at": {"$geoIntersects": {"$geometry": point(0.0005, 0.0005)}}}
    assert collection.count_documents(inside) == 1
    assert collection.find(inside).explain()["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "IXSCAN"


@pytest.mark.parametrize(
    "index, code",
    [
        ({"key": {"a": "2d", "b": "2d"}}, 13022),
        ({"key": {"a": 1, "b": "2d"}}, 13023),
        ({"key": {"a": "2d", "b": "2dsphere"}}, 67),
        ({"key": {"a": "hashed", "b": "2dsphere"}}, 67),
        ({"key": {"a": "2d"}, "bits": 33}, 67),
        ({"key": {"a": "2d"}, "min": 5, "max": 5}, 67),
        ({"key": {"a": "2dsphere"}, "finestIndexedLevel": 31}, 67),
        ({"key": {"a": "2dsphere"}, "finestIndexedLevel": 5, "coarsestIndexedLevel": 6}, 67),
        ({"key": {"a": "2dsphere"}, "2dsphereIndexVersion": 4}, 67),
        ({"key": {"a": "2dsphere"}, "2dsphereIndexVersion": 1}, 238),
        ({"key": {"a": "2dsphere"}, "bits": 5}, 67),
        ({"key": {"a": 1}, "2dsphereIndexVersion": 3}, 67),
        ({"key": {"a": "2d"}, "collation": {"locale": "de"}}, 67),
    ],
)
def test_indexes_that_are_refused(collection, index, code):
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("createIndexes", collection.name, indexes=[index | {"name": "x"}])
    assert caught.value.code == code, caught.value.details


def test_queries_that_are_refused(collection):
    collection.insert_one({"at": [1, 1]})
    near = {"at": {"$near": {"$geometry": point(0, 0)}}}
    collection.create_index("at")
    collection.create_index([("at", "2d")])

    def code(filter, **options):
        with pytest.raises(OperationFailure) as caught:
            list(collection.find(filter, **options))
        return caught.value.code

    # A 2d index knows nothing of metres, and others know nothing of places.
    assert code(near) == 291
    assert code({"at": {"$near": [0, 0]}}, hint="at_1") == 291
    assert code({"at": {"$near": [0, 0]}}, hint=[("$natural", 1)]) == 291
    assert code({"$or": [{"at": {"$near": [0, 0]}}, {"a": 1}]}) == 2
    assert code({"at": {"$near": [0, 0], "$maxDistance": -1}}) == 2
    assert code({"at": {"$near": {"$geometry": point(0, 0)}, "$maxDistance": 1}}) == 2
    assert code({"at": {"$not": {"$near": [0, 0]}}}) == 2
    for pipeline in [[{"$match": near}], [{"$facet": {"a": [{"$match": near}]}}]]:
        with pytest.raises(OperationFailure) as caught:
            list(collection.aggregate(pipeline))
        assert caught.value.code == 5626500
    with pytest.raises(OperationFailure) as caught:
        list(collection.aggregate([{"$geoNear": {"near": point(0, 0), "distanceField": "d"}}]))
    assert (caught.value.code, caught.value.details["codeName"]) == (27, "IndexNotFound")
    assert list(collection.database.missing.find(near)) == []
    with pytest.raises(OperationFailure) as caught:
        collection.database.command("aggregate", 1, pipeline=[{"$geoNear": {"near": [0, 0], "distanceField": "d"}}], cursor={})
    assert caught.value.code == 73


def test_several_indexes(collection):
    collection.insert_one({"a": [0, 1], "b": [0, 2]})
    collection.create_index([("a", "2dsphere")])
    collection.create_index([("b", "2dsphere")])
    stage = {"near": point(0, 0), "distanceField": "d"}
    with pytest.raises(OperationFailure) as caught:
        list(collection.aggregate([{"$geoNear": stage}]))
    assert caught.value.code == 27
    found = next(collection.aggregate([{"$geoNear": stage | {"key": "b"}}]))
    assert found["d"] == pytest.approx(math.radians(2) * RADIUS, abs=0.01)
    collection.create_index([("kind", 1), ("a", "2dsphere")])
    collection.update_one({}, {"$set": {"kind": 5}})
    plan = collection.find({"kind": 5, "a": {"$geoWithin": {"$centerSphere": [[0, 0], 0.1]}}}).hint("kind_1_a_2dsphere").explain()
    assert plan["executionStats"]["nReturned"] == 1
    assert plan["queryPlanner"]["winningPlan"]["inputStage"]["indexBounds"]["kind"] == ["[5, 5]"]
    collection.insert_one({"kind": 6})
    assert collection.distinct("kind") == [5, 6]
    near = {"kind": 5, "a": {"$near": {"$geometry": point(0, 0)}}}
    assert len(list(collection.find(near).hint("kind_1_a_2dsphere"))) == 1


def test_how_far_the_found_are(collection):
    collection.insert_many([{"_id": n, "loc": point(0, n), "n": -n} for n in range(1, 5)])
    collection.create_index([("loc", "2dsphere")])
    distance, place = {"$meta": "geoNearDistance"}, {"$meta": "geoNearPoint"}
    near = {"loc": {"$near": {"$geometry": point(0, 0), "$maxDistance": 400_000}}}
    found = list(collection.find(near, {"d": distance, "at": place}))
    assert [document["_id"] for document in found] == [1, 2, 3] and found[1]["at"] == point(0, 2)
    assert [document["d"] for document in found] == pytest.approx([math.radians(n) * RADIUS for n in (1, 2, 3)], abs=0.01)
    # It goes along through a sort.
    found = list(collection.find(near, {"_id": 1, "d": distance}).sort("n", 1))
    assert [document["_id"] for document in found] == [3, 2, 1] and found[0]["d"] == pytest.approx(math.radians(3) * RADIUS, abs=0.01)
    stages = [{"$geoNear": {"near": point(0, 0), "distanceField": "far"}}, {"$match": {"_id": {"$gt": 2}}}, {"$project": {"d": distance, "far": 1}}]
    for document in collection.aggregate(stages):
        assert document["d"] == document["far"]
    for call in (lambda: collection.find({}, {"d": distance}), lambda: collection.aggregate([{"$project": {"d": distance}}])):
        with pytest.raises(OperationFailure) as caught:
            list(call())
        assert caught.value.code == 40218


def test_validators_and_partial_indexes(database):
    inside = {"at": {"$geoWithin": {"$box": [[0, 0], [5, 5]]}}}
    database.create_collection("walled", validator=inside)
    database.walled.insert_one({"at": [1, 1]})
    with pytest.raises(WriteError) as caught:
        database.walled.insert_one({"at": [9, 9]})
    details = caught.value.details["errInfo"]["details"]
    assert details["operatorName"] == "$geoWithin" and "none of the considered geometries" in details["reason"]
    database.open.create_index("a", partialFilterExpression=inside)
    database.open.insert_many([{"a": n, "at": [n, n]} for n in range(10)])
    found = database.open.find({"a": {"$gte": 4}} | inside).explain()["executionStats"]
    assert (found["nReturned"], found["totalKeysExamined"]) == (2, 2)
    with pytest.raises(OperationFailure) as caught:
        database.create_collection("near", validator={"at": {"$near": [0, 0]}})
    assert caught.value.code == 5626500
