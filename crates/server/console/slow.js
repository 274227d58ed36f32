// Operations that were slow: what the profiler has written, and how much it writes.

import { all, command } from "./api.js";
import { databases } from "./collections.js";
import { count, duration, el, failure, field, fill, panel, table, toast, when } from "./elements.js";

const LEVELS = { 0: "nothing", 1: "slow operations", 2: "everything" };
let chosen;

function settings(database, current, changed) {
  const level = el(
    "select",
    null,
    Object.entries(LEVELS).map(([value, name]) => el("option", { value, selected: Number(value) === current.was }, `${value}: ${name}`)),
  );
  const slow = el("input", { type: "number", min: "0", value: String(current.slowms) });
  const save = async (event) => {
    event.preventDefault();
    try {
      await command(database, { profile: Number(level.value), slowms: Number(slow.value) });
      toast(`The profiler of ${database} records ${LEVELS[level.value]}.`, "good");
      changed();
    } catch (error) {
      toast(error.message, "bad");
    }
  };
  return el(
    "form",
    { class: "row", onsubmit: save },
    field("Recorded is", level),
    field("Slow from … ms on", slow),
    el("button", { type: "submit" }, "Set"),
  );
}

const COLUMNS = [
  { name: "When", cell: (entry) => when(entry.ts) },
  { name: "Took", number: true, cell: (entry) => el("b", null, duration(entry.millis)) },
  { name: "What", cell: (entry) => entry.op },
  { name: "Namespace", class: "wide", cell: (entry) => entry.ns },
  {
    name: "Plan",
    class: "wide",
    cell: (entry) => el("code", { class: /COLLSCAN/.test(entry.planSummary) ? "bad" : "" }, entry.planSummary ?? ""),
  },
  { name: "Documents", number: true, cell: (entry) => count(entry.docsExamined) },
  { name: "Keys", number: true, cell: (entry) => count(entry.keysExamined) },
  { name: "Gave", number: true, cell: (entry) => count(entry.nreturned ?? entry.nModified ?? entry.ninserted ?? entry.ndeleted) },
  { name: "Of", cell: (entry) => [entry.appName ?? "", el("small", null, entry.user || entry.client)] },
  {
    name: "All of it",
    class: "wide",
    cell: (entry) => el("details", null, el("summary", null, "show"), el("pre", null, JSON.stringify(entry, null, 2))),
  },
];

/** The page. */
export async function show(main, { signal }) {
  const body = el("div");
  const names = (await databases(signal).catch(() => [])).filter((name) => name !== "local");
  chosen = names.includes(chosen) ? chosen : (names.find((name) => name !== "admin" && name !== "config") ?? names[0] ?? "admin");
  const database = el(
    "select",
    {
      "aria-label": "Database",
      onchange: (event) => {
        chosen = event.target.value;
        draw();
      },
    },
    names.map((name) => el("option", { selected: name === chosen }, name)),
  );
  const order = el(
    "select",
    { "aria-label": "Order", onchange: () => draw() },
    el("option", { value: "millis" }, "longest first"),
    el("option", { value: "ts" }, "newest first"),
  );
  async function draw() {
    try {
      const current = await command(chosen, { profile: -1 }, signal);
      const [known] = await all(chosen, { listCollections: 1, filter: { name: "system.profile" }, nameOnly: true }, 1, signal);
      const entries = known ? await all(chosen, { find: "system.profile", sort: { [order.value]: -1 }, limit: 100 }, 100, signal) : [];
      if (signal.aborted) return;
      const empty =
        current.was === 0
          ? "The profiler of this database records nothing. Set it to slow operations, and look again after a while."
          : "None yet.";
      fill(
        body,
        panel("The profiler", settings(chosen, current, draw)),
        panel("Slow operations", table(COLUMNS, entries, { label: "Slow operations", empty })),
      );
    } catch (error) {
      if (!signal.aborted) fill(body, failure(error));
    }
  }
  fill(
    main,
    el(
      "header",
      { class: "head" },
      el("h1", null, "Slow operations"),
      el("div", { class: "row" }, database, order, el("button", { type: "button", onclick: draw }, "Look again")),
    ),
    body,
  );
  await draw();
}
