"""Read concerns: snapshot reads at one point in time, causal reads, linearizable reads."""

import pytest
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern


def failure(action, *arguments, **named):
    with pytest.raises(OperationFailure) as caught:
        action(*arguments, **named)
    return caught.value


def test_a_snapshot_session_stays_at_its_point_in_time(client, database):
    database.c.insert_many([{"_id": number, "n": 0} for number in range(300)])
    with client.start_session(snapshot=True) as session:
        assert database.c.find_one({"_id": 1}, session=session)["n"] == 0
        database.c.update_many({}, {"$inc": {"n": 1}})
        database.c.delete_one({"_id": 2})
        database.c.insert_one({"_id": 1000, "n": 7})
        assert {document["n"] for document in database.c.find({}, session=session, batch_size=50)} == {0}
        assert database.c.distinct("n", session=session) == [0]
        assert database.c.count_documents({}, session=session) == 300
        joined = database.c.aggregate(
            [
                {"$match": {"_id": 5}},
                {"$lookup": {"from": "c", "localField": "n", "foreignField": "n", "as": "same"}},
                {"$project": {"count": {"$size": "$same"}}},
            ],
            session=session,
        )
        assert next(joined)["count"] == 300
    with client.start_session(snapshot=True) as session:
        assert sorted(database.c.distinct("n", session=session)) == [1, 7]
        database.c.update_one({"_id": 1000}, {"$set": {"n": 8}})
        assert database.c.find_one({"_id": 1000}, session=session)["n"] == 7


def test_the_reply_says_when_the_snapshot_is(database):
    database.c.insert_one({"_id": 1})
    reply = database.command({"find": "c", "readConcern": {"level": "snapshot"}})
    time = reply["cursor"]["atClusterTime"]
    database.c.insert_one({"_id": 2})
    again = database.command({"distinct": "c", "key": "_id", "readConcern": {"level": "snapshot", "atClusterTime": time}})
    assert again["values"] == [1] and again["atClusterTime"] == time
    # Any later time can be read, too.
    between = database.command("ping")["operationTime"]
    database.c.insert_one({"_id": 3})
    concern = {"level": "snapshot", "atClusterTime": between}
    assert database.command({"distinct": "c", "key": "_id", "readConcern": concern})["values"] == [1, 2]


def test_times_that_cannot_be_read(database):
    database.c.insert_one({"_id": 1})
    find = lambda concern: database.command({"find": "c", "readConcern": concern})
    assert failure(find, {"level": "snapshot", "atClusterTime": Timestamp(1, 1)}).code == 239
    future = Timestamp(database.command("ping")["operationTime"].time + 1000, 1)
    assert failure(find, {"level": "snapshot", "atClusterTime": future}).code == 72
    assert failure(find, {"afterClusterTime": future}).code == 72
    assert failure(find, {"level": "local", "atClusterTime": Timestamp(1, 1)}).code == 72
    assert find({"afterClusterTime": database.command("ping")["operationTime"]})["ok"] == 1


@pytest.mark.parametrize("level", ["local", "available", "majority", "linearizable"])
def test_every_level_reads_what_was_written(database, level):
    documents = database.c.with_options(read_concern=ReadConcern(level))
    database.c.insert_many([{"_id": number} for number in range(5)])
    assert len(list(documents.find())) == 5
    assert documents.distinct("_id") == [0, 1, 2, 3, 4]
    assert documents.count_documents({}) == 5


def test_levels_where_they_make_no_sense(client, database):
    database.c.insert_one({})
    for command in (
        {"insert": "c", "documents": [{}], "readConcern": {"level": "snapshot"}},
        {"count": "c", "readConcern": {"level": "snapshot"}},
        {"insert": "c", "documents": [{}], "readConcern": {"level": "linearizable"}},
    ):
        assert failure(database.command, command).code == 72
    assert failure(database.command, {"find": "c", "readConcern": {"level": "newest"}}).code == 9
    with client.start_session() as session:
        session.start_transaction(read_concern=ReadConcern("linearizable"))
        assert failure(database.c.find_one, {}, session=session).code == 72
        session.abort_transaction()


def test_a_session_reads_its_own_writes(client, database):
    with client.start_session(causal_consistency=True) as session:
        for number in range(20):
            database.c.insert_one({"_id": number}, session=session)
            assert database.c.count_documents({}, session=session) == number + 1
