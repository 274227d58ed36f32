"""Regular expressions: PCRE2's dialect, index bounds, and matches that would take minutes."""

import re
import threading
import time

import pytest
from pymongo.errors import ExecutionTimeout, OperationFailure

# Each takes long on its text, in a way of its own; `[xy]` is nothing that PCRE2 could look for first.
ENDLESS = {
    "nested repeats": ("(a+)+[xy]", "a" * 5000),
    "steps back from each position": ("a*a*[xy]", "a" * 4000),
    "a chain of repeats": (".*.*.*.*.*[bc].*[xy]", "a" * 50_000),
    "a long pattern on a long text": ("(?:" + "a?" * 16_000 + ")[xy]", "a" * 100_000),
    "many alternatives": ("(?:" + "|".join(f"a{number}" for number in range(5000)) + "|a)*[xy]", "a" * 100_000),
    "alternatives at each position": ("|".join(rf"a{number}\d" for number in range(3000)), "a" * 100_000),
}


@pytest.mark.parametrize(
    "pattern, matching",
    [
        (r"^\p{L}+$", ["né", "漢", "aa"]),
        (r"\p{Han}", ["漢"]),
        (r"^n\x{e9}$", ["né"]),
        (r"^(?<n>a)\k{n}$", ["aa"]),
        (r"^(a)\g{1}$", ["aa"]),
        (r"^\o{141}\141$", ["aa"]),
        (r"^a\011$", ["a\t"]),
        (r"^a\cI$", ["a\t"]),
        (r"^(a)(?1)$", ["aa"]),
        (r"^a(?R)?a$", ["aa"]),
        (r"^(?|(a)|(b))\1$", ["aa"]),
        (r"^(a)?(?(1)a|b)$", ["aa"]),
        (r"(*UCP)^n\w$", ["né"]),
        (r"^n\w$", []),
        (r"(*CR)^x$", []),
        (r"(?m)^x$", ["x\ny"]),
        (r"(*LIMIT_MATCH=1000)^aa$", ["aa"]),
    ],
)
def test_the_dialect(collection, pattern, matching):
    collection.insert_many({"s": text} for text in ["né", "漢", "aa", "a\t", "x\ny"])
    assert [found["s"] for found in collection.find({"s": {"$regex": pattern}})] == matching
    in_expression = {"$expr": {"$regexMatch": {"input": "$s", "regex": pattern}}}
    assert [found["s"] for found in collection.find(in_expression)] == matching


@pytest.mark.parametrize("options", ["I", "g", "l", "iz"])
def test_unknown_options(collection, options):
    wrong = next(letter for letter in options if letter not in "imsxu")
    with pytest.raises(OperationFailure, match=f"invalid flag in regex options: {wrong}") as error:
        collection.find_one({"a": {"$regex": "x", "$options": options}})
    assert error.value.code == 51108
    stage = {"$project": {"found": {"$regexFind": {"input": "a", "regex": "x", "options": options}}}}
    with pytest.raises(OperationFailure) as error:
        list(collection.aggregate([stage]))
    assert error.value.code == 51108


def test_patterns_that_are_refused(collection):
    for pattern, code in [("a" * 32_765, 2), ("(", 51091), ("a\0b", 2), (r"\p{Nonsense}", 51091)]:
        with pytest.raises(OperationFailure) as error:
            collection.find_one({"a": {"$regex": pattern}})
        assert error.value.code == code
    assert collection.find_one({"a": {"$regex": "a" * 32_764}}) is None


def test_index_bounds_of_prefixes(collection):
    collection.insert_many({"s": text} for text in ["a", "a|b", "a|c", "ab", "b|"])
    collection.create_index("s")
    for pattern, bounds, matching in [
        (r"^a\|", '["a|", "a}")', ["a|b", "a|c"]),
        (r"^\Qa|\Ec", '["a|c", "a|d")', ["a|c"]),
        (r"^a|b", '["", {})', ["a", "ab", "a|b", "a|c", "b|"]),
    ]:
        query = collection.find({"s": {"$regex": pattern}}).hint("s_1")
        stage = query.explain()["queryPlanner"]["winningPlan"]
        while stage["stage"] != "IXSCAN":
            stage = stage["inputStage"]
        assert stage["indexBounds"]["s"][0] == bounds
        assert sorted(found["s"] for found in query) == matching


@pytest.mark.parametrize("name", ENDLESS)
def test_a_match_obeys_max_time_ms(collection, name):
    pattern, text = ENDLESS[name]
    collection.insert_one({"s": text})
    requests = [
        lambda: list(collection.find({"s": {"$regex": pattern}}).max_time_ms(300)),
        lambda: list(
            collection.aggregate(
                [{"$project": {"f": {"$regexFindAll": {"input": "$s", "regex": pattern}}}}], maxTimeMS=300
            )
        ),
        lambda: collection.database.command(
            "update",
            collection.name,
            updates=[{"q": {"s": {"$regex": pattern}}, "u": {"$set": {"x": 1}}, "multi": True}],
            maxTimeMS=300,
        ),
    ]
    for request in requests:
        began = time.monotonic()
        try:
            reply = request()
        except ExecutionTimeout:
            pass
        except OperationFailure as error:
            assert error.code == 51156, error
        else:
            # An update says in its reply what happened; some patterns come to their end.
            errors = reply.get("writeErrors", []) if isinstance(reply, dict) else []
            assert all(error["code"] in (50, 51156) for error in errors), errors
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["nested repeats", "steps back from each position", "a chain of repeats", "many alternatives"])
def test_a_match_can_be_killed(collection, client, name):
    pattern, text = ENDLESS[name]
    collection.insert_one({"s": text})
    outcome = []

    def search():
        try:
            outcome.append(list(collection.find({"s": {"$regex": pattern}}).comment("endless")))
        except OperationFailure as error:
            outcome.append(error.code)

    thread = threading.Thread(target=search)
    thread.start()
    while not outcome:
        for operation in client.admin.command({"currentOp": 1, "command.comment": "endless"})["inprog"]:
            client.admin.command("killOp", op=operation["opid"])
        time.sleep(0.01)
    thread.join()
    assert outcome == [11601]


def test_a_match_that_steps_back_too_often_says_so(collection):
    collection.insert_one({"s": "a" * 40 + "b"})
    with pytest.raises(OperationFailure, match="match limit exceeded") as error:
        collection.find_one({"s": {"$regex": "^(a+)+$"}})
    assert error.value.code == 51156


def test_python_agrees_on_simple_patterns(collection):
    """What both understand alike, on texts of all kinds, with and without an index."""
    texts = ["", "a", "ab", "abc", "xabc", "a\nb", "a.b", "AB", "ab ab", "a|b", "\n", "ab\n"]
    collection.insert_many({"s": text} for text in texts)
    patterns = ["a", "^a", "b$", "^ab$", "a.b", r"a\.b", "a|b", r"a\|b", "^$", "(ab)+", "[ab]c", "a*?b", r"\bab\b", "^ab "]
    for pattern in patterns:
        expected = sorted(text for text in texts if re.search(pattern, text, re.ASCII))
        for _ in range(2):
            assert sorted(found["s"] for found in collection.find({"s": {"$regex": pattern}})) == expected, pattern
            collection.create_index("s")
        collection.drop_indexes()
