"""`plimsoll inspect`: what is on disk, shown without a server."""

import json
import subprocess

import bson
import pytest
from bson import json_util
from pymongo import MongoClient

from server_process import ServerProcess, binary_path


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The data of a server that was stopped."""
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"))
    process.start()
    with MongoClient(process.uri) as client:
        things = client["shop"]["things"]
        things.insert_many([{"_id": i, "a": i % 10, "name": f"thing {i}"} for i in range(1000)])
        things.create_index([("a", 1), ("name", -1)], name="by_a")
        things.insert_one({"_id": "large", "bytes": b"\x01" * 200_000})
        things.update_one({"_id": 3}, {"$set": {"a": 11}})
        things.delete_one({"_id": 4})
    process.stop()
    return process.directory / "data"


def inspect(directory, *arguments):
    """Runs the command; the documents that it shows."""
    command = [str(binary_path()), "inspect", "--data", str(directory), "--json", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return [json_util.loads(line) for line in result.stdout.splitlines()]


def tree_of(directory, index=None):
    return next(t for t in inspect(directory, "trees") if t.get("ns") == "shop.things" and t.get("index") == index)


def test_superblocks(directory):
    superblocks = inspect(directory, "superblock")
    (current,) = [superblock for superblock in superblocks if superblock.get("current")]
    assert current["openCount"] >= 1 and len(current["uuid"]) == 32 and isinstance(current["cleanShutdown"], bool)


def test_checkpoints(directory):
    (current,) = [c for file in inspect(directory, "checkpoints") for c in file["checkpoints"] if c["current"]]
    assert current["oplogPosition"] > 0 and current["timestamp"].time > 0 and current["kind"] in ("base", "delta")


def test_trees_have_names_and_sizes(directory):
    trees = inspect(directory, "trees")
    assert sum(1 for tree in trees if tree.get("catalog")) == 1
    assert not [tree for tree in trees if tree.get("unknown")]
    records, by_id, by_a = tree_of(directory), tree_of(directory, "_id_"), tree_of(directory, "by_a")
    assert [tree["entries"] for tree in (records, by_id, by_a)] == [1000, 1000, 1000]
    assert records["overflowPages"] >= 12 and records["diskBytes"] > 0


def leaves_below(directory, page):
    """The leaf pages of a tree."""
    (node,) = inspect(directory, "page", page)
    if node["kind"] == "leaf":
        return [node]
    children = [entry["child"] for entry in node["entries"]] + [node["rightmost"]]
    return [leaf for child in children for leaf in leaves_below(directory, child)]


def test_pages_of_records(directory):
    leaves = leaves_below(directory, tree_of(directory)["tree"])
    entries = [entry for leaf in leaves for entry in leaf["entries"] if not entry.get("ghost")]
    documents = {entry["document"]["_id"]: entry["document"] for entry in entries if "document" in entry}
    assert documents[3] == {"_id": 3, "a": 11, "name": "thing 3"} and 4 not in documents and len(documents) == 999
    (large,) = [entry for entry in entries if "overflow" in entry]
    (page,) = inspect(directory, "page", large["overflow"]["head"])
    assert page["kind"] == "overflow" and page["ns"] == "shop.things" and large["overflow"]["bytes"] > 200_000
    assert leaves[0]["lowerFence"] == "" and leaves[-1]["upperFence"] is None


def test_pages_of_an_index_show_keys_as_values(directory):
    leaves = leaves_below(directory, tree_of(directory, "by_a")["tree"])
    keys = [entry["keys"] for leaf in leaves for entry in leaf["entries"] if not entry.get("ghost")]
    assert len(keys) == 1000 and keys[-1] == {"a": 11, "name": "thing 3"}
    assert {"a": None, "name": None} == keys[0]


def test_oplog_entries(directory):
    entries = inspect(directory, "oplog")
    positions = [entry["position"] for entry in entries]
    assert positions == sorted(positions) and all(entry["ts"].time > 0 for entry in entries)
    kinds = [entry["op"] for entry in entries if entry.get("ns") == "shop.things"]
    assert (kinds.count("i"), kinds.count("u"), kinds.count("d")) == (1001, 1, 1)
    (update,) = [entry for entry in entries if entry["op"] == "u"]
    assert update["o2"] == {"_id": 3} and bson.encode(update["o"])
    some = inspect(directory, "oplog", "--from", positions[10], "--limit", 2)
    assert [entry["position"] for entry in some] == positions[10:12]


def test_text_is_for_people(directory):
    command = [str(binary_path()), "inspect", "--data", str(directory)]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "ns: shop.things\nindex: by_a\nentries: 1000\n" in text and "cleanShutdown: " in text


def refused(*arguments):
    result = subprocess.run([str(binary_path()), "inspect", *arguments], capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    return result.stderr


def test_a_directory_in_use_is_refused(tmp_path):
    process = ServerProcess(tmp_path)
    process.start()
    message = refused("--data", str(tmp_path / "data"), "superblock")
    assert "in use by another server" in message and "copy of the directory" in message
    process.stop()


def test_what_is_not_there_is_refused(directory, tmp_path):
    assert "there is no data directory" in refused("--data", str(tmp_path / "none"))
    assert "has no such page" in refused("--data", str(directory), "page", "99999999")
    assert json.loads(subprocess.check_output([str(binary_path()), "inspect", "--data", str(directory), "--json", "oplog", "--limit", "1"]))
