"""Three servers on one shared log in a directory: kills of the primary under load, step-downs, restarts in turn, a primary that is stopped for a while,
reads on secondaries, a member that comes later, a log that is trimmed, and one that is encrypted."""

import os
import shutil
import signal
import subprocess
import threading
import time

import pymongo
import pytest
from pymongo import ReadPreference, WriteConcern
from pymongo.errors import NotPrimaryError, OperationFailure, PyMongoError, WTimeoutError

from server_process import ServerProcess, binary_path

CLIENTS = 4
COUNTERS = 8
# What a loaded machine may take for what takes six seconds at most.
FAILOVER_SECONDS = 20
STOPPED_SECONDS = 30
STOP_SECONDS = 9


class ReplicaSet:
    """The servers, and what is common to them."""

    def __init__(self, directory, count=3, more_arguments=()):
        self.directory = directory
        self.more_arguments = list(more_arguments)
        self.members = []
        for number in range(count):
            self.add(number)

    def add(self, number):
        place = self.directory / f"member{number}"
        place.mkdir()
        arguments = ["--cache", "64MiB", "--replica-set", "rs0", "--log", self.log_url()]
        arguments += ["--tags", f"number=n{number},kind=test"] + self.more_arguments
        self.members.append(ServerProcess(place, arguments))
        return self.members[-1]

    def log_url(self):
        return f"dir://{self.directory / 'log'}"

    def start(self):
        for member in self.members:
            member.start()
        self.wait_until(self.is_whole)
        return self

    def is_whole(self):
        """Everybody knows everybody, and may be read from."""
        hellos = [self.hello(member) for member in self.members]
        knows_all = all(len(hello.get("hosts", [])) == len(self.members) for hello in hellos)
        is_up = all(hello.get("isWritablePrimary") or hello.get("secondary") for hello in hellos)
        return knows_all and is_up and sum(hello.get("isWritablePrimary", False) for hello in hellos) == 1

    def stop(self):
        for member in self.members:
            if member.process is not None:
                member.process.send_signal(signal.SIGCONT)
                member.kill()
        # What is left tells by its log files; data are large.
        for directory in [self.directory / "log", *self.directory.glob("member*/data")]:
            shutil.rmtree(directory, ignore_errors=True)

    def log(self, what, *arguments):
        """Runs `plimsoll log`; its outcome and what it says."""
        command = [str(binary_path()), "log", what, self.log_url(), *arguments, *self.more_arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return done.returncode, done.stdout.decode()

    def client(self, **options):
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return pymongo.MongoClient(f"mongodb://{hosts}/?replicaSet=rs0", serverSelectionTimeoutMS=60_000, **options)

    def hello(self, member):
        try:
            with pymongo.MongoClient(member.uri, serverSelectionTimeoutMS=1_000, socketTimeoutMS=2_000) as client:
                return client.admin.command("hello")
        except PyMongoError:
            return {}

    def primary(self):
        leading = [member for member in self.members if self.hello(member).get("isWritablePrimary")]
        return leading[0] if leading else None

    def secondaries(self):
        return [member for member in self.members if self.hello(member).get("secondary")]

    def wait_until(self, holds, seconds=FAILOVER_SECONDS):
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < seconds, "\n\n".join(member.log_tail(15) for member in self.members)
            time.sleep(0.02)
        return time.monotonic() - began


@pytest.fixture
def replica_set(tmp_path):
    found = ReplicaSet(tmp_path)
    try:
        yield found.start()
    finally:
        found.stop()


class Load:
    """Clients that insert numbers of their own and count, with retryable writes, and remember what was acknowledged."""

    def __init__(self, replica_set):
        self.client = replica_set.client()
        self.stopping = threading.Event()
        self.inserted = [set() for _ in range(CLIENTS)]
        self.counted = [[0] * COUNTERS for _ in range(CLIENTS)]
        self.failures = []
        self.last = time.monotonic()
        self.longest = 0.0
        self.lock = threading.Lock()
        self.client.test.counters.insert_many([{"_id": number, "count": 0} for number in range(COUNTERS)])
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        written = 0
        while not self.stopping.is_set():
            written += 1
            try:
                name = number * 1_000_000 + written
                self.client.test.numbers.insert_one({"_id": name, "text": "x" * 200})
                self.inserted[number].add(name)
                counter = written % COUNTERS
                self.client.test.counters.update_one({"_id": counter}, {"$inc": {"count": 1}})
                self.counted[number][counter] += 1
            except PyMongoError as error:
                self.failures.append(repr(error))
                return
            with self.lock:
                now = time.monotonic()
                self.longest = max(self.longest, now - self.last)
                self.last = now

    def progress(self):
        return sum(len(inserted) for inserted in self.inserted)

    def wait_for_writes(self, replica_set, seconds):
        """Until each client has written several times more, about; how long that took."""
        before = self.progress()
        return replica_set.wait_until(lambda: self.progress() > before + CLIENTS * 4 or self.failures, seconds)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(90)
            assert not thread.is_alive(), "a client waits for ever"
        assert not self.failures, self.failures

    def finish(self, replica_set):
        self.stop()
        self.check(replica_set)

    def check(self, replica_set):
        """All that was acknowledged is with every member, once."""
        inserted = set().union(*self.inserted)
        counted = [sum(counted[number] for counted in self.counted) for number in range(COUNTERS)]
        self.client.test.numbers.with_options(write_concern=WriteConcern(w=len(replica_set.members))).insert_one({"_id": "last"})
        for member in replica_set.members:
            with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as client:
                stored = {document["_id"] for document in client.test.numbers.find({}, {"_id": 1})} - {"last"}
                assert stored == inserted, (len(stored), len(inserted), sorted(inserted - stored)[:5])
                counters = {document["_id"]: document["count"] for document in client.test.counters.find()}
                assert [counters[number] for number in range(COUNTERS)] == counted
                assert client.test.command("validate", "numbers")["valid"]
        self.client.close()


def test_kills_of_the_primary_under_load_lose_and_repeat_nothing(replica_set):
    load = Load(replica_set)
    longest = []
    for _ in range(4):
        time.sleep(1.5)
        killed = replica_set.primary()
        before = load.progress()
        killed.kill()
        began = time.monotonic()
        replica_set.wait_until(lambda: load.progress() > before + CLIENTS * 2 or load.failures, 60)
        longest.append(time.monotonic() - began)
        killed.start()
        replica_set.wait_until(replica_set.is_whole)
    time.sleep(1)
    load.finish(replica_set)
    print("writes again after", [round(seconds, 1) for seconds in longest], "acknowledged", load.progress())
    assert min(longest) < 8.5


def test_a_step_down_hands_the_lead_on_at_once(replica_set):
    load = Load(replica_set)
    taken = []
    for _ in range(4):
        time.sleep(1.5)
        before = replica_set.primary()
        with pymongo.MongoClient(before.uri) as client:
            began = time.monotonic()
            client.admin.command("replSetStepDown", 1, secondaryCatchUpPeriodSecs=1)
            assert not client.admin.command("hello")["isWritablePrimary"]
        replica_set.wait_until(lambda: replica_set.primary() not in (None, before))
        taken.append(time.monotonic() - began)
    load.finish(replica_set)
    print("another primary after", [round(seconds, 2) for seconds in taken], "longest pause", round(load.longest, 2))
    assert min(taken) < 1.5


def test_members_are_restarted_in_turn_and_no_operation_fails(replica_set):
    load = Load(replica_set)
    for member in list(replica_set.members):
        time.sleep(1)
        member.stop()
        member.start()
        replica_set.wait_until(replica_set.is_whole)
    load.finish(replica_set)
    print("longest pause", round(load.longest, 2))


def test_a_primary_that_was_stopped_for_half_a_minute_follows_whoever_leads_then(replica_set):
    """Those who wait for it are not told an error either: they try again when it wakes, or when their driver misses it."""
    load = Load(replica_set)
    time.sleep(1)
    stopped = replica_set.primary()
    stopped.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    others = [member for member in replica_set.members if member is not stopped]
    replica_set.wait_until(lambda: any(replica_set.hello(member).get("isWritablePrimary") for member in others))
    # Whoever comes meanwhile writes, and reads what was acknowledged before.
    before = [set(inserted) for inserted in load.inserted]
    with replica_set.client(retryReads=True) as client:
        client.test.meanwhile.insert_one({"_id": "first"})
        taken = time.monotonic() - began
        known = {document["_id"] for document in client.test.numbers.find({}, {"_id": 1})}
        assert set().union(*before) <= known
        for number in range(200):
            client.test.meanwhile.update_one({"_id": "counted"}, {"$inc": {"count": 1}}, upsert=True)
        time.sleep(max(0, began + STOPPED_SECONDS - time.monotonic()))
        pid = stopped.process.pid
        stopped.process.send_signal(signal.SIGCONT)
        # It does not take a write for its own any more, whoever asks it.
        with pymongo.MongoClient(stopped.uri, retryWrites=False) as direct, pytest.raises(PyMongoError):
            direct.test.meanwhile.insert_one({"_id": "to the one that was stopped"})
        replica_set.wait_until(lambda: stopped in replica_set.secondaries())
        assert stopped.process.poll() is None and stopped.process.pid == pid
        time.sleep(1)
        load.stop()
        client.test.meanwhile.with_options(write_concern=WriteConcern(w=3)).insert_one({"_id": "last"})
        for member in replica_set.members:
            with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as direct:
                found = {document["_id"]: document.get("count") for document in direct.test.meanwhile.find()}
                assert found == {"first": None, "counted": 200, "last": None}
    load.check(replica_set)
    print("writes again after", round(taken, 1), "acknowledged", load.progress())
    assert taken < FAILOVER_SECONDS


def test_secondaries_read_for_who_asks_and_refuse_writes(replica_set):
    with replica_set.client() as client:
        items = client.test.items
        items.with_options(write_concern=WriteConcern(w=3)).insert_many([{"_id": number} for number in range(100)])
        for preference in (ReadPreference.SECONDARY, ReadPreference.NEAREST):
            assert items.with_options(read_preference=preference).count_documents({}) == 100
        for number in range(3):
            tagged = pymongo.read_preferences.Nearest([{"number": f"n{number}", "kind": "test"}])
            assert items.with_options(read_preference=tagged).count_documents({}) == 100
            explained = client.admin.command("hello", read_preference=tagged)
            assert explained["tags"] == {"number": f"n{number}", "kind": "test"}
        # Who has written reads what he has written, wherever.
        with client.start_session(causal_consistency=True) as session:
            secondary = items.with_options(read_preference=ReadPreference.SECONDARY)
            for number in range(100, 150):
                items.insert_one({"_id": number}, session=session)
                assert secondary.find_one({"_id": number}, session=session)
        assert len(client.nodes) == 3
        with pytest.raises(OperationFailure) as caught:
            items.with_options(write_concern=WriteConcern(w=4)).insert_one({"_id": 1000})
        assert caught.value.code == 100
    secondary = replica_set.secondaries()[0]
    with pymongo.MongoClient(secondary.uri, retryWrites=False) as client:
        with pytest.raises(NotPrimaryError) as caught:
            client.test.items.insert_one({})
        assert caught.value.details["code"] == 10107 and "topologyVersion" in caught.value.details
        hello = client.admin.command("hello")
        assert hello["secondary"] and hello["setName"] == "rs0" and len(hello["hosts"]) == 3
        assert hello["me"] == f"127.0.0.1:{secondary.port}" and hello["primary"] in hello["hosts"]
        status = client.admin.command("replSetGetStatus")
        assert sorted(member["stateStr"] for member in status["members"]) == ["PRIMARY", "SECONDARY", "SECONDARY"]
        assert len(client.admin.command("replSetGetConfig")["config"]["members"]) == 3
        with pytest.raises(OperationFailure):
            client.admin.command("replSetSyncFrom", hello["primary"])
        client.admin.command("replSetFreeze", 1)
    # Two of three are stopped: the write is done, and the client is told that it waited.
    primary = replica_set.primary()
    others = [member for member in replica_set.members if member is not primary]
    for member in others:
        member.process.send_signal(signal.SIGSTOP)
    with pymongo.MongoClient(primary.uri) as client:
        waiting = client.test.items.with_options(write_concern=WriteConcern(w=3, wtimeout=300))
        with pytest.raises(WTimeoutError):
            waiting.insert_one({"_id": 2000})
        assert client.test.items.find_one({"_id": 2000})
    for member in others:
        member.process.send_signal(signal.SIGCONT)


def test_a_member_that_is_away_and_starts_again_stays_listed(replica_set):
    away = replica_set.secondaries()[0]
    others = [member for member in replica_set.members if member is not away]
    told, stopping = [], threading.Event()

    def look():
        while not stopping.is_set():
            told.extend(len(replica_set.hello(member)["hosts"]) for member in others)

    with replica_set.client() as client:
        looking = threading.Thread(target=look)
        looking.start()
        items = client.test.items.with_options(write_concern=WriteConcern(w=3))
        for number in range(4):
            away.kill()
            late = threading.Timer(0.5, away.start)
            late.start()
            # It waits until the third member is there again.
            items.insert_one({"_id": number})
            late.join()
        stopping.set()
        looking.join()
        assert len(told) > 20 and set(told) == {3}
        replica_set.wait_until(replica_set.is_whole)


@pytest.mark.parametrize("silent", [0.3, 7], ids=["just now", "for a while"])
def test_a_primary_whose_log_is_gone_stops_within_seconds(replica_set, silent):
    primary, log = replica_set.primary(), replica_set.directory / "log" / "records"
    with pymongo.MongoClient(primary.uri, retryWrites=False) as client:
        client.test.items.insert_one({"_id": "acknowledged"})
        log.rename(log.with_name("away"))

        def write():
            with pytest.raises(PyMongoError):
                client.test.items.insert_one({"_id": "waits"})

        writing = threading.Thread(target=write)
        writing.start()
        time.sleep(silent)
        began = time.monotonic()
        primary.stop()
        taken = time.monotonic() - began
        writing.join()
    log.with_name("away").rename(log)
    print("stopped after", round(taken, 1))
    # Five seconds of silence, and a second in which somebody may take the lead.
    assert taken < STOP_SECONDS
    primary.start()
    replica_set.wait_until(replica_set.is_whole)
    with replica_set.client() as client:
        found = {document["_id"] for document in client.test.items.find()}
        assert found - {"waits"} == {"acknowledged"}


def test_what_a_primary_does_is_done_on_secondaries(replica_set):
    with replica_set.client() as client:
        database = client.test
        database.create_collection("ring", capped=True, size=20_000)
        things = database.things
        things.insert_many([{"_id": number, "a": number % 7, "words": ["x", str(number)]} for number in range(2_000)])
        things.create_index("a")
        things.create_index([("words", 1), ("a", -1)])
        database.ring.insert_many([{"_id": number, "text": "y" * 100} for number in range(500)])
        with client.start_session() as session, session.start_transaction():
            things.update_many({"a": 3}, {"$set": {"text": "z" * 5_000}}, session=session)
            things.delete_many({"a": 4}, session=session)
        things.update_many({"a": 5}, {"$inc": {"a": 100}})
        database.things.rename("renamed")
        database.other.insert_one({})
        database.other.drop()
        things = database.renamed
        things.drop_index("a_1")
        things.with_options(write_concern=WriteConcern(w=3)).insert_one({"_id": "last", "a": 1, "words": []})
        expected = sorted(things.find(), key=lambda document: str(document["_id"]))
        ring = list(database.ring.find())
        indexes = sorted(things.index_information())
    for member in replica_set.members:
        with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as client:
            things = client.test.renamed
            assert sorted(things.find(), key=lambda document: str(document["_id"])) == expected
            assert list(client.test.ring.find()) == ring
            assert sorted(client.test.list_collection_names()) == ["renamed", "ring"]
            assert sorted(things.index_information()) == indexes
            assert things.count_documents({"words": "17"}) == 1
            for name in ("renamed", "ring"):
                report = client.test.command("validate", name, full=True)
                assert report["valid"], report


def test_a_member_that_comes_later_has_everything_and_is_listed(replica_set):
    with replica_set.client() as client:
        client.test.numbers.insert_many([{"_id": number, "text": "x" * 300} for number in range(5_000)])
        late = replica_set.add(3)
        late.start()
        replica_set.wait_until(replica_set.is_whole)
        assert late in replica_set.secondaries()
        client.test.numbers.with_options(write_concern=WriteConcern(w=4)).insert_one({"_id": "last"})
        with pymongo.MongoClient(late.uri, readPreference="secondaryPreferred") as direct:
            assert direct.test.numbers.count_documents({}) == 5_001
        replica_set.wait_until(lambda: len(client.nodes) == 4)
        # It leaves: nobody lists it when the configuration leaves it out.
        late.kill()
        replica_set.members.remove(late)
        time.sleep(11)
        primary = replica_set.primary()
        with pymongo.MongoClient(primary.uri) as direct:
            config = direct.admin.command("replSetGetConfig")["config"]
            config["members"] = [member for member in config["members"] if member["host"] != f"127.0.0.1:{late.port}"]
            config["version"] += 1
            direct.admin.command("replSetReconfig", config)
            replica_set.wait_until(lambda: len(direct.admin.command("hello")["hosts"]) == 3)


def test_a_member_that_comes_to_a_long_log_gets_a_copy_in_place_of_reading_it(replica_set):
    text = "x" * 200_000
    with replica_set.client() as client:
        for first in range(0, 400, 40):
            client.test.numbers.insert_many([{"_id": number, "text": text} for number in range(first, first + 40)])
        client.test.numbers.with_options(write_concern=WriteConcern(w=3)).insert_one({"_id": "last"})
        late = replica_set.add(3)
        late.start()
        replica_set.wait_until(replica_set.is_whole, 60)
        assert "has another member's data" in late.log_tail(500)
        with pymongo.MongoClient(late.uri, readPreference="secondaryPreferred") as direct:
            assert direct.test.numbers.count_documents({}) == 401
            assert direct.test.command("validate", "numbers")["valid"]


def section(member):
    with pymongo.MongoClient(member.uri) as client:
        return client.admin.command("serverStatus")["plimsoll"]["replicaSet"]


def of_log(member):
    return section(member)["log"]


def fill(client, count=400):
    """Documents that take a while to copy: nothing makes them smaller, and the log is too long to be read."""
    for first in range(0, count, 50):
        documents = [{"_id": number, "bytes": os.urandom(200_000)} for number in range(first, first + 50)]
        client.test.numbers.insert_many(documents)
    client.test.numbers.with_options(write_concern=WriteConcern(w=3)).insert_one({"_id": "last"})
    return count + 1


def copies(replica_set, what):
    return list((replica_set.directory / "log" / "copies").glob(what))


def wait_for_half_a_copy(replica_set):
    """Some chunks are there, and somebody is still waiting."""
    began = time.monotonic()
    while not copies(replica_set, "backups/backups/*/index/00000002"):
        assert time.monotonic() - began < 60
        time.sleep(0.001)


def check_new_member(member, documents):
    with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as direct:
        assert direct.test.numbers.count_documents({}) == documents
        assert direct.test.command("validate", "numbers")["valid"]


def test_a_copy_whose_maker_is_killed_is_made_by_another_member(replica_set):
    with replica_set.client() as client:
        documents = fill(client)
    late = replica_set.add(3)
    late.launch()
    wait_for_half_a_copy(replica_set)
    giver = next(member for member in replica_set.members if "copies its data for" in member.log_tail(500))
    giver.process.send_signal(signal.SIGSTOP)
    assert not copies(replica_set, "given-*") and giver is not replica_set.primary()
    giver.kill()
    # It is missed after ten seconds of silence.
    replica_set.wait_until(lambda: replica_set.hello(late).get("secondary"), 90)
    assert late.log_tail(500).count("restores a copy that is being made") == 2
    check_new_member(late, documents)
    giver.start()
    replica_set.wait_until(replica_set.is_whole, 60)
    check_new_member(giver, documents)


def test_a_new_member_that_is_killed_while_it_restores_begins_again(replica_set):
    with replica_set.client() as client:
        documents = fill(client)
        late = replica_set.add(3)
        late.launch()
        wait_for_half_a_copy(replica_set)
        late.kill()
        assert (late.directory / "data" / "restore.unfinished").exists()
        client.test.numbers.insert_one({"_id": "meanwhile"})
        late.start(60)
        replica_set.wait_until(replica_set.is_whole, 60)
        check_new_member(late, documents + 1)
        # The copy that was begun for it is the only one, and nobody is waiting any longer.
        assert len(copies(replica_set, "backups/backups/*")) == 1
        assert not copies(replica_set, "wanted-*") + copies(replica_set, "given-*") + copies(replica_set, "making")


def test_two_new_members_share_a_copy(replica_set):
    with replica_set.client() as client:
        documents = fill(client)
        new = [replica_set.add(3), replica_set.add(4)]
        for member in new:
            member.launch()
        replica_set.wait_until(replica_set.is_whole, 90)
        for member in new:
            assert "restores a copy that is being made" in member.log_tail(500)
            check_new_member(member, documents)
        assert len(copies(replica_set, "backups/backups/*")) == 1


def test_a_new_member_gets_the_copy_that_was_made_for_the_one_before(replica_set):
    with replica_set.client() as client:
        documents = fill(client)
        # Then a copy has little behind it, whatever time goes by until it is wanted again.
        filled = max(of_log(member)["nextRecord"] for member in replica_set.members)
        replica_set.wait_until(lambda: all(of_log(member)["neededRecord"] >= filled for member in replica_set.members), 60)
        first = replica_set.add(3)
        first.start()
        replica_set.wait_until(replica_set.is_whole, 90)
        client.test.numbers.insert_many([{"_id": f"behind {number}"} for number in range(100)])
        second = replica_set.add(4)
        second.start()
        replica_set.wait_until(replica_set.is_whole, 90)
        assert "restores a copy that was made lately" in second.log_tail(500)
        for member in (first, second):
            check_new_member(member, documents + 100)
        assert len(copies(replica_set, "backups/backups/*")) == 1
        # It was removed: then another one is made.
        for path in copies(replica_set, "backups/backups/*/manifest"):
            path.unlink()
        third = replica_set.add(5)
        third.start()
        replica_set.wait_until(replica_set.is_whole, 90)
        assert "restores a copy that was made lately" not in third.log_tail(500)
        check_new_member(third, documents + 100)
        # One that looks whole and is not is given up for another one.
        for path in copies(replica_set, "backups/backups/*/pages/*"):
            path.write_bytes(path.read_bytes()[:-1])
        fourth = replica_set.add(6)
        fourth.start()
        replica_set.wait_until(replica_set.is_whole, 90)
        assert "asks for another copy" in fourth.log_tail(500)
        check_new_member(fourth, documents + 100)
        assert not copies(replica_set, "wanted-*") + copies(replica_set, "given-*")


def test_the_log_and_a_copy_bring_everything_back_when_no_member_is_left(replica_set):
    with replica_set.client() as client:
        documents = fill(client)
        time.sleep(STORED_SECONDS)
        assert replica_set.log("copy")[0] == 0
        # So much behind it that a member would rather have another one, if anybody were there.
        for number in range(400):
            client.test.more.insert_one({"_id": number, "bytes": os.urandom(200_000)})
        time.sleep(STORED_SECONDS)
        trim(replica_set)
    for member in replica_set.members:
        member.kill()
    replica_set.members.clear()
    replica_set.add(3).start(90)
    replica_set.wait_until(replica_set.primary, 60)
    check_new_member(replica_set.members[0], documents)
    with pymongo.MongoClient(replica_set.members[0].uri) as direct:
        assert direct.test.more.count_documents({}) == 400
    assert "restores an earlier copy" in replica_set.members[0].log_tail(10_000)


def test_a_set_begun_from_a_server_with_data_gives_new_members_a_copy(tmp_path):
    found = ReplicaSet(tmp_path, 1)
    first = found.members[0]
    with_log = first.arguments
    first.arguments = with_log[:4]
    first.start()
    with pymongo.MongoClient(first.uri) as client:
        client.test.numbers.insert_many([{"_id": -1 - number, "text": "x" * 200} for number in range(3_000)])
        client.test.numbers.create_index("text")
        client.test.create_collection("ring", capped=True, size=10_000)
        client.test.ring.insert_many([{"_id": number, "text": "y" * 100} for number in range(300)])
    first.stop()
    first.arguments = with_log
    try:
        first.start()
        load = Load(found)
        # Both ask at once.
        found.add(1).launch()
        found.add(2).launch()
        found.wait_until(found.is_whole, 60)
        time.sleep(1)
        load.stop()
        load.client.test.ring.insert_many([{"_id": number, "text": "y" * 100} for number in range(300, 320)])
        load.client.test.numbers.delete_many({"_id": {"$lt": 0}})
        load.check(found)
        ring = [list(pymongo.MongoClient(member.uri, readPreference="nearest").test.ring.find()) for member in found.members]
        assert ring[0] == ring[1] == ring[2] and ring[0][-1]["_id"] == 319
        # The copies lead as well as the first.
        first.kill()
        found.wait_until(found.primary)
    finally:
        found.stop()


def write_some(client, name, count=400):
    """Documents, in several records of the log."""
    for part in range(4):
        client.test[name].insert_many([{"_id": part * count + number, "text": "marked text " * 30} for number in range(count)])


def first_record(said):
    return int(said.split("begins with record ")[1].split()[0])


# For so long a member does not store how far it has read.
STORED_SECONDS = 11


def trim(replica_set, *arguments):
    """Trims the log, once all members have said that they have read so far; where it begins."""
    began = time.monotonic()
    while True:
        code, said = replica_set.log("trim", "--keep", "0", *arguments)
        if code == 0:
            return first_record(said), said
        assert "needs the log from record" in said and time.monotonic() - began < 4 * STORED_SECONDS, said
        time.sleep(1)


def test_the_log_is_checked_and_trimmed_and_members_go_on(replica_set):
    with replica_set.client() as client:
        write_some(client, "first")
        code, said = replica_set.log("check")
        assert code == 0 and "judged         from record 0 on" in said and said.count("member ") == 3, said
        code, said = replica_set.log("trim", "--keep", "0")
        assert code == 1 and "no verified copy" in said, said
        time.sleep(STORED_SECONDS)
        code, said = replica_set.log("copy")
        assert code == 0, said
        copy = said.split()[-1]
        # What was logged within the promised time stays, whatever the copy has.
        code, said = replica_set.log("trim", "--keep", "5")
        assert code == 0 and first_record(said) < 5, said
        write_some(client, "second")
        away = replica_set.secondaries()[0]
        away.kill()
        write_some(client, "third")
        time.sleep(STORED_SECONDS)
        code, said = replica_set.log("copy")
        assert code == 0, said
        code, said = replica_set.log("trim", "--keep", "0")
        assert code == 1 and f"127.0.0.1:{away.port} needs the log from record" in said, said
        away.start()
        replica_set.wait_until(replica_set.is_whole)
        begins, said = trim(replica_set, "--keep-copies", "1")
        assert begins > 5 and f"removed the copy {copy}" in said, said
        code, said = replica_set.log("check")
        assert code == 0 and f"judged         from record {begins} on" in said, said
        # All members go on, after a start, too; and a new one gets a copy.
        for member in replica_set.members:
            member.kill()
            member.start()
        replica_set.add(3).start()
        replica_set.wait_until(replica_set.is_whole, 60)
        client.test.numbers.with_options(write_concern=WriteConcern(w=4)).insert_one({"_id": "last"})
        for member in replica_set.members:
            with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as direct:
                assert [direct.test[name].count_documents({}) for name in ("first", "second", "third")] == [1_600] * 3
    for member in replica_set.members:
        member.kill()
    # Hands that meddle.
    records = sorted((replica_set.directory / "log/records").iterdir())
    gone, cut = records[len(records) // 3], records[len(records) // 2]
    gone.unlink()
    cut.write_bytes(cut.read_bytes()[:-1])
    code, said = replica_set.log("check")
    assert code == 2 and f"record {int(gone.stem)} is missing" in said and f"record {int(cut.stem)} " in said, said
    code, said = replica_set.log("trim", "--keep", "0")
    assert code == 1 and "lacks records" in said, said


def keys_in(directory):
    """Two files with keys."""
    keys = directory / "key", directory / "other"
    for digit, key in zip("12", keys):
        key.write_text(digit * 64)
        key.chmod(0o600)
    return keys


def test_an_encrypted_set_has_an_encrypted_log(tmp_path):
    key, other = keys_in(tmp_path)
    found = ReplicaSet(tmp_path, 3, ["--encryption-key-file", str(key)])
    try:
        check_encrypted_set(found, other, tmp_path / "log/copies", lambda: [path.read_bytes() for path in (tmp_path / "log/records").iterdir()])
    finally:
        found.stop()


def check_encrypted_set(found, other, copies_directory, stored):
    """Starts a set with a key: nobody reads its log (`stored`) or its copies without it, nor with another one."""
    found.start()
    with found.client() as client:
        write_some(client, "first")
        found.primary().kill()
        found.wait_until(found.primary)
        write_some(client, "second")
        assert stored() and not any(b"marked text" in record or b"PLMSHREC" in record for record in stored())
        for member in found.members:
            if member.process is None:
                member.start()
        found.wait_until(found.is_whole)
        time.sleep(STORED_SECONDS)
        code, said = found.log("copy")
        assert code == 0, said
        assert trim(found)[0] > 0
        # The copy is encrypted, and so is the directory that is made of it.
        found.add(3).start()
        found.wait_until(found.is_whole, 60)
        client.test.numbers.with_options(write_concern=WriteConcern(w=4)).insert_one({"_id": "last"})
        with pymongo.MongoClient(found.members[3].uri, readPreference="secondaryPreferred") as direct:
            assert direct.test.second.count_documents({}) == 1_600
        made = [path for path in copies_directory.rglob("*") if path.is_file()]
        assert made and not any(b"marked text" in path.read_bytes() for path in made)
        code, said = found.log("check")
        assert code == 0, said
    for member in found.members:
        member.stop()
    late = found.add(4)
    for arguments in ([], ["--encryption-key-file", str(other)]):
        late.arguments = late.arguments[:8] + arguments
        with pytest.raises(RuntimeError, match="the shared log cannot be used: it is encrypted"):
            late.start()
    found.members.remove(late)
    code, said = found.log("rotate-key", "--new-encryption-key-file", str(other))
    assert code == 0, said
    with pytest.raises(RuntimeError, match="encrypted with another key"):
        found.members[0].start()
