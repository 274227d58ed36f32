"""A shop on mongoengine: documents with indexes, references, inheritance, atomic changes.

Called by test_applications.py with the address of a replica set. Prints "done" at the end.
"""

import sys

import mongoengine
from mongoengine import errors, fields


class Customer(mongoengine.Document):
    email = fields.EmailField(required=True, unique=True)
    addresses = fields.ListField(fields.DictField())


class Product(mongoengine.Document):
    meta = {"allow_inheritance": True, "indexes": ["title", ("price", "-left")]}
    sku = fields.StringField(primary_key=True)
    title = fields.StringField()
    price = fields.Decimal128Field(min_value=0)
    left = fields.IntField(default=0)


class Ink(Product):
    colour = fields.StringField(choices=("black", "blue"))


class Line(mongoengine.EmbeddedDocument):
    product = fields.ReferenceField(Product, reverse_delete_rule=mongoengine.DO_NOTHING)
    count = fields.IntField(min_value=1)


class Order(mongoengine.Document):
    meta = {"indexes": [{"fields": ["customer"]}, {"fields": ["lines.product"], "sparse": True}], "ordering": ["-id"]}
    customer = fields.ReferenceField(Customer, reverse_delete_rule=mongoengine.CASCADE)
    lines = fields.EmbeddedDocumentListField(Line)
    status = fields.StringField(default="new")


def refused(error, call):
    """Whether a call fails with this error."""
    try:
        call()
    except error:
        return True
    return False


def main(uri):
    client = mongoengine.connect("shop_mongoengine", host=uri)
    assert client.admin.command("hello")["setName"] == "rs0"
    ada = Customer(email="ada@example.com", addresses=[{"city": "London"}]).save()
    assert refused(errors.NotUniqueError, lambda: Customer(email="ada@example.com").save())
    Product(sku="pen", title="Pen", price="12.50", left=3).save()
    Ink(sku="ink", title="Ink", price="3.10", left=9, colour="black").save()
    assert refused(errors.ValidationError, lambda: Ink(sku="x", colour="red").save())
    assert [product.sku for product in Product.objects.order_by("sku")] == ["ink", "pen"]
    assert Ink.objects.get().colour == "black"
    order = Order(customer=ada, lines=[Line(product="pen", count=2)]).save()
    assert Product.objects(sku="pen", left__gte=2).update_one(dec__left=2) == 1
    assert Product.objects(sku="pen", left__gte=2).update_one(dec__left=2) == 0
    order.modify({"status": "new"}, set__status="paid")
    order.lines.append(Line(product="ink", count=1))
    order.save()
    found = Order.objects(lines__product="ink").select_related()
    assert found[0].lines[0].product.title == "Pen" and found[0].customer.email == "ada@example.com"
    assert Order.objects.aggregate([{"$unwind": "$lines"}, {"$group": {"_id": None, "n": {"$sum": "$lines.count"}}}]).next()["n"] == 3
    assert Product.objects(sku="nib").upsert_one(set__title="Nib", set__left=1).title == "Nib"
    # Without sessions of its own; those of the driver are around it.
    with client.start_session() as session, session.start_transaction():
        Customer._get_collection().insert_one({"email": "bob@example.com"}, session=session)
        session.abort_transaction()
    assert Customer.objects.count() == 1
    ada.delete()
    assert Order.objects.count() == 0
    assert {index["name"] for index in Product._get_collection().list_indexes()} >= {"_id_", "_cls_1_title_1", "_cls_1_price_1_left_-1"}
    print("done")


main(sys.argv[1])
