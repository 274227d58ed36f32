// What is done once: indexes, statistics, validation, renaming, status.
const assert = require("node:assert/strict");
// By value: the shell's arrays and the script's are of different realms.
const same = (found, expected) => assert.equal(EJSON.stringify(found), EJSON.stringify(expected));

db.dropDatabase();
db.createCollection("things");
assert.equal(db.things.createIndex({ a: 1 }, { unique: true, sparse: true }), "a_1");
same(db.things.createIndexes([{ b: 1 }, { c: -1 }]), ["b_1", "c_-1"]);
same(db.things.getIndexes().map((index) => index.name), ["_id_", "a_1", "b_1", "c_-1"]);
db.things.insertMany(Array.from({ length: 100 }, (_, i) => ({ _id: i, a: i, b: [i, i + 1] })));
assert.equal(db.things.dropIndex("c_-1").nIndexesWas, 4);
db.things.hideIndex("b_1");
assert.equal(db.things.getIndexes().find((index) => index.name === "b_1").hidden, true);
db.things.unhideIndex("b_1");

const report = db.things.validate({ full: true });
assert.equal(report.valid, true);
same(report.keysPerIndex, { _id_: 100, a_1: 100, b_1: 200 });
const statistics = db.things.stats();
assert.equal(statistics.count, 100);
assert.equal(statistics.nindexes, 3);
// A count of 64 bits, as the server has sent it since MongoDB 6.
assert.equal(Number(db.stats().collections), 1);
assert(db.things.totalSize() > 0);
assert(db.things.dataSize() > 0);
assert.equal(db.things.isCapped(), false);

assert.equal(db.things.renameCollection("renamed").ok, 1);
same(db.getCollectionInfos().map((information) => information.name), ["renamed"]);
assert(db.serverStatus().connections.current > 0);
assert(db.serverBuildInfo().versionArray[0] >= 7);
assert(db.hostInfo().system.numCores > 0);
assert(Array.isArray(db.currentOp().inprog));
assert.equal(db.adminCommand({ getLog: "startupWarnings" }).ok, 1);
assert.equal(db.adminCommand({ connectionStatus: 1 }).ok, 1);
// The shell wraps the list for printing.
assert(Object.keys(db.listCommands().value).includes("find"));
print("done");
