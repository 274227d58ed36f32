// The login, and the first user where there is none yet.

import { command, logIn } from "./api.js";
import { el, failure, field, fill, icon } from "./elements.js";

/** Asks who it is, until the server knows him. */
export function askWho(app) {
  return new Promise((resolve) => {
    const user = el("input", { name: "user", autocomplete: "username", required: true, autofocus: true });
    const password = el("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
    const database = el("input", { name: "database", value: "admin", required: true, spellcheck: "false" });
    const trouble = el("div", { "aria-live": "assertive" });
    const button = el("button", { type: "submit", class: "primary" }, "Log in");
    const first = el("input", {
      type: "checkbox",
      onchange: () => {
        button.textContent = first.checked ? "Make the user and log in" : "Log in";
      },
    });
    const submit = async (event) => {
      event.preventDefault();
      button.disabled = true;
      fill(trouble);
      try {
        if (first.checked) await command("admin", { createUser: user.value, pwd: password.value, roles: [{ role: "root", db: "admin" }] });
        await logIn({ user: user.value, password: password.value, database: first.checked ? "admin" : database.value });
        resolve();
      } catch (error) {
        fill(trouble, failure(error));
        password.value = "";
        password.focus();
      }
      button.disabled = false;
    };
    fill(
      app,
      el(
        "main",
        { id: "main", class: "login" },
        el(
          "form",
          { class: "panel", onsubmit: submit },
          el("div", { class: "brand" }, icon("mark"), "Plimsoll"),
          el("h1", null, "Log in"),
          field("User", user),
          field("Password", password),
          el(
            "details",
            null,
            el("summary", null, "More"),
            field("Database of the user", database),
            el("label", { class: "check" }, first, "There is no user yet: make this one the first, with the role root"),
          ),
          trouble,
          el("div", { class: "buttons" }, button),
        ),
      ),
    );
    user.focus();
  });
}
