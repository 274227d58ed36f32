"""A shop on Beanie: documents with indexes, links that are fetched and deleted, bulk writes, transactions, migrations of a field.

Called by test_applications.py with the address of a replica set. Prints "done" at the end.
"""

import asyncio
import sys
from decimal import Decimal

import pymongo
from beanie import BulkWriter, DecimalAnnotation, DeleteRules, Document, Indexed, Link, WriteRules, init_beanie
from beanie.operators import Inc, Set
from pydantic import BaseModel, Field
from pymongo.errors import DuplicateKeyError


class Product(Document):
    sku: Indexed(str, unique=True)
    price: DecimalAnnotation
    left: int = 0

    class Settings:
        indexes = [[("price", pymongo.ASCENDING), ("left", pymongo.DESCENDING)]]
        use_revision = True


class Customer(Document):
    email: Indexed(str, unique=True)


class Line(BaseModel):
    sku: str
    count: int


class Order(Document):
    customer: Link[Customer]
    lines: list[Line]
    status: str = "new"


class Count(BaseModel):
    id: str = Field(alias="_id")
    count: int


async def shop(database):
    pen = Product(sku="pen", price=Decimal("12.50"), left=3)
    await pen.insert()
    await Product.insert_many([Product(sku="ink", price=Decimal("3.10"), left=9), Product(sku="nib", price=Decimal("1"))])
    try:
        await Product(sku="pen", price=Decimal("1")).insert()
        raise AssertionError("two products of one key")
    except DuplicateKeyError:
        pass
    order = Order(customer=Customer(email="ada@example.com"), lines=[Line(sku="pen", count=2), Line(sku="ink", count=1)])
    await order.insert(link_rule=WriteRules.WRITE)
    assert (await Order.find_one(Order.status == "new", fetch_links=True)).customer.email == "ada@example.com"
    ada = await Customer.find_one(Customer.email == "ada@example.com")
    assert await Order.find(Order.customer.id == ada.id).count() == 1
    await Product.find_one(Product.sku == "pen").update(Inc({Product.left: -2}))
    assert (await Product.get(pen.id)).left == 1
    counted = await Order.aggregate(
        [{"$unwind": "$lines"}, {"$group": {"_id": "$lines.sku", "count": {"$sum": "$lines.count"}}}, {"$sort": {"_id": 1}}],
        projection_model=Count,
    ).to_list()
    assert [(found.id, found.count) for found in counted] == [("ink", 1), ("pen", 2)]
    async with BulkWriter() as bulk:
        await Product.find(Product.left == 0).update(Set({Product.left: 4}), bulk_writer=bulk)
        await Product.find_one(Product.sku == "ink").delete(bulk_writer=bulk)
    assert [product.left for product in await Product.find_all().sort("+sku").to_list()] == [4, 1]
    client = database.client
    async with client.start_session() as session:
        async with await session.start_transaction():
            await Product(sku="cap", price=Decimal("2")).insert(session=session)
            await session.abort_transaction()
        async with await session.start_transaction():
            await Product(sku="cap", price=Decimal("3")).insert(session=session)
    assert str((await Product.find_one(Product.sku == "cap")).price) == "3"
    await (await Order.find_one(fetch_links=True)).delete(link_rule=DeleteRules.DELETE_LINKS)
    assert await Customer.count() == 0


async def main(uri):
    client = pymongo.AsyncMongoClient(uri)
    assert (await client.admin.command("hello"))["setName"] == "rs0"
    database = client["shop_beanie"]
    await init_beanie(database=database, document_models=[Product, Customer, Order])
    await shop(database)
    await client.close()
    print("done")


asyncio.run(main(sys.argv[1]))
