// Where the server computes: the command plimsollProfile, as a flame graph and as a list of functions.

import { command } from "./api.js";
import { count, el, failure, fill, panel, svg, table } from "./elements.js";

const ROW = 22;
const WIDTH = 1200;
/** Of the whole, below which nothing is drawn. */
const SMALLEST = 0.002;
let last;

/** A function's name without its hash and with short paths. */
const shortName = (name) => name.replace(/::h[0-9a-f]{16}$/, "").replace(/<([^<>]*) as [^<>]*>/g, "$1");

/** The tree of folded stacks: `{ name, value, own, children }`. */
export function treeOf(folded) {
  const root = { name: "all", value: 0, own: 0, children: new Map() };
  for (const line of folded.split("\n")) {
    const [, stack, times] = /^(.*) (\d+)$/.exec(line) ?? [];
    if (stack === undefined) continue;
    let at = root;
    at.value += Number(times);
    for (const name of stack.split(";").map(shortName)) {
      if (!at.children.has(name)) at.children.set(name, { name, value: 0, own: 0, children: new Map(), parent: at });
      at = at.children.get(name);
      at.value += Number(times);
    }
    at.own += Number(times);
  }
  return root;
}

/** Functions with what was seen in them alone and with what they call, most first. */
function functionsOf(root) {
  const found = new Map();
  const visit = (node, above) => {
    const known = found.get(node.name) ?? { name: node.name, own: 0, total: 0 };
    known.own += node.own;
    if (!above.has(node.name)) known.total += node.value;
    found.set(node.name, known);
    const inside = new Set(above).add(node.name);
    node.children.forEach((child) => visit(child, inside));
  };
  root.children.forEach((child) => visit(child, new Set()));
  return [...found.values()].sort((left, right) => right.own - left.own);
}

/** Colours tell neighbours apart, and a function has one everywhere; what is not ours is grey. */
function colourOf(name) {
  if (/^_|^(?:all|syscall|main|start|clone|plimsoll)$|^(?:std|core|alloc|tokio|pthread|ZSTD)/.test(name)) return "other";
  let sum = 0;
  for (const character of name.split(/[<(]/)[0]) sum = (sum * 31 + character.codePointAt(0)) % 9973;
  return `c${sum % 6}`;
}

function depthOf(node) {
  return 1 + Math.max(0, ...[...node.children.values()].map(depthOf));
}

/** The graph: the widest first, what was called above its caller's box; a box is pressed to see it alone. */
function graph(root) {
  const told = el("p", { class: "faint flame-told", "aria-live": "polite" });
  const search = el("input", { type: "search", placeholder: "Mark functions", "aria-label": "Mark functions" });
  const holder = el("div", { class: "scroll flame", tabindex: "0", role: "region", "aria-label": "Flame graph" });
  let top = root;
  const say = (node) => {
    told.textContent = `${node.name}: ${count(node.value)} samples, ${((100 * node.value) / root.value).toFixed(1)} %${node.own > 0 ? `, ${((100 * node.own) / root.value).toFixed(1)} % in itself` : ""}`;
  };
  const draw = (focus) => {
    const ancestors = [];
    for (let above = top.parent; above; above = above.parent) ancestors.unshift(above);
    const rows = ancestors.length + depthOf(top);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${rows * ROW}`, role: "group", "aria-label": "Flame graph" });
    const wanted = search.value.toLowerCase();
    const box = (node, x, width, row, faded) => {
      const isMarked = wanted !== "" && node.name.toLowerCase().includes(wanted);
      const group = svg(
        "g",
        {
          class: `frame ${colourOf(node.name)}${faded ? " faded" : ""}${isMarked ? " marked" : ""}`,
          tabindex: "0",
          role: "button",
          "aria-label": `${node.name}, ${((100 * node.value) / root.value).toFixed(1)} percent`,
          transform: `translate(${x.toFixed(1)} ${(rows - 1 - row) * ROW})`,
          onclick: () => {
            top = node;
            draw(true);
          },
          onkeydown: (event) => {
            if (event.key === "Enter" || event.key === " ") {
              event.preventDefault();
              top = node;
              draw(true);
            }
          },
          onpointerenter: () => say(node),
          onfocus: () => say(node),
        },
        svg("rect", { width: Math.max(width - 1, 0.5).toFixed(1), height: ROW - 1, rx: 2 }),
      );
      const room = Math.floor(width / 6.6) - 1;
      if (room > 2) group.append(svg("text", { x: 4, y: 15 }, node.name.length > room ? `${node.name.slice(0, room - 1)}…` : node.name));
      picture.append(group);
      return group;
    };
    const place = (node, x, width, row) => {
      const group = box(node, x, width, row, false);
      let from = x;
      for (const child of [...node.children.values()].sort((left, right) => left.name.localeCompare(right.name))) {
        const wide = (width * child.value) / node.value;
        if (wide / WIDTH >= SMALLEST) place(child, from, wide, row + 1);
        from += wide;
      }
      return group;
    };
    ancestors.forEach((node, row) => box(node, 0, WIDTH, row, true));
    const first = place(top, 0, WIDTH, ancestors.length);
    fill(holder, picture);
    requestAnimationFrame(() => {
      holder.scrollTop = holder.scrollHeight;
    });
    say(top);
    if (focus) first.focus();
  };
  search.addEventListener("input", () => draw());
  draw();
  return [
    el(
      "div",
      { class: "row" },
      search,
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            top = root;
            draw();
          },
        },
        "All of it",
      ),
      told,
    ),
    holder,
  ];
}

function drawn({ root, seconds }) {
  if (root.value === 0) return panel("Profile", el("p", { class: "empty" }, `Nothing was computed in ${seconds} s.`));
  const functions = functionsOf(root).slice(0, 25);
  const share = (number) => `${((100 * number) / root.value).toFixed(1)} %`;
  return [
    panel(`Flame graph: ${count(root.value)} samples of ${seconds} s`, graph(root)),
    panel(
      "Functions",
      table(
        [
          { name: "In itself", number: true, cell: ({ own }) => share(own) },
          { name: "With what it calls", number: true, cell: ({ total }) => share(total) },
          {
            name: "",
            class: "bars",
            cell: ({ own }) => el("span", { class: "bar" }, el("i", { styles: { width: share(own).replace(" ", "") } })),
          },
          { name: "Function", class: "wide", cell: ({ name }) => el("code", null, name) },
        ],
        functions,
        { label: "Functions" },
      ),
    ),
  ];
}

/** The page. */
export async function show(main, { signal }) {
  const body = el(
    "div",
    null,
    last
      ? drawn(last)
      : el(
          "p",
          { class: "empty" },
          "A profile says where the server spends the time of its processors. It is sampled 99 times a second of computing, and costs next to nothing.",
        ),
  );
  const seconds = el(
    "select",
    { "aria-label": "For how long" },
    [1, 3, 5, 10].map((number) => el("option", { value: number, selected: number === 3 }, `${number} s`)),
  );
  const start = el("button", { type: "submit", class: "primary" }, "Sample");
  const sample = async (event) => {
    event.preventDefault();
    start.disabled = true;
    fill(body, el("p", { class: "faint" }, `Sampling for ${seconds.value} s …`));
    try {
      const reply = await command("admin", { plimsollProfile: 1, seconds: Number(seconds.value), hertz: 99 }, signal);
      last = { root: treeOf(reply.folded), seconds: reply.seconds };
      fill(body, drawn(last));
    } catch (error) {
      if (!signal.aborted) fill(body, failure(error));
    }
    start.disabled = false;
  };
  fill(
    main,
    el("header", { class: "head" }, el("h1", null, "Profile"), el("form", { class: "row", onsubmit: sample }, seconds, start)),
    body,
  );
}
