// Capped collections: how the documents of each lie in its file, around and around.

import { all, command } from "./api.js";
import { collections, databases, link, listOrOne } from "./collections.js";
import { bytes, count, el, lookedUp, panel, svg, table } from "./elements.js";

/** Documents whose places are drawn. */
const DRAWN = 20000;

/** As SERVER-17561 has it: 1 is linear, above 60 is trouble. The jump back where the ring wraps does not count. */
export function fragmentation(positions) {
  const roughness = (of) => {
    let [sum, back] = [0, 0];
    for (let index = 1; index < of.length; index += 1) {
      const jump = of[index] - of[index - 1];
      sum += jump * jump;
      back = Math.min(back, jump);
    }
    return Math.sqrt(Math.max(sum - back * back, 0));
  };
  const sorted = roughness(positions.toSorted((left, right) => left - right));
  return positions.length > 2 && sorted > 0 ? roughness(positions) / sorted : undefined;
}

async function list(main, { signal }) {
  const head = el(
    "header",
    { class: "head" },
    el("h1", null, "Rings"),
    el("p", { class: "faint" }, "Capped collections: each lies in a file of its own, one document behind the other."),
  );
  await lookedUp(main, signal, head, async () => {
    const rows = [];
    for (const database of await databases(signal)) {
      const capped = await collections(database, { "options.capped": true }, signal).catch(() => []);
      for (const { name } of capped)
        rows.push({ database, name, stats: await command(database, { collStats: name }, signal).catch(() => ({})) });
    }
    return panel(
      undefined,
      table(
        [
          { name: "Collection", class: "wide", cell: ({ database, name }) => link(["rings", database, name], `${database}.${name}`) },
          { name: "Documents", number: true, cell: ({ stats }) => count(stats.count) },
          { name: "Data", number: true, cell: ({ stats }) => bytes(stats.size) },
          { name: "Capped at", number: true, cell: ({ stats }) => bytes(stats.maxSize) },
          {
            name: "Full",
            cell: ({ stats }) =>
              el("meter", { min: 0, max: 1, value: stats.maxSize ? stats.size / stats.maxSize : 0, "aria-label": "Full" }),
          },
        ],
        rows,
        { label: "Capped collections", empty: 'There are none. createCollection("name", { capped: true, size: … }) makes one.' },
      ),
    );
  });
}

const at = (share, radius) =>
  [100 + radius * Math.sin(2 * Math.PI * share), 100 - radius * Math.cos(2 * Math.PI * share)].map((number) => number.toFixed(2)).join(" ");

/** An arc of a circle, by shares of it. */
function arc(from, to, radius, properties) {
  const end = Math.min(to, from + 0.9999);
  return svg("path", { d: `M${at(from, radius)}A${radius} ${radius} 0 ${end - from > 0.5 ? 1 : 0} 1 ${at(end, radius)}`, ...properties });
}

/** The ring: age by colour, the oldest pale, and where the next document goes. */
function circle(places, length) {
  const parts = 120;
  const arcs = [];
  const ages = Array.from({ length: parts }, () => []);
  places.forEach(({ position }, index) =>
    ages[Math.min(parts - 1, Math.floor((position / length) * parts))].push(index / Math.max(1, places.length - 1)),
  );
  ages.forEach((inside, part) => {
    const age = inside.length === 0 ? undefined : inside.reduce((sum, one) => sum + one, 0) / inside.length;
    arcs.push(
      arc(part / parts, (part + 0.85) / parts, 78, {
        class: age === undefined ? "arc free" : "arc used",
        "stroke-opacity": age === undefined ? 1 : (0.2 + 0.8 * age).toFixed(2),
      }),
    );
  });
  const newest = places.at(-1);
  const head = newest ? ((newest.position + newest.bytes) / length) % 1 : 0;
  return svg(
    "svg",
    {
      viewBox: "0 0 200 200",
      class: "ring",
      role: "img",
      "aria-label": "The ring: the newest documents are darkest, the mark is where the next one goes",
    },
    arcs,
    svg("path", { d: `M${at(head, 64)}L${at(head, 94)}`, class: "head" }),
    svg("text", { x: 100, y: 96, "text-anchor": "middle", class: "large" }, count(places.length)),
    svg("text", { x: 100, y: 114, "text-anchor": "middle" }, "documents"),
  );
}

/** Place against number: lines that rise are linear. */
function line(places, length) {
  const step = Math.max(1, Math.floor(places.length / 1500));
  const dots = places.filter((_, index) => index % step === 0);
  return svg(
    "svg",
    { viewBox: "0 0 520 200", class: "chart", role: "img", "aria-label": "Place of each document in natural order" },
    svg(
      "g",
      { class: "grid" },
      [10, 90, 170].map((y) => svg("line", { x1: 84, x2: 512, y1: y, y2: y })),
      svg("text", { x: 78, y: 14, "text-anchor": "end" }, bytes(length)),
      svg("text", { x: 78, y: 174, "text-anchor": "end" }, "0"),
      svg("text", { x: 84, y: 194 }, "oldest"),
      svg("text", { x: 512, y: 194, "text-anchor": "end" }, "newest"),
    ),
    svg(
      "g",
      { class: "places" },
      dots.map(({ position }, index) =>
        svg("circle", {
          r: 1.6,
          cx: (84 + (428 * index) / Math.max(1, dots.length - 1)).toFixed(1),
          cy: (170 - (160 * position) / length).toFixed(1),
        }),
      ),
    ),
  );
}

async function one(main, { signal, path: [database, name] }) {
  const crumbs = el("p", { class: "crumbs" }, link(["rings"], "Rings"), " / ", database);
  const head = el("header", { class: "head" }, crumbs, el("h1", null, name));
  await lookedUp(main, signal, head, async () => {
    const stats = await command(database, { collStats: name }, signal);
    const places = await all(database, { plimsollPositions: name, cursor: { batchSize: 5000 } }, DRAWN, signal);
    const length = Math.max(
      1,
      stats.maxSize ?? 0,
      ...places.slice(-1).map(({ position, bytes: own }) => position + own),
      places.reduce((most, { position, bytes: own }) => Math.max(most, position + own), 0),
    );
    const figure = (title, value, more) =>
      el("div", { class: "figure" }, el("span", null, title), el("b", null, value), more && el("small", null, more));
    const linear = fragmentation(places.map(({ position }) => position));
    return [
      el(
        "div",
        { class: "figures" },
        figure("Documents", count(stats.count)),
        figure("Data", bytes(stats.size)),
        figure("Capped at", bytes(stats.maxSize)),
        figure("Fragmentation", linear === undefined ? "–" : linear.toFixed(2), "1 is linear, above 60 is trouble"),
      ),
      places.length === 0
        ? el("p", { class: "empty" }, "No document yet.")
        : el("div", { class: "two" }, panel("The file as a ring", circle(places, length)), panel("Place by age", line(places, length))),
      stats.count > places.length && el("p", { class: "faint" }, `Drawn are the ${count(places.length)} oldest.`),
    ];
  });
}

/** The page: all rings, or one. */
export const show = listOrOne(list, one);
