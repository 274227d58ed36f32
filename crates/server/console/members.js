// The members of the replica set as this one sees them: what each is, how far it is, when it was heard of; and giving up the lead.

import { command } from "./api.js";
import { bytes, confirm, count, duration, el, failure, field, fill, panel, repeat, table, toast, when } from "./elements.js";

const STATES = {
  primary: ["good", "primary"],
  secondary: ["good", "secondary"],
  recovering: ["warn", "catches up"],
  startup: ["warn", "not initiated"],
  down: ["bad", "silent"],
};

const state = (name) => {
  const [tone, word] = STATES[name] ?? ["", name];
  return el("span", { class: `tag ${tone}` }, word);
};

/** Milliseconds of a date that may be far from now. */
const millis = (date) => (typeof date === "object" ? Number(date.$date?.$numberLong ?? new Date(date.$date).getTime()) : NaN);

const COLUMNS = [
  {
    name: "Member",
    class: "wide",
    cell: ([host, member]) => [el("b", null, host), member.isSelf && el("small", null, "this server")],
  },
  { name: "State", cell: ([, member]) => [state(member.state), member.isFrozen && el("small", null, "frozen: does not claim the lead")] },
  { name: "Behind", number: true, cell: ([, member]) => (member.lagSeconds === 0 ? "–" : duration(member.lagSeconds * 1000)) },
  { name: "Applied", number: true, cell: ([, member]) => [count(member.appliedPosition), el("small", null, when(millis(member.appliedTime)))] },
  { name: "On its disk", number: true, cell: ([, member]) => count(member.durablePosition) },
  {
    name: "Heard of",
    number: true,
    cell: ([, member]) => (member.isSelf ? "–" : `${duration(Math.max(0, member.now - millis(member.heard)))} ago`),
  },
];

/** What this member knows of itself and the log. */
function own(section) {
  const { positions, confirmations, log } = section;
  const mean = confirmations?.waits > 0 ? confirmations.waitedMicros / confirmations.waits / 1000 : NaN;
  const rows = [
    ["Set", section.set],
    ["This server", state(section.state)],
    ["Term", count(section.term)],
    ["Primary", section.hasPrimary === undefined ? undefined : (section.primary ?? "nobody that is known of")],
    ["Logged", count(positions.logged)],
    ["Confirmed", positions.confirmed === undefined ? undefined : count(positions.confirmed)],
    ["Seen by readers", count(positions.applied)],
    ["Not yet confirmed", positions.confirmed === undefined ? undefined : bytes(Math.max(0, positions.logged - positions.confirmed))],
    ["Waits for the log", confirmations && `${count(confirmations.waits)}, ${duration(mean)} each`],
    ["Next record", log && count(log.nextRecord)],
    ["Restart needs", log && count(log.neededRecord)],
  ];
  return el("dl", null, rows.filter(([, value]) => value !== undefined).map(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
}

function notices(section) {
  const told = [];
  if (section.hasPrimary === false) {
    told.push(["bad", "Nobody leads.", "No member takes writes. The others claim the lead after five seconds of silence."]);
  }
  if (section.confirmations?.logAnswers === false) {
    told.push(["bad", "The shared log does not answer.", "Writes are refused until it does; reads go on."]);
  }
  for (const host of section.waitForCopy ?? []) {
    told.push(["warn", `${host} waits for a copy.`, "Another member copies its data for it, as a backup beside the log."]);
  }
  return told.map(([tone, what, more]) => el("p", { class: `notice ${tone}` }, el("b", null, what), el("span", null, more)));
}

async function run(title, text, action, body) {
  if (!(await confirm(title, text, action))) return;
  try {
    await command("admin", body);
    toast("Done.");
  } catch (error) {
    toast(error.message, "bad");
  }
}

/** What can be done here: the primary gives up the lead, the others are kept from it. */
function actions() {
  const seconds = el("input", { type: "number", min: "1", max: "86400", value: "60" });
  const asked = () => Math.max(1, Math.min(86400, Math.floor(Number(seconds.value) || 60)));
  const button = (text, kind, onclick) => el("button", { type: "button", class: kind, onclick }, text);
  const stepDown = button("Step down", "danger", () =>
    run(
      "Give up the lead?",
      `The member that is furthest takes it. Open transactions are aborted; clients try again by themselves. For ${asked()} s this server does not lead again.`,
      "Give it up",
      { replSetStepDown: asked(), secondaryCatchUpPeriodSecs: Math.min(10, asked()) },
    ),
  );
  const freeze = button("Freeze", "danger", () =>
    run(
      "Keep this server from the lead?",
      `For ${asked()} s it does not claim the lead, even if nobody has it.`,
      "Freeze it",
      { replSetFreeze: asked() },
    ),
  );
  const thaw = button("End the freeze", "", () =>
    run("End the freeze?", "This server claims the lead again when nobody has it.", "End it", { replSetFreeze: 0 }),
  );
  const note = el("p", { class: "faint" });
  const form = el(
    "form",
    { onsubmit: (event) => event.preventDefault() },
    note,
    field("Seconds", seconds),
    el("div", { class: "buttons" }, stepDown, freeze, thaw),
  );
  const update = (section) => {
    const leads = section.state === "primary";
    stepDown.hidden = !leads;
    freeze.hidden = leads;
    thaw.hidden = leads || !Object.values(section.members).some((member) => member.isSelf && member.isFrozen);
    note.textContent = leads ? "This server leads." : "This server follows.";
  };
  return { form, update };
}

/** The page. */
export async function show(main, { signal }) {
  const [trouble, told, list, about] = [el("div"), el("div"), el("div"), el("div")];
  const { form, update } = actions();
  const there = el(
    "div",
    { hidden: true },
    panel(null, list),
    el("div", { class: "two" }, panel("This server and the log", about), panel("The lead", form)),
  );
  fill(main, el("header", { class: "head" }, el("h1", null, "Members")), trouble, told, there);
  await repeat(signal, 1000, async () => {
    try {
      const status = await command("admin", { serverStatus: 1, none: true, plimsoll: true }, signal);
      if (signal.aborted) return;
      fill(trouble);
      const section = status.plimsoll.replicaSet;
      there.hidden = !section?.members;
      if (!section?.members) {
        const what = section ? "This server is the only member of its replica set." : "This server is no member of a replica set.";
        fill(told, el("p", { class: "notice", "data-alone": "" }, el("b", null, what), el("span", null, "Several members follow one log: --replica-set NAME --log URL.")));
        return;
      }
      fill(told, notices(section));
      const now = millis(status.localTime);
      const rows = Object.entries(section.members).map(([host, member]) => [host, { ...member, now }]);
      fill(list, table(COLUMNS, rows, { label: "Members", row: ([host]) => ({ "data-member": host }), empty: "No member has told of itself yet." }));
      fill(about, own(section));
      update(section);
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error));
    }
  });
}
