// Line charts that move: figures of the last minutes, one point a second.

import { el, svg } from "./elements.js";

const HEIGHT = 168;
const LEFT = 64;
const RIGHT = 8;
const BOTTOM = 20;
const TOP = 10;
/** Points that are kept, and drawn: five minutes. */
export const POINTS = 300;

/** Seconds that are shown: no more than are needed, so that a page that has just been opened is not empty. */
const SPANS = [60, 120, POINTS];

/** The least round number that is not below: of ten, or of two for bytes. */
function roundUp(number, isBinary) {
  if (!(number > 0)) return isBinary ? 1024 : 1;
  const base = isBinary ? 1024 : 10;
  const power = base ** Math.floor(Math.log(number) / Math.log(base));
  const steps = isBinary ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 4, 5, 10];
  return steps.map((step) => step * power).find((step) => step >= number * 0.999) ?? base * power;
}

const timeLabels = (span) =>
  span <= 60
    ? [
        [15, "−15 s"],
        [30, "−30 s"],
        [45, "−45 s"],
      ]
    : span <= 120
      ? [
          [30, "−30 s"],
          [60, "−1 min"],
          [90, "−90 s"],
        ]
      : [1, 2, 3, 4].map((minutes) => [minutes * 60, `−${minutes} min`]);

/**
 * A chart. `lines`: `[{ name, value(sample) }]`, up to three; `unit(number)` writes a value; `top`: the largest value there can be.
 * Gives the element, with `draw(samples)`.
 */
export function chart({ title, lines, unit, top, isBinary = false }) {
  const grid = svg("g", { class: "grid" });
  const paths = lines.map((_, index) => svg("path", { class: `line s${index}` }));
  const area = svg("path", { class: "area s0" });
  const cross = svg("g", { class: "cross", visibility: "hidden" }, svg("line", { y1: TOP, y2: HEIGHT - BOTTOM }));
  const dots = lines.map((_, index) => svg("circle", { r: 3.5, class: `dot s${index}` }));
  cross.append(...dots);
  const picture = svg("svg", { class: "chart live", height: HEIGHT, role: "img" }, grid, area, paths, cross);
  const values = lines.map(() => el("b"));
  const time = el("span", { class: "when" });
  const keys = lines.map((line, index) => el("span", { class: "key" }, el("i", { class: `s${index}` }), line.name, " ", values[index]));
  const figure = el(
    "figure",
    { class: "panel chart-panel" },
    el("figcaption", null, el("h2", null, title), time, el("div", { class: "keys" }, keys)),
    picture,
  );
  let samples = [];
  let [width, step] = [520, 1];
  let pointed;

  const x = (index) => width - RIGHT - (samples.length - 1 - index) * step;
  const tell = () => {
    const index = pointed ?? samples.length - 1;
    const sample = samples[index];
    lines.forEach((line, at) => {
      values[at].textContent = sample ? unit(line.value(sample)) : "–";
    });
    time.textContent = pointed === undefined || !sample ? "" : new Date(sample.time).toLocaleTimeString();
    picture.setAttribute("aria-label", `${title}: ${lines.map((line, at) => `${line.name} ${values[at].textContent}`).join(", ")}`);
  };

  function draw(given) {
    samples = given;
    const span = SPANS.find((seconds) => seconds >= samples.length) ?? POINTS;
    width = picture.clientWidth || width;
    step = (width - LEFT - RIGHT) / (span - 1);
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const all = lines.map((line) => samples.map((sample) => line.value(sample)));
    const known = all.flat().filter(Number.isFinite);
    const ceiling = top ?? roundUp(Math.max(...known, 0), isBinary);
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(value / ceiling, 1));
    grid.replaceChildren(
      ...[0, 0.5, 1].flatMap((share) => [
        svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(share * ceiling), y2: y(share * ceiling) }),
        svg("text", { x: LEFT - 8, y: y(share * ceiling) + 4, "text-anchor": "end" }, unit(share * ceiling)),
      ]),
      ...timeLabels(span).map(([seconds, text]) =>
        svg("text", { x: width - RIGHT - seconds * step, y: HEIGHT - 4, "text-anchor": "middle" }, text),
      ),
    );
    all.forEach((of, at) => {
      let path = "";
      of.forEach((value, index) => {
        if (Number.isFinite(value))
          path += `${path === "" || !Number.isFinite(of[index - 1]) ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      });
      paths[at].setAttribute("d", path);
      if (at === 0) {
        const first = of.findIndex(Number.isFinite);
        area.setAttribute(
          "d",
          path && !path.slice(1).includes("M") ? `${path}L${x(of.length - 1).toFixed(1)} ${y(0)}L${x(first).toFixed(1)} ${y(0)}Z` : "",
        );
      }
      const value = pointed === undefined ? NaN : of[pointed];
      dots[at].setAttribute("visibility", Number.isFinite(value) ? "inherit" : "hidden");
      if (Number.isFinite(value)) {
        dots[at].setAttribute("cx", x(pointed));
        dots[at].setAttribute("cy", y(value));
      }
    });
    cross.setAttribute("visibility", pointed === undefined ? "hidden" : "visible");
    if (pointed !== undefined) {
      cross.firstChild.setAttribute("x1", x(pointed));
      cross.firstChild.setAttribute("x2", x(pointed));
    }
    tell();
  }

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const index = samples.length - 1 - Math.round((width - RIGHT - (event.clientX - box.left)) / step);
    pointed = index >= 0 && index < samples.length ? index : undefined;
    draw(samples);
  });
  picture.addEventListener("pointerleave", () => {
    pointed = undefined;
    draw(samples);
  });
  figure.draw = draw;
  return figure;
}
