"""Runs each script beside this file in mongosh; a script fails by throwing.

The shell is named by PLIMSOLL_MONGOSH; without it the scripts are skipped, visibly.
"""

import os
import pathlib
import subprocess

import pytest

SCRIPTS = sorted(pathlib.Path(__file__).parent.glob("*.js"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(server, client, script, tmp_path):
    shell = os.environ.get("PLIMSOLL_MONGOSH")
    if not shell:
        pytest.skip("PLIMSOLL_MONGOSH does not name a mongosh")
    environment = {**os.environ, "HOME": str(tmp_path), "MONGOSH_LOG_DIRECTORY": str(tmp_path)}
    command = [shell, "--quiet", "--norc", f"mongodb://127.0.0.1:{server.port}/{script.stem}", "--file", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.strip().endswith("done"), result.stdout + result.stderr
