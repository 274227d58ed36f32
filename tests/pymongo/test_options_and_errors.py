"""What commands refuse, with which code, and that nothing is done then; as MongoDB's manual and server have it."""

import threading
import time

import pytest
from bson import Int64
from pymongo import IndexModel, MongoClient, WriteConcern
from pymongo.errors import OperationFailure, WriteError
from pymongo.operations import DeleteOne, InsertOne, UpdateOne
from pymongo.read_concern import ReadConcern

from change_events import take


def code_of(run, *arguments, **options):
    with pytest.raises(OperationFailure) as caught:
        run(*arguments, **options)
    assert caught.value.details["codeName"], caught.value.details
    return caught.value.code


# Malformed statements


@pytest.mark.parametrize(
    "bad, code",
    [
        ({"q": {}}, 40414),
        ({"limit": 1}, 40414),
        ({"q": {}, "limit": 2}, 9),
        ({"q": {}, "limit": 0.5}, 9),
        ({"q": {}, "limit": -1}, 9),
        ({"q": {}, "limit": "all"}, 14),
        ({"q": 5, "limit": 1}, 14),
        ({"q": {}, "limit": 1, "hint": 5}, 9),
        ({"q": {}, "limit": 1, "nonsense": 1}, 40415),
    ],
)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_malformed_delete_refuses_the_command(collection, bad, code, ordered):
    collection.insert_many([{"_id": i} for i in range(4)])
    good = {"q": {"_id": 1}, "limit": 1}
    command = {"delete": collection.name, "deletes": [good, bad, good], "ordered": ordered}
    assert code_of(collection.database.command, command) == code
    assert collection.count_documents({}) == 4


@pytest.mark.parametrize(
    "bad, code",
    [
        ({"q": {}}, 40414),
        ({"u": {"$set": {"a": 1}}}, 40414),
        ({"q": {}, "u": 5}, 9),
        ({"q": {}, "u": {"$set": {"a": 1}}, "hint": 5}, 9),
        ({"q": {}, "u": {"$set": {"a": 1}}, "multi": "yes"}, 14),
        ({"q": {}, "u": {"$set": {"a": 1}}, "arrayFilters": [5]}, 14),
        ({"q": {}, "u": {"$set": {"a": 1}}, "nonsense": 1}, 40415),
    ],
)
@pytest.mark.parametrize("ordered", [True, False])
def test_a_malformed_update_refuses_the_command(collection, bad, code, ordered):
    collection.insert_one({"_id": 1})
    good = {"q": {"_id": 1}, "u": {"$set": {"changed": True}}}
    command = {"update": collection.name, "updates": [good, bad], "ordered": ordered}
    assert code_of(collection.database.command, command) == code
    assert collection.find_one() == {"_id": 1}


def test_a_bad_filter_or_update_is_an_error_of_its_statement(collection):
    collection.insert_many([{"_id": 1}, {"_id": 2}])
    deletes = [{"q": {"_id": 1}, "limit": 1}, {"q": {"$nonsense": 1}, "limit": 1}]
    reply = collection.database.command({"delete": collection.name, "deletes": deletes})
    assert reply["n"] == 1 and [error["index"] for error in reply["writeErrors"]] == [1]
    updates = [{"q": {"_id": 2}, "u": {"$set": {"a": 1}}}, {"q": {}, "u": {"$nonsense": {"a": 1}}}]
    reply = collection.database.command({"update": collection.name, "updates": updates})
    assert reply["n"] == 1 and [error["index"] for error in reply["writeErrors"]] == [1]


def test_an_insert_that_is_refused_creates_no_collection(database):
    with pytest.raises(WriteError):
        database["new"].insert_one({"_id": [1]})
    with pytest.raises(WriteError):
        database["new"].update_one({"_id": [1]}, {"$set": {"a": 1}}, upsert=True)
    indexes = [{"key": {"a": 1}, "name": "x"}, {"key": {"b": 1}, "name": "x"}]
    assert code_of(database.command, {"createIndexes": "new", "indexes": indexes}) == 86
    assert database.list_collection_names() == []


def test_bypass_document_validation_in_every_part_of_a_bulk_write(database):
    things = database.create_collection("things", validator={"a": {"$exists": True}})
    operations = [InsertOne({"_id": 1}), UpdateOne({"_id": 1}, {"$set": {"b": 1}}), DeleteOne({"_id": 2})]
    assert things.bulk_write(operations, bypass_document_validation=True).inserted_count == 1
    command = {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}], "bypassDocumentValidation": True}
    assert database.command(command)["n"] == 1


# Indexes


@pytest.mark.parametrize("name", ["_id_", "_id_1", "anything"])
def test_the_id_index_under_any_name_is_there_already(collection, name):
    command = {"createIndexes": collection.name, "indexes": [{"key": {"_id": 1}, "name": name}]}
    reply = collection.database.command(command)
    assert (reply["numIndexesBefore"], reply["numIndexesAfter"]) == (1, 1)
    assert list(collection.index_information()) == ["_id_"]


def test_the_id_index_has_one_direction(collection):
    assert code_of(collection.create_index, [("_id", -1)]) == 2


@pytest.mark.parametrize("option", [{"unique": True}, {"sparse": True}, {"expireAfterSeconds": 5}])
def test_the_id_index_takes_no_options(collection, option):
    index = {"key": {"_id": 1}, "name": "_id_1", **option}
    code = code_of(collection.database.command, {"createIndexes": collection.name, "indexes": [index]})
    assert code == 197


@pytest.mark.parametrize(
    "index, code",
    [
        ({"key": {"a": 1}, "name": "a_1", "unique": True}, 86),
        ({"key": {"a": 1}, "name": "a_1", "sparse": True}, 86),
        ({"key": {"a": 1}, "name": "a_1", "partialFilterExpression": {"b": 1}}, 86),
        ({"key": {"b": 1}, "name": "a_1"}, 86),
        ({"key": {"a": 1}, "name": "a_1", "expireAfterSeconds": 5}, 85),
        ({"key": {"a": 1}, "name": "other"}, 85),
        ({"key": {"a": 1}, "name": "other", "expireAfterSeconds": 5}, 85),
    ],
)
def test_indexes_that_cannot_stand_beside_one(collection, index, code):
    collection.create_index("a")
    assert code_of(collection.database.command, {"createIndexes": collection.name, "indexes": [index]}) == code
    assert list(collection.index_information()) == ["_id_", "a_1"]


def test_partial_indexes_whose_filters_ask_the_same(collection):
    collection.create_index("a", name="a_1", partialFilterExpression={"b": 1})
    collection.create_index("a", name="a_1", partialFilterExpression={"b": {"$eq": 1.0}})
    assert code_of(collection.create_index, "a", name="x", partialFilterExpression={"$and": [{"b": 1}]}) == 85
    collection.create_index("a", name="x", partialFilterExpression={"b": 2})
    assert list(collection.index_information()) == ["_id_", "a_1", "x"]


def test_two_equal_specifications_in_a_command(collection):
    index = {"key": {"a": 1}, "name": "a_1"}
    command = {"createIndexes": collection.name, "indexes": [index, index]}
    assert code_of(collection.database.command, command) == 68
    assert collection.database.list_collection_names() == []
    collection.create_index("a")
    assert collection.database.command(command)["note"] == "all indexes already exist"


def test_the_65th_index_is_refused(collection):
    collection.create_indexes([IndexModel(f"f{i}") for i in range(63)])
    assert len(collection.index_information()) == 64
    assert code_of(collection.create_index, "one_too_many") == 67
    assert code_of(collection.create_indexes, [IndexModel("x"), IndexModel("y")]) == 67
    assert code_of(collection.database["new"].create_indexes, [IndexModel(f"f{i}") for i in range(64)]) == 67
    assert collection.database.list_collection_names() == [collection.name]
    collection.create_index("f5")
    assert len(collection.index_information()) == 64


def test_background_is_kept_and_drop_dups_ignored(collection):
    collection.create_index("a", background=True)
    collection.create_index("b", dropDups=True)
    assert collection.index_information()["a_1"] == {"v": 2, "key": [("a", 1)], "background": True}
    assert collection.index_information()["b_1"] == {"v": 2, "key": [("b", 1)]}
    # It makes no other index of it.
    collection.create_index("a")


# Concerns


@pytest.mark.parametrize(
    "command",
    [
        {"find": "things"},
        {"count": "things"},
        {"distinct": "things", "key": "a"},
        {"getMore": Int64(5), "collection": "things"},
        {"listCollections": 1},
        {"listIndexes": "things"},
        {"collStats": "things"},
        {"dbStats": 1},
        {"explain": {"find": "things"}},
        {"validate": "things"},
        {"ping": 1},
    ],
)
def test_a_write_concern_where_nothing_is_written(database, command):
    assert code_of(database.command, {**command, "writeConcern": {"w": 1}}) == 72


def test_a_write_concern_where_something_is_written(database):
    concern = {"writeConcern": {"w": "majority"}}
    for command in [
        {"create": "things"},
        {"insert": "things", "documents": [{"_id": 1}]},
        {"update": "things", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
        {"findAndModify": "things", "update": {"$set": {"a": 2}}},
        {"aggregate": "things", "pipeline": [], "cursor": {}},
        {"aggregate": "things", "pipeline": [{"$out": "copy"}], "cursor": {}},
        {"createIndexes": "things", "indexes": [{"key": {"a": 1}, "name": "a"}]},
        {"collMod": "things", "validationLevel": "off"},
        {"dropIndexes": "things", "index": "a"},
        {"delete": "things", "deletes": [{"q": {}, "limit": 0}]},
        {"convertToCapped": "copy", "size": 100_000},
        {"drop": "things"},
        {"dropDatabase": 1},
    ]:
        assert database.command({**command, **concern})["ok"] == 1.0, command


@pytest.mark.parametrize("level", ["local", "available", "linearizable", "snapshot"])
def test_change_streams_read_what_a_majority_has(collection, level):
    with pytest.raises(OperationFailure) as caught:
        collection.with_options(read_concern=ReadConcern(level)).watch()
    assert caught.value.code == 72
    with collection.with_options(read_concern=ReadConcern("majority")).watch(max_await_time_ms=50):
        pass


@pytest.mark.parametrize("level, code", [("nonsense", 9), ("", 9), ("Local", 9), (5, 14)])
def test_read_concern_levels_that_are_none(database, level, code):
    concern = {"readConcern": {"level": level}}
    stream = {"aggregate": "things", "pipeline": [{"$changeStream": {}}], "cursor": {}}
    for command in [{"find": "things"}, {"count": "things"}, {"distinct": "things", "key": "a"}, stream]:
        assert code_of(database.command, {**command, **concern}) == code, command


@pytest.mark.parametrize(
    "concern, code",
    [({"fsync": True, "j": True}, 9), ({"w": -1}, 9), ({"w": 51}, 9), ({"w": True}, 9), ({"j": "yes"}, 14), ({"nonsense": 1}, 40415)],
)
def test_write_concerns_that_are_none(database, concern, code):
    assert code_of(database.command, {"insert": "things", "documents": [{}], "writeConcern": concern}) == code
    assert database.list_collection_names() == []


def test_a_read_concern_where_nothing_is_read(database):
    for level, code in [("majority", 72), ("available", 72), ("linearizable", 72), ("snapshot", 72)]:
        command = {"insert": "things", "documents": [{}], "readConcern": {"level": level}}
        assert code_of(database.command, command) == code
    assert database.list_collection_names() == []
    assert database.command({"insert": "things", "documents": [{}], "readConcern": {"level": "local"}})["n"] == 1


def test_read_concern_levels_of_stages(client, collection):
    collection.insert_one({"_id": 1})
    linearizable = collection.with_options(read_concern=ReadConcern("linearizable"))
    assert code_of(linearizable.aggregate, [{"$out": "other"}]) == 72
    assert "other" not in collection.database.list_collection_names()
    majority = collection.with_options(read_concern=ReadConcern("majority"))
    assert code_of(majority.aggregate, [{"$collStats": {"count": {}}}]) == 72
    assert list(majority.aggregate([{"$match": {}}])) == [{"_id": 1}]


# Names of the server's own


def test_writes_into_system_collections(database):
    for name in ["system.views", "system.nonsense", "system.indexes"]:
        assert code_of(database.command, {"insert": name, "documents": [{}]}) == 73
        assert code_of(database.command, {"delete": name, "deletes": [{"q": {}, "limit": 0}]}) == 73
        assert code_of(database.command, {"update": name, "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]}) == 73
        assert code_of(database.command, {"findAndModify": name, "remove": True}) == 73
    database["system.js"].insert_one({"_id": "f", "value": 1})
    assert database["system.js"].delete_one({"_id": "f"}).deleted_count == 1


def test_writes_into_system_collections_in_a_transaction(client, database):
    database["system.js"].insert_one({"_id": "f", "value": 1})
    with client.start_session() as session:
        for write in [
            lambda: database["system.js"].insert_one({"_id": "g"}, session=session),
            lambda: database["system.js"].delete_one({"_id": "f"}, session=session),
            lambda: database["system.js"].update_one({"_id": "f"}, {"$set": {"value": 2}}, session=session),
        ]:
            session.start_transaction()
            assert code_of(write) == 50791
            session.abort_transaction()
    database["system.js"].drop()


@pytest.mark.parametrize("name", ["admin", "config", "local"])
def test_validators_in_internal_databases(client, name):
    database = client[name]
    database["checked"].drop()
    assert code_of(database.create_collection, "checked", validator={"a": 1}) == 72
    if name != "local":
        database.create_collection("checked")
        assert code_of(database.command, {"collMod": "checked", "validator": {"a": 1}}) == 72
        database["checked"].drop()


def test_validators_of_system_collections(database):
    assert code_of(database.create_collection, "system.js", validator={"a": 1}) == 72


def test_validators_are_not_moved_where_they_are_not_allowed(client, database):
    database.create_collection("checked", validator={"a": 1})
    for target in ["admin.moved", "config.moved", f"{database.name}.system.js"]:
        assert code_of(client.admin.command, {"renameCollection": f"{database.name}.checked", "to": target}) == 72
    assert database.list_collection_names() == ["checked"]


def test_explain_of_another_database(database):
    assert code_of(database.command, {"explain": {"find": "things", "$db": "elsewhere"}}) == 73
    assert database.command({"explain": {"find": "things", "$db": database.name}})["ok"] == 1.0


# $out


def test_out_obeys_validators_unless_it_is_told_not_to(database):
    database["from"].insert_many([{"_id": 1}, {"_id": 2, "a": 1}])
    database.create_collection("to", validator={"a": {"$exists": True}})
    assert code_of(database["from"].aggregate, [{"$out": "to"}]) == 121
    assert database["to"].count_documents({}) == 0
    database["from"].aggregate([{"$out": "to"}], bypassDocumentValidation=True)
    assert database["to"].count_documents({}) == 2
    assert database["to"].options()["validator"] == {"a": {"$exists": True}}


def test_out_spares_what_is_the_servers_own(database):
    database["from"].insert_one({"_id": 1})
    assert code_of(database["from"].aggregate, [{"$out": "system.js"}]) == 17385
    for name in ["admin", "config", "local"]:
        assert code_of(database["from"].aggregate, [{"$out": {"db": name, "coll": "x"}}]) == 31321


def test_the_limit_of_count(database):
    database["things"].insert_many([{} for _ in range(5)])
    assert [database.command({"count": "things", "limit": limit})["n"] for limit in [2, -2, 0, 2.0]] == [2, 2, 5, 2]
    assert code_of(database.command, {"count": "things", "limit": "2"}) == 2
    assert code_of(database.command, {"count": "things", "limit": 1.5}) == 9


@pytest.mark.parametrize(
    "command, code",
    [
        ({"create": "new", "capped": True, "size": 0}, 51024),
        ({"create": "new", "capped": True, "size": -1}, 51024),
        ({"create": "new", "capped": True, "size": 2**50 + 1}, 51024),
        ({"create": "new", "capped": True, "size": 4096, "max": 2**31}, 2),
        ({"create": "new", "capped": True}, 72),
        ({"create": "new", "size": 4096}, 72),
        ({"aggregate": 2, "pipeline": [], "cursor": {}}, 9),
        ({"aggregate": {}, "pipeline": [], "cursor": {}}, 9),
        ({"aggregate": 1, "pipeline": [], "cursor": {}}, 73),
        ({"distinct": "things", "key": ""}, 40352),
        ({"distinct": "things", "key": 5}, 14),
        # Numbers of cursors are of 64 bits.
        ({"getMore": 5, "collection": "things"}, 14),
        ({"getMore": 5.0, "collection": "things"}, 14),
        ({"getMore": "5", "collection": "things"}, 14),
        ({"getMore": Int64(5), "collection": "things"}, 43),
        ({"killCursors": "things", "cursors": [5]}, 14),
        ({"killCursors": "things", "cursors": []}, 2),
    ],
)
def test_values_that_fields_cannot_have(database, command, code):
    assert code_of(database.command, command) == code
    assert database.list_collection_names() == []


def test_validate_takes_what_drivers_send(database):
    database["things"].insert_one({})
    assert database.validate_collection("things", scandata=True, full=True)["valid"] is True


# Time limits


@pytest.mark.parametrize("value, code", [(1.5, 2), (-1, 2), (2**31, 2), (-1.5, 2), ("1", 2), (True, 2), ({}, 2)])
@pytest.mark.parametrize(
    "command",
    [
        {"find": "things"},
        {"count": "things"},
        {"distinct": "things", "key": "a"},
        {"insert": "things", "documents": [{}]},
        {"findAndModify": "things", "remove": True},
        {"create": "more"},
        {"drop": "things"},
        {"listCollections": 1},
        {"ping": 1},
    ],
)
def test_time_limits_that_are_none(database, command, value, code):
    assert code_of(database.command, {**command, "maxTimeMS": value}) == code


@pytest.mark.parametrize(
    "value, code", [(1000.5, 2), (-1, 51024), (-1.5, 51024), (2**31, 2), (1e300, 2), (None, 2), ("1", 14), ([], 14)]
)
def test_time_limits_that_aggregate_refuses(database, value, code):
    command = {"aggregate": "things", "pipeline": [], "cursor": {}, "maxTimeMS": value}
    assert code_of(database.command, command) == code


@pytest.mark.parametrize("value, code", [(1.5, 2), (-1, 2), (2**31, 2), (None, 2), ("1", 14)])
def test_time_limits_that_get_more_refuses(database, value, code):
    database.create_collection("capped", capped=True, size=4096)
    database["capped"].insert_one({})
    find = {"find": "capped", "tailable": True, "awaitData": True}
    cursor = database.command(find)["cursor"]["id"]
    assert code_of(database.command, {"getMore": Int64(cursor), "collection": "capped", "maxTimeMS": value}) == code
    database.command({"killCursors": "capped", "cursors": [cursor]})


def test_time_limits_of_whole_numbers(database):
    for value in [0, 5000, 5000.0, 2**31 - 1]:
        assert database.command({"find": "things", "maxTimeMS": value})["ok"] == 1.0


# distinct, returnKey


@pytest.mark.parametrize("index", [None, [("n", 1)], [("n", -1)], [("n", 1), ("m", 1)]])
def test_distinct_is_sorted(collection, index):
    if index:
        collection.create_index(index)
    collection.insert_many([{"n": n} for n in [3, 1, 2, None, 0, 2, 1.0]] + [{}])
    assert collection.distinct("n") == [None, 0, 1, 2, 3]
    assert collection.distinct("n", {"n": {"$gte": 1}}) == [1, 2, 3]
    collection.insert_one({"n": ["b", 7, "a", {"x": 1}, True]})
    assert collection.distinct("n") == [None, 0, 1, 2, 3, 7, "a", "b", {"x": 1}, True]


def test_return_key(collection):
    collection.create_index([("a", 1)])
    collection.insert_many([{"_id": i, "a": i % 3, "b": -i} for i in range(6)])
    found = collection.find({"a": {"$gte": 1}}, return_key=True).hint("a_1")
    assert list(found) == [{"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}]
    # In the order of documents that are not returned.
    found = collection.find({"a": {"$gte": 1}}, return_key=True).hint("a_1").sort("b", 1)
    assert list(found) == [{"a": 2}, {"a": 1}, {"a": 2}, {"a": 1}]
    assert list(collection.find(return_key=True).sort("b", 1).limit(2)) == [{}, {}]
    # The id of the record is a field of documents.
    found = collection.find({"a": 2}, return_key=True, show_record_id=True).hint("a_1")
    assert list(found) == [{"a": 2}, {"a": 2}]


# Definitions beside transactions


def test_create_of_what_exists_in_a_transaction(client, database):
    database.create_collection("things")
    assert database.command({"create": "things"})["ok"] == 1.0
    with client.start_session() as session:
        session.start_transaction()
        assert code_of(database.command, {"create": "things"}, session=session) == 48
        session.abort_transaction()


@pytest.mark.parametrize("change", ["drop", "rename", "dropDatabase", "dropIndexes", "convertToCapped", "out"])
def test_changes_of_definitions_wait_for_open_transactions(client, database, change):
    things = database["things"]
    things.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
    things.create_index("a")
    database["from"].insert_one({"_id": 9})
    run = {
        "drop": lambda: things.drop(),
        "rename": lambda: things.rename("renamed"),
        "dropDatabase": lambda: client.drop_database(database.name),
        "dropIndexes": lambda: things.drop_index("a_1"),
        "convertToCapped": lambda: database.command({"convertToCapped": "things", "size": 100_000}),
        "out": lambda: database["from"].aggregate([{"$out": "things"}]),
    }[change]
    with client.start_session() as session:
        session.start_transaction()
        things.update_one({"_id": 1}, {"$set": {"b": 1}}, session=session)
        changing = threading.Thread(target=run)
        changing.start()
        changing.join(0.3)
        assert changing.is_alive(), "it waits"
        # Others who come to the collection in a transaction are told to try again.
        with client.start_session() as other:
            other.start_transaction()
            with pytest.raises(OperationFailure) as caught:
                things.find_one({"_id": 2}, session=other)
            assert caught.value.code == 24 and caught.value.has_error_label("TransientTransactionError")
        assert things.find_one({"_id": 2}) == {"_id": 2, "a": 2}, "others are not held up"
        things.update_one({"_id": 2}, {"$set": {"b": 1}}, session=session)
        session.commit_transaction()
    changing.join(30)
    assert not changing.is_alive()


def test_a_change_of_definitions_waits_no_longer_than_it_may(client, database):
    database["things"].insert_one({"_id": 1})
    with client.start_session() as session:
        session.start_transaction()
        assert database["things"].find_one(session=session) == {"_id": 1}
        begun = time.monotonic()
        assert code_of(database.command, {"drop": "things", "maxTimeMS": 200}) == 50
        assert time.monotonic() - begun < 20
        session.commit_transaction()
    assert database.list_collection_names() == ["things"]
    database["things"].drop()


def test_a_transaction_that_meets_another_catalog_can_be_retried(client, database):
    for change in [
        lambda: database["things"].drop(),
        lambda: database["things"].rename("elsewhere", dropTarget=True),
        lambda: database["more"].rename("things", dropTarget=True),
    ]:
        database["things"].insert_one({})
        database["more"].insert_one({})
        with client.start_session() as session:
            session.start_transaction()
            database["witness"].find_one(session=session)
            change()
            with pytest.raises(OperationFailure) as caught:
                database["things"].find_one(session=session)
            assert caught.value.code == 246 and caught.value.has_error_label("TransientTransactionError")
            session.abort_transaction()
            # What a retry sees is what there is.
            session.start_transaction()
            database["things"].insert_one({}, session=session)
            session.commit_transaction()


def test_with_transaction_survives_drops(client, database):
    things, done = database["things"], threading.Event()

    def drop_again_and_again():
        while not done.is_set():
            things.drop()

    def work(session):
        things.insert_one({"kind": "a"}, session=session)
        things.update_many({"kind": "a"}, {"$set": {"seen": True}}, session=session)

    dropping = threading.Thread(target=drop_again_and_again)
    dropping.start()
    try:
        with client.start_session() as session:
            for _ in range(30):
                session.with_transaction(work)
    finally:
        done.set()
        dropping.join()


def test_indexes_and_inserts_beside_drops(server, database):
    done, failures = threading.Event(), []

    def again_and_again(what):
        with MongoClient(server.uri) as client:
            things = client[database.name]["things"]
            while not done.is_set():
                try:
                    what(things)
                except OperationFailure as error:
                    failures.append(error)
                    return

    def build(things):
        try:
            things.create_index("a")
        except OperationFailure as error:
            # It had begun when the collection was dropped.
            if error.code != 276:
                raise

    whats = [build, lambda things: things.insert_one({"a": 1}), lambda things: things.update_one({"a": 1}, {"$set": {"b": 1}}, upsert=True)]
    threads = [threading.Thread(target=again_and_again, args=[what]) for what in whats]
    for thread in threads:
        thread.start()
    for _ in range(100):
        database["things"].drop()
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []


# Change streams


def test_a_place_at_the_last_event_is_that_event(collection):
    collection.insert_one({})
    with collection.watch(max_await_time_ms=100) as stream:
        collection.insert_many([{"_id": 1}, {"_id": 2}])
        last = take(stream, 2)[1]
        assert stream.resume_token == last["_id"]
        assert stream.try_next() is None
        assert stream.resume_token == last["_id"], "nothing has come since"
        collection.database["other"].insert_one({})
        assert stream.try_next() is None
        assert stream.resume_token != last["_id"]
        collection.insert_one({"_id": 3})
        assert take(stream, 1)[0]["documentKey"] == {"_id": 3}
    with collection.watch(max_await_time_ms=100, resume_after=last["_id"]) as stream:
        assert take(stream, 1)[0]["documentKey"] == {"_id": 3}


def test_errors_that_end_a_stream_say_so(collection):
    collection.insert_one({})
    with pytest.raises(OperationFailure) as caught:
        with collection.watch([{"$unset": "_id"}], max_await_time_ms=100) as stream:
            collection.insert_one({"_id": 1})
            take(stream, 1)
    assert caught.value.code == 280 and caught.value.has_error_label("NonResumableChangeStreamError")


def test_unknown_stages_of_a_stream(collection):
    assert code_of(collection.watch, [{"$nonsense": {}}]) == 40324
    assert code_of(collection.watch, [{"$group": {"_id": 1}}]) == 20


def test_a_stream_in_a_transaction(client, collection):
    collection.insert_one({})
    with client.start_session() as session:
        session.start_transaction()
        assert code_of(collection.watch, session=session) == 263
        session.abort_transaction()


def test_every_coll_mod_is_told(collection, database):
    collection.insert_one({})
    with collection.watch(max_await_time_ms=100, show_expanded_events=True) as stream:
        database.command({"collMod": collection.name})
        assert take(stream, 1)[0]["operationType"] == "modify"


def test_a_snapshot_from_before_a_drop_is_unavailable(client, collection):
    collection.insert_one({"_id": 1})
    with client.start_session(snapshot=True) as session:
        assert collection.find_one(session=session) == {"_id": 1}
        collection.drop()
        collection.insert_one({"_id": 2})
        assert code_of(collection.find_one, session=session) == 246
        assert code_of(collection.aggregate, [], session=session) == 246
    with client.start_session(snapshot=True) as session:
        assert collection.find_one(session=session) == {"_id": 2}
