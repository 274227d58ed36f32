// What a query did, as a tree of its stages: what each gave, looked at, and how long it took.

import { coloured } from "./documents.js";
import { count, duration, el, panel } from "./elements.js";
import { get, lineOf, plain } from "./extended_json.js";

/** Fields that are told elsewhere, or are the stages below. */
const TOLD = [
  "stage",
  "inputStage",
  "inputStages",
  "nReturned",
  "executionTimeMillisEstimate",
  "works",
  "advanced",
  "needTime",
  "needYield",
  "saveState",
  "restoreState",
  "isEOF",
  "docsExamined",
  "keysExamined",
  "indexBounds",
  "thenStage",
  "elseStage",
  "outerStage",
  "innerStage",
  "shards",
];
const BELOW = ["inputStage", "thenStage", "elseStage", "outerStage", "innerStage"];

function below(stage) {
  return [...BELOW.map((name) => get(stage, name)).filter((found) => found?.fields), ...(get(stage, "inputStages") ?? [])];
}

function short(value) {
  const text = typeof value === "string" ? value : lineOf(value);
  return text.length > 160 ? `${text.slice(0, 160)} …` : text;
}

function fact(name, value, kind = "") {
  return el("span", { class: `fact ${kind}` }, `${name} `, el("b", null, value));
}

/** A stage, and those that it draws from below it. */
function node(stage, most) {
  const [given, documents, keys, millis] = ["nReturned", "docsExamined", "keysExamined", "executionTimeMillisEstimate"].map((name) =>
    plain(get(stage, name)),
  );
  const name = get(stage, "stage");
  const details = stage.fields.filter(([field]) => !TOLD.includes(field));
  const bounds = get(stage, "indexBounds");
  const wasteful = name === "COLLSCAN" || (documents > 10 && given !== undefined && documents > given * 10);
  const looked = Math.max(documents ?? 0, keys ?? 0, given ?? 0);
  const box = el(
    "div",
    { class: `stage${wasteful ? " wasteful" : ""}` },
    el(
      "div",
      { class: "stage-head" },
      el("b", null, name),
      get(stage, "indexName") && el("code", null, get(stage, "indexName")),
      wasteful && el("span", { class: "tag warn" }, name === "COLLSCAN" ? "reads everything" : "looks at much more than it gives"),
    ),
    el(
      "div",
      { class: "facts" },
      given !== undefined && fact("gave", count(given)),
      documents !== undefined && fact("documents looked at", count(documents), wasteful ? "bad" : ""),
      keys !== undefined && fact("keys looked at", count(keys)),
      millis > 0 && fact("took about", duration(millis)),
    ),
    looked > 0 && el("span", { class: "bar", "aria-hidden": "true" }, el("i", { styles: { width: `${(100 * looked) / most}%` } })),
    (details.length > 0 || bounds) &&
      el(
        "details",
        null,
        el("summary", null, "more"),
        el(
          "dl",
          null,
          bounds && [el("dt", null, "bounds"), el("dd", null, el("code", null, short(bounds)))],
          details.map(([field, value]) => [el("dt", null, field), el("dd", null, el("code", null, short(value)))]),
        ),
      ),
  );
  const inputs = below(stage);
  return el(
    "li",
    null,
    box,
    inputs.length > 0 &&
      el(
        "ul",
        null,
        inputs.map((input) => node(input, most)),
      ),
  );
}

function mostOf(stage) {
  const own = ["docsExamined", "keysExamined", "nReturned"].map((name) => plain(get(stage, name)) ?? 0);
  return Math.max(1, ...own, ...below(stage).map(mostOf));
}

function tree(root) {
  return el("ul", { class: "tree" }, node(root, mostOf(root)));
}

/** Stages of a pipeline that follow the cursor, the last on top. */
function pipeline(stages) {
  const nodes = stages.map((stage) => {
    const [name, value] = stage.fields[0];
    if (name === "$cursor") {
      const statistics = get(value, "executionStats", "executionStages") ?? get(value, "queryPlanner", "winningPlan");
      return {
        fields: [
          ["stage", "$cursor"],
          ["inputStage", statistics],
        ],
      };
    }
    const more = stage.fields.slice(1);
    return { fields: [["stage", name], ["with", value], ...more] };
  });
  return nodes.reduce((inner, outer) => (inner ? { fields: [...outer.fields, ["inputStage", inner]] } : outer), undefined);
}

/** The answer of `explain`, drawn. */
export function explained(reply) {
  const stages = get(reply, "stages");
  const planner = get(reply, "queryPlanner") ?? get(stages?.[0], "$cursor", "queryPlanner");
  const statistics = get(reply, "executionStats") ?? get(stages?.[0], "$cursor", "executionStats");
  const root = stages ? pipeline(stages) : (get(statistics, "executionStages") ?? get(planner, "winningPlan"));
  const figure = (name, value) => el("div", { class: "figure" }, el("span", null, name), el("b", null, value));
  const rejected = get(planner, "rejectedPlans") ?? [];
  return [
    statistics &&
      el(
        "div",
        { class: "figures" },
        figure("Gave", count(plain(get(statistics, "nReturned")))),
        figure("Documents looked at", count(plain(get(statistics, "totalDocsExamined")))),
        figure("Keys looked at", count(plain(get(statistics, "totalKeysExamined")))),
        figure("Took", duration(plain(get(statistics, "executionTimeMillis")))),
      ),
    panel("Plan", root ? tree(root) : el("p", { class: "empty" }, "The server tells no plan.")),
    rejected.length > 0 && panel(`Rejected plans: ${rejected.length}`, rejected.map(tree)),
    el("details", { class: "panel" }, el("summary", null, "The whole answer"), coloured(reply)),
  ];
}
