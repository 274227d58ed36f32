"""Databases and collections: create, drop, rename, list, change, statistics, validate."""

import pytest
from pymongo.errors import CollectionInvalid, OperationFailure


def test_create_list_drop(database):
    database.create_collection("a")
    database["b"].insert_one({})
    assert sorted(database.list_collection_names()) == ["a", "b"]
    [listed] = database.list_collections(filter={"name": "a"})
    assert listed["type"] == "collection"
    assert listed["options"] == {}
    assert listed["info"]["readOnly"] is False
    assert listed["info"]["uuid"].subtype == 4
    assert listed["idIndex"]["name"] == "_id_"
    database.drop_collection("a")
    assert database.list_collection_names() == ["b"]
    with pytest.raises(CollectionInvalid):
        database.create_collection("b")
    with pytest.raises(OperationFailure) as caught:
        database.command("create", "b", validator={"x": 1})
    assert caught.value.code == 48 and caught.value.details["codeName"] == "NamespaceExists"


def test_drop_of_what_is_not_there(database):
    assert database.command("drop", "absent")["ok"] == 1.0


def test_listing_names_only(database):
    database.create_collection("a")
    reply = database.command("listCollections", nameOnly=True)
    assert reply["cursor"]["firstBatch"] == [{"name": "a", "type": "collection"}]
    assert reply["cursor"]["ns"] == f"{database.name}.$cmd.listCollections"


def test_databases(client, database):
    database["a"].insert_one({"x": "y" * 1000})
    listed = {entry["name"]: entry for entry in client.list_databases()}
    assert listed[database.name]["empty"] is False
    assert database.name in client.list_database_names()
    reply = client.admin.command("listDatabases", nameOnly=True, filter={"name": database.name})
    assert reply["databases"] == [{"name": database.name}]
    assert "totalSize" in client.admin.command("listDatabases")
    client.drop_database(database.name)
    assert database.name not in client.list_database_names()
    assert client[database.name].command("dropDatabase")["ok"] == 1.0
    with pytest.raises(OperationFailure) as caught:
        database.command("listDatabases")
    assert caught.value.code == 13


def test_rename(client, database):
    database["a"].insert_one({"_id": 1})
    database["a"].create_index("x")
    database["b"].insert_one({"_id": 2})
    database["a"].rename("c")
    assert database["c"].find_one() == {"_id": 1}
    assert "x_1" in database["c"].index_information()
    for source, target, code in [("absent", "d", 26), ("c", "b", 48), ("c", "c", 20)]:
        with pytest.raises(OperationFailure) as caught:
            database[source].rename(target)
        assert caught.value.code == code, caught.value.details
    database["c"].rename("b", dropTarget=True)
    assert database.list_collection_names() == ["b"] and database["b"].find_one() == {"_id": 1}


def test_rename_to_another_database(client, database):
    database["a"].insert_one({"_id": 1})
    target = f"{database.name}_other"
    client.drop_database(target)
    client.admin.command("renameCollection", f"{database.name}.a", to=f"{target}.b")
    assert client[target]["b"].find_one() == {"_id": 1}
    client.drop_database(target)


def test_drop_while_others_write(database):
    for round in range(20):
        database["busy"].insert_many([{"_id": i} for i in range(100)])
        database["busy"].create_index("a")
        database["busy"].drop()
    assert database.list_collection_names() == []


@pytest.mark.parametrize("name", ["", ".a", "a\x00b", "x" * 300])
def test_bad_collection_names(database, name):
    with pytest.raises(OperationFailure) as caught:
        database.command("create", name)
    assert caught.value.code == 73
    assert caught.value.details["codeName"] == "InvalidNamespace"


@pytest.mark.parametrize(
    "options, code",
    [
        ({"unknownOption": 1}, 40415),
        ({"size": 100}, None),
        ({"capped": True}, None),
        ({"timeseries": {"timeField": "t.u"}}, 72),
        ({"pipeline": []}, 72),
        ({"collation": {"locale": "xx"}}, 2),
    ],
)
def test_options_that_are_not_there_are_refused_by_name(database, options, code):
    with pytest.raises(OperationFailure) as caught:
        database.command({"create": "a", **options})
    assert caught.value.details["codeName"]
    if code:
        assert caught.value.code == code


def test_validators(database):
    database.create_collection("a", validator={"x": {"$gt": 0}})
    database["a"].insert_one({"_id": 1, "x": 5})
    with pytest.raises(OperationFailure) as caught:
        database["a"].insert_one({"x": -1})
    assert caught.value.code == 121
    database["a"].with_options().insert_many([{"x": -1}], bypass_document_validation=True)
    database.command("collMod", "a", validator={}, validationLevel="off")
    database["a"].insert_one({"x": -2})


def test_schemas(database):
    """The example of the manual's page on schema validation, with what it says of a failure."""
    schema = {
        "bsonType": "object",
        "title": "Student Object Validation",
        "required": ["name", "year"],
        "properties": {
            "name": {"bsonType": "string", "description": "'name' must be a string and is required"},
            "year": {"bsonType": "int", "minimum": 2017, "maximum": 3017, "description": "'year' must be an integer in [ 2017, 3017 ] and is required"},
            "gpa": {"bsonType": ["double"], "description": "'gpa' must be a double if the field exists"},
        },
    }
    students = database["students"]
    students.insert_one({"_id": 0, "name": 5})
    database.command("collMod", "students", validator={"$jsonSchema": schema})
    students.insert_one({"_id": 1, "name": "Alice", "year": 2019})
    for write in (lambda: students.insert_one({"_id": 2, "name": "Bob", "year": 2019, "gpa": 3}), lambda: students.update_one({"_id": 1}, {"$set": {"gpa": 3}})):
        with pytest.raises(OperationFailure) as caught:
            write()
        details = caught.value.details["errInfo"]["details"]
        broken = {"operatorName": "bsonType", "specifiedAs": {"bsonType": ["double"]}, "reason": "type did not match", "consideredValue": 3, "consideredType": "int"}
        gpa = {"propertyName": "gpa", "description": "'gpa' must be a double if the field exists", "details": [broken]}
        rules = [{"operatorName": "properties", "propertiesNotSatisfied": [gpa]}]
        assert details == {"operatorName": "$jsonSchema", "title": "Student Object Validation", "schemaRulesNotSatisfied": rules}
        assert caught.value.details["errInfo"]["failingDocumentId"] in (1, 2)
    # What was wrong before may stay so, where that is asked for.
    with pytest.raises(OperationFailure):
        students.update_one({"_id": 0}, {"$set": {"a": 1}})
    database.command("collMod", "students", validationLevel="moderate")
    students.update_one({"_id": 0}, {"$set": {"a": 1}})
    with pytest.raises(OperationFailure):
        students.insert_one({"_id": 3})
    database.command("collMod", "students", validationAction="warn")
    students.insert_one({"_id": 3})
    assert [d["_id"] for d in students.find({"$nor": [{"$jsonSchema": schema}]}, sort=[("_id", 1)])] == [0, 3]
    with pytest.raises(OperationFailure) as caught:
        database.create_collection("secret", validator={"$jsonSchema": {"properties": {"a": {"encrypt": {}}}}})
    assert caught.value.code == 9 and "encrypt" in str(caught.value)


def test_collection_statistics(database):
    things = database["a"]
    things.insert_many([{"_id": i, "x": "y" * 100} for i in range(1000)])
    things.create_index("x")
    statistics = database.command("collStats", "a")
    assert statistics["ns"] == f"{database.name}.a"
    assert statistics["count"] == 1000
    assert 110_000 < statistics["size"] < 150_000
    assert statistics["avgObjSize"] == statistics["size"] // 1000
    assert statistics["nindexes"] == 2 and set(statistics["indexSizes"]) == {"_id_", "x_1"}
    assert statistics["capped"] is False
    assert statistics["totalSize"] == statistics["storageSize"] + statistics["totalIndexSize"]
    scaled = database.command("collStats", "a", scale=1024)
    assert scaled["size"] == statistics["size"] // 1024
    assert database.command("collStats", "absent")["count"] == 0


def test_database_statistics(database):
    database["a"].insert_many([{"_id": i} for i in range(10)])
    database["b"].insert_one({})
    statistics = database.command("dbStats")
    assert statistics["db"] == database.name
    assert (statistics["collections"], statistics["objects"], statistics["indexes"]) == (2, 11, 2)
    assert statistics["dataSize"] > 0 and statistics["ok"] == 1.0


def test_validate(database):
    things = database["a"]
    things.insert_many([{"_id": i, "x": [i, i + 1]} for i in range(500)])
    things.create_index("x")
    for full in (False, True):
        report = database.command("validate", "a", full=full)
        assert report["valid"] is True and report["errors"] == [] and report["warnings"] == []
        assert report["ns"] == f"{database.name}.a"
        assert report["nrecords"] == 500 and report["nIndexes"] == 2
        assert report["keysPerIndex"] == {"_id_": 500, "x_1": 1000}
        assert all(detail["valid"] for detail in report["indexDetails"].values())
    with pytest.raises(OperationFailure) as caught:
        database.command("validate", "absent")
    assert caught.value.code == 26


def test_list_indexes_of_what_is_not_there(database):
    with pytest.raises(OperationFailure) as caught:
        database.command("listIndexes", "absent")
    assert caught.value.code == 26 and caught.value.details["codeName"] == "NamespaceNotFound"


def test_coll_mod_refusals(database):
    database.create_collection("a")
    for fields, code in [
        ({"index": {"name": "absent", "hidden": True}}, 27),
        ({"unknownField": 1}, 40415),
        ({"index": {"name": "_id_", "hidden": True}}, 2),
    ]:
        with pytest.raises(OperationFailure) as caught:
            database.command({"collMod": "a", **fields})
        assert caught.value.code == code, caught.value.details
    with pytest.raises(OperationFailure) as caught:
        database.command("collMod", "absent")
    assert caught.value.code == 26


def test_definitions_are_there_after_a_restart(database, restart, kill_and_restart):
    database.create_collection("a", validator={"x": {"$exists": True}})
    database["a"].create_index([("x", -1)], name="by x", sparse=True)
    database["b"].insert_many([{"_id": i} for i in range(100)])
    database["b"].rename("c")
    database["gone"].insert_one({})
    database["gone"].drop()
    for again in (restart, kill_and_restart):
        again()
        assert sorted(database.list_collection_names()) == ["a", "c"]
        assert database["a"].index_information()["by x"]["sparse"] is True
        [listed] = database.list_collections(filter={"name": "a"})
        assert listed["options"]["validator"] == {"x": {"$exists": True}}
        assert database["c"].estimated_document_count() == 100
        assert database["c"].count_documents({}) == 100
