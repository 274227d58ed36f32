"""Measures what operating a server takes: ready in how long, backup, restore, copy and bulk load at what rate, and what a backup costs those who work.

    python tests/operating_figures.py --programs DIR --work DIR [--megabytes N] [--rounds N]

Not a test: figures for docs/benchmarks.md. Each rate stands beside what the disk gives for the same bytes at the same time, as disks differ by the hour.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import threading
import time

import bson
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import server_process
from server_process import ServerProcess

MIB = 1 << 20
BATCH = 1000
DOCUMENT_BYTES = 400


def median(values):
    return statistics.median(values)


def disk_rate(folder, megabytes):
    """Bytes a second of a file written in order and made durable."""
    path, piece = folder / "disk.probe", os.urandom(4 * MIB)
    began = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for _ in range(megabytes // 4):
            file.write(piece)
        os.fsync(file.fileno())
    seconds = time.monotonic() - began
    path.unlink()
    return megabytes * MIB / seconds


def documents(first, count, payload=None):
    """Of 400 bytes, which no compression makes small."""
    source = random.Random(first)
    empty = len(bson.encode({"_id": 2**40, "n": 1, "text": ""}))
    for number in range(first, first + count):
        text = payload or source.randbytes(DOCUMENT_BYTES // 2).hex()[: DOCUMENT_BYTES - empty]
        yield RawBSONDocument(bson.encode({"_id": bson.Int64(number), "n": number % 1000, "text": text}))


def fill(uri, megabytes):
    count = megabytes * MIB // DOCUMENT_BYTES // BATCH * BATCH
    with MongoClient(uri, w=1) as client:
        for first in range(0, count, BATCH):
            client.shop.orders.insert_many(list(documents(first, BATCH)), ordered=False)
    return count


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ready(programs, rounds):
    """Milliseconds from the start of the process to the first answer."""
    times = []
    for _ in range(rounds):
        port = server_process.free_port()
        began = time.monotonic()
        command = [programs / "plimsoll", "serve", "--ephemeral", "--memory", "256MiB", "--listen", f"127.0.0.1:{port}"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
            address, hello = ("127.0.0.1", port), False
            while not hello:
                try:
                    with server_process.socket.create_connection(address, timeout=5) as connection:
                        connection.sendall(PING)
                        hello = len(connection.recv(16)) == 16
                except OSError:
                    time.sleep(0.001)
            times.append((time.monotonic() - began) * 1000)
            server.terminate()
    return {"milliseconds": round(median(times), 1), "slowest": round(max(times), 1)}


def message(command):
    body = bson.encode(command)
    return (16 + 5 + len(body)).to_bytes(4, "little") + bytes(8) + (2013).to_bytes(4, "little") + bytes(5) + body


PING = message({"ping": 1, "$db": "admin"})


class Foreground(threading.Thread):
    """A client who updates and reads at a steady pace; keeps each time in milliseconds."""

    def __init__(self, uri, count):
        super().__init__(daemon=True)
        self.uri, self.count, self.times, self.is_over = uri, count, [], False

    def run(self):
        with MongoClient(self.uri) as client:
            while not self.is_over:
                number = random.randrange(self.count)
                began = time.perf_counter()
                client.shop.orders.update_one({"_id": number}, {"$inc": {"n": 1}})
                client.shop.orders.find_one({"_id": random.randrange(self.count)})
                self.times.append((time.perf_counter() - began) * 1000)
                time.sleep(0.001)

    def p99(self, since):
        times = sorted(self.times[since:])
        return times[int(len(times) * 0.99)] if times else 0.0


def run(programs, *words):
    ended = subprocess.run([programs / "plimsoll", *map(str, words)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def backup_and_restore(programs, work, megabytes, rounds):
    server = ServerProcess(work / "source", ("--memory", "2GiB"))
    server.directory.mkdir()
    server.start()
    count = fill(server.uri, megabytes)
    result = {"backup": [], "restore": [], "disk": [], "p99_ratio": []}
    for number in range(rounds):
        place, target = work / "place", work / "target"
        result["disk"].append(disk_rate(work, megabytes) / 1e6)
        began = time.monotonic()
        run(programs, "backup", "--to", f"file://{place}", "--server", server.uri, "--full")
        seconds = time.monotonic() - began
        stored = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        result["backup"].append(stored / seconds / 1e6)
        began = time.monotonic()
        run(programs, "restore", "--from", f"file://{place}", "--to", target)
        result["restore"].append(stored / (time.monotonic() - began) / 1e6)
        shutil.rmtree(target)
        shutil.rmtree(place)
        result["p99_ratio"].append(beside_a_backup(programs, server, place, count))
        shutil.rmtree(place)
    server.stop()
    shutil.rmtree(server.directory)
    told = {name: round(median(values), 2) for name, values in result.items()}
    return told | {"stored_MB": round(stored / 1e6), "all": {name: [round(value, 2) for value in values] for name, values in result.items()}}


def beside_a_backup(programs, server, place, count):
    """The foreground's p99 while a backup is made, over that of as long a time without one."""
    client = Foreground(server.uri, count)
    client.start()
    time.sleep(8)
    before, middle = client.p99(0), len(client.times)
    run(programs, "backup", "--to", f"file://{place}", "--server", server.uri, "--full")
    during = client.p99(middle)
    client.is_over = True
    client.join()
    return during / before


def copy(programs, work, megabytes, rounds):
    """Between two servers of this machine."""
    rates = []
    for number in range(rounds):
        servers = [ServerProcess(work / name, ("--memory", "1GiB")) for name in ("from", "to")]
        for server in servers:
            server.directory.mkdir()
            server.start()
        count = fill(servers[0].uri, megabytes)
        began = time.monotonic()
        run(programs, "copy", servers[0].uri, servers[1].uri, "--state", work / "copy.state")
        rates.append(count / (time.monotonic() - began))
        for server in servers:
            server.stop()
            shutil.rmtree(server.directory)
        (work / "copy.state").unlink(missing_ok=True)
    rate = median(rates)
    return {"documents_a_second": round(rate), "MB_a_second": round(rate * DOCUMENT_BYTES / 1e6, 1), "all": [round(rate) for rate in rates]}


def load(work, megabytes, rounds, clients):
    """As `mongorestore` loads: unordered inserts of a thousand documents, from several connections, the longest second without one noted."""
    result = []
    for number in range(rounds):
        server = ServerProcess(work / "load", ("--memory", "1GiB"))
        server.directory.mkdir()
        server.start()
        count = megabytes * MIB // DOCUMENT_BYTES // BATCH // clients * clients
        payload = "x" * 200
        messages = [
            [message({"insert": "orders", "documents": list(documents(batch * BATCH, BATCH, payload)), "ordered": False, "$db": "shop"}) for batch in range(client, count, clients)]
            for client in range(clients)
        ]
        size = sum(len(one) for some in messages for one in some)
        pauses = []
        before = processor_seconds(server.process.pid)
        began = time.monotonic()
        threads = [threading.Thread(target=send, args=(server, some, pauses)) for some in messages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        core = (processor_seconds(server.process.pid) - before) / seconds
        disk = disk_rate(work, 256)
        result.append({"MB_a_second": round(size / seconds / 1e6, 1), "core": round(core, 2), "of_disk": round(size / seconds / disk, 2), "longest_ms": round(max(pauses) * 1000)})
        server.stop()
        shutil.rmtree(server.directory)
    return result


def send(server, messages, pauses):
    with server_process.socket.create_connection(server.address) as connection:
        for one in messages:
            began = time.monotonic()
            connection.sendall(one)
            head = connection.recv(4, server_process.socket.MSG_WAITALL)
            left = int.from_bytes(head, "little") - 4
            connection.recv(left, server_process.socket.MSG_WAITALL)
            pauses.append(time.monotonic() - began)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only")
    asked = parser.parse_args()
    os.environ["PLIMSOLL_BINARY"] = str(asked.programs / "plimsoll")
    shutil.rmtree(asked.work, ignore_errors=True)
    asked.work.mkdir(parents=True)
    parts = {
        "ready": lambda: ready(asked.programs, 20),
        "backup": lambda: backup_and_restore(asked.programs, asked.work, asked.megabytes, asked.rounds),
        "copy": lambda: copy(asked.programs, asked.work, asked.megabytes, asked.rounds),
        "load": lambda: load(asked.work, asked.megabytes, asked.rounds, 4),
    }
    for name, measure in parts.items():
        if asked.only in (None, name):
            print(json.dumps({name: measure()}), flush=True)


if __name__ == "__main__":
    main()
