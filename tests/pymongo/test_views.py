"""Views: what the manual's pages on views say of them, and that each reads as its pipeline does."""

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure


@pytest.fixture
def people(database):
    database["people"].insert_many([{"_id": i, "name": f"n{i}", "age": i * 10, "city": "AB"[i % 2], "tags": [i, i + 1]} for i in range(1, 7)])
    database["people"].create_index("age")
    return database["people"]


@pytest.fixture
def adults(database, people):
    pipeline = [{"$match": {"age": {"$gte": 30}}}, {"$project": {"name": 1, "age": 1, "city": 1, "tags": 1}}]
    database.command("create", "adults", viewOn="people", pipeline=pipeline)
    return database["adults"]


def code_of(act):
    with pytest.raises(OperationFailure) as caught:
        act()
    return caught.value.code


def test_find(adults):
    assert [d["_id"] for d in adults.find().sort("_id", -1)] == [6, 5, 4, 3]
    found = adults.find({"city": "A"}, {"name": 1, "_id": 0}, sort=[("age", 1)], skip=1, limit=1)
    assert list(found) == [{"name": "n6"}]
    assert adults.find_one({"_id": 1}) is None
    assert [d["_id"] for d in adults.find({}, sort=[("$natural", -1)])] == [6, 5, 4, 3]
    found = adults.database.command("find", "adults", filter={}, batchSize=2)["cursor"]
    assert found["ns"] == f"{adults.database.name}.adults" and len(found["firstBatch"]) == 2 and found["id"]
    more = adults.database.command("getMore", found["id"], collection="adults")["cursor"]
    assert len(more["nextBatch"]) == 2
    found = adults.database.command("find", "adults", filter={}, batchSize=2, singleBatch=True)["cursor"]
    assert found["id"] == 0
    compared = adults.database.command("find", "adults", filter={"$expr": {"$gt": ["$age", "$$x"]}}, let={"x": 50})
    assert [d["_id"] for d in compared["cursor"]["firstBatch"]] == [6]


@pytest.mark.parametrize("option", [{"min": {"age": 1}, "hint": {"age": 1}}, {"returnKey": True}, {"showRecordId": True}, {"tailable": True}])
def test_options_of_find_that_pipelines_do_not_have(adults, option):
    assert code_of(lambda: adults.database.command("find", "adults", **option)) == 168


def test_count_distinct_aggregate(adults):
    assert adults.count_documents({"city": "A"}) == 2
    assert adults.database.command("count", "adults", query={"age": {"$lt": 60}}, skip=1, limit=5)["n"] == 2
    assert adults.estimated_document_count() == 4
    assert adults.database.command("count", "adults", query={"age": 1})["n"] == 0
    assert sorted(adults.distinct("tags", {"age": {"$gt": 40}})) == [5, 6, 7]
    grouped = adults.aggregate([{"$group": {"_id": "$city", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert list(grouped) == [{"_id": "A", "n": 2}, {"_id": "B", "n": 2}]
    adults.aggregate([{"$out": "copied"}])
    assert adults.database["copied"].count_documents({}) == 4


def test_in_stages_of_other_collections(database, adults):
    database["cities"].insert_many([{"_id": "A"}, {"_id": "B"}, {"_id": "C"}])
    lookup = {"$lookup": {"from": "adults", "localField": "_id", "foreignField": "city", "as": "found"}}
    joined = {d["_id"]: sorted(f["_id"] for f in d["found"]) for d in database["cities"].aggregate([lookup])}
    assert joined == {"A": [4, 6], "B": [3, 5], "C": []}
    lookup = {"$lookup": {"from": "adults", "let": {"c": "$_id"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$city", "$$c"]}}}, {"$count": "n"}], "as": "found"}}
    joined = {d["_id"]: d["found"] for d in database["cities"].aggregate([lookup])}
    assert joined == {"A": [{"n": 2}], "B": [{"n": 2}], "C": []}
    united = database["cities"].aggregate([{"$unionWith": {"coll": "adults", "pipeline": [{"$match": {"age": 60}}]}}])
    assert [d["_id"] for d in united] == ["A", "B", "C", 6]
    graph = {"$graphLookup": {"from": "adults", "startWith": 3, "connectFromField": "tags", "connectToField": "_id", "as": "reached"}}
    reached = next(database["cities"].aggregate([graph]))["reached"]
    assert sorted(d["_id"] for d in reached) == [3, 4, 5, 6]


def test_views_on_views(database, adults):
    database.command("create", "old", viewOn="adults", pipeline=[{"$match": {"age": {"$gte": 50}}}])
    database.command("create", "names", viewOn="old", pipeline=[{"$project": {"name": 1}}])
    assert list(database["names"].find(sort=[("_id", 1)])) == [{"_id": 5, "name": "n5"}, {"_id": 6, "name": "n6"}]
    # A view on nothing is empty, also once it was something.
    database.drop_collection("old")
    assert list(database["names"].find()) == []
    database.command("create", "old", viewOn="people", pipeline=[])
    assert database["names"].count_documents({}) == 6


def test_cycles_and_depth(database, people):
    database.command("create", "v0", viewOn="people", pipeline=[])
    for number in range(1, 20):
        database.command("create", f"v{number}", viewOn=f"v{number - 1}", pipeline=[])
    assert database["v19"].count_documents({}) == 6
    assert code_of(lambda: database.command("create", "v20", viewOn="v19", pipeline=[])) == 165
    with pytest.raises(OperationFailure) as caught:
        database.command("collMod", "v0", viewOn="v3", pipeline=[])
    assert (caught.value.code, caught.value.details["codeName"]) == (5, "GraphContainsCycle")
    assert code_of(lambda: database.command("create", "self", viewOn="self", pipeline=[])) == 5
    lookup = {"$lookup": {"from": "round", "pipeline": [], "as": "a"}}
    assert code_of(lambda: database.command("create", "round", viewOn="people", pipeline=[{"$facet": {"a": [lookup]}}])) == 5


def test_collations(database, people, adults):
    lower = {"locale": "en", "strength": 2}
    assert code_of(lambda: list(adults.find({"city": "a"}, collation=lower))) == 167
    assert code_of(lambda: list(adults.aggregate([], collation=lower))) == 167
    lookup = {"$lookup": {"from": "adults", "pipeline": [], "as": "all"}}
    assert code_of(lambda: list(people.aggregate([lookup], collation=lower))) == 167
    assert adults.count_documents({"city": "A"}, collation={"locale": "simple"}) == 2
    # One of its own is that of whatever reads it.
    database.command("create", "folded", viewOn="people", pipeline=[{"$match": {"city": "a"}}], collation=lower)
    folded = database["folded"]
    assert folded.count_documents({}) == people.count_documents({"city": "a"}, collation=lower) > people.count_documents({"city": "a"})
    assert len(list(folded.find({"city": "A"}))) == len(list(folded.find({"city": "a"}, collation=lower))) == folded.count_documents({})
    assert len(folded.distinct("city")) == 1
    assert code_of(lambda: list(folded.find({}, collation={"locale": "fr"}))) == 167
    assert code_of(lambda: list(people.aggregate([{"$unionWith": "folded"}]))) == 167
    assert code_of(lambda: database.command("create", "other", viewOn="folded", pipeline=[])) == 167
    database.command("create", "same", viewOn="folded", pipeline=[], collation=lower)
    assert database["same"].count_documents({"city": "A"}) == folded.count_documents({})
    database.command("collMod", "folded", viewOn="people", pipeline=[])
    listed = {found["name"]: found["options"] for found in database.list_collections()}
    assert listed["folded"]["collation"]["strength"] == lower["strength"] and listed["folded"]["pipeline"] == []
    assert len(list(folded.find({"city": "A"}))) == people.count_documents({"city": "a"}, collation=lower)


def test_pipelines_that_are_too_long(database, people):
    long = [{"$match": {"name": {"$ne": "x" * 6_000_000}}}]
    database.command("create", "v0", viewOn="people", pipeline=long)
    database.command("create", "v1", viewOn="v0", pipeline=long)
    assert database["v1"].count_documents({}) == 6
    database.command("create", "v2", viewOn="v1", pipeline=long)
    assert code_of(lambda: database["v2"].count_documents({})) == 195


def test_definitions(database, people, adults):
    pipeline = adults.options()["pipeline"]
    assert code_of(lambda: database.command("create", "adults", viewOn="people", pipeline=[])) == 48
    database.command("create", "adults", viewOn="people", pipeline=pipeline)
    assert code_of(lambda: database.command("create", "people", viewOn="other", pipeline=[])) == 48
    assert code_of(lambda: database.command("create", "adults")) == 48
    assert code_of(lambda: database.command("create", "a", pipeline=[])) == 72
    assert code_of(lambda: database.command("create", "a", viewOn="")) == 2
    assert code_of(lambda: database.command("create", "a", viewOn="people", capped=True, size=4096)) == 72
    assert code_of(lambda: database.command("create", "a", viewOn="people", pipeline=[{"$out": "b"}])) == 167
    assert code_of(lambda: database.command("create", "a", viewOn="people", pipeline=[{"$collStats": {"count": {}}}])) == 167
    assert code_of(lambda: database.command("create", "a", viewOn="people", pipeline=[{"$nonsense": 1}])) == 40324
    assert code_of(lambda: database.command("create", "a", viewOn="people", pipeline={})) == 14
    database.command("collMod", "adults", viewOn="people", pipeline=[{"$match": {"age": 10}}])
    assert [d["_id"] for d in adults.find()] == [1]
    assert code_of(lambda: database.command("collMod", "adults", viewOn="people")) == 72
    assert code_of(lambda: database.command("collMod", "people", viewOn="adults", pipeline=[])) == 72
    assert code_of(lambda: database.command("collMod", "adults", validator={})) == 166
    stored = list(database["system.views"].find())
    assert stored == [{"_id": f"{database.name}.adults", "viewOn": "people", "pipeline": [{"$match": {"age": 10}}]}]
    assert code_of(lambda: database["system.views"].insert_one({"_id": "a"})) == 73
    assert database.command("dbStats")["views"] == 1


def test_listing_and_dropping(database, adults):
    listed = {d["name"]: d for d in database.list_collections()}
    view = listed["adults"]
    assert (view["type"], view["info"], view["options"]["viewOn"]) == ("view", {"readOnly": True}, "people")
    assert set(listed) == {"adults", "people", "system.views"}
    assert [d["name"] for d in database.list_collections(filter={"type": "view"})] == ["adults"]
    database.drop_collection("adults")
    assert "adults" not in database.list_collection_names()
    database["adults"].insert_one({"_id": 1})
    assert [d["type"] for d in database.list_collections(filter={"name": "adults"})] == ["collection"]


REFUSED = {
    "insert": {"documents": [{"_id": 1}]},
    "update": {"updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
    "delete": {"deletes": [{"q": {}, "limit": 1}]},
    "findAndModify": {"query": {}, "remove": True},
    "createIndexes": {"indexes": [{"key": {"a": 1}, "name": "a"}]},
    "dropIndexes": {"index": "*"},
    "listIndexes": {},
    "collStats": {},
    "validate": {},
    "compact": {},
    "reIndex": {},
    "convertToCapped": {"size": 4096},
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_only_collections_can_do(database, adults, command):
    with pytest.raises(OperationFailure) as caught:
        database.command(command, "adults", **REFUSED[command])
    assert (caught.value.code, caught.value.details["codeName"]) == (166, "CommandNotSupportedOnView")


def test_what_only_stages_of_collections_can_do(client, database, people, adults):
    for stage in [{"$collStats": {"count": {}}}, {"$indexStats": {}}, {"$changeStream": {}}]:
        assert code_of(lambda: adults.aggregate([stage])) == 166, stage
    assert code_of(lambda: people.aggregate([{"$out": "adults"}])) == 166
    assert code_of(lambda: people.aggregate([{"$merge": "adults"}])) == 166
    name = database.name
    assert code_of(lambda: client.admin.command("renameCollection", f"{name}.adults", to=f"{name}.b")) == 166
    assert code_of(lambda: client.admin.command("renameCollection", f"{name}.people", to=f"{name}.adults")) == 48


def test_explain(database, adults):
    for command in [{"find": "adults", "filter": {"age": 40}}, {"count": "adults", "query": {"age": 40}}, {"distinct": "adults", "key": "age", "query": {"age": 40}}, {"aggregate": "adults", "pipeline": [{"$match": {"age": 40}}], "cursor": {}}]:
        explained = database.command("explain", command, verbosity="executionStats")
        assert "IXSCAN" in str(explained), "indexes of the collection are used"


def test_in_transactions_and_snapshots(client, database, people, adults):
    with client.start_session() as session:
        session.start_transaction()
        people.insert_one({"_id": 9, "age": 90}, session=session)
        assert adults.count_documents({}, session=session) == 5
        assert len(list(adults.find({}, session=session))) == 5
        with pytest.raises(OperationFailure) as caught:
            database.command("create", "other", viewOn="people", pipeline=[], session=session)
        assert caught.value.code == 263
        session.abort_transaction()
    with client.start_session(snapshot=True) as session:
        assert len(list(adults.find({}, session=session))) == 4
        people.delete_many({})
        assert len(list(adults.find({}, session=session))) == 4
    assert list(adults.find({})) == []
