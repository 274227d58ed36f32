"""update: every operator, multi, upsert, arrayFilters, positions, replacement, pipelines; errors."""

import datetime

import bson
import pytest
from pymongo import ReplaceOne, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError


@pytest.mark.parametrize(
    "before, update, after",
    [
        ({"a": 1}, {"$set": {"a": 2, "b.c": 3}}, {"a": 2, "b": {"c": 3}}),
        ({"a": 1, "b": 2}, {"$unset": {"a": ""}}, {"b": 2}),
        ({"a": 1}, {"$inc": {"a": 2, "b": -1}}, {"a": 3, "b": -1}),
        ({"a": 2**31 - 1}, {"$inc": {"a": 1}}, {"a": 2**31}),
        ({"a": 3}, {"$mul": {"a": 2, "b": 5}}, {"a": 6, "b": 0}),
        ({"a": 3, "b": 3}, {"$min": {"a": 2, "b": 4, "c": 1}}, {"a": 2, "b": 3, "c": 1}),
        ({"a": 3, "b": 3}, {"$max": {"a": 2, "b": 4, "c": 1}}, {"a": 3, "b": 4, "c": 1}),
        ({"a": 1, "b": 2}, {"$rename": {"a": "c"}}, {"b": 2, "c": 1}),
        ({"a": 1}, {"$setOnInsert": {"b": 1}, "$set": {"a": 1}}, {"a": 1}),
        ({"a": [1]}, {"$push": {"a": 2}}, {"a": [1, 2]}),
        ({}, {"$push": {"a": 2}}, {"a": [2]}),
        ({"a": [1]}, {"$push": {"a": {"$each": [3, 2]}}}, {"a": [1, 3, 2]}),
        ({"a": [1]}, {"$push": {"a": {"$each": [3, 2], "$sort": 1}}}, {"a": [1, 2, 3]}),
        ({"a": [1]}, {"$push": {"a": {"$each": [3, 2], "$slice": -2}}}, {"a": [3, 2]}),
        ({"a": [1]}, {"$push": {"a": {"$each": [3, 2], "$position": 0}}}, {"a": [3, 2, 1]}),
        (
            {"a": [{"n": 5}]},
            {"$push": {"a": {"$each": [{"n": 9}, {"n": 7}], "$sort": {"n": -1}, "$slice": 2}}},
            {"a": [{"n": 9}, {"n": 7}]},
        ),
        ({"a": [1, 2, 3, 2]}, {"$pull": {"a": 2}}, {"a": [1, 3]}),
        ({"a": [1, 2, 3]}, {"$pull": {"a": {"$gte": 2}}}, {"a": [1]}),
        ({"a": [{"b": 1, "c": 2}, {"b": 2}]}, {"$pull": {"a": {"b": 1}}}, {"a": [{"b": 2}]}),
        ({"a": [1, 2, 3, 2]}, {"$pullAll": {"a": [2, 3]}}, {"a": [1]}),
        ({"a": [1, 2, 3]}, {"$pop": {"a": 1}}, {"a": [1, 2]}),
        ({"a": [1, 2, 3]}, {"$pop": {"a": -1}}, {"a": [2, 3]}),
        ({"a": [1]}, {"$addToSet": {"a": 1}}, {"a": [1]}),
        ({"a": [1]}, {"$addToSet": {"a": {"$each": [1, 2, 2]}}}, {"a": [1, 2]}),
        ({"a": 0b1100}, {"$bit": {"a": {"and": 0b1010}}}, {"a": 0b1000}),
        ({"a": 0b1100}, {"$bit": {"a": {"or": 0b0010}}}, {"a": 0b1110}),
        ({"a": 0b1100}, {"$bit": {"a": {"xor": 0b1010}}}, {"a": 0b0110}),
        ({"a": [1, 2]}, {"$set": {"a.3": 9}}, {"a": [1, 2, None, 9]}),
        ({"a": [1, 2]}, {"$unset": {"a.0": 1}}, {"a": [None, 2]}),
        ({"a": [1, 2]}, {"$inc": {"a.$[]": 10}}, {"a": [11, 12]}),
        ({"a": [{"b": 1}, {"b": 2}]}, {"$set": {"a.$[].c": 0}}, {"a": [{"b": 1, "c": 0}, {"b": 2, "c": 0}]}),
        ({"a": 1}, [{"$set": {"b": {"$add": ["$a", 1]}}}, {"$unset": "a"}], {"b": 2}),
        ({"a": 1}, [{"$replaceWith": {"z": "$a"}}], {"z": 1}),
    ],
)
def test_operators(collection, before, update, after):
    collection.insert_one({"_id": 1, **before})
    result = collection.update_one({"_id": 1}, update)
    assert result.matched_count == 1
    assert collection.find_one() == {"_id": 1, **after}
    stored_as = {field: list(value) if isinstance(value, dict) else None for field, value in after.items()}
    assert all(list(collection.find_one()[field]) == keys for field, keys in stored_as.items() if keys)


def test_new_fields_come_in_the_order_of_their_names(collection):
    collection.insert_one({"_id": 1})
    collection.update_one({"_id": 1}, {"$set": {"b": 1, "a": 1, "10": 1, "9": 1}})
    assert list(collection.find_one()) == ["_id", "9", "10", "a", "b"]


def test_array_filters(collection):
    collection.insert_one({"_id": 1, "a": [{"n": 1}, {"n": 5}, {"n": 9}]})
    collection.update_one({}, {"$set": {"a.$[big].hit": True}}, array_filters=[{"big.n": {"$gt": 4}}])
    assert collection.find_one()["a"] == [{"n": 1}, {"n": 5, "hit": True}, {"n": 9, "hit": True}]


def test_the_matched_position(collection):
    collection.insert_one({"_id": 1, "a": [{"n": 1}, {"n": 5}]})
    collection.update_one({"a.n": 5}, {"$set": {"a.$.n": 6}})
    assert collection.find_one()["a"] == [{"n": 1}, {"n": 6}]
    collection.update_one({"a": {"$elemMatch": {"n": 6}}}, {"$inc": {"a.$.n": 1}})
    assert collection.find_one()["a"] == [{"n": 1}, {"n": 7}]


def test_current_date(collection):
    collection.insert_one({"_id": 1})
    collection.update_one({}, {"$currentDate": {"a": True, "b": {"$type": "timestamp"}}})
    found = collection.find_one()
    assert abs(found["a"] - datetime.datetime.now(datetime.UTC).replace(tzinfo=None)) < datetime.timedelta(minutes=1)
    assert isinstance(found["b"], bson.Timestamp)


def test_one_and_many(collection):
    collection.insert_many([{"_id": i, "a": i % 2} for i in range(10)])
    result = collection.update_one({"a": 1}, {"$set": {"hit": 1}})
    assert (result.matched_count, result.modified_count) == (1, 1)
    result = collection.update_many({"a": 1}, {"$set": {"hit": 1}})
    assert (result.matched_count, result.modified_count) == (5, 4)
    result = collection.update_many({"a": 7}, {"$set": {"hit": 1}})
    assert (result.matched_count, result.modified_count) == (0, 0)


def test_update_many_does_not_meet_a_document_twice(collection):
    collection.create_index("a")
    collection.insert_many([{"_id": i, "a": i} for i in range(1000)])
    result = collection.update_many({"a": {"$gte": 0}}, {"$inc": {"a": 500}})
    assert result.modified_count == 1000
    assert sorted(d["a"] for d in collection.find()) == list(range(500, 1500))


def test_upsert(collection):
    result = collection.update_one({"a": 1, "b": {"$gt": 5}}, {"$set": {"c": 2}, "$setOnInsert": {"d": 3}}, upsert=True)
    assert isinstance(result.upserted_id, bson.ObjectId) and result.matched_count == 0
    assert collection.find_one({}, {"_id": 0}) == {"a": 1, "c": 2, "d": 3}
    result = collection.update_one({"_id": 7}, {"$inc": {"n": 1}}, upsert=True)
    assert result.upserted_id == 7
    result = collection.update_one({"_id": 7}, {"$inc": {"n": 1}}, upsert=True)
    assert result.upserted_id is None and result.modified_count == 1
    assert collection.find_one({"_id": 7})["n"] == 2
    result = collection.replace_one({"_id": 8}, {"x": 1}, upsert=True)
    assert result.upserted_id == 8 and collection.find_one({"_id": 8}) == {"_id": 8, "x": 1}


def test_replacement(collection):
    collection.insert_one({"_id": 1, "a": 1, "b": 2})
    collection.replace_one({"a": 1}, {"c": 3})
    assert collection.find_one() == {"_id": 1, "c": 3}
    with pytest.raises(WriteError) as caught:
        collection.replace_one({"c": 3}, {"_id": 2})
    assert caught.value.code == 66


def test_hint_and_let(collection):
    collection.create_index("a")
    collection.insert_many([{"_id": i, "a": i} for i in range(5)])
    assert collection.update_one({"a": 3}, {"$set": {"b": 1}}, hint="a_1").modified_count == 1
    with pytest.raises(OperationFailure) as caught:
        collection.update_one({"a": 3}, {"$set": {"b": 1}}, hint="absent")
    assert caught.value.code == 2
    collection.update_one({"$expr": {"$eq": ["$a", "$$v"]}}, [{"$set": {"b": "$$v"}}], let={"v": 4})
    assert collection.find_one({"_id": 4})["b"] == 4


def test_bulk_update_results(collection):
    result = collection.bulk_write(
        [
            UpdateOne({"_id": 1}, {"$set": {"a": 1}}, upsert=True),
            UpdateOne({"_id": 1}, {"$set": {"a": 2}}),
            ReplaceOne({"_id": 2}, {"a": 3}, upsert=True),
        ]
    )
    assert result.upserted_ids == {0: 1, 2: 2}
    assert result.matched_count == 1 and result.modified_count == 1


def test_raw_reply(collection):
    collection.insert_many([{"_id": 1}, {"_id": 2}])
    updates = [
        {"q": {}, "u": {"$set": {"a": 1}}, "multi": True},
        {"q": {"_id": 9}, "u": {"$set": {"a": 1}}, "upsert": True},
    ]
    reply = collection.database.command("update", collection.name, updates=updates)
    assert (reply["n"], reply["nModified"], reply["upserted"]) == (3, 2, [{"index": 1, "_id": 9}])


def test_a_unique_index_is_kept(collection):
    collection.create_index("a", unique=True)
    collection.insert_many([{"_id": 1, "a": 1}, {"_id": 2, "a": 2}])
    with pytest.raises(DuplicateKeyError) as caught:
        collection.update_one({"_id": 2}, {"$set": {"a": 1}})
    assert caught.value.details["keyPattern"] == {"a": 1} and caught.value.details["keyValue"] == {"a": 1}
    assert collection.find_one({"_id": 2})["a"] == 2


def test_unordered_updates_go_on_after_an_error(collection):
    collection.insert_one({"_id": 1, "s": "text"})
    with pytest.raises(BulkWriteError) as caught:
        collection.bulk_write(
            [UpdateOne({"_id": 1}, {"$inc": {"s": 1}}), UpdateOne({"_id": 1}, {"$set": {"t": 1}})], ordered=False
        )
    assert [error["code"] for error in caught.value.details["writeErrors"]] == [14]
    assert collection.find_one()["t"] == 1


@pytest.mark.parametrize(
    "update, code",
    [
        ({"$unknown": {"a": 1}}, 9),
        ({"$set": {"a": 1}, "$inc": {"a": 1}}, 40),
        ({"$set": {"a": 1, "a.b": 1}}, 40),
        ({"$inc": {"s": 1}}, 14),
        ({"$inc": {"a": "1"}}, 14),
        ({"$set": {"s.x": 1}}, 28),
        ({"$set": {"_id": 5}}, 66),
        ({"$push": {"s": 1}}, 2),
        ({"$pop": {"a": 2}}, 9),
        ({"$rename": {"a": "a"}}, 2),
        ({"$set": {"a.$": 1}}, 2),
        ({"$set": {"a.$[x]": 1}}, 2),
        ({"$set": 5}, 9),
        ({"$set": {"": 1}}, 56),
        ([{"$group": {"_id": 1}}], 72),
        ({"$bit": {"a": {"nand": 1}}}, 2),
        ({"$currentDate": {"a": {"$type": "year"}}}, 2),
        ({"$addToSet": {"s": 1}}, 2),
        ({"$mul": {"s": 2}}, 14),
        ({"$pullAll": {"a": 1}}, 2),
    ],
)
def test_refused(collection, update, code):
    collection.insert_one({"_id": 1, "s": "text", "a": 1})
    with pytest.raises(OperationFailure) as caught:
        collection.update_one({"_id": 1}, update)
    assert caught.value.code == code, caught.value.details
    assert collection.find_one() == {"_id": 1, "s": "text", "a": 1}


def test_a_document_cannot_outgrow_16_mebibytes(collection):
    collection.insert_one({"_id": 1, "a": "x" * (9 * 1024 * 1024)})
    with pytest.raises(OperationFailure) as caught:
        collection.update_one({}, {"$set": {"b": "x" * (9 * 1024 * 1024)}})
    assert caught.value.code in (17419, 10334, 17420)
    assert "b" not in collection.find_one()


def test_a_replacement_that_is_upserted_takes_only_the_id_from_a_contradictory_filter(collection):
    contradictory = {"$and": [{"a": 1}, {"a": 2}, {"_id": 7}]}
    assert collection.replace_one(contradictory, {"b": 1}, upsert=True).upserted_id == 7
    assert collection.find_one({"_id": 7}) == {"_id": 7, "b": 1}
    with pytest.raises(OperationFailure) as failure:
        collection.update_one({"$and": [{"a": 1}, {"a": 2}]}, {"$set": {"b": 1}}, upsert=True)
    assert failure.value.code == 54


@pytest.mark.parametrize("indexed", [False, True])
def test_a_position_named_in_the_filter_is_not_the_match(collection, indexed):
    if indexed:
        collection.create_index("a")
        collection.create_index("b.0")
    collection.insert_one({"_id": 1, "a": [0, 1], "b": [0]})
    collection.update_one({"a": 1, "b.0": 0}, {"$set": {"a.$": 2}})
    assert collection.find_one()["a"] == [0, 2]
    found = collection.find_one_and_update(
        {"b.0": {"$gte": 0}, "a": {"$in": [2, 7]}}, {"$inc": {"a.$": 1}}, return_document=True
    )
    assert found["a"] == [0, 3]
    collection.update_many({"$and": [{"a": {"$elemMatch": {"$gt": 2}}}, {"b.0": {"$lt": 1}}]}, {"$set": {"a.$": 4}})
    assert collection.find_one()["a"] == [0, 4]
    assert collection.find_one({"a": 4, "b.0": 0}, {"a.$": 1})["a"] == [4]
    collection.replace_one({}, {"a": [{"b": [0, 1]}]})
    collection.update_one({"a.0.b": 1}, {"$set": {"a.0.b.$": 9}})
    assert collection.find_one()["a"] == [{"b": [0, 9]}]


def test_a_named_position_alone_is_no_match(collection):
    collection.insert_one({"a": [0, 1]})
    for filter in [{"a.0": 0}, {"$or": [{"a": 1}, {"b": 2}]}, {"a": {"$not": {"$gt": 5}}}]:
        with pytest.raises(WriteError) as error:
            collection.update_one(filter, {"$set": {"a.$": 2}})
        assert error.value.code == 2
        with pytest.raises(OperationFailure) as error:
            collection.find_one(filter, {"a.$": 1})
        assert error.value.code == 51246
        with pytest.raises(OperationFailure) as error:
            collection.find_one_and_update(filter, {"$set": {"a.$": 2}})
        assert error.value.code == 2
    assert collection.find_one()["a"] == [0, 1]


@pytest.mark.parametrize("stage, code", [({"$nonsense": 1}, 40324), ({"$set": {"a": 1}, "$unset": "b"}, 40323), ({}, 40323)])
def test_what_is_no_pipeline_fails_the_command(collection, stage, code):
    collection.insert_one({"_id": 1})
    updates = [{"q": {}, "u": {"$set": {"x": 1}}}, {"q": {}, "u": [{"$set": {"y": 1}}, stage]}]
    with pytest.raises(OperationFailure) as error:
        collection.database.command("update", collection.name, updates=updates)
    assert error.value.code == code
    assert collection.find_one() == {"_id": 1}
    with pytest.raises(OperationFailure) as error:
        collection.find_one_and_update({}, [stage])
    assert error.value.code == code


@pytest.mark.parametrize("stage", ["$match", "$lookup", "$bucketAuto", "$vectorSearch", "$rankFusion"])
def test_other_stages_fail_their_statement(collection, stage):
    updates = [{"q": {}, "u": [{stage: {}}]}]
    reply = collection.database.command("update", collection.name, updates=updates)
    (error,) = reply["writeErrors"]
    assert error["code"] == 72 and stage in error["errmsg"]


def test_new_fields_come_in_order(collection):
    new = {name: 1 for name in ["b", "10", "01", "9", "a", "001", "1", "0001"]}
    ordered = ["_id", "0001", "001", "01", "1", "9", "10", "a", "b"]
    for update in [{"$set": new}, {"$inc": new}, {"$max": new}, {"$setOnInsert": new}]:
        collection.delete_many({})
        collection.update_one({"_id": 1}, update, upsert=True)
        assert list(collection.find_one()) == ordered
    collection.replace_one({}, {})
    collection.update_one({}, {"$set": new})
    assert list(collection.find_one()) == ordered


def test_a_rename_of_nothing_is_no_error(collection):
    collection.insert_one({"_id": 1, "s": 5})
    assert collection.update_one({}, {"$rename": {"absent": "s.x.y"}}).modified_count == 0
    with pytest.raises(WriteError) as error:
        collection.update_one({}, {"$rename": {"s.x": "y"}})
    assert error.value.code == 28


def test_an_upsert_stores_no_name_with_a_dollar(collection):
    for update in [{"$set": {"$a": 1}}, {"$setOnInsert": {"$a": 1}}, {"$inc": {"$a.b": 1}}]:
        with pytest.raises(WriteError) as error:
            collection.update_one({"_id": 1}, update, upsert=True)
        assert error.value.code == 52
    assert collection.find_one() is None


def test_the_first_in_an_order_is_changed(database, collection):
    collection.insert_many([{"_id": number, "n": -number, "state": "waiting"} for number in range(5)])
    assert collection.update_one({"state": "waiting"}, {"$set": {"state": "taken"}}, sort={"n": 1}).modified_count == 1
    assert collection.find_one({"state": "taken"})["_id"] == 4
    collection.replace_one({"state": "waiting"}, {"state": "replaced", "n": -3}, sort={"_id": -1})
    assert collection.find_one({"state": "replaced"})["_id"] == 3
    collection.create_index("n")
    collection.bulk_write([UpdateOne({"n": {"$lt": 1}}, {"$set": {"state": "first"}}, sort={"n": -1})])
    assert collection.find_one({"state": "first"})["_id"] == 0
    statement = {"q": {}, "u": {"$set": {"state": "last"}}, "sort": {"n": 1}, "upsert": True}
    plan = database.command({"explain": {"update": collection.name, "updates": [statement]}})["queryPlanner"]["winningPlan"]
    assert "SORT" in str(plan) or "IXSCAN" in str(plan)
    assert database.command("update", collection.name, updates=[statement])["nModified"] == 1
    assert collection.find_one({"state": "last"})["n"] == -4


def test_an_order_of_many_is_refused(database, collection):
    collection.insert_one({})
    with pytest.raises(OperationFailure) as error:
        database.command("update", collection.name, updates=[{"q": {}, "u": {"$set": {"b": 1}}, "multi": True, "sort": {"a": 1}}])
    assert error.value.code == 9
    with pytest.raises(WriteError) as error:
        collection.update_one({}, {"$set": {"b": 1}}, sort={"a": "up"})
    assert error.value.code == 15974
    assert "b" not in collection.find_one()
