"""Commits on a log in Kafka beside those on a log in a directory: the figures of docs/replica-sets.md.

    python tests/kafka/measure.py JARS PLIMSOLL PLIMSOLL_LAB [SECONDS]

One member for each log, in turn and twice, since what others do on the machine changes: a directory, one broker, three brokers. All are on this machine and one disk.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from brokers import Brokers  # noqa: E402
from server_process import ServerProcess  # noqa: E402

ROUNDS = 2
CONNECTIONS = (1, 64)


def measured(lab, port, connections, seconds):
    command = [lab, "bench", "point-ops", "--target", f"mongodb://127.0.0.1:{port}", "--operations", "insertOne,updateOne"]
    command += ["--documents", "10000", "--connections", str(connections), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if re.match(r"\s*(insertOne|updateOne)", line)]
    return lines or [done.stdout + done.stderr]


def main(jars, plimsoll, lab, seconds="5"):
    os.environ["PLIMSOLL_BINARY"] = plimsoll
    with tempfile.TemporaryDirectory(prefix="plimsoll-measure-") as folder:
        folder = pathlib.Path(folder)
        clusters = {count: Brokers(folder / f"brokers{count}", jars, count) for count in (1, 3)}
        try:
            for number in range(ROUNDS):
                for name in ("directory", 1, 3):
                    place = folder / f"{name}-{number}"
                    place.mkdir()
                    if name == "directory":
                        url = f"dir://{place}/log"
                    else:
                        if number == 0:
                            clusters[name].start()
                        url = f"kafka://{clusters[name].addresses}/measure{number}?replication={name}"
                        subprocess.run([plimsoll, "log", "create", url], check=True)
                    server = ServerProcess(place, ["--cache", "256MiB", "--replica-set", "rs0", "--log", url])
                    server.start()
                    for connections in CONNECTIONS:
                        for line in measured(lab, server.port, connections, seconds):
                            print(f"{name!s:>10} {connections:3} clients: {line}", flush=True)
                    server.stop()
        finally:
            for cluster in clusters.values():
                cluster.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
