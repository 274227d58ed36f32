"""What the tests of backups share: a server that archives its oplog, and the program's commands, which end as they should. Used by those with a directory and
with an object store."""

import contextlib
import subprocess

from server_process import ServerProcess, binary_path


@contextlib.contextmanager
def archiving_server(tmp_path, place):
    """A server that sends its oplog there; it is killed at the end."""
    (tmp_path / "original").mkdir()
    process = ServerProcess(tmp_path / "original", ("--cache", "32MiB", "--archive", place))
    process.start()
    yield process
    process.kill()


def run(*words, code=0):
    """Runs a command; gives what it says."""
    ended = subprocess.run([str(binary_path()), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
