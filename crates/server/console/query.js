// Queries: find or aggregate, their documents with what can be done to them, and explain as a tree.

import { command, exactly } from "./api.js";
import { collections, databases } from "./collections.js";
import { coloured, insert, remove, replace } from "./documents.js";
import { count, duration, el, failure, field, fill } from "./elements.js";
import { explained } from "./explain.js";
import { fromTyped, get, lineOf } from "./extended_json.js";

const BATCH = 20;
/** What was asked last stays while one looks at another page. */
const remembered = { kind: "find", filter: "", sort: "", projection: "", limit: "", pipeline: "[\n  { $match: {} }\n]" };

const typed = (text, otherwise) => (text.trim() === "" ? otherwise : fromTyped(text));

/** The parts of the command, as texts. */
function commandOf(asked, batch) {
  const name = JSON.stringify(asked.collection);
  if (asked.kind === "aggregate") {
    const cursor = batch === undefined ? "{}" : `{"batchSize":${batch}}`;
    return [
      ["aggregate", name],
      ["pipeline", typed(asked.pipeline, "[]")],
      ["cursor", cursor],
    ];
  }
  return [
    ["find", name],
    ["filter", typed(asked.filter, "{}")],
    ["sort", typed(asked.sort)],
    ["projection", typed(asked.projection)],
    ["limit", asked.limit === "" ? undefined : String(Number(asked.limit))],
    ["batchSize", batch === undefined ? undefined : String(batch)],
  ];
}

/** One document of a result. */
function row(document, asked, changed) {
  const shown = el("div", { class: "document" });
  const isWhole = get(document, "_id") !== undefined && asked.kind === "find" && asked.projection.trim() === "";
  const draw = (current) => {
    const edit = async () => {
      const after = await replace(asked.database, asked.collection, current);
      if (after) draw(after);
    };
    const drop = async () => {
      if (await remove(asked.database, asked.collection, current)) {
        shown.remove();
        changed(-1);
      }
    };
    const copy = async () => navigator.clipboard?.writeText(lineOf(current));
    fill(
      shown,
      coloured(current),
      el(
        "div",
        { class: "buttons" },
        el("button", { type: "button", class: "small", onclick: copy }, "Copy"),
        isWhole && el("button", { type: "button", class: "small", onclick: edit }, "Edit"),
        isWhole && el("button", { type: "button", class: "small danger", onclick: drop }, "Delete"),
      ),
    );
  };
  draw(document);
  return shown;
}

/** Runs it and shows its documents, batch by batch. */
async function run(asked, result, signal) {
  const began = performance.now();
  const documents = el("div", { class: "documents" });
  let number = 0;
  const told = el("p", { class: "faint" });
  const more = el("button", { type: "button" }, `${BATCH} more`);
  let cursor;
  const tell = (millis) => {
    const isOver = get(cursor, "id", "$numberLong") === "0";
    more.hidden = isOver;
    told.textContent = `${count(number)} ${number === 1 ? "document" : "documents"}${isOver ? "" : ", and there are more"}${millis === undefined ? "" : `, in ${duration(millis)}`}`;
  };
  const take = (batch) => {
    number += batch.length;
    documents.append(
      ...batch.map((document) =>
        row(document, asked, (by) => {
          number += by;
          tell();
        }),
      ),
    );
  };
  const reply = await exactly(asked.database, commandOf(asked, BATCH), signal);
  cursor = get(reply, "cursor");
  take(get(cursor, "firstBatch"));
  more.addEventListener("click", async () => {
    more.disabled = true;
    try {
      const name = get(cursor, "ns").slice(asked.database.length + 1);
      const next = await exactly(
        asked.database,
        [
          ["getMore", lineOf(get(cursor, "id"))],
          ["collection", JSON.stringify(name)],
          ["batchSize", String(BATCH)],
        ],
        signal,
      );
      cursor = get(next, "cursor");
      take(get(cursor, "nextBatch"));
      tell();
    } catch (error) {
      if (!signal.aborted) documents.append(failure(error));
    }
    more.disabled = false;
  });
  tell(performance.now() - began);
  fill(result, told, number === 0 ? el("p", { class: "empty" }, "No document is like that.") : documents, more);
  return async () => {
    const id = get(cursor, "id", "$numberLong");
    const name = get(cursor, "ns").slice(asked.database.length + 1);
    if (id !== "0") await command(asked.database, { killCursors: name, cursors: [{ $numberLong: id }] }).catch(() => {});
  };
}

async function explain(asked, result, signal) {
  const inner = commandOf(asked)
    .filter(([, text]) => text !== undefined)
    .map(([name, text]) => `${JSON.stringify(name)}:${text}`)
    .join(",");
  const reply = await exactly(
    asked.database,
    [
      ["explain", `{${inner}}`],
      ["verbosity", '"executionStats"'],
    ],
    signal,
  );
  fill(result, explained(reply));
}

/** The page. */
export async function show(main, { signal, path }) {
  const asked = remembered;
  if (path[0] !== undefined) asked.database = path[0];
  if (path[1] !== undefined) asked.collection = path[1];
  const input = (name, properties) =>
    el("input", {
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      value: asked[name] ?? "",
      oninput: (event) => {
        asked[name] = event.target.value;
      },
      ...properties,
    });
  const area = (name, rows, placeholder) =>
    el("textarea", {
      class: "code",
      rows,
      placeholder,
      spellcheck: "false",
      autocomplete: "off",
      value: asked[name],
      oninput: (event) => {
        asked[name] = event.target.value;
      },
    });
  const result = el("div");
  const [ofDatabases, ofCollections] = [el("datalist", { id: "databases" }), el("datalist", { id: "collections" })];
  const offer = async () => {
    const found = asked.database ? await collections(asked.database, {}, signal).catch(() => []) : [];
    fill(
      ofCollections,
      found.map(({ name }) => el("option", { value: name })),
    );
  };
  const database = input("database", { list: "databases", required: true, onchange: offer });
  const collection = input("collection", { list: "collections", required: true });
  const parts = {
    find: el(
      "div",
      { class: "fields" },
      field("Filter", area("filter", 3, '{ name: "Ada", age: { $gte: 30 } }')),
      field("Sort", area("sort", 1, "{ age: -1 }")),
      field("Projection", area("projection", 1, "{ name: 1 }")),
      field("Limit", input("limit", { type: "number", min: "0", placeholder: "none" })),
    ),
    aggregate: el(
      "div",
      { class: "fields" },
      field("Pipeline", area("pipeline", 8, '[ { $group: { _id: "$city", n: { $count: {} } } } ]')),
    ),
  };
  const body = el("div");
  const tabs = Object.entries({ find: "Find", aggregate: "Aggregate" }).map(([kind, name]) =>
    el(
      "button",
      {
        type: "button",
        "data-kind": kind,
        onclick: () => {
          asked.kind = kind;
          draw();
        },
      },
      name,
    ),
  );
  function draw() {
    tabs.forEach((tab) => tab.setAttribute("aria-pressed", String(tab.dataset.kind === asked.kind)));
    fill(body, parts[asked.kind]);
  }
  let working;
  let forget = async () => {};
  const stop = el("button", { type: "button", hidden: true, onclick: () => working?.abort() }, "Stop");
  const work = async (how) => {
    if (!form.reportValidity()) return;
    working?.abort();
    const own = new AbortController();
    working = own;
    const both = AbortSignal.any([own.signal, signal]);
    await forget();
    forget = async () => {};
    history.replaceState(null, "", `#/query/${encodeURIComponent(asked.database)}/${encodeURIComponent(asked.collection)}`);
    fill(result, el("p", { class: "faint" }, "Running …"));
    stop.hidden = false;
    try {
      const left = await how({ ...asked }, result, both);
      if (left) forget = left;
    } catch (error) {
      if (own === working) fill(result, own.signal.aborted ? el("p", { class: "faint" }, "Stopped.") : failure(error));
    }
    if (own === working) stop.hidden = true;
  };
  const add = async () => {
    if (form.reportValidity() && (await insert(asked.database, asked.collection)) && asked.kind === "find") work(run);
  };
  const form = el(
    "form",
    {
      class: "panel",
      onsubmit: (event) => {
        event.preventDefault();
        work(run);
      },
    },
    el("div", { class: "fields two-fields" }, field("Database", database), field("Collection", collection)),
    el("div", { class: "tabs", role: "group", "aria-label": "What to run" }, tabs),
    body,
    el(
      "div",
      { class: "buttons" },
      el("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Run"),
      el("button", { type: "button", onclick: () => work(explain) }, "Explain"),
      el("button", { type: "button", onclick: add }, "Insert …"),
      stop,
    ),
    ofDatabases,
    ofCollections,
  );
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  draw();
  fill(main, el("header", { class: "head" }, el("h1", null, "Query")), form, result);
  signal.addEventListener("abort", () => forget());
  if (path[1] !== undefined && asked.kind === "find") work(run);
  else collection.focus();
  fill(
    ofDatabases,
    (await databases(signal).catch(() => [])).map((name) => el("option", { value: name })),
  );
  await offer();
}
