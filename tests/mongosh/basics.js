// The first hour in the shell: databases, collections, inserting, finding, changing, counting.
const assert = require("node:assert/strict");
// By value: the shell's arrays and the script's are of different realms.
const same = (found, expected) => assert.equal(EJSON.stringify(found), EJSON.stringify(expected));

db.dropDatabase();
assert.equal(db.hello().isWritablePrimary, true);
assert.match(db.version(), /^[78]\./);
assert.equal(db.runCommand({ ping: 1 }).ok, 1);

assert.equal(db.people.insertOne({ _id: 1, name: "Ada", born: 1815 }).acknowledged, true);
const many = db.people.insertMany([
  { _id: 2, name: "Grace", born: 1906, tags: ["navy", "cobol"] },
  { _id: 3, name: "Edsger", born: 1930, tags: [] },
]);
same(Object.values(many.insertedIds), [2, 3]);
assert(db.adminCommand({ listDatabases: 1 }).databases.some((entry) => entry.name === db.getName()));
same(db.getCollectionNames(), ["people"]);

assert.equal(db.people.find().count(), 3);
assert.equal(db.people.countDocuments({ born: { $gt: 1900 } }), 2);
assert.equal(db.people.estimatedDocumentCount(), 3);
same(db.people.find({}, { _id: 0, name: 1 }).sort({ born: -1 }).limit(1).toArray(), [{ name: "Edsger" }]);
assert.equal(db.people.findOne({ tags: "navy" }).name, "Grace");
assert.equal(db.people.findOne({ name: /^ed/i })._id, 3);
same(db.people.distinct("tags"), ["cobol", "navy"]);

const updated = db.people.updateMany({ born: { $lt: 1910 } }, { $set: { early: true }, $inc: { born: 1 } });
same([updated.matchedCount, updated.modifiedCount], [2, 2]);
// The shell's name for what the drivers call upsertedId.
assert.equal(db.people.updateOne({ _id: 9 }, { $set: { name: "New" } }, { upsert: true }).insertedId, 9);
assert.equal(db.people.replaceOne({ _id: 9 }, { name: "Newer" }).modifiedCount, 1);
assert.equal(db.people.findOneAndUpdate({ _id: 9 }, { $set: { a: 1 } }, { returnDocument: "after" }).a, 1);
assert.equal(db.people.findOneAndDelete({ _id: 9 }).name, "Newer");
assert.equal(db.people.deleteOne({ _id: 3 }).deletedCount, 1);
assert.equal(db.people.deleteMany({}).deletedCount, 2);
assert.equal(db.people.drop(), true);
assert.equal(db.dropDatabase().ok, 1);
print("done");
