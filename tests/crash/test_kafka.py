"""Three servers on a log in Kafka, on three brokers: kills of the primary and of brokers under load. Run by `cargo xtask test --with kafka`, which says in
PLIMSOLL_KAFKA_JARS where the brokers' programs are; skipped otherwise."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pymongo
import pytest
from pymongo import WriteConcern
from pymongo.errors import PyMongoError

from server_process import binary_path
from test_log_trimming import TRIMMED_SECONDS, TrimmedSet, Writing, check_all, first_record
from test_replica_set import Load, ReplicaSet, of_log

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "kafka"))
from brokers import Brokers  # noqa: E402

JARS = os.environ.get("PLIMSOLL_KAFKA_JARS")
pytestmark = pytest.mark.skipif(JARS is None, reason="no brokers: cargo xtask test --with kafka")
KILLS = int(os.environ.get("PLIMSOLL_KAFKA_KILLS", "4"))
# A broker that is gone is missed after three seconds, then another one leads the partition.
WITHOUT_BROKER_SECONDS = 60


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    found = Brokers(tmp_path_factory.mktemp("kafka") / "brokers", JARS)
    try:
        yield found.start()
    finally:
        found.stop()


class KafkaReplicaSet(ReplicaSet):
    """Members that follow a topic of their own."""

    def __init__(self, directory, brokers):
        self.brokers, self.topic, self.directory = brokers, directory.name, directory
        plimsoll("log", "create", self.log_url())
        super().__init__(directory)

    def log_url(self):
        return f"kafka://{self.brokers.addresses}/{self.topic}?copies={self.directory}/beside"


class TrimmedKafkaSet(TrimmedSet, KafkaReplicaSet):
    """Their topic is kept for seconds."""


class PatientWriting(Writing):
    """Tries again while there is no primary, or no broker."""

    def go_on(self):
        deadline = time.monotonic() + WITHOUT_BROKER_SECONDS
        while True:
            try:
                self.collection.replace_one({"_id": self.count}, {"text": "x" * 300}, upsert=True)
                break
            except PyMongoError:
                assert time.monotonic() < deadline
        self.count += 1


def plimsoll(*arguments):
    done = subprocess.run([binary_path(), *arguments], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def started(kind, directory, brokers):
    for number, process in enumerate(brokers.processes):
        if process.poll() is not None:
            brokers.start_again(number)
    found = kind(directory, brokers)
    try:
        yield found.start()
    finally:
        found.stop()


@pytest.fixture
def replica_set(tmp_path, brokers):
    yield from started(KafkaReplicaSet, tmp_path, brokers)


@pytest.fixture
def trimmed_set(tmp_path, brokers):
    yield from started(TrimmedKafkaSet, tmp_path, brokers)


def test_a_log_is_made_once_and_must_be_there(tmp_path, brokers):
    url = f"kafka://{brokers.addresses}/made-once"
    assert "made the log" in plimsoll("log", "create", url)
    again = subprocess.run([binary_path(), "log", "create", url], capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "already" in again.stderr
    command = [binary_path(), "serve", "--data", tmp_path / "data", "--replica-set", "rs0", "--listen", "127.0.0.1:0", "--log"]
    absent = subprocess.run([*command, url + "x"], capture_output=True, text=True, timeout=60, check=False)
    assert absent.returncode == 1 and "log create" in absent.stderr
    unsafe = f"kafka://{brokers.addresses}/unsafe?replication=1"
    plimsoll("log", "create", unsafe)
    careless = subprocess.run([*command, unsafe.split("?")[0]], capture_output=True, text=True, timeout=60, check=False)
    assert careless.returncode == 1 and "min.insync.replicas" in careless.stderr and "on 1 of" in careless.stderr


def test_kills_of_the_primary_under_load_lose_and_repeat_nothing(replica_set):
    load = Load(replica_set)
    longest = []
    for _ in range(3):
        time.sleep(1.5)
        killed = replica_set.primary()
        killed.kill()
        longest.append(load.wait_for_writes(replica_set, WITHOUT_BROKER_SECONDS))
        killed.start()
        replica_set.wait_until(replica_set.is_whole)
    time.sleep(1)
    load.finish(replica_set)
    print("writes again after", [round(seconds, 1) for seconds in longest], "acknowledged", load.progress())
    assert min(longest) < 15


def test_brokers_are_killed_in_turn_under_load(replica_set, brokers):
    load = Load(replica_set)
    longest = []
    for number in range(brokers.count):
        time.sleep(1.5)
        brokers.kill(number)
        longest.append(load.wait_for_writes(replica_set, WITHOUT_BROKER_SECONDS))
        brokers.start_again(number)
        # Until it has everything again, another one must not be taken away.
        time.sleep(8)
    load.finish(replica_set)
    print("writes again after", [round(seconds, 1) for seconds in longest], "acknowledged", load.progress())


@pytest.mark.parametrize("broker", range(3))
def test_the_primary_and_a_broker_are_killed_together(replica_set, brokers, broker):
    """As with a machine that has both. One of the three leads the topic; then nobody but the brokers' controller says who does next."""
    load = Load(replica_set)
    time.sleep(2)
    killed = replica_set.primary()
    brokers.kill(broker)
    killed.kill()
    took = load.wait_for_writes(replica_set, WITHOUT_BROKER_SECONDS)
    killed.start()
    brokers.start_again(broker)
    replica_set.wait_until(replica_set.is_whole, WITHOUT_BROKER_SECONDS)
    # Until it has everything again, another one must not be taken away.
    time.sleep(8)
    load.finish(replica_set)
    print("writes again after", round(took, 1), "acknowledged", load.progress())


def test_kills_of_all_kinds_lose_and_repeat_nothing(replica_set, brokers):
    """All brokers at once, too: each has written a record before it acknowledges it. `PLIMSOLL_KAFKA_KILLS` says how often."""
    load = Load(replica_set)
    kinds = {"the primary": (True, 0), "a broker": (False, 1), "both": (True, 1), "all brokers": (False, 3)}
    longest = {kind: [] for kind in kinds}
    for number in range(KILLS):
        kind = list(kinds)[number % len(kinds)]
        time.sleep(1.5)
        killed = replica_set.primary() if kinds[kind][0] else None
        gone = [(number + other) % brokers.count for other in range(kinds[kind][1])]
        for broker in gone:
            brokers.kill(broker)
        if killed is not None:
            killed.kill()
        if kind == "all brokers":
            brokers.start_again(*gone)
        longest[kind].append(load.wait_for_writes(replica_set, WITHOUT_BROKER_SECONDS))
        if kind != "all brokers":
            brokers.start_again(*gone)
        if killed is not None:
            killed.start()
        replica_set.wait_until(replica_set.is_whole, WITHOUT_BROKER_SECONDS)
        # Until brokers have everything again, others must not be taken away.
        time.sleep(8 if gone else 0)
    load.finish(replica_set)
    for kind, seconds in longest.items():
        print(len(seconds), "kills of", kind, "writes again after", [round(each, 1) for each in seconds])
    print("acknowledged", load.progress())


def test_a_step_down_hands_the_lead_on(replica_set):
    load = Load(replica_set)
    taken = []
    for _ in range(2):
        time.sleep(1.5)
        before = replica_set.primary()
        with pymongo.MongoClient(before.uri) as client:
            began = time.monotonic()
            client.admin.command("replSetStepDown", 20, secondaryCatchUpPeriodSecs=10)
        replica_set.wait_until(lambda: replica_set.primary() not in (None, before))
        taken.append(time.monotonic() - began)
    load.finish(replica_set)
    print("another primary after", [round(seconds, 2) for seconds in taken])


def test_all_brokers_stand_still_for_a_while_and_all_goes_on(replica_set, brokers):
    """Nobody claims the lead meanwhile: it is not the primary that is silent."""
    load = Load(replica_set)
    time.sleep(1)
    before = replica_set.primary()
    for number in range(brokers.count):
        brokers.signal(number, signal.SIGSTOP)
    time.sleep(8)
    with pymongo.MongoClient(before.uri) as client:
        assert client.test.numbers.find_one() is not None, "reads go on"
    for number in range(brokers.count):
        brokers.signal(number, signal.SIGCONT)
    took = load.wait_for_writes(replica_set, WITHOUT_BROKER_SECONDS)
    load.finish(replica_set)
    print("writes again after", round(took, 1), "the same primary:", replica_set.primary() is before)


def test_a_member_that_comes_later_has_everything(replica_set):
    with replica_set.client() as client:
        client.test.numbers.insert_many([{"_id": number, "text": "x" * 300} for number in range(5_000)])
        late = replica_set.add(3)
        late.start()
        replica_set.wait_until(replica_set.is_whole)
        client.test.numbers.with_options(write_concern=WriteConcern(w=4)).insert_one({"_id": "last"})
        with pymongo.MongoClient(late.uri, readPreference="secondaryPreferred") as direct:
            assert direct.test.numbers.count_documents({}) == 5_001


def test_a_log_is_examined_and_trimmed_and_a_new_member_gets_a_copy(replica_set):
    url = replica_set.log_url()
    with replica_set.client() as client:
        numbers = client.test.numbers.with_options(write_concern=WriteConcern(w=3))
        for number in range(200):
            numbers.insert_one({"_id": number, "text": "x" * 300})
        told = plimsoll("log", "check", url)
        assert "judged         from record 0" in told and " 0 bytes" not in told, told
        assert "problem" not in told and told.count("member ") == 3 and f"/{replica_set.topic}" in told, told
        assert "copied" in plimsoll("log", "copy", url)
        # Members say each ten seconds how far they are.
        time.sleep(12)
        told = plimsoll("log", "trim", url, "--keep", "0")
        assert int(told.split("the log begins with record ")[1].split()[0]) > 0, told
        late = replica_set.add(3)
        late.start()
        replica_set.wait_until(replica_set.is_whole, WITHOUT_BROKER_SECONDS)
        client.test.numbers.with_options(write_concern=WriteConcern(w=4)).insert_one({"_id": "last"})
        with pymongo.MongoClient(late.uri, readPreference="secondaryPreferred") as direct:
            assert direct.test.numbers.count_documents({}) == 201


def test_a_set_trims_its_topic_also_when_a_broker_and_the_primary_are_killed(trimmed_set, brokers):
    away = trimmed_set.secondaries()[0]
    with trimmed_set.client() as client:
        writing = PatientWriting(client)
        writing.go_on()
        needs = of_log(away)["nextRecord"]
        away.kill()
        writing.until(trimmed_set, lambda: first_record(trimmed_set) > needs + 1)
        begins = first_record(trimmed_set)
        brokers.kill(0)
        killed = trimmed_set.primary()
        killed.kill()
        # Two of three: there are enough brokers, and the one member that is left goes on alone.
        writing.until(trimmed_set, lambda: first_record(trimmed_set) > begins, 2 * TRIMMED_SECONDS)
        brokers.start_again(0)
        for member in (away, killed):
            member.start()
        trimmed_set.wait_until(trimmed_set.is_whole, WITHOUT_BROKER_SECONDS)
        assert "was away for longer than the shared log is kept" in away.log_tail(500)
        trimmed_set.add(3).start()
        trimmed_set.wait_until(trimmed_set.is_whole, WITHOUT_BROKER_SECONDS)
        told = plimsoll("log", "check", trimmed_set.log_url())
        assert "problem" not in told and "judged         from record" in told, told
        check_all(trimmed_set, writing)
