"""Logins by SCRAM, users and roles, as PyMongo sees them, on a server that wants a login."""

import base64
import hashlib
import os
import socket
import subprocess

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pymongo.write_concern import WriteConcern

from server_process import ServerProcess, binary_path

UNAUTHORIZED = 13
FAILED = 18
WRONG = "Authentication failed."


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that wants a login, with an administrator."""
    process = ServerProcess(tmp_path_factory.mktemp("guarded"), ("--cache", "64MiB", "--auth"))
    process.start()
    with MongoClient(process.uri) as first:
        first.admin.command("createUser", "root", pwd="rootpw", roles=["root"])
    yield process
    process.stop()


@pytest.fixture
def root(guarded):
    with connect(guarded, "root", "rootpw") as client:
        yield client
        client.shop.command("dropAllUsersFromDatabase")
        client.shop.command("dropAllRolesFromDatabase")
        client.drop_database("shop")


def connect(server, user, password, source="admin", **options):
    return MongoClient(server.uri, username=user, password=password, authSource=source, serverSelectionTimeoutMS=10_000, **options)


def code_of(call):
    with pytest.raises(OperationFailure) as caught:
        call()
    return caught.value.code


def test_nothing_but_a_greeting_without_a_login(guarded):
    with MongoClient(guarded.uri) as stranger:
        assert stranger.admin.command("ping")["ok"] == 1 and stranger.admin.command("hello")["ok"] == 1
        assert stranger.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
        for call in (stranger.list_database_names, lambda: stranger.x.c.insert_one({}), lambda: stranger.x.c.find_one()):
            assert code_of(call) == UNAUTHORIZED
        assert code_of(lambda: stranger.admin.command("createUser", "x", pwd="x", roles=["root"])) == UNAUTHORIZED


@pytest.mark.parametrize("mechanism", ["DEFAULT", "SCRAM-SHA-1", "SCRAM-SHA-256"])
@pytest.mark.parametrize("name, password", [("ada", "pw"), ("a,b=c", "p@ss:word/"), ("ünï", "Ⅸ\u00adx")])
def test_each_mechanism_logs_in(guarded, root, mechanism, name, password):
    root.shop.command("createUser", name, pwd=password, roles=["readWrite"])
    with connect(guarded, name, password, "shop", authMechanism=mechanism) as client:
        client.shop.things.insert_one({"_id": 1})
        assert client.shop.things.find_one() == {"_id": 1}
        users = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        assert users == [{"user": name, "db": "shop"}]
        assert code_of(lambda: client.other.things.find_one()) == UNAUTHORIZED
    # Prepared, both passwords are one and the same to SCRAM-SHA-256.
    if password.startswith("Ⅸ"):
        with connect(guarded, name, "IXx", "shop", authMechanism="SCRAM-SHA-256") as client:
            assert client.shop.things.find_one() == {"_id": 1}


def test_who_is_wrong_is_told_the_same(guarded, root):
    root.shop.command("createUser", "ada", pwd="pw", roles=[])
    root.shop.command("createUser", "old", pwd="pw", roles=[], mechanisms=["SCRAM-SHA-1"])
    for user, password, source, mechanism in [
        ("ada", "wrong", "shop", "SCRAM-SHA-256"), ("nobody", "pw", "shop", "SCRAM-SHA-256"), ("nobody", "pw", "shop", "SCRAM-SHA-1"),
        ("ada", "pw", "admin", "SCRAM-SHA-256"), ("old", "pw", "shop", "SCRAM-SHA-256"),
    ]:
        with connect(guarded, user, password, source, authMechanism=mechanism) as client:
            with pytest.raises(OperationFailure) as caught:
                client.admin.command("ping")
            assert (caught.value.code, caught.value.details["errmsg"]) == (FAILED, WRONG), user
    with connect(guarded, "old", "pw", "shop") as client:
        assert client.admin.command("ping")["ok"] == 1


def start(database, payload, mechanism="SCRAM-SHA-256"):
    return database.command("saslStart", 1, mechanism=mechanism, payload=payload)


def test_a_user_who_does_not_exist_looks_like_one_who_does(guarded, root):
    root.shop.command("createUser", "ada", pwd="pw", roles=[])

    def challenge(name):
        payload = start(stranger.shop, f"n,,n={name},r=abc".encode())["payload"].decode()
        nonce, salt, iterations = payload.split(",")
        assert nonce.startswith("r=abc")
        return salt, iterations

    with MongoClient(guarded.uri, maxPoolSize=1) as stranger:
        before = challenge("nobody")
    guarded.stop()
    guarded.start()
    with MongoClient(guarded.uri, maxPoolSize=1) as stranger:
        assert challenge("nobody") == before
        assert challenge("nobody") == challenge("nobody") != challenge("nobody else")
        assert challenge("nobody")[1] == challenge("ada")[1] == "i=15000"
        assert len(challenge("nobody")[0]) == len(challenge("ada")[0])
        hello = stranger.admin.command("hello", saslSupportedMechs="shop.nobody")
        assert hello["saslSupportedMechs"] == stranger.admin.command("hello", saslSupportedMechs="shop.ada")["saslSupportedMechs"]


def test_other_mechanisms_and_malformed_messages_are_refused(guarded):
    with MongoClient(guarded.uri, maxPoolSize=1) as stranger:
        admin = stranger.admin
        for mechanism in ("PLAIN", "GSSAPI", "MONGODB-X509", "MONGODB-AWS", "MONGODB-OIDC", "MONGODB-CR"):
            with pytest.raises(OperationFailure) as caught:
                start(admin, b"n,,n=a,r=b", mechanism)
            assert caught.value.code == 334 and mechanism in str(caught.value)
        for payload in (b"", b"n,,", b"\xff\xff", b"p=tls-unique,,n=a,r=b", b"n,,n=a,r=b" * 1000):
            assert code_of(lambda payload=payload: start(admin, payload)) == 2
        assert code_of(lambda: admin.command("saslContinue", 1, conversationId=1, payload=b"")) == 17
        reply = start(admin, base64.b64encode(b"n,,n=root,r=b").decode())
        assert code_of(lambda: admin.command("saslContinue", 1, conversationId=reply["conversationId"] + 1, payload=b"")) == 17
        reply = start(admin, b"n,,n=root,r=b")
        assert code_of(lambda: admin.command("saslContinue", 1, conversationId=reply["conversationId"], payload=b"c=biws,r=x,p=AAAA")) == FAILED


def test_what_changes_is_felt_on_open_connections(guarded, root):
    root.shop.command("createUser", "ada", pwd="pw", roles=["read"])
    with connect(guarded, "ada", "pw", "shop", maxPoolSize=1) as ada:
        things = ada.shop.things
        assert things.find_one() is None
        assert code_of(lambda: things.insert_one({})) == UNAUTHORIZED
        root.shop.command("grantRolesToUser", "ada", roles=["readWrite"])
        things.insert_one({"_id": 1})
        root.shop.command("revokeRolesFromUser", "ada", roles=["readWrite", "read"])
        assert code_of(things.find_one) == UNAUTHORIZED
        root.shop.command("updateUser", "ada", pwd="other", roles=["read"])
        assert things.find_one() == {"_id": 1}
        with connect(guarded, "ada", "pw", "shop") as stale:
            assert code_of(lambda: stale.shop.things.find_one()) == FAILED
        with connect(guarded, "ada", "other", "shop") as fresh:
            assert fresh.shop.things.find_one() == {"_id": 1}
        root.shop.command("dropUser", "ada")
        assert code_of(things.find_one) == UNAUTHORIZED


def test_stages_need_what_they_do_to_other_collections(guarded, root):
    root.shop.command("createRole", "one", privileges=[{"resource": {"db": "shop", "collection": "a"}, "actions": ["find"]}], roles=[])
    root.shop.command("createUser", "ada", pwd="pw", roles=["one"])
    root.shop.a.insert_one({"_id": 1})
    with connect(guarded, "ada", "pw", "shop") as ada:
        assert list(ada.shop.a.aggregate([{"$match": {}}])) == [{"_id": 1}]
        for stage in (
            {"$lookup": {"from": "b", "localField": "_id", "foreignField": "_id", "as": "b"}}, {"$unionWith": "b"}, {"$out": "b"},
            {"$facet": {"f": [{"$lookup": {"from": "b", "pipeline": [], "as": "b"}}]}}, {"$unionWith": {"coll": "a", "pipeline": [{"$unionWith": "b"}]}},
        ):
            assert code_of(lambda stage=stage: list(ada.shop.a.aggregate([stage]))) == UNAUTHORIZED, stage
            assert code_of(lambda stage=stage: ada.shop.command("explain", {"aggregate": "a", "pipeline": [stage], "cursor": {}})) == UNAUTHORIZED
        assert code_of(lambda: ada.admin["system.users"].find_one()) == UNAUTHORIZED
        assert code_of(lambda: ada.shop.a.insert_one({})) == UNAUTHORIZED


def test_restrictions_say_from_where(guarded, root):
    root.shop.command("createUser", "ada", pwd="pw", roles=[], authenticationRestrictions=[{"clientSource": ["10.0.0.0/8"]}])
    with connect(guarded, "ada", "pw", "shop") as client:
        assert code_of(lambda: client.admin.command("ping")) == FAILED
    here = [{"clientSource": ["127.0.0.0/8", "::1"], "serverAddress": ["127.0.0.1"]}]
    root.shop.command("updateUser", "ada", authenticationRestrictions=here)
    with connect(guarded, "ada", "pw", "shop") as client:
        assert client.admin.command("ping")["ok"] == 1


def test_one_user_a_connection_and_logout(guarded, root):
    root.shop.command("createUser", "ada", pwd="pw", roles=[])
    with connect(guarded, "root", "rootpw", maxPoolSize=1) as client:
        assert code_of(lambda: start(client.shop, b"n,,n=ada,r=b")) == UNAUTHORIZED
        client.admin.command("logout")
        assert code_of(client.list_database_names) == UNAUTHORIZED


def test_users_outlast_restarts_and_are_carried_by_their_documents(guarded, root):
    root.shop.command("createUser", "ada", pwd="pw", roles=["read"])
    document = root.admin["system.users"].find_one({"_id": "shop.ada"})
    assert set(document["credentials"]) == {"SCRAM-SHA-1", "SCRAM-SHA-256"}
    root.shop.command("dropUser", "ada")
    durable = root.admin.get_collection("system.users", write_concern=WriteConcern(j=True))
    durable.insert_one(document)
    guarded.kill()
    guarded.start()
    with connect(guarded, "ada", "pw", "shop") as client:
        assert client.shop.things.find_one() is None
    # Of a server of old: one mechanism, until the password is changed.
    old = document | {"credentials": {"SCRAM-SHA-1": document["credentials"]["SCRAM-SHA-1"]}}
    root.admin["system.users"].replace_one({"_id": "shop.ada"}, old)
    assert root.shop.command("usersInfo", "ada")["users"][0]["mechanisms"] == ["SCRAM-SHA-1"]
    with connect(guarded, "ada", "pw", "shop") as client:
        assert client.shop.things.find_one() is None
    root.shop.command("updateUser", "ada", pwd="new")
    assert root.shop.command("usersInfo", "ada")["users"][0]["mechanisms"] == ["SCRAM-SHA-1", "SCRAM-SHA-256"]


def test_no_secret_is_written_anywhere(guarded, root):
    root.shop.command("profile", 2)
    root.shop.command("createUser", "marked", pwd="S3CRETpassword", roles=[])
    root.shop.command("updateUser", "marked", pwd="S3CRETagain")
    with connect(guarded, "marked", "S3CRETagain", "shop") as client:
        assert code_of(lambda: client.shop.command("createUser", "x", pwd="S3CRETthird", roles=[])) == UNAUTHORIZED
    root.shop.command("profile", 0)
    written = [str(record) for record in root.shop["system.profile"].find()]
    assert any("createUser" in record for record in written)
    written += [guarded.log_text(), str(root.admin.command("getLog", "global")), str(root.admin.command("getCmdLineOpts"))]
    assert not any("S3CRET" in text for text in written)


def test_the_server_counts_logins(guarded, root):
    counted = root.admin.command("serverStatus")["security"]["authentication"]
    with connect(guarded, "root", "wrong") as client:
        assert code_of(lambda: client.admin.command("ping")) == FAILED
    after = root.admin.command("serverStatus")["security"]["authentication"]
    assert after["failed"] > counted["failed"] and after["successful"] >= 1


def test_a_connection_that_says_nothing_harms_nobody(guarded, root):
    silent = [socket.create_connection(guarded.address) for _ in range(20)]
    assert root.admin.command("ping")["ok"] == 1
    for connection in silent:
        connection.close()


def test_without_auth_users_may_log_in_and_nothing_is_asked(server, client):
    client.shop.command("createUser", "ada", pwd="pw", roles=[])
    with connect(server, "ada", "pw", "shop") as ada:
        assert ada.shop.things.find_one() is None
    with connect(server, "ada", "wrong", "shop") as ada:
        assert code_of(lambda: ada.shop.things.find_one()) == FAILED
    client.shop.command("dropUser", "ada")


def add_user(server, *arguments):
    """`plimsoll user add` on the server's data directory."""
    command = [str(binary_path()), "user", "add", *arguments, "--data", str(server.directory / "data")]
    environment = {**os.environ, "PLIMSOLL_USER_PASSWORD": "fromoutside"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def test_the_operator_makes_a_user_while_the_server_runs_and_while_it_is_stopped(tmp_path):
    server = ServerProcess(tmp_path, ("--cache", "64MiB", "--auth", "--localhost-exception=false"))
    server.start()
    try:
        with MongoClient(server.uri) as stranger:
            assert code_of(lambda: stranger.admin.command("createUser", "x", pwd="x", roles=["root"])) == UNAUTHORIZED
        made = add_user(server, "ops", "--role", "root")
        assert made.returncode == 0, made.stderr
        with connect(server, "ops", "fromoutside") as ops:
            ops.shop.things.insert_one({"_id": 1})
        refused = add_user(server, "other", "--role", "nothing")
        assert refused.returncode == 1 and "Could not find role" in refused.stderr
        server.stop()
        waiting = add_user(server, "later", "--role", "readWrite", "--database", "shop")
        assert waiting.returncode == 0 and "when it starts" in waiting.stdout
        assert b"fromoutside" not in (server.directory / "data" / "user-to-add").read_bytes()
        server.start()
        with connect(server, "later", "fromoutside", "shop") as later:
            assert later.shop.things.find_one() == {"_id": 1}
    finally:
        server.kill()


def open_cursor(client):
    session = client.start_session()
    cursor = client.shop.things.find({}, session=session, batch_size=2)
    next(cursor)
    return cursor


def is_killed(cursor):
    try:
        list(cursor)
    except OperationFailure as error:
        assert error.code == 43
        return True
    return False


@pytest.mark.parametrize("command, killed", [
    ({"killAllSessions": [{"user": "ada", "db": "shop"}]}, {"ada"}),
    ({"killAllSessions": [{"user": "ada", "db": "other"}, {"user": "nobody", "db": "shop"}]}, set()),
    ({"killAllSessionsByPattern": [{"users": [{"user": "ada", "db": "shop"}, {"user": "bob", "db": "shop"}]}]}, {"ada", "bob"}),
    ({"killAllSessionsByPattern": [{"uid": hashlib.sha256(b"bob@shop").digest()}]}, {"bob"}),
    ({"killAllSessionsByPattern": [{"roles": [{"role": "read", "db": "shop"}]}]}, {"bob"}),
    ({"killAllSessionsByPattern": [{"roles": [{"role": "reader", "db": "shop"}]}, {"users": [{"user": "ada", "db": "shop"}]}]}, {"ada", "bob"}),
    ({"killAllSessionsByPattern": [{"roles": [{"role": "read", "db": "shop"}], "users": [{"user": "ada", "db": "shop"}]}]}, set()),
    ({"killAllSessionsByPattern": [{"users": []}, {"roles": []}, {"users": None}, {"roles": None}]}, set()),
])
def test_sessions_of_users_and_roles_are_killed(guarded, root, command, killed):
    root.shop.things.insert_many([{} for _ in range(10)])
    root.shop.command("createRole", "reader", privileges=[], roles=["read"])
    root.shop.command("createUser", "ada", pwd="pw", roles=["readWrite"])
    # By another role.
    root.shop.command("createUser", "bob", pwd="pw", roles=["reader"])
    with connect(guarded, "ada", "pw", "shop") as ada, connect(guarded, "bob", "pw", "shop") as bob:
        cursors = {"ada": open_cursor(ada), "bob": open_cursor(bob)}
        root.admin.command(command)
        assert {name for name, cursor in cursors.items() if is_killed(cursor)} == killed


def test_logins_are_counted_by_mechanism(guarded, root):
    def counts():
        return root.admin.command("serverStatus")["security"]["authentication"]["mechanisms"]

    root.shop.command("createUser", "ada", pwd="pw", roles=[])
    before = counts()["SCRAM-SHA-1"]
    with connect(guarded, "ada", "pw", "shop", authMechanism="SCRAM-SHA-1") as client:
        client.admin.command("ping")
    with connect(guarded, "ada", "wrong", "shop", authMechanism="SCRAM-SHA-1") as client:
        assert code_of(lambda: client.admin.command("ping")) == FAILED
    after = counts()["SCRAM-SHA-1"]
    grown = {kind: {name: after[kind][name] - before[kind][name] for name in after[kind]} for kind in after}
    # A driver begins again in the usual way when what it has begun in its greeting fails.
    assert grown["authenticate"]["successful"] == grown["speculativeAuthenticate"]["successful"] == 1
    assert grown["authenticate"]["received"] >= 2 and grown["speculativeAuthenticate"]["received"] == 2
    assert set(counts()) == {"MONGODB-X509", "SCRAM-SHA-1", "SCRAM-SHA-256"}


def test_users_and_roles_of_a_dump_are_taken_in_as_mongorestore_does(guarded, root):
    """It puts them into two collections of admin, and has the server merge these."""
    admin, merge = root.admin, {"_mergeAuthzCollections": 1, "tempUsersCollection": "admin.tempusers", "tempRolesCollection": "admin.temproles"}
    root.shop.command("createRole", "clerk", privileges=[], roles=["read"])
    root.shop.command("createUser", "ada", pwd="old", roles=["clerk"], customData={"desk": 1})
    dumped = list(admin["system.users"].find({"db": "shop"})), list(admin["system.roles"].find({"db": "shop"}))
    root.shop.command("updateUser", "ada", pwd="new")
    root.shop.command("dropRole", "clerk")
    root.shop.command("createUser", "later", pwd="pw", roles=[])
    root.other.command("createUser", "later", pwd="pw", roles=[])
    admin.tempusers.insert_many(dumped[0])
    admin.temproles.insert_many(dumped[1])
    root.shop.command("createUser", "restorer", pwd="pw", roles=[{"role": "restore", "db": "admin"}])
    try:
        for wrong, code in [
            ({"tempUsersCollection": "", "tempRolesCollection": ""}, 2), ({"tempUsersCollection": "x"}, 73), ({"unknown": 1}, 40415), ({"drop": "x"}, 14),
        ]:
            assert code_of(lambda: admin.command({**merge, **wrong})) == code, wrong
        with connect(guarded, "later", "pw", "shop") as nobody:
            assert code_of(lambda: nobody.admin.command(merge)) == UNAUTHORIZED
        with connect(guarded, "restorer", "pw", "shop") as restorer:
            restorer.admin.command({**merge, "drop": False, "db": ""})
        with connect(guarded, "ada", "old", "shop") as ada:
            assert ada.shop.things.find_one() is None
        assert {user["user"] for user in root.shop.command("usersInfo", 1)["users"]} == {"ada", "later", "restorer"}
        # A document that is none changes nothing.
        admin.tempusers.insert_one({"_id": "shop.broken", "user": "broken"})
        root.shop.command("updateUser", "ada", pwd="new")
        assert code_of(lambda: admin.command(merge)) == 9
        admin.tempusers.delete_one({"_id": "shop.broken"})
        admin.command({**merge, "drop": True, "db": "shop"})
        assert [user["user"] for user in root.shop.command("usersInfo", 1)["users"]] == ["ada"]
        assert [user["user"] for user in root.other.command("usersInfo", 1)["users"]] == ["later"]
        assert [role["role"] for role in root.shop.command("rolesInfo", 1)["roles"]] == ["clerk"]
        with connect(guarded, "ada", "old", "shop") as ada:
            assert ada.shop.things.find_one() is None
    finally:
        root.other.command("dropAllUsersFromDatabase")
        admin.tempusers.drop()
        admin.temproles.drop()


def test_ones_own_open_transactions_are_listed_and_others_are_not(guarded, root):
    root.shop.things.insert_one({"_id": 1})
    for name in ("ada", "bob"):
        root.shop.command("createUser", name, pwd="pw", roles=["readWrite"])

    def listed(client):
        operations = client.admin.command("currentOp", **{"$ownOps": True})["inprog"]
        return [operation["lsid"]["id"] for operation in operations if operation["type"] == "idleSession"]

    with connect(guarded, "ada", "pw", "shop") as ada, connect(guarded, "bob", "pw", "shop") as bob, ada.start_session() as session:
        with session.start_transaction():
            ada.shop.things.update_one({}, {"$set": {"a": 1}}, session=session)
            assert listed(ada) == [session.session_id["id"]] and listed(bob) == []


def test_a_view_is_read_by_who_may_read_it_alone(guarded, root):
    root.shop.a.insert_many([{"_id": 1, "secret": 1}, {"_id": 2}])
    root.shop.command("create", "shown", viewOn="a", pipeline=[{"$project": {"secret": 0}}])
    resource = {"db": "shop", "collection": "shown"}
    root.shop.command("createRole", "reader", privileges=[{"resource": resource, "actions": ["find"]}], roles=[])
    maker = [{"resource": {"db": "shop", "collection": "made"}, "actions": ["createCollection", "find"]}]
    root.shop.command("createRole", "maker", privileges=maker, roles=[])
    root.shop.command("createUser", "ada", pwd="pw", roles=["reader", "maker"])
    with connect(guarded, "ada", "pw", "shop") as ada:
        assert len(list(ada.shop.shown.find())) == 2
        assert code_of(lambda: list(ada.shop.a.find())) == UNAUTHORIZED
        assert code_of(lambda: ada.shop.command("create", "made", viewOn="a", pipeline=[])) == UNAUTHORIZED
        # Nor through another one.
        union = [{"$unionWith": "a"}]
        assert code_of(lambda: ada.shop.command("create", "made", viewOn="shown", pipeline=union)) == UNAUTHORIZED
        ada.shop.command("create", "made", viewOn="shown", pipeline=[])
        assert len(list(ada.shop.made.find())) == 2
        assert code_of(lambda: list(ada.shop.shown.aggregate([{"$merge": "b"}]))) == UNAUTHORIZED


def test_ones_own_sessions_are_listed_and_others_for_who_may(guarded, root):
    for name in ("ada", "bob"):
        root.shop.command("createUser", name, pwd="pw", roles=["readWrite"])

    def listed(client, **options):
        return {document["_id"]["id"]: document.get("user") for document in client.admin.aggregate([{"$listLocalSessions": options}])}

    with connect(guarded, "ada", "pw", "shop") as ada, connect(guarded, "bob", "pw", "shop") as bob, ada.start_session() as session:
        ada.shop.things.find_one({}, session=session)
        own = session.session_id["id"]
        assert listed(ada)[own] == "ada@shop" and own not in listed(bob)
        assert own in listed(root, allUsers=True) and own in listed(root, users=[{"user": "ada", "db": "shop"}])
        for options in ({"allUsers": True}, {"users": [{"user": "ada", "db": "shop"}]}):
            assert code_of(lambda options=options: listed(bob, **options)) == UNAUTHORIZED
