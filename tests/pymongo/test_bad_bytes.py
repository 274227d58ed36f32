"""Bytes that no driver sends: the connection that sent them is closed or gets an error; every other one goes on."""

import socket
import struct

import bson
import pytest

OP_MSG, OP_QUERY, OP_COMPRESSED = 2013, 2004, 2012


@pytest.fixture
def connect(server, client):
    """Opens raw connections, and checks in the end that the server still serves others."""
    opened = []

    def open_connection():
        connection = socket.create_connection(server.address, timeout=10)
        opened.append(connection)
        return connection

    yield open_connection
    for connection in opened:
        connection.close()
    assert client.admin.command("ping")["ok"] == 1.0
    assert server.process.poll() is None


def frame(opcode, body, length=None):
    return struct.pack("<iiii", 16 + len(body) if length is None else length, 7, 0, opcode) + body


def message(document, flags=0):
    raw = document if isinstance(document, bytes) else bson.encode(document)
    return frame(OP_MSG, struct.pack("<I", flags) + b"\0" + raw)


def read_reply(connection):
    """The body of the reply, or None if the server closed the connection."""
    data = b""
    try:
        while len(data) < 16 or len(data) < struct.unpack("<i", data[:4])[0]:
            received = connection.recv(65536)
            if not received:
                return None
            data += received
    except ConnectionResetError:
        return None
    return bson.decode(data[21:])


def ask(connection, data):
    try:
        connection.sendall(data)
    except OSError:
        return None
    return read_reply(connection)


def test_a_good_message_by_hand(connect):
    connection = connect()
    assert ask(connection, message({"ping": 1, "$db": "admin"}))["ok"] == 1.0
    assert ask(connection, message({"ping": 1, "$db": "admin"}))["ok"] == 1.0


@pytest.mark.parametrize(
    "data",
    [
        frame(OP_MSG, b"", length=-1),
        frame(OP_MSG, b"", length=0),
        frame(OP_MSG, b"", length=15),
        frame(OP_MSG, b"", length=48_000_001),
        frame(OP_MSG, b"", length=2**31 - 1),
        frame(OP_MSG, b""),
        frame(OP_MSG, b"\0\0\0\0"),
        frame(OP_MSG, b"\0\0\0\0\x09" + bson.encode({"ping": 1, "$db": "admin"})),
        frame(OP_MSG, struct.pack("<I", 0x8000) + b"\0" + bson.encode({"ping": 1, "$db": "admin"})),
        frame(OP_MSG, b"\0\0\0\0\0" + struct.pack("<i", -5) + b"\0"),
        frame(OP_MSG, b"\0\0\0\0\0" + struct.pack("<i", 1 << 30) + b"\0"),
        frame(OP_MSG, b"\0\0\0\0\x01" + struct.pack("<i", -1) + b"documents\0"),
        frame(9999, b"nonsense"),
        frame(OP_COMPRESSED, struct.pack("<iiB", OP_MSG, 1 << 30, 2) + b"garbage"),
        frame(OP_COMPRESSED, struct.pack("<iiB", OP_MSG, -1, 2) + b"garbage"),
        frame(OP_COMPRESSED, struct.pack("<iiB", OP_MSG, 100, 77) + b"garbage"),
        frame(OP_QUERY, b"\0" * 4 + b"admin.$cmd"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=lambda data: data[:24].hex(),
)
def test_malformed_frames_close_only_that_connection(connect, data):
    bystander, culprit = connect(), connect()
    reply = ask(culprit, data)
    assert reply is None or reply["ok"] == 0.0
    assert ask(bystander, message({"ping": 1, "$db": "admin"}))["ok"] == 1.0


def test_half_a_frame_and_silence(connect):
    connect().sendall(message({"ping": 1, "$db": "admin"})[:20])
    assert ask(connect(), message({"ping": 1, "$db": "admin"}))["ok"] == 1.0


def element(kind, name, value):
    return bytes([kind]) + name + b"\0" + value


def document(*elements):
    body = b"".join(elements)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def insert_of(raw):
    """The message that inserts a document given as bytes."""
    head = bson.encode({"insert": "bytes", "$db": "t_bytes"})
    command = head[4:-1] + element(4, b"documents", document(element(3, b"0", raw)))
    return message(struct.pack("<i", len(command) + 5) + command + b"\0")


@pytest.mark.parametrize(
    "raw",
    [
        document(element(2, b"s", struct.pack("<i", 3) + b"\xff\xfe\0")),
        document(element(2, b"s", struct.pack("<i", -3) + b"ab\0")),
        document(element(2, b"s", struct.pack("<i", 1 << 20) + b"ab\0")),
        document(element(2, b"s", struct.pack("<i", 3) + b"abc")),
        document(element(0x42, b"x", b"\1\2\3")),
        document(element(8, b"b", b"\2")),
        document(element(5, b"b", struct.pack("<iB", -1, 0))),
        document(element(4, b"a", struct.pack("<i", -10) + b"\0")),
        document(element(3, b"o", struct.pack("<i", 4) + b"\0")),
        document(b"\x10name without end"),
    ],
    ids=["utf8", "negative", "beyond", "unterminated", "type", "bool", "binary", "array", "short", "name"],
)
def test_invalid_documents_are_refused(connect, client, raw):
    reply = ask(connect(), insert_of(raw))
    if reply is not None:
        refused = reply if reply["ok"] == 0.0 else reply["writeErrors"][0]
        assert refused["code"] in (2, 22), reply
    assert client["t_bytes"]["bytes"].count_documents({}) == 0


def test_depth_of_two_hundred(connect, client):
    deep = document()
    for _ in range(250):
        deep = document(element(3, b"a", deep))
    reply = ask(connect(), insert_of(deep))
    assert reply is None or reply["ok"] == 0.0 or reply["writeErrors"]
    assert client["t_bytes"]["bytes"].count_documents({}) == 0


def test_a_wrong_checksum(connect):
    body = struct.pack("<I", 1) + b"\0" + bson.encode({"ping": 1, "$db": "admin"}) + b"\1\2\3\4"
    reply = ask(connect(), frame(OP_MSG, body))
    assert reply is None or reply["ok"] == 0.0


def test_document_sequences(connect, client):
    client["t_bytes"]["sequence"].drop()
    documents = b"".join(bson.encode({"_id": i}) for i in range(5))
    section = b"documents\0" + documents
    body = bson.encode({"insert": "sequence", "$db": "t_bytes"})
    payload = struct.pack("<I", 0) + b"\0" + body + b"\1" + struct.pack("<i", len(section) + 4) + section
    assert ask(connect(), frame(OP_MSG, payload))["n"] == 5
    assert client["t_bytes"]["sequence"].count_documents({}) == 5


def test_no_database_and_no_command(connect):
    for bad in ({"ping": 1}, {}):
        reply = ask(connect(), message(bad))
        assert reply is None or reply["ok"] == 0.0


def test_more_to_come_gets_no_reply(connect, client):
    client["t_bytes"]["silent"].drop()
    connection = connect()
    connection.sendall(message({"insert": "silent", "documents": [{"_id": 1}], "$db": "t_bytes"}, flags=2))
    assert ask(connection, message({"count": "silent", "$db": "t_bytes"}))["n"] == 1


@pytest.mark.parametrize(
    "command",
    [
        {"insert": "a", "documents": 5},
        {"insert": "a", "documents": [5]},
        {"update": "a", "updates": 5},
        {"delete": "a", "deletes": [5]},
        {"aggregate": "a", "pipeline": [5], "cursor": {}},
        {"find": "a", "filter": 5},
    ],
)
def test_values_that_drivers_would_not_send(connect, command):
    reply = ask(connect(), message({**command, "$db": "t_bytes"}))
    assert (reply["ok"], reply["code"], reply["codeName"]) == (0.0, 14, "TypeMismatch")
