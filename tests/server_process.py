"""A Plimsoll server of a test's own: started on a free port with a data directory, stopped, killed, started again.

Used by conftest.py and by the crash tests. The binary is PLIMSOLL_BINARY, or the newest build under target/.
"""

import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

# No measure of speed: a disk may answer nothing for many seconds.
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120
LOG_SECONDS_MAX = 20
# Below those that systems take for the client's end of a connection.
PORTS = (12_000, 32_000)


def binary_path():
    """The server to test."""
    named = os.environ.get("PLIMSOLL_BINARY")
    if named:
        return pathlib.Path(named)
    target = pathlib.Path(__file__).resolve().parent.parent / "target"
    built = [path for path in (target / "debug/plimsoll", target / "release/plimsoll") if path.exists()]
    if not built:
        raise RuntimeError("no server: set PLIMSOLL_BINARY, or run `cargo build -p server`")
    return max(built, key=lambda path: path.stat().st_mtime)


def free_port():
    """A port that nobody listens on, and that no client is given meanwhile: files of tests run at the same time, and servers are started again on their port."""
    while True:
        with socket.socket() as probe, contextlib.suppress(OSError):
            port = random.SystemRandom().randrange(*PORTS)
            probe.bind(("127.0.0.1", port))
            return port


class ServerProcess:
    """A server process, and the directory that outlives it."""

    def __init__(self, directory, arguments=("--cache", "128MiB"), before_exec=None):
        self.directory = pathlib.Path(directory)
        self.arguments = list(arguments)
        self.before_exec = before_exec
        self.port = free_port()
        self.process = None
        self.log_path = self.directory / "server.log"

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def uri(self):
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def launch(self):
        """Starts the server and does not wait for it."""
        command = [str(binary_path()), "serve", "--data", str(self.directory / "data")]
        command += ["--listen", f"127.0.0.1:{self.port}", *self.arguments]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=self.before_exec)

    def start(self, seconds_max=START_SECONDS_MAX):
        """Starts the server and waits until it accepts connections. Returns how many seconds that took."""
        self.launch()
        started = time.monotonic()
        while time.monotonic() - started < seconds_max:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode} at start:\n{self.log_tail()}")
            try:
                socket.create_connection(self.address, timeout=1).close()
                return time.monotonic() - started
            except OSError:
                time.sleep(0.005)
        self.kill()
        raise RuntimeError(f"the server does not listen after {seconds_max} s:\n{self.log_tail()}")

    def stop(self):
        """Asks the server to stop (SIGTERM) and waits. It must end with success."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the server did not stop within {STOP_SECONDS_MAX} s:\n{self.log_tail()}") from None
        self.process = None
        if code != 0:
            raise RuntimeError(f"the server stopped with {code}:\n{self.log_tail()}")

    def kill(self):
        """Ends the server at once (SIGKILL), as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def log_text(self, *awaited):
        """All diagnostic lines of what clients have had replies to, and each of the awaited texts.

        The server writes its log from a thread of its own, so a line may be in the file later than the reply is with
        the client. Lines keep their order: where that of a connection that begins now is there, all earlier ones are.
        """
        marks = list(awaited)
        if self.process is not None:
            with socket.create_connection(self.address, timeout=LOG_SECONDS_MAX) as mark:
                marks.append(f"127.0.0.1:{mark.getsockname()[1]}")
        deadline = time.monotonic() + LOG_SECONDS_MAX
        while True:
            log = self.log_path.read_text(errors="replace")
            missing = [text for text in marks if text not in log]
            if not missing:
                return log
            assert time.monotonic() < deadline, f"the log does not say {missing}:\n{self.log_tail()}"
            time.sleep(0.01)

    def log_tail(self, lines=30):
        """The last diagnostic lines."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
