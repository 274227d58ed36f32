"""One run of everything: rounds, each with a spell without hostile clients and one beside them, and disturbances in both."""

import contextlib
import multiprocessing
import os
import pathlib
import random
import threading
import time

from pymongo import MongoClient
from pymongo.errors import PyMongoError

import disturbances
import honest
import hostile
import judgement
from server_process import ServerProcess

MEMORY_MIB = 256
HOSTILE_PROCESSES = 4
# An operation this long after a disturbance still waits for its end.
AFTERMATH_SECONDS = 2
BETWEEN_DISTURBANCES = (6, 20)
START_SECONDS_MAX = 120
ROUND_SECONDS = 120
ALONE_SHARE = 0.25


def be_hostile(port, seed, acts, stopping, outcomes, doing):
    """A process of hostile clients, one act after the other."""
    os.nice(10)
    chance = random.Random(seed)
    while not stopping.is_set():
        name = chance.choice(acts)
        doing.value = name.encode()
        try:
            outcome = hostile.ACTS[name](port, chance)
        except (OSError, PyMongoError, MemoryError) as error:
            outcome = type(error).__name__
        outcomes.put((name, outcome))


class Watch(threading.Thread):
    """Looks at the server's process: whether it lives, what memory it takes, and who was at work when that was most."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.peak_bytes, self.at_peak = 0, []
        self.doing = []
        self.ends = []
        self.is_expected = threading.Event()
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.wait(0.05):
            process = self.server.process
            if process is None or self.is_expected.is_set():
                continue
            if process.poll() is not None and not self.is_expected.is_set():
                self.ends.append(f"the server ended with {process.returncode}:\n{self.server.log_tail()}")
                return
            taken = anonymous_bytes(process.pid)
            if taken > self.peak_bytes:
                self.peak_bytes, self.at_peak = taken, sorted(name.value.decode() for name in self.doing)


def anonymous_bytes(pid):
    """What the process has taken of memory, without what is mapped of files."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


class Run:
    """See the head of the file."""

    DATABASE = honest.DATABASE

    def __init__(self, directory, disk, minutes, seed, acts):
        self.disk, self.chance = disk, random.Random(seed)
        self.seconds = minutes * 60
        self.acts = acts
        self.server = ServerProcess(directory, ["--memory", f"{MEMORY_MIB}MiB", "--enable-test-commands"])
        self.server_time = judgement.ServerTime()
        self.clients, self.watch = [], Watch(self.server)
        self.tried, self.disturbed, self.refused = {}, {}, {}
        # Spells that a disturbance touches; those alone, and those beside hostile clients.
        self.touched, self.alone, self.beside = [], [], []
        self.wrong = []
        self.slowest_start = 0.0
        self.is_over = False

    def go(self):
        self.server.start()
        with MongoClient(self.server.uri) as client:
            honest.prepare(client)
        self.clients = [honest.Client(self.server.uri, number, self.chance.random()) for number in range(honest.CLIENTS)]
        self.watch.start()
        [client.start() for client in self.clients]
        until = time.monotonic() + self.seconds
        while time.monotonic() < until and not self.has_ended():
            self.round(min(until, time.monotonic() + ROUND_SECONDS))
        self.finish()

    def has_ended(self):
        return bool(self.is_over or self.watch.ends)

    def round(self, until):
        """It begins with a start, so that nothing of the round before is left."""
        self.disturb("orderly stop")
        began = time.monotonic()
        alone_until = began + (until - began) * ALONE_SHARE
        self.spell(alone_until)
        self.alone.append((began, alone_until))
        with self.hostile_clients():
            began = time.monotonic()
            self.spell(until)
            self.beside.append((began, time.monotonic()))

    def spell(self, until):
        while not self.has_ended():
            self.pause(self.chance.uniform(*BETWEEN_DISTURBANCES), until)
            if time.monotonic() >= until or self.has_ended():
                return
            self.disturb(self.chance.choice(disturbances.possible(self.disk is not None)))

    def pause(self, seconds, until):
        end = min(time.monotonic() + seconds, until)
        while time.monotonic() < end and not self.has_ended():
            time.sleep(min(0.2, max(end - time.monotonic(), 0)))

    @contextlib.contextmanager
    def hostile_clients(self):
        stopping, outcomes = multiprocessing.Event(), multiprocessing.Queue()
        collector = threading.Thread(target=self.collect, args=(outcomes,), daemon=True)
        seeds = [self.chance.random() for _ in range(HOSTILE_PROCESSES)]
        self.watch.doing = [multiprocessing.Array("c", 60) for _ in seeds]
        arguments = [(self.server.port, seed, self.acts, stopping, outcomes, doing) for seed, doing in zip(seeds, self.watch.doing)]
        processes = [multiprocessing.Process(target=be_hostile, args=one, daemon=True) for one in arguments]
        [process.start() for process in processes]
        collector.start()
        try:
            yield
        finally:
            stopping.set()
            self.watch.doing = []
            ends = time.monotonic() + hostile.SECONDS_MAX
            [process.join(max(ends - time.monotonic(), 0)) for process in processes]
            [process.kill() for process in processes if process.is_alive()]
            outcomes.put(None)
            collector.join(hostile.SECONDS_MAX)

    def collect(self, outcomes):
        """All the time: a queue that nobody empties would stop those who fill it."""
        for name, outcome in iter(outcomes.get, None):
            of_act = self.tried.setdefault(name, {})
            of_act[outcome] = of_act.get(outcome, 0) + 1

    def disturb(self, kind):
        began = time.monotonic()
        function, _ = disturbances.KINDS[kind]
        found = function(self)
        self.wrong += [f"{kind}: {line}" for line in found]
        self.touched.append((began, time.monotonic() + AFTERMATH_SECONDS))
        self.disturbed[kind] = self.disturbed.get(kind, 0) + 1
        print(f"{kind}: {time.monotonic() - began:.1f} s{', WRONG' if found else ''}", flush=True)

    def count_refused(self, what, error):
        kind = f"{what}: {type(error).__name__} {getattr(error, 'code', None) or ''}".strip()
        self.refused[kind] = self.refused.get(kind, 0) + 1

    @contextlib.contextmanager
    def expected_end(self):
        """While the server is down on purpose; the honest stand still when it is back, until it has been looked at."""
        self.watch.is_expected.set()
        try:
            yield
        finally:
            self.watch.is_expected.clear()

    def start_and_check(self, killed_at):
        turns = contextlib.ExitStack()
        with turns:
            [turns.enter_context(client.turn) for client in self.clients]
            try:
                self.slowest_start = max(self.slowest_start, self.server.start(START_SECONDS_MAX))
            except RuntimeError as error:
                self.is_over = True
                return [f"a start: {error}"]
            return self.check(killed_at)

    def check(self, killed_at):
        """Every document of the honest, and the server's time. What is hostile may have it refused for a while."""
        ends = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                with MongoClient(self.server.uri, serverSelectionTimeoutMS=30_000) as client:
                    wrong = honest.check_stored(client, self.clients, killed_at)
                    server_seconds = client.admin.command("ping")["operationTime"].time
                return wrong + self.server_time.seen(server_seconds, time.time())
            except PyMongoError as error:
                self.count_refused("check", error)
                if self.server.process.poll() is not None or time.monotonic() > ends:
                    return [f"what is stored could not be looked at: {error}"]
                time.sleep(0.5)

    def finish(self):
        [client.stopping.set() for client in self.clients]
        [client.join(60) for client in self.clients]
        if not self.has_ended():
            self.wrong += self.check(time.monotonic())
            self.disturb("orderly stop")
        self.watch.stopping.set()
        self.server.kill()

    def latencies(self, spells):
        """Of the honest in these spells, without what a disturbance touched."""
        taken = [one for client in self.clients for one in client.latencies]
        is_touched = lambda began, end: any(began < to and end > since for since, to in self.touched)
        is_in = lambda began: any(since <= began < to for since, to in spells)
        return [took for began, took in taken if is_in(began) and not is_touched(began, began + took)]

    def complaints(self, judges_waiting):
        wrong = self.wrong + self.watch.ends + [line for client in self.clients for line in client.wrong]
        wrong += judgement.of_memory(self.watch.peak_bytes, MEMORY_MIB << 20)
        if judges_waiting:
            wrong += judgement.of_waiting(self.latencies(self.alone), self.latencies(self.beside))
        return wrong
