"""Collation: commands, collections and indexes compare text as a language does.

Source of what is expected: the manual's pages "Collation", "Create an Index with Collation", and those of the commands and operators.
"""

import random

import pytest
from pymongo import ASCENDING, DESCENDING, UpdateOne
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure

CASELESS = {"locale": "en", "strength": 2}
FRENCH = {"locale": "fr"}


@pytest.fixture
def people(collection):
    names = ["Ada", "ada", "Bob", "bob", "Émile", "emile", "Zoe", "öz", 5, None]
    collection.insert_many([{"_id": number, "name": name} for number, name in enumerate(names)])
    return collection


def ids(cursor):
    return [document["_id"] for document in cursor]


def plan(collection, command):
    return collection.database.command("explain", command, verbosity="queryPlanner")["queryPlanner"]["winningPlan"]


def stages(node):
    """The stages of a plan, from the top."""
    below = node.get("inputStages", []) + ([node["inputStage"]] if "inputStage" in node else [])
    return [node] + [stage for inner in below for stage in stages(inner)]


def index_of(collection, command):
    """The index scan of a plan; `None` without one."""
    return next((stage for stage in stages(plan(collection, command)) if stage["stage"] == "IXSCAN"), None)


def test_filters(people):
    find = lambda filter, collation=CASELESS: sorted(ids(people.find(filter, collation=collation)))
    assert find({"name": "ADA"}) == [0, 1]
    assert find({"name": "ADA"}, {"locale": "simple"}) == []
    assert find({"name": {"$in": ["ADA", "BOB", 5]}}) == [0, 1, 2, 3, 8]
    assert find({"name": {"$nin": ["ADA", "BOB", 5]}}) == [4, 5, 6, 7, 9]
    assert find({"name": {"$gt": "bob"}}) == [4, 5, 6, 7]
    assert find({"name": {"$lte": "bob"}}) == [0, 1, 2, 3]
    assert find({"name": {"$ne": "ADA"}}) == [2, 3, 4, 5, 6, 7, 8, 9]
    # Patterns are matched with the text itself.
    assert find({"name": {"$regex": "^a"}}) == [1]
    assert find({"$expr": {"$eq": ["$name", "ADA"]}}) == [0, 1]
    assert find({"name": "EMILE"}, {"locale": "en", "strength": 1}) == [4, 5]


def test_inside_of_arrays_and_documents(collection):
    collection.insert_many([{"_id": 1, "a": ["X", {"b": "Y"}]}, {"_id": 2, "a": {"b": "y"}}])
    find = lambda filter: ids(collection.find(filter, collation=CASELESS).sort("_id", 1))
    for index in (None, "a", "a.b"):
        if index:
            collection.create_index(index, collation=CASELESS)
        assert find({"a": "x"}) == [1]
        assert find({"a": ["x", {"b": "y"}]}) == [1]
        assert find({"a": {"b": "Y"}}) == [1, 2]
        assert find({"a.b": "Y"}) == [1, 2]
        assert find({"a": {"$elemMatch": {"$eq": "x"}}}) == [1]


def test_sorts(people):
    order = lambda collation: ids(people.find({"name": {"$type": "string"}}, collation=collation).sort("name", 1))
    assert order({"locale": "en"}) == [1, 0, 3, 2, 5, 4, 7, 6]
    assert order({"locale": "sv"}) == [1, 0, 3, 2, 5, 4, 6, 7]
    assert order({"locale": "en", "caseFirst": "upper"}) == [0, 1, 2, 3, 5, 4, 7, 6]
    numbers = people.database["numbers"]
    numbers.insert_many([{"_id": number, "a": f"a{number}"} for number in (10, 9, 2)])
    assert ids(numbers.find(collation={"locale": "en", "numericOrdering": True}).sort("a", 1)) == [2, 9, 10]
    assert ids(numbers.find(collation={"locale": "en"}).sort("a", 1)) == [10, 2, 9]


def test_later_batches_compare_as_the_first(people):
    found = people.aggregate(
        [{"$match": {"name": {"$type": "string"}}}, {"$project": {"same": {"$eq": ["$name", "ADA"]}}}], collation=CASELESS, batchSize=1
    )
    assert [document["_id"] for document in found if document["same"]] == [0, 1]


def test_counts_and_distinct_values(people):
    assert people.count_documents({"name": "ADA"}, collation=CASELESS) == 2
    assert people.database.command("count", people.name, query={"name": "ADA"}, collation=CASELESS)["n"] == 2
    for _ in range(2):
        found = people.distinct("name", {"name": {"$type": "string"}}, collation=CASELESS)
        assert found == ["Ada", "Bob", "emile", "Émile", "öz", "Zoe"]
        assert len(people.distinct("name", collation=CASELESS)) == 8
        assert len(people.distinct("name")) == 10
        people.create_index("name")


def test_changes(people):
    assert people.update_many({"name": "ADA"}, {"$set": {"a": 1}}, collation=CASELESS).modified_count == 2
    assert people.update_one({"name": "ADA"}, {"$set": {"a": 1}}).matched_count == 0
    result = people.bulk_write([
        UpdateOne({"name": "BOB"}, {"$set": {"b": 1}}, collation=Collation(**CASELESS)),
        UpdateOne({"name": "BOB"}, {"$set": {"b": 2}}),
    ])
    assert result.matched_count == 1
    found = people.find_one_and_update({"name": "ZOE"}, {"$set": {"c": 1}}, collation=CASELESS)
    assert found["_id"] == 6
    assert people.delete_many({"name": "BOB"}, collation=CASELESS).deleted_count == 2
    assert people.delete_one({"name": "ADA"}).deleted_count == 0
    people.insert_one({"_id": "x", "list": ["a", "B"], "low": "b", "elements": [{"k": "a", "v": 1}, {"k": "B", "v": 1}]})
    update = {
        "$addToSet": {"list": "A"},
        "$min": {"low": "A"},
        "$set": {"elements.$[one].v": 2},
    }
    people.update_one({"_id": "x"}, update, collation=CASELESS, array_filters=[{"one.k": "b"}])
    expected = {"list": ["a", "B"], "low": "A", "elements": [{"k": "a", "v": 1}, {"k": "B", "v": 2}]}
    assert people.find_one({"_id": "x"}, {"_id": 0}) == expected
    people.update_one({"_id": "x"}, {"$pull": {"list": "b"}, "$push": {"elements": {"$each": [], "$sort": {"k": -1}}}}, collation=CASELESS)
    assert people.find_one({"_id": "x"})["list"] == ["a"]
    # An _id stays what it is, to the byte.
    with pytest.raises(OperationFailure) as caught:
        people.replace_one({"_id": "X"}, {"_id": "X"}, collation=CASELESS)
    assert caught.value.code == 66


def test_pipelines(people):
    run = lambda *pipeline: list(people.aggregate(list(pipeline), collation=CASELESS))
    text = {"$match": {"name": {"$type": "string"}}}
    groups = run(text, {"$group": {"_id": "$name", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}})
    assert [(group["_id"].lower(), group["n"]) for group in groups] == [("ada", 2), ("bob", 2), ("emile", 1), ("émile", 1), ("öz", 1), ("zoe", 1)]
    joined = run({"$match": {"_id": 0}}, {"$lookup": {"from": people.name, "localField": "name", "foreignField": "name", "as": "same"}})
    assert sorted(ids(joined[0]["same"])) == [0, 1]
    values = run({"$match": {"_id": 0}}, {"$project": {
        "cmp": {"$cmp": ["a", "A"]}, "union": {"$setUnion": [["a", "A", "b"]]}, "in": {"$in": ["A", ["a"]]}, "max": {"$max": ["a", "B"]},
        "index": {"$indexOfArray": [["x", "a"], "A"]}, "equals": {"$setEquals": [["a"], ["A", "a"]]}, "text": {"$strcasecmp": ["a", "A"]},
        "sorted": {"$sortArray": {"input": ["b", "C", "a"], "sortBy": 1}}, "bytes": {"$indexOfBytes": ["a", "A"]},
    }})[0]
    del values["_id"], values["union"]
    assert values == {"cmp": 0, "in": True, "max": "B", "index": 1, "equals": True, "text": 0, "sorted": ["a", "b", "C"], "bytes": -1}
    buckets = run(text, {"$bucket": {"groupBy": "$name", "boundaries": ["A", "c", "zz"], "output": {"n": {"$sum": 1}}}})
    assert [bucket["n"] for bucket in buckets] == [4, 4]
    sets = run(text, {"$group": {"_id": None, "all": {"$addToSet": "$name"}, "first": {"$min": "$name"}}})[0]
    assert len(sets["all"]) == 6 and sets["first"].lower() == "ada"


def test_a_collection_has_a_default(database):
    things = database.create_collection("things", collation=CASELESS)
    things.insert_many([{"_id": "A", "x": "Y"}, {"_id": "b", "x": "z"}])
    assert ids(things.find({"x": "y"})) == ["A"]
    assert ids(things.find({"x": "y"}, collation={"locale": "simple"})) == []
    assert things.count_documents({"x": "y"}) == 1
    assert things.update_one({"x": "y"}, {"$set": {"n": 1}}).matched_count == 1
    # The index on _id has it, too.
    assert things.find_one({"_id": "a"})["_id"] == "A"
    assert things.find_one({"_id": "a"}, collation=FRENCH) is None
    assert plan(things, {"find": "things", "filter": {"_id": "a"}})["stage"] == "IDHACK"
    assert [stage["stage"] for stage in stages(plan(things, {"find": "things", "filter": {"_id": "a"}, "collation": FRENCH}))] == ["COLLSCAN"]
    with pytest.raises(DuplicateKeyError):
        things.insert_one({"_id": "a"})
    # So have indexes, unless they are given another.
    things.create_index("x")
    things.create_index([("x", 1)], name="simple", collation={"locale": "simple"})
    things.create_index([("x", 1)], name="french", collation=FRENCH)
    indexes = {index["name"]: index for index in things.list_indexes()}
    options = database.command("listCollections")["cursor"]["firstBatch"][0]
    assert options["options"]["collation"] == indexes["x_1"]["collation"] == indexes["_id_"]["collation"] == options["idIndex"]["collation"]
    assert dict(indexes["x_1"]["collation"]) | CASELESS == dict(indexes["x_1"]["collation"])
    assert "collation" not in indexes["simple"]
    assert indexes["french"]["collation"]["locale"] == "fr" and indexes["french"]["collation"]["strength"] == 3
    with pytest.raises(OperationFailure) as caught:
        database.command("create", "things", collation=FRENCH)
    assert caught.value.code == 48
    database.command("create", "things", collation=CASELESS)


def test_unique_indexes(collection):
    collection.create_index("a", unique=True, collation=CASELESS)
    collection.insert_one({"a": "X"})
    with pytest.raises(DuplicateKeyError) as caught:
        collection.insert_one({"a": "x"})
    assert 'collation: { locale: "en"' in caught.value.details["errmsg"]
    assert "dup key: { a: \"CollationKey(0x" in caught.value.details["errmsg"]
    collection.insert_one({"a": "xx"})
    collection.drop_indexes()
    collection.insert_one({"a": "x"})
    with pytest.raises(DuplicateKeyError):
        collection.create_index("a", unique=True, collation=CASELESS)
    collection.create_index("a", unique=True, collation={"locale": "en"})


def test_an_index_is_used_for_text_only_by_queries_of_its_collation(people):
    people.create_index("name", name="caseless", collation=CASELESS)
    scan = lambda filter, collation=None, **fields: index_of(people, {"find": people.name, "filter": filter} | ({"collation": collation} if collation else {}) | fields)
    used = scan({"name": "ADA"}, CASELESS)
    assert used["indexName"] == "caseless" and used["collation"]["strength"] == 2
    assert used["indexBounds"]["name"][0].startswith("[CollationKey(0x")
    for other in (None, FRENCH, {"locale": "en", "strength": 1}):
        for filter in ({"name": "ADA"}, {"name": {"$gt": "a"}}, {"name": {"$in": [1, "a"]}}, {"name": ["a"]}, {"name": {"$not": {"$gt": "x"}}}):
            assert scan(filter, other) is None, (filter, other)
        for filter in ({"name": 5}, {"name": {"$gt": 1}}, {"name": None}, {"name": {"$type": "string"}}):
            assert scan(filter, other)["indexName"] == "caseless", (filter, other)
    # The whole name counts, not only a beginning that a pattern names.
    assert scan({"name": {"$regex": "^a"}}, CASELESS) is None
    # An order is the index's only under its collation; text does not come out of its keys.
    names = lambda collation: [stage["stage"] for stage in stages(plan(people, {"find": people.name, "filter": {"name": {"$gt": 1}}, "sort": {"name": 1}, "projection": {"_id": 0, "name": 1}, "collation": collation}))]
    assert "SORT" not in names(CASELESS) and "FETCH" in names(CASELESS)
    assert "SORT" in names(FRENCH)
    assert ids(people.find({"name": "ada"}).hint("caseless")) == [1]
    assert ids(people.find({"name": "ADA"}, collation=CASELESS).hint("caseless")) == [0, 1]
    # Another index of the same fields is another index.
    people.create_index("name")
    assert scan({"name": "ADA"})["indexName"] == "name_1"
    assert scan({"name": "ADA"}, CASELESS)["indexName"] == "caseless"


def test_partial_indexes_and_validators_have_their_own(database):
    things = database.create_collection("things", collation=CASELESS, validator={"kind": {"$in": ["A", "B"]}})
    things.insert_one({"_id": 1, "kind": "a", "x": "1"})
    with pytest.raises(OperationFailure):
        things.update_one({"_id": 1}, {"$set": {"kind": "c"}}, collation={"locale": "simple"})
    assert things.update_one({"_id": 1}, {"$set": {"kind": "b"}}, collation={"locale": "simple"}).modified_count == 1
    things.create_index("x", partialFilterExpression={"kind": "B"})
    assert index_of(things, {"find": "things", "filter": {"x": "1", "kind": "b"}})["indexName"] == "x_1"
    assert index_of(things, {"find": "things", "filter": {"x": 1, "kind": "b"}, "collation": FRENCH}) is None
    assert ids(things.find({"x": "1", "kind": "b"})) == [1]


def test_keys_outlast_a_restart(people, kill_and_restart):
    people.create_index("name", collation=CASELESS)
    kill_and_restart()
    people.insert_one({"_id": 20, "name": "ADA"})
    assert ids(people.find({"name": "ada"}, collation=CASELESS).hint("name_1").sort("_id", 1)) == [0, 1, 20]


WORDS = ["a", "A", "á", "Á", "ab", "a-b", "a b", "b", "B", "", "10", "9", "ß", "ss", "ö", "oe", "z", "\u0000", "ａ", "e\u0301", "é"]


@pytest.mark.parametrize(
    "collation",
    [
        {"locale": "en"},
        {"locale": "de", "strength": 1},
        {"locale": "fr", "backwards": True},
        {"locale": "en", "strength": 1, "caseLevel": True},
        {"locale": "en", "alternate": "shifted", "strength": 4},
        {"locale": "da", "numericOrdering": True, "caseFirst": "upper"},
        {"locale": "en", "strength": 5, "normalization": True},
    ],
)
def test_an_index_finds_what_a_scan_finds(collection, collation):
    chosen = random.Random(str(collation))
    plain = lambda: chosen.choice([chosen.choice(WORDS), chosen.choice(WORDS) + chosen.choice(WORDS), chosen.choice([1, None, True, {"k": chosen.choice(WORDS)}])])
    value = lambda: [plain(), plain()] if chosen.random() < 0.1 else plain()
    collection.insert_many([{"_id": number, "a": value(), "b": plain()} for number in range(300)])
    collection.create_index([("a", ASCENDING), ("b", DESCENDING)], name="index", collation=collation)
    text = lambda: chosen.choice(WORDS) + chosen.choice(WORDS)
    for _ in range(40):
        filter = chosen.choice([
            {"a": value()}, {"a": {"$gte": text()}}, {"a": {"$lt": text(), "$gt": text()}}, {"a": {"$in": [value() for _ in range(4)]}},
            {"a": {"$ne": text()}, "b": {"$lte": text()}}, {"a": text(), "b": {"$gt": text()}}, {"a": {"$not": {"$gt": text()}}}, {"a": {"$regex": "a"}},
        ])
        by_index = ids(collection.find(filter, collation=collation).hint("index"))
        by_scan = ids(collection.find(filter, collation=collation).hint({"$natural": 1}))
        assert sorted(by_index) == sorted(by_scan), filter
        for other in (None, {"locale": "sv"}):
            assert sorted(ids(collection.find(filter, collation=other))) == sorted(ids(collection.find(filter, collation=other).hint({"$natural": 1}))), filter
    some = {"a": {"$type": ["string", "number"]}}
    keys = lambda cursor: [(document["a"], document["_id"]) for document in cursor]
    sort = [("a", 1), ("_id", 1)]
    assert keys(collection.find(some, collation=collation).sort(sort).hint("index")) == keys(collection.find(some, collation=collation).sort(sort).hint({"$natural": 1}))


@pytest.mark.parametrize(
    "collation, code",
    [
        ({"locale": "xx"}, 2),
        ({"locale": "en_us"}, 2),
        ({"locale": "en", "strength": 9}, 2),
        ({"locale": "en", "caseFirst": "what"}, 2),
        ({"locale": "en", "alternate": 1}, 14),
        ({"strength": 1}, 40414),
        ({"locale": "en", "strong": 1}, 40415),
        ({"locale": "en", "version": "1"}, 161),
        ({"locale": "simple", "strength": 1}, 2),
        ({"locale": "en@collation=search"}, 238),
        (5, 14),
    ],
)
def test_refused(collection, collation, code):
    name = collection.name
    for command in (
        {"find": name, "filter": {}, "collation": collation},
        {"count": name, "collation": collation},
        {"distinct": name, "key": "a", "collation": collation},
        {"aggregate": name, "pipeline": [], "cursor": {}, "collation": collation},
        {"findAndModify": name, "remove": True, "collation": collation},
        {"update": name, "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "collation": collation}]},
        {"delete": name, "deletes": [{"q": {}, "limit": 0, "collation": collation}]},
        {"create": "another", "collation": collation},
        {"createIndexes": name, "indexes": [{"key": {"a": 1}, "name": "a", "collation": collation}]},
        {"explain": {"find": name, "filter": {}, "collation": collation}},
    ):
        with pytest.raises(OperationFailure) as caught:
            collection.database.command(command)
        assert caught.value.code == code, (command, caught.value.details)
        assert caught.value.details["codeName"]
