"""Members of a replica set whose clocks differ by an hour, or jump by one under load: the set's time never goes back, change streams miss nothing, and no write is
lost, done twice or refused."""

import time

import pymongo
import pytest

from test_replica_set import Load, ReplicaSet

HOUR = 3600


@pytest.fixture
def replica_set(tmp_path):
    found = ReplicaSet(tmp_path, 0)
    for number in range(3):
        found.add(number).arguments.append("--enable-test-commands")
    try:
        yield found.start()
    finally:
        found.stop()


def set_ahead(member, seconds):
    with pymongo.MongoClient(member.uri, directConnection=True) as client:
        client.admin.command("configureFailPoint", "wallClockIsAhead", mode="alwaysOn", data={"seconds": seconds})


def test_time_goes_on_when_a_member_leads_whose_clock_is_an_hour_behind(replica_set):
    times = []
    with replica_set.client() as client:
        events = client.test.watch(max_await_time_ms=500)

        def insert(number):
            with client.start_session() as session:
                client.test.numbers.insert_one({"_id": number}, session=session)
                times.append(session.operation_time)

        insert(0)
        before = replica_set.primary()
        set_ahead(before, HOUR)
        insert(1)
        assert times[1].time - times[0].time > HOUR - 60
        before.kill()
        insert(2)
        after = replica_set.primary()
        assert after not in (None, before)
        before.start()
        replica_set.wait_until(replica_set.is_whole)
        insert(3)
        # Its clock is right again, and it leads: an hour before what it has written itself.
        after.kill()
        insert(4)
        after.start()
        replica_set.wait_until(replica_set.is_whole)
        insert(5)
        assert times == sorted(times) and len(set(times)) == len(times)
        found = []
        while len(found) < 6:
            event = events.try_next()
            if event is not None:
                found.append((event["documentKey"]["_id"], event["clusterTime"]))
        assert [number for number, _ in found] == list(range(6))
        assert [time for _, time in found] == times
        # Who asks for a time that a member has reached gets what was written by then.
        for member in replica_set.members:
            with pymongo.MongoClient(member.uri, directConnection=True, readPreference="secondaryPreferred") as direct:
                with direct.start_session(causal_consistency=True) as session:
                    session.advance_operation_time(times[-1])
                    assert direct.test.numbers.count_documents({}, session=session) == 6


def test_clocks_that_jump_under_load_lose_repeat_and_refuse_nothing(replica_set):
    load = Load(replica_set)
    for jump in (HOUR, -HOUR, 2 * HOUR, 0):
        time.sleep(1)
        # All of them, one after the other; the primary, too.
        for member in replica_set.members:
            before = load.progress()
            set_ahead(member, jump)
            replica_set.wait_until(lambda: load.progress() > before or load.failures)
        primary = replica_set.primary()
        if primary is not None:
            with pymongo.MongoClient(primary.uri) as client:
                client.admin.command("replSetStepDown", 1, secondaryCatchUpPeriodSecs=1)
        replica_set.wait_until(replica_set.is_whole)
    time.sleep(1)
    load.finish(replica_set)
    print("longest pause", round(load.longest, 2), "acknowledged", load.progress())
