"""Small applications on what applications are made with, on a replica set: object mappers of four languages' drivers, and a connector that captures changes.

Each is a program beside this file that gets the address of the set and prints "done". What a program needs is pinned: in tests/package.json, in
tests/requirements.txt, in the program's own pom.xml. Where a toolchain or its packages cannot be had, its test is skipped, visibly.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from server_process import ServerProcess

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), ["--cache", "64MiB", "--replica-set", "rs0"])
    process.start()
    yield process
    process.stop()


def uri(server, database=""):
    return f"mongodb://127.0.0.1:{server.port}/{database}?replicaSet=rs0"


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-5000:]
    assert result.stdout.strip().endswith("done"), result.stdout + result.stderr


@pytest.mark.parametrize("program", ["mongoose_shop.mjs", "typeorm_shop.mjs"])
def test_node(server, program):
    modules = os.environ.get("PLIMSOLL_NODE_MODULES")
    if not modules:
        pytest.skip("SKIPPED: PLIMSOLL_NODE_MODULES does not name a node_modules folder")
    run(["node", str(HERE / program), uri(server, program.split("_")[0]), modules])


@pytest.mark.parametrize("program", ["mongoengine_shop.py", "beanie_shop.py"])
def test_python(server, program):
    run([sys.executable, str(HERE / program), uri(server)])


def java_classes(folder, program, tmp_path):
    """Compiles a program; gives its class path."""
    if shutil.which("mvn") is None:
        pytest.skip("SKIPPED: mvn is not installed")
    jars, classes = tmp_path / "jars", tmp_path / "classes"
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    got = subprocess.run(copy, cwd=HERE / folder, capture_output=True, text=True, timeout=900)
    if got.returncode != 0:
        pytest.skip(f"SKIPPED: what {program} needs cannot be had here: {got.stdout[-500:]}")
    compile_it = ["javac", "-parameters", "-cp", f"{jars}/*", "-d", str(classes), str(HERE / folder / f"{program}.java")]
    made = subprocess.run(compile_it, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    return f"{classes}:{jars}/*"


def test_spring_data(server, tmp_path):
    run(["java", "-cp", java_classes("spring", "Shop", tmp_path), "Shop", uri(server)])


def test_debezium(server, tmp_path):
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    run(["java", "-cp", java_classes("debezium", "Capture", tmp_path), "Capture", uri(server), str(offsets)])
