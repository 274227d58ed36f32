"""What members of a replica set tell of each other: in metrics, in serverStatus, and as warnings."""

import urllib.request

import pymongo
import pytest

from server_process import free_port
from test_replica_set import ReplicaSet, section


@pytest.fixture
def replica_set(tmp_path):
    found = ReplicaSet(tmp_path, 0)
    for number in range(3):
        member = found.add(number)
        member.metrics_port = free_port()
        member.arguments += ["--metrics", str(member.metrics_port)]
    try:
        yield found.start()
    finally:
        found.stop()


def samples(member):
    """The figures of the set, by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{member.metrics_port}/metrics", timeout=20) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("plimsoll_replica_set_")]
    return {name.removeprefix("plimsoll_replica_set_"): float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def name(member):
    return f"127.0.0.1:{member.port}"


def warnings(member):
    with pymongo.MongoClient(member.uri) as client:
        return {warning["pattern"]: warning for warning in client.admin.command("serverStatus")["plimsoll"]["warnings"]}


def test_every_member_tells_how_far_each_is_and_who_is_gone(replica_set):
    with replica_set.client() as client:
        client.test.numbers.insert_many([{"_id": number} for number in range(20)])
        for number in range(20, 40):
            client.test.numbers.insert_one({"_id": number})
    primary, (second, third) = replica_set.primary(), replica_set.secondaries()
    told = samples(primary)
    assert (told["state"], told["has_primary"], told["log_answers"]) == (1, 1, 1)
    assert told["term"] >= 1 and told["confirmation_waits_total"] >= 10 and told["confirmation_seconds_total"] > 0
    positions = {of: told[f'position_bytes{{of="{of}"}}'] for of in ("logged", "durable", "confirmed", "applied")}
    assert positions["logged"] >= positions["confirmed"] >= positions["applied"] > 0, positions
    assert told['log_record{which="next"}'] > told['log_record{which="needed"}'] >= 0
    for seen_by in (primary, second, third):
        states = {member: samples(seen_by)[f'member_state{{member="{name(member)}"}}'] for member in replica_set.members}
        assert states == {primary: 1, second: 2, third: 2}
    assert samples(second)["state"] == 2

    def are_level():
        told = samples(primary)
        applied = {told[f'member_applied_bytes{{member="{name(member)}"}}'] for member in replica_set.members}
        lags = [told[f'member_lag_seconds{{member="{name(member)}"}}'] for member in replica_set.members]
        return len(applied) == 1 and lags == [0, 0, 0]

    replica_set.wait_until(are_level)
    third.kill()
    down = f'member_state{{member="{name(third)}"}}'
    replica_set.wait_until(lambda: samples(primary)[down] == 8, 30)
    told = samples(primary)
    assert told[f'member_up{{member="{name(third)}"}}'] == 0 and told[f'member_up{{member="{name(second)}"}}'] == 1
    heard = {member: told[f'member_heard_timestamp_seconds{{member="{name(member)}"}}'] for member in (second, third)}
    assert heard[second] > heard[third] + 5
    found = section(primary)
    assert found["silentMembers"] == 1 and found["members"][name(third)]["state"] == "down"
    replica_set.wait_until(lambda: "memberSilent" in warnings(primary), 60)
    third.start()
    replica_set.wait_until(lambda: "memberSilent" not in warnings(primary), 60)


def test_a_set_without_a_primary_warns_of_it(replica_set):
    primary, others = replica_set.primary(), replica_set.secondaries()
    for member in others:
        with pymongo.MongoClient(member.uri) as client:
            client.admin.command("replSetFreeze", 600)
    primary.kill()
    replica_set.wait_until(lambda: "noPrimary" in warnings(others[0]), 90)
    assert section(others[0])["hasPrimary"] is False
    with pymongo.MongoClient(others[0].uri) as client:
        client.admin.command("replSetFreeze", 0)
    replica_set.wait_until(lambda: "noPrimary" not in warnings(others[0]), 60)
    assert replica_set.primary() == others[0]


def test_a_member_of_no_set_tells_nothing_of_one(tmp_path):
    found = ReplicaSet(tmp_path, 0)
    member = found.add(0)
    member.metrics_port = free_port()
    member.arguments = ["--cache", "64MiB", "--metrics", str(member.metrics_port)]
    member.start()
    assert samples(member) == {}
    with pymongo.MongoClient(member.uri) as client:
        assert "replicaSet" not in client.admin.command("serverStatus")["plimsoll"]
    member.stop()
