"""explain: which plan, at three verbosities, for the commands that take it."""

import pytest
from pymongo.errors import OperationFailure


@pytest.fixture
def numbers(collection):
    collection.insert_many([{"_id": i, "a": i % 100, "b": i} for i in range(1000)])
    collection.create_index([("a", 1), ("b", -1)])
    return collection


def stages(plan):
    """The names of a plan's stages, from the top."""
    names = [plan["stage"]]
    for child in [plan.get("inputStage"), *plan.get("inputStages", [])]:
        if child:
            names += stages(child)
    return names


def explain(collection, verbosity="executionStats", **command):
    return collection.database.command("explain", {"find": collection.name, **command}, verbosity=verbosity)


def test_collection_scan(numbers):
    reply = explain(numbers, filter={"b": 5})
    plan = reply["queryPlanner"]["winningPlan"]
    assert stages(plan) == ["COLLSCAN"]
    assert plan["direction"] == "forward"
    statistics = reply["executionStats"]
    assert statistics["executionSuccess"] is True
    assert (statistics["nReturned"], statistics["totalDocsExamined"], statistics["totalKeysExamined"]) == (1, 1000, 0)


def test_index_scan(numbers):
    reply = explain(numbers, filter={"a": 5, "b": {"$gte": 500}})
    plan = reply["queryPlanner"]["winningPlan"]
    assert stages(plan) == ["FETCH", "IXSCAN"]
    scan = plan["inputStage"]
    assert scan["indexName"] == "a_1_b_-1"
    assert scan["keyPattern"] == {"a": 1, "b": -1}
    assert scan["isMultiKey"] is False
    assert scan["indexBounds"] == {"a": ["[5, 5]"], "b": ["[inf.0, 500]"]}
    statistics = reply["executionStats"]
    assert statistics["nReturned"] == 5 and statistics["totalDocsExamined"] == 5
    assert statistics["totalKeysExamined"] in (5, 6)


def test_a_covered_query_fetches_nothing(numbers):
    reply = explain(numbers, filter={"a": 5}, projection={"_id": 0, "a": 1, "b": 1})
    assert "FETCH" not in stages(reply["queryPlanner"]["winningPlan"])
    assert reply["executionStats"]["totalDocsExamined"] == 0


def test_sort_by_index_and_in_memory(numbers):
    assert "SORT" not in stages(explain(numbers, filter={"a": 5}, sort={"b": -1})["queryPlanner"]["winningPlan"])
    assert "SORT" not in stages(explain(numbers, filter={"a": 5}, sort={"b": 1})["queryPlanner"]["winningPlan"])
    assert "SORT" in stages(explain(numbers, sort={"b": 1})["queryPlanner"]["winningPlan"])


def test_by_identifier(numbers):
    names = stages(explain(numbers, filter={"_id": 5})["queryPlanner"]["winningPlan"])
    assert names in (["IDHACK"], ["FETCH", "IXSCAN"], ["EXPRESS_IXSCAN"])


def test_verbosities(numbers):
    assert "executionStats" not in explain(numbers, "queryPlanner", filter={"a": 1})
    assert "executionStats" in explain(numbers, "executionStats", filter={"a": 1})
    assert "executionStats" in explain(numbers, "allPlansExecution", filter={"a": 1})
    with pytest.raises(OperationFailure) as caught:
        explain(numbers, "everything")
    assert (caught.value.code, caught.value.details["codeName"]) == (2, "BadValue")


def test_the_reply_names_namespace_and_server(numbers):
    reply = explain(numbers, filter={"a": 1})
    assert reply["queryPlanner"]["namespace"] == numbers.full_name
    assert reply["queryPlanner"]["parsedQuery"] == {"a": {"$eq": 1}}
    assert reply["queryPlanner"]["rejectedPlans"] == []
    assert reply["serverInfo"]["port"] > 0
    assert reply["ok"] == 1.0


def test_explain_of_writes_changes_nothing(numbers):
    updates = [{"q": {"a": 1}, "u": {"$set": {"z": 1}}, "multi": True}]
    reply = numbers.database.command("explain", {"update": numbers.name, "updates": updates})
    assert reply["queryPlanner"]["winningPlan"]["stage"] == "UPDATE"
    reply = numbers.database.command("explain", {"delete": numbers.name, "deletes": [{"q": {"a": 1}, "limit": 0}]})
    assert reply["queryPlanner"]["winningPlan"]["stage"] in ("DELETE", "BATCHED_DELETE")
    assert numbers.count_documents({"z": 1}) == 0 and numbers.count_documents({}) == 1000


@pytest.mark.parametrize("command", [{"count": "things", "query": {"a": 1}}, {"distinct": "things", "key": "a"}])
def test_explain_of_count_and_distinct(numbers, command):
    assert numbers.database.command("explain", command)["queryPlanner"]["winningPlan"]["stage"]


def test_cursor_explain(numbers):
    assert numbers.find({"a": 1}).explain()["executionStats"]["nReturned"] == 10


def test_explain_of_an_absent_collection(database):
    reply = database.command("explain", {"find": "absent", "filter": {"a": 1}})
    assert reply["queryPlanner"]["winningPlan"]["stage"] == "EOF"


@pytest.mark.parametrize(
    "command, code",
    [({"ping": 1}, 20), ({"insert": "things", "documents": [{}]}, 20), ({"nonsense": 1}, 59), ({}, 59), ({"find": "things", "$db": 5}, 14)],
)
def test_explain_of_a_command_that_has_no_plan(database, command, code):
    with pytest.raises(OperationFailure) as caught:
        database.command("explain", command)
    assert caught.value.code == code and caught.value.details["codeName"]
