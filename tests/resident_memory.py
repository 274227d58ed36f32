"""A server with a small memory budget, and the largest resident memory of its process. Used by the suites that hold it to that."""

import pathlib

import pytest

from server_process import ServerProcess

MEBIBYTE = 1 << 20
BUDGET = 256 * MEBIBYTE


@pytest.fixture(scope="module", name="server")
def small_server(tmp_path_factory):
    """A server with a small budget."""
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--memory", f"{BUDGET // MEBIBYTE}MiB"])
    process.start()
    yield process
    process.stop()


class Peak:
    """The largest resident memory of a process since this object was made."""

    def __init__(self, process):
        self.folder = pathlib.Path(f"/proc/{process.pid}")
        (self.folder / "clear_refs").write_text("5")

    def bytes(self):
        lines = (self.folder / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def assert_within(peak, budget):
    """At most 15 % beyond the budget: the kernel counts what an allocator keeps for later and pages of the program, too."""
    used = peak.bytes()
    assert used <= budget * 115 // 100, f"{used // MEBIBYTE} MiB resident of {budget // MEBIBYTE} MiB"
