"""Commits on a log in an object store beside those on a log in a directory: the figures of docs/benchmarks.md.

    PLIMSOLL_BINARY=target/release/plimsoll python tests/measure_object_log.py [SECONDS]

The store is the tests' own, on this machine, once as it is and once with 20 ms for each request, as a store of the same region has.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import pymongo

from object_store_server import ObjectStoreServer
from server_process import ServerProcess, binary_path

DELAYS_SECONDS = (None, 0.0, 0.02)
CLIENTS = (1, 64)


def commits(uri, clients, seconds):
    """How long each took, in milliseconds."""
    taken, until = [], time.monotonic() + seconds

    def run(number):
        with pymongo.MongoClient(uri) as client:
            written = 0
            while time.monotonic() < until:
                began = time.monotonic()
                client.test.numbers.insert_one({"text": "x" * 200, "by": number, "n": written})
                taken.append((time.monotonic() - began) * 1000)
                written += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(taken)


def main(seconds="10"):
    for delay in DELAYS_SECONDS:
        with tempfile.TemporaryDirectory(prefix="plimsoll-measure-") as folder, ObjectStoreServer() as store:
            os.environ.update(store.environment())
            url, name = f"dir://{folder}/log", "directory"
            if delay is not None:
                url, name = "s3://logs/measured", f"{delay * 1000:.0f} ms a request"
                subprocess.run([binary_path(), "log", "create", url], check=True, stdout=subprocess.DEVNULL)
            store.delay_seconds, store.names_at_once = delay or 0.0, 1_000
            place = pathlib.Path(folder) / "member"
            place.mkdir()
            server = ServerProcess(place, ["--cache", "256MiB", "--replica-set", "rs0", "--log", url])
            server.start()
            for clients in CLIENTS:
                before = len(store.requests)
                taken = commits(server.uri, clients, float(seconds))
                middle, late = statistics.median(taken), taken[len(taken) * 99 // 100]
                per_second = len(taken) / float(seconds)
                requests = (len(store.requests) - before) / max(1, len(taken))
                print(f"{name:>18} {clients:3} clients: {per_second:7.0f}/s, median {middle:5.1f} ms, p99 {late:6.1f} ms, {requests:.2f} requests each", flush=True)
            server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
