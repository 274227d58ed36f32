"""Documents and paths that would nest without end: refused where they arise, and the server goes on.

A stage wraps what it reads, so stages in a row make what no client could send. Whatever is asked of such a document, no recursion may end the process.
"""

import pytest
from pymongo.errors import OperationFailure

OVERFLOW = 15
LEVELS_MAX = 200


def wrapped(value, levels):
    for _ in range(levels):
        value = {"a": value}
    return value


def wrap(levels):
    """A stage that wraps each document in so many levels."""
    return {"$replaceRoot": {"newRoot": wrapped("$$ROOT", levels)}}


DEEP = [wrap(60)] * 900


def refused(run, code=OVERFLOW):
    with pytest.raises(OperationFailure) as caught:
        run()
    assert caught.value.code == code, caught.value.details


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": number, "n": number} for number in range(3)])
    return collection


@pytest.mark.parametrize(
    "last",
    [
        [],
        [{"$group": {"_id": "$$ROOT"}}],
        [{"$group": {"_id": None, "all": {"$addToSet": "$$ROOT"}}}],
        [{"$group": {"_id": None, "all": {"$push": "$$ROOT"}}}],
        [{"$sortByCount": "$a"}],
        [{"$sort": {"a": 1}}],
        [{"$project": {"a": 1}}],
        [{"$project": {"a.a.a": 0}}],
        [{"$unset": "a.a.a.b"}],
        [{"$addFields": {"b": {"$eq": ["$a", "$a"]}}}],
        [{"$addFields": {"b": {"$mergeObjects": ["$a", "$$ROOT"]}}}],
        [{"$match": {"a": {"$gt": {}}}}],
        [{"$unwind": "$a"}],
        [{"$count": "n"}],
        [{"$facet": {"x": [{"$sort": {"a": 1}}]}}],
        [{"$out": "stored"}],
    ],
    ids=lambda stages: next(iter(stages[0])) if stages else "nothing",
)
def test_stages_make_no_deeper_documents_than_there_may_be(things, last):
    refused(lambda: list(things.aggregate(DEEP + last)))
    assert things.database.stored.find_one() is None
    assert things.count_documents({}) == 3


def test_what_is_deep_on_the_way_may_end_shallow(things):
    pipeline = [wrap(60)] * 3 + [{"$project": {"n": "$" + ".".join(["a"] * 180 + ["n"]), "_id": 0}}]
    assert list(things.aggregate(pipeline)) == [{"n": 0}, {"n": 1}, {"n": 2}]
    # The deepest that there may be: the levels of a document, itself included.
    assert list(things.aggregate([wrap(99), wrap(99)]))[0] == wrapped({"_id": 0, "n": 0}, 198)
    refused(lambda: list(things.aggregate([wrap(100), wrap(100)])))


def nested_let(count, levels):
    """Variables one within another, each of which wraps the one before."""
    expression = f"$$x{count - 1}"
    for number in reversed(range(count)):
        inner = f"$$x{number - 1}" if number else "$$ROOT"
        expression = {"$let": {"vars": {f"x{number}": wrapped(inner, levels)}, "in": expression}}
    return expression


def test_expressions_make_no_deeper_values(things):
    refused(lambda: list(things.aggregate([{"$project": {"x": {"$size": [[nested_let(20, 60)]]}}}])))
    grow = {"$reduce": {"input": {"$range": [0, 5000]}, "initialValue": {}, "in": {"a": "$$value"}}}
    refused(lambda: list(things.aggregate([{"$project": {"x": grow}}])))
    refused(lambda: list(things.find({"$expr": {"$eq": [grow, 1]}})))
    fits = {"$reduce": {"input": {"$range": [0, 100]}, "initialValue": {}, "in": {"a": "$$value"}}}
    assert list(things.aggregate([{"$project": {"_id": 0, "x": fits}}, {"$limit": 1}])) == [{"x": wrapped({}, 100)}]


def test_joins_and_facets_in_one_another(things):
    pipeline = [{"$limit": 1}, wrap(50), wrap(50), wrap(50)]
    for _ in range(15):
        pipeline = [{"$limit": 1}, {"$lookup": {"from": things.name, "pipeline": pipeline, "as": "a"}}, wrap(10)]
    refused(lambda: list(things.aggregate(pipeline)))
    variables = {"v": wrapped("$$ROOT", 50)}
    inner = [{"$limit": 1}, {"$project": {"x": "$$v"}}]
    for _ in range(8):
        inner = [{"$limit": 1}, {"$lookup": {"from": things.name, "let": {"v": wrapped("$$v", 8)}, "pipeline": inner, "as": "x"}}]
    assert list(things.aggregate([{"$lookup": {"from": things.name, "let": variables, "pipeline": inner, "as": "x"}}]))


def test_updates_make_no_deeper_documents(things):
    refused(lambda: things.update_many({}, DEEP))
    refused(lambda: things.update_one({"_id": 9}, DEEP, upsert=True))
    refused(lambda: things.find_one_and_update({"_id": 1}, DEEP))
    assert things.find_one({"_id": 1}) == {"_id": 1, "n": 1}


@pytest.mark.parametrize("components", [LEVELS_MAX + 1, 1_000, 300_000])
def test_paths_longer_than_documents_are_deep(things, components):
    path = ".".join(["a"] * components)
    refused(lambda: things.update_one({path: 1}, {"$set": {"b": 1}}, upsert=True))
    refused(lambda: things.update_one({"_id": 1}, {"$set": {path: 1}}))
    refused(lambda: things.create_index(path), 67)
    refused(lambda: list(things.find({}, {path: 1})))
    refused(lambda: list(things.aggregate([{"$project": {"x": f"${path}"}}])))
    refused(lambda: list(things.find().sort(path, 1)))
    # These only ask, and there is nothing there.
    assert list(things.find({path: 1})) == []
    assert things.distinct(path) == []


def test_the_deepest_paths_there_are(things):
    path = ".".join(["a"] * (LEVELS_MAX - 1))
    things.create_index(path)
    things.update_one({path: 1}, {"$set": {"b": 1}}, upsert=True)
    found = things.find_one({path: 1})
    assert found["b"] == 1 and found["a"] == wrapped(1, LEVELS_MAX - 2)
    things.update_one({"_id": 1}, {"$set": {path: 2}})
    assert things.find_one({path: 2}, hint=f"{path}_1")["_id"] == 1
