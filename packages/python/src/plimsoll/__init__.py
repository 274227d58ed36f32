"""A throw-away Plimsoll server: all data in memory, gone with the process."""

import collections
import json
import os
import pathlib
import subprocess
import threading

__all__ = ["Server", "ServerError", "program"]

_LINES_KEPT = 50


class ServerError(RuntimeError):
    """The server did not start; what it said is in the message."""


def program():
    """The server's program: that in this package, or the one that PLIMSOLL_PROGRAM names."""
    named = os.environ.get("PLIMSOLL_PROGRAM")
    return pathlib.Path(named) if named else pathlib.Path(__file__).parent / "bin" / "plimsoll"


class Server:
    """A server on a free port of this machine. It runs from the construction until `stop`, or the end of a `with` block, or of this process.

    `arguments` are options of `plimsoll serve`. With `replica_set` it is the only member of the set of that name.
    """

    def __init__(self, *arguments, replica_set=None):
        command = [str(program()), "serve", "--ephemeral", "--stop-with-input", "--listen", "127.0.0.1:0", "--log-format", "json"]
        if replica_set is not None:
            command += ["--replica-set", replica_set]
        self.replica_set = replica_set
        self.port = None
        self._said = collections.deque(maxlen=_LINES_KEPT)
        # Its standard input is a pipe: when this process ends, however it does, the server ends, too.
        self._process = subprocess.Popen(
            [*command, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._listens = threading.Event()
        self._reader = threading.Thread(target=self._read, name="plimsoll-log", daemon=True)
        self._reader.start()
        self._listens.wait()
        if self.port is None:
            code = self._process.wait()
            raise ServerError(f"the server ended with {code}:\n" + "\n".join(self._said))

    def _read(self):
        for line in self._process.stderr:
            self._said.append(line.decode(errors="replace").rstrip())
            if self.port is None and b"Waiting for connections" in line:
                self.port = json.loads(line)["attr"]["port"]
                self._listens.set()
        self._listens.set()

    @property
    def uri(self):
        """The connection string."""
        query = f"replicaSet={self.replica_set}" if self.replica_set else "directConnection=true"
        return f"mongodb://127.0.0.1:{self.port}/?{query}"

    @property
    def pid(self):
        """The number of its process."""
        return self._process.pid

    @property
    def log(self):
        """The last lines that it has logged."""
        return list(self._said)

    def stop(self):
        """Ends the server, and everything in it. A second call does nothing."""
        if self._process.stdin.closed:
            return
        # Nothing has to be closed in order: nothing of it stays.
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._reader.join()
        self._process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()
