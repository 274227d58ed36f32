// The console's page of members, in a real browser: three servers on a log in a directory; the lead is given up, and a member frozen.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { browserOrRefusal, pageFor } from "./chromium.mjs";
import { MongoClient, Server, freePort } from "./connection.mjs";

const screenshots = process.env.PLIMSOLL_SCREENSHOTS ?? join(mkdtempSync(join(tmpdir(), "plimsoll-members-")), "screenshots");
const WAIT = { timeout: 60_000 };
const log = join(mkdtempSync(join(tmpdir(), "plimsoll-set-")), "log");

let browser, refusal;
const members = [];

before(async () => {
  mkdirSync(screenshots, { recursive: true });
  for (let number = 0; number < 3; number++) {
    const consolePort = await freePort();
    const server = await Server.start("--replica-set", "rs0", "--log", `dir://${log}`, "--console", String(consolePort));
    server.consolePort = consolePort;
    members.push(server);
  }
  ({ browser, refusal } = await browserOrRefusal());
});

after(async () => {
  await browser?.close();
  for (const member of members) member.process.kill("SIGKILL");
  await Promise.all(members.map((member) => member.ended));
  rmSync(log, { recursive: true, force: true });
});

/** The page of a member. */
async function open(member, viewport = { width: 1280, height: 800 }) {
  const page = await pageFor(browser, { ...viewport, scheme: "light", mayAsk: (url) => url.startsWith("http://127.0.0.1:") });
  await page.goto(`http://127.0.0.1:${member.consolePort}/#/members`);
  page.says = (text) => page.waitForFunction((wanted) => document.querySelector("main").innerText.includes(wanted), WAIT, text);
  page.states = () =>
    page.$$eval("tr[data-member]", (rows) => Object.fromEntries(rows.map((row) => [row.dataset.member, row.querySelector(".tag").textContent])));
  /** Presses a button, and then the one of the dialog that asks. */
  page.confirmed = async (text, action) => {
    const press = (within, wanted) => page.evaluate((selector, name) => [...document.querySelectorAll(`${selector} button`)].find((button) => button.textContent === name && !button.hidden).click(), within, wanted);
    await press("main", text);
    await page.waitForSelector("dialog .danger", WAIT);
    await press("dialog", action);
  };
  page.end = async () => {
    await page.close();
    assert.deepEqual(page.complaints, []);
  };
  return page;
}

const addressOf = (member) => `127.0.0.1:${member.port}`;

async function leader() {
  for (;;) {
    for (const member of members) {
      const client = await new MongoClient(`${member.uri}?directConnection=true`).connect();
      const hello = await client.db("admin").command({ hello: 1 });
      await client.close();
      if (hello.isWritablePrimary && hello.hosts.length === 3) return member;
    }
  }
}

test("members are shown, the lead is given up, and a member is frozen", async (t) => {
  if (refusal) return t.skip(refusal);
  const first = await leader();
  const client = await new MongoClient(`mongodb://${members.map(addressOf).join()}/?replicaSet=rs0`).connect();
  await client.db("shop").collection("orders").insertOne({ n: 1 }, { writeConcern: { w: 3 } });
  const page = await open(first);
  await page.waitForFunction(() => document.querySelectorAll("tr[data-member]").length === 3, WAIT);
  const states = await page.states();
  assert.equal(states[addressOf(first)], "primary");
  assert.equal(Object.values(states).filter((state) => state === "secondary").length, 2);
  await page.says("This server leads.");
  await page.screenshot({ path: join(screenshots, "console-members-laptop-light.png"), fullPage: true });
  await page.confirmed("Step down", "Give it up");
  await page.says("This server follows.");
  const second = await leader();
  assert.notEqual(second, first);
  await page.waitForFunction((host) => document.querySelector(`tr[data-member="${host}"] .tag`)?.textContent === "primary", WAIT, addressOf(second));
  // Of a member that follows: it is kept from the lead, and then not any more.
  await page.says("frozen");
  await page.confirmed("End the freeze", "End it");
  await page.waitForFunction(() => !document.querySelector("main").innerText.includes("frozen"), WAIT);
  await page.confirmed("Freeze", "Freeze it");
  await page.says("frozen");
  await page.end();
  await client.close();
});

test("on a phone, and of a member that is gone", async (t) => {
  if (refusal) return t.skip(refusal);
  const gone = members.shift();
  gone.process.kill("SIGKILL");
  await gone.ended;
  const page = await open(members[0], { width: 360, height: 740 });
  await page.waitForFunction((host) => document.querySelector(`tr[data-member="${host}"] .tag`)?.textContent === "silent", WAIT, addressOf(gone));
  const across = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(across <= 0, `wider than the phone by ${across}`);
  await page.screenshot({ path: join(screenshots, "console-members-phone-light.png"), fullPage: true });
  await page.end();
});
