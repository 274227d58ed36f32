"""Traces of operations (`--otlp`): a collector of ours decodes what comes, refuses, is silent, and is not there."""

import contextlib
import http.server
import json
import threading
import time

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.errors import OperationFailure

from server_process import ServerProcess, free_port

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WAIT_SECONDS = 60


class Collector:
    """Takes what a collector takes, and keeps the spans with their attributes as plain values."""

    def __init__(self):
        self.spans, self.resources, self.refusals, self.requests = [], [], [], 0
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = collector.take(self.path, self.headers["Content-Type"], body)
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, kind, body):
        self.requests += 1
        assert (path, kind) == ("/v1/traces", "application/json")
        if self.refusals:
            return self.refusals.pop()
        for resource in json.loads(body)["resourceSpans"]:
            self.resources.append(plain(resource["resource"]["attributes"]))
            for scope in resource["scopeSpans"]:
                assert scope["scope"]["name"] == "plimsoll"
                self.spans += [span | {"attributes": plain(span["attributes"])} for span in scope["spans"]]
        return 200

    def named(self, name):
        return [span for span in self.spans if span["name"] == name]

    def wait_for(self, name, count=1):
        until = time.monotonic() + WAIT_SECONDS
        while len(self.named(name)) < count:
            assert time.monotonic() < until, [span["name"] for span in self.spans]
            time.sleep(0.02)
        return self.named(name)


def plain(attributes):
    values = {}
    for attribute in attributes:
        [(kind, value)] = attribute["value"].items()
        assert kind in ("stringValue", "intValue"), attribute
        values[attribute["key"]] = int(value) if kind == "intValue" else value
    assert len(values) == len(attributes)
    return values


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


@contextlib.contextmanager
def traced(tmp_path, url, *arguments):
    process = ServerProcess(tmp_path, ("--cache", "64MiB", "--otlp", url, *arguments))
    process.start()
    try:
        with MongoClient(process.uri) as client:
            yield process, client
    finally:
        process.stop()


def figures(client):
    return client.admin.command("serverStatus")["plimsoll"]["traces"]


def test_each_operation_is_a_span(tmp_path, collector):
    before = time.time_ns()
    with traced(tmp_path, collector.url) as (_, client):
        orders = client.shop.get_collection("orders", write_concern=WriteConcern(j=True))
        orders.insert_many([{"_id": number, "secret": "abracadabra"} for number in range(20)])
        orders.create_index("secret")
        assert len(list(orders.find({"secret": "abracadabra"}, batch_size=50))) == 20
        with pytest.raises(OperationFailure) as refused:
            client.shop.command("find", "orders", filter={"secret": {"$nonsense": "abracadabra"}})
        [inserted] = collector.wait_for("insert shop.orders")
        found = collector.wait_for("find shop.orders", 2)
        after = time.time_ns()
        assert figures(client)["sent"] > 0
    well, failed = sorted(found, key=lambda span: "status" in span)
    attributes = well["attributes"]
    assert attributes["db.system.name"] == "mongodb" and attributes["db.operation.name"] == "find"
    assert (attributes["db.namespace"], attributes["db.collection.name"]) == ("shop", "orders")
    assert attributes["plimsoll.plan_summary"] == "IXSCAN { secret: 1 }"
    assert (attributes["plimsoll.docs_examined"], attributes["plimsoll.returned"]) == (20, 20)
    assert well["kind"] == 2 and len(well["traceId"]) == 32 and len(well["spanId"]) == 16 and "parentSpanId" not in well
    # Milliseconds, as the clock is read.
    began, ended = int(well["startTimeUnixNano"]), int(well["endTimeUnixNano"])
    assert before - 2_000_000 <= began <= ended <= after + 2_000_000
    assert failed["attributes"]["db.response.status_code"] == str(refused.value.code)
    assert failed["status"] == {"code": 2, "message": refused.value.details["codeName"]}
    duration = (int(inserted["endTimeUnixNano"]) - int(inserted["startTimeUnixNano"])) // 1000
    assert 0 < inserted["attributes"]["plimsoll.wait.log_us"] <= duration
    assert attributes["plimsoll.wait.log_us"] == 0
    assert collector.resources[0]["service.name"] == "plimsoll"
    # No value of a document leaves.
    assert "abracadabra" not in json.dumps(collector.spans)


def test_waiting_for_data_is_told_apart(tmp_path, collector):
    with traced(tmp_path, collector.url) as (_, client):
        client.shop.create_collection("queue", capped=True, size=4096)
        client.shop.queue.insert_one({})
        cursor = client.shop.command("find", "queue", tailable=True, awaitData=True)["cursor"]["id"]
        client.shop.command({"getMore": cursor, "collection": "queue", "maxTimeMS": 300})
        [span] = collector.wait_for("getMore shop.queue")
    assert 250_000 < span["attributes"]["plimsoll.wait.data_us"]


def test_a_client_decides_by_its_parent(tmp_path, collector):
    with traced(tmp_path, collector.url, "--otlp-sample", "0") as (_, client):
        orders = client.shop.orders
        orders.insert_one({})
        list(orders.find(comment={"traceparent": f"00-{TRACE}-{SPAN}-00"}))
        list(orders.find(comment={"traceparent": "nonsense"}))
        list(orders.find(comment={"traceparent": f"00-{TRACE}-{SPAN}-01"}))
        [span] = collector.wait_for("find shop.orders")
        time.sleep(1.5)
    assert (span["traceId"], span["parentSpanId"]) == (TRACE, SPAN)
    assert len(collector.spans) == 1


def test_a_share_is_traced(tmp_path, collector):
    with traced(tmp_path, collector.url, "--otlp-sample", "0.1") as (_, client):
        for _ in range(500):
            client.shop.orders.find_one()
        collector.wait_for("find shop.orders", 40)
    assert 40 <= len(collector.named("find shop.orders")) <= 60


def test_what_waits_is_sent_at_the_end_and_refusals_pass(tmp_path, collector):
    collector.refusals = [503, 429]
    with traced(tmp_path, collector.url) as (_, client):
        client.shop.orders.insert_one({})
        collector.wait_for("insert shop.orders")
        client.shop.orders.delete_one({})
    # The server has stopped.
    assert len(collector.named("delete shop.orders")) == 1
    assert collector.requests >= 4


def test_a_refusal_for_good_is_counted(tmp_path, collector):
    collector.refusals = [400] * 1000
    with traced(tmp_path, collector.url) as (process, client):
        client.shop.orders.insert_one({})
        until = time.monotonic() + WAIT_SECONDS
        while figures(client)["failed"] == 0:
            assert time.monotonic() < until
            time.sleep(0.05)
    log = process.log_text()
    assert log.count("does not take traces") == 1 and "400" in log


def test_nobody_there_delays_nobody_and_the_queue_has_an_end(tmp_path):
    with traced(tmp_path, f"http://127.0.0.1:{free_port()}") as (process, client):
        began = time.monotonic()
        for _ in range(10):
            client.admin.command("bulkWrite", 1, ops=[{"insert": 0, "document": {}}] * 100, nsInfo=[{"ns": "shop.orders"}])
        threads = [threading.Thread(target=lambda: [client.admin.command("ping") for _ in range(1500)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until = time.monotonic() + WAIT_SECONDS
        while figures(client)["dropped"] == 0:
            client.admin.command("ping")
            assert time.monotonic() < until
        assert client.shop.orders.count_documents({}) == 1000
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 30 and stopping - began < 90
    assert process.log_text().count("does not take traces") >= 1


def test_without_it_nothing_is_there(server, client):
    assert "traces" not in client.admin.command("serverStatus")["plimsoll"]
