"""`cargo xtask chaos`: honest clients beside hostile ones, while the server is killed, stopped, and its disk filled.

It prints what was tried and what came of it, and fails when an acknowledged write is lost, an index disagrees with its records, the server ends by itself, takes more
memory than it was given, or makes the honest wait more than so many times as long as without the hostile.
"""

import argparse
import multiprocessing
import os
import pathlib
import queue
import random
import sys
import tempfile
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "crash"), str(TESTS / "chaos")]

import disturbances  # noqa: E402
import honest  # noqa: E402
import hostile  # noqa: E402
from pymongo import MongoClient  # noqa: E402
from pymongo.errors import PyMongoError  # noqa: E402
from server_process import ServerProcess  # noqa: E402

MEMORY_MIB = 256
MEMORY_OVER_MAX = 1.15
HOSTILE_PROCESSES = 4
SLOWER_MAX = 5
# An operation this long after a disturbance still waits for its end.
AFTERMATH_SECONDS = 2
BETWEEN_DISTURBANCES = (8, 25)
START_SECONDS_MAX = 120
CALM_SHARE = 0.2


def be_hostile(port, seed, stopping, outcomes):
    """A process of hostile clients, one act after the other."""
    os.nice(10)
    chance = random.Random(seed)
    while not stopping.is_set():
        name = chance.choice(sorted(hostile.ACTS))
        try:
            outcome = hostile.ACTS[name](port, chance)
        except (OSError, PyMongoError, MemoryError) as error:
            outcome = type(error).__name__
        outcomes.put((name, outcome))


class Watch(threading.Thread):
    """Looks at the server's process: whether it lives, and what memory it takes."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.peak_bytes = 0
        self.ends = []
        self.is_expected = threading.Event()
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(0.05):
            process = self.server.process
            if process is None or self.is_expected.is_set():
                continue
            if process.poll() is not None:
                self.ends.append(f"the server ended with {process.returncode}:\n{self.server.log_tail()}")
                return
            self.peak_bytes = max(self.peak_bytes, anonymous_bytes(process.pid))


def anonymous_bytes(pid):
    """What the process has taken of memory, without what is mapped of files."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


class Run:
    """One run of everything."""

    def __init__(self, directory, disk, minutes, seed):
        self.disk, self.chance = disk, random.Random(seed)
        self.seconds = minutes * 60
        self.server = ServerProcess(directory, ["--memory", f"{MEMORY_MIB}MiB"])
        self.tried = {}
        self.disturbed = {}
        self.excluded = []
        self.wrong = []
        self.calm_until = None
        self.slowest_start = 0.0

    def go(self):
        self.server.start()
        with MongoClient(self.server.uri) as client:
            honest.create_indexes(client)
        self.clients = [honest.Client(self.server.uri, number, self.chance.random()) for number in range(honest.CLIENTS)]
        self.watch = Watch(self.server)
        self.watch.start()
        [client.start() for client in self.clients]
        began = time.monotonic()
        self.pause(self.seconds * CALM_SHARE)
        self.calm_until = time.monotonic()
        self.beside_the_hostile(began + self.seconds)
        self.finish()

    def beside_the_hostile(self, until):
        stopping, outcomes = multiprocessing.Event(), multiprocessing.Queue()
        seeds = [self.chance.random() for _ in range(HOSTILE_PROCESSES)]
        arguments = [(self.server.port, seed, stopping, outcomes) for seed in seeds]
        processes = [multiprocessing.Process(target=be_hostile, args=one, daemon=True) for one in arguments]
        [process.start() for process in processes]
        while time.monotonic() < until and not self.watch.ends:
            self.pause(min(self.chance.uniform(*BETWEEN_DISTURBANCES), until - time.monotonic()))
            self.collect(outcomes)
            if time.monotonic() < until and not self.watch.ends:
                self.disturb()
        stopping.set()
        [process.join(3 * hostile.SECONDS_MAX) for process in processes]
        [process.kill() for process in processes if process.is_alive()]
        self.collect(outcomes)

    def pause(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.watch.ends:
            time.sleep(min(0.2, max(end - time.monotonic(), 0)))

    def collect(self, outcomes):
        while True:
            try:
                name, outcome = outcomes.get_nowait()
            except queue.Empty:
                return
            of_act = self.tried.setdefault(name, {})
            of_act[outcome] = of_act.get(outcome, 0) + 1

    def disturb(self):
        kinds = ["kill", "silence"] + (["full disk"] if self.disk else [])
        kind = self.chance.choice(kinds)
        began = time.monotonic()
        match kind:
            case "kill":
                self.kill_and_check()
            case "silence":
                disturbances.silence(self.server, self.chance)
            case "full disk":
                disturbances.full_disk(self.disk, self.chance)
        self.excluded.append((began, time.monotonic() + AFTERMATH_SECONDS))
        self.disturbed[kind] = self.disturbed.get(kind, 0) + 1
        print(f"{kind}: {time.monotonic() - began:.1f} s", flush=True)

    def kill_and_check(self):
        self.watch.is_expected.set()
        killed_at = time.monotonic()
        self.server.kill()
        [client.turn.acquire() for client in self.clients]
        try:
            self.slowest_start = max(self.slowest_start, self.server.start(START_SECONDS_MAX))
            self.watch.is_expected.clear()
            self.check(killed_at)
        finally:
            [client.turn.release() for client in self.clients]

    def check(self, killed_at):
        with MongoClient(self.server.uri, serverSelectionTimeoutMS=30_000) as client:
            self.wrong += honest.check_stored(client, self.clients, killed_at)

    def finish(self):
        [client.stopping.set() for client in self.clients]
        [client.join(60) for client in self.clients]
        if not self.watch.ends:
            self.check(time.monotonic())
            self.watch.is_expected.set()
            self.server.stop()
            self.server.start(START_SECONDS_MAX)
            self.check(time.monotonic())
            self.server.stop()
        self.watch.stopping.set()
        self.server.kill()

    def latencies(self, is_wanted):
        """Of operations that no disturbance touches."""
        taken = [one for client in self.clients for one in client.latencies]
        touched = lambda began, end: any(began < to and end > since for since, to in self.excluded)
        return [took for began, took in taken if is_wanted(began) and not touched(began, began + took)]

    def report(self):
        """Prints what was tried; returns what went wrong."""
        wrong = self.wrong + self.watch.ends + [line for client in self.clients for line in client.wrong]
        calm = self.latencies(lambda began: began < self.calm_until)
        beside = self.latencies(lambda began: began >= self.calm_until)
        calm_p99, beside_p99 = honest.percentile(calm, 0.99), honest.percentile(beside, 0.99)
        slower = beside_p99 / calm_p99 if calm_p99 else 0
        over = self.watch.peak_bytes / (MEMORY_MIB << 20)
        print("\nhostile acts")
        for name, outcomes in sorted(self.tried.items()):
            told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items(), key=lambda one: -one[1]))
            print(f"  {name:22} {sum(outcomes.values()):5}   {told}")
        print("disturbances")
        for kind, count in sorted(self.disturbed.items()):
            print(f"  {kind:22} {count:5}")
        print(f"  slowest start after a kill {self.slowest_start:.1f} s")
        if self.disk is None:
            print("  full disk                  0   only root can make a file system for the data")
        refused = {}
        for client in self.clients:
            for kind, count in client.refused.items():
                refused[kind] = refused.get(kind, 0) + count
        print("honest clients")
        print(f"  acknowledged writes {sum(client.acknowledged for client in self.clients)}, refused or cut off {refused}")
        print(f"  p99 {calm_p99 * 1000:.1f} ms alone ({len(calm)}), {beside_p99 * 1000:.1f} ms beside the hostile ({len(beside)}): {slower:.1f} times")
        print(f"memory: at most {self.watch.peak_bytes >> 20} MiB of {MEMORY_MIB} MiB ({over:.2f})")
        if over > MEMORY_OVER_MAX:
            wrong.append(f"the server took {over:.2f} of its memory, {MEMORY_OVER_MAX} is allowed")
        if slower > SLOWER_MAX:
            wrong.append(f"the honest waited {slower:.1f} times as long beside the hostile, {SLOWER_MAX} is allowed")
        return wrong


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="which random numbers")
    arguments = parser.parse_args()
    print(f"{arguments.minutes:g} minutes, --seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="plimsoll-chaos-") as directory:
        directory = pathlib.Path(directory)
        with disturbances.small_disk(directory) as disk:
            run = Run(directory, disk, arguments.minutes, arguments.seed)
            try:
                run.go()
            finally:
                run.server.kill()
            wrong = run.report()
    if wrong:
        print("\nwrong:\n  " + "\n  ".join(wrong[:50]))
        sys.exit(1)
    print("\nnothing lost, nothing wrong")


if __name__ == "__main__":
    main()
