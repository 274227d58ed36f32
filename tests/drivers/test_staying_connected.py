"""Drivers that stay connected with their default settings, under load: nothing may make them think that the server is gone.

They watch the server by a stream of hellos, each of which waits for a change. All drivers run at the same time: once for two minutes as they are,
once for a short while with a faster heartbeat. A driver whose toolchain or packages cannot be had is skipped, visibly.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from rust_examples import built_example
from server_process import ServerProcess

HERE = pathlib.Path(__file__).parent
DRIVERS = ["pymongo", "node", "go", "java", "rust"]
# (seconds, heartbeat in milliseconds, 0 for the driver's own, heartbeats that must have waited on the server)
SPELLS = {"fast heartbeat": (8, 500, 8), "default settings": (120, 0, 8)}


class Missing(Exception):
    """What a driver's program needs is not there."""


def made(command, directory, **environment):
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not installed")
    result = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=900, env={**os.environ, **environment}
    )
    return result


def fetched(command, directory, **environment):
    result = made(command, directory, **environment)
    if result.returncode != 0:
        raise Missing(result.stderr[-500:])


def built(command, directory):
    result = made(command, directory)
    assert result.returncode == 0, result.stderr


def pymongo_program(_folder, clients="staying_connected"):
    return [sys.executable, str(HERE / clients / "pymongo_client.py")]


def node_program(_folder, clients="staying_connected"):
    if not os.environ.get("PLIMSOLL_NODE_MODULES"):
        raise Missing("PLIMSOLL_NODE_MODULES does not say where the Node driver is")
    return ["node", str(HERE / clients / "node_client.mjs")]


def go_program(folder):
    fetched(["go", "mod", "download"], HERE / "go", GOFLAGS="-mod=mod")
    built(["go", "build", "-o", str(folder / "connected"), "./connected"], HERE / "go")
    return [str(folder / "connected")]


def java_program(folder, name="Connected"):
    jars, classes = folder / "jars", folder / "classes"
    fetched(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"], HERE / "java")
    built(["javac", "-cp", f"{jars}/*", "-d", str(classes), f"{name}.java"], HERE / "java")
    return ["java", "-cp", f"{classes}:{jars}/*", name]


def rust_program(_folder):
    return [built_example("driver_connected")]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """For each driver its program, or why there is none."""
    found = {}
    for driver in DRIVERS:
        try:
            found[driver] = globals()[f"{driver}_program"](tmp_path_factory.mktemp(driver))
        except Missing as reason:
            found[driver] = reason
    return found


@pytest.fixture(scope="module")
def heard(programs, tmp_path_factory):
    """What each driver's listeners heard in a spell; all drivers of a spell run together, and only when asked for first."""
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--cache", "64MiB"])
    process.start()
    spells = {}

    def run(program, seconds, heartbeat_ms):
        command = [*program, process.uri, str(seconds), str(heartbeat_ms)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(result.stdout.strip().splitlines()[-1])

    def of(spell, driver):
        if spell not in spells:
            seconds, heartbeat_ms, _ = SPELLS[spell]
            runnable = {name: program for name, program in programs.items() if not isinstance(program, Missing)}
            with concurrent.futures.ThreadPoolExecutor(len(runnable)) as pool:
                spells[spell] = {name: pool.submit(run, program, seconds, heartbeat_ms) for name, program in runnable.items()}
        return spells[spell][driver].result()

    yield of
    process.stop()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("spell", SPELLS)
def test_a_driver_stays_connected(programs, heard, driver, spell):
    if isinstance(programs[driver], Missing):
        pytest.skip(f"SKIPPED: the {driver} driver cannot be had here: {programs[driver]}")
    seconds, _, heartbeats = SPELLS[spell]
    report = heard(spell, driver)
    assert report["errors"] == [], report
    assert (report["cleared"], report["unknown"], report["failed_heartbeats"]) == (0, 0, 0), report
    assert report["awaited_heartbeats"] >= heartbeats, report
    assert report["operations"] > 10 * seconds, report
