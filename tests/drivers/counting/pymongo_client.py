"""Inserts and counts with PyMongo until its input ends: see test_kills.py.

python pymongo_client.py URI NAME
"""

import json
import sys
import threading
import time

import pymongo

uri, name = sys.argv[1:]
database = pymongo.MongoClient(uri).kills
over = threading.Event()
printing = threading.Lock()


def tell(**what):
    with printing:
        print(json.dumps(what), flush=True)


def work(worker):
    counter, done = f"{name}-{worker}", 0
    try:
        while not over.is_set():
            database.numbers.insert_one({"_id": f"{counter}-{done}"})
            database.counters.update_one({"_id": counter}, {"$inc": {"count": 1}}, upsert=True)
            done += 1
            tell(counter=counter, done=done)
            time.sleep(0.005)
    except pymongo.errors.PyMongoError as error:
        tell(counter=counter, done=done, error=repr(error))


threads = [threading.Thread(target=work, args=(worker,)) for worker in range(3)]
for thread in threads:
    thread.start()
sys.stdin.read()
over.set()
for thread in threads:
    thread.join()
