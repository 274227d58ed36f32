"""Updates and deletes of many documents: each is changed once, and however long they take they need no more history than there is."""

import pytest
from pymongo import MongoClient

from server_process import ServerProcess

DOCUMENTS = 24_000
PAD = "x" * 2_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose history holds a third of what the commands replace."""
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--cache", "64MiB", "--history", "16MiB"])
    process.start()
    yield process
    process.stop()


@pytest.fixture
def documents(server):
    with MongoClient(server.uri) as client:
        collection = client["long_writes"]["documents"]
        collection.drop()
        for start in range(0, DOCUMENTS, 6_000):
            collection.insert_many({"_id": i, "a": i, "n": 0, "pad": PAD} for i in range(start, start + 6_000))
        yield collection


def test_an_update_of_more_than_the_history_holds(documents):
    result = documents.update_many({}, {"$inc": {"n": 1}})
    assert (result.matched_count, result.modified_count) == (DOCUMENTS, DOCUMENTS)
    assert documents.count_documents({"n": 1}) == DOCUMENTS


def test_an_update_that_moves_records_in_the_index_it_reads_meets_each_once(documents):
    documents.create_index("a")
    documents.delete_many({"a": {"$gte": 6_000}})
    result = documents.update_many({"a": {"$gte": 0}}, {"$inc": {"a": 10_000, "n": 1}}, hint="a_1")
    assert (result.matched_count, result.modified_count) == (6_000, 6_000)
    assert documents.count_documents({"n": 1, "a": {"$gte": 10_000, "$lt": 16_000}}) == 6_000


@pytest.mark.parametrize("hint", ["_id_", "a_1", None])
def test_a_delete_of_more_than_the_history_holds(documents, hint):
    documents.create_index("a")
    assert documents.delete_many({"a": {"$gte": 0}, "_id": {"$gte": 0}}, hint=hint).deleted_count == DOCUMENTS
    assert documents.count_documents({}) == 0
    assert documents.find_one({}, hint="a_1") is None
