"""Sorts and groups of more data than there is memory: they spill to temporary files and the process stays in its budget."""

import random

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from resident_memory import (  # noqa: F401
    Peak,
    assert_within,
    memory_group,
    small_server,
    test_the_server_is_in_a_memory_group_of_the_budget_and_15_percent,
)

DOCUMENTS = 300_000
PAD = 1_000
EXCEEDED_MEMORY_LIMIT = 146
QUERY_EXCEEDED_MEMORY_LIMIT = 292


@pytest.fixture(scope="module")
def large(server):
    """300 MB of documents in no useful order. The padding is random, so that it stays large on disk too."""
    generator = random.Random(44991)
    with MongoClient(server.uri) as client:
        collection = client["memory"]["large"]
        for start in range(0, DOCUMENTS, 10_000):
            collection.insert_many(
                [
                    {"_id": i, "a": generator.randrange(1 << 40), "b": i % 150_000, "pad": generator.randbytes(PAD)}
                    for i in range(start, start + 10_000)
                ]
            )
        yield collection


@pytest.fixture(autouse=True)
def stays_in_budget(server, large):
    """Every test of this file holds the process to its budget."""
    peak = Peak(server)
    yield
    assert_within(peak)
    with MongoClient(server.uri) as client:
        memory = client.admin.command("serverStatus")["plimsoll"]["memory"]
        assert memory["uses"]["operations"] == 0, memory
    assert not list((server.directory / "data" / "temporary").iterdir())


def runs(collection):
    """Temporary files since the start."""
    return collection.database.client.admin.command("serverStatus")["plimsoll"]["memory"]["temporaryFiles"]["runs"]


def assert_sorted(documents, field, count):
    """All documents, in order."""
    previous, seen = -1, 0
    for document in documents:
        assert document[field] >= previous
        previous, seen = document[field], seen + 1
    assert seen == count


def test_find_sorts_on_disk(large):
    before = runs(large)
    assert_sorted(large.find().sort("a", 1), "a", DOCUMENTS)
    assert runs(large) > before


def test_aggregate_sorts_on_disk_behind_another_stage(large):
    before = runs(large)
    pipeline = [{"$unwind": "$a"}, {"$sort": {"a": 1}}, {"$project": {"a": 1, "size": {"$binarySize": "$pad"}}}]
    assert_sorted(large.aggregate(pipeline), "a", DOCUMENTS)
    assert runs(large) > before


def test_group_with_many_groups(large):
    before = runs(large)
    groups = {"$group": {"_id": "$b", "count": {"$sum": 1}, "most": {"$max": "$a"}, "pads": {"$push": "$pad"}}}
    totals = {"$group": {"_id": None, "groups": {"$sum": 1}, "documents": {"$sum": "$count"}}}
    found = list(large.aggregate([groups, totals]))
    assert found == [{"_id": None, "groups": 150_000, "documents": DOCUMENTS}]
    assert runs(large) > before


def test_one_group_larger_than_memory_is_refused(large):
    # Every document's pad in one array: more than the stage may hold, whatever is spilled.
    with pytest.raises(OperationFailure) as failure:
        list(large.aggregate([{"$group": {"_id": None, "pads": {"$push": "$pad"}}}, {"$project": {"n": {"$size": "$pads"}}}]))
    assert failure.value.code == EXCEEDED_MEMORY_LIMIT


def test_sample_of_more_than_memory(large):
    before = runs(large)
    pipeline = [{"$sample": {"size": DOCUMENTS - 1}}, {"$group": {"_id": "$_id"}}, {"$count": "n"}]
    assert list(large.aggregate(pipeline)) == [{"n": DOCUMENTS - 1}]
    assert runs(large) > before


def test_facets_read_more_than_memory(large):
    facets = {"count": [{"$count": "n"}], "most": [{"$sort": {"a": -1}}, {"$limit": 3}, {"$project": {"a": 1}}]}
    (found,) = large.aggregate([{"$facet": facets}])
    assert found["count"] == [{"n": DOCUMENTS}]
    assert [entry["a"] for entry in found["most"]] == [entry["a"] for entry in large.find().sort("a", -1).limit(3)]


def test_a_limited_sort_needs_no_disk(large):
    before = runs(large)
    assert_sorted(large.find().sort("a", 1).limit(100), "a", 100)
    assert runs(large) == before


LARGE_STAGES = [{"$sort": {"a": 1}}, {"$group": {"_id": "$a", "pad": {"$first": "$pad"}}}]


@pytest.mark.parametrize("stage", LARGE_STAGES, ids=["sort", "group"])
def test_without_disk_use(large, stage):
    with pytest.raises(OperationFailure) as failure:
        list(large.aggregate([{"$unwind": "$a"}, stage], allowDiskUse=False))
    assert failure.value.code == QUERY_EXCEEDED_MEMORY_LIMIT
    assert failure.value.details["codeName"] == "QueryExceededMemoryLimitNoDiskUseAllowed"


def test_find_without_disk_use(large):
    with pytest.raises(OperationFailure) as failure:
        list(large.find(allow_disk_use=False).sort("a", 1))
    assert failure.value.code == QUERY_EXCEEDED_MEMORY_LIMIT


def test_explain_says_that_the_disk_was_used(large):
    command = {"explain": {"find": "large", "sort": {"a": 1}}, "verbosity": "executionStats"}
    stages = large.database.command(command)["executionStats"]["executionStages"]
    assert stages["stage"] == "SORT" and stages["usedDisk"] and stages["spills"] > 1
