// The Node driver: connecting, CRUD, bulk writes, cursors, sessions, aggregation, a server that goes and comes back.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { Decimal128, Long, MongoBulkWriteError, MongoClient, MongoServerError, ObjectId, Server } from "./connection.mjs";

let server, client, database, things;

before(async () => {
  server = await Server.start();
  client = await MongoClient.connect(server.uri, { serverSelectionTimeoutMS: 10000 });
  database = client.db("node");
});

beforeEach(async () => {
  await database.dropDatabase();
  things = database.collection("things");
});

after(async () => {
  for (const { name } of await database.listCollections().toArray()) {
    const report = await database.command({ validate: name, full: true });
    assert.equal(report.valid, true, JSON.stringify(report));
  }
  await client.close();
  assert.equal(await server.end("SIGTERM"), 0);
});

test("connects and says what it is", async () => {
  const hello = await client.db("admin").command({ hello: 1 });
  assert.equal(hello.isWritablePrimary, true);
  assert.ok(hello.maxWireVersion >= 25);
  assert.equal((await client.db().admin().ping()).ok, 1);
});

test("inserts, finds, updates, deletes", async () => {
  const { insertedId } = await things.insertOne({ a: 1, when: new Date(0) });
  assert.ok(insertedId instanceof ObjectId);
  assert.deepEqual(await things.findOne({ _id: insertedId }), { _id: insertedId, a: 1, when: new Date(0) });
  await things.insertMany(Array.from({ length: 500 }, (_, i) => ({ _id: i, a: i })));
  assert.equal(await things.countDocuments({ a: { $gte: 490 } }), 10);
  const updated = await things.updateMany({ a: { $lt: 10 } }, { $set: { small: true } });
  assert.equal(updated.modifiedCount, 11);
  const upserted = await things.updateOne({ _id: "new" }, { $inc: { n: 1 } }, { upsert: true });
  assert.equal(upserted.upsertedId, "new");
  assert.equal((await things.findOneAndUpdate({ _id: 3 }, { $inc: { a: 1 } }, { returnDocument: "after" })).a, 4);
  assert.equal((await things.deleteMany({ small: true })).deletedCount, 11);
  assert.deepEqual((await things.distinct("a", { a: { $gt: 497 } })).sort(), [498, 499]);
});

test("keeps numbers of every kind apart", async () => {
  await things.insertOne({ _id: 1, long: Long.fromString("9007199254740993"), decimal: Decimal128.fromString("1.10") });
  const found = await things.findOne({}, { promoteLongs: false });
  assert.equal(found.long.toString(), "9007199254740993");
  assert.equal(found.decimal.toString(), "1.10");
});

test("iterates in batches", async () => {
  await things.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i })));
  let expected = 0;
  for await (const thing of things.find().sort({ _id: 1 }).batchSize(33)) {
    assert.equal(thing._id, expected++);
  }
  assert.equal(expected, 1000);
});

test("an ordered bulk write stops at the first error", async () => {
  const operations = [1, 2, 1, 3].map((_id) => ({ insertOne: { document: { _id } } }));
  await assert.rejects(things.bulkWrite(operations), (error) => {
    assert.ok(error instanceof MongoBulkWriteError);
    assert.equal(error.code, 11000);
    assert.equal(error.writeErrors.length, 1);
    assert.equal(error.writeErrors[0].index, 2);
    return true;
  });
  assert.equal(await things.countDocuments(), 2);
});

test("an unordered bulk write goes on", async () => {
  await things.insertOne({ _id: 2, s: "text" });
  const operations = [
    { insertOne: { document: { _id: 1 } } },
    { insertOne: { document: { _id: 1 } } },
    { updateOne: { filter: { _id: 2 }, update: { $inc: { s: 1 } } } },
    { updateOne: { filter: { _id: 3 }, update: { $set: { a: 1 } }, upsert: true } },
    { replaceOne: { filter: { _id: 1 }, replacement: { b: 1 } } },
    { deleteOne: { filter: { _id: 2 } } },
  ];
  await assert.rejects(things.bulkWrite(operations, { ordered: false }), (error) => {
    assert.deepEqual(error.writeErrors.map((one) => [one.index, one.code]).sort(), [[1, 11000], [2, 14]]);
    assert.equal(error.insertedCount, 1);
    assert.equal(error.deletedCount, 1);
    return true;
  });
  assert.deepEqual(await things.find().sort({ _id: 1 }).toArray(), [{ _id: 1, b: 1 }, { _id: 3, a: 1 }]);
});

test("sessions carry operations", async () => {
  await client.withSession(async (session) => {
    await things.insertMany(Array.from({ length: 300 }, (_, i) => ({ _id: i })), { session });
    assert.equal((await things.find({}, { session, batchSize: 10 }).toArray()).length, 300);
  });
});

test("retryable writes are not sent twice", async () => {
  const retrying = await MongoClient.connect(server.uri, { retryWrites: true });
  await retrying.db("node").collection("things").insertOne({ _id: "once" });
  assert.equal(await things.countDocuments({ _id: "once" }), 1);
  await retrying.close();
});

test("aggregates", async () => {
  await things.insertMany([{ k: "a", n: 1 }, { k: "b", n: 2 }, { k: "a", n: 3 }]);
  const rows = await things.aggregate([{ $group: { _id: "$k", n: { $sum: "$n" } } }, { $sort: { _id: 1 } }]).toArray();
  assert.deepEqual(rows, [{ _id: "a", n: 4 }, { _id: "b", n: 2 }]);
});

test("indexes", async () => {
  assert.equal(await things.createIndex({ a: 1 }, { unique: true }), "a_1");
  await things.insertOne({ a: 1 });
  await assert.rejects(things.insertOne({ a: 1 }), (error) => {
    assert.ok(error instanceof MongoServerError);
    assert.deepEqual([error.code, error.keyPattern, error.keyValue], [11000, { a: 1 }, { a: 1 }]);
    return true;
  });
  assert.deepEqual((await things.indexes()).map((index) => index.name), ["_id_", "a_1"]);
  const plan = await things.find({ a: 1 }).explain("queryPlanner");
  assert.equal(plan.queryPlanner.winningPlan.inputStage.indexName, "a_1");
  await things.dropIndex("a_1");
});

test("errors carry code and name", async () => {
  await assert.rejects(database.command({ noSuchCommand: 1 }), { code: 59, codeName: "CommandNotFound" });
  await assert.rejects(things.find({ a: { $unknown: 1 } }).toArray(), { code: 2, codeName: "BadValue" });
});

test("logs in", async () => {
  await database.command({ createUser: "ada", pwd: "pw", roles: ["read"] });
  for (const mechanism of ["SCRAM-SHA-1", "SCRAM-SHA-256"]) {
    const options = { auth: { username: "ada", password: "pw" }, authSource: "node", authMechanism: mechanism };
    const ada = await MongoClient.connect(server.uri, options);
    const { authInfo } = await ada.db("admin").command({ connectionStatus: 1 });
    assert.deepEqual(authInfo.authenticatedUsers, [{ user: "ada", db: "node" }]);
    await ada.close();
    const wrong = { ...options, auth: { username: "ada", password: "other" } };
    await assert.rejects(MongoClient.connect(server.uri, wrong), { code: 18 });
  }
  await database.command({ dropUser: "ada" });
});

test("compression", async () => {
  const compressed = await MongoClient.connect(server.uri, { compressors: ["zlib"] });
  await compressed.db("node").collection("things").insertOne({ _id: 1, text: "x".repeat(1_000_000) });
  assert.equal((await compressed.db("node").collection("things").findOne()).text.length, 1_000_000);
  await compressed.close();
});

for (const signal of ["SIGTERM", "SIGKILL"]) {
  test(`finds the server again after ${signal}, with its data`, async () => {
    await things.insertMany([{ _id: 1 }, { _id: 2 }], { writeConcern: { w: "majority" } });
    await server.end(signal);
    await server.start();
    assert.equal(await things.countDocuments(), 2);
    await things.insertOne({ _id: 3 });
    assert.equal(await things.countDocuments(), 3);
  });
}
