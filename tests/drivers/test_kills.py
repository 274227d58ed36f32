"""Kills of the primary of a replica set under load by PyMongo, Node and Java with their default settings: no operation fails, nothing acknowledged is
lost, nothing is done twice.

`PLIMSOLL_KILLS` says how often (some times without it). A driver that cannot be had here is left out, and the test says which.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "crash"))

from test_replica_set import replica_set  # noqa: E402, F401
from test_staying_connected import Missing, java_program, node_program, pymongo_program  # noqa: E402

KILLS = int(os.environ.get("PLIMSOLL_KILLS", "3"))
PROGRAMS = {
    "pymongo": lambda folder: pymongo_program(folder, "counting"),
    "node": lambda folder: node_program(folder, "counting"),
    "java": lambda folder: java_program(folder, "Counting"),
}


class Client:
    """A program at work; what it tells."""

    def __init__(self, program, uri, name):
        self.name = name
        self.done, self.errors = {}, []
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen([*program, uri, name], **options)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            # Others' lines are the loggers' of drivers.
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            self.done[told["counter"]] = told["done"]
            if "error" in told:
                self.errors.append(told)

    def progress(self):
        return sum(self.done.values())

    def stop(self):
        self.process.stdin.close()
        self.reader.join(120)
        assert not self.reader.is_alive(), f"{self.name} waits for ever"
        assert self.process.wait(30) == 0


@pytest.fixture
def programs(tmp_path):
    found = {}
    for driver, program in PROGRAMS.items():
        folder = tmp_path / driver
        folder.mkdir()
        try:
            found[driver] = program(folder)
        except Missing as reason:
            print(f"the {driver} driver cannot be had here: {reason}")
    return found


def test_no_driver_notices_that_primaries_are_killed(replica_set, programs):  # noqa: F811
    hosts = ",".join(f"127.0.0.1:{member.port}" for member in replica_set.members)
    uri = f"mongodb://{hosts}/?replicaSet=rs0&readPreference=primary"
    clients = [Client(program, uri, driver) for driver, program in programs.items()]
    pauses = []
    try:
        replica_set.wait_until(lambda: all(client.progress() > 20 for client in clients), 60)
        for number in range(KILLS):
            killed = replica_set.primary()
            before = [dict(client.done) for client in clients]
            killed.kill()
            began = time.monotonic()
            replica_set.wait_until(lambda: goes_on(clients, before), 90)
            pauses.append(time.monotonic() - began)
            assert not any(client.errors for client in clients), [client.errors for client in clients]
            killed.start()
            replica_set.wait_until(replica_set.is_whole, 60)
            if number % 20 == 19:
                print(f"{number + 1} kills, {sum(client.progress() for client in clients)} acknowledged", flush=True)
    finally:
        for client in clients:
            client.stop()
    pauses.sort()
    print(f"{KILLS} kills, {list(programs)}: writes of all again after {pauses[len(pauses) // 2]:.1f} s, at most {pauses[-1]:.1f} s")
    done = {counter: count for client in clients for counter, count in client.done.items()}
    assert not any(client.errors for client in clients), [client.errors for client in clients]
    with replica_set.client() as database:
        counted = {document["_id"]: document["count"] for document in database.kills.counters.find()}
        numbers = {document["_id"] for document in database.kills.numbers.find()}
        assert counted == done
        assert numbers == {f"{counter}-{number}" for counter, count in done.items() for number in range(count)}


def goes_on(clients, before):
    """Each worker of each client: one that still tries again for this kill would meet the next with no try left."""
    return all(client.errors or all(client.done[counter] > done + 2 for counter, done in told.items()) for client, told in zip(clients, before))
