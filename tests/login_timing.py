"""Does the time of an answer tell whether a user exists? Sends 10,000 pairs of failing logins, one of a user who exists and one of a user who
does not, in random order, and compares how long each of both messages takes.

    PLIMSOLL_BINARY=target/release/plimsoll python tests/login_timing.py

Ends with 1 if they can be told apart: if one of both is the slower one in more pairs than chance gives in 99 of 100 runs. For a machine that
does nothing else: it is no part of the test suite.
"""

import base64
import math
import os
import random
import socket
import statistics
import sys
import tempfile
import time

from pymongo import MongoClient

from server_process import ServerProcess
from wire import Wire

PAIRS = int(os.environ.get("LOGIN_PAIRS", "10000"))
# After three failures each try is slowed, by address and user: so each pair has an address of its own, and after so many the server is a new one,
# as it counts in a table of fixed size.
PAIRS_OF_A_SERVER = 500
MECHANISM, KEY_BYTES = "SCRAM-SHA-256", 32
# Normal quantile of 99 per cent, for both messages together.
Z_MAX = 2.81


class From(Wire):
    """A connection from an address of this machine."""

    def __init__(self, server, address):
        self.socket = socket.create_connection(server.address, timeout=30, source_address=(address, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request_id = 0


def timed(connection, command):
    begun = time.perf_counter_ns()
    reply = connection.run(command)
    return time.perf_counter_ns() - begun, reply


def failing_login(server, address, user):
    """Nanoseconds until the answer to each of both messages."""
    connection = From(server, address)
    connection.run({"hello": 1})
    nonce = base64.b64encode(os.urandom(18)).decode()
    first, reply = timed(connection, {"saslStart": 1, "mechanism": MECHANISM, "payload": f"n,,n={user},r={nonce}".encode()})
    assert reply["ok"] == 1, reply
    theirs = bytes(reply["payload"]).split(b",")[0]
    proof = base64.b64encode(os.urandom(KEY_BYTES))
    message = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": b"c=biws," + theirs + b",p=" + proof}
    last, reply = timed(connection, message)
    assert reply["code"] == 18, reply
    connection.close()
    return first, last


def pairs_of_one_server(directory, count, numbers):
    server = ServerProcess(directory, ("--cache", "64MiB", "--auth"))
    server.start()
    with MongoClient(server.uri) as client:
        client.admin.command("createUser", "root", pwd="secret", roles=["root"])
    with MongoClient(server.uri, username="root", password="secret") as client:
        # Of equal length, and not the only ones.
        for number in range(20):
            client.admin.command("createUser", f"user{number:04}", pwd="secret", roles=["read"])
    found = []
    for pair in range(-20, count):
        address = f"127.1.{(pair + 20) // 200}.{(pair + 20) % 200 + 1}"
        users = [("known", f"user{numbers.randrange(20):04}"), ("unknown", f"user{numbers.randrange(20, 9999):04}")]
        numbers.shuffle(users)
        times = {kind: failing_login(server, address, user) for kind, user in users}
        if pair >= 0:
            found.append(times)
    server.stop()
    return found


def compare(name, known, unknown):
    """Prints how the two differ; whether chance may be the reason."""
    slower = sum(a > b for a, b in zip(known, unknown, strict=True))
    z = (slower - len(known) / 2) / math.sqrt(len(known) / 4)
    difference = statistics.median(a - b for a, b in zip(known, unknown, strict=True))
    print(
        f"{name}: a user who exists {statistics.median(known) / 1000:.1f} us, one who does not {statistics.median(unknown) / 1000:.1f} us (medians);"
        f" median of differences {difference / 1000:+.2f} us; the first is slower in {100 * slower / len(known):.1f} % of pairs (z = {z:+.2f})"
    )
    return abs(z) <= Z_MAX


def main():
    numbers = random.Random()
    found = []
    while len(found) < PAIRS:
        with tempfile.TemporaryDirectory() as directory:
            found += pairs_of_one_server(directory, min(PAIRS_OF_A_SERVER, PAIRS - len(found)), numbers)
    same = [
        compare(name, [times["known"][place] for times in found], [times["unknown"][place] for times in found])
        for place, name in enumerate(["saslStart", "saslContinue"])
    ]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
