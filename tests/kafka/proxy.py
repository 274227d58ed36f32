"""A TCP proxy whose network can be cut one way, the other way or both, and healed again. Used by brokers.py, between one client and one broker.

While a direction is cut, what is sent there is not lost but waits, as it does in the senders of TCP: when the network is whole again it arrives, late, or the connection
is reset. A connection that is begun meanwhile is not answered.
"""

import contextlib
import socket
import threading
import time

TO_BROKER, TO_CLIENT = "to the broker", "to the client"
BOTH = (TO_BROKER, TO_CLIENT)
PIECE_BYTES = 1 << 16
LOOK_SECONDS = 0.02


class Proxy:
    """Listens on `port`, and passes on to `target`."""

    def __init__(self, target):
        self.target = target
        self.cut_ways = frozenset()
        self.lock = threading.Lock()
        self.links = []
        self.is_closed = False
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def cut(self, ways):
        """Nothing gets through in these directions from now on."""
        self.cut_ways = frozenset(ways)

    def heal(self, resets):
        """All gets through again; `resets`: connections that were there are reset, and what waits on them is lost."""
        if resets:
            with self.lock:
                links, self.links = self.links, []
            for link in links:
                close(*link)
        self.cut_ways = frozenset()

    def close(self):
        self.is_closed = True
        close(self.listening)
        self.heal(resets=True)

    def accept(self):
        while not self.is_closed:
            try:
                client, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self.begin, args=(client,), daemon=True).start()

    def begin(self, client):
        # Of three messages that begin a connection, two go one way and one goes the other.
        while self.cut_ways and not self.is_closed:
            time.sleep(LOOK_SECONDS)
        try:
            broker = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            return close(client)
        broker.settimeout(None)
        for end in (client, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.links.append((client, broker))
        threading.Thread(target=self.pass_on, args=(client, broker, TO_BROKER), daemon=True).start()
        self.pass_on(broker, client, TO_CLIENT)
        with self.lock, contextlib.suppress(ValueError):
            self.links.remove((client, broker))

    def pass_on(self, source, sink, way):
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                while way in self.cut_ways:
                    time.sleep(LOOK_SECONDS)
                sink.sendall(piece)
        # The end of a connection does not get through either.
        while way in self.cut_ways and not self.is_closed:
            time.sleep(LOOK_SECONDS)
        close(source, sink)


def close(*sockets):
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
