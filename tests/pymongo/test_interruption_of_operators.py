"""Every operator of filters, updates and expressions, again and again on large values, ends when its command is to.

By turns in one of the three ways, in all of them for the table (`interruption.py`). That each asks within one evaluation is tested beside the code.
"""

import datetime
import re

import bson
import pytest
from pymongo import MongoClient

from interruption import assert_ends, ways_of
from test_interruption import compatibility, registered

DATABASE = "operators"
ELEMENTS = 20_000


def implemented(section):
    """The names in a list of the generated page."""
    text = compatibility.split(f"\n## {section}\n")[1].split("\nNot implemented")[0].split("\n## ")[0]
    return set(re.findall(r"`(\$[A-Za-z]+)`", text))


@pytest.fixture(scope="module")
def filled(server):
    with MongoClient(server.uri) as client:
        database = client[DATABASE]
        database["large"].insert_one(
            {
                "_id": 1,
                "zero": 0,
                "half": 0.5,
                "six": 6,
                "yes": True,
                "date": datetime.datetime(2024, 2, 29),
                "time": bson.Timestamp(1, 1),
                "hex": "65f000000000000000000000",
                "day": "2024-02-29",
                "text": "a" * 500_000,
                "ints": list(range(ELEMENTS)),
                "yeses": [True] * ELEMENTS,
                "pairs": [[f"k{n}", n] for n in range(ELEMENTS)],
                "documents": [{"k": f"k{n}", "v": n} for n in range(ELEMENTS)],
                "fields": {f"f{n}": n for n in range(ELEMENTS)},
            }
        )
        for start in range(0, 600, 200):
            database["changed"].insert_many(
                [{"_id": n, "list": list(range(2000)), "fields": {f"f{m}": m for m in range(500)}} for n in range(start, start + 200)]
            )
        yield database
        client.drop_database(DATABASE)


def each(names, argument):
    return {f"${name}": argument for name in names.split()}


EXPRESSIONS = {
    **each("abs asin asinh acos atan atanh ceil cos cosh degreesToRadians exp floor ln log10 radiansToDegrees sin sinh sqrt tan tanh", "$half"),
    **each("round trunc toBool toDecimal toDouble toInt toLong toString type isNumber", "$half"),
    **each("atan2 divide log mod pow", ["$half", "$six"]),
    **each("acosh bitNot", "$six"),
    **each("bitAnd bitOr bitXor", "$ints"),
    **each("add multiply subtract", ["$half", "$six"]),
    **each("avg sum stdDevPop stdDevSamp max min first last size isArray reverseArray", "$ints"),
    **each("firstN lastN maxN minN", {"input": "$ints", "n": ELEMENTS // 2}),
    "$median": {"input": "$ints", "method": "approximate"},
    "$percentile": {"input": "$ints", "p": [0.5, 0.9], "method": "approximate"},
    **each("allElementsTrue anyElementTrue", ["$yeses"]),
    **each("cmp eq gt gte lt lte ne setEquals setIsSubset setDifference setIntersection setUnion concatArrays", ["$ints", "$ints"]),
    **each("and or", ["$yes", "$no", "$yes"]),
    **each("dateAdd dateSubtract", {"startDate": "$date", "unit": "month", "amount": "$six"}),
    **each("dayOfMonth dayOfWeek dayOfYear hour isoDayOfWeek isoWeek isoWeekYear millisecond minute month second week year toDate", "$date"),
    **each("tsIncrement tsSecond", "$time"),
    **each("binarySize strLenBytes strLenCP toLower toUpper", "$text"),
    **each("ltrim rtrim trim", {"input": "$text", "chars": "a"}),
    **each("substr substrBytes substrCP", ["$text", 1, 400_000]),
    **each("indexOfBytes indexOfCP", ["$text", "b"]),
    **each("regexFind regexFindAll regexMatch", {"input": "$text", "regex": "a[xy]"}),
    **each("replaceAll replaceOne", {"input": "$text", "find": "a", "replacement": "b"}),
    **each("literal const", 1),
    "$arrayElemAt": ["$ints", -1],
    "$arrayToObject": "$pairs",
    "$bsonSize": "$$ROOT",
    "$toHashedIndexKey": "$text",
    "$toArray": {"$concat": ["[", {"$reduce": {"input": {"$range": [0, 2000]}, "initialValue": "0", "in": {"$concat": ["$$value", ",1"]}}}, "]"]},
    "$toObject": {"$concat": ['{"a": "', "$text", '"}']},
    "$concat": ["$text", "$text"],
    "$cond": ["$no", 1, 2],
    "$convert": {"input": "$text", "to": "int", "onError": 0},
    "$dateDiff": {"startDate": "$date", "endDate": "$$NOW", "unit": "week"},
    "$dateFromParts": {"year": "$six"},
    "$dateFromString": {"dateString": "$day"},
    "$dateToParts": {"date": "$date"},
    "$createObjectId": {},
    "$dateToString": {"date": "$date"},
    "$dateTrunc": {"date": "$date", "unit": "quarter"},
    "$filter": {"input": "$ints", "cond": {"$lt": ["$$this", 0]}},
    "$function": {"body": "function(list) { return list.length; }", "args": ["$ints"], "lang": "js"},
    "$_internalJsEmit": {"eval": "function() { emit(this.x, 1); }", "this": "$fields"},
    "$getField": {"field": "x", "input": "$fields"},
    "$ifNull": ["$no", "$no", 1],
    "$in": [-1, "$ints"],
    "$indexOfArray": ["$ints", -1],
    "$let": {"vars": {"v": "$ints"}, "in": {"$size": "$$v"}},
    "$map": {"input": "$ints", "in": {"$add": ["$$this", 1]}},
    "$mergeObjects": ["$fields", "$fields"],
    "$not": "$ints",
    "$objectToArray": "$fields",
    "$rand": {},
    "$range": [0, {"$multiply": ["$six", 10_000]}],
    "$reduce": {"input": "$ints", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}},
    "$setField": {"field": "x", "input": "$fields", "value": 1},
    "$slice": ["$ints", ELEMENTS // 2],
    "$sortArray": {"input": "$ints", "sortBy": -1},
    "$split": ["$text", "a"],
    "$strcasecmp": ["$text", "$text"],
    "$switch": {"branches": [{"case": "$no", "then": 1}], "default": 0},
    "$sigmoid": "$six",
    "$toObjectId": "$hex",
    "$toUUID": {"$ifNull": ["$no", "867dee52-c331-484e-92d1-c56479b8e67e"]},
    "$unsetField": {"field": "x", "input": "$fields"},
    "$zip": {"inputs": ["$ints", "$ints"]},
}


def test_expressions_end(server, client, filled):
    # $meta reads one number.
    assert registered("Expressions") == set(EXPRESSIONS) | {"$meta"}
    for number, (name, argument) in enumerate(EXPRESSIONS.items()):
        # The comparison keeps the value from being left out.
        repeated = {"$reduce": {"input": {"$range": [0, 5_000_000]}, "initialValue": 0, "in": {"$cond": [{"$eq": [{name: argument}, "$$value"]}, 0, 1]}}}
        command = {"aggregate": "large", "pipeline": [{"$project": {"r": repeated}}], "cursor": {}}
        for way in ways_of(number):
            assert_ends(server, client, DATABASE, command, way, f"expression {name}")


FILTERS = {
    **{name: {"ints": {name: -1}} for name in ["$eq", "$lt", "$lte"]},
    **{name: {"ints": {name: ELEMENTS}} for name in ["$gt", "$gte"]},
    **{name: {"ints": {name: [-1]}} for name in ["$all", "$in"]},
    **{name: {"documents.v": {name: 1 << 30}} for name in ["$bitsAllSet", "$bitsAnySet"]},
    **{name: {"ints": {name: 0xFFFFFFFF}} for name in ["$bitsAllClear"]},
    "$bitsAnyClear": {"yeses": {"$bitsAnyClear": 1}},
    "$alwaysFalse": {"$alwaysFalse": 1},
    "$alwaysTrue": {"$nor": [{"$alwaysTrue": 1}]},
    "$and": {"$and": [{"ints": {"$lt": 0}}, {"documents.v": 5}]},
    "$comment": {"ints": -1, "$comment": "x"},
    "$elemMatch": {"documents": {"$elemMatch": {"v": -1, "k": "x"}}},
    "$geoIntersects": {"ints": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [0, 0]}}}},
    "$geoWithin": {"ints": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}},
    "$within": {"ints": {"$within": {"$center": [[0, 0], 1]}}},
    "$exists": {"documents.x": {"$exists": True}},
    "$expr": {"$expr": {"$in": [-1, "$ints"]}},
    "$jsonSchema": {"$jsonSchema": {"properties": {"ints": {"items": {"minimum": 0}}}, "required": ["absent"]}},
    "$mod": {"ints": {"$mod": [ELEMENTS, ELEMENTS - 1 << 1]}},
    "$ne": {"ints": {"$ne": 5}},
    "$nin": {"ints": {"$nin": [ELEMENTS - 1]}},
    "$nor": {"$nor": [{"ints": ELEMENTS - 1}]},
    "$not": {"ints": {"$not": {"$gte": ELEMENTS - 1}}},
    "$options": {"documents.k": {"$regex": "X", "$options": "i"}},
    "$or": {"$or": [{"ints": -1}, {"documents.v": -1}]},
    "$regex": {"text": {"$regex": "a[xy]"}},
    "$sampleRate": {"$sampleRate": 0.0},
    "$size": {"ints": {"$size": 1}},
    "$type": {"ints": {"$type": "string"}},
}


def test_filters_end(server, client, filled):
    # These are not for pipelines, or for their first stage alone: test_scripts.py, `$geoNear` among the stages, and
    # the tests of `text_search`.
    apart = {"$where", "$geoNear", "$near", "$nearSphere", "$minDistance", "$maxDistance", "$text"}
    assert implemented("Query operators") == set(FILTERS) | apart
    many = [{"$project": {"n": {"$range": [0, 2_000_000]}, "ints": 1, "yeses": 1, "documents": 1, "text": 1}}, {"$unwind": "$n"}]
    for number, (name, condition) in enumerate(FILTERS.items()):
        # It is asked of each document, as it is about each one's number.
        command = {"aggregate": "large", "pipeline": [*many, {"$match": {"$or": [condition, {"n": -1}]}}], "cursor": {}}
        for way in ways_of(number):
            assert_ends(server, client, DATABASE, command, way, f"filter {name}")


def on_fields(operand):
    return {f"fields.f{n}": operand for n in range(0, 500, 20)}


UPDATES = {
    "$addToSet": {"list": {"$each": [-1, -2]}},
    "$bit": on_fields({"xor": 1}),
    "$currentDate": on_fields(True),
    "$inc": on_fields(1),
    "$max": on_fields(1 << 40),
    "$min": on_fields(-1),
    "$mul": on_fields(2),
    "$pop": {"list": 1},
    "$pull": {"list": {"$mod": [7, 0]}},
    "$pullAll": {"list": list(range(100))},
    "$push": {"list": {"$each": [7], "$sort": -1}},
    "$rename": {f"fields.f{n}": f"fields.r{n}" for n in range(0, 500, 20)},
    "$set": on_fields("x"),
    "$setOnInsert": on_fields(1),
    "$unset": on_fields(1),
}


def test_updates_end(server, client, filled):
    assert implemented("Update operators") == set(UPDATES)
    for number, (name, changes) in enumerate(UPDATES.items()):
        statement = {"q": {}, "u": {name: changes}, "multi": True}
        # As often as a command is shown whole.
        command = {"update": "changed", "updates": [statement] * (3500 // len(bson.encode(statement)))}
        for way in ways_of(number):
            # What writes goes on without its client, and what changes nothing is soon done.
            if way != "client gone":
                assert_ends(server, client, DATABASE, command, way, f"update {name}", may_be_done=True)
