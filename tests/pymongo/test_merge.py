"""`$merge`: what becomes of the documents of its target, as the manual's page of the stage says. Its argument is tested
by golden scripts (`merge.txt` in `aggregation`)."""

import pytest
from pymongo.errors import OperationFailure, WriteError


@pytest.fixture
def source(database):
    database["source"].insert_many([{"_id": 1, "a": 1, "n": 10}, {"_id": 2, "a": 2, "n": 20}, {"_id": 3, "a": 3, "n": 30}])
    return database["source"]


def merge(source, *before, **options):
    assert list(source.aggregate([*before, {"$merge": options}])) == []


def everything(collection):
    return list(collection.find({}, sort=[("_id", 1)]))


def code_of(act):
    with pytest.raises(OperationFailure) as caught:
        act()
    return caught.value.code


OLD = [{"_id": 2, "old": True}, {"_id": 9}]
NEW = [{"_id": 1, "a": 1, "n": 10}, {"_id": 3, "a": 3, "n": 30}]
MODES = {
    ("replace", "insert"): [NEW[0], {"_id": 2, "a": 2, "n": 20}, NEW[1], {"_id": 9}],
    ("replace", "discard"): [{"_id": 2, "a": 2, "n": 20}, {"_id": 9}],
    ("merge", "insert"): [NEW[0], {"_id": 2, "old": True, "a": 2, "n": 20}, NEW[1], {"_id": 9}],
    ("merge", "discard"): [{"_id": 2, "old": True, "a": 2, "n": 20}, {"_id": 9}],
    ("keepExisting", "insert"): [NEW[0], OLD[0], NEW[1], OLD[1]],
}


@pytest.mark.parametrize("matched,not_matched", MODES)
def test_modes(database, source, matched, not_matched):
    database["target"].insert_many(OLD)
    merge(source, into="target", whenMatched=matched, whenNotMatched=not_matched)
    assert everything(database["target"]) == MODES[matched, not_matched]


def test_a_pipeline_sees_the_old_document_and_the_new(database, source):
    target = database["target"]
    target.insert_one({"_id": 2, "n": 1})
    pipeline = [{"$set": {"n": {"$add": ["$n", "$$new.n", "$$more"]}}}]
    merge(source, into="target", let={"more": {"$multiply": ["$a", 100]}}, whenMatched=pipeline)
    # What is inserted is the new document as it is.
    assert everything(target) == [NEW[0], {"_id": 2, "n": 221}, NEW[1]]


def test_failing_when_there_is_one_or_none(database, source):
    target = database["target"]
    target.insert_one({"_id": 2})
    assert code_of(lambda: merge(source, {"$sort": {"_id": 1}}, into="target", whenMatched="fail")) == 11000
    assert everything(target) == [NEW[0], {"_id": 2}], "what was written before the error stays"
    with pytest.raises(OperationFailure) as caught:
        merge(source, {"$sort": {"_id": -1}}, into="target", whenNotMatched="fail")
    assert (caught.value.code, caught.value.details["codeName"]) == (13113, "MergeStageNoMatchingDocument")


def test_other_fields_need_a_unique_index(database, source):
    target = database["target"]
    by_key = {"into": "target", "on": ["b.c", "a"]}
    reshaped = {"$project": {"_id": 0, "a": 1, "b": {"c": "$n"}}}
    assert code_of(lambda: merge(source, reshaped, **by_key)) == 51183
    target.insert_one({"_id": "old", "a": 2, "b": {"c": 20}, "old": True})
    target.create_index([("a", 1), ("b.c", -1)])
    target.create_index([("a", 1), ("b.c", 1)], unique=True, partialFilterExpression={"a": {"$gt": 0}}, name="partial")
    target.create_index([("a", 1), ("b.c", 1), ("d", 1)], unique=True)
    assert code_of(lambda: merge(source, reshaped, **by_key)) == 51183
    target.create_index([("a", -1), ("b.c", 1)], unique=True)
    merge(source, reshaped, **by_key)
    found = {document["a"]: document for document in target.find()}
    assert found[2] == {"_id": "old", "a": 2, "b": {"c": 20}, "old": True}
    assert len(found) == 3 and all(document["_id"] for document in found.values())
    # The _id of what is there cannot be changed.
    assert code_of(lambda: merge(source, {"$set": {"b": {"c": "$n"}}}, **by_key)) == 66


def test_collations(database, source):
    """The index has to tell apart what the command does."""
    lower = {"locale": "en", "strength": 2}
    target = database["target"]
    target.create_index("k", unique=True)
    pipeline = [{"$limit": 1}, {"$project": {"_id": 0, "k": "ABC", "new": {"$literal": True}}}, {"$merge": {"into": "target", "on": "k"}}]
    target.insert_one({"k": "abc"})
    assert code_of(lambda: source.aggregate(pipeline, collation=lower)) == 51183
    target.create_index("k", unique=True, collation=lower, name="lower")
    source.aggregate(pipeline, collation=lower)
    assert [(d["k"], d.get("new")) for d in target.find()] == [("ABC", True)]


def test_values_of_the_fields(database, source):
    target = database["target"]
    target.create_index("k", unique=True)
    by_key = {"into": "target", "on": "k", "whenMatched": "replace"}
    one = {"$limit": 1}
    merge(source, one, {"$project": {"_id": 0, "a": "first"}}, **by_key)
    merge(source, one, {"$project": {"_id": 0, "k": None, "a": "second"}}, **by_key)
    assert [document["a"] for document in target.find()] == ["second"], "missing is null"
    assert code_of(lambda: merge(source, one, {"$project": {"_id": 0, "k": ["$a"]}}, **by_key)) == 51185
    target.drop_indexes()
    target.create_index("k", unique=True, sparse=True)
    assert code_of(lambda: merge(source, one, {"$project": {"_id": 0, "a": 1}}, **by_key)) == 51132


def test_into_what_is_read(database, source):
    merge(source, {"$set": {"n": {"$add": ["$n", 1]}, "_id": {"$add": ["$_id", 100]}}}, into="source")
    assert [document["n"] for document in everything(source)] == [10, 20, 30, 11, 21, 31]
    merge(source, {"$set": {"n": {"$add": ["$n", 1]}}}, into="source", whenNotMatched="fail")
    assert [document["n"] for document in everything(source)] == [11, 21, 31, 12, 22, 32]
    # What is looked up for each document has been written already.
    look = {"$lookup": {"from": "source", "let": {"id": "$_id"}, "pipeline": [{"$match": {"$expr": {"$lt": ["$$id", "$_id"]}}}], "as": "all"}}
    merge(source, {"$match": {"_id": {"$gt": 100}}}, {"$sort": {"_id": 1}}, look, {"$set": {"_id": {"$add": ["$_id", 1000]}, "n": {"$size": "$all"}}}, {"$unset": "all"}, into="source")
    assert [document["n"] for document in source.find({"_id": {"$gt": 1000}}, sort=[("_id", 1)])] == [2, 2, 2]


def test_into_another_database(client, database, source):
    other = client[database.name + "_other"]
    try:
        merge(source, into={"db": other.name, "coll": "target"})
        assert other["target"].count_documents({}) == 3
    finally:
        client.drop_database(other.name)


def test_validation(database, source):
    target = database.create_collection("target", validator={"n": {"$lt": 25}})
    in_order = {"$sort": {"_id": 1}}
    assert code_of(lambda: merge(source, in_order, into="target")) == 121
    assert target.count_documents({}) == 2
    source.aggregate([in_order, {"$merge": "target"}], bypassDocumentValidation=True)
    assert target.count_documents({}) == 3
    database.create_collection("replaced", validator={"n": {"$lt": 25}})
    assert code_of(lambda: source.aggregate([{"$out": "replaced"}])) == 121
    source.aggregate([{"$out": "replaced"}], bypassDocumentValidation=True)
    assert database["replaced"].count_documents({}) == 3


def test_what_may_not_be_written(client, source):
    assert code_of(lambda: merge(source, into="system.js")) == 31319
    assert code_of(lambda: merge(source, into={"db": "admin", "coll": "a"})) == 31320
    assert code_of(lambda: merge(source, into="")) == 73
    with client.start_session() as session:
        session.start_transaction()
        assert code_of(lambda: source.aggregate([{"$merge": "target"}], session=session)) == 263
        session.abort_transaction()


def test_documents_get_an_id_and_counters_move(client, database, source):
    before = client.admin.command("serverStatus")
    merge(source, {"$project": {"_id": 0, "a": 1}}, into="target")
    merge(source, {"$project": {"_id": 1}}, into="target", whenMatched="replace")
    assert database["target"].count_documents({}) == 6
    after = client.admin.command("serverStatus")
    assert after["opcounters"]["update"] - before["opcounters"]["update"] == 6
    inserted = [status["metrics"]["document"]["inserted"] for status in (before, after)]
    assert inserted[1] - inserted[0] == 6
