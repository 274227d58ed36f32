// What runs now, with the longest first, and its end on demand.

import { command } from "./api.js";
import { confirm, duration, el, failure, fill, repeat, table, toast } from "./elements.js";

/** Commands of consoles that watch are noise. */
const isOwn = (entry) =>
  entry.appName === "Plimsoll console" && ["currentOp", "serverStatus"].includes(Object.keys(entry.command ?? {})[0]);

async function current(everything, signal) {
  try {
    return (await command("admin", { currentOp: 1, $all: everything }, signal)).inprog;
  } catch (error) {
    if (error.code !== 13) throw error;
    // Everybody may see what is his own.
    return (await command("admin", { currentOp: 1, $all: everything, $ownOps: true }, signal)).inprog;
  }
}

async function kill(entry) {
  const what = `${Object.keys(entry.command ?? {})[0] ?? entry.op} on ${entry.ns}, running for ${duration(entry.microsecs_running / 1000)}`;
  if (!(await confirm("End the operation?", `Operation ${entry.opid}: ${what}. Its client gets the error Interrupted.`, "End it"))) return;
  try {
    await command("admin", { killOp: 1, op: entry.opid });
    toast(`Operation ${entry.opid} is asked to end.`);
  } catch (error) {
    toast(error.message, "bad");
  }
}

const state = (entry) => {
  if (entry.killPending) return el("span", { class: "tag bad" }, "ends");
  if (entry.currentQueue) return el("span", { class: "tag warn" }, "waits for its turn");
  if (entry.waitingForLock) return el("span", { class: "tag warn" }, "waits for a lock");
  if (entry.transaction && !entry.active) return el("span", { class: "tag" }, "open transaction");
  return entry.active ? el("span", { class: "tag good" }, "runs") : el("span", { class: "tag" }, "idle");
};

const COLUMNS = [
  { name: "Operation", number: true, cell: (entry) => entry.opid ?? "" },
  {
    name: "For",
    number: true,
    cell: (entry) =>
      entry.microsecs_running === undefined
        ? duration(Number(entry.transaction?.timeOpenMicros) / 1000)
        : duration(entry.microsecs_running / 1000),
  },
  { name: "State", cell: (entry) => [state(entry), entry.msg && el("small", null, entry.msg)] },
  { name: "Command", cell: (entry) => el("b", null, Object.keys(entry.command ?? {})[0] ?? entry.op ?? entry.desc) },
  { name: "Namespace", class: "wide", cell: (entry) => entry.ns ?? "" },
  {
    name: "Client",
    cell: (entry) => [
      entry.appName ?? "",
      el("small", null, entry.client ?? "", entry.effectiveUsers ? ` as ${entry.effectiveUsers.map(({ user }) => user).join(", ")}` : ""),
    ],
  },
  {
    name: "What it was sent",
    class: "wide",
    cell: (entry) =>
      entry.command &&
      el(
        "details",
        { "data-key": `op${entry.opid}` },
        el("summary", null, "show"),
        el("pre", null, JSON.stringify(entry.command, null, 2)),
      ),
  },
  {
    name: "",
    cell: (entry) =>
      entry.active &&
      entry.opid !== undefined &&
      el(
        "button",
        {
          type: "button",
          class: "danger small",
          "data-kill": entry.opid,
          onclick: () => kill(entry),
          "aria-label": `End operation ${entry.opid}`,
        },
        "End",
      ),
  },
];

/** The page. */
export async function show(main, { signal }) {
  const list = el("div");
  const everything = el("input", { type: "checkbox" });
  const note = el("span", { class: "faint" });
  fill(
    main,
    el(
      "header",
      { class: "head" },
      el("h1", null, "Operations"),
      el("label", { class: "check" }, everything, "idle connections, too"),
      note,
    ),
    el("section", { class: "panel" }, list),
  );
  await repeat(signal, 1000, async () => {
    try {
      const entries = (await current(everything.checked, signal)).filter((entry) => !isOwn(entry));
      if (signal.aborted) return;
      entries.sort((left, right) => (right.microsecs_running ?? -1) - (left.microsecs_running ?? -1));
      note.textContent = `${entries.filter((entry) => entry.active).length} running`;
      // What is being read or about to be pressed stays where it is.
      if (
        list.querySelector("details[open]") ||
        (list.contains(document.activeElement) && document.activeElement.tagName === "BUTTON" && document.querySelector("dialog"))
      )
        return;
      const focused = document.activeElement?.dataset?.kill;
      fill(
        list,
        table(COLUMNS, entries, {
          label: "Operations",
          empty: "Nothing runs but this console.",
          row: (entry) => ({ "data-op": entry.opid }),
        }),
      );
      if (focused) list.querySelector(`[data-kill="${CSS.escape(focused)}"]`)?.focus();
    } catch (error) {
      if (!signal.aborted) fill(list, failure(error));
    }
  });
}
