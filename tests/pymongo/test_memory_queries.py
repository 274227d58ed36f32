"""Queries and pipelines that collect more than a small server has memory for: refused by name, or spilled, and nobody is killed for it."""

import threading
import time

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

EXCEEDED_MEMORY_LIMIT = 146
TOO_BUSY = 462
DISTINCT_TOO_BIG = 17217
DOCUMENT_TOO_LARGE = 10334
BUFFER_TOO_LARGE = 13548
LOOKUP_TOO_LARGE = 4568
UPDATE_TOO_LARGE = 17419


@pytest.fixture(scope="module")
def filled(server):
    """400 documents of 1 MB, each with a value of its own, and as many small ones."""
    with MongoClient(server.uri) as client:
        database = client["memory"]
        for start in range(0, 400, 20):
            database.wide.insert_many(
                [{"_id": i, "g": 0, "pad": f"{i:09d}" + "x" * 1_000_000} for i in range(start, start + 20)]
            )
        database.narrow.insert_many([{"_id": i, "g": 0} for i in range(400)])
        yield database


@pytest.fixture
def database(server, filled):
    with MongoClient(server.uri) as client:
        yield client["memory"]


@pytest.fixture(autouse=True)
def stays_in_budget(server, filled):
    """Every test of this file holds the process to its budget, and what it took is given back."""
    peak = Peak(server)
    yield
    assert_within(peak)
    with MongoClient(server.uri) as client:
        deadline = time.monotonic() + 10
        while uses(client)["operations"] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert uses(client)["operations"] == 0, uses(client)


def uses(client):
    return client.admin.command("serverStatus")["plimsoll"]["memory"]["uses"]


def outcomes(server, count, work):
    """What `work(database)` came to in so many clients at once: its result, or the code of its failure."""
    results, barrier = [None] * count, threading.Barrier(count)

    def run(number):
        with MongoClient(server.uri, retryReads=False, retryWrites=False) as client:
            client.admin.command("ping")
            barrier.wait()
            try:
                results[number] = work(client["memory"])
            except OperationFailure as failure:
                results[number] = failure.code

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def failure(work):
    with pytest.raises(OperationFailure) as refused:
        work()
    return refused.value


def test_distinct_values_of_more_than_a_reply_may_have(database):
    refused = failure(lambda: database.wide.distinct("pad"))
    assert (refused.code, refused.details["errmsg"]) == (DISTINCT_TOO_BIG, "distinct too big, 16mb cap")


def test_distinct_values_along_an_index(database):
    database.indexed.drop()
    database.indexed.create_index("k")
    database.indexed.insert_many([{"k": f"{i:09d}" + "x" * 2_000} for i in range(20_000)])
    assert failure(lambda: database.indexed.distinct("k")).code == DISTINCT_TOO_BIG
    database.indexed.drop()


def test_distinct_by_many_at_once(server, database):
    database.numbers.drop()
    for start in range(0, 300_000, 50_000):
        database.numbers.insert_many([{"_id": i, "n": i + 0.5} for i in range(start, start + 50_000)])

    def count(own):
        return len(own.numbers.distinct("n"))

    results = outcomes(server, 12, count)
    assert set(results) <= {300_000, EXCEEDED_MEMORY_LIMIT, TOO_BUSY}
    assert len(database.numbers.distinct("n")) == 300_000
    database.numbers.drop()


def test_joins_of_90_megabytes_by_twelve_clients(server):
    join = {"$lookup": {"from": "wide", "pipeline": [{"$limit": 90}], "as": "all"}}
    pipeline = [{"$limit": 20}, join, {"$project": {"n": {"$size": "$all"}}}]
    results = outcomes(server, 12, lambda own: sum(found["n"] for found in own.narrow.aggregate(pipeline)))
    assert set(results) <= {20 * 90, EXCEEDED_MEMORY_LIMIT, TOO_BUSY}


def test_a_join_of_more_than_a_stage_may_hold(database):
    join = {"$lookup": {"from": "wide", "pipeline": [], "as": "all"}}
    refused = failure(lambda: list(database.narrow.aggregate([{"$limit": 1}, join, {"$project": {"_id": 1}}])))
    assert refused.code in (LOOKUP_TOO_LARGE, EXCEEDED_MEMORY_LIMIT)


def test_a_join_that_fits_is_made(database):
    join = {"$lookup": {"from": "wide", "pipeline": [{"$limit": 15}], "as": "all"}}
    pipeline = [{"$limit": 5}, join, {"$project": {"n": {"$size": "$all"}}}]
    assert [found["n"] for found in database.narrow.aggregate(pipeline)] == [15] * 5


def test_facets_by_many_at_once(server):
    wide = [{"$limit": 60}, {"$group": {"_id": None, "pads": {"$push": "$pad"}}}, {"$project": {"n": {"$size": "$pads"}}}]
    pipeline = [{"$facet": {"a": wide, "b": wide, "c": [{"$sort": {"pad": -1}}, {"$limit": 50}]}}, {"$project": {"a": 1}}]
    results = outcomes(server, 12, lambda own: next(own.wide.aggregate(pipeline))["a"][0]["n"])
    assert set(results) <= {60, EXCEEDED_MEMORY_LIMIT, TOO_BUSY, DOCUMENT_TOO_LARGE}


def test_facets_that_fit(database):
    some = [{"$limit": 3}, {"$project": {"_id": 1}}]
    (found,) = database.wide.aggregate([{"$limit": 10}, {"$facet": {"a": some, "b": [{"$count": "n"}]}}])
    assert ([entry["_id"] for entry in found["a"]], found["b"]) == ([0, 1, 2], [{"n": 10}])


def doubled(times):
    """An expression for a string of 1 MB, doubled so often."""
    expression = "$pad"
    for number in range(times):
        expression = {"$let": {"vars": {"s": expression}, "in": {"$concat": ["$$s", "$$s"]}}}
    return expression


def test_values_of_expressions(database):
    first = [{"$match": {"_id": 1}}]
    # 16 MB, over and over: each is thrown away before the next.
    sizes = [{"$addFields": {"size": {"$strLenBytes": doubled(4)}}}] * 20
    (found,) = database.wide.aggregate([*first, *sizes, {"$project": {"size": 1}}])
    assert found["size"] == 16 * 1_000_009
    # All of them at once.
    many = {"$let": {"vars": {f"v{n}": doubled(4) for n in range(100)}, "in": {"$strLenBytes": "$$v1"}}}
    assert failure(lambda: list(database.wide.aggregate([*first, {"$project": {"n": many}}]))).code == EXCEEDED_MEMORY_LIMIT
    # In one document.
    fields = [{"$addFields": {f"f{n}": doubled(4)}} for n in range(100)]
    refused = failure(lambda: list(database.wide.aggregate([*first, *fields, {"$project": {"_id": 1}}])))
    assert refused.code in (EXCEEDED_MEMORY_LIMIT, DOCUMENT_TOO_LARGE)
    # One that is larger than a value may be.
    refused = failure(lambda: list(database.wide.aggregate([*first, {"$project": {"n": {"$strLenBytes": doubled(7)}}}])))
    assert refused.code in (BUFFER_TOO_LARGE, EXCEEDED_MEMORY_LIMIT)


def test_values_of_expressions_by_many_at_once(server):
    many = {"$let": {"vars": {f"v{n}": doubled(3) for n in range(4)}, "in": {"$strLenBytes": "$$v1"}}}
    pipeline = [{"$limit": 5}, {"$project": {"n": many}}]
    results = outcomes(server, 16, lambda own: {found["n"] for found in own.wide.aggregate(pipeline)} == {8 * 1_000_009})
    assert set(results) <= {True, EXCEEDED_MEMORY_LIMIT, TOO_BUSY}
    assert True in results


def test_what_is_put_into_every_element_of_an_array(database):
    """The result may be many times what is stored and what is sent."""
    database.elements.drop()
    database.elements.insert_one({"_id": 1, "a": [{"n": n} for n in range(2000)], "pad": "x" * 5_000_000})
    refused = failure(lambda: database.elements.update_one({}, {"$set": {"a.$[].pad": "y" * 5_000_000}}))
    assert refused.code == UPDATE_TOO_LARGE
    for projection in ({"a.pad": "$pad"}, {"a": {"n": 1, "pad": "$pad"}}):
        refused = failure(lambda: list(database.elements.find({}, projection)))
        assert refused.code in (EXCEEDED_MEMORY_LIMIT, BUFFER_TOO_LARGE)
    refused = failure(lambda: list(database.elements.aggregate([{"$addFields": {"a.pad": "$pad"}}])))
    assert refused.code in (EXCEEDED_MEMORY_LIMIT, BUFFER_TOO_LARGE)
    # Each group of a pattern may have all of the text.
    find = {"$regexFind": {"input": "$pad", "regex": "(?=(x+))" * 1000}}
    refused = failure(lambda: list(database.elements.aggregate([{"$project": {"n": find}}])))
    assert refused.code in (EXCEEDED_MEMORY_LIMIT, BUFFER_TOO_LARGE)
    # What an error shows of a document is short.
    refused = failure(lambda: list(database.elements.aggregate([{"$replaceRoot": {"newRoot": "$pad"}}])))
    assert len(str(refused)) < 500_000
    refused = failure(lambda: database.elements.update_one({}, [{"$set": {"a.pad": "$pad"}}]))
    assert refused.code in (EXCEEDED_MEMORY_LIMIT, BUFFER_TOO_LARGE)
    assert database.elements.find_one({}, {"pad": 0})["a"] == [{"n": n} for n in range(2000)]
    database.elements.drop()


def test_a_list_of_a_million(server, database):
    wanted = list(range(0, 2_000_000, 2))

    def count(own):
        return len(list(own.narrow.find({"_id": {"$in": wanted}}, {"_id": 1})))

    results = outcomes(server, 3, count)
    assert set(results) <= {200, EXCEEDED_MEMORY_LIMIT, TOO_BUSY}
    assert len(list(database.narrow.find({"_id": {"$in": wanted[:100_000]}}))) == 200


def test_an_update_of_half_a_million_fields(database):
    """It is refused before it is parsed, and changes nothing."""
    before = database.narrow.find_one({"_id": 0})
    with pytest.raises(OperationFailure) as refused:
        database.narrow.update_one({"_id": 0}, {"$set": {f"f{i}": 1 for i in range(500_000)}})
    assert refused.value.code == EXCEEDED_MEMORY_LIMIT
    assert database.narrow.find_one({"_id": 0}) == before


def test_index_filters_are_refused_when_they_would_fill_the_memory(database):
    def set_filter(number):
        query = {f"{number}_{i}_" + "f" * 2000: 1 for i in range(1000)}
        database.command("planCacheSetFilter", "narrow", query=query, indexes=["_id_"])

    with pytest.raises(OperationFailure) as refused:
        for number in range(200):
            set_filter(number)
    assert refused.value.code == EXCEEDED_MEMORY_LIMIT
    database.command("planCacheClearFilters", "narrow")
    set_filter(0)
    database.command("planCacheClearFilters", "narrow")
