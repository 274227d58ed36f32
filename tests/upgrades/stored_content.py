"""What the kept data directories hold: a little of everything that is stored, written by `write`, compared by `check`.

Called by `keep_format.py`, which makes a directory with it, and by `test_upgrades.py`, which opens the directories of earlier builds. What is here never
changes for what is kept already: something new gets a function of its own, and is looked for in directories that are newer than it.
"""

import datetime
import uuid

import bson
from pymongo import ASCENDING, DESCENDING, GEOSPHERE, HASHED, TEXT
from pymongo.errors import WriteError
from pymongo.write_concern import WriteConcern

DATABASE = "kept"
SOME = 120
BEGINNING = datetime.datetime(2026, 1, 1)


def document(number):
    """Values of every type, in a nested document and an array, too."""
    return {
        "_id": number,
        "int": number,
        "long": bson.Int64(number * 10_000_000_000),
        "double": number / 7,
        "decimal": bson.Decimal128(f"{number}.50"),
        "text": "text " * (number % 5) + str(number),
        "date": BEGINNING + datetime.timedelta(hours=number),
        "id": bson.ObjectId(f"{number:024x}"),
        "uuid": bson.Binary.from_uuid(uuid.UUID(int=number)),
        "bytes": bytes([number % 256]) * 9,
        "pattern": bson.Regex("^a", "i"),
        "timestamp": bson.Timestamp(number, 1),
        "nothing": None,
        "truth": number % 2 == 0,
        "least": bson.MinKey(),
        "most": bson.MaxKey(),
        "code": bson.Code("function () { return 1 }"),
        "tags": ["odd" if number % 2 else "even", number % 7],
        "inside": {"deep": {"number": number % 11}, "list": [{"x": number % 3}, {"x": number % 4}]},
        "place": {"type": "Point", "coordinates": [number % 180, number % 90]},
    }


def long_text(number):
    """Longer than a tree's key; all begin alike."""
    return "k" * 3_000 + f"{number:03}"


def write(client):
    """Writes it all into an empty server."""
    database = client[DATABASE]
    plain = database["plain"]
    plain.create_index([("int", ASCENDING), ("text", DESCENDING)], name="compound")
    plain.insert_many(document(number) for number in range(SOME))
    # Built over what is there, beside those that came before.
    plain.create_index("tags", name="multikey")
    plain.create_index([("place", GEOSPHERE)], name="sphere")
    plain.create_index([("text", TEXT)], name="words")
    plain.create_index([("int", HASHED)], name="hashed")
    plain.create_index("inside.$**", name="wildcard")
    plain.create_index("double", name="part", partialFilterExpression={"truth": True})
    plain.update_many({"int": {"$gte": 100}}, {"$set": {"changed": True}, "$push": {"tags": "late"}})
    plain.delete_many({"int": {"$in": [7, 77]}})

    large = database["large"]
    large.insert_many({"_id": number, "text": "x" * 40_000 + str(number)} for number in range(3))
    long = database["long"]
    long.create_index("text", unique=True)
    long.insert_many({"_id": number, "text": long_text(number)} for number in range(20))

    database.create_collection("ring", capped=True, size=65_536, max=50)
    database["ring"].insert_many({"_id": number} for number in range(SOME))
    database.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database["clustered"].insert_many({"_id": f"k{number:04}", "n": number} for number in range(SOME))
    database.create_collection("series", timeseries={"timeField": "at", "metaField": "who", "granularity": "seconds"})
    at = (BEGINNING + datetime.timedelta(seconds=10 * number) for number in range(SOME))
    database["series"].insert_many({"at": time, "who": index % 3, "value": index / 4} for index, time in enumerate(at))
    database.create_collection("judged", validator={"n": {"$gte": 0}})
    database["judged"].insert_one({"_id": 1, "n": 1})
    database.create_collection("german", collation={"locale": "de", "strength": 1})
    database["german"].insert_many({"_id": number, "word": word} for number, word in enumerate(["Ä", "a", "z", "A"]))
    database.create_collection("seen", viewOn="plain", pipeline=[{"$match": {"truth": True}}, {"$project": {"int": 1}}])
    database["expiring"].create_index("at", expireAfterSeconds=1_000_000_000)
    database["expiring"].insert_one({"_id": 1, "at": BEGINNING})
    with client.start_session() as session, session.start_transaction():
        database["plain"].insert_one({"_id": "in a transaction"}, session=session)
        database["judged"].insert_one({"_id": 2, "n": 2}, session=session)
    client.admin.command("createUser", "ada", pwd="secret", roles=[{"role": "readWrite", "db": DATABASE}])
    make_durable(client)


def make_durable(client):
    """What was acknowledged until now outlasts a kill: one more write waits for the disk."""
    marked = client[DATABASE].get_collection("marked", write_concern=WriteConcern(w=1, j=True))
    marked.replace_one({"_id": 1}, {"_id": 1}, upsert=True)


def expected_plain():
    """The documents of `plain`, by their ids."""
    documents = [document(number) for number in range(SOME) if number not in (7, 77)]
    for changed in documents:
        if changed["int"] >= 100:
            changed["changed"] = True
            changed["tags"].append("late")
    return {found["_id"]: found for found in [*documents, {"_id": "in a transaction"}]}


def check(client):
    """Everything is there, can be found by each index, and can be changed."""
    database = client[DATABASE]
    plain = database["plain"]
    expected = expected_plain()
    assert {found["_id"]: found for found in plain.find()} == expected

    for name, query, wanted in [
        ("compound", {"int": {"$gt": 90}}, lambda d: d.get("int", -1) > 90),
        ("multikey", {"tags": "late"}, lambda d: "late" in d.get("tags", [])),
        ("hashed", {"int": 42}, lambda d: d.get("int") == 42),
        ("wildcard", {"inside.deep.number": 3}, lambda d: d.get("inside", {}).get("deep", {}).get("number") == 3),
        ("part", {"double": {"$gt": 3}, "truth": True}, lambda d: d.get("double", 0) > 3 and d.get("truth")),
    ]:
        found = {one["_id"] for one in plain.find(query).hint(name)}
        assert found == {one["_id"] for one in expected.values() if wanted(one)}, name
    assert plain.count_documents({"$text": {"$search": "text"}}) == sum("text " in d.get("text", "") for d in expected.values())
    near = {"$geoWithin": {"$centerSphere": [[10, 10], 0.05]}}
    assert {one["_id"] for one in plain.find({"place": near})} == {8, 9, 10, 11, 12}

    assert [len(one["text"]) for one in database["large"].find(sort=[("_id", 1)])] == [40_001] * 3
    found = [one["_id"] for one in database["long"].find({"text": {"$gte": long_text(5)}}).hint("text_1").sort("text", 1)]
    assert found == list(range(5, 20))
    assert [one["_id"] for one in database["ring"].find()] == list(range(SOME - 50, SOME))
    assert [one["n"] for one in database["clustered"].find({"_id": {"$gte": "k0100"}})] == list(range(100, SOME))
    series = list(database["series"].find({"who": 1}, {"_id": 0}).sort("at", 1))
    assert [one["value"] for one in series] == [index / 4 for index in range(1, SOME, 3)]
    try:
        database["judged"].insert_one({"_id": 3, "n": -1})
        raise AssertionError("the validator is gone")
    except WriteError as error:
        assert error.code == 121
    assert [one["_id"] for one in database["judged"].find(sort=[("_id", 1)])] == [1, 2]
    assert database["german"].count_documents({"word": "a"}) == 3
    assert database["seen"].count_documents({}) == sum(bool(one.get("truth")) for one in expected.values())
    assert database["expiring"].index_information()["at_1"]["expireAfterSeconds"] == 1_000_000_000
    assert [user["user"] for user in client.admin.command("usersInfo", 1)["users"]] == ["ada"]
    for name in database.list_collection_names(filter={"type": {"$ne": "view"}}):
        outcome = database.command("validate", name, full=True)
        assert outcome["valid"], (name, outcome)


def change(client):
    """New things beside the old ones, and then the old ones as they were."""
    database = client[DATABASE]
    plain = database["plain"]
    plain.insert_many(document(number) for number in range(1_000, 1_100))
    plain.update_many({"_id": {"$lt": 50}}, {"$inc": {"int": 1}})
    plain.update_many({"_id": {"$lt": 50}}, {"$inc": {"int": -1}})
    plain.delete_many({"_id": {"$gte": 1_000}})
    database["series"].insert_one({"at": BEGINNING, "who": 9, "value": 1.0})
    database["series"].delete_many({"who": 9})
    database["new"].insert_one({"_id": 1})
    database["new"].drop()
    make_durable(client)
