"""Runs each script beside this file in mongosh, and those in `replica_set` on a member of a set that is not initiated yet; a script fails by throwing.

The shell is named by PLIMSOLL_MONGOSH; without it the scripts are skipped, visibly.
"""

import os
import pathlib
import subprocess

import pytest

from server_process import ServerProcess

HERE = pathlib.Path(__file__).parent
SCRIPTS = sorted(HERE.glob("*.js"))
REPLICA_SET_SCRIPTS = sorted(HERE.glob("replica_set/*.js"))


@pytest.fixture
def member(tmp_path):
    """A member of a replica set that waits for `rs.initiate()`."""
    member = ["--replica-set", "rs0", "--replica-set-initiation", "on-command"]
    process = ServerProcess(tmp_path, ["--cache", "64MiB", *member])
    process.start()
    yield process
    process.stop()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(server, client, script, tmp_path):
    run(f"mongodb://127.0.0.1:{server.port}/{script.stem}", script, tmp_path)


@pytest.mark.parametrize("script", REPLICA_SET_SCRIPTS, ids=lambda path: path.stem)
def test_replica_set_script(member, script, tmp_path):
    run(f"{member.uri.replace('/?', '/test?')}", script, tmp_path)


def run(uri, script, tmp_path):
    shell = os.environ.get("PLIMSOLL_MONGOSH")
    if not shell:
        pytest.skip("PLIMSOLL_MONGOSH does not name a mongosh")
    environment = {**os.environ, "HOME": str(tmp_path), "MONGOSH_LOG_DIRECTORY": str(tmp_path)}
    command = [shell, "--quiet", "--norc", uri, "--file", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.strip().endswith("done"), result.stdout + result.stderr
