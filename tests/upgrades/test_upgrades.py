"""Data directories of earlier builds, kept in `kept`: this build opens each, finds everything, changes it, and opens it again."""

import pathlib
import tarfile

import pytest
import stored_content
from keep_format import KEPT, KEY
from pymongo import MongoClient
from server_process import ServerProcess

ARCHIVES = sorted(KEPT.glob("*.tar.xz"))


@pytest.fixture
def begin(tmp_path):
    """Makes servers of the test's folder; one that a failure leaves running is ended."""
    begun = []

    def begin_one(arguments):
        begun.append(ServerProcess(tmp_path, arguments))
        return begun[-1]

    yield begin_one
    for server in begun:
        server.kill()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.removesuffix(".tar.xz"))
def test_a_directory_of_an_earlier_build_is_opened_and_used(archive, begin, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (tmp_path / "data").chmod(0o700)
    arguments = ["--cache", "64MiB"]
    if archive.name.endswith("-encrypted.tar.xz"):
        key = tmp_path / "key"
        key.write_text(KEY)
        key.chmod(0o600)
        arguments += ["--encryption-key-file", str(key)]
    server = begin(arguments)
    for _ in range(2):
        server.start()
        with MongoClient(server.uri) as client:
            stored_content.check(client)
            stored_content.change(client)
            stored_content.check(client)
        server.stop()
    # After a kill, too: what this build has logged is replayed over what the other has stored.
    server.start()
    with MongoClient(server.uri) as client:
        stored_content.change(client)
    server.kill()
    server.start()
    with MongoClient(server.uri) as client:
        stored_content.check(client)
    server.stop()


def test_something_is_kept():
    assert len(ARCHIVES) >= 3, f"no data directories in {KEPT}"


def crc32c(data):
    """The checksum of Castagnoli, as all files have it."""
    checksum = 0xFFFFFFFF
    for byte in data:
        checksum ^= byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum ^ 0xFFFFFFFF


# The files, where their headers begin, and how many bytes a header's checksum is of, behind which it stands. The version is at 8 in each.
HEADERS = [("pages.plimsoll", (0, 4096), 4092), ("oplog/*", (0,), 40)]


@pytest.mark.parametrize("pattern, headers, checked", HEADERS, ids=["pages", "oplog"])
def test_a_newer_format_is_refused_by_name_and_nothing_is_touched(pattern, headers, checked, begin, tmp_path):
    server = begin(["--cache", "64MiB"])
    server.start()
    with MongoClient(server.uri) as client:
        client["kept"]["one"].insert_one({"_id": 1})
    server.stop()
    files = [path for path in pathlib.Path(tmp_path / "data").glob(pattern) if path.read_bytes()[:4] == b"PLMS" or "pages" in pattern]
    for file in files:
        data = bytearray(file.read_bytes())
        for header in headers:
            data[header + 8 : header + 12] = (999).to_bytes(4, "little")
            checksum = crc32c(data[header : header + checked])
            data[header + checked : header + checked + 4] = checksum.to_bytes(4, "little")
        file.write_bytes(data)
    before = [file.read_bytes() for file in files]
    with pytest.raises(RuntimeError) as refusal:
        server.start()
    assert "format version 999" in str(refusal.value), refusal.value
    assert [file.read_bytes() for file in files] == before, "a refused file was changed"
