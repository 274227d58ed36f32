// Inserts and counts with the Node driver until its input ends: see test_kills.py.
//
// node node_client.mjs URI NAME
//
// The driver (7.8) retries no operation whose connection was of a pool that has been cleared before its error came, as when
// another one of the same server fails first (`connectionIsStale` in its lib/sdam/server.js). Such an error has no label; what
// it left open is done again here in a way that changes nothing if it was done, as an application has to.

import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { MongoClient } = createRequire(join(process.env.PLIMSOLL_NODE_MODULES, "index.js"))("mongodb");
const [uri, name] = process.argv.slice(2);
const client = new MongoClient(uri);
const database = client.db("kills");
let isOver = false;
process.stdin.resume();
process.stdin.on("end", () => (isOver = true));

async function tried(once, again) {
  try {
    await once();
  } catch (error) {
    if (error.name !== "MongoNetworkError" || error.hasErrorLabel("RetryableWriteError")) throw error;
    await again();
  }
}

async function unlessThere(insert) {
  try {
    await insert();
  } catch (error) {
    if (error.code !== 11000) throw error;
  }
}

async function work(worker) {
  const numbers = database.collection("numbers");
  const counters = database.collection("counters");
  const counter = `${name}-${worker}`;
  let done = 0;
  try {
    while (!isOver) {
      const insert = () => numbers.insertOne({ _id: `${counter}-${done}` });
      await tried(insert, () => unlessThere(insert));
      const count = (how) => counters.updateOne({ _id: counter }, how, { upsert: true });
      await tried(() => count({ $inc: { count: 1 } }), () => count({ $max: { count: done + 1 } }));
      done += 1;
      console.log(JSON.stringify({ counter, done }));
      await sleep(5);
    }
  } catch (error) {
    console.log(JSON.stringify({ counter, done, error: String(error) }));
  }
}

await Promise.all([0, 1, 2].map(work));
process.exit(0);
