"""Encrypted connections by PyMongo, the Node driver and mongosh: each mode, who is let in, what is read again; and the socket in the file system.

What the Go, Java and Rust drivers do with TLS is in tests/drivers/test_other_drivers.py.
"""

import os
import pathlib
import signal
import subprocess
import time
from urllib.parse import quote_plus

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure

from certificates import made_certificates
from server_process import ServerProcess, binary_path

REFUSED_AFTER_MS = 1_500


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return made_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def start(tmp_path, files):
    """Starts a server with a mode and further files, of what `made_certificates` has made."""
    started = []

    def start_now(mode, certificate="server.pem", **others):
        arguments = ["--cache", "64MiB", "--tls-mode", mode, "--tls-certificate-key-file", str(files / certificate)]
        for name, value in others.items():
            arguments += ["--tls-" + name.replace("_", "-"), str(files / value) if value.endswith(".pem") else value]
        server = ServerProcess(tmp_path / str(len(started)), arguments)
        server.directory.mkdir()
        server.start()
        started.append(server)
        return server

    yield start_now
    for server in started:
        server.stop()


def connect(server, files, certificate=None, ca="ca.pem", **options):
    if certificate:
        options["tlsCertificateKeyFile"] = str(files / certificate)
    options.setdefault("serverSelectionTimeoutMS", 10_000)
    return MongoClient(server.uri, tls=True, tlsCAFile=str(files / ca), **options)


def answers(client):
    with client:
        return client.admin.command("ping")["ok"] == 1.0


def refused(server, files, certificate=None, **options):
    with connect(server, files, certificate, serverSelectionTimeoutMS=REFUSED_AFTER_MS, **options) as client:
        with pytest.raises(ConnectionFailure) as failure:
            client.admin.command("ping")
    return str(failure.value)


def test_each_mode(start, files):
    for mode in ("allow", "prefer", "require"):
        server = start(mode)
        assert answers(connect(server, files)), mode
        plain = MongoClient(server.uri, serverSelectionTimeoutMS=REFUSED_AFTER_MS)
        if mode == "require":
            with pytest.raises(ConnectionFailure):
                answers(plain)
            server.log_text("told to require it")
        else:
            assert answers(plain), mode
        assert "certificate verify failed" in refused(server, files, ca="other-ca.pem")


def test_clients_certificates(start, files):
    server = start("require", ca_file="ca.pem", crl_file="crl.pem")
    assert answers(connect(server, files, "client.pem"))
    for certificate in (None, "client-revoked.pem", "client-expired.pem", "client-of-other.pem"):
        refused(server, files, certificate)
    server.log_text("Revoked", "expired", "UnknownIssuer", "no certificates")
    server = start("require", ca_file="ca.pem", crl_file="crl.pem", allow_connections_without_certificates="true")
    assert answers(connect(server, files))
    refused(server, files, "client-revoked.pem")


def test_large_documents_compression_and_cursors(start, files):
    server = start("require", ca_file="ca.pem")
    for compressors in ([], ["snappy"], ["zstd"]):
        with connect(server, files, "client.pem", compressors=compressors) as client:
            things = client.test.things
            things.drop()
            things.insert_many([{"_id": number, "text": "x" * 100_000} for number in range(60)])
            things.insert_one({"_id": 60, "text": os.urandom(12_000_000)})
            assert sum(len(found["text"]) for found in things.find(batch_size=20)) == 60 * 100_000 + 12_000_000


def test_rotation(start, files):
    current = files / "current.pem"
    current.write_text((files / "server.pem").read_text())
    server = start("require", certificate="current.pem")
    with connect(server, files) as client:
        client.admin.command("ping")
        opened = client.admin.command("serverStatus")["connections"]["totalCreated"]
        current.write_text("nothing")
        with pytest.raises(OperationFailure, match="current.pem: there is no certificate"):
            client.admin.command("rotateCertificates", message="by a test")
        assert answers(connect(server, files)), "those that there were stay"
        current.write_text((files / "server-of-other.pem").read_text())
        assert client.admin.command("rotateCertificates")["ok"] == 1.0
        assert answers(connect(server, files, ca="other-ca.pem"))
        assert "certificate verify failed" in refused(server, files)
        current.write_text((files / "server-next.pem").read_text())
        os.kill(server.process.pid, signal.SIGHUP)
        deadline = time.monotonic() + 20
        while server.log_path.read_text().count("certificates were read again") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert answers(connect(server, files))
        assert client.admin.command("serverStatus")["connections"]["totalCreated"] >= opened


def test_bad_files_are_told_at_the_start(tmp_path, files):
    for name, problem in [("server-expired.pem", "has expired"), ("server-encrypted.pem", "no passphrase is given")]:
        words = [binary_path(), "--data", tmp_path / name, "--listen", "127.0.0.1:0", "--tls-mode", "require"]
        said = subprocess.run([*words, "--tls-certificate-key-file", files / name], capture_output=True, text=True, timeout=60)
        assert said.returncode == 1
        assert name in said.stderr and problem in said.stderr


def test_started_as_a_mongod(tmp_path, files):
    """By mongod's options: a passphrase, which nobody is told, and the socket in the file system."""
    server = ServerProcess(tmp_path)
    words = [binary_path(), "mongod", "--dbpath", tmp_path / "data", "--port", str(server.port), "--wiredTigerCacheSizeGB", "0.1"]
    words += ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", files / "server-encrypted.pem"]
    words += ["--tlsCertificateKeyFilePassword", "a long passphrase", "--unixSocketPrefix", tmp_path]
    path = tmp_path / f"mongodb-{server.port}.sock"
    with open(server.log_path, "ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        assert answers(connect(server, files, serverSelectionTimeoutMS=30_000))
        # Nobody else sees what goes through it, so it is not encrypted.
        with MongoClient(f"mongodb://{quote_plus(str(path))}/?directConnection=true") as client:
            told = client.admin.command("getCmdLineOpts")["argv"]
            assert "a long passphrase" not in told and "<password>" in told
            assert client.admin.command("whatsmyuri")["you"] == "anonymous unix socket"
        assert path.stat().st_mode & 0o777 == 0o700
    finally:
        process.terminate()
        process.wait(30)
    assert "a long passphrase" not in server.log_path.read_text()
    assert not path.exists()


def test_mongosh_and_node(start, files, tmp_path):
    server = start("require", ca_file="ca.pem")
    uri = f"{server.uri}&tls=true&tlsCAFile={files}/ca.pem&tlsCertificateKeyFile={files}/client.pem"
    shell, modules = os.environ.get("PLIMSOLL_MONGOSH"), os.environ.get("PLIMSOLL_NODE_MODULES")
    if not shell or not modules:
        pytest.skip("SKIPPED: PLIMSOLL_MONGOSH and PLIMSOLL_NODE_MODULES do not name the shell and the driver")
    words = [shell, uri, "--quiet", "--norc", "--eval", "print('pong', db.adminCommand({ping: 1}).ok)"]
    script = """const { MongoClient } = require(process.argv[1] + "/mongodb");
        (async () => {
            const client = await MongoClient.connect(process.argv[2]);
            console.log("pong", (await client.db("admin").command({ ping: 1 })).ok);
            await client.close();
        })();"""
    for words in (words, ["node", "-e", script, str(pathlib.Path(modules).resolve()), uri]):
        said = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)})
        assert "pong 1" in said.stdout, said.stdout + said.stderr
