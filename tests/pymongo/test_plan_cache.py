"""`$planCacheStats`: what is remembered of the choice between plans, by shape of query; the manual's page of that name says which fields."""

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": number, "a": number % 10, "b": number % 7} for number in range(500)])
    collection.create_index("a")
    collection.create_index("b")
    return collection


def remembered(collection):
    return list(collection.aggregate([{"$planCacheStats": {}}]))


def test_a_decision_between_plans_is_listed(things):
    assert remembered(things) == []
    things.find_one({"a": 3})
    assert remembered(things) == [], "where there is one plan there is nothing to decide"
    list(things.find({"a": 3, "b": 4}, {"a": 1}, sort=[("_id", 1)]))
    (entry,) = remembered(things)
    asked = entry["createdFromQuery"]
    assert asked["sort"] == {"_id": 1} and asked["projection"] == {"a": 1}
    assert asked["query"] == {"$and": [{"a": {"$eq": 3}}, {"b": {"$eq": 4}}]}
    assert entry["isActive"] is True and entry["indexFilterSet"] is False and entry["works"] > 0
    assert entry["cachedPlan"]["stage"] and entry["estimatedSizeBytes"] > 100 and entry["host"]
    explained = things.database.command(
        "explain", {"find": things.name, "filter": {"a": 3, "b": 4}, "projection": {"a": 1}, "sort": {"_id": 1}}, verbosity="queryPlanner"
    )["queryPlanner"]
    assert (explained["queryHash"], explained["planCacheKey"]) == (entry["queryHash"], entry["planCacheKey"])


def test_other_values_are_the_same_shape_and_another_index_another_key(things):
    def keys(value):
        command = {"find": things.name, "filter": {"a": value, "b": value}}
        found = things.database.command("explain", command, verbosity="queryPlanner")["queryPlanner"]
        return found["queryHash"], found["planCacheKey"]

    before = keys(1)
    assert keys(5) == before
    things.create_index("other")
    assert keys(1) == before
    things.create_index([("a", 1), ("b", 1)])
    after = keys(1)
    assert after[0] == before[0] and after[1] != before[1]


def test_what_is_cleared_is_not_listed(things):
    for filter in ({"a": 3, "b": 4}, {"a": {"$gt": 3}, "b": 4}):
        list(things.find(filter))
    assert len(remembered(things)) == 2
    things.database.command("planCacheClear", things.name, query={"a": 1, "b": 1})
    assert len(remembered(things)) == 1
    # Decisions between other indexes are of no use any more.
    things.create_index("c")
    assert remembered(things) == []
    assert list(things.database["absent"].aggregate([{"$planCacheStats": {}}])) == []


def test_a_query_of_many_constants_is_listed_without_them(things):
    list(things.find({"a": {"$in": list(range(2000))}, "b": 4}))
    (entry,) = remembered(things)
    assert "query" not in entry["createdFromQuery"] and entry["works"] > 0


@pytest.mark.parametrize("pipeline, code", [([{"$planCacheStats": {"allHosts": True}}], 9), ([{"$planCacheStats": 1}], 9), ([{"$match": {}}, {"$planCacheStats": {}}], 40602)])
def test_it_takes_no_options_and_is_first(things, pipeline, code):
    with pytest.raises(OperationFailure) as caught:
        list(things.aggregate(pipeline))
    assert caught.value.code == code and caught.value.details["codeName"]
