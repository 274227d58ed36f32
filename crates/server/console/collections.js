// Databases and collections: their sizes, and of one its indexes with how often each is used.

import { all, command } from "./api.js";
import { bytes, count, duration, el, fill, lookedUp, panel, table, when } from "./elements.js";

const INTERNAL = ["admin", "config", "local"];

/** Names of databases, those of the server itself last. */
export async function databases(signal) {
  const { databases: found } = await command("admin", { listDatabases: 1, nameOnly: true, authorizedDatabases: true }, signal);
  const names = found.map(({ name }) => name);
  return [...names.filter((name) => !INTERNAL.includes(name)), ...names.filter((name) => INTERNAL.includes(name))];
}

/** What `listCollections` tells, in order of names. */
export async function collections(database, filter = {}, signal) {
  const found = await all(database, { listCollections: 1, filter, authorizedCollections: true, nameOnly: false }, 10000, signal).catch(
    (error) => {
      if (error.code !== 13) throw error;
      return all(database, { listCollections: 1, filter, authorizedCollections: true, nameOnly: true }, 10000, signal);
    },
  );
  return found.sort((left, right) => left.name.localeCompare(right.name));
}

const kindOf = ({ type, options = {} }) =>
  type === "view"
    ? "view"
    : type === "timeseries" || options.timeseries
      ? "time series"
      : options.capped
        ? "capped"
        : options.clusteredIndex
          ? "clustered"
          : "";

async function statistics(database, collection, signal) {
  if (collection.type === "view") return {};
  try {
    return await command(database, { collStats: collection.name }, signal);
  } catch {
    return {};
  }
}

const link = (path, ...children) => el("a", { href: `#/${path.map(encodeURIComponent).join("/")}` }, children);

/** Parts of a bar, each with its share. */
const bar = (share) =>
  el("span", { class: "bar", "aria-hidden": "true" }, el("i", { styles: { width: `${Math.max(share * 100, share > 0 ? 1 : 0)}%` } }));

async function list(main, { signal }) {
  const search = el("input", { type: "search", placeholder: "Part of a name", "aria-label": "Filter collections" });
  await lookedUp(main, signal, el("header", { class: "head" }, el("h1", null, "Collections"), search), async (body) => {
    const found = [];
    for (const database of await databases(signal)) {
      const inside = await collections(database, {}, signal).catch(() => []);
      const rows = await Promise.all(
        inside.map(async (collection) => ({ database, collection, stats: await statistics(database, collection, signal) })),
      );
      if (rows.length > 0) found.push({ database, rows });
    }
    const largest = Math.max(1, ...found.flatMap(({ rows }) => rows.map(({ stats }) => stats.totalSize ?? 0)));
    const draw = () => {
      const wanted = search.value.toLowerCase();
      const shown = found.map(({ database, rows }) => ({
        database,
        rows: rows.filter(({ collection }) => `${database}.${collection.name}`.toLowerCase().includes(wanted)),
      }));
      const parts = shown
        .filter(({ rows }) => rows.length > 0)
        .map(({ database, rows }) =>
          panel(
            database,
            table(
              [
                {
                  name: "Collection",
                  class: "wide",
                  cell: ({ collection }) => [
                    link(["collections", database, collection.name], collection.name),
                    kindOf(collection) && el("span", { class: "tag" }, kindOf(collection)),
                  ],
                },
                { name: "Documents", number: true, cell: ({ stats }) => count(stats.count) },
                { name: "Data", number: true, cell: ({ stats }) => bytes(stats.size) },
                { name: "On disk", number: true, cell: ({ stats }) => bytes(stats.storageSize) },
                { name: "Indexes", number: true, cell: ({ stats }) => (stats.nindexes === undefined ? "–" : `${stats.nindexes}`) },
                { name: "Of indexes", number: true, cell: ({ stats }) => bytes(stats.totalIndexSize) },
                { name: "", class: "bars", cell: ({ stats }) => bar((stats.totalSize ?? 0) / largest) },
                { name: "", cell: ({ collection }) => link(["query", database, collection.name], "query") },
              ],
              rows,
              { label: `Collections of ${database}` },
            ),
          ),
        );
      fill(
        body,
        parts.length > 0
          ? parts
          : el(
              "p",
              { class: "empty" },
              found.length > 0 ? "No name has this." : "There are no collections yet. Whatever is inserted makes one.",
            ),
      );
    };
    search.addEventListener("input", draw);
    draw();
  });
}

const properties = ({ spec = {} }) =>
  [
    spec.unique && "unique",
    spec.sparse && "sparse",
    spec.hidden && "hidden",
    spec.clustered && "clustered",
    spec.expireAfterSeconds !== undefined && `expires after ${duration(spec.expireAfterSeconds * 1000)}`,
    spec.partialFilterExpression && `partial: ${JSON.stringify(spec.partialFilterExpression)}`,
    spec.collation && `collation ${spec.collation.locale}`,
  ].filter(Boolean);

function indexes(found, stats) {
  return table(
    [
      { name: "Index", class: "wide", cell: (index) => el("b", null, index.name) },
      { name: "Keys", class: "wide", cell: (index) => el("code", null, JSON.stringify(index.key)) },
      { name: "Properties", cell: (index) => properties(index).map((text) => el("span", { class: "tag" }, text)) },
      { name: "Size", number: true, cell: (index) => bytes(stats.indexSizes?.[index.name]) },
      { name: "Used", number: true, cell: (index) => count(index.accesses.ops) },
      {
        name: "Since",
        cell: (index) => [
          el("span", null, when(index.accesses.since)),
          index.accesses.ops === 0 &&
            index.name !== "_id_" &&
            !index.spec?.unique &&
            index.spec?.expireAfterSeconds === undefined &&
            el("span", { class: "tag warn" }, "no query has used it"),
        ],
      },
    ],
    found,
    { label: "Indexes", empty: "It has no indexes." },
  );
}

function latencies(of) {
  const rows = Object.entries(of ?? {})
    .filter(([, { ops }]) => ops > 0)
    .map(([kind, { ops, latency }]) => ({ kind, ops, mean: latency / ops / 1000 }));
  return table(
    [
      { name: "Kind", cell: ({ kind }) => kind },
      { name: "Operations", number: true, cell: ({ ops }) => count(ops) },
      { name: "Mean", number: true, cell: ({ mean }) => duration(mean) },
    ],
    rows,
    { label: "Latencies", empty: "None since the start." },
  );
}

async function one(main, { signal, path: [database, name] }) {
  const head = el(
    "header",
    { class: "head" },
    el("p", { class: "crumbs" }, link(["collections"], "Collections"), " / ", database),
    el("h1", null, name),
    el("div", { class: "buttons" }, link(["query", database, name], "Query")),
  );
  await lookedUp(main, signal, head, async () => {
    const [collection] = await collections(database, { name }, signal);
    if (!collection) throw new Error(`There is no collection ${database}.${name}.`);
    const stats = await statistics(database, collection, signal);
    const stage = (of) => all(database, { aggregate: name, pipeline: [of], cursor: {} }, 1000, signal);
    const [used, [latency] = []] =
      collection.type === "view"
        ? [[], []]
        : await Promise.all([stage({ $indexStats: {} }).catch(() => []), stage({ $collStats: { latencyStats: {} } }).catch(() => [])]);
    const figure = (title, value) => el("div", { class: "figure" }, el("span", null, title), el("b", null, value));
    const options = JSON.stringify(collection.options ?? {}, null, 2);
    return [
      el(
        "div",
        { class: "figures" },
        figure("Documents", count(stats.count)),
        figure("Mean size", bytes(stats.avgObjSize)),
        figure("Data", bytes(stats.size)),
        figure("On disk", bytes(stats.storageSize)),
        figure("Indexes", `${stats.nindexes ?? "–"}`),
        figure("Of indexes", bytes(stats.totalIndexSize)),
        stats.capped && figure("Capped at", bytes(stats.maxSize)),
      ),
      panel("Indexes", indexes(used, stats)),
      el(
        "div",
        { class: "two" },
        panel("Operations since the start", latencies(latency?.latencyStats)),
        panel("Options", options === "{}" ? el("p", { class: "empty" }, "None.") : el("pre", null, options)),
      ),
      stats.capped && el("p", null, link(["rings", database, name], "See how the ring lies on disk")),
    ];
  });
}

/** A page of all there are, or of the one that its path names. */
export const listOrOne = (list, one) => (main, context) => (context.path.length >= 2 ? one(main, context) : list(main, context));

/** The page: all collections, or one. */
export const show = listOrOne(list, one);

export { link };
