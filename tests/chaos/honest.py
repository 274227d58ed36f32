"""Clients that behave: they write what they can answer for, read it back, and measure how long each operation takes.

Each owns its documents, so after a crash the history of what it did and was told decides what may be stored (`crash/history.py`).
"""

import datetime
import random
import threading
import time

from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError

import judgement
from history import History

CLIENTS = 4
KEYS = 300
LASTING = 100
DATABASE = "honest"
CONCERNS = [WriteConcern(w="majority"), WriteConcern(w=1, j=True), WriteConcern(w=1)]
# Between two operations of a client: what is measured is how long the server takes, not how much it can do.
PAUSE_SECONDS = 0.005


class Client(threading.Thread):
    """One client. It goes on through everything, and reports what it saw that cannot be."""

    def __init__(self, uri, number, seed):
        super().__init__(daemon=True)
        self.uri, self.number = uri, number
        self.random = random.Random(seed)
        self.history = History()
        self.version = 0
        self.acknowledged = 0
        self.refused = {}
        self.wrong = []
        # (when it began, how long it took) of what succeeded.
        self.latencies = []
        self.stopping = threading.Event()
        # Held while an operation is under way, and by who wants none to be.
        self.turn = threading.Lock()

    def run(self):
        options = {"retryWrites": False, "retryReads": False, "serverSelectionTimeoutMS": 2000, "maxPoolSize": 1}
        with MongoClient(self.uri, **options) as client:
            while not self.stopping.is_set():
                with self.turn:
                    began = time.monotonic()
                    try:
                        self.step(client[DATABASE].documents)
                        self.latencies.append((began, time.monotonic() - began))
                    except PyMongoError as error:
                        kind = f"{type(error).__name__} {getattr(error, 'code', None) or ''}".strip()
                        self.refused[kind] = self.refused.get(kind, 0) + 1
                time.sleep(PAUSE_SECONDS)

    def step(self, documents):
        if self.random.random() < 0.5:
            self.write(documents)
        else:
            self.read(documents)

    def key(self):
        return f"{self.number}:{self.random.randrange(KEYS)}"

    def write(self, documents):
        concern = self.random.choice(CONCERNS)
        is_durable = concern.document.get("w") == "majority" or concern.document.get("j", False)
        key = self.key()
        self.version += 1
        version = self.version
        fields = {"version": version, "writer": self.number, "tags": [version, -version]}
        fields["pad"] = "p" * self.random.choice([10, 100, 3000])
        self.history.send(key, version)
        documents.with_options(write_concern=concern).replace_one({"_id": key}, fields, upsert=True)
        self.history.acknowledge(key, version, is_durable, time.monotonic())
        self.acknowledged += 1

    def read(self, documents):
        key = self.key()
        found = documents.find_one({"_id": key})
        version = found["version"] if found else 0
        least, most = self.history.required(key, time.monotonic()), self.history.sent.get(key, 0)
        if not least <= version <= most:
            self.wrong.append(f"{key}: version {version} was read, {least} was acknowledged and {most} sent")

    def check(self, stored, killed_at):
        """What is stored of this client's documents after a crash, against what was acknowledged."""
        self.wrong.extend(self.history.disagreements(stored, killed_at))
        self.history.settle(stored)


def prepare(client):
    """Indexes of two kinds, and documents that expire in ten years: whatever happens to the clock, they stay."""
    documents = client[DATABASE].documents
    documents.create_index("version")
    documents.create_index([("writer", 1), ("tags", -1)])
    lasting = client[DATABASE].lasting
    lasting.create_index("at", expireAfterSeconds=0)
    in_ten_years = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=3650)
    lasting.with_options(write_concern=WriteConcern(w="majority")).insert_many([{"at": in_ten_years} for _ in range(LASTING)])


def check_stored(client, clients, killed_at):
    """Every document, by the record and by each index."""
    documents = client[DATABASE].documents
    stored = [{} for _ in clients]
    for document in documents.find({}, {"version": 1, "writer": 1}):
        stored[document["writer"]][document["_id"]] = document["version"]
    by_index = [document["version"] for document in documents.find({}, {"version": 1}).hint("version_1")]
    report = client[DATABASE].command("validate", "documents", full=True)
    lasting = client[DATABASE].lasting.count_documents({})
    # Nothing of this is refused any more: it is judged once.
    for honest, of_client in zip(clients, stored):
        honest.check(of_client, killed_at)
    by_record = [version for of_client in stored for version in of_client.values()]
    wrong = judgement.of_indexes(by_record, by_index, report["errors"])
    return wrong + ([] if lasting == LASTING else [f"{lasting} of {LASTING} documents are left that expire in ten years"])
