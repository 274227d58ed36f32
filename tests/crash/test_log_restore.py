"""The directory of a set's log is removed under it, and the log is made again from the member that has most (`plimsoll log restore`)."""

import contextlib
import re
import shutil
import signal
import subprocess
import time

import pymongo
import pytest

from server_process import binary_path
from test_replica_set import Load, replica_set  # noqa: F401

HAS = re.compile(r"^member +term (\d+), oplog from (\d+) to (\d+)$", re.MULTILINE)


def restore(replica_set, member, *arguments):
    """Its outcome, and what it says."""
    return replica_set.log("restore", "--data", member.directory / "data", *arguments)


def has(replica_set, member):
    """Its term, and where its oplog ends."""
    code, told = restore(replica_set, member, "--show")
    assert code == 0, told
    term, _, end = HAS.search(told).groups()
    return int(term), int(end)


def end(*members):
    """As an operator stops them. A primary without its log waits for half a minute, for nothing."""
    for member in members:
        member.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 8
    for member in members:
        with contextlib.suppress(subprocess.TimeoutExpired):
            member.process.wait(max(0.1, until - time.monotonic()))
        member.kill()


def remove_log(replica_set):
    """Members may be writing to it."""
    log = replica_set.directory / "log"
    while log.exists():
        shutil.rmtree(log, ignore_errors=True)


def test_nothing_that_was_acknowledged_is_lost_with_the_log(replica_set):
    load = Load(replica_set)
    for _ in range(2):
        time.sleep(2)
        remove_log(replica_set)
        began = time.monotonic()
        end(*replica_set.members)
        most = max(replica_set.members, key=lambda member: has(replica_set, member))
        code, told = restore(replica_set, most)
        assert code == 0 and "made the log" in told, told
        code, told = restore(replica_set, most)
        assert code == 1 and "there is a log here with" in told, told
        for member in replica_set.members:
            member.start()
        replica_set.wait_until(replica_set.is_whole)
        before = load.progress()
        replica_set.wait_until(lambda: load.progress() > before + 20 or load.failures)
        print("writes again after", round(time.monotonic() - began, 1))
    load.finish(replica_set)
    code, told = replica_set.log("check")
    assert code == 0, told


def test_a_log_made_from_a_member_that_has_less_loses_nothing(replica_set):
    with replica_set.client(w=3) as client:
        client.test.numbers.insert_many([{"_id": number} for number in range(100)])
        less = replica_set.secondaries()[0]
        end(less)
    with replica_set.client(w=2) as client:
        client.test.numbers.insert_many([{"_id": number} for number in range(100, 200)])
    others = [member for member in replica_set.members if member is not less]
    end(*others)
    remove_log(replica_set)
    # A log that was followed is not made anew by a start.
    with pytest.raises(RuntimeError):
        less.start()
    assert restore(replica_set, less)[0] == 0
    for member in others:
        with pytest.raises(RuntimeError, match="made again from a member that lacks"):
            member.start()
    remove_log(replica_set)
    assert restore(replica_set, max(others, key=lambda member: has(replica_set, member)))[0] == 0
    for member in replica_set.members:
        member.start()
    replica_set.wait_until(replica_set.is_whole)
    for member in replica_set.members:
        with pymongo.MongoClient(member.uri, readPreference="secondaryPreferred") as client:
            replica_set.wait_until(lambda: client.test.numbers.count_documents({}) == 200)
    # A new one gets everything, from the log or from another member.
    replica_set.add(len(replica_set.members)).start()
    replica_set.wait_until(replica_set.is_whole, 60)


def test_a_running_member_and_one_of_no_set_are_refused(replica_set, tmp_path):
    code, told = restore(replica_set, replica_set.members[0], "--show")
    assert code == 1 and "in use by another server" in told, told
    (tmp_path / "nothing" / "data").mkdir(parents=True)
    command = [binary_path(), "log", "restore", f"dir://{tmp_path / 'other'}", "--data", tmp_path / "nothing" / "data"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "never followed" in done.stderr, done.stderr
