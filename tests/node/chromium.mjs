// A browser for the suites that look at pages: Chromium without a window, from where the dependencies were installed.

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** Starts one. Fails on a system without the libraries of a browser. */
export async function startBrowser() {
  const load = createRequire(join(process.env.PLIMSOLL_NODE_MODULES, "loader.js"));
  const chromium = (await import(pathToFileURL(load.resolve("@sparticuz/chromium")))).default;
  const puppeteer = (await import(pathToFileURL(load.resolve("puppeteer-core")))).default;
  const executablePath = await chromium.executablePath();
  return puppeteer.launch({ args: [...chromium.args, "--no-sandbox"], executablePath, headless: "shell" });
}
