// A shop on TypeORM: entities with declared indexes (whose options it sends as null), repositories, embedded documents.
// Called by test_applications.py with the address of a replica set and the node_modules folder. Prints "done" at the end.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [uri, modules] = process.argv.slice(2);
const require = createRequire(join(modules, "index.js"));
require("reflect-metadata");
const { DataSource, EntitySchema } = require("typeorm");

const Product = new EntitySchema({
  name: "Product",
  columns: {
    id: { type: String, primary: true, objectId: true, generated: true },
    sku: { type: String },
    left: { type: Number },
    created: { type: Date, createDate: true },
    version: { type: Number, version: true },
  },
  indices: [{ columns: ["sku"], unique: true }, { columns: ["left", "sku"] }],
});
const Order = new EntitySchema({
  name: "Order",
  columns: {
    id: { type: String, primary: true, objectId: true, generated: true },
    customer: { type: String },
    lines: { type: Array },
  },
  indices: [{ columns: ["customer"] }],
});

const source = new DataSource({ type: "mongodb", url: uri, database: "shop_typeorm", entities: [Product, Order], synchronize: true });
await source.initialize();
const products = source.getMongoRepository(Product);
const orders = source.getMongoRepository(Order);
const indexes = await products.collectionIndexes();
assert.equal(indexes.length, 3);
assert.equal(indexes.filter((index) => index.unique).length, 1);

const pen = await products.save({ sku: "pen", left: 3 });
await products.save([{ sku: "ink", left: 10 }, { sku: "nib", left: 0 }]);
await assert.rejects(products.save({ sku: "pen", left: 1 }), { code: 11000 });
await orders.save({ customer: "ada", lines: [{ sku: "pen", count: 2 }] });

const found = await products.findOneBy({ sku: "pen" });
assert.equal(found.id.toString(), pen.id.toString());
found.left -= 2;
await products.save(found);
assert.equal((await products.findOneBy({ sku: "pen" })).left, 1);
const [page, total] = await products.findAndCount({ where: { left: { $gt: 0 } }, order: { sku: "ASC" }, take: 1 });
assert.deepEqual([page[0].sku, total], ["ink", 2]);
assert.equal((await orders.findBy({ "lines.sku": "pen" })).length, 1);
await products.updateMany({ left: 0 }, { $set: { left: 7 } });
await products.deleteOne({ sku: "ink" });
assert.deepEqual((await products.find({ order: { sku: "DESC" } })).map((product) => product.sku), ["pen", "nib"]);
const grouped = await orders.aggregate([{ $unwind: "$lines" }, { $group: { _id: "$customer", count: { $sum: "$lines.count" } } }]).toArray();
assert.deepEqual(grouped, [{ _id: "ada", count: 2 }]);
await source.dropDatabase();
await source.destroy();
console.log("done");
