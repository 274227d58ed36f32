"""The audit log, as it is written: who logs in, who is refused, what is changed, by whom; what becomes of it when the disk is full. And
what no log ever has: passwords, and with --redact values of documents."""

import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from server_process import ServerProcess, binary_path

FAILED, UNAUTHORIZED, OPERATION_FAILED = 18, 13, 96


@contextlib.contextmanager
def audited(directory, *arguments, path=None):
    """A server that wants a login and writes an audit log, with an administrator."""
    path = path or directory / "audit.json"
    process = ServerProcess(directory, ("--cache", "64MiB", "--auth", "--audit", str(path), *arguments))
    process.start()
    try:
        yield process, path
    finally:
        process.stop()


def connect(server, user="root", password="rootpw", source="admin", **options):
    return MongoClient(server.uri, username=user, password=password, authSource=source, serverSelectionTimeoutMS=10_000, **options)


def make_root(server):
    with MongoClient(server.uri) as first:
        first.admin.command("createUser", "root", pwd="rootpw", roles=["root"])


def events(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return caught.value.code


def run_everything(server):
    """Something of each kind."""
    with connect(server) as root:
        shop = root.shop
        shop.command("createRole", "clerk", privileges=[], roles=["read"])
        shop.command("createUser", "ada", pwd="pw", roles=["clerk"], customData={"desk": 1})
        shop.command("updateUser", "ada", pwd="other")
        shop.command("grantRolesToUser", "ada", roles=[{"role": "read", "db": "shop"}])
        shop.command("create", "things")
        shop.implicit.insert_one({"_id": 1})
        shop.things.create_index("a", name="by_a")
        shop.things.drop_index("by_a")
        root.admin.command("renameCollection", "shop.things", to="shop.other")
        shop.other.drop()
        root.admin.command("setParameter", 1, notablescan=False)
        assert code_of(lambda: shop.command("create", "implicit", capped=True, size=4096)) == 48
        root.admin["system.users"].update_one({"user": "ada"}, {"$set": {"customData": {}}})
        with connect(server, "ada", "wrong", "shop") as wrong:
            assert code_of(lambda: wrong.admin.command("ping")) == FAILED
        with connect(server, "ada", "other", "shop", maxPoolSize=1) as ada:
            assert code_of(lambda: ada.shop.implicit.insert_one({"secret": 1})) == UNAUTHORIZED
            ada.admin.command("logout")
        shop.command("dropUser", "ada")
        root.drop_database("shop")


EXPECTED = [
    ("createRole", 0, {"role": "clerk", "db": "shop", "privileges": [], "roles": [{"role": "read", "db": "shop"}]}),
    ("createUser", 0, {"user": "ada", "db": "shop", "roles": [{"role": "clerk", "db": "shop"}], "customData": {"desk": 1}}),
    ("updateUser", 0, {"user": "ada", "db": "shop", "passwordChanged": True}),
    ("grantRolesToUser", 0, {"user": "ada", "db": "shop", "roles": [{"role": "read", "db": "shop"}]}),
    ("createCollection", 0, {"ns": "shop.things"}),
    ("createCollection", 0, {"ns": "shop.implicit"}),
    ("createIndex", 0, {"ns": "shop.things", "indexName": "by_a", "indexSpec": {"name": "by_a", "key": {"a": 1}}}),
    ("dropIndex", 0, {"ns": "shop.things", "indexName": "by_a"}),
    ("renameCollection", 0, {"old": "shop.things", "new": "shop.other"}),
    ("dropCollection", 0, {"ns": "shop.other"}),
    ("setParameter", 0, {"db": "admin", "setParameter": 1, "notablescan": False}),
    ("createCollection", 48, {"ns": "shop.implicit"}),
    ("directAuthMutation", 0, {"ns": "admin.system.users", "operation": "update"}),
    ("dropUser", 0, {"user": "ada", "db": "shop"}),
    ("dropDatabase", 0, {"ns": "shop"}),
]


def test_what_is_written(tmp_path):
    with audited(tmp_path, "--audit-mode", "strict") as (server, path):
        assert path.stat().st_mode & 0o777 == 0o600
        make_root(server)
        run_everything(server)
        written = events(path)
        by_root = [event for event in written if event["users"] == [{"user": "root", "db": "admin"}]]
        assert [(event["atype"], event["result"], event["param"]) for event in by_root] == EXPECTED
        for event in by_root:
            assert set(event) == {"atype", "ts", "uuid", "local", "remote", "users", "roles", "param", "result"}
            assert event["local"] == {"ip": "127.0.0.1", "port": server.port} and event["remote"]["ip"] == "127.0.0.1"
            assert event["roles"] == [{"role": "root", "db": "admin"}] and "$date" in event["ts"]
        assert written[0]["atype"] == "startup" and written[0]["remote"] == {"isSystemUser": True}
        assert next(event for event in written if event["atype"] == "createUser")["users"] == []
        check_connections(server, written)
        ada = {"user": "ada", "db": "shop"}
        logins = {(event["result"], event["param"]["mechanism"]) for event in written if event["atype"] == "authenticate" and event["param"]["user"] == "ada"}
        assert logins == {(0, "SCRAM-SHA-256"), (FAILED, "SCRAM-SHA-256")}
        [refused] = [event for event in written if event["atype"] == "authCheck"]
        assert (refused["result"], refused["users"]) == (UNAUTHORIZED, [ada])
        assert (refused["param"]["command"], refused["param"]["ns"]) == ("insert", "shop.implicit")
        [logout] = [event for event in written if event["atype"] == "logout"]
        assert (logout["param"]["initialUsers"], logout["param"]["updatedUsers"]) == ([ada], [])
        with connect(server) as root:
            figures = root.admin.command("serverStatus")["security"]["audit"]
            assert figures["written"] >= len(written) and figures["lost"] == 0
    assert events(path)[-1]["atype"] == "shutdown"


def check_connections(server, written):
    """Each connection says of itself who it is before anything else, under the id that its later events have."""
    first = {}
    for event in written:
        first.setdefault(str(event["uuid"]), event)
    by_connection = [event for event in first.values() if event["atype"] not in ("startup", "shutdown")]
    assert {event["atype"] for event in by_connection} == {"clientMetadata"}
    for event in by_connection:
        assert event["param"]["localEndpoint"] == {"ip": "127.0.0.1", "port": server.port}
        assert event["param"]["clientMetadata"]["driver"]["name"].startswith("PyMongo") and event["users"] == []
    ada = {str(event["uuid"]) for event in written if event["users"] == [{"user": "ada", "db": "shop"}]}
    assert len(ada) == 1


def test_a_filter_chooses_and_may_choose_any_command(tmp_path):
    query = {"atype": "authCheck", "param.command": {"$in": ["find", "delete"]}, "users.user": "root"}
    arguments = ("--audit-mode", "strict", "--audit-authorization-success", "--audit-filter", json.dumps(query))
    with audited(tmp_path, *arguments) as (server, path):
        make_root(server)
        with connect(server) as root:
            root.shop.things.insert_one({"_id": 1})
            root.shop.things.find_one({"_id": 1})
            root.shop.things.delete_one({"_id": 1})
            written = events(path)
            assert [event["param"]["command"] for event in written] == ["find", "delete"]
            assert written[0]["param"]["args"]["filter"] == {"_id": 1} and written[0]["result"] == 0
            root.admin.command("setParameter", 1, auditAuthorizationSuccess=False)
            root.shop.things.find_one({"_id": 1})
            assert len(events(path)) == 2


def test_rotation_and_the_relaxed_log(tmp_path):
    with audited(tmp_path) as (server, path):
        make_root(server)
        with connect(server) as root:
            root.admin.command("logRotate", "audit")
            root.shop.command("create", "things")
            deadline = time.monotonic() + 20
            while not any(event["atype"] == "createCollection" for event in events(path)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        [old] = tmp_path.glob("audit.json.*")
        assert any(event["atype"] == "createUser" for event in events(old))
        assert not any(event["atype"] == "createUser" for event in events(path))
        # By a signal, several within a second: no file takes the place of another.
        for count in (2, 3):
            server.process.send_signal(signal.SIGUSR1)
            while len(list(tmp_path.glob("audit.json.*"))) < count:
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_a_file_that_is_long_enough_is_put_aside(tmp_path):
    with audited(tmp_path, "--audit-mode", "strict", "--audit-file-size", "64KiB") as (server, path):
        make_root(server)
        with connect(server) as root:
            for number in range(400):
                root.shop.command("createRole", f"role{number}", privileges=[], roles=["read"] * 20)
        files = [path, *tmp_path.glob("audit.json.*")]
        assert len(files) > 3 and all(file.stat().st_size < 100_000 for file in files)
        told = [event["param"]["role"] for file in files for event in events(file) if event["atype"] == "createRole"]
        assert sorted(told) == sorted(f"role{number}" for number in range(400))
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_a_full_disk_refuses_where_the_log_is_strict(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(small)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"SKIPPED: no small disk can be made: {mounted.stderr}")
    try:
        with audited(tmp_path, "--audit-mode", "strict", path=small / "audit.json") as (server, path):
            make_root(server)
            with connect(server) as root:
                root.shop.command("create", "before")
                with open(small / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
                    while filler.write(b"x" * 4096):
                        pass
                # What room there was is used up; then nothing happens that is not told.
                made, refusal = 0, None
                while refusal is None and made < 5_000:
                    try:
                        root.shop.command("createRole", f"r{made}", privileges=[], roles=["read"] * 300)
                        made += 1
                    except OperationFailure as error:
                        refusal = error
                assert refusal.code == OPERATION_FAILED and "the audit log cannot be written" in str(refusal)
                told = [event for event in events(path) if event["atype"] == "createRole" and event["result"] == 0]
                assert len(told) == made == len(root.shop.command("rolesInfo", 1)["roles"])
                assert code_of(lambda: root.shop.command("create", "after")) == OPERATION_FAILED
                assert root.shop.list_collection_names() == ["before"]
                # Reads are not told of, and go on.
                assert root.shop.before.find_one() is None
                os.remove(small / "filler")
                root.shop.command("create", "after")
                assert events(path)[-1]["param"] == {"ns": "shop.after"}
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_into_the_diagnostics_log_and_what_makes_no_sense(tmp_path):
    with audited(tmp_path, path="log") as (server, _):
        make_root(server)
        with connect(server) as root:
            root.admin.command("ping")
        log = server.log_text()
        assert '\\"atype\\":\\"createUser\\"' in log or '"atype":"createUser"' in log
    for arguments, problem in [
        (["--audit", "log", "--audit-mode", "strict"], "needs a file"),
        (["--audit-filter", "{}"], "means nothing without --audit"),
        (["--audit-file-size", "1MiB"], "means nothing without --audit"),
        (["--audit", "log", "--audit-file-size", "1MiB"], "no file of its own"),
        (["--audit", str(tmp_path / "a"), "--audit-file-size", "5%"], "not a share"),
        (["--audit", str(tmp_path / "a"), "--audit-filter", '{"atype": {"$nothing": 1}}'], "--audit-filter"),
        (["--audit", str(tmp_path / "none" / "a")], "cannot open the audit log"),
    ]:
        words = [binary_path(), "serve", "--data", tmp_path / "other", "--listen", "127.0.0.1:0", *arguments]
        said = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert said.returncode == 1 and problem in said.stderr, (arguments, said.stderr)


def test_as_a_mongod_is_told(tmp_path):
    path, configuration = tmp_path / "audit.json", tmp_path / "mongod.conf"
    configuration.write_text(f"""
auditLog:
    destination: file
    format: JSON
    path: {path}
    filter: '{{ atype: "createCollection" }}'
security:
    redactClientLogData: true
setParameter:
    auditAuthorizationSuccess: false
""".replace("{ atype:", '{ "atype":'))
    server = ServerProcess(tmp_path)
    words = [binary_path(), "mongod", "--config", configuration, "--dbpath", tmp_path / "data", "--port", str(server.port), "--nounixsocket"]
    with open(server.log_path, "ab") as log:
        process = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
    try:
        with MongoClient(server.uri, serverSelectionTimeoutMS=30_000) as client:
            assert client.admin.command("getParameter", 1, redactClientLogData=1)["redactClientLogData"] is True
            client.shop.command("create", "things")
            deadline = time.monotonic() + 20
            while not events(path):
                assert time.monotonic() < deadline
                time.sleep(0.01)
    finally:
        process.terminate()
        assert process.wait(30) == 0
    assert [event["atype"] for event in events(path)] == ["createCollection"]


PASSWORD, VALUE = "MARKED-PASSWORD", "MARKED-VALUE"


def send_secrets(server):
    """Through every command that carries one, succeeding and failing."""
    with connect(server) as root:
        shop, admin = root.shop, root.admin
        admin.command("setParameter", 1, logLevel=5)
        for level in (2, 0):
            shop.command("profile", level, slowms=-1)
            with contextlib.suppress(OperationFailure):
                shop.command("dropUser", "ada")
            shop.command("createUser", "ada", pwd=PASSWORD, roles=["read"], customData={"x": VALUE})
            with pytest.raises(OperationFailure):
                shop.command("createUser", "ada", pwd=PASSWORD, roles=["nothing"])
            shop.command("updateUser", "ada", pwd=PASSWORD + "2")
            for payload in (f"n,,n={PASSWORD},r=x".encode(), PASSWORD.encode()):
                for command in ({"saslStart": 1, "mechanism": "SCRAM-SHA-256"}, {"saslContinue": 1, "conversationId": 1}):
                    with MongoClient(server.uri) as stranger, pytest.raises(OperationFailure):
                        stranger.admin.command({**command, "payload": payload, "unknown": 1})
            with MongoClient(server.uri) as stranger, pytest.raises(OperationFailure):
                stranger.admin.command({"authenticate": 1, "mechanism": "MONGODB-CR", "user": "x", "nonce": PASSWORD, "key": PASSWORD})
            with connect(server, "ada", PASSWORD + "2", "shop") as ada:
                ada.shop.things.find_one({"x": VALUE})
                for refused in (lambda: ada.shop.things.insert_one({"x": VALUE}), lambda: ada.shop.things.delete_many({"x": VALUE}),
                                lambda: ada.shop.command("createUser", "x", pwd=PASSWORD, roles=[])):
                    assert code_of(refused) == UNAUTHORIZED
            shop.drop_collection("things")
            shop.create_collection("things", validator={"x": {"$ne": VALUE}}, validationAction="warn")
            shop.things.create_index("y", unique=True)
            shop.things.insert_one({"_id": VALUE, "x": VALUE, "y": VALUE})
            for wrong in (lambda: shop.things.insert_one({"y": VALUE}), lambda: shop.things.update_one({}, {"$inc": {"x": VALUE}}),
                          lambda: shop.things.find_one({"$expr": {"$add": ["$x", VALUE]}}), lambda: shop.things.create_index([("x", VALUE)]),
                          lambda: list(shop.things.aggregate([{"$project": {"z": {"$divide": ["$x", VALUE]}}}]))):
                with pytest.raises(OperationFailure):
                    wrong()
            list(shop.things.find({"x": VALUE}))
            admin.command("currentOp", **{"$all": True})
        shown = admin.command("getLog", "global")["log"]
        shown += [str(admin.command("getCmdLineOpts")), str(list(shop["system.profile"].find())), str(admin.command("serverStatus"))]
        shown.append(str(admin.command("usersInfo", {"forAllDBs": True}, showCredentials=False)))
        return shown


@pytest.mark.parametrize("redact", [(), ("--redact",)])
def test_secrets_are_nowhere(tmp_path, redact):
    arguments = ("--audit-mode", "strict", "--audit-authorization-success", "--log-format", "json", *redact)
    with audited(tmp_path, *arguments) as (server, path):
        make_root(server)
        shown = send_secrets(server)
        log, audit = server.log_text(), path.read_text()
        recent = "\n".join(shown[: -4])
        assert "Successfully authenticated" in log and "slow operation" in log and '"atype":"authCheck"' in audit
        for text in (log, audit, *shown):
            assert PASSWORD not in text
        if redact:
            assert VALUE not in log and VALUE not in recent
            checks = [line for line in audit.splitlines() if '"atype":"authCheck"' in line]
            assert checks and not [line for line in checks if VALUE in line]
            assert any('"filter":{"x":"###"}' in line for line in checks)
        else:
            # The test does send it where it would be seen.
            assert VALUE in log and VALUE in audit
        with connect(server) as root:
            assert root.admin.command("setParameter", 1, redactClientLogData=not redact)["was"] is bool(redact)
