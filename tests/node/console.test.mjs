// The console in a real browser: every page in light and dark, on a laptop and a phone, and what can be done with it.
//
// The screenshots are left in the folder of PLIMSOLL_SCREENSHOTS, or in a temporary one whose name is printed.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { browserOrRefusal, pageFor } from "./chromium.mjs";
import { Decimal128, Long, MongoClient, Server, freePort } from "./connection.mjs";

const screenshots = process.env.PLIMSOLL_SCREENSHOTS ?? join(mkdtempSync(join(tmpdir(), "plimsoll-console-")), "screenshots");
const sizes = { laptop: { width: 1280, height: 800 }, phone: { width: 360, height: 740 } };
const WAIT = { timeout: 20_000 };

let browser, server, client, shop, consolePort, refusal;

before(async () => {
  mkdirSync(screenshots, { recursive: true });
  consolePort = await freePort();
  server = await Server.start("--console", String(consolePort));
  client = await new MongoClient(`${server.uri}?appName=suite`).connect();
  shop = client.db("shop");
  const orders = Array.from({ length: 300 }, (_, number) => ({ _id: number, customer: number % 30, city: ["Hull", "Dover", "Leith"][number % 3], total: Decimal128.fromString(`${number}.50`) }));
  await shop.collection("orders").insertMany(orders);
  await shop.collection("orders").createIndex({ customer: 1 });
  await shop.createCollection("events", { capped: true, size: 20_000 });
  await shop.collection("events").insertMany(Array.from({ length: 400 }, (_, n) => ({ n, text: "x".repeat((n * 37) % 120) })));
  await shop.command({ profile: 2 });
  await shop.collection("orders").find({ city: "Hull" }).toArray();
  await shop.command({ profile: 0 });
  await client.db("admin").command({ createUser: "ada", pwd: "secret", roles: ["readAnyDatabase", "clusterMonitor"] });
  ({ browser, refusal } = await browserOrRefusal());
});

after(async () => {
  await browser?.close();
  await client?.close();
  assert.equal(await server.end("SIGTERM"), 0);
  console.log(`# screenshots: ${screenshots}`);
});

/** A page that complains of errors and of what it asks other hosts for. */
async function open({ port = consolePort, size = "laptop", scheme = "light" } = {}) {
  const own = `http://127.0.0.1:${port}/`;
  const page = await pageFor(browser, { ...sizes[size], scheme, mayAsk: (url) => url.startsWith(own) });
  page.on("console", (message) => message.type() === "error" && !/status of 40[13]/.test(message.text()) && page.complaints.push(message.text()));
  page.show = async (path, selector) => {
    await page.goto(`${own}#/${path}`);
    await page.waitForSelector(selector, WAIT);
  };
  page.press = (text, within = "body") => page.evaluate((wanted, selector) => {
    const found = [...document.querySelectorAll(`${selector} button`)].find((button) => button.textContent === wanted);
    if (!found) throw new Error(`no button ${wanted}`);
    found.click();
  }, text, within);
  page.says = (text) => page.waitForFunction((wanted) => document.body.innerText.includes(wanted), WAIT, text);
  page.write = (selector, text) => page.$eval(selector, (field, value) => {
    field.value = value;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, text);
  page.end = async () => {
    await page.close();
    assert.deepEqual(page.complaints, []);
  };
  return page;
}

const PAGES = [
  ["overview", ".chart .line[d^=M]"], ["operations", "main .panel p, main .panel table"], ["collections", "a[href='#/collections/shop/orders']"], ["collections/shop/orders", "main table code"],
  ["query/shop/orders", ".document"], ["slow", "main table details"], ["profile", "main form"], ["rings", "a[href='#/rings/shop/events']"], ["rings/shop/events", ".ring .arc.used"], ["backups", "main dl"], ["users", "main table .tag"], ["members", "main [data-alone]"],
];

for (const size of Object.keys(sizes)) {
  for (const scheme of ["light", "dark"]) {
    test(`pages, ${scheme}, on a ${size}`, async (t) => {
      if (refusal) return t.skip(refusal);
      const page = await open({ size, scheme });
      // A picture of each page takes most of the time: the other two see a part of them.
      const isWhole = (size === "laptop") === (scheme === "light");
      for (const [path, selector] of isWhole ? PAGES : PAGES.slice(0, 5)) {
        await page.show(path, selector);
        const seen = await page.evaluate(() => ({
          across: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          light: getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number).reduce((sum, part) => sum + part) > 380,
          heading: document.querySelector("main h1")?.textContent, current: document.querySelectorAll("nav a[aria-current]").length,
          failure: document.querySelector(".banner.bad")?.textContent ?? "", nameless: [...document.querySelectorAll("button, input, select, textarea")].filter((field) => !field.textContent && !field.labels?.length && !field.getAttribute("aria-label")).map((field) => field.outerHTML),
        }));
        await page.screenshot({ path: join(screenshots, `console-${path.replaceAll("/", "-")}-${size}-${scheme}.png`), fullPage: true });
        assert.ok(seen.across <= 0, `${path} is wider than the ${size} by ${seen.across}`);
        assert.deepEqual({ ...seen, across: 0, heading: Boolean(seen.heading) }, { across: 0, light: scheme === "light", heading: true, current: 1, failure: "", nameless: [] }, path);
      }
      await page.end();
    });
  }
}

test("the theme is chosen, and kept", async (t) => {
  if (refusal) return t.skip(refusal);
  const page = await open({ scheme: "light" });
  await page.show("users", "#theme");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.click("#theme");
  await page.click("#theme");
  assert.notEqual(await ground(), light);
  await page.reload();
  await page.waitForSelector("#theme", WAIT);
  assert.notEqual(await ground(), light);
  await page.evaluate(() => localStorage.clear());
  await page.end();
});

test("keys lead to the pages, and the first of Tab to the content", async (t) => {
  if (refusal) return t.skip(refusal);
  const page = await open();
  await page.show("users", "main table");
  await page.keyboard.press("3");
  await page.waitForSelector("main[data-page=collections] table", WAIT);
  await page.keyboard.press("/");
  assert.equal(await page.evaluate(() => document.activeElement.type), "search");
  await page.keyboard.type("3events");
  assert.equal(await page.evaluate(() => document.querySelector("main").dataset.page), "collections");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]", WAIT);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog"), WAIT);
  await page.end();
});

test("documents are inserted, edited and deleted, and every value stays what it is", async (t) => {
  if (refusal) return t.skip(refusal);
  const people = shop.collection("people", { promoteValues: false });
  await people.insertOne({ _id: 1, name: "Ada", 7: 1, whole: 3, big: Long.fromString("9007199254740993"), small: Long.fromNumber(5), price: Decimal128.fromString("1.10"), born: new Date("1815-12-10") });
  await shop.command({ update: "people", updates: [{ q: { _id: 1 }, u: [{ $set: { double: { $toDouble: 2 }, third: { $divide: [1, 3] } } }] }] });
  const before = await people.findOne({ _id: 1 }, { raw: true });
  const page = await open();
  await page.show("query/shop/people", ".document");
  await page.press("Edit", ".document");
  await page.waitForSelector("dialog textarea", WAIT);
  await page.press("Save", "dialog");
  await page.says("Saved.");
  assert.deepEqual(await people.findOne({ _id: 1 }, { raw: true }), before, "saved as it was shown it is the same, to the byte");
  await page.press("Edit", ".document");
  const text = await page.$eval("dialog textarea", (area) => area.value);
  assert.match(text, /"double": 2\.0,/);
  await page.write("dialog textarea", text.replace('"Ada"', '"Augusta"'));
  await page.screenshot({ path: join(screenshots, "console-edit.png") });
  await page.press("Save", "dialog");
  await page.says("Augusta");
  assert.equal((await people.findOne({ _id: 1 })).name, "Augusta");
  // Somebody else is faster: nothing of his is lost.
  await page.press("Edit", ".document");
  await people.updateOne({ _id: 1 }, { $set: { name: "Somebody" } });
  await page.press("Save", "dialog");
  await page.says("changed or deleted since it was shown");
  await page.write("dialog textarea", "{ this is no document }");
  await page.press("Save", "dialog");
  await page.says("is not understood");
  await page.press("Cancel", "dialog");
  await page.press("Insert …");
  await page.waitForSelector("dialog textarea", WAIT);
  await page.write("dialog textarea", "{ _id: ObjectId('0123456789abcdef01234567'), at: ISODate(\"2026-01-02\"), n: NumberLong(5), list: [1, 1.0, /a b/i,], }");
  await page.press("Insert", "dialog");
  await page.says("0123456789abcdef01234567");
  const inserted = await people.findOne({ n: 5 });
  assert.deepEqual([inserted.n.toString(), inserted.list[0].valueOf(), inserted.list[2].pattern ?? inserted.list[2].source], ["5", 1, "a b"]);
  await page.press("Delete", ".document:nth-child(2)");
  await page.waitForSelector("dialog .danger", WAIT);
  await page.press("Cancel", "dialog");
  assert.equal(await shop.collection("people").countDocuments(), 2);
  await page.press("Delete", ".document:nth-child(2)");
  await page.waitForSelector("dialog .danger", WAIT);
  await page.press("Delete", "dialog");
  await page.waitForFunction(() => document.querySelectorAll(".document").length === 1, WAIT);
  assert.equal(await shop.collection("people").countDocuments(), 1);
  await page.end();
});

test("what a document has in it is text, never a part of the page", async (t) => {
  if (refusal) return t.skip(refusal);
  const evil = "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>";
  await shop.collection(`evil${evil.slice(0, 12)}`).insertOne({ [evil.replaceAll(".", "")]: evil });
  const page = await open();
  await page.show(`query/shop/${encodeURIComponent(`evil${evil.slice(0, 12)}`)}`, ".document");
  await page.show("collections", "main table");
  await page.says("evil<img");
  assert.equal(await page.evaluate(() => window.hurt ?? document.querySelectorAll("main img, main script").length), 0);
  await page.end();
});

test("queries are run in batches, and explained as a tree", async (t) => {
  if (refusal) return t.skip(refusal);
  const page = await open();
  await page.show("query/shop/orders", ".document");
  await page.says("20 documents, and there are more");
  await page.press("20 more");
  await page.waitForFunction(() => document.querySelectorAll(".document").length === 40, WAIT);
  await page.write("textarea", "{ customer: { $lt: 3 }, city: 'Hull' }");
  await page.keyboard.down("Control");
  await page.focus("textarea");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Control");
  await page.says("10 documents, in");
  await page.press("Explain");
  await page.waitForSelector(".tree .tree, .tree ul .stage", WAIT);
  const stages = await page.$$eval(".tree .stage-head", (heads) => heads.map((head) => head.innerText));
  assert.ok(stages[0].startsWith("FETCH") && stages[1].includes("customer_1"), stages.join());
  await page.screenshot({ path: join(screenshots, "console-explain.png"), fullPage: true });
  await page.press("Aggregate");
  await page.write("textarea", "[{ $group: { _id: '$city', n: { $sum: 1 } } }, { $sort: { _id: 1 } }]");
  await page.press("Explain");
  await page.says("reads everything");
  await page.press("Run");
  await page.says("3 documents, in");
  await page.write("textarea", "[{ $nonsense: 1 }]");
  await page.press("Run");
  await page.says("$nonsense");
  await page.end();
});

test("an operation is seen and ended, and one of its own is stopped", async (t) => {
  if (refusal) return t.skip(refusal);
  const endless = { $where: "while (true) {}" };
  const ended = shop.collection("orders").find(endless).toArray().then(() => "no", (error) => error.codeName);
  const page = await open();
  await page.show("operations", "[data-kill]");
  await page.says("suite");
  await page.screenshot({ path: join(screenshots, "console-operations.png") });
  await page.click("[data-kill]");
  await page.waitForSelector("dialog .danger", WAIT);
  await page.press("End it", "dialog");
  assert.equal(await ended, "Interrupted");
  await page.waitForFunction(() => !document.querySelector("[data-kill]"), WAIT);
  await page.show("query/shop/events", ".document");
  await page.write("textarea", JSON.stringify(endless));
  await page.press("Run");
  const running = async () => (await client.db("admin").command({ currentOp: 1, "command.find": "events" })).inprog.length;
  while ((await running()) === 0);
  await page.press("Stop");
  await page.says("Stopped.");
  while ((await running()) > 0);
  await page.end();
});

test("a profile is a flame graph", async (t) => {
  if (refusal) return t.skip(refusal);
  const page = await open();
  await page.show("profile", "main form");
  const busy = shop.collection("orders").find({ $where: "while (true) {}" }, { maxTimeMS: 2500 }).toArray().catch(() => {});
  await page.select("main select", "1");
  await page.press("Sample");
  // The names are read from the program, which has much of them when it is not a release.
  await page.waitForSelector(".flame .frame", { timeout: 90_000 });
  const frames = await page.$$eval(".flame .frame", (found) => found.length);
  assert.ok(frames > 3, `${frames}`);
  await page.$eval(".flame .frame:nth-child(3)", (frame) => frame.focus());
  await page.keyboard.press("Enter");
  await page.waitForSelector(".flame .frame.faded", WAIT);
  await page.screenshot({ path: join(screenshots, "console-profile.png"), fullPage: true });
  await busy;
  await page.end();
});

test("who has to log in sees what he may", async (t) => {
  if (refusal) return t.skip(refusal);
  const port = await freePort();
  const guarded = await Server.start("--auth", "--console", String(port));
  const page = await open({ port, size: "phone" });
  try {
    await page.show("", "form");
    await page.screenshot({ path: join(screenshots, "console-login.png") });
    const fill = async (user, password) => {
      await page.write("input[name=user]", user);
      await page.write("input[name=password]", password);
    };
    // The first user, and then another one.
    await page.evaluate(() => { document.querySelector("details").open = true; });
    await page.click("details input[type=checkbox]");
    await fill("root", "rootpw");
    await page.press("Make the user and log in");
    await page.says("Overview");
    await page.show("users", "main table");
    await page.press("New user …");
    await page.waitForSelector("dialog form", WAIT);
    for (const [index, text] of ["reader", "readerpw", "admin", "readAnyDatabase"].entries()) await page.write(`dialog .field:nth-child(${index + 1}) input`, text);
    await page.press("Make it", "dialog");
    await page.says("reader");
    await page.press("Log out");
    await page.waitForSelector("input[name=user]", WAIT);
    await fill("reader", "wrong");
    await page.press("Log in");
    await page.says("Authentication failed.");
    await fill("reader", "readerpw");
    await page.press("Log in");
    await page.says("not authorized on admin");
    await page.show("collections", "main .panel");
    assert.equal(await page.evaluate(() => document.cookie), "", "no script can read the cookie");
  } finally {
    await page.end();
    assert.equal(await guarded.end("SIGTERM"), 0);
  }
});
