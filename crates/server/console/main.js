// The frame: who is there, the pages and the way between them, light and dark.

import { command, logOut, whoAmI } from "./api.js";
import * as backups from "./backups.js";
import * as collections from "./collections.js";
import { dialog, el, failure, fill, icon } from "./elements.js";
import * as flame from "./flame.js";
import { askWho } from "./login.js";
import * as members from "./members.js";
import * as operations from "./operations.js";
import * as overview from "./overview.js";
import * as query from "./query.js";
import * as rings from "./rings.js";
import * as slow from "./slow.js";
import * as users from "./users.js";

const PAGES = [
  ["overview", "Overview", overview],
  ["operations", "Operations", operations],
  ["collections", "Collections", collections],
  ["query", "Query", query],
  ["slow", "Slow", slow],
  ["profile", "Profile", flame],
  ["rings", "Rings", rings],
  ["backups", "Backups", backups],
  ["users", "Users", users],
  ["members", "Members", members],
];
/** The key that leads to a page: the tenth has 0. */
const keyOf = (index) => `${(index + 1) % 10}`;
const THEMES = ["auto", "light", "dark"];
const app = document.getElementById("app");
let leaving = new AbortController();

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
  const button = document.getElementById("theme");
  if (button) button.textContent = `Theme: ${theme}`;
}

function help() {
  return dialog(
    "Keys",
    (close) => [
      el(
        "dl",
        { class: "keys-help" },
        PAGES.map(([, name], index) => [el("dt", null, el("kbd", null, keyOf(index))), el("dd", null, name)]),
        el("dt", null, el("kbd", null, "/")),
        el("dd", null, "To the first field"),
        el("dt", null, el("kbd", null, "Ctrl+Enter")),
        el("dd", null, "Run a query, save a document"),
        el("dt", null, el("kbd", null, "?")),
        el("dd", null, "This"),
      ),
      el("div", { class: "buttons" }, el("button", { type: "button", onclick: () => close(), autofocus: true }, "Close")),
    ],
    "small",
  );
}

function frame(about) {
  const links = PAGES.map(([path, name], index) =>
    el("a", { href: `#/${path}`, "data-page": path, title: `Key ${keyOf(index)}` }, icon(path), el("span", null, name)),
  );
  const out =
    about.user &&
    el(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: async () => {
          await logOut().catch(() => {});
          location.reload();
        },
      },
      "Log out",
    );
  const theme = el("button", {
    type: "button",
    id: "theme",
    class: "quiet",
    onclick: () => setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]),
  });
  fill(
    app,
    el(
      "aside",
      null,
      el(
        "div",
        { class: "frame-side" },
        el("a", { class: "brand", href: "#/overview" }, icon("mark"), "Plimsoll"),
        el("nav", { "aria-label": "Pages" }, links),
        el(
          "footer",
          null,
          el("p", null, el("b", null, about.user ?? "nobody logged in"), el("small", null, location.host)),
          theme,
          el("button", { type: "button", class: "quiet", onclick: help }, "Keys"),
          out,
        ),
      ),
    ),
    el("main", { id: "main", tabindex: "-1" }),
  );
  setTheme(document.documentElement.dataset.theme);
}

/** Shows the page that the address names. */
async function route() {
  const [name, ...path] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  const [page, title, shown] = PAGES.find(([own]) => own === name) ?? PAGES[0];
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const main = document.getElementById("main");
  document.title = `${[...path].reverse().concat(title).join(" – ")} – Plimsoll`;
  document.querySelectorAll("nav a").forEach((link) => {
    const isCurrent = link.dataset.page === page;
    if (isCurrent) {
      link.setAttribute("aria-current", "page");
      link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  });
  fill(main);
  main.dataset.page = page;
  window.scrollTo(0, 0);
  try {
    await shown.show(main, { signal, path });
  } catch (error) {
    if (!signal.aborted) fill(main, failure(error));
  }
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const page = PAGES.find((_, index) => keyOf(index) === event.key);
  if (page) location.hash = `#/${page[0]}`;
  else if (event.key === "?") help();
  else if (event.key === "/") {
    const first = document.querySelector("main input:not([type=checkbox]), main textarea");
    if (first) {
      event.preventDefault();
      first.focus();
    }
  }
}

async function begin() {
  leaving.abort();
  document.querySelectorAll("dialog").forEach((box) => box.close());
  try {
    const { needsLogin } = await whoAmI();
    if (needsLogin) await askWho(app);
    const { authInfo } = await command("admin", { connectionStatus: 1 });
    const [user] = authInfo.authenticatedUsers;
    frame({ user: user && `${user.user}@${user.db}` });
    await route();
  } catch (error) {
    fill(
      app,
      el(
        "main",
        { id: "main", class: "login" },
        el("div", { class: "panel" }, failure(error), el("button", { type: "button", onclick: begin }, "Try again")),
      ),
    );
  }
}

let isAsking = false;
window.addEventListener("login-wanted", async () => {
  if (isAsking) return;
  isAsking = true;
  await begin();
  isAsking = false;
});
window.addEventListener("hashchange", route);
document.addEventListener("keydown", keys);
document.documentElement.dataset.theme = THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
begin();
