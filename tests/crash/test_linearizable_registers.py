"""Registers in a replica set whose primary is killed, stopped for a while, and steps down: each is linearizable."""

import signal
import threading
import time

import pymongo
from bson import Int64
from pymongo import WriteConcern
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from linearizability import Operation, complaints
from test_replica_set import replica_set  # noqa: F401

REGISTERS = 4
WRITERS = 3
READERS = 3
# Between two of a client's operations, so that the checker has time for what they do.
PAUSE_SECONDS = 0.004


class Clients:
    """Write values of their own into registers, and read them, and note when."""

    def __init__(self, replica_set):
        self.replica_set = replica_set
        self.stopping = threading.Event()
        self.histories = [[] for _ in range(REGISTERS)]
        self.lock = threading.Lock()
        with replica_set.client() as client:
            client.test.registers.insert_many([{"_id": number, "value": None} for number in range(REGISTERS)])
        works = [(self.write, number) for number in range(WRITERS)] + [(self.read, number) for number in range(READERS)]
        self.threads = [threading.Thread(target=work, args=(number,)) for work, number in works]
        for thread in self.threads:
            thread.start()

    def note(self, register, *operation):
        with self.lock:
            self.histories[register].append(Operation(*operation))

    def write(self, number):
        with self.replica_set.client(socketTimeoutMS=3_000, retryWrites=True) as client:
            registers = client.test.get_collection("registers", write_concern=WriteConcern(w="majority"))
            written = 0
            while not self.stopping.is_set():
                written += 1
                register, value = written % REGISTERS, Int64(number * 1_000_000 + written)
                begin = time.monotonic()
                try:
                    registers.update_one({"_id": register}, {"$set": {"value": value}})
                    self.note(register, True, value, begin, time.monotonic())
                except PyMongoError:
                    self.note(register, True, value, begin, float("inf"))
                time.sleep(PAUSE_SECONDS)

    def read(self, number):
        with self.replica_set.client(socketTimeoutMS=3_000, retryReads=False) as client:
            registers = client.test.get_collection("registers", read_concern=ReadConcern("linearizable"))
            count = number
            while not self.stopping.is_set():
                count += 1
                begin = time.monotonic()
                try:
                    value = registers.find_one({"_id": count % REGISTERS})["value"]
                    self.note(count % REGISTERS, False, value, begin, time.monotonic())
                except PyMongoError:
                    pass
                time.sleep(PAUSE_SECONDS)

    def progress(self):
        with self.lock:
            return sum(operation.is_write and operation.end < float("inf") for one in self.histories for operation in one)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(90)
            assert not thread.is_alive(), "a client waits for ever"


def test_registers_are_linearizable(replica_set):  # noqa: F811
    clients = Clients(replica_set)
    for fault in ("kill", "stop", "step down", "kill"):
        time.sleep(1.5)
        primary, before = replica_set.primary(), clients.progress()
        if fault == "kill":
            primary.kill()
        elif fault == "stop":
            primary.process.send_signal(signal.SIGSTOP)
        else:
            with pymongo.MongoClient(primary.uri) as client:
                client.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=2)
        replica_set.wait_until(lambda: clients.progress() > before + 50, 60)
        if fault == "kill":
            primary.start()
        elif fault == "stop":
            # It wakes as somebody whom others have overtaken, with clients that still wait.
            primary.process.send_signal(signal.SIGCONT)
        replica_set.wait_until(replica_set.is_whole, 60)
    clients.stop()
    counts = [len(history) for history in clients.histories]
    assert min(counts) > 200, counts
    for history in clients.histories:
        assert complaints(history) == []
    print("operations", sum(counts), "unknown", sum(one.end == float("inf") for history in clients.histories for one in history))
