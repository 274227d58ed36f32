// Line charts that move: figures of the last minutes, one point a second.

import { el, svg } from "./elements.js";

const WIDTH = 520;
const HEIGHT = 168;
const LEFT = 52;
const BOTTOM = 20;
const TOP = 10;
/** Points that are kept, and drawn: five minutes. */
export const POINTS = 300;

/** The least round number that is not below. */
function roundUp(number) {
  if (!(number > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= number * 0.999);
}

/**
 * A chart. `lines`: `[{ name, value(sample) }]`, up to three; `unit(number)` writes a value; `top`: the largest value there can be.
 * Gives the element, with `draw(samples)`.
 */
export function chart({ title, lines, unit, top, note }) {
  const grid = svg("g", { class: "grid" });
  const paths = lines.map((_, index) => svg("path", { class: `line s${index}` }));
  const area = svg("path", { class: "area s0" });
  const cross = svg("g", { class: "cross", visibility: "hidden" }, svg("line", { y1: TOP, y2: HEIGHT - BOTTOM }));
  const dots = lines.map((_, index) => svg("circle", { r: 3.5, class: `dot s${index}` }));
  cross.append(...dots);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img" }, grid, area, paths, cross);
  const values = lines.map(() => el("b"));
  const time = el("span", { class: "when" });
  const keys = lines.map((line, index) => el("span", { class: "key" }, el("i", { class: `s${index}` }), line.name, " ", values[index]));
  const figure = el("figure", { class: "panel chart-panel" }, el("figcaption", null, el("h2", null, title), time, el("div", { class: "keys" }, keys)), picture,
    note && el("p", { class: "faint" }, note));
  let samples = [];
  let pointed;

  const x = (index) => WIDTH - 8 - (samples.length - 1 - index) * ((WIDTH - LEFT - 8) / (POINTS - 1));
  const tell = () => {
    const index = pointed ?? samples.length - 1;
    const sample = samples[index];
    lines.forEach((line, at) => { values[at].textContent = sample ? unit(line.value(sample)) : "–"; });
    time.textContent = pointed === undefined || !sample ? "" : new Date(sample.time).toLocaleTimeString();
    picture.setAttribute("aria-label", `${title}: ${lines.map((line, at) => `${line.name} ${values[at].textContent}`).join(", ")}`);
  };

  function draw(given) {
    samples = given;
    const all = lines.map((line) => samples.map((sample) => line.value(sample)));
    const known = all.flat().filter(Number.isFinite);
    const ceiling = top ?? roundUp(Math.max(...known, 0));
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.min(value / ceiling, 1));
    grid.replaceChildren(...[0, 0.5, 1].flatMap((share) => [
      svg("line", { x1: LEFT, x2: WIDTH - 8, y1: y(share * ceiling), y2: y(share * ceiling) }),
      svg("text", { x: LEFT - 8, y: y(share * ceiling) + 4, "text-anchor": "end" }, unit(share * ceiling)),
    ]), ...[4, 3, 2, 1].map((minutes) => svg("text", { x: WIDTH - 8 - minutes * 60 * ((WIDTH - LEFT - 8) / (POINTS - 1)), y: HEIGHT - 4, "text-anchor": "middle" }, `−${minutes} min`)));
    all.forEach((of, at) => {
      let path = "";
      of.forEach((value, index) => {
        if (Number.isFinite(value)) path += `${path === "" || !Number.isFinite(of[index - 1]) ? "M" : "L"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
      });
      paths[at].setAttribute("d", path);
      if (at === 0) {
        const first = of.findIndex(Number.isFinite);
        area.setAttribute("d", path && !path.slice(1).includes("M") ? `${path}L${x(of.length - 1).toFixed(1)} ${y(0)}L${x(first).toFixed(1)} ${y(0)}Z` : "");
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
    const at = ((event.clientX - box.left) / box.width) * WIDTH;
    const index = samples.length - 1 - Math.round((WIDTH - 8 - at) / ((WIDTH - LEFT - 8) / (POINTS - 1)));
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
