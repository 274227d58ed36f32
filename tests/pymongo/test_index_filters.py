"""`planCacheSetFilter`, `planCacheListFilters` and `planCacheClearFilters`: which indexes the planner may consider for a shape of query."""

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": number, "a": number % 10, "b": number % 7, "c": number} for number in range(500)])
    for keys in ("a", "b", [("a", 1), ("b", 1)]):
        collection.create_index(keys)
    return collection


def set_filter(collection, indexes, query, **fields):
    return collection.database.command("planCacheSetFilter", collection.name, query=query, indexes=indexes, **fields)


def filters(collection):
    return collection.database.command("planCacheListFilters", collection.name)["filters"]


def planner(collection, command):
    return collection.database.command("explain", command, verbosity="queryPlanner")["queryPlanner"]


def find(collection, filter, **fields):
    return {"find": collection.name, "filter": filter} | fields


def indexes_of(stage):
    """The names of the indexes that a plan reads."""
    own = [stage["indexName"]] if "indexName" in stage else []
    inputs = stage.get("inputStages", []) + ([stage["inputStage"]] if "inputStage" in stage else [])
    return sorted(set(own).union(*map(indexes_of, inputs)) if inputs else own)


def used(collection, command):
    """Whether a filter had a say, and the indexes of the winning plan and of all others."""
    found = planner(collection, command)
    others = {name for plan in found["rejectedPlans"] for name in indexes_of(plan)}
    return found["indexFilterSet"], indexes_of(found["winningPlan"]), others


def test_only_the_named_indexes_are_considered(things):
    query = {"a": 3, "b": 3}
    assert used(things, find(things, query))[0] is False
    expected = sorted(document["_id"] for document in things.find(query))
    for indexes, names in ((["a_1"], ["a_1"]), ([{"b": 1}], ["b_1"]), ([{"a": 1, "b": 1}], ["a_1_b_1"])):
        assert set_filter(things, indexes, query)["ok"] == 1.0
        # The values in the query say nothing.
        assert used(things, find(things, {"a": 9, "b": 1})) == (True, names, set())
        assert sorted(document["_id"] for document in things.find(query)) == expected
    set_filter(things, ["a_1", {"b": 1}], query)
    is_set, winner, others = used(things, find(things, query))
    assert is_set and set(winner) | others == {"a_1", "b_1"}


def test_another_shape_is_not_concerned(things):
    set_filter(things, ["a_1"], {"a": 1, "b": 1})
    assert used(things, find(things, {"b": 1}))[:2] == (False, ["b_1"])
    assert used(things, find(things, {"a": {"$gt": 1}, "b": 1}))[0] is False
    assert used(things, find(things, {"a": 1, "b": 1}, sort={"c": 1}))[0] is False
    set_filter(things, ["b_1"], {"a": 1, "b": 1}, sort={"c": 1}, projection={"_id": 0, "c": 1})
    assert used(things, find(things, {"a": 1, "b": 1}, sort={"c": 1}))[0] is False
    with_all = find(things, {"a": 5, "b": 5}, sort={"c": 1}, projection={"_id": 0, "c": 1})
    assert used(things, with_all) == (True, ["b_1"], set())
    assert used(things, find(things, {"a": 1, "b": 1}))[:2] == (True, ["a_1"])


@pytest.mark.parametrize("hint", ["b_1", {"b": 1}, {"$natural": 1}, "none"])
def test_the_hint_is_ignored(things, hint):
    query = {"a": 1, "b": 1}
    set_filter(things, ["a_1"], query)
    assert used(things, find(things, query, hint=hint)) == (True, ["a_1"], set())
    assert len(list(things.find(query))) == things.count_documents({"$and": [query]})


@pytest.mark.parametrize("indexes", [["none"], [{"none": 1}], ["A_1"], [{"a": -1}]])
def test_without_such_an_index_the_collection_is_scanned(things, indexes):
    query = {"a": 1, "b": 1}
    set_filter(things, indexes, query)
    found = planner(things, find(things, query))
    assert found["indexFilterSet"] is True and found["winningPlan"]["stage"] == "COLLSCAN"
    assert {document["_id"] for document in things.find(query)} == {
        number for number in range(500) if number % 10 == 1 and number % 7 == 1
    }


def test_an_index_that_comes_later_counts(things):
    set_filter(things, ["later"], {"c": 1})
    assert planner(things, find(things, {"c": 5}))["winningPlan"]["stage"] == "COLLSCAN"
    things.create_index("c", name="later")
    assert used(things, find(things, {"c": 5})) == (True, ["later"], set())
    things.drop_index("later")
    assert planner(things, find(things, {"c": 5}))["winningPlan"]["stage"] == "COLLSCAN"


def test_a_lookup_by_id_is_one_all_the_same(things):
    set_filter(things, ["a_1"], {"_id": 1})
    found = planner(things, find(things, {"_id": 3}))
    assert found["indexFilterSet"] is False and found["winningPlan"]["stage"] == "IDHACK"


def test_min_and_max_keep_the_index_of_their_hint(things):
    set_filter(things, ["b_1"], {"a": 1})
    command = find(things, {"a": 1}, min={"a": 1}, max={"a": 2}, hint={"a": 1})
    assert used(things, command)[:2] == (False, ["a_1"])


def test_all_commands_with_queries_obey(things):
    query = {"a": 1, "b": 1}
    set_filter(things, ["b_1"], query)
    name = things.name
    for command in (
        {"count": name, "query": query},
        {"distinct": name, "key": "c", "query": query},
        {"update": name, "updates": [{"q": query, "u": {"$set": {"c": 1}}}]},
        {"delete": name, "deletes": [{"q": query, "limit": 1}]},
        {"findAndModify": name, "query": query, "update": {"$set": {"c": 1}}},
    ):
        assert used(things, command)[:2] == (True, ["b_1"]), command
    counted = things.database.command({"count": name, "query": query, "hint": "a_1"})["n"]
    assert counted == len(list(things.find(query)))


def test_distinct_without_a_query_skips_only_through_what_is_allowed(things):
    command = {"distinct": things.name, "key": "a"}
    values = things.distinct("a")
    set_filter(things, ["a_1_b_1"], {})
    assert used(things, command)[:2] == (True, ["a_1_b_1"])
    set_filter(things, ["b_1"], {})
    found = planner(things, command)
    assert found["indexFilterSet"] is True and found["winningPlan"]["stage"] == "COLLSCAN"
    assert things.distinct("a") == values


def test_filters_are_listed_as_they_were_given(things):
    assert filters(things) == []
    set_filter(things, ["a_1", {"b": 1}], {"a": 1})
    assert filters(things) == [{"query": {"a": 1}, "sort": {}, "projection": {}, "indexes": ["a_1", {"b": 1}]}]
    # Of the same shape: it takes the other's place.
    set_filter(things, ["b_1"], {"a": 7}, comment="why")
    assert filters(things) == [{"query": {"a": 7}, "sort": {}, "projection": {}, "indexes": ["b_1"]}]
    whole = {"sort": {"c": -1}, "projection": {"_id": 0, "c": 1}, "collation": {"locale": "simple"}}
    set_filter(things, ["b_1"], {"a": 7}, **whole)
    assert {"query": {"a": 7}, "indexes": ["b_1"]} | whole in filters(things) and len(filters(things)) == 2


def test_filters_are_cleared(things):
    clear = things.database.command
    for query in ({"a": 1}, {"b": 1}, {"c": 1}):
        set_filter(things, ["a_1"], query)
    set_filter(things, ["a_1"], {"a": 1}, sort={"c": 1})
    assert clear("planCacheClearFilters", things.name, query={"a": 77})["ok"] == 1.0
    assert [filter["query"] for filter in filters(things) if not filter["sort"]] == [{"b": 1}, {"c": 1}]
    assert used(things, find(things, {"a": 1}))[0] is False
    assert used(things, find(things, {"a": 1}, sort={"c": 1}))[0] is True
    clear("planCacheClearFilters", things.name, query={"a": 1}, sort={"c": 1})
    clear("planCacheClearFilters", things.name, query={"x": 1})
    assert len(filters(things)) == 2
    clear("planCacheClearFilters", things.name)
    assert filters(things) == [] and used(things, find(things, {"b": 1}))[0] is False


def test_they_follow_a_rename_and_end_with_the_collection(things):
    database = things.database
    set_filter(things, ["a_1"], {"a": 1, "b": 1})
    things.rename("renamed")
    assert filters(things) == [] and len(filters(database.renamed)) == 1
    assert used(database.renamed, find(database.renamed, {"a": 1, "b": 1}))[0] is True
    things.insert_one({"a": 1})
    assert filters(things) == []
    things.rename("renamed", dropTarget=True)
    assert filters(database.renamed) == []
    set_filter(database.renamed, ["a_1"], {"a": 1})
    database.drop_collection("renamed")
    database.renamed.insert_one({"a": 1})
    assert filters(database.renamed) == []


def test_they_end_with_the_process(things, restart):
    set_filter(things, ["a_1"], {"a": 1, "b": 1})
    restart()
    assert filters(things) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"indexes": ["a_1"]},
        {"query": {"a": 1}},
        {"query": {"a": 1}, "indexes": []},
        {"query": {"a": 1}, "indexes": [{}]},
        {"query": {"a": 1}, "indexes": [1]},
        {"query": {"$no": 1}, "indexes": ["a_1"]},
        {"query": {"a": 1}, "sort": {"a": 0}, "indexes": ["a_1"]},
    ],
)
def test_what_is_no_filter(things, fields):
    with pytest.raises(OperationFailure) as caught:
        things.database.command("planCacheSetFilter", things.name, **fields)
    assert caught.value.code in (2, 15975)
    assert filters(things) == []


@pytest.mark.parametrize("fields", [{"query": 1}, {"query": {}, "sort": 1}, {"query": {}, "projection": "a"}])
@pytest.mark.parametrize("name", ["planCacheSetFilter", "planCacheClearFilters"])
def test_wrong_types(things, name, fields):
    with pytest.raises(OperationFailure) as caught:
        things.database.command({name: things.name, "indexes": ["a_1"]} | fields if "Set" in name else {name: things.name} | fields)
    assert caught.value.code == 14


@pytest.mark.parametrize("part", ["sort", "projection"])
def test_a_shape_without_query(things, part):
    with pytest.raises(OperationFailure) as caught:
        things.database.command("planCacheClearFilters", things.name, **{part: {"a": 1}})
    assert caught.value.code == 2


def test_unknown_fields_are_refused_by_name(things):
    for command in ({"planCacheSetFilter": things.name, "query": {}, "indexes": ["a_1"]}, {"planCacheListFilters": things.name}, {"planCacheClearFilters": things.name}):
        with pytest.raises(OperationFailure, match="other") as caught:
            things.database.command(command | {"other": 1})
        assert caught.value.code == 40415
    with pytest.raises(OperationFailure) as caught:
        things.database.command("planCacheListFilters", things.name, query={})
    assert caught.value.code == 40415


def test_of_a_collection_that_is_not_there(database):
    assert filters(database.none) == []
    assert database.command("planCacheClearFilters", "none")["ok"] == 1.0
    with pytest.raises(OperationFailure) as caught:
        set_filter(database.none, ["a_1"], {"a": 1})
    assert caught.value.code == 2
