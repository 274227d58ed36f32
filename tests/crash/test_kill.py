"""kill -9 at random moments under load: no acknowledged write is lost, and everything stored is consistent.

CRASH_KILLS says how many kills (default 50), CRASH_SEED which random numbers.
"""

import os
import random
import threading
import time

from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError

from history import History
from server_process import ServerProcess

KILLS = int(os.environ.get("CRASH_KILLS", "50"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 30))))
WRITERS = 6
KEYS_PER_WRITER = 200
CONCERNS = [
    WriteConcern(w="majority"),
    WriteConcern(w=1, j=True),
    WriteConcern(w=1),
    WriteConcern(w=0),
]
INDEX_EVERY_ROUNDS = 10


class Writer(threading.Thread):
    """One client that writes its own keys until the server goes away."""

    def __init__(self, uri, number, history, next_version, seed):
        super().__init__()
        self.uri, self.number, self.history, self.version = uri, number, history, next_version
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        # No retry: a write that is sent again would be one write in the history and two on the wire.
        options = {"retryWrites": False, "serverSelectionTimeoutMS": 2000, "maxPoolSize": 1, "directConnection": True}
        with MongoClient(self.uri, **options) as client:
            try:
                while not self.stopping.is_set():
                    self.write(client.crash.documents, CONCERNS[self.random.randrange(len(CONCERNS))])
            except PyMongoError as error:
                self.failure = error

    def write(self, documents, concern):
        """Writes one key, or a batch of several, with the next versions."""
        target = documents.with_options(write_concern=concern)
        is_durable = concern.document.get("w") == "majority" or concern.document.get("j", False)
        key = f"{self.number}:{self.random.randrange(KEYS_PER_WRITER)}"
        self.version += 1
        version = self.version
        fields = {"version": version, "writer": self.number, "even": version % 2 == 0, "tags": [version, -version]}
        fields["pad"] = "p" * self.random.choice([10, 100, 3000, 40_000])
        self.history.send(key, version)
        match self.random.randrange(3):
            case 0:
                target.update_one({"_id": key}, {"$set": fields}, upsert=True)
            case 1:
                target.replace_one({"_id": key}, fields, upsert=True)
            case 2:
                target.update_many({"_id": {"$in": [key]}}, {"$set": fields}, upsert=True)
        if concern.acknowledged:
            self.history.acknowledge(key, version, is_durable, time.monotonic())


def stored_versions(client):
    """What is stored, by writer and key."""
    stored = [{} for _ in range(WRITERS)]
    for document in client.crash.documents.find({}, {"version": 1, "writer": 1, "tags": 1, "even": 1}):
        version = document["version"]
        assert document["tags"] == [version, -version], document
        assert document["even"] == (version % 2 == 0), document
        stored[document["writer"]][document["_id"]] = version
    return stored


def check_indexes(client, stored):
    """Each index finds what the scan found."""
    documents = client.crash.documents
    expected = sorted(version for writer in stored for version in writer.values())
    assert sorted(d["version"] for d in documents.find({}, {"version": 1}).hint("version_1")) == expected
    assert documents.count_documents({"tags": {"$gt": 0}}, hint="tags_1") == len(expected)
    for name in client.crash.list_collection_names():
        report = client.crash.command("validate", name, full=True)
        assert report["valid"] and not report["errors"], report


def test_no_acknowledged_write_is_lost(tmp_path):
    print(f"{KILLS} kills, CRASH_SEED={SEED}")
    chance = random.Random(SEED)
    server = ServerProcess(tmp_path)
    server.start()
    with MongoClient(server.uri) as client:
        client.crash.documents.create_index("version")
        client.crash.documents.create_index("tags")
        client.crash.documents.create_index([("writer", 1), ("even", -1), ("_id", 1)])
    histories = [History() for _ in range(WRITERS)]
    next_versions = [0] * WRITERS
    writes, slowest_start = 0, 0.0
    for kill in range(KILLS):
        writers = [
            Writer(server.uri, n, histories[n], next_versions[n], chance.random()) for n in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        time.sleep(chance.uniform(0.05, 1.5))
        if kill % INDEX_EVERY_ROUNDS == INDEX_EVERY_ROUNDS - 1:
            build_and_drop_something(server.uri, kill)
        killed_at = time.monotonic()
        server.kill()
        for writer in writers:
            writer.stopping.set()
            writer.join()
        started = server.start()
        slowest_start = max(slowest_start, started)
        with MongoClient(server.uri) as client:
            stored = stored_versions(client)
            found = [line for n in range(WRITERS) for line in histories[n].disagreements(stored[n], killed_at)]
            assert not found, f"kill {kill}, CRASH_SEED={SEED}:\n" + "\n".join(found[:20])
            check_indexes(client, stored)
        for n, writer in enumerate(writers):
            histories[n].settle(stored[n])
            writes += writer.version - next_versions[n]
            next_versions[n] = writer.version
    server.stop()
    print(f"{writes} writes; the slowest start took {slowest_start:.2f} s")
    assert writes > KILLS * WRITERS


def build_and_drop_something(uri, number):
    """Definitions change while the kill comes: it must find all of a change, or nothing."""
    with MongoClient(uri, serverSelectionTimeoutMS=2000) as client:
        other = client.crash[f"other{number}"]
        other.insert_many([{"_id": i, "a": i} for i in range(200)])
        other.create_index("a")
        if number % 20 == 9:
            other.drop()
