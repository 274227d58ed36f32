"""Clients that ask for more than a small server has memory for, many at once: compressed requests, replies that nobody reads, large documents."""

import re
import socket
import struct
import threading
import time
import zlib

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from resident_memory import (  # noqa: F401
    MEBIBYTE,
    Peak,
    assert_within,
    memory_group,
    small_server,
    test_the_server_is_in_a_memory_group_of_the_budget_and_15_percent,
)

EXCEEDED_MEMORY_LIMIT = 146
OP_MSG, OP_COMPRESSED, ZLIB = 2013, 2012, 2


@pytest.fixture
def client(server):
    with MongoClient(server.uri) as client:
        yield client


@pytest.fixture(autouse=True)
def stays_in_budget(server):
    """Every test of this file holds the process to its budget, and what it took is given back."""
    peak = Peak(server)
    yield
    assert_within(peak)
    with MongoClient(server.uri) as client:
        deadline = time.monotonic() + 10
        while taken(client) > 2 * MEBIBYTE and time.monotonic() < deadline:
            time.sleep(0.1)
        assert taken(client) <= 2 * MEBIBYTE, uses(client)


def uses(client):
    return client.admin.command("serverStatus")["plimsoll"]["memory"]["uses"]


def taken(client):
    return sum(uses(client)[use] for use in ("connections", "threads", "operations"))


def logged(server, text, least=1):
    """How often the log says so; lines may come a moment after what the client sees."""
    deadline = time.monotonic() + 5
    while (count := len(re.findall(text, server.log_path.read_text()))) < least and time.monotonic() < deadline:
        time.sleep(0.05)
    return count


def at_once(count, work):
    """Runs `work(number)` in so many threads that begin together; gives what each returned."""
    results, barrier = [None] * count, threading.Barrier(count)

    def run(number):
        barrier.wait()
        results[number] = work(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def framed(op_code, content):
    return struct.pack("<iiii", 16 + len(content), 1, 0, op_code) + content


def compressed(content, declared=None):
    """An OP_COMPRESSED frame of an OP_MSG."""
    squeezed = zlib.compress(content, 9)
    return framed(OP_COMPRESSED, struct.pack("<iiB", OP_MSG, declared or len(content), ZLIB) + squeezed)


def receive(connection):
    """The document of the next reply; None when the server has closed the connection."""
    try:
        header = exactly(connection, 16)
        length, _, _, op_code = struct.unpack("<iiii", header)
        content = exactly(connection, length - 16)
        if op_code == OP_COMPRESSED:
            content = zlib.decompress(content[9:])
        return bson.decode(content[5:])
    except ConnectionError:
        return None


def exactly(connection, length):
    content = bytearray()
    while len(content) < length:
        part = connection.recv(length - len(content))
        if not part:
            raise ConnectionError("closed by the server")
        content += part
    return bytes(content)


def ask_and_do_not_read(server, request):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    connection.connect(server.address)
    connection.sendall(request)
    return connection


def bomb():
    """A request of 45 KB that is 46 MB once it is decompressed: two documents of 15 MiB and a filled field of the command."""
    document = bson.encode({"pad": bytes(15 * MEBIBYTE)})
    sequence = b"documents\0" + document * 2
    body = bson.encode({"insert": "bombs", "ordered": False, "comment": bytes(15 * MEBIBYTE), "$db": "memory"})
    content = struct.pack("<iB", 0, 0) + body + b"\1" + struct.pack("<i", 4 + len(sequence)) + sequence
    return compressed(content)


def test_forty_compressed_requests_that_are_a_thousand_times_larger_inside(server, client):
    request = bomb()
    assert len(request) < 50_000

    def send(_):
        with socket.create_connection(server.address, timeout=120) as connection:
            connection.sendall(request)
            return receive(connection)

    replies = at_once(40, send)
    for reply in replies:
        assert reply is not None and (reply["ok"] == 1 or reply["code"] in (EXCEEDED_MEMORY_LIMIT, 462)), reply
    assert any(reply["ok"] == 1 for reply in replies)
    refused = [reply for reply in replies if "there is no memory for the message" in reply.get("errmsg", "")]
    assert logged(server, "no memory for a message", len(refused)) == len(refused) > 0
    assert client.admin.command("ping")["ok"] == 1
    client.memory.bombs.drop()


def test_a_size_that_cannot_come_out_is_refused_before_anything_is_allocated(server):
    content = struct.pack("<iB", 0, 0) + bson.encode({"ping": 1, "$db": "admin"})
    with socket.create_connection(server.address, timeout=30) as connection:
        connection.sendall(compressed(content, declared=47_000_000))
        assert receive(connection) is None
    assert logged(server, "cannot give the 47000000 declared")


def test_sixty_clients_that_do_not_read_their_replies_of_15_megabytes(server, client):
    collection = client.memory.slow
    collection.drop()
    collection.insert_many([{"_id": number, "pad": bytes(MEBIBYTE - 100)} for number in range(15)])
    find = bson.encode({"find": "slow", "batchSize": 100, "singleBatch": True, "$db": "memory"})
    request = framed(OP_MSG, struct.pack("<iB", 0, 0) + find)
    connections = [ask_and_do_not_read(server, request) for _ in range(60)]
    # Beside them others are served.
    started = time.monotonic()
    for number in range(20):
        client.memory.small.insert_one({"_id": number, "pad": "x" * 1000})
        assert client.memory.small.find_one({"_id": number})["_id"] == number
    assert time.monotonic() - started < 10
    client.memory.small.drop()
    # So is, after a while, who needs as much as they do, and reads it: they are closed for that.
    deadline = time.monotonic() + 30
    reply = {"ok": 0}
    while reply["ok"] != 1 and time.monotonic() < deadline:
        with socket.create_connection(server.address, timeout=120) as reader:
            reader.sendall(request)
            reply = receive(reader)
        assert reply["ok"] == 1 or reply["code"] in (EXCEEDED_MEMORY_LIMIT, 462), reply
        time.sleep(0.2)
    assert len(reply["cursor"]["firstBatch"]) == 15
    told = "memory is short, and the client does not read its reply"
    while told not in server.log_path.read_text():
        assert time.monotonic() < deadline
        connections.append(ask_and_do_not_read(server, request))
        time.sleep(0.2)
    for connection in connections:
        connection.close()
    collection.drop()


def test_many_large_replies_are_compressed_where_there_is_memory_for_it(server, client):
    """Where there is none they come as they are; none is lost or cut off."""
    collection = client.memory.squeezed
    collection.drop()
    collection.insert_many([{"_id": number, "pad": bytes(MEBIBYTE - 100)} for number in range(15)])
    find = bson.encode({"find": "squeezed", "batchSize": 100, "singleBatch": True, "$db": "memory"})
    request = compressed(struct.pack("<iB", 0, 0) + find)

    def read(_):
        with socket.create_connection(server.address, timeout=120) as connection:
            connection.sendall(request)
            op_code = struct.unpack("<iiii", connection.recv(16, socket.MSG_PEEK | socket.MSG_WAITALL))[3]
            return op_code, receive(connection)

    results = at_once(16, read)
    for op_code, reply in results:
        assert op_code in (OP_MSG, OP_COMPRESSED)
        assert reply["ok"] == 1 or reply["code"] in (EXCEEDED_MEMORY_LIMIT, 462), reply
        assert reply["ok"] != 1 or len(reply["cursor"]["firstBatch"]) == 15
    # Alone there is memory for both.
    assert [(op_code, reply["ok"]) for op_code, reply in [read(0)]] == [(OP_COMPRESSED, 1)]
    collection.drop()


def test_thirty_readers_of_documents_of_16_megabytes(server, client):
    collection = client.memory.wide
    collection.drop()
    for number in range(4):
        collection.insert_one({"_id": number, "pad": bytes([number]) * (16 * MEBIBYTE - 100)})

    def read(number):
        with MongoClient(server.uri, retryReads=False) as own:
            try:
                return len(own.memory.wide.find_one({"_id": number % 4})["pad"])
            except PyMongoError as error:
                return error

    results = at_once(30, read)
    read_whole = [result for result in results if result == 16 * MEBIBYTE - 100]
    refused = [result for result in results if isinstance(result, OperationFailure)]
    assert {error.code for error in refused} <= {EXCEEDED_MEMORY_LIMIT, 462}
    assert len(read_whole) + len(refused) == 30, results
    assert read_whole
    # One alone is read to the end, batch by batch.
    assert [len(document["pad"]) for document in collection.find()] == [16 * MEBIBYTE - 100] * 4
    collection.drop()
