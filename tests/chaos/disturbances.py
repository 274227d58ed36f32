"""What happens to servers whoever their clients are: kills, silences, orderly stops, a full disk, a clock that is set.

Each is a function of the run. It returns what was wrong with how the server took it; while it lasts, nobody's latency counts.
"""

import contextlib
import os
import signal
import subprocess
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

# The file system that the data is on, where one can be made for it.
DISK_BYTES = 2 << 30
HEALED_SECONDS_MAX = 30
HOUR, YEAR = 3600, 365 * 24 * 3600
# Ahead of the machine's clock. All but the last are within the year that the server accepts.
JUMPS_SECONDS = [3 * HOUR, 40 * HOUR, -2 * HOUR, 0]
JUMP_TOO_FAR_SECONDS = 100 * YEAR

KINDS = {}


def disturbance(needs_disk=False):
    def register(function):
        KINDS[function.__name__.replace("_", " ")] = (function, needs_disk)
        return function

    return register


def possible(has_disk):
    return sorted(kind for kind, (_, needs_disk) in KINDS.items() if has_disk or not needs_disk)


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


@disturbance()
def silence(run):
    """The process stands still, as a virtual machine that is moved does."""
    run.server.process.send_signal(signal.SIGSTOP)
    time.sleep(run.chance.uniform(0.2, 3))
    run.server.process.send_signal(signal.SIGCONT)
    return []


@disturbance()
def kill(run):
    with run.expected_end():
        killed_at = time.monotonic()
        run.server.kill()
        return run.start_and_check(killed_at)


@disturbance()
def orderly_stop(run):
    """SIGTERM, whatever the hostile are doing: what was acknowledged with any write concern is there."""
    with run.expected_end():
        try:
            run.server.stop()
        except RuntimeError as error:
            return [f"an orderly stop: {error}"] + run.start_and_check(time.monotonic())
        # Writes that were under way while it stopped were acknowledged before it ended.
        return run.start_and_check(time.monotonic() + 1)


@disturbance()
def kill_while_starting(run):
    """Starts that are killed in their midst, and one that is not."""
    with run.expected_end():
        killed_at = time.monotonic()
        run.server.kill()
        for _ in range(run.chance.randrange(1, 4)):
            run.server.launch()
            time.sleep(run.chance.uniform(0, 1))
            run.server.kill()
        return run.start_and_check(killed_at)


@disturbance(needs_disk=True)
def full_disk(run):
    """Nothing is left for a while."""
    with filled(run):
        time.sleep(run.chance.uniform(1, 5))
    return healed(run)


@disturbance(needs_disk=True)
def kill_on_a_full_disk(run):
    """A start is never refused for a full disk."""
    with filled(run):
        time.sleep(run.chance.uniform(0, 1))
        wrong = kill(run)
    return wrong + healed(run)


@disturbance()
def clock(run):
    """Somebody sets the machine's clock: ahead, back, and once in a while much too far."""
    wrong = []
    for jump in [run.chance.choice(JUMPS_SECONDS), run.chance.choice([*JUMPS_SECONDS, JUMP_TOO_FAR_SECONDS])]:
        try:
            wrong += set_clock(run, jump)
        except PyMongoError as error:
            # The full of requests and memory may be refused; nothing was moved or seen then.
            run.count_refused("clock", error)
    return wrong


def set_clock(run, jump):
    with MongoClient(run.server.uri, serverSelectionTimeoutMS=10_000) as client:
        fail_point = {"configureFailPoint": "wallClockIsAhead", "mode": "alwaysOn", "data": {"seconds": jump}}
        client.admin.command(fail_point)
        if jump != JUMP_TOO_FAR_SECONDS:
            # Timestamps may follow from now on, also when the answer below does not come.
            run.server_time.followed_seconds = max(run.server_time.followed_seconds, jump)
        client[run.DATABASE].clock.replace_one({"_id": 1}, {"jump": jump}, upsert=True)
        server_seconds = client.admin.command("ping")["operationTime"].time
        if jump == JUMP_TOO_FAR_SECONDS:
            return run.server_time.seen(server_seconds, time.time())
        return run.server_time.jumped(jump, server_seconds, time.time())


@contextlib.contextmanager
def filled(run):
    filler = run.disk / "filler"
    try:
        with open(filler, "wb") as file:
            free = os.statvfs(run.disk).f_bavail * os.statvfs(run.disk).f_frsize
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, max(free - 4096, 4096))
            yield
    finally:
        filler.unlink()


def healed(run):
    """There is space again: writes are accepted soon."""
    end = time.monotonic() + HEALED_SECONDS_MAX
    with MongoClient(run.server.uri, serverSelectionTimeoutMS=2000) as client:
        while True:
            try:
                client[run.DATABASE].healed.replace_one({"_id": 1}, {"at": time.time()}, upsert=True)
                return []
            except PyMongoError as error:
                if time.monotonic() > end:
                    return [f"{HEALED_SECONDS_MAX} s after there was space again a write was refused: {error}"]
                time.sleep(0.2)
