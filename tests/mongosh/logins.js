// Users and roles by the shell's own helpers, and a login.

const assert = require("assert");

db.dropAllUsers();
db.dropAllRoles();
db.createRole({ role: "reader", privileges: [{ resource: { db: db.getName(), collection: "things" }, actions: ["find"] }], roles: [] });
db.createUser({ user: "ada", pwd: "pw", roles: ["reader"], customData: { a: 1 } });
assert.deepEqual(db.getUser("ada").roles, [{ role: "reader", db: db.getName() }]);
assert.equal(db.getUsers().users.length, 1);
assert.equal(db.getRole("reader", { showPrivileges: true }).privileges[0].actions[0], "find");
db.grantRolesToUser("ada", ["readWrite"]);
db.revokeRolesFromUser("ada", ["readWrite"]);
db.grantPrivilegesToRole("reader", [{ resource: { db: db.getName(), collection: "" }, actions: ["insert"] }]);
assert.equal(db.getRole("reader", { showPrivileges: true }).privileges.length, 2);
db.changeUserPassword("ada", "other");
let refused = null;
try {
  db.auth("ada", "pw");
} catch (error) {
  refused = error;
}
assert.match(refused.message, /Authentication failed/);
assert.equal(db.auth("ada", "other").ok, 1);
const info = db.runCommand({ connectionStatus: 1 }).authInfo;
assert.deepEqual(info.authenticatedUsers, [{ user: "ada", db: db.getName() }]);
db.logout();
assert.equal(db.dropUser("ada").ok, 1);
assert.equal(db.getUser("ada"), null);
assert.equal(db.dropRole("reader").ok, 1);
print("done");
