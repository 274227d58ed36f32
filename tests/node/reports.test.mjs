// The lab's reports in a real browser: they stand alone, fit a laptop and a phone, in light and dark.
//
// The screenshots are left in the folder of PLIMSOLL_SCREENSHOTS, or in a temporary one whose name is printed.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";

import { browserOrRefusal, pageFor } from "./chromium.mjs";
import { Server } from "./connection.mjs";

const binary = process.env.PLIMSOLL_BINARY;
const folder = mkdtempSync(join(tmpdir(), "plimsoll-reports-"));
const screenshots = process.env.PLIMSOLL_SCREENSHOTS ?? join(folder, "screenshots");
const sizes = [
  { name: "laptop", width: 1280, height: 800 },
  { name: "phone", width: 390, height: 844 },
];

let browser, server, refusal;

/** Runs the binary; gives its exit code and what it printed. */
function plimsoll(...options) {
  try {
    return { code: 0, output: execFileSync(binary, options, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }) };
  } catch (error) {
    return { code: error.status, output: `${error.stdout}${error.stderr}` };
  }
}

function bench(name) {
  const output = join(folder, name);
  const options = ["--documents", "500", "--seconds", "1", "--rate", "200", "--threads", "2", "--output", output];
  const ran = plimsoll("bench", "point-mix", "--target", server.uri, ...options);
  assert.equal(ran.code, 0, ran.output);
  return output;
}

before(async () => {
  mkdirSync(screenshots, { recursive: true });
  server = await Server.start();
  ({ browser, refusal } = await browserOrRefusal());
});

after(async () => {
  await browser?.close();
  assert.equal(await server.end("SIGTERM"), 0);
  console.log(`# screenshots: ${screenshots}`);
});

/** Opens a report in all sizes and schemes and checks what a reader would notice. */
async function look(file, name, expected) {
  for (const { width, height, name: size } of sizes) {
    for (const scheme of ["light", "dark"]) {
      const page = await pageFor(browser, { width, height, scheme, mayAsk: (url) => /^(file|data|blob):/.test(url) });
      await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
      const seen = await page.evaluate(() => ({
        across: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        ground: getComputedStyle(document.body).backgroundColor,
        text: document.body.innerText,
        data: JSON.parse(document.getElementById("data").textContent) !== null,
        smallest: Math.min(...[...document.querySelectorAll("main p, main td, main th, main span")].map((element) => parseFloat(getComputedStyle(element).fontSize))),
      }));
      await page.screenshot({ path: join(screenshots, `${name}-${size}-${scheme}.png`), fullPage: true });
      await page.close();
      assert.deepEqual(page.complaints, []);
      assert.ok(seen.across <= 0, `${name} is wider than a ${size} by ${seen.across} pixels`);
      assert.ok(seen.data && seen.smallest >= 12, `${name}: text of ${seen.smallest} pixels`);
      assert.equal(seen.ground === "rgb(255, 255, 255)", scheme === "light", `${name} in ${scheme}: ${seen.ground}`);
      for (const part of expected) assert.ok(seen.text.includes(part), `${name} does not say ${part}`);
    }
  }
}

test("the report of a run", async (t) => {
  const output = bench("run");
  assert.equal(JSON.parse(readFileSync(join(output, "result.json"), "utf8")).complete, true);
  if (refusal) return t.skip(refusal);
  await look(join(output, "report.html"), "run", ["point-mix against", "Phase findOne", "Throughput by second", "load generator"]);
});

test("the report of a comparison", async (t) => {
  const [a, b, output] = [bench("a"), bench("b"), join(folder, "comparison")];
  const compared = plimsoll("compare", a, b, "--output", output);
  assert.ok([0, 3].includes(compared.code), compared.output);
  assert.match(compared.output, /verdict/);
  assert.notEqual(plimsoll("compare", a, join(folder, "nowhere")).code, 0);
  if (refusal) return t.skip(refusal);
  await look(join(output, "report.html"), "comparison", ["is B better or worse than A?", "throughput", "95 % interval"]);
});

test("the report of a history", async (t) => {
  // Results of twenty days, slower from the thirteenth on.
  const result = JSON.parse(readFileSync(join(bench("day"), "result.json"), "utf8"));
  for (let day = 1; day <= 20; day += 1) {
    const directory = join(folder, "days", `day-${day}`);
    mkdirSync(directory, { recursive: true });
    const phases = result.phases.map((phase) => ({ ...phase, operations_per_second: (day < 13 ? 1000 : 700) + (day % 3) }));
    const started = `2026-01-${String(day).padStart(2, "0")}T00:00:00Z`;
    writeFileSync(join(directory, "result.json"), JSON.stringify({ ...result, started_at: started, phases }));
  }
  const output = join(folder, "history");
  const shown = plimsoll("history", join(folder, "days"), "--output", output);
  assert.match(shown.output, /WORSE +-(?:2[89]|30)\.\d % .*2026-01-13/);
  if (refusal) return t.skip(refusal);
  await look(join(output, "report.html"), "history", ["when did figures change?", "worse"]);
});

test("the report of a profile that others made", async (t) => {
  const folded = join(folder, "stacks.folded");
  writeFileSync(folded, "server;update;write_page;rebuild_keys 66\nserver;update;apply 20\nserver;read 14\n");
  const output = join(folder, "profile");
  const shown = plimsoll("profile", "--read", folded, "--output", output);
  assert.match(shown.output, /66\.00 +66\.00 +66\.00 +rebuild_keys/);
  const refused = plimsoll("profile", "--read", binary);
  assert.notEqual(refused.code, 0);
  if (refusal) return t.skip(refusal);
  await look(join(output, "profile.html"), "profile", ["rebuild_keys", "66.00 %"]);
});

test("the report of a certification", async (t) => {
  const output = join(folder, "certificate");
  const options = ["--scale", "0.002", "--seconds", "1", "--only", "G1,G2,G3,G20", "--output", output];
  const ran = plimsoll("certify", "--target", server.uri, "--cache-mib", "16", ...options);
  assert.ok([0, 3].includes(ran.code), ran.output);
  const certificate = JSON.parse(readFileSync(join(output, "certify.json"), "utf8"));
  const verdicts = Object.fromEntries(certificate.judgements.map((judged) => [judged.guarantee, judged.verdict]));
  assert.deepEqual(Object.keys(verdicts), ["G1", "G2", "G3", "G20"]);
  assert.equal(verdicts.G20, "not judged");
  assert.ok(!Object.values(verdicts).includes("pass"), `so small a test passes nothing: ${JSON.stringify(verdicts)}`);
  if (refusal) return t.skip(refusal);
  await look(join(output, "report.html"), "certificate", ["Guarantees of plimsoll", "Writers are paced, not frozen", "Share of the cache", "Not judged, because"]);
});

test("a server samples itself where perf is missing", async () => {
  const options = ["--documents", "500", "--seconds", "2", "--threads", "2", "--output", join(folder, "sampled")];
  const load = spawn(binary, ["bench", "point-mix", "--target", server.uri, ...options], { stdio: "ignore" });
  const ended = new Promise((exited) => load.on("exit", exited));
  const output = join(folder, "self-profile");
  const shown = plimsoll("profile", "--target", server.uri, "--sampler", "server", "--seconds", "3", "--output", output);
  assert.equal(await ended, 0);
  assert.equal(shown.code, 0, shown.output);
  assert.match(readFileSync(join(output, "profile.folded"), "utf8"), /commands::/);
});

test("bad scenarios and targets are told in a sentence", () => {
  const file = join(folder, "bad.yaml");
  writeFileSync(file, "name: bad\nphases:\n  - seconds: 1\n    mix: [{findOn: {collection: a}}]\n");
  const bad = plimsoll("bench", file, "--target", server.uri);
  assert.equal(bad.code, 1);
  assert.match(bad.output, /bad\.yaml: .*findOn/s);
  const gone = plimsoll("bench", "ycsb-c", "--target", "mongodb://127.0.0.1:1");
  assert.match(gone.output, /cannot reach a server at 127\.0\.0\.1:1/);
  assert.match(plimsoll("bench", "nothing").output, /there is no scenario "nothing"/);
});
