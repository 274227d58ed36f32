"""JavaScript of clients: `$where`, `$function`, `$accumulator`. Source of what is expected: the manual's pages on them."""

import pytest
from bson import Code, Int64
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

from server_process import ServerProcess


@pytest.fixture
def things(collection):
    collection.insert_many([{"_id": number, "a": number % 3, "b": number % 2, "t": ["x", "y"][number % 2]} for number in range(12)])
    return collection


def ids(cursor):
    return sorted(document["_id"] for document in cursor)


@pytest.mark.parametrize("code", ["this.a == this.b", "function() { return this.a == this.b; }", "return obj.a == this.b", Code("this.a == this.b")])
def test_where(things, code):
    expected = [number for number in range(12) if number % 3 == number % 2]
    assert ids(things.find({"$where": code})) == expected
    assert things.database.command("count", things.name, query={"$where": code})["n"] == len(expected)
    assert ids(things.find({"a": 1, "$or": [{"$where": code}, {"_id": 4}]})) == [1, 4, 7]
    assert things.distinct("_id", {"$where": code}) == expected
    assert things.update_many({"$where": code}, {"$set": {"c": 1}}).modified_count == len(expected)
    things.create_index("a")
    assert ids(things.find({"a": 0, "$where": code})) == [0, 6]
    assert things.delete_many({"$where": code}).deleted_count == len(expected)


def test_where_is_for_queries_only(things):
    for attempt in (
        lambda: things.find_one({"x": {"$elemMatch": {"$where": "true"}}}),
        lambda: things.find_one({"x": {"$where": "true"}}),
        lambda: things.find_one({"$where": 5}),
        lambda: list(things.aggregate([{"$match": {"$where": "true"}}])),
        lambda: things.database.create_collection("other", validator={"$where": "true"}),
        lambda: things.find_one({"$where": Code("true", {"a": 1})}),
    ):
        with pytest.raises(OperationFailure) as caught:
            attempt()
        assert caught.value.code == 2


def test_function(things):
    add = {"$function": {"body": "function(a, b) { return a + b; }", "args": ["$a", "$_id"], "lang": "js"}}
    found = list(things.aggregate([{"$sort": {"_id": 1}}, {"$project": {"sum": add}}]))
    assert [document["sum"] for document in found] == [number % 3 + number for number in range(12)]
    assert ids(things.find({"$expr": {"$gt": [add, 10]}})) == [10, 11]
    types = {"$function": {"body": Code("function(x) { return {n: NumberInt(5), l: NumberLong(6), d: new Date(0), x: x, u: undefined}; }"), "args": [{"k": [1]}], "lang": "js"}}
    made = things.aggregate([{"$limit": 1}, {"$project": {"_id": 0, "m": types}}]).next()["m"]
    assert (made["n"], made["l"], made["x"]) == (5, Int64(6), {"k": [1]})
    # It is computed for each batch of a cursor, in an engine of its own.
    batches = things.aggregate([{"$project": {"sum": add}}], batchSize=2)
    assert len(list(batches)) == 12
    assert things.update_one({"_id": 1}, [{"$set": {"s": {"$function": {"body": "function(t) { return t + '!'; }", "args": ["$t"], "lang": "js"}}}}]).modified_count == 1
    assert things.find_one({"_id": 1})["s"] == "y!"


AVERAGE = {
    "$accumulator": {
        "init": "function(start) { return {n: 0, sum: start}; }",
        "initArgs": [0],
        "accumulate": "function(state, value) { return {n: state.n + 1, sum: state.sum + value}; }",
        "accumulateArgs": ["$_id"],
        "merge": "function(one, other) { return {n: one.n + other.n, sum: one.sum + other.sum}; }",
        "finalize": "function(state) { return state.sum / state.n; }",
        "lang": "js",
    }
}


def test_accumulator(things):
    groups = things.aggregate([{"$group": {"_id": "$a", "average": AVERAGE, "usual": {"$avg": "$_id"}}}])
    assert all(group["average"] == group["usual"] for group in groups)
    plain = {"$accumulator": AVERAGE["$accumulator"] | {"finalize": None}}
    del plain["$accumulator"]["finalize"], plain["$accumulator"]["initArgs"]
    plain["$accumulator"]["init"] = Code("function() { return {n: 0, sum: 0}; }")
    assert things.aggregate([{"$group": {"_id": None, "state": plain}}]).next()["state"] == {"n": 12, "sum": 66}


MAP = "function() { emit(this.a, this._id); }"
REDUCE = "function(key, values) { return Array.sum(values); }"


def test_map_reduce(things):
    database = things.database
    run = lambda **fields: database.command({"mapReduce": things.name, "map": MAP, "reduce": REDUCE, "out": {"inline": 1}} | fields)
    expected = {group: sum(range(group, 12, 3)) for group in range(3)}
    assert {result["_id"]: result["value"] for result in run()["results"]} == expected
    few = run(query={"_id": {"$lt": 6}}, sort={"_id": -1}, limit=3, finalize="function(key, value) { return {key: key, value: value * factor}; }", scope={"factor": 2})
    assert {result["_id"]: result["value"]["value"] for result in few["results"]} == {2: 10, 1: 8, 0: 6}
    # One value is not reduced.
    assert run(query={"_id": 4}, reduce="function() { throw 'never'; }")["results"] == [{"_id": 1, "value": 4}]
    assert run(out="sums")["result"] == "sums"
    assert {result["_id"]: result["value"] for result in database["sums"].find()} == expected
    assert run(out={"replace": "other", "db": database.name})["result"] == {"db": database.name, "collection": "other"}
    assert database["other"].count_documents({}) == 3
    # Very many values of a key are reduced in parts.
    database["many"].insert_many([{"a": 1} for _ in range(1000)])
    counted = database.command("mapReduce", "many", map="function() { emit('k', 1); emit('k', 1); }", reduce=REDUCE, out={"inline": 1})
    assert counted["results"] == [{"_id": "k", "value": 2000}]
    for fields, code in (({"out": None}, None), ({"map": 5}, 14), ({"out": {"inline": 1, "db": "x"}}, 2), ({"map": "function() { missing(); }"}, 139)):
        with pytest.raises(OperationFailure) as caught:
            run(**fields)
        assert code is None or caught.value.code == code, caught.value.details


@pytest.mark.parametrize(
    "expression, code",
    [
        ({"body": "function() { return missing; }", "args": [], "lang": "js"}, 139),
        ({"body": "function(", "args": [], "lang": "js"}, 139),
        ({"body": "function() { for (var a = [];;) a.push(new Array(999).fill(a)); }", "args": [], "lang": "js"}, 146),
        ({"body": "function() { var a = {}; return a.a = a; }", "args": [], "lang": "js"}, 139),
        ({"body": "function() {}", "args": [], "lang": "py"}, 31419),
        ({"body": "function() {}", "args": 5, "lang": "js"}, 4660804),
        ({"body": "function() {}", "args": []}, 4660803),
        ({"args": [], "lang": "js"}, 4660801),
        (5, 4660800),
    ],
)
def test_mistakes(things, expression, code):
    with pytest.raises(OperationFailure) as caught:
        list(things.aggregate([{"$project": {"x": {"$function": expression}}}]))
    assert caught.value.code == code, caught.value.details
    # The server is of use afterwards.
    assert len(ids(things.find({"$where": "true"}))) == 12


@pytest.mark.parametrize("code", ["for (;;) {}", "sleep(1000000); return true", "while (true) { try { f(); } catch (e) {} }"])
def test_a_script_obeys_the_time_limit(things, code):
    with pytest.raises(ExecutionTimeout):
        list(things.find({"$where": "function() {" + code + "}"}).max_time_ms(100))


def test_nothing_is_left_of_a_command(things):
    assert len(ids(things.find({"$where": "globalThis.count = (globalThis.count || 0) + 1; return true"}))) == 12
    assert ids(things.find({"$where": "typeof count != 'undefined'"})) == []


def test_without_scripting(tmp_path):
    process = ServerProcess(tmp_path, ["--no-scripting"])
    process.start()
    try:
        collection = MongoClient(process.uri)["d"]["c"]
        collection.insert_one({"a": 1})
        for attempt in (
            lambda: collection.find_one({"$where": "true"}),
            lambda: collection.aggregate([{"$project": {"x": {"$function": {"body": "function() {}", "args": [], "lang": "js"}}}}]),
            lambda: collection.aggregate([{"$group": {"_id": None, "x": AVERAGE}}]),
        ):
            with pytest.raises(OperationFailure) as caught:
                attempt()
            assert caught.value.code == 2 and "disabled" in caught.value.details["errmsg"]
    finally:
        process.stop()
