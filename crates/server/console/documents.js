// One document: shown, replaced, inserted, deleted.

import { exactly } from "./api.js";
import { confirm, dialog, el, failure, fill, toast } from "./elements.js";
import { fromTyped, get, lineOf, plain, textOf, write } from "./extended_json.js";

/** The text of a value with a colour for each kind of token. */
export function coloured(value, options) {
  const text = el("code", { class: "json" });
  write(
    value,
    (piece, kind) => text.append(kind === "sign" || kind === "space" ? piece : el("span", { class: `j-${kind}` }, piece)),
    options,
  );
  return el("pre", null, text);
}

/** Something to write a document into. Gives its text when it is saved by `save(text)`, which may refuse. */
function editor(title, text, action, save) {
  return dialog(
    title,
    (close) => {
      const area = el("textarea", {
        class: "code",
        rows: 18,
        spellcheck: "false",
        autocomplete: "off",
        "aria-label": "The document",
        value: text,
      });
      const trouble = el("div");
      const saved = async () => {
        fill(trouble);
        try {
          close(await save(fromTyped(area.value)));
        } catch (error) {
          fill(trouble, failure(error));
        }
      };
      area.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) saved();
      });
      return [
        el(
          "p",
          { class: "faint" },
          'Extended JSON; names need no quotes, and ObjectId("…"), ISODate("…"), NumberLong(…), NumberDecimal(…) are understood. 1 is an integer, 1.0 a double.',
        ),
        area,
        trouble,
        el(
          "div",
          { class: "buttons" },
          el("button", { type: "button", onclick: () => close() }, "Cancel"),
          el("button", { type: "button", class: "primary", onclick: saved }, action),
        ),
      ];
    },
    "large",
  );
}

function checkWritten(reply) {
  const [error] = get(reply, "writeErrors") ?? [];
  if (error) throw new Error(`${get(error, "errmsg")} (${plain(get(error, "code"))})`);
}

/** Inserts what is written. Gives whether it was. */
export async function insert(database, collection) {
  const done = await editor(`Insert into ${database}.${collection}`, "{\n  \n}", "Insert", async (text) => {
    const documents = text.startsWith("[") ? text : `[${text}]`;
    const reply = await exactly(database, [
      ["insert", JSON.stringify(collection)],
      ["documents", documents],
    ]);
    checkWritten(reply);
    return plain(get(reply, "n"));
  });
  if (done !== undefined) toast(`${done} inserted.`, "good");
  return done !== undefined;
}

/** Only the document as it was shown: somebody may have changed it since. */
const asShown = (document) => `{"_id":${lineOf(get(document, "_id"))},"$expr":{"$eq":["$$ROOT",{"$literal":${lineOf(document)}}]}}`;

/** Replaces a document by what is written. Gives the new one, or nothing. */
export async function replace(database, collection, document) {
  const text = textOf(document);
  const done = await editor(`Edit a document of ${database}.${collection}`, text, "Save", async (edited) => {
    const update = `[{"q":${asShown(document)},"u":${edited},"multi":false,"upsert":false}]`;
    const reply = await exactly(database, [
      ["update", JSON.stringify(collection)],
      ["updates", update],
    ]);
    checkWritten(reply);
    if (plain(get(reply, "n")) === 0) throw new Error("The document has been changed or deleted since it was shown. Run the query again.");
    const id = lineOf(get(document, "_id"));
    const found = await exactly(database, [
      ["find", JSON.stringify(collection)],
      ["filter", `{"_id":${id}}`],
      ["limit", "1"],
    ]);
    return get(found, "cursor", "firstBatch")[0];
  });
  if (done) toast("Saved.", "good");
  return done;
}

/** Deletes a document, once that is confirmed. Gives whether it was. */
export async function remove(database, collection, document) {
  const id = lineOf(get(document, "_id"));
  if (!(await confirm("Delete the document?", `The document with _id ${id} of ${database}.${collection} will be gone.`, "Delete")))
    return false;
  try {
    const reply = await exactly(database, [
      ["delete", JSON.stringify(collection)],
      ["deletes", `[{"q":{"_id":${id}},"limit":1}]`],
    ]);
    checkWritten(reply);
    toast(plain(get(reply, "n")) === 1 ? "Deleted." : "It was gone already.", "good");
    return true;
  } catch (error) {
    toast(error.message, "bad");
    return false;
  }
}
