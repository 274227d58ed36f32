"""A memory group (cgroup) of a test's own, of version 1 or 2: the kernel kills what takes more than its limit. Needs root.

Used by `resident_memory`, which puts the servers of the memory suites into one.
"""

import os
import pathlib

ROOT = pathlib.Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group with a limit; processes that are started with `enter` are in it."""

    def __init__(self, name, limit):
        """Raises OSError where no group can be made."""
        self.is_unified = (ROOT / "cgroup.controllers").exists()
        self.folder = (ROOT if self.is_unified else ROOT / "memory") / name
        if self.is_unified and "memory" not in (ROOT / "cgroup.subtree_control").read_text().split():
            (ROOT / "cgroup.subtree_control").write_text("+memory")
        self.folder.mkdir()
        try:
            self._limit(limit)
        except OSError:
            self.folder.rmdir()
            raise

    def _limit(self, limit):
        names = ["memory.max"] if self.is_unified else ["memory.limit_in_bytes"]
        for name in names:
            (self.folder / name).write_text(str(limit))
        swap = self.folder / ("memory.swap.max" if self.is_unified else "memory.memsw.limit_in_bytes")
        if swap.exists():
            swap.write_text("0" if self.is_unified else str(limit))

    def limit(self):
        """The limit in bytes, as the kernel has it."""
        name = "memory.max" if self.is_unified else "memory.limit_in_bytes"
        return int((self.folder / name).read_text())

    def enter(self):
        """Puts the calling process into the group: to be called between fork and exec."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def processes(self):
        """Numbers of the processes in it."""
        return [int(number) for number in (self.folder / "cgroup.procs").read_text().split()]

    def kills(self):
        """How many processes the kernel has killed because of the limit."""
        name = "memory.events" if self.is_unified else "memory.oom_control"
        counts = dict(line.split() for line in (self.folder / name).read_text().splitlines())
        return int(counts.get("oom_kill", 0))

    def remove(self):
        """Removes it, once no process is in it."""
        self.folder.rmdir()
