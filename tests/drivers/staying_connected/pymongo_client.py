"""Stays connected with PyMongo for some seconds, under load, and prints what its listeners heard: see test_staying_connected.py.

python pymongo_client.py URI SECONDS HEARTBEAT_MS (0: the driver's default)
"""

import json
import sys
import threading
import time

from pymongo import MongoClient, monitoring

WORKERS = 6


class Heard(monitoring.ServerListener, monitoring.ServerHeartbeatListener, monitoring.ConnectionPoolListener):
    """Counts what must not happen, and heartbeats that waited for a change."""

    def __init__(self):
        self.cleared = self.unknown = self.failed_heartbeats = self.awaited_heartbeats = 0

    def pool_cleared(self, event):
        self.cleared += 1

    def description_changed(self, event):
        was_known = event.previous_description.server_type_name != "Unknown"
        self.unknown += was_known and event.new_description.server_type_name == "Unknown"

    def failed(self, event):
        self.failed_heartbeats += 1

    def succeeded(self, event):
        self.awaited_heartbeats += event.awaited

    def _nothing(self, event):
        pass

    opened = closed = started = _nothing
    pool_created = pool_ready = pool_closed = connection_created = connection_ready = connection_closed = _nothing
    connection_check_out_started = connection_check_out_failed = connection_checked_out = connection_checked_in = _nothing


def main():
    uri, seconds, heartbeat_ms = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    heard = Heard()
    settings = {"heartbeatFrequencyMS": heartbeat_ms} if heartbeat_ms else {}
    client = MongoClient(uri, event_listeners=[heard], **settings)
    things = client["staying_connected"]["pymongo"]
    things.drop()
    operations, errors, end = [0] * WORKERS, [], time.monotonic() + seconds

    def work(worker):
        try:
            while time.monotonic() < end:
                things.update_one({"_id": worker}, {"$inc": {"n": 1}}, upsert=True)
                things.find_one({"_id": worker})
                operations[worker] += 2
                time.sleep(0.02)
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"operations": sum(operations), "errors": errors, **vars(heard)}))


main()
