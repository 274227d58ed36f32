"""Commands beside definitions that change: drops, renames and index drops make nobody fail who could do without."""

import random
import threading
from contextlib import contextmanager

import pytest
from pymongo.errors import OperationFailure

DROPS = 60
NAMESPACE_NOT_FOUND, INDEX_NOT_FOUND, INDEX_BUILD_ABORTED = 26, 27, 276


@contextmanager
def beside(*steps):
    """Does each of the steps again and again, each on a thread, until the block ends. Fails as they fail."""
    is_over, failures = threading.Event(), []

    def work(step):
        try:
            while not is_over.is_set():
                step()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert failures == []


def allowing(codes, step):
    def attempt():
        try:
            step()
        except OperationFailure as error:
            if error.code not in codes:
                raise

    return attempt


COMMANDS = {
    "find": lambda collection: list(collection.find({"a": 1})),
    "count": lambda collection: collection.count_documents({}),
    "distinct": lambda collection: collection.distinct("a"),
    "aggregate": lambda collection: list(collection.aggregate([{"$group": {"_id": "$a"}}])),
    "lookup": lambda collection: list(
        collection.database["other"].aggregate(
            [{"$lookup": {"from": collection.name, "localField": "x", "foreignField": "a", "as": "found"}}]
        )
    ),
    "insert": lambda collection: collection.insert_many([{"a": number} for number in range(20)]),
    "update": lambda collection: collection.update_one({"a": 1}, {"$inc": {"n": 1}}),
    "upsert": lambda collection: collection.update_one({"a": 77}, {"$inc": {"n": 1}}, upsert=True),
    "delete": lambda collection: collection.delete_one({"a": 3}),
    "findAndModify": lambda collection: collection.find_one_and_update({"a": 1}, {"$inc": {"n": 1}}),
    "explain": lambda collection: collection.find({"a": 1}).explain(),
    "dbHash": lambda collection: collection.database.command("dbHash"),
    "createIndexes": lambda collection: collection.create_index("a"),
    "dropIndexes": lambda collection: collection.database.command("dropIndexes", collection.name, index="*"),
    "collMod": lambda collection: collection.database.command("collMod", collection.name, validationLevel="strict"),
    "validate": lambda collection: collection.database.command("validate", collection.name),
}

# What a command says when there is no collection, or when its index build ends with it.
ALLOWED = {
    "createIndexes": {INDEX_BUILD_ABORTED},
    "dropIndexes": {NAMESPACE_NOT_FOUND},
    "collMod": {NAMESPACE_NOT_FOUND},
    "validate": {NAMESPACE_NOT_FOUND},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_drop_makes_no_command_fail_with_query_plan_killed(collection, name):
    collection.database["other"].insert_one({"x": 1})
    step = allowing(ALLOWED.get(name, set()), lambda: COMMANDS[name](collection))
    with beside(step, step):
        for _ in range(DROPS):
            collection.insert_many([{"a": number} for number in range(5)])
            collection.drop()


def test_transactions_commit_beside_definitions(client, database):
    counted = database["counted"]
    counted.insert_one({"_id": 0, "n": 0})
    side = database["side"]
    side.insert_one({})

    def body(session):
        side.insert_one({"x": 1}, session=session)
        counted.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)

    def commit():
        with client.start_session() as session:
            session.with_transaction(body)

    build = allowing({INDEX_BUILD_ABORTED}, lambda: side.create_index(random.choice("ab")))
    unbuild = allowing({NAMESPACE_NOT_FOUND, INDEX_NOT_FOUND}, lambda: side.drop_index(random.choice("ab") + "_1"))
    with beside(build, unbuild, side.drop):
        for _ in range(DROPS):
            commit()
    assert counted.find_one() == {"_id": 0, "n": DROPS}


@pytest.mark.parametrize(
    "command",
    [
        {"drop": "used"},
        {"dropIndexes": "used", "index": "*"},
        {"convertToCapped": "used", "size": 100_000},
        {"dropDatabase": 1},
        {"aggregate": "other", "pipeline": [{"$out": "used"}], "cursor": {}},
    ],
    ids=lambda command: next(iter(command)),
)
def test_definitions_wait_for_open_transactions_until_their_time_is_over(client, database, command):
    database["used"].insert_one({"_id": 1})
    database["other"].insert_one({"_id": 1})
    with client.start_session() as session:
        with session.start_transaction():
            database["used"].insert_one({"_id": 2}, session=session)
            with pytest.raises(OperationFailure) as caught:
                database.command({**command, "maxTimeMS": 100})
            assert caught.value.code == 50
    assert database["used"].count_documents({}) == 2
