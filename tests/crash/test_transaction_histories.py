"""Transactions of many clients at once, with kill -9 in between: the history is one of snapshot isolation, and what was committed stays.

Each transaction reads and appends to a few lists, which are documents, at random. See `isolation`. ISOLATION_SECONDS says how long (default 20).
"""

import os
import random
import threading
import time

from pymongo import MongoClient, WriteConcern
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from isolation import ABORTED, COMMITTED, UNKNOWN, Transaction, problems
from server_process import ServerProcess

SECONDS = float(os.environ.get("ISOLATION_SECONDS", "20"))
SEED = int(os.environ.get("CRASH_SEED", str(random.randrange(1 << 30))))
CLIENTS = 6
KEYS = 8
SECONDS_PER_LIFE = (0.5, 3.0)


class Client(threading.Thread):
    """One client that runs transactions until it is stopped; a server that goes away is waited for."""

    def __init__(self, uri, number, seed):
        super().__init__()
        self.uri, self.number = uri, number
        self.random = random.Random(seed)
        self.history = []
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        # Several transactions in one session, and its retries of a commit are the driver's.
        with MongoClient(self.uri, serverSelectionTimeoutMS=20_000, maxPoolSize=2) as client:
            lists = client.isolation.lists
            while not self.stopping.is_set():
                try:
                    self.run_transaction(client, lists)
                except PyMongoError as error:
                    self.failure = error
                    return

    def run_transaction(self, client, lists):
        transaction = Transaction(self.number, len(self.history))
        self.history.append(transaction)
        has_begun_commit = False
        try:
            with client.start_session(causal_consistency=True) as session:
                session.start_transaction(write_concern=WriteConcern("majority"))
                for position in range(self.random.randint(1, 5)):
                    self.operate(transaction, lists, session, position)
                if self.random.random() < 0.1:
                    session.abort_transaction()
                    transaction.outcome = ABORTED
                    return
                has_begun_commit = True
                session.commit_transaction()
                transaction.outcome = COMMITTED
        except (OperationFailure, ConnectionFailure) as error:
            is_unknown = has_begun_commit and not error.has_error_label("TransientTransactionError")
            transaction.outcome = UNKNOWN if is_unknown else ABORTED
            if not is_unknown and not error.has_error_label("TransientTransactionError"):
                raise

    def operate(self, transaction, lists, session, position):
        key = self.random.randrange(KEYS)
        if self.random.random() < 0.5:
            found = lists.find_one({"_id": key}, session=session)
            transaction.operations.append(("read", key, found["values"]))
            return
        value = (self.number * 1_000_000 + transaction.number) * 10 + position
        # Noted first: an append whose reply is lost may be there.
        transaction.operations.append(("append", key, value))
        lists.update_one({"_id": key}, {"$push": {"values": value}}, session=session)


def run_lives(server, clients, chance):
    """Kills the server and starts it again until the time is over; gives how often."""
    until, kills = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        time.sleep(chance.uniform(*SECONDS_PER_LIFE))
        server.kill()
        server.start()
        kills += 1
    for client in clients:
        client.stopping.set()
    for client in clients:
        client.join()
    return kills


def test_transactions_are_isolated_and_stay(tmp_path):
    chance = random.Random(SEED)
    server = ServerProcess(tmp_path, ["--cache", "64MiB"])
    server.start()
    with MongoClient(server.uri) as client:
        lists = client.isolation.lists.with_options(write_concern=WriteConcern("majority"))
        lists.insert_many([{"_id": key, "values": []} for key in range(KEYS)])
        lists.create_index("values")
    clients = [Client(server.uri, number, chance.random()) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    kills = run_lives(server, clients, chance)
    assert [client.failure for client in clients] == [None] * CLIENTS
    history = [transaction for client in clients for transaction in client.history]
    with MongoClient(server.uri) as client:
        final = {document["_id"]: document["values"] for document in client.isolation.lists.find()}
        report = client.isolation.command("validate", "lists", full=True)
    server.stop()
    outcomes = {outcome: sum(t.outcome == outcome for t in history) for outcome in (COMMITTED, ABORTED, UNKNOWN)}
    print(f"{kills} kills, {outcomes}, CRASH_SEED={SEED}")
    found = problems(history, final)
    assert not found, f"CRASH_SEED={SEED}: " + "\n".join(found[:5])
    assert report["valid"], report
    assert outcomes[COMMITTED] > 50 and outcomes[ABORTED] > 10 and kills >= 3
