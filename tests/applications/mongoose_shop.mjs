// A shop on Mongoose: schemas with indexes and references, orders in transactions that fail and succeed, a change stream beside them.
// Called by test_applications.py with the address of a replica set and the node_modules folder. Prints "done" at the end.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";

const [uri, modules] = process.argv.slice(2);
const mongoose = createRequire(join(modules, "index.js"))("mongoose");
const { Schema } = mongoose;

const Product = mongoose.model(
  "Product",
  new Schema(
    {
      sku: { type: String, required: true, unique: true },
      title: { type: String, index: true },
      price: { type: Schema.Types.Decimal128, required: true },
      left: { type: Number, min: 0, default: 0 },
      tags: [String],
    },
    { timestamps: true, optimisticConcurrency: true },
  ),
);
const Order = mongoose.model(
  "Order",
  new Schema(
    {
      customer: { type: Schema.Types.ObjectId, ref: "Customer", required: true },
      lines: [{ product: { type: Schema.Types.ObjectId, ref: "Product" }, count: { type: Number, min: 1 } }],
      status: { type: String, enum: ["new", "paid"], default: "new" },
    },
    { timestamps: true },
  ).index({ customer: 1, createdAt: -1 }),
);
const Customer = mongoose.model(
  "Customer",
  new Schema({ email: { type: String, unique: true, lowercase: true }, address: { city: String }, visits: Map }),
);

async function buy(customer, product, count) {
  await mongoose.connection.transaction(async (session) => {
    const [order] = await Order.create([{ customer, lines: [{ product, count }] }], { session });
    const found = await Product.findById(product).session(session);
    found.left -= count;
    // Fails validation when there are too few, and takes the order back.
    await found.save({ session });
    order.status = "paid";
    await order.save({ session });
  });
}

await mongoose.connect(uri);
await Promise.all([Product, Order, Customer].map((model) => model.init()));
assert.equal(mongoose.connection.getClient().topology.description.type, "ReplicaSetWithPrimary");

const customer = await Customer.create({ email: "Ada@Example.com", address: { city: "London" }, visits: { web: 3 } });
const [pen, ink] = await Product.create([
  { sku: "pen", title: "Pen", price: "12.50", left: 3, tags: ["writing"] },
  { sku: "ink", title: "Ink", price: "3.10", left: 10, tags: ["writing", "black"] },
]);
await assert.rejects(Product.create({ sku: "pen", price: "1" }), { code: 11000 });

const events = [];
const stream = Order.watch([{ $match: { operationType: { $in: ["insert", "update"] } } }], { fullDocument: "updateLookup" });
const seen = new Promise((resolve, reject) => {
  stream.on("error", reject);
  stream.on("change", (event) => {
    events.push(`${event.operationType} ${event.fullDocument.status}`);
    if (events.length === 4) resolve();
  });
});
await new Promise((resolve) => stream.once("ready", resolve));

await buy(customer, pen, 2);
await assert.rejects(buy(customer, pen, 2), mongoose.Error.ValidationError);
await buy(customer, ink, 1);
await seen;
assert.deepEqual(events, ["insert new", "update paid", "insert new", "update paid"]);
await stream.close();

assert.equal(await Order.countDocuments(), 2);
assert.equal((await Product.findOne({ sku: "pen" })).left, 1);
const [newest] = await Order.find().sort({ createdAt: -1 }).populate("customer lines.product");
assert.equal(newest.customer.email, "ada@example.com");
assert.equal(newest.lines[0].product.sku, "ink");
const [sums] = await Order.aggregate([
  { $unwind: "$lines" },
  { $lookup: { from: "products", localField: "lines.product", foreignField: "_id", as: "product" } },
  { $group: { _id: "$customer", total: { $sum: { $multiply: ["$lines.count", { $first: "$product.price" }] } } } },
]);
assert.equal(sums.total.toString(), "28.10");

// Two who changed the same version: the second is told.
const [first, second] = [await Product.findById(pen), await Product.findById(pen)];
first.title = "Fountain pen";
second.tags.push("gift");
await first.save();
await assert.rejects(second.save(), mongoose.Error.VersionError);

const results = await Product.bulkWrite([
  { updateOne: { filter: { sku: "ink" }, update: { $inc: { left: 5 } } } },
  { updateOne: { filter: { sku: "nib" }, update: { $set: { price: "1.00" } }, upsert: true } },
]);
assert.deepEqual([results.modifiedCount, results.upsertedCount], [1, 1]);
const cursor = Product.find().sort("sku").cursor();
const skus = [];
for await (const product of cursor) skus.push(product.sku);
assert.deepEqual(skus, ["ink", "nib", "pen"]);
assert.deepEqual(await Product.diffIndexes(), { toDrop: [], toCreate: [] });
await mongoose.disconnect();
console.log("done");
