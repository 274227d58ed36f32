// Backups: whether the oplog is archived, a backup that is being made, and making one.

import { command } from "./api.js";
import { bytes, confirm, count, duration, el, failure, field, fill, panel, repeat, toast, when } from "./elements.js";

/** Rows of a list of facts; what is not known has none. */
function facts(rows) {
  return el("dl", null, rows.filter(([, value]) => value !== undefined).map(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
}

/** How far the archive is, as the server says. */
function archiveState(archive) {
  if (!archive) {
    return el(
      "p",
      { class: "notice warn" },
      el("b", null, "There is none."),
      el("span", null, "With --archive URL a restore gets to any moment, not only to that of a backup."),
    );
  }
  const trouble = archive.error;
  return [
    el(
      "p",
      { class: trouble ? "notice bad" : "notice good" },
      el("b", null, archive.place),
      el(
        "span",
        null,
        trouble
          ? `${trouble} Since ${when(archive.errorSince.$date)}; what is not there is kept here.`
          : "The oplog is sent there every three seconds; what is not there yet is kept.",
      ),
    ),
    facts([
      ["Archived up to", archive.upTo && when(archive.upTo.$date)],
      ["Not archived", archive.bytesBehind === undefined ? undefined : bytes(archive.bytesBehind)],
      ["Behind for", archive.lagSeconds < 10 ? "a moment" : duration(archive.lagSeconds * 1000)],
    ]),
  ];
}

/** The last backup, and one that failed since. */
function lastState({ last, lastFailed }) {
  return [
    last
      ? facts([
          ["Name", last.id],
          ["To", last.to],
          ["Ended", when(last.ended.$date)],
          ["Stored", last.storedBytes === undefined ? undefined : bytes(last.storedBytes)],
        ])
      : el("p", { class: "empty" }, "None since the server began, nor in the place of the archive."),
    lastFailed
      ? el("p", { class: "notice bad" }, el("b", null, `One failed at ${when(lastFailed.ended.$date)}.`), el("span", null, lastFailed.reason))
      : null,
  ];
}

async function running(signal) {
  const { inprog } = await command("admin", { currentOp: 1 }, signal);
  return inprog.find((entry) => entry.command?.plimsollBackup !== undefined);
}

async function end(entry) {
  if (!(await confirm("End the backup?", "What is there of it is used by the next one.", "End it"))) return;
  await command("admin", { killOp: 1, op: entry.opid }).catch((error) => toast(error.message, "bad"));
}

function progress(entry) {
  const { done, total } = entry.progress ?? { done: 0, total: 0 };
  return [
    el("p", null, entry.msg ?? "It begins."),
    el("progress", { max: Math.max(total, 1), value: done, "aria-label": "Backup" }),
    el("p", { class: "faint" }, `To ${entry.command.to}, running for ${duration(entry.microsecs_running / 1000)}.`),
    el("div", { class: "buttons" }, el("button", { type: "button", class: "danger", onclick: () => end(entry) }, "End it")),
  ];
}

/** The page. */
export async function show(main, { signal }) {
  const [archive, current, last, oplog, trouble] = [el("div"), el("div"), el("div"), el("div"), el("div")];
  const to = el("input", { type: "text", required: true, placeholder: "file:///var/backups/plimsoll", spellcheck: "false" });
  const full = el("input", { type: "checkbox" });
  const make = el("button", { type: "submit", class: "primary" }, "Make a backup");
  const said = el("div");
  const form = el(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        make.disabled = true;
        fill(said, el("p", { class: "faint" }, "The backup is being made; it goes on as long as this page is open."));
        try {
          const reply = await command("admin", { plimsollBackup: 1, to: to.value, ...(full.checked ? { full: true } : {}) }, signal);
          const facts = Object.entries(reply).filter(([name]) => !["ok", "$clusterTime", "operationTime"].includes(name));
          fill(
            said,
            el("div", { class: "notice good" }, el("b", null, "The backup is whole.")),
            el(
              "dl",
              null,
              facts.map(([name, value]) => [
                el("dt", null, name),
                el("dd", null, typeof value === "object" ? JSON.stringify(value) : /bytes$/i.test(name) ? bytes(value) : `${value}`),
              ]),
            ),
          );
        } catch (error) {
          if (!signal.aborted) fill(said, failure(error));
        }
        make.disabled = false;
      },
    },
    field("To", to, "A folder of the server's machine, or another place that docs/backup.md names."),
    el("label", { class: "check" }, full, "everything anew, though an older backup has it"),
    el("div", { class: "buttons" }, make),
    said,
  );
  fill(
    main,
    el("header", { class: "head" }, el("h1", null, "Backups")),
    trouble,
    el("div", { class: "two" }, panel("Archive of the oplog", archive, oplog), panel("Last backup", last), panel("Being made", current)),
    panel(
      "A backup now",
      form,
      el(
        "p",
        { class: "faint" },
        "Backups that are there: ",
        el("code", null, "plimsoll backup list --from URL"),
        ". To a moment of any of them and the archive: ",
        el("code", null, "plimsoll restore"),
        ".",
      ),
    ),
  );
  await repeat(signal, 1000, async () => {
    try {
      const [entry, status] = await Promise.all([
        running(signal),
        command("admin", { serverStatus: 1, none: true, plimsoll: true }, signal),
      ]);
      if (signal.aborted) return;
      fill(trouble);
      fill(current, entry ? progress(entry) : el("p", { class: "empty" }, "No backup is being made."));
      const { oplog: own, backups } = status.plimsoll;
      fill(archive, archiveState(backups.archive));
      fill(last, lastState(backups));
      if (backups.archive && to.value === "" && to !== document.activeElement) to.value = backups.archive.place;
      fill(
        oplog,
        el(
          "dl",
          null,
          el("dt", null, "Oplog on disk"),
          el(
            "dd",
            null,
            `${bytes(own.endPosition - own.firstPosition)} in ${own.segments === 1 ? "one file" : `${count(own.segments)} files`}`,
          ),
          el("dt", null, "Kept at least"),
          el("dd", null, `${bytes(own.promisedBytes)}${own.promisedHours > 0 ? `, ${own.promisedHours} h` : ""}`),
          el("dt", null, "Not yet durable"),
          el("dd", null, bytes(own.endPosition - own.durablePosition)),
        ),
      );
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error));
    }
  });
}
