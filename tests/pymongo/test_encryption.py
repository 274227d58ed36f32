"""A data directory that is encrypted: what is stored is in none of its files, whatever ends the server; another key, or none, is refused; the
key changes; what is damaged is told, and the rest is saved."""

import os
import pathlib
import secrets
import subprocess

import pytest
from bson import json_util
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from server_process import ServerProcess, binary_path

MARK = "MARKED-VALUE-OF-A-DOCUMENT"
# Larger than the cache, so that pages are written, and than a sort's memory, so that temporary files are.
DOCUMENTS, FILLER = 3_000, 4_000


def key_file(directory, name):
    path = directory / name
    path.write_text(secrets.token_hex(32))
    path.chmod(0o600)
    return path


def server_with(directory, key):
    return ServerProcess(directory, ("--cache", "8MiB", "--memory", "128MiB", "--encryption-key-file", str(key)))


def run(*words, **options):
    return subprocess.run([str(binary_path()), *map(str, words)], capture_output=True, text=True, timeout=120, **options)


def filler(number):
    """Something that no compression makes small, with the mark in its midst."""
    return secrets.token_hex(FILLER // 4) + MARK + str(number) + secrets.token_hex(FILLER // 4)


def fill(client):
    shop = client.shop
    shop.create_collection("ring", capped=True, size=1 << 20)
    shop.things.create_index("name")
    for start in range(0, DOCUMENTS, 100):
        numbers = range(start, start + 100)
        shop.things.insert_many({"_id": n, "name": f"{MARK}{n}", "text": filler(n)} for n in numbers)
        shop.ring.insert_many({"_id": n, "name": f"{MARK}{n}"} for n in numbers)
    # With a cursor open, the sort's files are there while it is looked at.
    cursor = shop.things.aggregate([{"$sort": {"text": 1}}], allowDiskUse=True, batchSize=5)
    next(cursor)
    shop.things.update_one({"_id": 0}, {"$set": {"last": MARK}})
    # A checkpoint: pages are on disk, too.
    client.admin.command("fsync", 1)
    return cursor


def assert_all_there(client):
    shop = client.shop
    assert shop.things.count_documents({}) == DOCUMENTS == shop.ring.count_documents({})
    assert shop.things.find_one({"name": f"{MARK}17"})["_id"] == 17
    assert shop.things.find_one({"_id": 0})["last"] == MARK
    for name in ("things", "ring"):
        assert shop.command("validate", name, full=True)["valid"]


def files_with(directory, text):
    """The files in which a text is, also as it is in pages: behind a shortened prefix."""
    found = [path for path in directory.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
    return sorted(path.relative_to(directory) for path in found)


def assert_temporary_files_tell_nothing(server):
    """They have no names, so they are read as the process has them open."""
    opened = pathlib.Path(f"/proc/{server.process.pid}/fd")
    files = [path for path in opened.iterdir() if "/temporary/" in os.readlink(path)]
    contents = [path.read_bytes() for path in files]
    assert sum(map(len, contents)) > DOCUMENTS * FILLER / 4, "the sort has written no temporary file"
    assert all(MARK[:-5].encode() not in content for content in contents)


def test_nothing_can_be_read_without_the_key(tmp_path):
    right, wrong, new = (key_file(tmp_path, name) for name in ("right", "wrong", "new"))
    data = tmp_path / "data"
    server = server_with(tmp_path, right)
    server.start()
    try:
        with MongoClient(server.uri) as client:
            cursor = fill(client)
            assert {"pages.plimsoll", "oplog", "rings", "page_table", "encryption.keys"} <= {path.name for path in data.iterdir()}
            assert files_with(data, MARK[:-5]) == []
            assert_temporary_files_tell_nothing(server)
            assert len(list(cursor)) == DOCUMENTS - 1
        server.kill()
        assert files_with(data, MARK[:-5]) == []
        server.start()
        with MongoClient(server.uri) as client:
            assert_all_there(client)
        server.stop()

        for arguments, problem in [
            (["--encryption-key-file", wrong], "not the one"),
            ([], "is encrypted"),
            (["--encryption-key-file", tmp_path / "none"], "cannot get the encryption key"),
        ]:
            said = run("serve", "--data", data, "--listen", "127.0.0.1:0", *arguments)
            assert said.returncode == 1 and problem in said.stderr, said.stderr
            assert run("inspect", "--data", data, *arguments).returncode == 1
        assert run("rotate-key", "--data", data, "--encryption-key-file", wrong, "--new-encryption-key-file", new).returncode == 1
        rotated = run("rotate-key", "--data", data, "--encryption-key-file", right, "--new-encryption-key-file", new)
        assert rotated.returncode == 0, rotated.stderr
        assert run("inspect", "--data", data, "--encryption-key-file", right).returncode == 1
        looked_at = run("inspect", "--data", data, "--encryption-key-file", new)
        assert looked_at.returncode == 0 and "shop.things" in looked_at.stdout, looked_at.stderr

        # By the other two ways to give it.
        server.arguments[-2:] = ["--encryption-key-command", f"cat {new}"]
        server.start()
        with MongoClient(server.uri) as client:
            assert_all_there(client)
            assert str(new) not in str(client.admin.command("getCmdLineOpts"))
        server.stop()
        said = run("inspect", "--data", data, "--encryption-key-env", "KEY", env={**os.environ, "KEY": new.read_text()})
        assert said.returncode == 0, said.stderr
    finally:
        server.kill()


def test_a_plain_directory_is_refused_and_can_be_copied_into_an_encrypted_one(tmp_path):
    key, data, copy = key_file(tmp_path, "key"), tmp_path / "data", tmp_path / "copy"
    server = ServerProcess(tmp_path, ("--cache", "64MiB"))
    server.start()
    with MongoClient(server.uri) as client:
        client.shop.things.insert_one({"_id": 1, "name": MARK})
    server.stop()
    assert files_with(data, MARK) != []
    said = run("serve", "--data", data, "--listen", "127.0.0.1:0", "--encryption-key-file", key)
    assert said.returncode == 1 and "plimsoll repair" in said.stderr, said.stderr
    repaired = run("repair", "--data", data, "--into", copy, "--encryption-key-file", key)
    assert repaired.returncode == 0, repaired.stderr
    assert files_with(copy, MARK) == []
    server = ServerProcess(tmp_path, ("--cache", "64MiB", "--encryption-key-file", str(key)))
    data.rename(tmp_path / "plain")
    copy.rename(data)
    server.start()
    with MongoClient(server.uri) as client:
        assert client.shop.things.find_one() == {"_id": 1, "name": MARK}
    server.stop()


def test_a_damaged_sector_costs_its_page_and_the_rest_is_served_and_saved(tmp_path):
    key, data, saved = key_file(tmp_path, "key"), tmp_path / "data", tmp_path / "saved"
    server = server_with(tmp_path, key)
    server.start()
    with MongoClient(server.uri) as client:
        fill(client).close()
        client.shop.other.insert_one({"_id": 1})
    server.stop()
    spoil_a_leaf(data, key, "shop.things")
    server.start()
    with MongoClient(server.uri) as client:
        with pytest.raises(OperationFailure, match="shop.things"):
            list(client.shop.things.find())
        assert client.shop.other.find_one() == {"_id": 1}
        assert client.shop.ring.count_documents({}) == DOCUMENTS
    server.stop()
    repaired = run("repair", "--data", data, "--into", saved, "--encryption-key-file", key)
    assert "shop.things" in repaired.stdout + repaired.stderr, repaired
    data.rename(tmp_path / "damaged")
    saved.rename(data)
    server.start()
    with MongoClient(server.uri) as client:
        # Of the damaged page there may be an older image.
        assert DOCUMENTS * 0.9 < client.shop.things.count_documents({}) <= DOCUMENTS
        assert client.shop.ring.count_documents({}) == DOCUMENTS
        assert client.shop.command("validate", "things", full=True)["valid"]
    server.stop()


def inspect(data, key, *arguments):
    said = run("inspect", "--data", data, "--json", "--encryption-key-file", key, *arguments)
    assert said.returncode == 0, said.stderr
    return [json_util.loads(line) for line in said.stdout.splitlines()]


def spoil_a_leaf(data, key, namespace):
    """Flips a bit in the last leaf of a collection's records. A sector has 484 bytes of content, behind 8192 bytes of headers."""
    page = next(tree for tree in inspect(data, key, "trees") if tree.get("ns") == namespace and tree.get("index") is None)["tree"]
    while (node := inspect(data, key, "page", page)[0])["kind"] != "leaf":
        page = node["rightmost"]
    with open(data / "pages.plimsoll", "r+b") as file:
        place = 8192 + node["offset"] // 484 * 512 + 300
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))
