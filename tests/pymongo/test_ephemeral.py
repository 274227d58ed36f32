"""`plimsoll serve --ephemeral`: all data in memory, nothing on disk, gone with the process."""

import os
import subprocess
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from server_process import ServerProcess, binary_path

OUT_OF_DISK_SPACE = 14031


class Ephemeral(ServerProcess):
    """Runs in a directory of its own, where whatever it writes is found."""

    def launch(self):
        command = [str(binary_path()), "serve", "--ephemeral", "--listen", f"127.0.0.1:{self.port}", *self.arguments]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.directory, stdout=log, stderr=log)

    def files(self):
        """Files that it has open, and those in its directory."""
        links = f"/proc/{self.process.pid}/fd"
        opened = [os.readlink(f"{links}/{link}") for link in os.listdir(links)]
        found = {path for path in opened if path.startswith("/") and not path.startswith(("/dev", "/proc", "/sys"))}
        return (found | {str(path) for path in self.directory.rglob("*")}) - {str(self.log_path)}


@pytest.fixture
def server(tmp_path):
    server = Ephemeral(tmp_path, ["--memory", "256MiB"])
    server.start()
    yield server
    server.kill()


def test_it_does_what_others_do_and_leaves_nothing(server):
    with MongoClient(server.uri) as client:
        things = client.test.things
        things.insert_many([{"_id": number, "group": number % 7, "text": "x" * 200} for number in range(20_000)])
        things.create_index("group")
        assert things.count_documents({"group": 3}) == 2857
        groups = things.aggregate([{"$sort": {"text": 1, "_id": -1}}, {"$group": {"_id": "$group", "first": {"$first": "$_id"}}}])
        assert {group["_id"]: group["first"] for group in groups}[6] == 19_998
        capped = client.test.create_collection("ring", capped=True, size=100_000)
        capped.insert_many([{"_id": number, "text": "y" * 1000} for number in range(1000)])
        assert capped.count_documents({}) < 100
        assert client.test.command("validate", "things", full=True)["valid"]
        client.admin.command("fsync")
        assert server.files() == set()
    server.stop()
    server.start()
    with MongoClient(server.uri) as client:
        assert "test" not in client.list_database_names()
        assert client.test.things.count_documents({}) == 0
    server.stop()
    assert server.log_tail().count("panicked") == 0


def test_a_full_memory_is_a_full_disk(server):
    """It is refused by name, and what is there can be read."""
    with MongoClient(server.uri, retryWrites=False) as client:
        things = client.test.things
        with pytest.raises(PyMongoError) as refused:
            for number in range(100_000):
                things.insert_one({"_id": number, "text": os.urandom(20_000)})
        assert refused.value.code == OUT_OF_DISK_SPACE, refused.value
        assert number > 500
        assert things.count_documents({}) == number
        # What is dropped makes room again.
        client.test.drop_collection("things")
        deadline = time.monotonic() + 60
        while not takes_writes(client.test.others):
            assert time.monotonic() < deadline, server.log_tail()
            time.sleep(0.1)
        client.test.others.insert_many([{"_id": number, "text": os.urandom(20_000)} for number in range(200)])


def takes_writes(collection):
    try:
        collection.insert_one({"text": os.urandom(20_000)})
        return True
    except PyMongoError as refused:
        assert refused.code == OUT_OF_DISK_SPACE, refused
        return False


def test_too_little_memory_is_refused(tmp_path):
    command = [str(binary_path()), "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--memory", "96MiB"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1 and "too little for --ephemeral" in ended.stderr


@pytest.mark.parametrize(
    "option", ["--data=data", "--encryption-key-file=key", "--encryption-key-env=KEY", "--flight-recorder-size=20MiB"]
)
def test_what_needs_a_disk_is_refused(option, tmp_path):
    command = [str(binary_path()), "serve", "--ephemeral", "--listen", "127.0.0.1:0", option]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "means nothing with --ephemeral" in ended.stderr
    assert list(tmp_path.iterdir()) == []
