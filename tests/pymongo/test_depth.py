"""Documents and paths that would nest without end: refused where they arise, and the server goes on.

A stage wraps what it reads, so stages in a row make what no client could send. Whatever is asked of such a document, no recursion may end the process.
"""

import struct

import bson
import pytest
from pymongo.errors import OperationFailure

from wire import Wire

OVERFLOW = 15
INTERNAL_ERROR, BAD_VALUE, UNKNOWN_ERROR = 1, 2, 8
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


# What nests in a command, as deep as commands may be: each goes through planning, explain, the profiler and the list of what runs.
# The first number is how many levels of documents and arrays one turn is.

ROOM = LEVELS_MAX - 12
# Filters nest less deep than documents, as in MongoDB.
FILTERS_MAX = 100


def turned(once, turns, innermost):
    for _ in range(turns):
        innermost = once(innermost)
    return innermost


def expression(once, levels, innermost="$n"):
    return [{"$project": {"x": turned(once, ROOM // levels, innermost)}}]


def joined(stages):
    return [{"$limit": 2}, {"$lookup": {"from": "things", "pipeline": stages, "as": "a"}}]


FILTER_NESTS = {
    "$and": turned(lambda inner: {"$and": [inner, {"n": {"$gte": 0}}]}, ROOM // 2, {"n": 1}),
    "$or and $and": turned(lambda inner: {"$or": [{"$and": [inner, {"m": None}]}, {"x": 1}]}, ROOM // 4, {"n": 1}),
    "$nor": turned(lambda inner: {"$nor": [inner]}, ROOM // 2, {"n": 1}),
    "$not": {"n": turned(lambda inner: {"$not": inner}, FILTERS_MAX - 5, {"$eq": 1})},
    "too many $not": {"n": turned(lambda inner: {"$not": inner}, ROOM - 2, {"$eq": 1})},
    "$elemMatch": turned(lambda inner: {"a": {"$elemMatch": inner}}, ROOM // 2, {"n": 1}),
    "$elemMatch of values": {"a": turned(lambda inner: {"$elemMatch": inner}, FILTERS_MAX - 5, {"$gt": 1})},
    "too many $elemMatch": {"a": turned(lambda inner: {"$elemMatch": inner}, ROOM - 2, {"$gt": 1})},
    "long paths": turned(lambda inner: {".".join(["a"] * 199): {"$elemMatch": inner}}, ROOM // 2, {"n": 1}),
    "$expr": {"$expr": turned(lambda inner: {"$not": [inner]}, ROOM // 2 - 1, "$n")},
    "a value": {"a": wrapped(1, ROOM)},
    "a list": {"a": {"$in": [wrapped(1, ROOM - 2), 1]}},
}
PIPELINE_NESTS = {
    "$cond": expression(lambda inner: {"$cond": [True, inner, 1]}, 2),
    "$switch": expression(lambda inner: {"$switch": {"branches": [{"case": "$n", "then": inner}], "default": 0}}, 4),
    "$let": expression(lambda inner: {"$let": {"vars": {"v": inner}, "in": "$$v"}}, 3),
    "$map": expression(lambda inner: {"$map": {"input": [1], "in": inner}}, 2),
    "$reduce": expression(lambda inner: {"$reduce": {"input": [1], "initialValue": 1, "in": inner}}, 2),
    "$add": expression(lambda inner: {"$add": [inner]}, 2),
    "documents": expression(lambda inner: {"a": inner}, 1),
    "arrays": expression(lambda inner: [inner], 1),
    "$match": [{"$match": FILTER_NESTS["$or and $and"]}],
    "$lookup": turned(joined, (ROOM - 4) // 4, []),
    "$unionWith": turned(lambda inner: [{"$unionWith": {"coll": "things", "pipeline": inner}}, {"$limit": 3}], (ROOM - 4) // 4, []),
    "$facet": [{"$facet": {"x": turned(joined, (ROOM - 8) // 4, [])}}],
    "$group": [{"$group": {"_id": wrapped("$n", ROOM), "x": {"$push": wrapped("$n", ROOM - 1)}}}],
    "$addFields": [{"$addFields": wrapped("$n", ROOM)}],
    "$sort": [{"$sort": {".".join(["a"] * LEVELS_MAX): 1}}],
}


def or_refused_by_name(run):
    """Its outcome is not this test's; that the server has one is."""
    try:
        run()
    except OperationFailure as error:
        assert error.code not in (None, INTERNAL_ERROR, UNKNOWN_ERROR), error.details


@pytest.fixture
def nested(collection):
    things = collection.database["things"]
    things.insert_many([{"_id": n, "n": n, "a": wrapped(n, LEVELS_MAX - 2)} for n in range(4)])
    collection.database.command("profile", 2)
    yield things
    collection.database.command("profile", 0)
    collection.database.drop_collection("system.profile")
    assert things.count_documents({}) == 4
    things.drop()


@pytest.mark.parametrize("name", FILTER_NESTS)
def test_filters_as_deep_as_they_may_be(nested, name):
    condition, database = FILTER_NESTS[name], nested.database
    if name.startswith("too many"):
        refused(lambda: list(nested.find(condition)), BAD_VALUE)
    else:
        list(nested.find(condition))
    nested.create_index([("n", 1), ("a", -1)])
    or_refused_by_name(lambda: list(nested.find(condition)))
    or_refused_by_name(lambda: nested.update_many(condition, {"$set": {"n": 1}}))
    or_refused_by_name(lambda: database.command("explain", {"find": "things", "filter": condition}, verbosity="executionStats"))
    or_refused_by_name(lambda: list(database.client.admin.aggregate([{"$currentOp": {}}, {"$match": condition}])))
    or_refused_by_name(lambda: database.client.admin.command({"currentOp": 1, **condition}))
    or_refused_by_name(lambda: nested.update_one(condition, {"$set": {"x": 1}}, upsert=True))
    nested.delete_many({"_id": {"$nin": list(range(4))}})
    or_refused_by_name(lambda: nested.create_index("x", partialFilterExpression=condition))
    or_refused_by_name(lambda: database.create_collection("valid", validator=condition))
    or_refused_by_name(lambda: database["valid"].insert_one({"a": 1}))
    or_refused_by_name(lambda: nested.update_one({}, {"$pull": {"a": condition}}))
    or_refused_by_name(lambda: nested.update_one({}, {"$set": {"a.$[i]": 1}}, array_filters=[{"i.a": condition}]))
    or_refused_by_name(lambda: nested.find_one(condition, hint=[("a", 1)]))
    database.drop_collection("valid")
    assert list(database["system.profile"].find({"ns": nested.full_name}).sort("command", 1))


@pytest.mark.parametrize("name", PIPELINE_NESTS)
def test_pipelines_as_deep_as_they_may_be(nested, name):
    pipeline, database = PIPELINE_NESTS[name], nested.database
    or_refused_by_name(lambda: list(nested.aggregate(pipeline)))
    or_refused_by_name(lambda: list(nested.aggregate([*pipeline, {"$sort": {"x": 1}}, {"$group": {"_id": "$$ROOT"}}])))
    or_refused_by_name(lambda: database.command("explain", {"aggregate": "things", "pipeline": pipeline, "cursor": {}}, verbosity="executionStats"))
    or_refused_by_name(lambda: nested.update_many({}, pipeline))
    or_refused_by_name(lambda: nested.find_one({}, pipeline[0].get("$project")))


def test_projections_of_long_paths_in_one_another(nested):
    """Each path is no longer than it may be, together they are."""
    path = ".".join(["a"] * (LEVELS_MAX // 2))
    for projection in [turned(lambda inner: {path: inner}, turns, 1) for turns in (3, ROOM // 2)]:
        or_refused_by_name(lambda: nested.find_one({}, projection))
        or_refused_by_name(lambda: list(nested.aggregate([{"$project": projection}])))
        or_refused_by_name(lambda: list(nested.aggregate([{"$addFields": projection}])))
        or_refused_by_name(lambda: list(nested.aggregate([{"$project": turned(lambda inner: {path: inner}, ROOM // 2, 0)}])))


@pytest.mark.parametrize("levels", [LEVELS_MAX + 1, 5_000, 100_000])
def test_deeper_messages_are_refused(server, nested, levels):
    """In the command and in a sequence of documents beside it, also where nothing asks for it."""
    deep = b"\x10n\x00\x01\x00\x00\x00"
    for _ in range(levels):
        deep = b"\x03a\x00" + struct.pack("<i", len(deep) + 5) + deep + b"\x00"
    deep = struct.pack("<i", len(deep) + 5) + deep + b"\x00"
    wire = Wire(server)
    for command, name in [({"find": "things"}, b"filter"), ({"ping": 1}, b"comment"), ({"hello": 1}, b"client"), ({"explain": 1}, b"x")]:
        body = bson.encode({**command, "$db": nested.database.name})
        body = body[4:-1] + b"\x03" + name + b"\x00" + deep + b"\x00"
        assert wire.run_encoded(struct.pack("<i", len(body) + 4) + body)["code"] in (15, 22, 10334)
    for command, name in [({"insert": "things"}, b"documents"), ({"update": "things"}, b"updates"), ({"delete": "things"}, b"deletes")]:
        reply = wire.run_with_sequence(bson.encode({**command, "$db": nested.database.name}), name, deep)
        assert reply["ok"] == 0 or reply["writeErrors"], reply
    wire.close()
