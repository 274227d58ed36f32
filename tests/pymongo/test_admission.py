"""More commands than the server runs at once: who waits, who is refused, and what still answers."""

import threading
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

# So many more than run at once, which is known to the server only; one waits a second for its place.
MORE = 6
LABELS = {"SystemOverloadedError", "RetryableError", "NoWritesPerformed"}
SLOW = [
    {"$project": {"n": {"$range": [0, 10_000]}}},
    {"$unwind": "$n"},
    {"$group": {"_id": {"$mod": ["$n", 7]}, "count": {"$sum": 1}}},
]


@pytest.fixture
def overloaded(server):
    """A client of a server on which as many slow reads run as it lets run."""
    outcomes = []

    def read(client):
        try:
            list(client["admission"]["numbers"].aggregate(SLOW, maxTimeMS=60_000))
        except (ExecutionTimeout, OperationFailure) as error:
            outcomes.append(error)

    with MongoClient(server.uri, maxPoolSize=None, retryReads=False, retryWrites=False) as client:
        client["admission"]["numbers"].insert_many([{"_id": i} for i in range(2_000)])
        threads = [threading.Thread(target=read, args=(client,)) for _ in range(load(client)["reads"]["limit"] + MORE)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 5
        while load(client)["reads"]["waiting"] == 0:
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)
        yield client, outcomes
        for thread in threads:
            thread.join()
        assert load(client)["reads"]["running"] == 0
        client.drop_database("admission")


def load(client):
    return client.admin.command("serverStatus")["plimsoll"]["admission"]


def test_beyond_the_line_the_server_says_so(overloaded):
    client, outcomes = overloaded
    explanations = client.admin.command("serverStatus")["plimsoll"]["heldBack"]["explanations"]
    assert any("reads wait" in text for text in explanations), explanations
    # Health and writes do not wait behind reads.
    assert client.admin.command("ping")["ok"] == 1
    assert client.admin.command("hello")["ok"] == 1
    client["admission"]["written"].insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as failure:
        client["admission"]["written"].find_one()
    assert failure.value.code == 462
    assert failure.value.details["codeName"] == "IngressRequestRateLimitExceeded"
    assert set(failure.value.details["errorLabels"]) == LABELS
    running = client.admin.command("currentOp")["inprog"]
    for operation in running:
        if operation.get("command", {}).get("aggregate") == "numbers":
            client.admin.command("killOp", op=operation["opid"])
    deadline = time.monotonic() + 30
    while load(client)["reads"]["running"] > 0:
        assert time.monotonic() < deadline, "the readers did not end"
        time.sleep(0.05)
    assert client["admission"]["written"].find_one() == {"_id": 1}
    refused = [error for error in outcomes if error.code == 462]
    assert len(refused) == load(client)["reads"]["rejected"] - 1
    assert len(refused) > 0
