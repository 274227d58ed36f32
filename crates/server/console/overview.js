// The overview: what the server does, from second to second, what is held back and why, and what it warns of.

import { command } from "./api.js";
import { POINTS, chart } from "./charts.js";
import { bytes, count, duration, el, failure, fill, panel, repeat, short, when } from "./elements.js";

/** Samples outlive the page, so that who comes back finds them. */
const samples = [];
let before;

const pick = (status, path) => path.split(".").reduce((inside, name) => inside?.[name], status);

/** What has happened since the figures of before. */
function sampleOf(status) {
  const seconds = before ? (status.uptimeMillis - before.uptimeMillis) / 1000 : NaN;
  const grown = (path) => pick(status, path) - pick(before ?? {}, path);
  const rate = (path) => grown(path) / seconds;
  const mean = (path) =>
    grown(`opLatencies.${path}.ops`) > 0 ? grown(`opLatencies.${path}.latency`) / grown(`opLatencies.${path}.ops`) / 1000 : NaN;
  const cache = status.plimsoll.cache;
  return {
    time: Date.now(),
    reads: rate("opLatencies.reads.ops"),
    writes: rate("opLatencies.writes.ops"),
    commands: rate("opLatencies.commands.ops"),
    readMillis: mean("reads"),
    writeMillis: mean("writes"),
    commandMillis: mean("commands"),
    used: (100 * cache.usedBytes) / cache.bytes,
    dirty: (100 * cache.dirtyBytes) / cache.bytes,
    oplog: rate("plimsoll.oplog.appendedBytes"),
    flush: grown("plimsoll.oplog.flushes") > 0 ? grown("plimsoll.oplog.flushMicros") / grown("plimsoll.oplog.flushes") / 1000 : NaN,
    diskRead: rate("plimsoll.pageStore.bytesRead"),
    diskWritten: rate("plimsoll.pageStore.bytesWritten"),
    delay: status.plimsoll.heldBack.delayMicros / 1000,
    waiting: (pick(status, "plimsoll.admission.reads.waiting") ?? 0) + (pick(status, "plimsoll.admission.writes.waiting") ?? 0),
    processors: (rate("extra_info.user_time_us") + rate("extra_info.system_time_us")) / 1e6,
    connections: status.connections.current,
    active: status.connections.active,
  };
}

function take(status) {
  if (before && status.uptimeMillis < before.uptimeMillis) before = undefined;
  if (before && status.uptimeMillis - before.uptimeMillis < 300) return;
  if (before) samples.push(sampleOf(status));
  while (samples.length > POINTS) samples.shift();
  before = status;
}

const SEVERITY = { warning: "warn", critical: "bad", error: "bad" };

function warnings(status) {
  const told = status.plimsoll.warnings.map((warning) =>
    el(
      "li",
      { class: `notice ${SEVERITY[warning.severity] ?? "warn"}` },
      el("b", null, warning.what),
      el("span", null, warning.advice),
      el("small", null, `${warning.pattern}, since ${when(warning.since.$date)}`),
    ),
  );
  const aside = status.plimsoll.setAside.map((work) =>
    el(
      "li",
      { class: "notice bad" },
      el("b", null, `Set aside: ${work.what} of ${work.ns} ${work.index}`),
      el("span", null, `${work.reason}. ${work.advice}`),
    ),
  );
  const stopped = status.plimsoll.writes.areAccepted
    ? []
    : [
        el(
          "li",
          { class: "notice bad" },
          el("b", null, `Nothing is written: ${status.plimsoll.writes.stoppedBecause}`),
          el("span", null, status.plimsoll.writes.advice),
        ),
      ];
  const every = [...stopped, ...told, ...aside];
  return every.length > 0
    ? el("ul", { class: "notices" }, every)
    : el(
        "p",
        { class: "notice good" },
        el("b", null, "No warnings."),
        el("span", null, "The server judges its last minutes every five seconds."),
      );
}

const CAUSES = {
  dirtyPages: "changed pages",
  lackOfFreeFrames: "lack of free frames",
  checkpointCopies: "copies for the checkpoint",
  bufferedChanges: "buffered changes",
  history: "older versions",
  sparseLeaves: "sparse leaves",
};

function heldBack(status) {
  const { what, why, delayMicros, explanations, pressure } = status.plimsoll.heldBack;
  const nothing = explanations.length === 0 && what === "nothing";
  const line = nothing
    ? "Nothing is held back."
    : what === "nothing"
      ? "Writes are not delayed, but:"
      : `Writes are delayed by up to ${duration(delayMicros / 1000)}: ${CAUSES[why] ?? why}.`;
  const meters = Object.entries(pressure).map(([cause, share]) =>
    el(
      "div",
      { class: "meter" },
      el("span", null, CAUSES[cause] ?? cause),
      el("meter", { min: 0, max: 1, low: 0.01, high: 0.5, optimum: 0, value: share, "aria-label": CAUSES[cause] ?? cause }),
      el("span", { class: "number" }, `${Math.round(share * 100)} %`),
    ),
  );
  return [
    el("p", { class: `notice ${nothing ? "good" : "warn"}` }, el("b", null, line)),
    el(
      "ul",
      { class: "plain" },
      explanations.map((text) => el("li", null, text)),
    ),
    el("div", { class: "meters" }, meters),
  ];
}

function figure(name, value, more) {
  return el("div", { class: "figure" }, el("span", null, name), el("b", null, value), el("small", null, more));
}

function figures(status) {
  const last = samples.at(-1) ?? {};
  const { cache, memory, oplog } = status.plimsoll;
  const operations = last.reads + last.writes + last.commands;
  return [
    figure(
      "Operations",
      Number.isFinite(operations) ? `${short(operations)}/s` : "–",
      `${short(last.reads)} reads, ${short(last.writes)} writes`,
    ),
    figure("Cache", `${Math.round((100 * cache.usedBytes) / cache.bytes)} %`, `${bytes(cache.usedBytes)} of ${bytes(cache.bytes)}`),
    figure("Dirty", `${((100 * cache.dirtyBytes) / cache.bytes).toFixed(1)} %`, `${bytes(cache.dirtyBytes)} not yet written`),
    figure("Memory", bytes(memory.reservedBytes), `of a budget of ${bytes(memory.limitBytes)}`),
    figure(
      "Oplog",
      bytes(oplog.endPosition - oplog.firstPosition),
      oplog.segments === 1 ? "in one file" : `in ${count(oplog.segments)} files`,
    ),
    figure("Connections", count(status.connections.current), `${count(status.connections.active)} run a command`),
  ];
}

const perSecond = (number) => `${short(number)}/s`;
const percent = (number) => (Number.isFinite(number) ? `${number.toFixed(number < 10 && number > 0 ? 1 : 0)} %` : "–");
const bytesPerSecond = (number) => (Number.isFinite(number) ? `${bytes(number)}/s` : "–");

const charts = () => [
  chart({
    title: "Throughput",
    unit: perSecond,
    lines: [
      { name: "reads", value: (s) => s.reads },
      { name: "writes", value: (s) => s.writes },
      { name: "commands", value: (s) => s.commands },
    ],
  }),
  chart({
    title: "Latency, mean of each second",
    unit: duration,
    lines: [
      { name: "reads", value: (s) => s.readMillis },
      { name: "writes", value: (s) => s.writeMillis },
      { name: "commands", value: (s) => s.commandMillis },
    ],
  }),
  chart({
    title: "Page cache",
    unit: percent,
    top: 100,
    lines: [
      { name: "used", value: (s) => s.used },
      { name: "dirty", value: (s) => s.dirty },
    ],
  }),
  chart({ title: "Writes held back", unit: duration, lines: [{ name: "delay of each", value: (s) => s.delay }] }),
  chart({ title: "Oplog", unit: bytesPerSecond, isBinary: true, lines: [{ name: "appended", value: (s) => s.oplog }] }),
  chart({ title: "A flush of the oplog", unit: duration, lines: [{ name: "mean", value: (s) => s.flush }] }),
  chart({
    title: "Page file",
    unit: bytesPerSecond,
    isBinary: true,
    lines: [
      { name: "read", value: (s) => s.diskRead },
      { name: "written", value: (s) => s.diskWritten },
    ],
  }),
  chart({
    title: "Processors in use",
    unit: (number) => (Number.isFinite(number) ? number.toFixed(2) : "–"),
    lines: [{ name: "processors", value: (s) => s.processors }],
  }),
];

/** The page. */
export async function show(main, { signal }) {
  const [numbers, notices, held] = [el("div", { class: "figures" }), el("div"), el("div")];
  const drawn = charts();
  const about = el("p", { class: "faint" });
  const trouble = el("div");
  fill(
    main,
    el("header", { class: "head" }, el("h1", null, "Overview"), about),
    trouble,
    numbers,
    el("div", { class: "two" }, panel("Warnings", notices), panel("Held back", held)),
    el("div", { class: "charts" }, drawn),
  );
  await repeat(signal, 1000, async () => {
    try {
      const status = await command("admin", { serverStatus: 1 }, signal);
      take(status);
      if (signal.aborted) return;
      fill(trouble);
      fill(about, `${status.host}, process ${count(status.pid).replaceAll(",", "")}, up for ${duration(status.uptimeMillis)}`);
      fill(numbers, figures(status));
      fill(notices, warnings(status));
      fill(held, heldBack(status));
      drawn.forEach((figure) => figure.draw(samples));
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error));
    }
  });
}
