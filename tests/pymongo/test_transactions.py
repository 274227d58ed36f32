"""Transactions of several documents, as drivers run them. Expectations are those of MongoDB's manual and of the drivers' specifications."""

import threading

import pytest
from pymongo import ReturnDocument, WriteConcern
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure
from pymongo.read_concern import ReadConcern


@pytest.fixture
def session(client):
    with client.start_session() as session:
        yield session


def failure(action, *arguments, **named):
    """The error that an action must fail with."""
    with pytest.raises(OperationFailure) as caught:
        action(*arguments, **named)
    return caught.value


def ids(collection, session=None, **query):
    return sorted(document["_id"] for document in collection.find(query, session=session))


def test_a_commit_makes_everything_visible_at_once(client, database, session):
    one, two = database.one, database.two
    one.insert_one({"_id": 0})
    two.insert_one({"_id": 0})
    with session.start_transaction():
        one.insert_one({"_id": 1}, session=session)
        two.insert_many([{"_id": 1}, {"_id": 2}], session=session)
        one.update_one({"_id": 0}, {"$set": {"a": 1}}, session=session)
        two.delete_one({"_id": 0}, session=session)
        assert ids(one) == [0] and ids(two) == [0]
        assert ids(one, session) == [0, 1] and ids(two, session) == [1, 2]
        assert one.find_one({"_id": 0}, session=session) == {"_id": 0, "a": 1}
        assert one.find_one({"_id": 0}) == {"_id": 0}
    assert ids(one) == [0, 1] and ids(two) == [1, 2]
    assert one.find_one({"_id": 0}) == {"_id": 0, "a": 1}
    assert one.estimated_document_count() == 2 and two.estimated_document_count() == 2


def test_an_abort_leaves_nothing(database, session):
    database.c.insert_one({"_id": 0, "n": 1})
    session.start_transaction()
    database.c.insert_one({"_id": 1}, session=session)
    database.c.update_one({"_id": 0}, {"$inc": {"n": 1}}, session=session)
    session.abort_transaction()
    assert list(database.c.find()) == [{"_id": 0, "n": 1}]
    database.c.insert_one({"_id": 1})
    database.c.update_one({"_id": 0}, {"$inc": {"n": 1}})


def test_it_reads_from_one_snapshot(database, session):
    database.c.insert_many([{"_id": number, "n": 0} for number in range(3)])
    with session.start_transaction(read_concern=ReadConcern("snapshot")):
        assert ids(database.c, session) == [0, 1, 2]
        database.c.insert_one({"_id": 3, "n": 0})
        database.c.update_one({"_id": 0}, {"$set": {"n": 1}})
        database.c.delete_one({"_id": 1})
        assert ids(database.c, session) == [0, 1, 2]
        assert database.c.find_one({"_id": 0}, session=session)["n"] == 0
        assert [group["n"] for group in database.c.aggregate([{"$count": "n"}], session=session)] == [3]
    assert ids(database.c, session) == [0, 2, 3]


def test_the_first_writer_wins(client, database, session):
    database.c.insert_one({"_id": 1, "n": 0})
    session.start_transaction()
    database.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
    with client.start_session() as other:
        other.start_transaction()
        error = failure(database.c.update_one, {"_id": 1}, {"$inc": {"n": 10}}, session=other)
        assert error.code == 112 and error.has_error_label("TransientTransactionError")
        error = failure(database.c.find_one, {}, session=other)
        assert error.code == 251 and error.has_error_label("TransientTransactionError")
    session.commit_transaction()
    assert database.c.find_one()["n"] == 1


def test_a_change_since_the_snapshot_is_a_conflict(database, session):
    database.c.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
    for change in (
        lambda: database.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session),
        lambda: database.c.delete_one({"_id": 1}, session=session),
        lambda: database.c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, session=session),
        lambda: database.c.replace_one({"_id": 1}, {"n": 7}, session=session),
    ):
        session.start_transaction()
        assert database.c.find_one({"_id": 2}, session=session)
        database.c.update_one({"_id": 1}, {"$inc": {"other": 1}})
        error = failure(change)
        assert error.code == 112 and error.has_error_label("TransientTransactionError")
        session.abort_transaction()


def test_a_single_write_waits_for_the_transaction(client, database, session):
    database.c.insert_one({"_id": 1, "n": 0})
    session.start_transaction()
    database.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
    database.c.insert_one({"_id": 2, "n": 0}, session=session)
    done = []
    writers = [
        threading.Thread(target=lambda: done.append(database.c.update_one({"_id": 1}, {"$inc": {"n": 10}}).modified_count)),
        threading.Thread(target=lambda: done.append(failure(database.c.insert_one, {"_id": 2}).code)),
    ]
    for writer in writers:
        writer.start()
    error = failure(
        database.command, {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 100}}}], "maxTimeMS": 100}
    )
    assert error.code == 50
    assert done == []
    session.commit_transaction()
    for writer in writers:
        writer.join()
    assert sorted(done) == [1, 11000]
    assert database.c.find_one({"_id": 1})["n"] == 11


def test_its_own_changes_are_found_through_every_index(database, session):
    database.c.create_index([("a", 1), ("b", -1)])
    database.c.create_index("tags")
    database.c.insert_many([{"_id": number, "a": number % 3, "b": number, "tags": [number]} for number in range(30)])
    with session.start_transaction():
        database.c.update_many({"a": 1}, {"$set": {"a": 7}, "$push": {"tags": "new"}}, session=session)
        database.c.delete_many({"a": 2}, session=session)
        database.c.insert_many([{"_id": number, "a": 2, "b": number} for number in range(30, 34)], session=session)
        find = lambda query, **options: [document["_id"] for document in database.c.find(query, session=session, **options)]
        assert find({"a": 7}, sort=[("b", -1)]) == list(range(28, 0, -3))
        assert find({"a": 7}, sort=[("b", 1)], hint="a_1_b_-1") == list(range(1, 30, 3))
        assert find({"a": 2}, sort=[("b", 1)]) == [30, 31, 32, 33]
        assert find({"a": 1}) == []
        assert find({"a": {"$gte": 2}}, sort=[("a", -1), ("b", 1)], hint="a_1_b_-1", limit=3) == [1, 4, 7]
        assert find({"tags": "new"}, sort=[("_id", 1)]) == list(range(1, 30, 3))
        assert find({"tags": 4}) == [4] and find({"tags": 5}) == []
        assert find({"_id": {"$gte": 27}}, sort=[("_id", -1)]) == [33, 32, 31, 30, 28, 27]
        assert len(find({}, sort=[("$natural", -1)])) == 24
        assert sorted(database.c.distinct("a", session=session)) == [0, 2, 7]
        covered = database.c.find({"a": 7}, {"_id": 0, "b": 1}, session=session, hint="a_1_b_-1")
        assert sorted(document["b"] for document in covered) == list(range(1, 30, 3))
        looked_up = list(database.c.aggregate([
            {"$match": {"_id": 30}},
            {"$lookup": {"from": "c", "localField": "a", "foreignField": "a", "as": "same"}},
        ], session=session))
        assert len(looked_up[0]["same"]) == 4
    assert database.c.count_documents({}) == 24
    assert [document["_id"] for document in database.c.find({"a": 7}).hint("a_1_b_-1").sort("b", 1)] == list(range(1, 30, 3))


def test_an_update_of_many_meets_each_document_once(database, session):
    database.c.create_index("n")
    database.c.insert_many([{"_id": number, "n": number} for number in range(50)])
    with session.start_transaction():
        result = database.c.update_many({"n": {"$gte": 0}}, {"$inc": {"n": 100}}, session=session)
        assert result.modified_count == 50
    assert sorted(document["n"] for document in database.c.find()) == list(range(100, 150))


def test_unique_indexes_hold_inside_and_between(client, database, session):
    database.c.create_index("u", unique=True)
    database.c.insert_one({"_id": 1, "u": 1})
    session.start_transaction()
    assert isinstance(failure(database.c.insert_one, {"_id": 2, "u": 1}, session=session), DuplicateKeyError)
    assert failure(database.c.find_one, {}, session=session).code == 251
    session.abort_transaction()
    with session.start_transaction():
        database.c.delete_one({"_id": 1}, session=session)
        database.c.insert_one({"_id": 2, "u": 1}, session=session)
        database.c.update_one({"_id": 2}, {"$set": {"u": 2}}, session=session)
        database.c.insert_one({"_id": 3, "u": 1}, session=session)
    assert {document["_id"]: document["u"] for document in database.c.find()} == {2: 2, 3: 1}
    session.start_transaction()
    database.c.insert_one({"_id": 4, "u": 4}, session=session)
    assert failure(database.c.insert_one, {"_id": 5, "u": 4}, session=session).code == 11000
    session.abort_transaction()
    session.start_transaction()
    database.c.insert_one({"_id": 4, "u": 4}, session=session)
    with client.start_session() as other:
        other.start_transaction()
        assert failure(database.c.insert_one, {"_id": 5, "u": 4}, session=other).code == 112
    session.commit_transaction()
    session.start_transaction()
    assert database.c.find_one({"_id": 4}, session=session)
    database.c.insert_one({"_id": 6, "u": 6})
    error = failure(database.c.insert_one, {"_id": 7, "u": 6}, session=session)
    assert error.code == 112 and error.has_error_label("TransientTransactionError")
    session.abort_transaction()


def test_errors_abort(database, session):
    database.c.insert_one({"_id": 1})
    session.start_transaction()
    database.c.insert_one({"_id": 2}, session=session)
    with pytest.raises(BulkWriteError):
        database.c.insert_many([{"_id": 3}, {"_id": 1}, {"_id": 4}], session=session, ordered=False)
    error = failure(session.commit_transaction)
    assert error.code == 251 and error.has_error_label("TransientTransactionError")
    assert ids(database.c) == [1]


def test_commit_and_abort_may_be_repeated_as_the_specification_says(client, database, session):
    lsid = session.session_id
    session.start_transaction()
    database.c.insert_one({"_id": 1}, session=session)
    session.commit_transaction()
    session.commit_transaction()
    number = session._server_session.transaction_id
    end = lambda command: client.admin.command(
        {command: 1, "lsid": lsid, "txnNumber": number, "autocommit": False, "writeConcern": {"w": "majority"}}
    )
    session.start_transaction()
    database.c.insert_one({"_id": 2}, session=session)
    assert ids(database.c) == [1]
    session.abort_transaction()
    assert ids(database.c) == [1]
    # An empty transaction.
    with session.start_transaction():
        assert database.c.find_one({"_id": 1}, session=session)


def test_what_a_transaction_creates_is_its_own_until_it_commits(client, database, session):
    session.start_transaction()
    database.create_collection("made", session=session)
    database.command({"createIndexes": "made", "indexes": [{"key": {"u": 1}, "name": "u", "unique": True}]}, session=session)
    database.made.insert_one({"_id": 1, "u": 1}, session=session)
    database.implied.insert_one({"_id": 1}, session=session)
    database.upserted.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True, session=session)
    database.found.find_one_and_update({"_id": 1}, {"$set": {"a": 1}}, upsert=True, session=session)
    assert database.list_collection_names() == []
    assert ids(database.made) == [] and ids(database.made, session) == [1]
    joined = [
        {"$lookup": {"from": "implied", "localField": "_id", "foreignField": "_id", "as": "others"}},
        {"$project": {"others": {"$size": "$others"}}},
    ]
    assert list(database.made.aggregate(joined, session=session)) == [{"_id": 1, "others": 1}]
    session.commit_transaction()
    assert sorted(database.list_collection_names()) == ["found", "implied", "made", "upserted"]
    assert sorted(database.made.index_information()) == ["_id_", "u"]
    assert database.upserted.find_one() == database.found.find_one() == {"_id": 1, "a": 1}
    with pytest.raises(DuplicateKeyError):
        database.made.insert_one({"_id": 2, "u": 1})


def test_what_an_aborted_transaction_created_is_gone(database, session):
    session.start_transaction()
    database.create_collection("made", session=session)
    database.implied.insert_one({"_id": 1}, session=session)
    session.abort_transaction()
    assert database.list_collection_names() == []
    session.start_transaction()
    database.implied.insert_one({"_id": 1}, session=session)
    error = failure(database.command, {"create": "implied", "capped": True, "size": 4096}, session=session)
    assert error.code == 263
    assert database.list_collection_names() == []


def test_two_transactions_that_create_one_collection_are_in_conflict(client, database, session):
    with client.start_session() as other:
        session.start_transaction()
        database.c.insert_one({"_id": 1}, session=session)
        other.start_transaction()
        database.c.insert_one({"_id": 2}, session=other)
        session.commit_transaction()
        error = failure(other.commit_transaction)
        assert error.code == 112 and error.has_error_label("TransientTransactionError")
    assert ids(database.c) == [1]


def test_what_is_refused_in_a_transaction(client, database, session):
    database.c.insert_one({"_id": 1})
    for command in (
        {"count": "c"},
        {"listCollections": 1},
        {"drop": "c"},
        {"explain": {"find": "c"}},
        {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
        {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}},
        {"aggregate": "c", "pipeline": [{"$collStats": {}}], "cursor": {}},
    ):
        session.start_transaction()
        error = failure(database.command, command, session=session)
        assert error.code == 263, command
        session.abort_transaction()
    session.start_transaction()
    assert failure(client.admin.c.insert_one, {}, session=session).code == 263
    session.abort_transaction()
    session.start_transaction()
    body = {"insert": "c", "documents": [{}], "writeConcern": {"w": 1}}
    assert failure(database.command, body, session=session).code == 72
    session.abort_transaction()


def test_cursors_belong_to_their_transaction(client, database, session):
    database.c.insert_many([{"_id": number} for number in range(20)])
    session.start_transaction()
    cursor = database.c.find({}, session=session, batch_size=3)
    assert next(cursor)["_id"] == 0
    database.c.delete_many({"_id": {"$gt": 10}}, session=session)
    database.c.insert_one({"_id": 15}, session=session)
    assert [document["_id"] for document in cursor] == [*range(1, 11), 15]
    cursor = database.c.find({}, session=session, batch_size=3)
    next(cursor)
    error = failure(database.command, {"getMore": cursor.cursor_id, "collection": "c"})
    assert error.code in (50736, 50738)
    identifier = cursor.cursor_id
    session.commit_transaction()
    error = failure(database.command, {"getMore": identifier, "collection": "c"}, session=session)
    assert error.code == 43


def test_it_ends_with_its_session_and_with_time(client, database):
    database.c.insert_one({"_id": 1})
    session = client.start_session()
    session.start_transaction()
    database.c.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
    client.admin.command("killSessions", [session.session_id])
    database.c.update_one({"_id": 1}, {"$set": {"b": 1}})
    assert failure(session.commit_transaction).code == 251
    was = client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=1)["was"]
    assert was == 60
    try:
        with client.start_session() as session:
            session.start_transaction()
            database.c.update_one({"_id": 1}, {"$set": {"a": 1}}, session=session)
            database.c.update_one({"_id": 1}, {"$set": {"c": 1}})
            error = failure(database.c.find_one, {}, session=session)
            assert error.code == 251 and error.has_error_label("TransientTransactionError")
    finally:
        client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=was)
    assert database.c.find_one() == {"_id": 1, "b": 1, "c": 1}


def test_the_status_tells_whose_transaction_is_the_oldest(client, database, session):
    database.c.insert_one({"_id": 1})
    session.start_transaction()
    database.c.find_one({}, session=session)
    with client.start_session() as other:
        other.start_transaction()
        database.c.find_one({}, session=other)
        status = client.admin.command("serverStatus")["transactions"]
        assert status["currentOpen"] == 2
        assert status["oldest"]["lsid"] == session.session_id and status["oldest"]["timeOpenMicros"] >= 0
        other.abort_transaction()
    session.commit_transaction()
    after = client.admin.command("serverStatus")["transactions"]
    assert after["currentOpen"] == 0 and "oldest" not in after


def test_with_transaction_retries_conflicts(client, database):
    database.accounts.insert_many([{"_id": number, "balance": 100} for number in range(4)])

    def transfer(source, target):
        def body(session):
            database.accounts.update_one({"_id": source}, {"$inc": {"balance": -1}}, session=session)
            database.accounts.update_one({"_id": target}, {"$inc": {"balance": 1}}, session=session)

        with client.start_session() as session:
            for _ in range(15):
                session.with_transaction(body, write_concern=WriteConcern("majority"))

    threads = [threading.Thread(target=transfer, args=(number, (number + 1) % 4)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [account["balance"] for account in database.accounts.find().sort("_id", 1)] == [100] * 4


def test_collections_are_made_by_writing_into_them(database, session):
    with session.start_transaction():
        database.fresh.insert_one({"_id": 1}, session=session)
        database.other.update_one({"_id": 1}, {"$set": {"a": 1}}, upsert=True, session=session)
        found = database.fresh.find_one_and_update(
            {"_id": 1}, {"$set": {"b": 2}}, session=session, return_document=ReturnDocument.AFTER
        )
        assert found == {"_id": 1, "b": 2}
    assert list(database.fresh.find()) == [{"_id": 1, "b": 2}] and list(database.other.find()) == [{"_id": 1, "a": 1}]


@pytest.mark.parametrize("documents", [10, 40_000])
@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_committed_transaction_survives_whole(server, client, database, documents, ending):
    database.c.create_index("n")
    database.c.insert_many([{"_id": number, "n": number} for number in range(100)])
    padding = "x" * 200
    with client.start_session() as session:
        with session.start_transaction(write_concern=WriteConcern(1, j=True)):
            database.c.delete_many({"_id": {"$lt": 50}}, session=session)
            database.c.update_many({}, {"$inc": {"n": 1000}}, session=session)
            database.c.insert_many(
                [{"_id": number, "n": -number, "p": padding} for number in range(1000, 1000 + documents)], session=session
            )
    with client.start_session() as open_one:
        open_one.start_transaction()
        database.c.insert_one({"_id": "lost"}, session=open_one)
        if ending == "kill":
            server.kill()
        else:
            server.stop()
    server.start()
    assert database.c.count_documents({}) == 50 + documents
    assert database.c.estimated_document_count() == 50 + documents
    assert database.c.count_documents({"n": {"$gte": 1050, "$lt": 1100}}) == 50
    assert database.c.count_documents({"n": {"$lte": -1000}}, hint="n_1") == documents
    assert database.c.find_one({"_id": "lost"}) is None
