"""A server whose commits a shared log in a directory confirms (--log): kills under load, an old copy of the data, and a second server that follows."""

import shutil
import threading
import time

import pymongo
import pytest
from pymongo.errors import NotPrimaryError, PyMongoError

from server_process import ServerProcess

SECONDS_OF_LOAD = 1.5
CLIENTS = 4


def member(directory, log):
    """A server that is the primary of a set on a log."""
    directory.mkdir(exist_ok=True)
    return ServerProcess(directory, ["--cache", "64MiB", "--replica-set", "rs0", "--log", f"dir://{log}"])


def client_of(server):
    return pymongo.MongoClient(server.uri, retryWrites=False, serverSelectionTimeoutMS=20_000)


class Load:
    """Clients that insert numbers of their own, and remember which were acknowledged."""

    def __init__(self, server):
        self.server = server
        self.acknowledged = set()
        self.next = 0
        self.lock = threading.Lock()

    def run(self, seconds):
        """Writes until the time is over or the server is gone."""
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.write, args=(until,)) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        return threads

    def write(self, until):
        with client_of(self.server) as client:
            documents = client.test.numbers
            try:
                while time.monotonic() < until:
                    with self.lock:
                        self.next += 1
                        number = self.next
                    documents.insert_one({"_id": number, "text": "x" * 200})
                    with self.lock:
                        self.acknowledged.add(number)
            except PyMongoError:
                pass

    def check(self):
        """All that was acknowledged is there, and nothing that was not sent."""
        with client_of(self.server) as client:
            stored = {document["_id"] for document in client.test.numbers.find({}, {"_id": 1})}
            assert client.test.numbers.count_documents({}) == len(stored)
        missing = self.acknowledged - stored
        assert not missing, f"{len(missing)} acknowledged documents are missing: {sorted(missing)[:5]}"
        assert stored <= set(range(1, self.next + 1))


def test_what_was_acknowledged_survives_kills_and_an_old_copy_of_the_data(tmp_path):
    server = member(tmp_path / "one", tmp_path / "log")
    load = Load(server)
    old = tmp_path / "old"
    for life in range(6):
        server.start()
        load.check()
        threads = load.run(SECONDS_OF_LOAD)
        if life == 1:
            for thread in threads:
                thread.join()
            server.stop()
            shutil.copytree(server.directory / "data", old)
            continue
        time.sleep(SECONDS_OF_LOAD / 2)
        server.kill()
        for thread in threads:
            thread.join()
        if life == 4:
            # The machine has lost everything since.
            shutil.rmtree(server.directory / "data")
            shutil.copytree(old, server.directory / "data")
    assert len(load.acknowledged) > 50
    server.start()
    load.check()
    with client_of(server) as client:
        assert client.test.command("validate", "numbers")["valid"]
    server.stop()


def test_a_copy_of_the_data_elsewhere_follows_and_does_not_take_the_lead(tmp_path):
    first = member(tmp_path / "one", tmp_path / "log")
    first.start()
    with client_of(first) as client:
        client.test.numbers.insert_one({"_id": 0})
    first.stop()
    second = member(tmp_path / "two", tmp_path / "log")
    shutil.copytree(first.directory / "data", second.directory / "data")
    first.start()
    load = Load(first)
    threads = load.run(3)
    second.start()
    for thread in threads:
        thread.join(30)
    with client_of(second) as client:
        until = time.monotonic() + 30
        while not client.admin.command("hello")["secondary"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        with pytest.raises(NotPrimaryError):
            client.test.numbers.delete_one({"_id": 0})
    first.kill()
    load.server = second
    with client_of(second) as client:
        until = time.monotonic() + 30
        while not client.admin.command("hello")["isWritablePrimary"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert client.test.numbers.delete_one({"_id": 0}).deleted_count == 1
    load.check()
    second.stop()
