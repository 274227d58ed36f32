// Users and roles: who may come in, and what each may do.

import { command } from "./api.js";
import { confirm, dialog, el, failure, field, fill, panel, table, toast } from "./elements.js";

const roleName = ({ role, db }) => `${role}@${db}`;

/** Roles as people write them: `read@shop, clusterMonitor`. */
function rolesOf(text, database) {
  return text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((name) => {
      const [role, db = database] = name.split("@");
      return { role, db };
    });
}

async function attempt(work, said, changed) {
  try {
    await work();
    toast(said, "good");
    changed();
    return true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}

function edit(title, action, fields, save) {
  return dialog(title, (close) => {
    const trouble = el("div");
    const submit = async (event) => {
      event.preventDefault();
      try {
        await save();
        close(true);
      } catch (error) {
        fill(trouble, failure(error));
      }
    };
    return el(
      "form",
      { onsubmit: submit },
      fields,
      trouble,
      el(
        "div",
        { class: "buttons" },
        el("button", { type: "button", onclick: () => close() }, "Cancel"),
        el("button", { type: "submit", class: "primary" }, action),
      ),
    );
  });
}

async function add(changed) {
  const [name, password] = [
    el("input", { required: true, autocomplete: "off" }),
    el("input", { type: "password", required: true, autocomplete: "new-password" }),
  ];
  const [database, roles] = [
    el("input", { value: "admin", required: true }),
    el("input", { placeholder: "readWrite@shop, clusterMonitor@admin", spellcheck: "false" }),
  ];
  const done = await edit(
    "A new user",
    "Make it",
    [
      field("Name", name),
      field("Password", password),
      field("Database it logs in to", database),
      field("Roles", roles, "role@database, several with commas"),
    ],
    () => command(database.value, { createUser: name.value, pwd: password.value, roles: rolesOf(roles.value, database.value) }),
  );
  if (done) {
    toast(`${name.value} may come in.`, "good");
    changed();
  }
}

async function change(user, changed) {
  const [password, roles] = [
    el("input", { type: "password", autocomplete: "new-password", placeholder: "as it is" }),
    el("input", { value: user.roles.map(roleName).join(", "), spellcheck: "false" }),
  ];
  const done = await edit(
    `${user.user}@${user.db}`,
    "Save",
    [field("New password", password), field("Roles", roles, "role@database, several with commas")],
    () =>
      command(user.db, { updateUser: user.user, roles: rolesOf(roles.value, user.db), ...(password.value ? { pwd: password.value } : {}) }),
  );
  if (done) {
    toast("Saved.", "good");
    changed();
  }
}

async function drop(user, changed) {
  if (await confirm("Drop the user?", `${user.user} of ${user.db} will not come in any more.`, "Drop"))
    await attempt(() => command(user.db, { dropUser: user.user }), "Dropped.", changed);
}

/** The page. */
export async function show(main, { signal }) {
  const body = el("div");
  async function draw() {
    try {
      const [{ users }, { roles }, status] = await Promise.all([
        command("admin", { usersInfo: { forAllDBs: true } }, signal),
        command("admin", { rolesInfo: 1, showBuiltinRoles: false }, signal).catch(() => ({ roles: [] })),
        command("admin", { connectionStatus: 1 }, signal),
      ]);
      if (signal.aborted) return;
      const [own] = status.authInfo.authenticatedUsers;
      fill(
        body,
        el(
          "p",
          { class: "notice" },
          el("b", null, own ? `You are ${own.user} of ${own.db}.` : "Nobody is logged in here."),
          el(
            "span",
            null,
            own
              ? status.authInfo.authenticatedUserRoles.map(roleName).join(", ")
              : "The server asks nobody who he is, unless it is started with --auth.",
          ),
        ),
        panel(
          "Users",
          table(
            [
              { name: "Name", cell: (user) => el("b", null, user.user) },
              { name: "Of", cell: (user) => user.db },
              { name: "Roles", class: "wide", cell: (user) => user.roles.map((role) => el("span", { class: "tag" }, roleName(role))) },
              { name: "Logs in by", cell: (user) => (user.mechanisms ?? []).join(", ") },
              {
                name: "",
                cell: (user) =>
                  el(
                    "div",
                    { class: "buttons" },
                    el("button", { type: "button", class: "small", onclick: () => change(user, draw) }, "Change"),
                    el("button", { type: "button", class: "small danger", onclick: () => drop(user, draw) }, "Drop"),
                  ),
              },
            ],
            users,
            { label: "Users", empty: "There are none." },
          ),
          el("div", { class: "buttons" }, el("button", { type: "button", class: "primary", onclick: () => add(draw) }, "New user …")),
        ),
        panel(
          "Roles of your own",
          table(
            [
              { name: "Role", cell: (role) => el("b", null, role.role) },
              { name: "Of", cell: (role) => role.db },
              { name: "Inherits", class: "wide", cell: (role) => role.roles.map((inner) => el("span", { class: "tag" }, roleName(inner))) },
            ],
            roles,
            { label: "Roles", empty: "There are only those that are built in." },
          ),
        ),
      );
    } catch (error) {
      if (!signal.aborted) fill(body, failure(error));
    }
  }
  fill(main, el("header", { class: "head" }, el("h1", null, "Users")), body);
  await draw();
}
