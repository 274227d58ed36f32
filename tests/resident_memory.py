"""A server with a small memory budget, held to it in three ways. Used by the memory suites.

The largest resident memory of its process stays within 15 % of the budget. The server is in a memory group of that size,
so that the kernel kills it when it takes more. And with --check-memory it compares itself what is allocated with what it accounts for.
"""

import os
import pathlib

import pytest
from pymongo import MongoClient

from memory_group import MemoryGroup
from server_process import ServerProcess

MEBIBYTE = 1 << 20
BUDGET = 256 * MEBIBYTE
# The kernel counts what an allocator keeps for later and pages of the program, too.
LIMIT = BUDGET * 115 // 100


@pytest.fixture(scope="module", name="group")
def memory_group():
    """A memory group for the server; or why there is none."""
    try:
        group = MemoryGroup(f"plimsoll-test-{os.getpid()}", LIMIT)
    except OSError as error:
        yield error
        return
    yield group
    group.remove()


@pytest.fixture(scope="module", name="server")
def small_server(tmp_path_factory, group):
    """A server with a small budget."""
    arguments = ["--memory", f"{BUDGET // MEBIBYTE}MiB", "--check-memory"]
    before_exec = group.enter if isinstance(group, MemoryGroup) else None
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), arguments, before_exec)
    process.start()
    yield process
    if isinstance(group, MemoryGroup):
        assert group.kills() == 0
    process.stop()


def test_the_server_is_in_a_memory_group_of_the_budget_and_15_percent(server, group):
    """Imported by each memory suite, so that it says where it ran without one."""
    if not isinstance(group, MemoryGroup):
        pytest.skip(f"no memory group can be made: {group}")
    assert server.process.pid in group.processes()
    assert BUDGET < group.limit() <= LIMIT
    assert group.kills() == 0


class Peak:
    """The largest resident memory of a server's process since this object was made."""

    def __init__(self, server):
        self.server = server
        self.folder = pathlib.Path(f"/proc/{server.process.pid}")
        (self.folder / "clear_refs").write_text("5")

    def bytes(self):
        lines = (self.folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def assert_within(peak):
    """The process is there, it has never taken more than it may, and all that it has allocated is accounted for."""
    server = peak.server
    assert server.process.poll() is None, server.log_tail()
    used = peak.bytes()
    assert used <= LIMIT, f"{used // MEBIBYTE} MiB resident of {BUDGET // MEBIBYTE} MiB"
    with MongoClient(server.uri) as client:
        memory = client.admin.command("serverStatus")["plimsoll"]["memory"]
    assert memory["check"]["timesBeyond"] == 0, memory
