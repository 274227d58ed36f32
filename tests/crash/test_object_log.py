"""Three servers on a log in an object store of this machine: kills of the primary under load while requests fail, a log that is trimmed, and one that is not there."""

import subprocess
import time

import pytest

from object_store_server import store_of_the_environment
from server_process import binary_path
from test_replica_set import Load, ReplicaSet, check_encrypted_set, keys_in

PLACE = "s3://logs/sets/rs0"


@pytest.fixture
def store(monkeypatch):
    with store_of_the_environment(monkeypatch) as store:
        store.names_at_once = 1_000
        yield store


class ObjectReplicaSet(ReplicaSet):
    """Members whose log is in the store; copies of data are in a directory."""

    def __init__(self, directory, count=3, more_arguments=()):
        self.directory = directory
        assert plimsoll("log", "create", self.log_url(), *more_arguments)[0] == 0
        super().__init__(directory, count, more_arguments)

    def log_url(self):
        return f"{PLACE}?copies={self.directory}/beside"


def plimsoll(*arguments):
    done = subprocess.run([binary_path(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=180, check=False)
    return done.returncode, done.stdout.decode()


@pytest.fixture
def replica_set(tmp_path, store):
    found = ObjectReplicaSet(tmp_path)
    try:
        yield found.start()
    finally:
        found.stop()


def test_kills_of_the_primary_under_load_lose_and_repeat_nothing(replica_set, store):
    load = Load(replica_set)
    store.trouble = 0.05
    longest = []
    for _ in range(3):
        time.sleep(2)
        killed = replica_set.primary()
        killed.kill()
        longest.append(load.wait_for_writes(replica_set, 60))
        killed.start()
        replica_set.wait_until(replica_set.is_whole, 60)
    store.trouble = 0.0
    load.finish(replica_set)
    code, told = replica_set.log("check")
    assert code == 0, told
    print("writes again after", [round(seconds, 1) for seconds in longest], "acknowledged", load.progress())


def test_a_store_that_is_gone_for_a_while_stops_writes_and_nothing_else(replica_set, store):
    load = Load(replica_set)
    time.sleep(1)
    store.is_gone = True
    time.sleep(7)
    store.is_gone = False
    load.wait_for_writes(replica_set, 60)
    load.finish(replica_set)


def test_the_log_is_trimmed_and_a_new_member_gets_a_copy(replica_set, store):
    with replica_set.client(w=3) as client:
        for number in range(30):
            client.test.numbers.insert_one({"_id": number})
    names = [name for name in store.names("logs") if "/records/" in name]
    assert len(names) >= 30
    # Members say what they need each ten seconds.
    time.sleep(12)
    assert replica_set.log("copy")[0] == 0
    time.sleep(12)
    code, told = replica_set.log("trim", "--keep", "0")
    assert code == 0 and "the log begins with record" in told, told
    left = [name for name in store.names("logs") if "/records/" in name]
    assert names[0] not in left and len(left) < len(names) + 60
    new = replica_set.add(3)
    new.start()
    replica_set.wait_until(replica_set.is_whole, 60)
    with replica_set.client(w=4) as client:
        client.test.numbers.insert_one({"_id": 30})
        assert client.test.numbers.count_documents({}) == 31


def test_an_encrypted_set_has_an_encrypted_log(tmp_path, store):
    key, other = keys_in(tmp_path)
    found = ObjectReplicaSet(tmp_path, 3, ["--encryption-key-file", str(key)])

    def stored():
        with store.lock:
            return [content for (_, name), content in store.objects.items() if "/records/" in name]

    try:
        check_encrypted_set(found, other, tmp_path / "beside", stored)
        # Without its key nobody takes it for a log that is not encrypted.
        with store.lock:
            del store.objects["logs", "sets/rs0/key"]
        code, said = found.log("check")
        assert code == 1 and "it is not encrypted" in said, said
        code, said = plimsoll("log", "check", found.log_url())
        assert code == 1 and "its key is not there" in said, said
    finally:
        found.stop()


def test_a_key_does_not_go_with_a_log_that_has_readable_records(tmp_path, replica_set):
    key, _ = keys_in(tmp_path)
    code, said = replica_set.log("check", "--encryption-key-file", str(key))
    assert code == 1 and "it is not encrypted, and a key is given" in said, said


def test_a_log_is_made_once_and_must_be_there(tmp_path, store):
    command = ["serve", "--data", tmp_path / "data", "--replica-set", "rs0", "--listen", "127.0.0.1:0", "--log", PLACE]
    code, told = plimsoll(*command)
    assert code == 1 and "log create" in told, told
    assert plimsoll("log", "create", PLACE)[0] == 0
    code, told = plimsoll("log", "create", PLACE)
    assert code == 1 and "already" in told, told
