"""Logins, sessions, transactions and retryable writes from the Go, Java and Rust drivers: one small program each, which prints "done". Each runs three
times: as it is, with TLS, and with a login by its certificate.

What a program needs is fetched by its own package tool (Go modules, Maven, Cargo). Where a language's toolchain is not there, or its packages cannot
be had, its test is skipped, visibly.
"""

import os
import pathlib
import shutil
import subprocess

import pytest
from pymongo import MongoClient

from certificates import made_certificates
from rust_examples import built_example
from server_process import ServerProcess

HERE = pathlib.Path(__file__).parent
SUBJECT = "CN=client,OU=tests,O=Plimsoll"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    files = made_certificates(tmp_path_factory.mktemp("certificates"))
    arguments = ["--cache", "64MiB", "--enable-test-commands", "--auth", "--tls-mode", "prefer"]
    arguments += ["--tls-certificate-key-file", files / "server.pem", "--tls-ca-file", files / "ca.pem"]
    arguments += ["--tls-crl-file", files / "crl.pem", "--tls-allow-connections-without-certificates"]
    process = ServerProcess(tmp_path_factory.mktemp("plimsoll"), [str(argument) for argument in arguments])
    process.certificates = files
    process.start()
    with MongoClient(process.uri) as first:
        # Fail points are for who may do everything.
        first.admin.command("createUser", "driver", pwd="pa:ss@word", roles=["__system"])
    with MongoClient(process.uri, username="driver", password="pa:ss@word") as client:
        client["$external"].command("createUser", SUBJECT, roles=[{"role": "__system", "db": "admin"}])
    yield process
    process.stop()


def prepare(command, directory, **environment):
    """Compiles a program; skips the test when the toolchain or its packages are missing."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"SKIPPED: {command[0]} is not installed, so this driver is not tested")
    made = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=900, env={**os.environ, **environment}
    )
    return made


def skip_without_packages(made, what):
    if made.returncode != 0:
        pytest.skip(f"SKIPPED: {what} cannot be had here, so this driver is not tested: {made.stderr[-500:]}")


def with_login(uri):
    return uri.replace("//", "//driver:pa%3Ass%40word@")


def by_certificate(uri):
    return f"{uri}&tls=true&authMechanism=MONGODB-X509&authSource=%24external"


def logins_by_certificate(server):
    with MongoClient(with_login(server.uri)) as client:
        figures = client.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["MONGODB-X509"]
    return figures["authenticate"]["successful"]


def run(command, server, encrypted=None, certified=None):
    """Runs a program without TLS, with it, and with a login by certificate: with what is said, or as most drivers are told of their files."""
    files = server.certificates
    uri, options = with_login(server.uri), f"&tlsCAFile={files}/ca.pem&tlsCertificateKeyFile={files}/client.pem"
    encrypted = encrypted or [*command, f"{uri}&tls=true{options}"]
    certified = certified or [*command, by_certificate(server.uri) + options]
    before = logins_by_certificate(server)
    for words in ([*command, uri], encrypted, certified):
        result = subprocess.run(words, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout.strip().endswith("done"), result.stdout + result.stderr
    assert logins_by_certificate(server) > before


def test_go(server, tmp_path):
    skip_without_packages(prepare(["go", "mod", "download"], HERE / "go", GOFLAGS="-mod=mod"), "the Go driver")
    program = tmp_path / "program"
    made = prepare(["go", "build", "-o", str(program), "."], HERE / "go")
    assert made.returncode == 0, made.stderr
    run([str(program)], server)


def test_java(server, tmp_path):
    jars = tmp_path / "jars"
    copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    skip_without_packages(prepare(copy, HERE / "java"), "the Java driver")
    classes = tmp_path / "classes"
    made = prepare(["javac", "-cp", f"{jars}/*", "-d", str(classes), "Sessions.java"], HERE / "java")
    assert made.returncode == 0, made.stderr
    program = ["-cp", f"{classes}:{jars}/*", "Sessions"]
    store = tmp_path / "authorities"
    words = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(server.certificates / "ca.pem")]
    subprocess.run([*words, "-keystore", str(store), "-storepass", "of a test"], check=True, capture_output=True)
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=of a test"]
    own = tmp_path / "certificate"
    words = ["openssl", "pkcs12", "-export", "-in", str(server.certificates / "client.pem"), "-passout", "pass:of a test"]
    skip_without_packages(prepare([*words, "-out", str(own)], tmp_path), "openssl, which puts a certificate into Java's form,")
    show = [f"-Djavax.net.ssl.keyStore={own}", "-Djavax.net.ssl.keyStorePassword=of a test", "-Djavax.net.ssl.keyStoreType=PKCS12"]
    encrypted = ["java", *trust, *program, f"{with_login(server.uri)}&tls=true"]
    run(["java", *program], server, encrypted, ["java", *trust, *show, *program, by_certificate(server.uri)])


def test_rust(server):
    """The driver is a dependency of the project's own load generator."""
    run([built_example("driver_sessions")], server)
