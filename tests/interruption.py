"""Has a command end in its midst, in one of three ways, and measures how long that takes. Used by `pymongo/test_interruption*.py`.

With INTERRUPTION_TABLE=FILE every entry is ended in every way, and the file gets the longest times (docs/testing.md).
"""

import atexit
import itertools
import os
import time

import bson

from wire import Wire

# A loop that never looks takes much longer.
END_SECONDS_MAX = 3
# A command that is not killed must still come to an end.
WAIT_SECONDS_MAX = 60
TIME_LIMIT_MS = 100
# What is longer is not shown with its comment.
SHOWN_BYTES_MAX = 4000
INTERRUPTED, TIME_IS_OVER = 11601, 50

WAYS = ["time limit", "killOp", "client gone"]
TABLE = os.environ.get("INTERRUPTION_TABLE")

numbers = itertools.count()
times = []


def ways_of(number):
    """All ways for the table; one of them, by turns, for a test."""
    return WAYS if TABLE else [WAYS[number % len(WAYS)]]


def note(name, way, seconds):
    times.append((seconds, name, way))


def write_table():
    times.sort(reverse=True)
    lines = [f"{seconds * 1000:7.0f} ms  {way:10}  {name}" for seconds, name, way in times]
    with open(TABLE, "a") as table:
        table.write(f"{len(times)} endings, longest first\n" + "\n".join(lines[:40]) + "\n")


if TABLE:
    atexit.register(write_table)


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.005)
    raise AssertionError(f"it did not come within {seconds} s")


def running(client, comment):
    return client.admin.command({"currentOp": 1, "command.comment": comment})["inprog"]


def assert_ends(server, client, database, command, way, name, may_be_done=False):
    """Sends the command, has it end in the midst, and measures how long that takes."""
    comment = f"interruption {next(numbers)}"
    way = way if len(bson.encode(command)) < SHOWN_BYTES_MAX else "time limit"
    wire = Wire(server)
    wire.socket.settimeout(WAIT_SECONDS_MAX)
    limit = {"maxTimeMS": TIME_LIMIT_MS} if way == "time limit" else {}
    begin = time.monotonic()
    wire.send({**command, "comment": comment, **limit}, 0, "admin" if {"applyOps", "bulkWrite"} & set(command) else database)
    if way == "time limit":
        reply = wire.receive()[3]
        taken = time.monotonic() - begin - TIME_LIMIT_MS / 1000
        expected = TIME_IS_OVER
    else:
        shown = wait_until(lambda: running(client, comment) or wire.has_reply(), WAIT_SECONDS_MAX)
        time.sleep(0.1)
        begin = time.monotonic()
        if way == "killOp" and isinstance(shown, list):
            client.admin.command("killOp", op=shown[0]["opid"])
            reply = wire.receive()[3]
        elif way == "killOp":
            reply = wire.receive()[3]
        else:
            wire.close()
            wait_until(lambda: not running(client, comment), WAIT_SECONDS_MAX)
            reply = None
        taken = time.monotonic() - begin
        expected = INTERRUPTED
    wire.close()
    note(name, way, taken)
    assert taken < END_SECONDS_MAX, f"{name}: {taken:.1f} s, {str(reply)[:200]}"
    if reply is not None:
        codes = [reply.get("code"), *(error["code"] for error in reply.get("writeErrors", []))]
        codes += [result.get("code") for result in reply.get("cursor", {}).get("firstBatch", [])]
        is_done = reply["ok"] == 1 and may_be_done
        assert expected in codes or is_done, f"{name}: {str(reply)[:300]}"
