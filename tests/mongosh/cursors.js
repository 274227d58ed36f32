// Cursors: batches, iteration, sorting, explain.
const assert = require("node:assert/strict");
// By value: the shell's arrays and the script's are of different realms.
const same = (found, expected) => assert.equal(EJSON.stringify(found), EJSON.stringify(expected));

db.dropDatabase();
db.things.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i, a: i % 10, pad: "x".repeat(100) })));
let seen = 0;
const cursor = db.things.find().batchSize(50);
while (cursor.hasNext()) {
  assert.equal(cursor.next()._id, seen++);
}
assert.equal(seen, 1000);
assert.equal(db.things.find({ a: 3 }).skip(90).toArray().length, 10);
assert.equal(db.things.find().sort({ _id: -1 }).limit(5).map((thing) => thing._id).toArray()[4], 995);
let sum = 0;
db.things.find({}, { a: 1 }).forEach((thing) => (sum += thing.a));
assert.equal(sum, 4500);

db.things.createIndex({ a: 1, _id: -1 });
const explained = db.things.find({ a: 3 }).explain("executionStats");
assert.equal(explained.queryPlanner.winningPlan.stage, "FETCH");
assert.equal(explained.queryPlanner.winningPlan.inputStage.indexName, "a_1__id_-1");
assert.equal(explained.executionStats.nReturned, 100);
assert.equal(explained.executionStats.totalDocsExamined, 100);
assert.equal(db.things.find({ a: 3 }).hint({ $natural: 1 }).explain().queryPlanner.winningPlan.stage, "COLLSCAN");
same(db.things.find({ a: 3 }).hint("a_1__id_-1").limit(2).toArray().map((thing) => thing._id), [993, 983]);
print("done");
