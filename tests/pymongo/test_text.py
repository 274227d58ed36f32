"""Text indexes and $text: the manual's tutorials as typed, languages, scores, what is refused."""

import pytest
from pymongo import TEXT
from pymongo.errors import OperationFailure

SCORE = {"$meta": "textScore"}

# From the manual's page on $text.
ARTICLES = [
    {"_id": 1, "subject": "coffee", "author": "xyz", "views": 50},
    {"_id": 2, "subject": "Coffee Shopping", "author": "efg", "views": 5},
    {"_id": 3, "subject": "Baking a cake", "author": "abc", "views": 90},
    {"_id": 4, "subject": "baking", "author": "xyz", "views": 100},
    {"_id": 5, "subject": "Café Con Leche", "author": "abc", "views": 200},
    {"_id": 6, "subject": "Сырники", "author": "jkl", "views": 80},
    {"_id": 7, "subject": "coffee and cream", "author": "efg", "views": 10},
    {"_id": 8, "subject": "Cafe con Leche", "author": "xyz", "views": 10},
]


@pytest.fixture
def articles(collection):
    collection.insert_many(ARTICLES)
    collection.create_index([("subject", TEXT)])
    return collection


def found(collection, search, **options):
    text = {"$search": search, **{f"${name}": value for name, value in options.items()}}
    return sorted(document["_id"] for document in collection.find({"$text": text}))


def refused(code, call, *arguments, **options):
    with pytest.raises(OperationFailure) as caught:
        result = call(*arguments, **options)
        list(result) if hasattr(result, "next") else None
    assert caught.value.code == code, caught.value.details
    return caught.value.details["errmsg"]


def test_the_manual_on_text(articles):
    assert found(articles, "coffee") == [1, 2, 7]
    assert found(articles, "bake coffee cake") == [1, 2, 3, 4, 7]
    assert found(articles, '"coffee shop"') == [2]
    assert found(articles, "coffee -shop") == [1, 7]
    assert found(articles, "leche", language="es") == [5, 8]
    assert found(articles, "сы́рники CAFÉS") == [5, 6, 8]
    assert found(articles, "Coffee", caseSensitive=True) == [2]
    assert found(articles, '"Café Con Leche"') == [5, 8]
    assert found(articles, '"Café Con Leche"', caseSensitive=True) == [5]
    assert found(articles, '"Café con Leche"', diacriticSensitive=True) == [5]
    assert found(articles, "CAFÉ", diacriticSensitive=True) == [5]
    assert found(articles, "-coffee") == []
    assert found(articles, "") == []


def test_scores(articles):
    cursor = articles.find({"$text": {"$search": "cake"}}, {"score": SCORE})
    assert list(cursor) == [{**ARTICLES[2], "score": 0.75}]
    cursor = articles.find({"$text": {"$search": "coffee"}}, {"_id": 0, "subject": 1, "score": SCORE})
    ordered = list(cursor.sort([("score", SCORE)]).limit(2))
    assert [document["score"] for document in ordered] == [1.0, 0.75]
    assert set(ordered[0]) == {"subject", "score"}
    # The score need not be shown to be sorted by.
    ordered = articles.find({"author": "xyz", "$text": {"$search": "coffee bake"}}).sort({"score": SCORE, "views": -1})
    assert [document["_id"] for document in ordered] == [4, 1]
    refused(40218, articles.find, {"views": 5}, {"score": SCORE})
    refused(40218, lambda: list(articles.find({}).sort([("x", SCORE)])))


def test_in_a_pipeline(articles):
    match = {"$match": {"$text": {"$search": "cake tea bake"}}}
    assert list(articles.aggregate([match, {"$group": {"_id": None, "views": {"$sum": "$views"}}}])) == [{"_id": None, "views": 190}]
    shown = list(articles.aggregate([match, {"$sort": {"score": SCORE}}, {"$project": {"_id": 1, "score": SCORE}}]))
    assert shown == [{"_id": 3, "score": 1.5}, {"_id": 4, "score": 1.0}]
    shown = list(articles.aggregate([match, {"$sort": {"views": -1}}, {"$addFields": {"s": SCORE}}, {"$match": {"s": {"$gt": 1.0}}}, {"$unset": "views"}]))
    assert [(document["_id"], document["s"]) for document in shown] == [(3, 1.5)]
    grouped = list(articles.aggregate([match, {"$group": {"_id": SCORE, "count": {"$sum": 1}}}, {"$sort": {"_id": 1}}]))
    assert grouped == [{"_id": 1.0, "count": 1}, {"_id": 1.5, "count": 1}]
    # It goes along with the document.
    stages = [match, {"$project": {"views": [1, 2]}}, {"$unwind": "$views"}, {"$sort": {"views": -1, "_id": 1}}, {"$limit": 2}, {"$project": {"s": SCORE}}]
    assert [document["s"] for document in articles.aggregate(stages)] == [1.5, 1.0]
    refused(17313, articles.aggregate, [{"$limit": 5}, match])
    refused(40218, articles.aggregate, [{"$match": {"views": 5}}, {"$project": {"s": SCORE}}])
    refused(40218, articles.aggregate, [match, {"$group": {"_id": "$author"}}, {"$project": {"s": SCORE}}])


def test_the_manual_on_scores_in_groups(collection):
    titles = ["cakes and ale", "more cakes", "bread", "some cakes"]
    collection.insert_many([{"_id": number, "title": title} for number, title in enumerate(titles, 1)])
    collection.create_index([("title", TEXT)])
    stages = [{"$match": {"$text": {"$search": "cake"}}}, {"$group": {"_id": SCORE, "count": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    assert list(collection.aggregate(stages)) == [{"_id": 0.75, "count": 1}, {"_id": 1.0, "count": 2}]


def test_the_manual_on_languages(collection):
    collection.insert_many(
        [
            {
                "_id": 1,
                "language": "portuguese",
                "original": "A sorte protege os audazes.",
                "translation": [
                    {"language": "english", "quote": "Fortune favors the bold."},
                    {"language": "spanish", "quote": "La suerte protege a los audaces."},
                ],
            },
            {"_id": 2, "language": "spanish", "original": "Nada hay más surrealista que la realidad.", "translation": [{"language": "english", "quote": "There is nothing more surreal than reality."}]},
        ]
    )
    collection.create_index([("original", TEXT), ("translation.quote", TEXT)])
    assert found(collection, "fortune") == [1]
    assert found(collection, "realidad", language="spanish") == [2]
    assert found(collection, "the") == []
    assert found(collection, "audazes", language="portuguese") == [1]
    refused(17262, collection.insert_one, {"_id": 3, "language": "klingon", "original": "x"})
    refused(17261, collection.insert_one, {"_id": 3, "language": 5, "original": "x"})
    refused(2, found, collection, "x", language="klingon")


def test_the_index_is_listed_as_it_is_kept(collection):
    collection.create_index([("a", 1), ("content", TEXT), ("about", TEXT), ("b", -1)], weights={"content": 10, "keywords": 5}, default_language="fr", language_override="idioma")
    [_, listed] = collection.list_indexes()
    assert listed.to_dict() == {
        "v": 2,
        "key": {"a": 1, "_fts": "text", "_ftsx": 1, "b": -1},
        "name": "a_1_content_text_about_text_b_-1",
        "weights": {"about": 1, "content": 10, "keywords": 5},
        "default_language": "fr",
        "language_override": "idioma",
        "textIndexVersion": 3,
    }
    assert list(listed["weights"]) == ["about", "content", "keywords"]
    name = listed["name"]
    # The same again is nothing new, in the listed form, too.
    database = collection.database
    reply = database.command("createIndexes", collection.name, indexes=[listed.to_dict()])
    assert reply["note"] == "all indexes already exist"
    message = refused(67, collection.create_index, [("other", TEXT)])
    assert f'only one text index per collection allowed, found existing text index "{name}"' in message
    collection.drop_index(name)
    collection.create_index([("t", TEXT)])
    refused(85, collection.create_index, [("u", TEXT)])


def test_prefix_and_suffix(collection):
    collection.insert_many([{"_id": number, "a": number % 3, "t": "red shoes" if number % 2 else "blue hats", "b": number} for number in range(60)])
    collection.create_index([("a", 1), ("t", TEXT), ("b", 1)])
    filter = {"a": 1, "b": {"$lt": 30}, "$text": {"$search": "shoe"}}
    assert sorted(d["_id"] for d in collection.find(filter)) == [1, 7, 13, 19, 25]
    explained = collection.find(filter).explain()
    assert explained["executionStats"]["totalDocsExamined"] == 5
    plan = explained["queryPlanner"]["winningPlan"]
    assert (plan["stage"], plan["indexPrefix"], plan["textIndexVersion"]) == ("TEXT_MATCH", {"a": 1}, 3)
    assert plan["parsedTextQuery"] == {"terms": ["shoe"], "negatedTerms": [], "phrases": [], "negatedPhrases": []}
    assert plan["inputStage"]["stage"] == "FETCH"
    scored = collection.find(filter, {"s": SCORE}).explain()["queryPlanner"]["winningPlan"]
    assert scored["inputStage"]["inputStage"]["stage"] == "TEXT_OR"
    message = refused(291, found, collection, "shoe")
    assert "failed to use text index to satisfy $text query" in message
    refused(16675, collection.insert_one, {"_id": 100, "a": [1, 2], "t": "x"})
    # It serves nothing else.
    assert collection.find({"a": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"
    assert collection.distinct("a") == [0, 1, 2]


def test_in_an_or(articles):
    articles.create_index("views")
    filter = {"$or": [{"$text": {"$search": "cake"}}, {"views": 5}]}
    assert sorted(document["_id"] for document in articles.find(filter)) == [2, 3]
    refused(291, articles.find, {"$or": [{"$text": {"$search": "cake"}}, {"author": "abc"}]})


def test_what_is_refused(articles, database):
    database.no_index.insert_one({"_id": 1})
    assert "text index required for $text query" in refused(27, database.no_index.find, {"$text": {"$search": "x"}})
    text = {"$text": {"$search": "cake"}}
    refused(2, articles.find, {"$nor": [text]})
    refused(2, articles.find, {"$and": [text, text]})
    refused(2, lambda: list(articles.find(text).hint([("_id", 1)])))
    refused(2, lambda: list(articles.find(text).sort([("$natural", 1)])))
    refused(2, articles.find, {"a": {"$elemMatch": text}})
    refused(2, articles.find, {**text, "at": {"$near": [0, 0]}})
    articles.database.create_collection("seen", viewOn=articles.name, pipeline=[{"$match": {"views": {"$gt": 5}}}])
    refused(17313, articles.database.seen.find, text)
    refused(2, articles.find, {"$text": "cake"})
    refused(4, articles.find, {"$text": {"$caseSensitive": True}})
    refused(14, articles.find, {"$text": {"$search": 5}})
    refused(2, articles.find, {"$text": {"$search": "x", "$more": 1}})
    refused(2, database.command, "create", "validated", validator=text)
    for options, code in [
        ({"weights": {"subject": 0}}, 67),
        ({"default_language": "klingon"}, 67),
        ({"language_override": 5}, 67),
        ({"textIndexVersion": 4}, 67),
        ({"textIndexVersion": 1}, 238),
        ({"unique": True}, 67),
        ({"expireAfterSeconds": 5}, 67),
        ({"collation": {"locale": "fr"}}, 67),
    ]:
        refused(code, database.others.create_index, [("subject", TEXT)], **options)
    refused(67, database.others.create_index, [("a", TEXT), ("b", 1), ("c", TEXT)])
    refused(67, database.others.create_index, "a", weights={"a": 1})


def test_writes_find_by_text_and_keep_the_index(articles):
    text = {"$text": {"$search": "coffee"}}
    assert articles.update_many(text, {"$set": {"subject": "a green tea"}}).modified_count == 3
    assert found(articles, "coffee") == []
    assert found(articles, "teas") == [1, 2, 7]
    assert articles.find_one_and_delete({"$text": {"$search": "tea"}, "author": "xyz"})["_id"] == 1
    assert articles.delete_many({"$text": {"$search": "tea -cup"}}).deleted_count == 2
    assert articles.count_documents({"$text": {"$search": "tea cake"}}) == 1
    assert articles.distinct("author", {"$text": {"$search": "leche"}}) == ["abc", "xyz"]
    valid = articles.database.validate_collection(articles.name, full=True)
    assert valid["valid"] and valid["keysPerIndex"]["subject_text"] == 10
    articles.database.command("collMod", articles.name, index={"name": "subject_text", "hidden": True})
    refused(27, found, articles, "cake")
    assert articles.database.command("dbStats")["indexes"] >= 2


def test_all_fields_and_partial(collection):
    collection.insert_many([{"_id": 1, "x": {"y": ["deep words"]}, "n": 1}, {"_id": 2, "z": "words", "n": 5, "language": "none"}])
    collection.create_index([("$**", TEXT)], partialFilterExpression={"n": {"$gt": 0}}, weights={"z": 3})
    filter = {"$text": {"$search": "words", "$language": "none"}, "n": {"$gt": 0}}
    assert [document["_id"] for document in collection.find(filter)] == [2]
    filter["$text"] = {"$search": "word deeper"}
    assert [document["_id"] for document in collection.find(filter)] == [1]
    refused(291, found, collection, "word")
    assert collection.find_one({"$text": {"$search": "words", "$language": "none"}, "n": {"$gt": 1}}, {"s": SCORE})["s"] == pytest.approx(3.3)
