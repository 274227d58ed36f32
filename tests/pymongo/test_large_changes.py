"""A change of one document with very many index entries: others write and read meanwhile."""

import threading

from pymongo import ASCENDING, MongoClient

ELEMENTS = 20_000


def test_others_go_past_a_document_with_very_many_index_entries(server, database):
    database.large.drop()
    database.others.drop()
    for number in range(4):
        database.large.create_index([("a", ASCENDING), (f"f{number}", ASCENDING)])
    begun, ended = threading.Event(), threading.Event()

    def change():
        with MongoClient(server.uri) as client:
            large = client[database.name].large
            begun.set()
            large.insert_one({"_id": 1, "a": list(range(ELEMENTS))})
            large.update_one({"_id": 1}, {"$set": {"a": list(range(5, ELEMENTS + 5))}})
            ended.set()

    with database.client.watch(max_await_time_ms=50) as stream:
        thread = threading.Thread(target=change)
        thread.start()
        begun.wait()
        number, seen_before = 0, 0
        while not ended.is_set():
            number += 1
            database.others.insert_one({"_id": number})
            assert database.others.find_one({"_id": number})
            database.large.insert_one({"_id": -number, "a": -1})
            seen_before += database.large.count_documents({"a": 3}) == 0
        thread.join()
        # Each of them took its turn; one that waited for the large change would have been one of a few.
        assert number > 8, number
        assert seen_before > 1, seen_before
        assert database.large.count_documents({"a": 3}) == 0
        assert database.large.count_documents({"a": ELEMENTS + 4}) == 1
        assert database.large.count_documents({"a": -1}) == number
        events = []
        while len(events) < 2 and (event := stream.next()):
            if event["documentKey"]["_id"] == 1 and event["ns"]["coll"] == "large":
                events.append(event["operationType"])
                assert "lsid" not in event
        assert events == ["insert", "update"]
    assert database.large.delete_one({"_id": 1}).deleted_count == 1
    assert database.large.count_documents({"a": {"$gte": 0}}) == 0
    # A definition changes when the change is over, and nobody is stuck.
    database.large.drop_index([("a", ASCENDING), ("f3", ASCENDING)])
