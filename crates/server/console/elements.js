// Elements and words: what all pages are made of. Nothing here makes HTML from text, so no document can bring any.

const SVG = "http://www.w3.org/2000/svg";

function apply(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") node[name] = value;
    else if (name === "styles") for (const [property, text] of Object.entries(value)) node.style.setProperty(property, text);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** An element of HTML: `onclick` and the like listen, `styles` are properties of CSS, other properties are attributes. */
export function el(tag, properties, ...children) {
  return apply(document.createElement(tag), properties, children);
}

/** An element of SVG. */
export function svg(tag, properties, ...children) {
  return apply(document.createElementNS(SVG, tag), properties, children);
}

/** Puts other children into an element. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

const PATHS = {
  overview: "M3 12h4l3-8 4 16 3-8h4",
  operations: "M4 6h16M4 12h10M4 18h6",
  collections: "M4 6c0-4 16-4 16 0v12c0 4-16 4-16 0zM4 6c0 4 16 4 16 0M4 12c0 4 16 4 16 0",
  query: "M10 4a6 6 0 1 0 0 12a6 6 0 0 0 0-12zM15 15l6 6",
  slow: "M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18zM12 7v5l4 2",
  profile: "M12 21c-5 0-7-3-7-6 0-4 4-5 4-11 5 2 4 6 6 7 1-1 1-2 1-3 3 3 3 5 3 7 0 3-2 6-7 6z",
  rings: "M12 3a9 9 0 1 0 9 9M12 8a4 4 0 1 0 4 4M21 5l-4 3",
  backups: "M12 3v12M7 10l5 5 5-5M4 20h16",
  users: "M9 4a4 4 0 1 0 0 8a4 4 0 0 0 0-8zM2 21c0-5 14-5 14 0M17 5a3 3 0 0 1 0 7M18 15c3 0 4 3 4 5",
  members: "M12 3a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM5 15a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM19 15a3 3 0 1 0 0 6a3 3 0 0 0 0-6zM10.5 9l-4 6M13.5 9l4 6M8 18h8",
  mark: "M12 4.5a7.5 7.5 0 1 0 0 15a7.5 7.5 0 0 0 0-15zM1 12h22",
};

/** A small drawing; decoration only. */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A number with its thousands apart. */
export function count(number) {
  return number === undefined || number === null || Number.isNaN(number) ? "–" : GROUPED.format(number);
}

/** A number as short as it may be. */
export function short(number) {
  if (number === undefined || number === null || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e9) return `${(number / 1e9).toFixed(1)}G`;
  if (size >= 1e6) return `${(number / 1e6).toFixed(1)}M`;
  if (size >= 1e4) return `${(number / 1e3).toFixed(0)}k`;
  if (size >= 1e3) return `${(number / 1e3).toFixed(1)}k`;
  if (size >= 100 || Number.isInteger(number)) return number.toFixed(0);
  return size >= 1 ? number.toFixed(1) : number.toFixed(2);
}

/** Bytes in their unit. */
export function bytes(number) {
  if (number === undefined || number === null || Number.isNaN(number)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(number) >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit === 0 || Math.abs(number) >= 100 ? number.toFixed(0) : number.toFixed(1)} ${units[unit]}`;
}

/** A time, given in milliseconds, in its unit. */
export function duration(millis) {
  if (millis === undefined || millis === null || Number.isNaN(millis)) return "–";
  if (millis < 1) return `${(millis * 1000).toFixed(0)} µs`;
  if (millis < 10) return `${millis.toFixed(1)} ms`;
  if (millis < 1000) return `${millis.toFixed(0)} ms`;
  const seconds = millis / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** A moment, of the place where the browser is. */
export function when(moment) {
  const date = new Date(moment);
  if (Number.isNaN(date.getTime())) return "–";
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A table. Columns: `{name, number, cell(row), class}`. */
export function table(columns, rows, { label, row: ofRow, empty = "Nothing." } = {}) {
  if (rows.length === 0) return el("p", { class: "empty" }, empty);
  const kind = (column) => [column.number ? "number" : "", column.class ?? ""].join(" ").trim() || undefined;
  const heads = columns.map((column) => el("th", { scope: "col", class: kind(column) }, column.name));
  const line = (row) => {
    const cells = columns.map((column) => el("td", { class: kind(column), "data-name": column.name }, column.cell(row)));
    return el("tr", ofRow?.(row), cells);
  };
  const body = el("tbody", null, rows.map(line));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", null, el("thead", null, el("tr", null, heads)), body),
  );
}

/** A field of a form with its name above it. */
export function field(name, input, hint) {
  return el("label", { class: "field" }, el("span", null, name), input, hint && el("small", null, hint));
}

/** A piece of a page. */
export function panel(title, ...children) {
  return el("section", { class: "panel" }, title && el("h2", null, title), children);
}

/** Says something for a while. */
export function toast(message, tone = "") {
  const said = el("div", { class: `toast ${tone}` }, message);
  document.getElementById("toasts").append(said);
  setTimeout(() => said.remove(), tone === "bad" ? 9000 : 4000);
}

/** What has gone wrong, where it should have been. */
export function failure(error) {
  const code = error.codeName ? ` (${error.codeName}, ${error.code})` : "";
  return el("div", { class: "banner bad", role: "alert" }, `${error.message}${code}`);
}

/** A page with its head at once, and below it what `look` gives or puts there when that is there, or why it is not. */
export async function lookedUp(main, signal, head, look) {
  const body = el("div", null, el("p", { class: "faint" }, "Looking …"));
  fill(main, head, body);
  try {
    const found = await look(body);
    if (found && !signal.aborted) fill(body, found);
  } catch (error) {
    if (!signal.aborted) fill(body, failure(error));
  }
}

/** A dialog over the page. `build(close)` gives its children; gives what `close` is told, or undefined when it is left. */
export function dialog(title, build, kind = "") {
  return new Promise((resolve) => {
    let result;
    const close = (told) => {
      result = told;
      box.close();
      // The event comes later: by then another dialog may stand beside this one.
      box.remove();
    };
    const box = el("dialog", { class: kind, "aria-label": title }, el("h2", null, title));
    box.append(...[build(close)].flat(Infinity));
    box.addEventListener("close", () => {
      box.remove();
      resolve(result);
    });
    document.body.append(box);
    box.showModal();
  });
}

/** Asks before something is done that cannot be undone. */
export function confirm(title, text, action) {
  return dialog(
    title,
    (close) => [
      el("p", null, text),
      el(
        "div",
        { class: "buttons" },
        el("button", { type: "button", onclick: () => close(false), autofocus: true }, "Cancel"),
        el("button", { type: "button", class: "danger", onclick: () => close(true) }, action),
      ),
    ],
    "small",
  );
}

/** Runs `work` again and again while the page is looked at, until the signal says no. */
export async function repeat(signal, millis, work) {
  while (!signal.aborted) {
    if (!document.hidden) await work();
    if (signal.aborted) return;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, millis);
      signal.addEventListener(
        "abort",
        () => {
          clearTimeout(timer);
          resolve();
        },
        { once: true },
      );
    });
  }
}
