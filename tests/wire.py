"""One connection that speaks OP_MSG by hand, for what no driver sends. Used by the suites in `pymongo`."""

import select
import socket
import struct

import bson

MORE_TO_COME, EXHAUST_ALLOWED = 1 << 1, 1 << 16


class Wire:
    """One connection that speaks OP_MSG."""

    def __init__(self, server):
        self.socket = socket.create_connection(server.address, timeout=30)
        self.request_id = 0

    def send(self, command, flags=0, database="admin"):
        return self.send_encoded(bson.encode({**command, "$db": database}), flags)

    def send_encoded(self, body, flags=0):
        """A command that is BSON already, with its `$db`."""
        self.request_id += 1
        length = 16 + 4 + 1 + len(body)
        self.socket.sendall(struct.pack("<iiiiIB", length, self.request_id, 0, 2013, flags, 0) + body)
        return self.request_id

    def receive(self):
        """(the reply's number, what it answers, whether another follows, its document)"""
        length, number, answered, _ = struct.unpack("<iiii", self._exactly(16))
        content = self._exactly(length - 16)
        flags = struct.unpack("<I", content[:4])[0]
        return number, answered, bool(flags & MORE_TO_COME), bson.decode(content[5:])

    def has_reply(self):
        """Whether something has come that is not received yet."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def run(self, command, database="admin"):
        self.send(command, 0, database)
        return self.receive()[3]

    def run_encoded(self, body):
        self.send_encoded(body)
        return self.receive()[3]

    def run_with_sequence(self, body, name, document):
        """A command with one document in a sequence beside it."""
        self.request_id += 1
        sequence = struct.pack("<i", 4 + len(name) + 1 + len(document)) + name + b"\0" + document
        content = struct.pack("<IB", 0, 0) + body + b"\x01" + sequence
        self.socket.sendall(struct.pack("<iiii", 16 + len(content), self.request_id, 0, 2013) + content)
        return self.receive()[3]

    def _exactly(self, length):
        content = b""
        while len(content) < length:
            part = self.socket.recv(length - len(content))
            assert part, "the server has closed the connection"
            content += part
        return content

    def close(self):
        self.socket.close()
