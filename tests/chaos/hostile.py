"""Clients that ask for too much: each act is something that once killed a server, held it, or made it outgrow its memory.

An act is a function of the server's port and a source of chance. It returns what became of it in a word; a refusal is as good as an answer. Whether the
server lives, is within its memory and serves the honest is looked at by `run`.
"""

import concurrent.futures
import socket
import struct
import time
import zlib

import bson
from bson import SON
from bson.errors import BSONError
from pymongo import MongoClient
from pymongo.errors import PyMongoError

DATABASE = "hostile"
SECONDS_MAX = 20

ACTS = {}


def act(function):
    ACTS[function.__name__] = function
    return function


def client(port):
    limits = {"serverSelectionTimeoutMS": 2000, "socketTimeoutMS": SECONDS_MAX * 1000, "retryReads": False, "retryWrites": False}
    return MongoClient("127.0.0.1", port, directConnection=True, **limits)


def asked(run):
    """What came of it, in a word: that of the server's error where there is one."""
    try:
        run()
        return "answered"
    except (BSONError, RecursionError, ValueError) as error:
        # The driver itself refuses what is larger than it can write (ValueError), than a message may be, or deeper.
        return type(error).__name__
    except PyMongoError as error:
        details = getattr(error, "details", None) or {}
        return details.get("codeName") or type(error).__name__


def usual(outcomes):
    """What came of most."""
    return max(set(outcomes), key=outcomes.count)


def message(document, kind=0):
    body = struct.pack("<i", 0) + bytes([kind]) + bson.encode(document)
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=2)
    connection.settimeout(SECONDS_MAX)
    return connection


def wrapped(value, levels):
    for _ in range(levels):
        value = {"a": value}
    return value


def fill(database, name, documents, payload):
    if database[name].estimated_document_count() < documents:
        database[name].insert_many([{"n": number, "pad": payload} for number in range(documents)])
    return database[name]


@act
def deep_pipeline(port, chance):
    """Stages that wrap what they read, until no recursion would come back."""
    stages = [{"$replaceRoot": {"newRoot": wrapped("$$ROOT", chance.randrange(1, 60))}}] * chance.randrange(10, 900)
    last = chance.choice([
        [],
        [{"$group": {"_id": "$$ROOT"}}],
        [{"$group": {"_id": None, "all": {"$addToSet": "$$ROOT"}}}],
        [{"$sortByCount": "$$ROOT"}],
        [{"$lookup": {"from": "few", "localField": "a", "foreignField": "a", "as": "joined"}}],
        [{"$project": {"b": "$$ROOT"}}],
        [{"$unset": ".".join(["a"] * 150)}],
        [{"$sort": {"a": 1}}],
        [{"$out": "deep"}],
        [{"$merge": {"into": "deep"}}],
    ])
    with client(port) as server:
        things = fill(server[DATABASE], "few", 5, "p")
        return asked(lambda: list(things.aggregate(stages + last)))


@act
def deep_update(port, chance):
    path = ".".join(["a"] * chance.choice([150, 1_000, 100_000]))
    with client(port) as server:
        things = server[DATABASE].few
        return asked(lambda: things.update_one({path: 1}, {"$set": {"b": 1}}, upsert=True))


@act
def deep_documents_used(port, chance):
    """What is as deep as it may be, or what the pipelines above have stored, in all that recurs over it."""
    with client(port) as server:
        deep = server[DATABASE].deep
        outcome = asked(lambda: deep.insert_one(wrapped(1, chance.choice([90, 180, 250, 5_000]))))
        run = chance.choice([
            lambda: list(deep.find().sort("a", 1).max_time_ms(5_000)),
            lambda: deep.distinct("a"),
            lambda: deep.create_index(chance.choice(["a", "a.a.a", "$**"])),
            lambda: deep.update_many({}, {"$set": {".".join(["a"] * chance.choice([5, 199, 300])): 1}}),
            lambda: server[DATABASE].command("validate", "deep", full=True),
        ])
        used = asked(run)
        if chance.random() < 0.2:
            deep.drop()
        return f"{outcome}, {used}"


@act
def long_index_path(port, chance):
    path = ".".join(["a"] * chance.choice([199, 1_000, 300_000]))
    with client(port) as server:
        return asked(lambda: server[DATABASE].paths.create_index(path))


@act
def abandoned_index_build(port, chance):
    """A build that whatever comes next interrupts: its client, or the server's end."""
    with client(port) as server:
        outcome = asked(lambda: fill(server[DATABASE], "built", 20_000, "p" * 300))
    try:
        connection = connect(port)
        index = {"key": {"pad": 1, "n": chance.choice([1, -1])}, "name": f"i{chance.randrange(3)}"}
        connection.sendall(message({"createIndexes": "built", "$db": DATABASE, "indexes": [index]}))
        time.sleep(chance.uniform(0, 2))
        connection.close()
        if chance.random() < 0.3:
            with client(port) as server:
                return asked(lambda: server[DATABASE].built.drop_indexes())
        return outcome
    except OSError as error:
        return type(error).__name__


@act
def growing_expression(port, chance):
    """Strings that double."""
    doubled = "$pad"
    for _ in range(chance.randrange(5, 40)):
        doubled = {"$concat": [doubled, doubled]}
    large = {f"f{number}": {"$concat": ["$pad", str(number)]} for number in range(chance.choice([5, 100]))}
    pipeline = chance.choice([
        [{"$project": {"x": {"$strLenBytes": doubled}}}],
        [{"$addFields": large}, {"$project": {"x": {"$strLenBytes": "$f1"}}}],
        [{"$project": {"x": {"$let": {"vars": large, "in": {"$strLenBytes": "$$f1"}}}}}],
    ])
    with client(port) as server:
        name, length = chance.choice([("texts", 100_000), ("long_texts", 15_000_000)])
        things = fill(server[DATABASE], name, 3, "p" * length)
        return asked(lambda: list(things.aggregate(pipeline)))


@act
def slow_pattern(port, chance):
    pattern = chance.choice(["(a+)+$", "(?>a+)+b|(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$"])
    with client(port) as server:
        things = fill(server[DATABASE], "letters", 3, "a" * 300_000)
        return asked(lambda: list(things.find({"pad": {"$regex": pattern}}).max_time_ms(chance.choice([50, 2_000]))))


@act
def many_fields(port, chance):
    count = chance.choice([1_000, 20_000, 100_000])
    names = {f"f{chance.randrange(1 << 30)}": 1 for _ in range(count)}
    with client(port) as server:
        things = server[DATABASE].few
        run = chance.choice([
            lambda: things.update_one({"_id": "wide"}, {"$set": names}, upsert=True),
            lambda: list(things.find({}, names)),
            lambda: list(things.find({"$or": [{name: 1} for name in names]}).max_time_ms(5_000)),
        ])
        return asked(run)


@act
def wide_document_validated(port, chance):
    with client(port) as server:
        wide = server[DATABASE].wide
        document = {"_id": 1, **{f"f{chance.randrange(1 << 30)}": number for number in range(20_000)}}
        outcome = asked(lambda: wide.replace_one({"_id": 1}, document, upsert=True))
        return f"{outcome}, {asked(lambda: server[DATABASE].command('validate', 'wide', full=True))}"


@act
def joins_at_the_same_time(port, chance):
    """Each of them needs much, and they come together."""
    def join():
        with client(port) as server:
            things = fill(server[DATABASE], "large", 400, "p" * 200_000)
            pipeline = [{"$limit": 3}, {"$lookup": {"from": "large", "pipeline": [], "as": "all"}}, {"$project": {"n": {"$size": "$all"}}}]
            return asked(lambda: list(things.aggregate(pipeline)))

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        return usual([one.result() for one in [pool.submit(join) for _ in range(chance.randrange(2, 13))]])


@act
def readers_of_large_documents(port, chance):
    with client(port) as server:
        outcome = asked(lambda: fill(server[DATABASE], "largest", 4, "p" * 16_000_000))

    def read():
        with client(port) as server:
            return asked(lambda: [len(one["pad"]) for one in server[DATABASE].largest.find()])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return f"{outcome}, {usual([one.result() for one in [pool.submit(read) for _ in range(chance.randrange(2, 9))]])}"


@act
def long_list(port, chance):
    numbers = list(range(chance.choice([10_000, 300_000, 1_000_000])))
    with client(port) as server:
        return asked(lambda: list(server[DATABASE].few.find({"n": {"$in": numbers}}).max_time_ms(10_000)))


@act
def large_collection(port, chance):
    """What collects everything that it reads."""
    run = chance.choice([
        lambda things: things.distinct("pad"),
        lambda things: list(things.aggregate([{"$group": {"_id": None, "all": {"$push": "$pad"}}}])),
        lambda things: list(things.aggregate([{"$lookup": {"from": "large", "pipeline": [], "as": "all"}}])),
        lambda things: list(things.aggregate([{"$facet": {"a": [{"$sort": {"pad": 1}}], "b": [{"$sort": {"n": -1}}]}}])),
        lambda things: list(things.find().sort([("pad", 1), ("n", -1)]).max_time_ms(10_000)),
    ])
    with client(port) as server:
        return asked(lambda: run(fill(server[DATABASE], "large", 400, "p" * 200_000)))


@act
def compressed_bombs(port, chance):
    """Small frames that become large ones."""
    inner = message({"insert": "bombs", "$db": DATABASE, "documents": [{"a": "b" * 15_000_000}]})[16:] * 1
    packed = zlib.compress(inner, 9)
    body = struct.pack("<iiB", 2013, chance.choice([len(inner), 48_000_000]), 2) + packed
    frame = struct.pack("<iiii", 16 + len(body), 1, 0, 2012) + body
    connections = []
    try:
        for _ in range(chance.randrange(1, 20)):
            connection = connect(port)
            connection.sendall(frame)
            connections.append(connection)
        time.sleep(chance.random())
        return "sent"
    except OSError as error:
        return type(error).__name__
    finally:
        [connection.close() for connection in connections]


@act
def slow_readers(port, chance):
    """They ask for a lot and read nothing."""
    with client(port) as server:
        outcome = asked(lambda: fill(server[DATABASE], "large", 400, "p" * 200_000))
    connections = []
    try:
        for _ in range(chance.randrange(1, 30)):
            connection = connect(port)
            connection.sendall(message({"find": "large", "$db": DATABASE, "batchSize": 75}))
            connections.append(connection)
        time.sleep(chance.uniform(0.2, 3))
        return outcome
    except OSError as error:
        return type(error).__name__
    finally:
        [connection.close() for connection in connections]


@act
def gone_at_once(port, chance):
    """They ask for something that lasts and are gone."""
    pipeline = [{"$project": {"x": {"$reduce": {"input": {"$range": [0, 2_000_000]}, "initialValue": 0, "in": {"$add": ["$$value", 1]}}}}}]
    try:
        for _ in range(chance.randrange(1, 40)):
            connection = connect(port)
            connection.sendall(message({"aggregate": "few", "$db": DATABASE, "pipeline": pipeline, "cursor": {}}))
            connection.close()
        return "gone"
    except OSError as error:
        return type(error).__name__


@act
def forgotten_cursors(port, chance):
    with client(port) as server:
        things = server[DATABASE].large
        command = lambda: server[DATABASE].command("find", things.name, batchSize=chance.randrange(1, 3))
        return usual([asked(command) for _ in range(chance.randrange(10, 400))])


@act
def open_transactions(port, chance):
    """They begin, write, and never end."""
    with client(port) as server:
        def begin():
            session = server.start_session()
            session.start_transaction()
            server[DATABASE].few.insert_one({"pad": "p" * 1000}, session=session)

        return usual([asked(begin) for _ in range(chance.choice([20, 200, 2_000]))])


@act
def created_and_dropped(port, chance):
    """As tests of applications do."""
    with client(port) as server:
        def once():
            things = server[f"{DATABASE}_{chance.randrange(5)}"][f"c{chance.randrange(1 << 20)}"]
            things.create_index("a")
            things.insert_one({"a": 1})
            things.drop()

        outcomes = [asked(once) for _ in range(chance.randrange(10, 200))]
        server.drop_database(f"{DATABASE}_{chance.randrange(5)}")
        return usual(outcomes)


@act
def damaged_frames(port, chance):
    frame = bytearray(message(SON([("insert", "few"), ("$db", DATABASE), ("documents", [{"a": [1, {"b": "c"}]}])])))
    try:
        for _ in range(chance.randrange(1, 50)):
            damaged = bytearray(frame)
            for _ in range(chance.randrange(1, 6)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            connection = connect(port)
            connection.sendall(damaged)
            connection.close()
        return "sent"
    except OSError as error:
        return type(error).__name__


@act
def crowd(port, chance):
    """Connections that do nothing."""
    connections = []
    try:
        for _ in range(chance.randrange(10, 500)):
            connections.append(connect(port))
        time.sleep(chance.random())
        return "connected"
    except OSError as error:
        return type(error).__name__
    finally:
        [connection.close() for connection in connections]


@act
def large_inserts(port, chance):
    documents = [{"pad": "p" * 15_000_000} for _ in range(3)]
    with client(port) as server:
        outcome = asked(lambda: server[DATABASE].huge.insert_many(documents))
        server[DATABASE].huge.drop()
        return outcome


@act
def many_keys(port, chance):
    """One document with an array under many indexes."""
    with client(port) as server:
        things = server[DATABASE].keys
        count = chance.choice([20, 60])
        outcome = asked(lambda: [things.create_index([("a", 1), (f"b{number}", 1)]) for number in range(count)])
        if outcome == "answered":
            outcome = asked(lambda: things.insert_one({"a": list(range(chance.choice([1_000, 100_000, 1_000_000])))}))
        things.drop()
        return outcome
