"""What a client may do where logins are wanted, before it has logged in: small messages, few of them, soon."""

import select
import socket
import struct
import time
import zlib

import bson
import pytest
from pymongo import MongoClient

from server_process import ServerProcess

MESSAGE_BYTES_MAX = 64 * 1024
REQUESTS_MAX = 200
SECONDS_MAX = 10
OP_MSG, OP_COMPRESSED, ZLIB = 2013, 2012, 2


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that wants a login, with a user."""
    process = ServerProcess(tmp_path_factory.mktemp("guarded"), ("--cache", "64MiB", "--auth"))
    process.start()
    with MongoClient(process.uri) as first:
        first.admin.command("createUser", "root", pwd="rootpw", roles=["root"])
    yield process
    process.stop()


def body(command):
    return struct.pack("<I", 0) + b"\0" + bson.encode({**command, "$db": "admin"})


def frame(content, operation=OP_MSG):
    return struct.pack("<iiii", 16 + len(content), 7, 0, operation) + content


def compressed(command):
    plain = body(command)
    return frame(struct.pack("<iiB", OP_MSG, len(plain), ZLIB) + zlib.compress(plain), OP_COMPRESSED)


def of_length(length):
    bare = len(frame(body({"ping": 1, "comment": ""})))
    return {"ping": 1, "comment": "x" * (length - bare)}


def connect(server):
    connection = socket.create_connection(server.address)
    connection.settimeout(30)
    return connection


def ask(connection, message):
    """The reply's document; None: the connection was closed."""
    try:
        connection.sendall(message)
        header = read(connection, 16)
        if header is None:
            return None
        length, _, _, operation = struct.unpack("<iiii", header)
        content = read(connection, length - 16)
        return bson.decode((zlib.decompress(content[9:]) if operation == OP_COMPRESSED else content)[5:])
    except (ConnectionResetError, BrokenPipeError):
        return None


def read(connection, length):
    received = b""
    while len(received) < length:
        piece = connection.recv(length - len(received))
        if not piece:
            return None
        received += piece
    return received


def test_messages_are_small_until_there_is_a_login(guarded):
    with connect(guarded) as connection:
        assert ask(connection, frame(body(of_length(MESSAGE_BYTES_MAX))))["ok"] == 1
        assert ask(connection, frame(body(of_length(MESSAGE_BYTES_MAX + 1)))) is None
    guarded.log_text(f"a message of {MESSAGE_BYTES_MAX + 1} bytes before a login")
    with connect(guarded) as connection:
        hello = ask(connection, frame(body({"hello": 1, "compression": ["zlib"]})))
        assert hello["compression"] == ["zlib"]
        assert ask(connection, compressed(of_length(60_000)))["ok"] == 1
        assert ask(connection, compressed(of_length(MESSAGE_BYTES_MAX + 100))) is None
    with MongoClient(guarded.uri, username="root", password="rootpw") as client:
        assert client.admin.command(of_length(1_000_000))["ok"] == 1


def test_a_logout_makes_the_client_a_stranger_again(guarded):
    with MongoClient(guarded.uri, username="root", password="rootpw", maxPoolSize=1, retryReads=False) as client:
        assert client.admin.command(of_length(100_000))["ok"] == 1
        client.admin.command("logout")
        with pytest.raises(Exception, match="closed|reset|pipe"):
            client.admin.command(of_length(100_000))
        # Its next connection logs in.
        assert client.admin.command(of_length(100_000))["ok"] == 1


def test_requests_are_few_until_there_is_a_login(guarded):
    with connect(guarded) as connection:
        replies = [ask(connection, frame(body({"find": "c"}))) for _ in range(REQUESTS_MAX)]
        assert {reply["code"] for reply in replies} == {13}
        assert ask(connection, frame(body({"find": "c"}))) is None
    guarded.log_text(f"more than {REQUESTS_MAX} requests")
    with MongoClient(guarded.uri, username="root", password="rootpw", maxPoolSize=1) as client:
        assert all(client.admin.command("ping")["ok"] == 1 for _ in range(2 * REQUESTS_MAX))


def test_who_takes_too_long_is_closed_and_who_only_watches_is_not(guarded):
    began, closed = time.monotonic(), {}
    silent, partial, trickling, stuck, greeted = (connect(guarded) for _ in range(5))
    ping = frame(body({"ping": 1}))
    partial.sendall(ping[:20])
    for connection in (stuck, greeted):
        assert ask(connection, frame(body({"hello": 1})))["ok"] == 1
    start = {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": b"n,,n=root,r=abc"}
    assert ask(stuck, frame(body(start)))["done"] is False
    watched, long = [silent, partial, trickling, stuck, greeted], frame(body(of_length(60_000)))
    while len(closed) < 4 and time.monotonic() - began < 6 * SECONDS_MAX:
        try:
            trickling.sendall(long[:1])
            long = long[1:]
        except OSError:
            closed.setdefault(trickling, time.monotonic() - began)
        for connection in select.select([one for one in watched if one not in closed], [], [], 0.1)[0]:
            closed[connection] = time.monotonic() - began
    assert set(closed) == {silent, partial, trickling, stuck}
    assert all(seconds > SECONDS_MAX - 0.5 for seconds in closed.values()), closed
    assert ask(greeted, ping)["ok"] == 1
    guarded.log_text(f"no whole message, or no login, within {SECONDS_MAX} seconds")
    for connection in watched:
        connection.close()
