"""What `cargo xtask package` makes is installed and used: the wheel, the npm package, the Debian package."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

PACKAGES = os.environ.get("PLIMSOLL_PACKAGES")
pytestmark = pytest.mark.skipif(PACKAGES is None, reason="PLIMSOLL_PACKAGES does not say where they are")

PYTHON = """
import time
import plimsoll
from pymongo import MongoClient

with plimsoll.Server() as server, MongoClient(server.uri) as client:
    client.shop.orders.insert_one({"customer": "Ada"})
    assert client.shop.orders.find_one({}, {"_id": 0}) == {"customer": "Ada"}
server.stop()
with plimsoll.Server("--memory", "192MiB", replica_set="rs0") as server, MongoClient(server.uri) as client:
    with client.start_session() as session, session.start_transaction():
        client.shop.orders.insert_one({"customer": "Ada"}, session=session)
    assert client.admin.command("serverStatus")["plimsoll"]["memory"]["limitBytes"] == 192 << 20
try:
    plimsoll.Server("--no-such-option")
except plimsoll.ServerError as error:
    assert "--no-such-option" in str(error)
else:
    raise AssertionError("it started")
print("well")
"""

FIXTURES = """
def test_one(plimsoll_client):
    plimsoll_client.shop.orders.insert_one({"customer": "Ada"})
    assert plimsoll_client.shop.orders.count_documents({}) == 1

def test_another_finds_nothing(plimsoll_client, plimsoll_server):
    assert plimsoll_client.shop.orders.count_documents({}) == 0
    with plimsoll_client.start_session() as session, session.start_transaction():
        plimsoll_client.shop.orders.insert_one({}, session=session)
"""

NODE = """
import { createRequire } from "node:module";
import { PlimsollMemoryServer } from "plimsoll";
const { MongoClient } = createRequire(process.env.PLIMSOLL_NODE_MODULES + "/")("mongodb");

const server = await PlimsollMemoryServer.create({ replicaSet: "rs0", dbName: "shop" });
const client = await MongoClient.connect(server.getUri());
await client.withSession((session) => session.withTransaction(async () => {
  await client.db().collection("orders").insertOne({ customer: "Ada" }, { session });
}));
if ((await client.db("shop").collection("orders").countDocuments()) !== 1) throw new Error("not found");
await client.close();
await server.stop();
await server.stop();
try {
  await PlimsollMemoryServer.create({ args: ["--no-such-option"] });
  throw new Error("it started");
} catch (error) {
  if (!error.message.includes("--no-such-option")) throw error;
}
// It must not keep this program from ending.
await PlimsollMemoryServer.create();
console.log("well");
"""


def package(pattern):
    found = list(pathlib.Path(PACKAGES).glob(pattern))
    assert len(found) == 1, found
    return found[0]


def run(*command, **options):
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def is_gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture(scope="module")
def installed_wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--target", str(folder), str(package("*.whl")))
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_the_wheel_starts_servers(installed_wheel, tmp_path):
    assert run(sys.executable, "-c", PYTHON, env=installed_wheel, cwd=tmp_path).endswith("well\n")
    assert list(tmp_path.iterdir()) == []


def test_a_server_ends_with_the_program_that_started_it(installed_wheel):
    script = "import plimsoll, time; print(plimsoll.Server().pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], env=installed_wheel, stdout=subprocess.PIPE, text=True) as program:
        pid = int(program.stdout.readline())
        assert not is_gone(pid)
        program.send_signal(signal.SIGKILL)
        program.wait()
    until = time.monotonic() + 30
    while not is_gone(pid):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_the_wheel_has_fixtures(installed_wheel, tmp_path):
    (tmp_path / "test_orders.py").write_text(FIXTURES)
    assert "2 passed" in run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", env=installed_wheel, cwd=tmp_path)


def test_the_npm_package_starts_servers(tmp_path):
    (tmp_path / "package.json").write_text("{}")
    run("npm", "install", "--offline", "--no-audit", "--no-fund", str(package("*.tgz")), cwd=tmp_path)
    (tmp_path / "script.mjs").write_text(NODE)
    assert run("node", "script.mjs", cwd=tmp_path).endswith("well\n")


def test_the_debian_package_has_what_a_system_wants(tmp_path):
    deb = package("*.deb")
    run("dpkg-deb", "--extract", str(deb), str(tmp_path))
    run("dpkg-deb", "--control", str(deb), str(tmp_path / "control"))
    assert {path.name for path in (tmp_path / "control").iterdir()} == {"control", "conffiles", "postinst", "prerm", "postrm"}
    for script in ["postinst", "prerm", "postrm"]:
        run("sh", "-n", str(tmp_path / "control" / script))
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {
        "usr/bin/plimsoll",
        "usr/bin/plimsoll-lab",
        "etc/plimsoll.toml",
        "usr/lib/systemd/system/plimsoll.service",
        "usr/share/man/man1/plimsoll.1.gz",
        "usr/share/man/man1/plimsoll-serve.1.gz",
        "usr/share/bash-completion/completions/plimsoll",
    } <= files
    listed = run("dpkg-deb", "--contents", str(deb))
    assert all(line.split()[1] == "root/root" for line in listed.splitlines())
    unit = (tmp_path / "usr/lib/systemd/system/plimsoll.service").read_text()
    assert "Type=notify" in unit and "ExecStart=/usr/bin/plimsoll serve --config /etc/plimsoll.toml" in unit
    help_text = run(str(tmp_path / "usr/bin/plimsoll"), "bench", "--help")
    assert "Usage" in help_text


def test_the_configuration_of_the_debian_package_is_understood(tmp_path):
    run("dpkg-deb", "--extract", str(package("*.deb")), str(tmp_path))
    command = [str(tmp_path / "usr/bin/plimsoll"), "serve", "--config", str(tmp_path / "etc/plimsoll.toml")]
    command += ["--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--stop-with-input"]
    # Its input has ended before it begins: it serves, and stops at once.
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and "Waiting for connections" in ended.stderr, ended.stderr
