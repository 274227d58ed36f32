"""What happens to servers whoever their clients are: kills, silences, a full disk.

Each disturbance is a context: while it lasts, nobody's latency counts.
"""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

# The file system that the data is on, where one can be made for it.
DISK_BYTES = 3 << 30


@contextlib.contextmanager
def small_disk(directory):
    """A file system of its own for the data, so that it can be filled; `None` where only root can make one and we are not."""
    if os.geteuid() != 0:
        yield None
        return
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)], capture_output=True)
    if made.returncode != 0:
        yield None
        return
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=False)


def silence(server, chance: random.Random):
    """The process stands still, as a virtual machine that is moved does."""
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0.2, 3))
    server.process.send_signal(signal.SIGCONT)


def full_disk(disk: pathlib.Path, chance: random.Random):
    """Nothing is left for a while."""
    filler = disk / "filler"
    with open(filler, "wb") as file:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        with contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(free - 4096, 4096))
        time.sleep(chance.uniform(1, 5))
    filler.unlink()
