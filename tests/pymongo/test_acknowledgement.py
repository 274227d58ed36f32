"""What a durable write that changes nothing promises: that what it found survives a kill, though it was written a moment ago and not for the disk."""

import pytest
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.write_concern import WriteConcern

# Each is given a collection whose writes are to be durable, and the number of a document that is there already.
THINGS = {
    "an update to what is there": lambda there, number: there.update_one({"_id": number}, {"$set": {"n": number}}),
    "an update that finds nothing": lambda there, number: there.update_one({"_id": -1}, {"$set": {"n": 1}}),
    "a replacement by the same": lambda there, number: there.replace_one({"_id": number}, {"n": number}),
    "a deletion that finds nothing": lambda there, number: there.delete_one({"_id": -1}),
    "a document that is there": lambda there, number: refused(DuplicateKeyError, there.insert_one, {"_id": number}),
    "a batch of them": lambda there, number: refused(
        BulkWriteError, there.insert_many, [{"_id": number}, {"_id": number}], ordered=False
    ),
    "findAndModify": lambda there, number: there.find_one_and_update({"_id": number}, {"$set": {"n": number}}),
    "an index that is there": lambda there, number: there.create_index("n"),
}


def refused(error, call, *arguments, **options):
    """A write that must fail."""
    with pytest.raises(error):
        call(*arguments, **options)


@pytest.mark.parametrize("name", THINGS)
@pytest.mark.parametrize("concern", [{"w": 1, "j": True}, {"w": "majority"}], ids=["journal", "majority"])
def test_what_a_durable_write_found_survives_a_kill(server, kill_and_restart, name, concern):
    number = list(THINGS).index(name)
    with MongoClient(server.uri, retryWrites=False) as client:
        database = client["acknowledgement"]
        database["things"].drop()
        database["things"].create_index("n")
        quick = database.get_collection("things", write_concern=WriteConcern(w=1, j=False))
        durable = database.get_collection("things", write_concern=WriteConcern(**concern))
        quick.insert_one({"_id": number, "n": number})
        THINGS[name](durable, number)
    kill_and_restart()
    with MongoClient(server.uri) as client:
        assert client["acknowledgement"]["things"].find_one() == {"_id": number, "n": number}
