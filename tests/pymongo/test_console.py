"""The console over HTTP against a whole server: logins, privileges, the audit log, values as they are, and where it may listen."""

import datetime
import http.client
import json
import socket
import subprocess
import threading
import time
import uuid

import bson
import pytest
from pymongo import MongoClient

from server_process import ServerProcess, binary_path, free_port

UNAUTHORIZED = 13


class Browser:
    """As much of one as is needed: it keeps the cookie."""

    def __init__(self, port):
        self.port = port
        self.cookie = None

    def post(self, path, body):
        """The status and the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"Content-Type": "application/json", "X-Plimsoll-Console": "1"}
        if self.cookie:
            headers["Cookie"] = self.cookie
        connection.request("POST", path, body if isinstance(body, str) else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        kept = answer.headers["Set-Cookie"]
        if kept:
            self.cookie = kept.split(";")[0]
        connection.close()
        return answer.status, json.loads(text)

    def log_in(self, user, password, database="admin"):
        return self.post("/api/login", {"user": user, "password": password, "database": database})

    def command(self, database, command, **more):
        status, reply = self.post("/api/command", {"db": database, "command": command, **more})
        assert status == 200, reply
        return reply


def start(directory, *arguments):
    port = free_port()
    process = ServerProcess(directory, ("--cache", "64MiB", "--console", str(port), *arguments))
    process.start()
    process.console_port = port
    return process


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with users, whose audit log is kept."""
    directory = tmp_path_factory.mktemp("guarded")
    process = start(directory, "--auth", "--audit", str(directory / "audit.json"))
    browser = Browser(process.console_port)
    # The localhost exception holds here as on the wire.
    assert browser.post("/api/whoami", "{}")[1] == {"needsLogin": True}
    assert browser.command("shop", {"find": "orders"})["code"] == UNAUTHORIZED
    made = browser.command("admin", {"createUser": "root", "pwd": "rootpw", "roles": ["root"]})
    assert made["ok"] == 1, made
    assert browser.command("admin", {"createUser": "second", "pwd": "x", "roles": ["root"]})["code"] == UNAUTHORIZED
    with MongoClient(process.uri, username="root", password="rootpw") as client:
        client.shop.command("createUser", "reader", pwd="readerpw", roles=["read"])
        client.shop.orders.insert_one({"_id": 1, "n": 7})
    yield process
    process.stop()


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    process = start(tmp_path_factory.mktemp("open"))
    yield process
    process.stop()


def test_a_user_may_do_what_he_may_elsewhere(guarded):
    browser = Browser(guarded.console_port)
    assert browser.log_in("reader", "readerpw", "admin") == (401, {"error": "Authentication failed."})
    assert browser.log_in("nobody", "readerpw", "shop") == (401, {"error": "Authentication failed."})
    assert browser.log_in("reader", "readerpw", "shop")[0] == 200
    status = browser.command("admin", {"connectionStatus": 1})
    assert status["authInfo"]["authenticatedUsers"] == [{"user": "reader", "db": "shop"}]
    assert browser.command("shop", {"find": "orders"})["cursor"]["firstBatch"] == [{"_id": 1, "n": 7}]
    for database, command in (
        ("shop", {"insert": "orders", "documents": [{"_id": 2}]}),
        ("shop", {"drop": "orders"}),
        ("other", {"find": "orders"}),
        ("admin", {"serverStatus": 1}),
        ("admin", {"plimsollProfile": 1}),
        ("admin", {"shutdown": 1}),
    ):
        assert browser.command(database, command)["code"] == UNAUTHORIZED, command


def test_logins_are_counted_and_audited(guarded):
    with MongoClient(guarded.uri, username="root", password="rootpw") as client:
        before = client.admin.command("serverStatus")["security"]["authentication"]
        browser = Browser(guarded.console_port)
        browser.log_in("root", "wrong")
        assert browser.log_in("root", "rootpw")[0] == 200
        assert browser.post("/api/logout", "{}")[0] == 200
        assert browser.command("shop", {"find": "orders"})["code"] == UNAUTHORIZED
        after = client.admin.command("serverStatus")["security"]["authentication"]
    assert (after["successful"] - before["successful"], after["failed"] - before["failed"]) == (1, 1)
    lines = (guarded.directory / "audit.json").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    told = [(event["atype"], event["result"]) for event in events if event["atype"] in ("authenticate", "logout")]
    assert told[-3:] == [("authenticate", 18), ("authenticate", 0), ("logout", 0)]
    refused = [event for event in events if event["atype"] == "authCheck" and event["result"] == UNAUTHORIZED]
    assert any(event["users"] == [{"user": "reader", "db": "shop"}] for event in refused)


def test_who_is_dropped_is_out(guarded):
    with MongoClient(guarded.uri, username="root", password="rootpw") as client:
        client.admin.command("createUser", "brief", pwd="briefpw", roles=["readAnyDatabase"])
        browser = Browser(guarded.console_port)
        assert browser.log_in("brief", "briefpw")[0] == 200
        assert browser.command("shop", {"find": "orders"})["ok"] == 1
        client.admin.command("updateUser", "brief", roles=[])
        assert browser.command("shop", {"find": "orders"})["code"] == UNAUTHORIZED
        client.admin.command("dropUser", "brief")
        assert browser.post("/api/command", {"db": "admin", "command": {"connectionStatus": 1}})[0] == 401


def test_its_commands_are_seen_and_ended_like_all_others(open_server):
    browser = Browser(open_server.console_port)
    assert browser.post("/api/whoami", "{}")[1] == {"needsLogin": False}
    endless = {"find": "orders", "filter": {"$where": "while (true) {}"}}
    with MongoClient(open_server.uri) as client:
        client.shop.orders.insert_one({"_id": 1})

        def running():
            found = client.admin.command("currentOp", **{"command.find": "orders"})["inprog"]
            return [entry for entry in found if entry.get("appName") == "Plimsoll console"]

        def eventually(wanted):
            deadline = time.monotonic() + 60
            while len(running()) != wanted:
                assert time.monotonic() < deadline, running()
                time.sleep(0.02)

        replies = []
        thread = threading.Thread(target=lambda: replies.append(browser.command("shop", endless)))
        thread.start()
        eventually(1)
        assert browser.command("admin", {"ping": 1})["ok"] == 1
        browser.command("admin", {"killOp": 1, "op": running()[0]["opid"]})
        thread.join(60)
        assert replies[0]["codeName"] == "Interrupted"
        # A browser that goes away ends its command.
        body = json.dumps({"db": "shop", "command": endless})
        with socket.create_connection(("127.0.0.1", open_server.console_port)) as leaving:
            head = f"POST /api/command HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Plimsoll-Console: 1\r\nCookie: {browser.cookie}\r\n"
            leaving.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            eventually(1)
        eventually(0)
        assert browser.command("shop", {**endless, "maxTimeMS": 50})["codeName"] == "MaxTimeMSExpired"


def test_values_come_and_go_as_they_are(open_server):
    document = {
        "_id": bson.ObjectId(), "7": 1, "3": bson.Int64(1), "long": bson.Int64(2**63 - 1), "double": 1.0, "tenth": 0.1, "odd": 5e-324, "nan": float("nan"),
        "text": "\u0001\"ü\u2028", "none": None, "yes": True, "list": [1, [], {}], "date": datetime.datetime(1815, 12, 10, 1, 2, 3, 4000),
        "decimal": bson.Decimal128("1.10"), "binary": bson.Binary(b"\0\xff", 0x80), "uuid": bson.Binary.from_uuid(uuid.uuid4()), "regex": bson.Regex("a/b", "i"),
        "timestamp": bson.Timestamp(7, 8), "code": bson.Code("f()"), "scoped": bson.Code("f()", {"z": 1, "a": 2.0}), "least": bson.MinKey(), "most": bson.MaxKey(),
    }
    browser = Browser(open_server.console_port)
    browser.post("/api/whoami", "{}")
    with MongoClient(open_server.uri) as client:
        given = client.shop.get_collection("given", codec_options=bson.CodecOptions(document_class=bson.raw_bson.RawBSONDocument))
        given.insert_one(document)
        # Objects of Python keep the order of fields, too.
        found = browser.command("shop", {"find": "given"}, format="canonical")["cursor"]["firstBatch"]
        assert browser.command("shop", {"insert": "taken", "documents": found})["n"] == 1
        taken = client.shop.get_collection("taken", codec_options=given.codec_options)
        assert given.find_one().raw == taken.find_one().raw


def test_batches_are_fetched_by_another_connection(open_server):
    browser = Browser(open_server.console_port)
    browser.post("/api/whoami", "{}")
    browser.command("shop", {"insert": "many", "documents": [{"_id": number} for number in range(50)]})
    cursor = browser.command("shop", {"find": "many", "batchSize": 20}, format="canonical")["cursor"]
    seen = len(cursor["firstBatch"])
    while cursor["id"] != {"$numberLong": "0"}:
        more = {"getMore": cursor["id"], "collection": "many", "batchSize": 20}
        cursor = browser.command("shop", more, format="canonical")["cursor"]
        seen += len(cursor["nextBatch"])
    assert seen == 50


def test_a_large_document_fits(open_server):
    browser = Browser(open_server.console_port)
    browser.post("/api/whoami", "{}")
    text = "x" * (15 << 20)
    assert browser.command("shop", {"insert": "large", "documents": [{"_id": 1, "text": text}]})["n"] == 1
    assert browser.command("shop", {"find": "large"})["cursor"]["firstBatch"] == [{"_id": 1, "text": text}]


def test_beyond_this_machine_it_is_refused_without_users(tmp_path):
    command = [str(binary_path()), "serve", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}", "--cache", "64MiB"]
    ended = subprocess.run([*command, "--console", f"0.0.0.0:{free_port()}"], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0 and "--console: 0.0.0.0" in ended.stderr and "--insecure-no-authentication" in ended.stderr
    for more in (["--insecure-no-authentication"], ["--auth"]):
        port = free_port()
        process = ServerProcess(tmp_path / more[0].strip("-"), ("--cache", "64MiB", "--console", f"0.0.0.0:{port}", *more))
        process.directory.mkdir()
        process.start()
        assert Browser(port).post("/api/whoami", "{}")[1] == {"needsLogin": more == ["--auth"]}
        if more == ["--auth"]:
            assert "browsers log in at the console without encryption" in process.log_tail()
        process.stop()
    wrong = subprocess.run([*command, "--console", "localhost"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode != 0 and "console: 'localhost' is not HOST:PORT" in wrong.stderr


def test_no_console_is_served_unless_it_is_asked_for(tmp_path):
    process = ServerProcess(tmp_path, ("--cache", "64MiB"))
    process.start()
    assert "over HTTP" not in process.log_tail()
    process.stop()
