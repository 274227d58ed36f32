// What is done with a replica set: beginning it, looking at it, changing it.
const assert = require("node:assert/strict");
const same = (found, expected) => assert.equal(EJSON.stringify(found), EJSON.stringify(expected));
const fails = (call, codeName) => {
  try {
    call();
  } catch (error) {
    assert.equal(error.codeName, codeName, error.message);
    return;
  }
  assert.fail(`nothing failed with ${codeName}`);
};

fails(() => rs.status(), "NotYetInitialized");
const begun = rs.initiate();
assert.equal(begun.ok, 1);
const me = begun.me;
fails(() => rs.initiate(), "AlreadyInitialized");

const hello = db.hello();
assert.equal(hello.setName, "rs0");
same([hello.me, hello.primary, hello.hosts], [me, me, [me]]);
assert.equal(rs.hello().isWritablePrimary, true);
assert.equal(rs.isMaster().ismaster, true);

const status = rs.status();
assert.equal(status.set, "rs0");
assert.equal(status.members.length, 1);
assert.equal(status.members[0].stateStr, "PRIMARY");
assert.equal(status.members[0].name, me);

const configuration = rs.conf();
assert.equal(configuration.members[0].host, me);
configuration.members[0].tags = { dc: "east" };
assert.equal(configuration.version, 1);
assert.equal(rs.reconfig(configuration).ok, 1);
assert.equal(rs.conf().version, 2);
same(db.hello().tags, { dc: "east" });
fails(() => rs.add("127.0.0.1:1"), "NotImplemented");

db.getSiblingDB("shop").orders.insertOne({ _id: 1 });
const information = db.getReplicationInfo();
assert(information.usedMB >= 0 && information.tFirst !== undefined);
rs.printReplicationInfo();
rs.printSecondaryReplicationInfo();
fails(() => rs.stepDown(), "ExceededTimeLimit");
fails(() => rs.freeze(5), "NotSecondary");
fails(() => rs.syncFrom("127.0.0.1:1"), "NotSecondary");

const session = db.getMongo().startSession();
session.startTransaction();
session.getDatabase("shop").orders.insertOne({ _id: 2 });
session.commitTransaction();
session.endSession();
assert.equal(db.getSiblingDB("shop").orders.countDocuments({}), 2);
assert.equal(db.adminCommand({ getDefaultRWConcern: 1 }).defaultWriteConcern.w, "majority");
console.log("done");
