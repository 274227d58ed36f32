"""Logins by certificate (MONGODB-X509) by PyMongo, the Node driver and mongosh: by the command and in the greeting, who is refused, what is counted."""

import os
import pathlib
import subprocess

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from certificates import made_certificates
from server_process import ServerProcess

SUBJECT = "CN=client,OU=tests,O=Plimsoll"
UNAUTHORIZED, FAILED, PROTOCOL_ERROR, UNAVAILABLE = 13, 18, 17, 334


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return made_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(tmp_path_factory, files):
    """A server that wants a login and encrypts; clients may have certificates."""
    arguments = ["--cache", "64MiB", "--auth", "--tls-mode", "require", "--tls-certificate-key-file", str(files / "server.pem")]
    arguments += ["--tls-ca-file", str(files / "ca.pem"), "--tls-allow-connections-without-certificates"]
    process = ServerProcess(tmp_path_factory.mktemp("x509"), arguments)
    process.start()
    with connect(process, files) as first:
        first.admin.command("createUser", "root", pwd="rootpw", roles=["root"])
    yield process
    process.stop()


@pytest.fixture
def root(server, files):
    with connect(server, files, username="root", password="rootpw") as client:
        yield client
        client["$external"].command("dropAllUsersFromDatabase")


def connect(server, files, certificate=None, **options):
    if certificate:
        options["tlsCertificateKeyFile"] = str(files / certificate)
    return MongoClient(server.uri, tls=True, tlsCAFile=str(files / "ca.pem"), serverSelectionTimeoutMS=10_000, **options)


def by_certificate(server, files, **options):
    return connect(server, files, "client.pem", authMechanism="MONGODB-X509", **options)


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return caught.value.code


def counts(root):
    figures = root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]["MONGODB-X509"]
    return {kind: (figures[kind]["received"], figures[kind]["successful"]) for kind in figures}


@pytest.mark.parametrize("options", [{}, {"username": SUBJECT}])
def test_a_certificate_is_a_login(server, files, root, options):
    root["$external"].command("createUser", SUBJECT, roles=[{"role": "readWrite", "db": "shop"}])
    before = counts(root)
    with by_certificate(server, files, **options) as client:
        client.shop.things.insert_one({})
        told = client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
        assert told["authenticatedUsers"] == [{"user": SUBJECT, "db": "$external"}]
        assert told["authenticatedUserRoles"] == [{"role": "readWrite", "db": "shop"}]
        assert code_of(lambda: client.other.things.find_one()) == UNAUTHORIZED
    grown = {kind: tuple(new - old for new, old in zip(figures, before[kind])) for kind, figures in counts(root).items()}
    # It has come with the greeting, so no command of its own was needed.
    assert grown == {"speculativeAuthenticate": (1, 1), "authenticate": (1, 1)}


def test_the_command(server, files, root):
    root["$external"].command("createUser", SUBJECT, roles=[])
    with connect(server, files, "client.pem", maxPoolSize=1) as client:
        assert code_of(lambda: client.shop.things.find_one()) == UNAUTHORIZED
        authenticate = {"authenticate": 1, "mechanism": "MONGODB-X509"}
        for changed, database, code in [
            ({"mechanism": "MONGODB-CR", "user": "x", "nonce": "1", "key": "2"}, "$external", UNAVAILABLE),
            ({"mechanism": "PLAIN"}, "$external", UNAVAILABLE),
            ({}, "admin", PROTOCOL_ERROR),
            ({"user": "CN=somebody else"}, "$external", FAILED),
            ({"user": SUBJECT.lower()}, "$external", FAILED),
            ({"unknown": 1}, "$external", 40415),
            ({"mechanism": None}, "$external", 40414),
        ]:
            assert code_of(lambda: client[database].command({**authenticate, **changed})) == code, (changed, database)
        for named in ({}, {"user": SUBJECT}):
            reply = client["$external"].command({**authenticate, **named})
            assert (reply["dbname"], reply["user"]) == ("$external", SUBJECT)
        assert code_of(lambda: client["$external"].command("createUser", "x", roles=[])) == UNAUTHORIZED
        client["$external"].command("logout")
        assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []


def test_who_is_refused(server, files, root):
    with by_certificate(server, files) as unknown:
        assert code_of(lambda: unknown.admin.command("ping")) == FAILED
    root["$external"].command("createUser", SUBJECT, roles=[], authenticationRestrictions=[{"clientSource": ["192.0.2.1"]}])
    with by_certificate(server, files) as elsewhere:
        assert code_of(lambda: elsewhere.admin.command("ping")) == FAILED
    with connect(server, files, authMechanism="MONGODB-X509", username=SUBJECT) as without:
        assert code_of(lambda: without.admin.command("ping")) == FAILED
    server.log_text("there is no such user", "restrictions unmet", "no certificate")


def test_a_connection_has_one_user(server, files, root):
    root["$external"].command("createUser", SUBJECT, roles=[])
    with connect(server, files, "client.pem", username="root", password="rootpw", maxPoolSize=1) as client:
        login = {"authenticate": 1, "mechanism": "MONGODB-X509"}
        assert code_of(lambda: client["$external"].command(login)) == UNAUTHORIZED


def test_a_user_who_is_dropped_is_nobody(server, files, root):
    root["$external"].command("createUser", SUBJECT, roles=[{"role": "root", "db": "admin"}])
    with by_certificate(server, files) as client:
        client.shop.things.find_one()
        root["$external"].command("dropUser", SUBJECT)
        assert code_of(lambda: client.shop.things.find_one()) in (UNAUTHORIZED, FAILED)


def test_external_users_have_no_passwords(root):
    for fields in ({"pwd": "x"}, {"mechanisms": ["SCRAM-SHA-256"]}):
        assert code_of(lambda: root["$external"].command("createUser", "CN=x", roles=[], **fields)) == 2
    root["$external"].command("createUser", "CN=x", roles=[])
    [user] = root["$external"].command("usersInfo", "CN=x", showCredentials=True)["users"]
    assert (user["mechanisms"], user["credentials"]) == (["external"], {"external": True})


def test_what_the_server_tells_of_its_encryption(server, root):
    status = root.admin.command("serverStatus")
    assert set(status["transportSecurity"]) == {"1.0", "1.1", "1.2", "1.3", "unknown"}
    assert status["transportSecurity"]["1.3"] > 0 and status["transportSecurity"]["1.1"] == 0
    security = status["security"]
    assert security["SSLServerSubjectName"].startswith("CN=") and security["SSLServerHasCertificateAuthority"] is True
    assert security["SSLServerCertificateExpirationDate"].year > 2026


def test_mongosh_and_node(server, files, root, tmp_path):
    shell, modules = os.environ.get("PLIMSOLL_MONGOSH"), os.environ.get("PLIMSOLL_NODE_MODULES")
    if not shell or not modules:
        pytest.skip("SKIPPED: PLIMSOLL_MONGOSH and PLIMSOLL_NODE_MODULES do not name the shell and the driver")
    root["$external"].command("createUser", SUBJECT, roles=[{"role": "readWrite", "db": "shop"}])
    uri = f"{server.uri}&tls=true&tlsCAFile={files}/ca.pem&tlsCertificateKeyFile={files}/client.pem"
    uri += "&authMechanism=MONGODB-X509&authSource=%24external"
    asked = "{ connectionStatus: 1 }"
    by_shell = [shell, uri, "--quiet", "--norc", "--eval", f"print('user', db.adminCommand({asked}).authInfo.authenticatedUsers[0].user)"]
    script = f"""const {{ MongoClient }} = require(process.argv[1] + "/mongodb");
        (async () => {{
            const client = await MongoClient.connect(process.argv[2]);
            console.log("user", (await client.db("admin").command({asked})).authInfo.authenticatedUsers[0].user);
            await client.close();
        }})();"""
    by_node = ["node", "-e", script, str(pathlib.Path(modules).resolve()), uri]
    for words in (by_shell, by_node):
        said = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path)})
        assert f"user {SUBJECT}" in said.stdout, said.stdout + said.stderr
