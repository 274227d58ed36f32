// mongodb-memory-server, given our binary as MONGOMS_SYSTEM_BINARY: one server, and a replica set of one.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";

import { MongoClient } from "./connection.mjs";

const folder = mkdtempSync(join(tmpdir(), "plimsoll-memory-server-"));
const mongod = join(folder, "mongod");
symlinkSync(resolve(process.env.PLIMSOLL_BINARY), mongod);
process.env.MONGOMS_SYSTEM_BINARY = mongod;
process.env.MONGOMS_VERSION = "8.0.16";
const require = createRequire(join(process.env.PLIMSOLL_NODE_MODULES, "index.js"));
const { MongoMemoryReplSet, MongoMemoryServer } = require("mongodb-memory-server-core");

const args = ["--wiredTigerCacheSizeGB", "0.0625"];
const launchTimeout = 60_000;

after(() => rmSync(folder, { recursive: true, force: true }));

test("MongoMemoryServer", async () => {
  const server = await MongoMemoryServer.create({ instance: { args, launchTimeout } });
  const client = await MongoClient.connect(server.getUri());
  const things = client.db("memory").collection("things");
  await things.insertMany([{ _id: 1 }, { _id: 2 }]);
  assert.equal(await things.countDocuments(), 2);
  await client.close();
  assert.equal(await server.stop(), true);
});

test("MongoMemoryReplSet", async () => {
  const set = await MongoMemoryReplSet.create({
    replSet: { count: 1, name: "rs0", args },
    instanceOpts: [{ args, launchTimeout }],
  });
  const client = await MongoClient.connect(set.getUri());
  const hello = await client.db("admin").command({ hello: 1 });
  assert.deepEqual([hello.setName, hello.isWritablePrimary], ["rs0", true]);
  const things = client.db("memory").collection("things");
  await client.withSession((session) =>
    session.withTransaction(async () => {
      await things.insertOne({ _id: 1 }, { session });
      await things.insertOne({ _id: 2 }, { session });
    }),
  );
  assert.equal(await things.countDocuments(), 2);
  await client.close();
  assert.equal(await set.stop(), true);
});
