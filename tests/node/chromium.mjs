// A browser for the suites that look at pages: Chromium without a window, from where the dependencies were installed.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Starts one, or says why it cannot: a system without the libraries of a browser skips its tests, visibly. */
export async function browserOrRefusal() {
  try {
    return { browser: await start() };
  } catch (error) {
    return { refusal: `no browser can be started: ${error.message.split("\n")[0]}` };
  }
}

/** Sets a page up for a reader, and has it complain of errors in scripts, and of each request that it may not make. */
export async function pageFor(browser, { width, height, scheme, mayAsk }) {
  const page = await browser.newPage();
  page.complaints = [];
  page.on("pageerror", (error) => page.complaints.push(`script: ${error}`));
  page.on("request", (request) => mayAsk(request.url()) || page.complaints.push(`asks for ${request.url()}`));
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  return page;
}

async function start() {
  const load = createRequire(join(process.env.PLIMSOLL_NODE_MODULES, "loader.js"));
  const chromium = (await import(pathToFileURL(load.resolve("@sparticuz/chromium")))).default;
  const puppeteer = (await import(pathToFileURL(load.resolve("puppeteer-core")))).default;
  const executablePath = await chromium.executablePath();
  return puppeteer.launch({ args: [...chromium.args, "--no-sandbox"], executablePath, headless: "shell" });
}
