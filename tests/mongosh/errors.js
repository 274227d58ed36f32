// Errors as the shell shows them.
const assert = require("node:assert/strict");

function refused(action, code, name) {
  let error = null;
  try {
    action();
  } catch (caught) {
    error = caught;
  }
  assert(error, `not refused: ${action}`);
  assert.equal(error.code ?? error.writeErrors?.[0]?.code, code, String(error));
  if (name) {
    assert.equal(error.codeName, name, String(error));
  }
}

db.dropDatabase();
db.things.insertOne({ _id: 1, s: "text" });
refused(() => db.things.insertOne({ _id: 1 }), 11000);
refused(() => db.things.insertMany([{ _id: 2 }, { _id: 1 }, { _id: 3 }]), 11000);
assert.equal(db.things.countDocuments(), 2);
refused(() => db.runCommand({ noSuchCommand: 1 }), 59, "CommandNotFound");
refused(() => db.things.find({ a: { $unknown: 1 } }).toArray(), 2, "BadValue");
refused(() => db.things.updateOne({ _id: 1 }, { $inc: { s: 1 } }), 14);
refused(() => db.things.updateOne({ _id: 1 }, { $unknown: { s: 1 } }), 9);
refused(() => db.things.aggregate([{ $unknown: {} }]).toArray(), 40324);
refused(() => db.things.find().hint("absent").toArray(), 2, "BadValue");
refused(() => db.things.dropIndex("absent"), 27, "IndexNotFound");
refused(() => db.absent.renameCollection("other"), 26, "NamespaceNotFound");
assert.equal(db.things.validate({ full: true }).valid, true);
print("done");
