// Aggregation from the shell: grouping, joining, writing out.
const assert = require("node:assert/strict");
// By value: the shell's arrays and the script's are of different realms.
const same = (found, expected) => assert.equal(EJSON.stringify(found), EJSON.stringify(expected));

db.dropDatabase();
db.sales.insertMany([
  { _id: 1, item: "pen", price: 2, count: 10 },
  { _id: 2, item: "ink", price: 5, count: 1 },
  { _id: 3, item: "pen", price: 3, count: 5 },
]);
db.makers.insertMany([{ _id: "pen", by: "A" }, { _id: "ink", by: "B" }]);
const totals = [
  { $group: { _id: "$item", total: { $sum: { $multiply: ["$price", "$count"] } } } },
  { $sort: { _id: 1 } },
];
same(db.sales.aggregate(totals).toArray(), [{ _id: "ink", total: 5 }, { _id: "pen", total: 35 }]);
const joined = db.sales.aggregate([
  { $lookup: { from: "makers", localField: "item", foreignField: "_id", as: "maker" } },
  { $unwind: "$maker" },
  { $replaceRoot: { newRoot: { sale: "$_id", by: "$maker.by" } } },
  { $sort: { sale: 1 } },
]);
same(joined.toArray(), [{ sale: 1, by: "A" }, { sale: 2, by: "B" }, { sale: 3, by: "A" }]);
db.sales.aggregate([...totals, { $out: "totals" }]);
assert.equal(db.totals.countDocuments(), 2);
db.createView("pens", "sales", [{ $match: { item: "pen" } }]);
same(db.pens.find({}, { price: 1 }).sort({ _id: -1 }).toArray(), [{ _id: 3, price: 3 }, { _id: 1, price: 2 }]);
assert.equal(db.getCollectionInfos({ name: "pens" })[0].type, "view");
db.pens.aggregate([{ $merge: { into: "totals", whenMatched: "fail" } }]);
assert.equal(db.totals.countDocuments(), 4);
db.pens.drop();
assert.equal(db.sales.aggregate([{ $indexStats: {} }]).toArray()[0].name, "_id_");
assert.equal(db.sales.getPlanCache().list().length, 0);
assert.equal(db.sales.aggregate([{ $collStats: { count: {} } }]).toArray()[0].count, 3);
assert.equal(db.sales.explain().aggregate([{ $match: { _id: 1 } }]).ok, 1);
print("done");
