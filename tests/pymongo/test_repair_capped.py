"""`plimsoll repair` of a data directory with capped collections."""

import subprocess

import pytest
from pymongo import MongoClient

from server_process import ServerProcess, binary_path


def fill(client):
    """A collection that went around several times, with changed and deleted documents; its documents and indexes."""
    ring = client["shop"].create_collection("ring", capped=True, size=64 << 10, max=5000)
    ring.create_index([("a", 1)], name="by_a")
    for number in range(2000):
        ring.insert_one({"_id": number, "a": number % 7, "b": "x" * (number % 300)})
    newest = [document["_id"] for document in ring.find(projection=["_id"])]
    ring.update_one({"_id": newest[5]}, {"$set": {"a": 100}})
    ring.update_one({"_id": newest[6]}, {"$set": {"c": "longer" * 20}})
    ring.delete_one({"_id": newest[7]})
    client.admin.command("fsync")
    # And something that only the oplog has.
    ring.insert_one({"_id": "after", "a": 8})
    ring.update_one({"_id": newest[-1]}, {"$set": {"a": 200}})
    return ring


def state(client):
    ring = client["shop"]["ring"]
    return list(ring.find()), ring.index_information(), ring.options()


@pytest.fixture
def stopped(tmp_path):
    process = ServerProcess(tmp_path)
    process.start()
    with MongoClient(process.uri) as client:
        fill(client)
        before = state(client)
    process.stop()
    return process.directory / "data", before


def repair(directory, into):
    command = [str(binary_path()), "repair", "--data", str(directory), "--into", str(into / "data")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def reopened(directory):
    process = ServerProcess(directory)
    process.start()
    return process


def test_a_ring_is_as_it_was(stopped, tmp_path_factory):
    directory, before = stopped
    into = tmp_path_factory.mktemp("repaired")
    result = repair(directory, into)
    assert result.returncode == 0, result.stdout + result.stderr
    process = reopened(into)
    try:
        with MongoClient(process.uri) as client:
            assert state(client) == before
            assert client["shop"].command("validate", "ring", full=True)["valid"]
            client["shop"]["ring"].insert_many([{"_id": f"new {number}", "b": "y" * 200} for number in range(500)])
            assert client["shop"].command("collStats", "ring")["size"] <= 64 << 10
    finally:
        process.stop()


def test_what_is_damaged_is_left_out_and_said(stopped, tmp_path_factory):
    directory, (documents, _, options) = stopped
    # The other one, made first, is that of local.startup_log.
    path = max((directory / "rings").glob("*.ring"))
    content = bytearray(path.read_bytes())
    # Somewhere in the region: behind the header, a page of nonsense.
    content[20_000:24_000] = b"\xa5" * 4000
    path.write_bytes(bytes(content))
    into = tmp_path_factory.mktemp("repaired")
    result = repair(directory, into)
    assert "shop.ring" in result.stdout and "cannot be read" in result.stdout, result.stdout + result.stderr
    process = reopened(into)
    try:
        with MongoClient(process.uri) as client:
            found, _, options_now = state(client)
            assert options_now == options
            by_id = {document["_id"]: document for document in documents}
            assert 0 < len(documents) - len(found) < 60
            assert all(by_id[document["_id"]] == document for document in found)
            order = [document["_id"] for document in documents]
            kept = {document["_id"] for document in found}
            assert [document["_id"] for document in found] == [number for number in order if number in kept]
    finally:
        process.stop()
