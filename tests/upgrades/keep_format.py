"""Keeps a data directory of this build: its format is then opened by the tests of every later one.

    PLIMSOLL_BINARY=target/debug/plimsoll python tests/upgrades/keep_format.py NAME

To be run when a format has changed, before it is released; docs/upgrading.md says when. Each directory is kept three times: after an orderly stop, after a
kill, where the oplog is to be replayed, and encrypted.
"""

import argparse
import pathlib
import sys
import tarfile
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import stored_content  # noqa: E402
from pymongo import MongoClient  # noqa: E402
from server_process import ServerProcess  # noqa: E402

KEPT = pathlib.Path(__file__).parent / "kept"
KEY = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
# What has no documents and differs each time.
LEFT_OUT = ("figures", "temporary", "plimsoll.lock")


def keep(name, end, arguments=()):
    """Makes a directory, ends its server so, and packs it."""
    with tempfile.TemporaryDirectory() as folder:
        key = pathlib.Path(folder) / "key"
        key.write_text(KEY)
        key.chmod(0o600)
        server = ServerProcess(folder, ["--cache", "64MiB", *(word.replace("KEY", str(key)) for word in arguments)])
        server.start()
        with MongoClient(server.uri) as client:
            stored_content.write(client)
            stored_content.check(client)
        end(server)
        archive = KEPT / f"{name}.tar.xz"
        with tarfile.open(archive, "w:xz", preset=9) as packed:
            packed.add(pathlib.Path(folder) / "data", "data", filter=without_what_is_left_out)
        print(f"{archive.name}: {archive.stat().st_size:,} bytes")


def without_what_is_left_out(member):
    """A member of the archive, or none."""
    parts = pathlib.PurePath(member.name).parts
    if len(parts) > 1 and parts[1] in LEFT_OUT:
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main():
    """Keeps all three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what the format is called, as 0.1.0")
    name = parser.parse_args().name
    keep(f"{name}-stopped", ServerProcess.stop)
    keep(f"{name}-killed", ServerProcess.kill)
    keep(f"{name}-encrypted", ServerProcess.stop, ["--encryption-key-file", "KEY"])


if __name__ == "__main__":
    main()
