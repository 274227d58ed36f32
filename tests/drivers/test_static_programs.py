"""The static programs in a root that has nothing else: no C library, no shell, no /proc, no /etc. Of /dev it has what every container has and chance comes from."""

import os
import pathlib
import shutil
import stat
import subprocess

import pytest
from pymongo import MongoClient

from server_process import free_port

PROGRAMS = os.environ.get("PLIMSOLL_STATIC_PROGRAMS")
pytestmark = [
    pytest.mark.skipif(PROGRAMS is None, reason="PLIMSOLL_STATIC_PROGRAMS does not say where they are"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root of a process"),
]


@pytest.fixture
def root(tmp_path):
    """The server, and a folder for its data."""
    shutil.copy(pathlib.Path(PROGRAMS) / "plimsoll", tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "dev").mkdir()
    for name, minor in [("random", 8), ("urandom", 9)]:
        os.mknod(tmp_path / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    return tmp_path


def inside(root, *words):
    return ["chroot", str(root), "/plimsoll", *words]


def test_it_needs_nothing(root):
    headers = subprocess.run(["readelf", "-ld", str(root / "plimsoll")], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "NEEDED" not in headers
    said = subprocess.run(inside(root, "--version"), capture_output=True, text=True, check=False)
    assert said.returncode == 0 and said.stdout.startswith("plimsoll "), said.stderr


def test_it_serves_keeps_and_recovers(root):
    port = free_port()
    words = ["serve", "--data", "/data", "--listen", f"127.0.0.1:{port}", "--memory", "192MiB"]
    for kept in range(2):
        with subprocess.Popen(inside(root, *words), stderr=subprocess.PIPE, text=True) as server:
            try:
                with MongoClient(port=port, directConnection=True) as client:
                    orders = client.shop.orders
                    assert orders.count_documents({}) == kept
                    orders.insert_one({"_id": kept, "customer": "Ada"})
                    # What is compiled from C: regular expressions, JavaScript, compression.
                    assert orders.count_documents({"customer": {"$regex": "^a", "$options": "i"}}) == kept + 1
                    assert len(list(orders.find({"$where": "this.customer.length == 3"}))) == kept + 1
                    with MongoClient(port=port, directConnection=True, compressors="zstd") as compressed:
                        assert compressed.shop.orders.count_documents({}) == kept + 1
                healthy = subprocess.run(inside(root, "health", f"mongodb://localhost:{port}"), capture_output=True, text=True, check=False)
                by_number = subprocess.run(inside(root, "health", f"mongodb://127.0.0.1:{port}"), capture_output=True, text=True, check=False)
                assert by_number.returncode == 0, by_number.stderr
                # Names are found by the files and servers of /etc, which are not here: that is told, and ends nothing.
                assert healthy.returncode in (0, 2), healthy.stderr
            finally:
                server.terminate()
                said = server.communicate(timeout=120)[1]
        assert server.returncode == 0, said
