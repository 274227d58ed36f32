// Stays connected with the Node driver for some seconds, under load, and prints what its listeners heard: see test_staying_connected.py.
//
// node node_client.mjs URI SECONDS HEARTBEAT_MS (0: the driver's default)

import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const { MongoClient } = createRequire(join(process.env.PLIMSOLL_NODE_MODULES, "index.js"))("mongodb");
const [uri, seconds, heartbeat] = process.argv.slice(2);
const heard = { cleared: 0, unknown: 0, failed_heartbeats: 0, awaited_heartbeats: 0 };
const client = new MongoClient(uri, heartbeat === "0" ? {} : { heartbeatFrequencyMS: Number(heartbeat) });
client.on("connectionPoolCleared", () => (heard.cleared += 1));
client.on("serverHeartbeatFailed", () => (heard.failed_heartbeats += 1));
client.on("serverHeartbeatSucceeded", ({ awaited }) => (heard.awaited_heartbeats += awaited ? 1 : 0));
client.on("serverDescriptionChanged", ({ previousDescription, newDescription }) => {
  if (previousDescription.type !== "Unknown" && newDescription.type === "Unknown") heard.unknown += 1;
});

const things = client.db("staying_connected").collection("node");
await things.drop();
const end = performance.now() + seconds * 1000;
const errors = [];
let operations = 0;

async function work(worker) {
  while (performance.now() < end) {
    await things.updateOne({ _id: worker }, { $inc: { n: 1 } }, { upsert: true });
    await things.findOne({ _id: worker });
    operations += 2;
    await sleep(20);
  }
}

await Promise.all([0, 1, 2, 3, 4, 5].map((worker) => work(worker).catch((error) => errors.push(String(error)))));
console.log(JSON.stringify({ operations, errors, ...heard }));
process.exit(0);
