"""A server that nobody uses leaves the processor alone, and is there at once when somebody comes."""

import time
from pathlib import Path

from pymongo.write_concern import WriteConcern

SECONDS = 4
# All threads together, in a second: two dozen threads look now and then, the flight recorder each second.
WAKEUPS_MAX = 60


def wakeups(server):
    """How often its threads have gone to sleep of their own accord, each by name and number."""
    counts = {}
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        status = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        counts[f"{status['Name'].strip()} {task.name}"] = int(status["voluntary_ctxt_switches"])
    return counts


def test_an_idle_server_hardly_wakes_the_processor(server, client):
    client["idle"]["documents"].insert_one({"_id": 1})
    client.close()
    # What the write left to be done is done within this.
    time.sleep(3)
    before = wakeups(server)
    time.sleep(SECONDS)
    spent = {name: count - before.get(name, 0) for name, count in wakeups(server).items()}
    most = sorted(spent.items(), key=lambda item: -item[1])[:8]
    assert sum(spent.values()) <= WAKEUPS_MAX * SECONDS, most


def test_a_write_that_nobody_waits_for_is_soon_durable_after_a_rest(server, client):
    collection = client["idle"].get_collection("rested", write_concern=WriteConcern(w=1, j=False))
    collection.insert_one({"_id": 1})
    time.sleep(2)
    collection.insert_one({"_id": 2})
    # The flusher is woken by the write, though it was resting.
    deadline = time.monotonic() + 5
    while (oplog := client.admin.command("serverStatus")["plimsoll"]["oplog"])["durablePosition"] < oplog["endPosition"]:
        assert time.monotonic() < deadline, oplog
        time.sleep(0.05)
    server.kill()
    server.start()
    assert client["idle"]["rested"].count_documents({}) == 2

