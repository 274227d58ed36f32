"""Figures over HTTP: what Prometheus reads, and whether the server lives and takes writes."""

import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from server_process import ServerProcess, binary_path, free_port

SAMPLE = re.compile(r'^([a-z_]+)(\{[a-z_]+="(?:[^"\\\n]|\\.)*"(?:,[a-z_]+="(?:[^"\\\n]|\\.)*")*\})? (\S+)$')
SUFFIXES = ("_bucket", "_sum", "_count")


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """A server that wants a login and tells figures on a port of its own."""
    port = free_port()
    arguments = ("--cache", "64MiB", "--auth", "--metrics", str(port))
    process = ServerProcess(tmp_path_factory.mktemp("observed"), arguments)
    process.start()
    with MongoClient(process.uri) as client:
        client.admin.command("createUser", "root", pwd="rootpw", roles=["root"])
    process.metrics_port = port
    yield process
    process.stop()


def get(process, path):
    """The status, the type and the text of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{process.metrics_port}{path}", timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["Content-Type"], refused.read().decode()


def samples(process):
    """Each sample's value by its name and labels. Every line must be one, or say something of a family."""
    status, kind, text = get(process, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found, families = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            families.add(line.split()[2])
        if line.startswith("#"):
            continue
        match = SAMPLE.match(line)
        assert match, line
        name = match[1]
        base = next((name.removesuffix(end) for end in SUFFIXES if name.removesuffix(end) in families), name)
        assert base in families, line
        key = name + (match[2] or "")
        assert key not in found, f"{key} twice"
        found[key] = float(match[3])
    return found


def test_figures_follow_what_clients_do(observed):
    before = samples(observed)
    with MongoClient(observed.uri, username="root", password="rootpw") as client:
        client.shop.orders.insert_many([{"n": number} for number in range(7)])
        assert len(list(client.shop.orders.find({"n": {"$gte": 3}}))) == 4
    after = samples(observed)

    def grew(name):
        return after[name] - before[name]

    assert grew('plimsoll_operations_total{kind="insert"}') == 7
    assert grew('plimsoll_documents_total{action="returned"}') == 4
    assert grew('plimsoll_commands_total{command="find"}') == 1
    assert grew("plimsoll_collection_scans_total") == 1
    assert grew('plimsoll_logins_total{outcome="successful"}') >= 1
    reads = 'plimsoll_operation_duration_seconds_{}{{kind="reads"{}}}'
    assert grew(reads.format("count", "")) >= 1
    assert after[reads.format("bucket", ',le="+Inf"')] == after[reads.format("count", "")]
    assert after['plimsoll_cache_bytes{state="limit"}'] == 64 << 20
    assert after["plimsoll_writes_accepted"] == 1


def test_buckets_only_grow(observed):
    found = samples(observed)
    for kind in ("reads", "writes", "commands"):
        prefix = f'plimsoll_operation_duration_seconds_bucket{{kind="{kind}"'
        counts = [value for key, value in found.items() if key.startswith(prefix)]
        assert len(counts) > 10 and counts == sorted(counts)


def test_no_document_and_no_name_of_a_user_is_told(observed):
    with MongoClient(observed.uri, username="root", password="rootpw") as client:
        client.secretdatabase.secretcollection.insert_one({"_id": "secretvalue"})
    text = get(observed, "/metrics")[2]
    assert "secret" not in text and "root" not in text


def test_it_lives_and_is_ready(observed):
    assert get(observed, "/healthz")[::2] == (200, "ok\n")
    assert get(observed, "/readyz")[::2] == (200, "ready\n")
    status, _, text = get(observed, "/secrets")
    assert status == 404 and "/metrics" in text


def test_who_sends_nothing_stops_nobody(observed):
    idle = [socket.create_connection(("127.0.0.1", observed.metrics_port)) for _ in range(60)]
    try:
        assert get(observed, "/healthz")[0] == 200
        assert samples(observed)
    finally:
        for connection in idle:
            connection.close()


def test_an_address_that_cannot_be_is_refused(tmp_path):
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    for address, why in (("localhost", "is not HOST:PORT"), (str(taken.getsockname()[1]), "cannot listen on 127.0.0.1")):
        command = [str(binary_path()), "serve", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{free_port()}"]
        ended = subprocess.run([*command, "--metrics", address], capture_output=True, text=True, timeout=60)
        assert ended.returncode != 0 and why in ended.stderr, ended.stderr
    taken.close()


def test_figures_of_each_second_are_kept_over_a_kill(tmp_path):
    """What the flight recorder has is there after kill -9, and the files stay within what they may take."""
    process = ServerProcess(tmp_path, ("--cache", "64MiB", "--flight-recorder-size", "16MiB"))
    process.start()
    folder = tmp_path / "data" / "figures"
    deadline = time.monotonic() + 60
    with MongoClient(process.uri) as client:
        while not (folder / "current.figures").exists() and time.monotonic() < deadline:
            # While nobody used it, not each second would be kept.
            client.test.documents.find_one()
            time.sleep(0.2)
    before = (folder / "current.figures").read_bytes()
    assert before.startswith(b"PLMSFR01")
    process.kill()
    process.start()
    # Of a running server, over the wire.
    over_the_wire = [str(binary_path()), "diagnose", process.uri, "--output", str(tmp_path / "wire.html"), "--json"]
    told = json.loads(subprocess.run(over_the_wire, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert told["moments"] >= 9 and not told["unreadable"] and "<svg" in (tmp_path / "wire.html").read_text()
    with MongoClient(process.uri) as client:
        listed = client.admin.command("plimsollFigures", 1)["files"]
        assert {file["name"] for file in listed} <= {path.name for path in folder.iterdir()} and listed[0]["bytes"] > 8
        for name in ("../pages.plimsoll", "next", "/etc/passwd", ""):
            with pytest.raises(OperationFailure, match="there are no figures"):
                client.admin.command("plimsollFigures", 1, file=name)
        with pytest.raises(OperationFailure) as refused:
            client.test.command("plimsollFigures", 1)
        assert refused.value.code == 13
    process.stop()
    kept = list(folder.iterdir())
    assert [path.name == "current.figures" for path in kept] == [False]
    assert kept[0].read_bytes().startswith(b"PLMSFR01") and kept[0].stat().st_mode & 0o077 == 0
    command = [str(binary_path()), "diagnose", str(tmp_path / "data"), "--output", str(tmp_path / "report.html"), "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert told["moments"] >= 11 and len(told["starts"]) == 1 and not told["unreadable"]
    assert "<svg" in (tmp_path / "report.html").read_text()


def test_no_figures_are_kept_where_none_are_wanted(tmp_path):
    process = ServerProcess(tmp_path, ("--cache", "64MiB", "--no-flight-recorder"))
    process.start()
    process.stop()
    assert not (tmp_path / "data" / "figures").exists()


def test_trouble_is_told_where_people_look(tmp_path):
    """A transaction that nobody ends is in serverStatus, in what shells show at their start, and in the log; then it is not."""
    process = ServerProcess(tmp_path, ("--cache", "64MiB", "--replica-set", "rs"))
    process.start()
    with MongoClient(process.uri) as client:
        client.admin.command("setParameter", 1, transactionLifetimeLimitSeconds=600)
        client.shop.orders.insert_one({"_id": 1})
        with client.start_session() as session:
            session.start_transaction()
            client.shop.orders.update_one({"_id": 1}, {"$set": {"n": 1}}, session=session)
            warning = wait_for_warning(client, "longTransaction", 90)
            assert "has been open for" in warning["what"] and "killSessions" in warning["advice"]
            lines = client.admin.command("getLog", "startupWarnings")["log"]
            assert any("has been open for" in json.loads(line)["msg"] for line in lines), lines
            session.abort_transaction()
        deadline = time.monotonic() + 60
        while warnings(client) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert not warnings(client)
    assert "longTransaction" in process.log_tail(200)
    process.stop()


def warnings(client):
    return client.admin.command("serverStatus")["plimsoll"]["warnings"]


def wait_for_warning(client, pattern, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for warning in warnings(client):
            if warning["pattern"] == pattern:
                return warning
        time.sleep(0.5)
    raise AssertionError(f"no warning {pattern} within {seconds} s")
