// Commands for the server. Whoever is not logged in (any more) is told by the event `login-wanted`.

import { get, parse, plain, toPlain } from "./extended_json.js";

/** A command that has failed, as the server says it. */
export class CommandError extends Error {
  constructor(reply) {
    super(reply.errmsg ?? reply.error ?? "it failed");
    this.code = reply.code;
    this.codeName = reply.codeName;
  }
}

async function post(path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Plimsoll-Console": "1" },
      body,
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("The server does not answer.");
  }
  const text = await answer.text();
  if (answer.ok) return text;
  if (answer.status === 401 && path !== "api/login") window.dispatchEvent(new Event("login-wanted"));
  let reason;
  try {
    reason = JSON.parse(text).error;
  } catch {
    reason = text;
  }
  throw new Error(reason || `HTTP ${answer.status}`);
}

function checked(reply) {
  if (reply.ok !== 1) throw new CommandError(reply);
  return reply;
}

/** Runs a command; its reply as plain objects, where large numbers may be rounded. */
export async function command(database, body, signal) {
  const text = await post("api/command", JSON.stringify({ db: database, command: body }), signal);
  return checked(JSON.parse(text));
}

/** Runs a command whose parts are texts of Extended JSON, `[[name, text], …]`; its reply is an exact document. */
export async function exactly(database, parts, signal) {
  const body = parts
    .filter(([, text]) => text !== undefined)
    .map(([name, text]) => `${JSON.stringify(name)}:${text}`)
    .join(",");
  const text = await post("api/command", `{"db":${JSON.stringify(database)},"format":"canonical","command":{${body}}}`, signal);
  const reply = parse(text);
  if (plain(get(reply, "ok")) !== 1) {
    throw new CommandError({ errmsg: get(reply, "errmsg"), code: plain(get(reply, "code")), codeName: get(reply, "codeName") });
  }
  return reply;
}

export const whoAmI = async () => JSON.parse(await post("api/whoami", "{}"));
export const logIn = async (fields) => post("api/login", JSON.stringify(fields));
export const logOut = async () => post("api/logout", "{}");

/** The documents that a command gives in batches, up to a number; plain objects. */
export async function all(database, body, limit = 1000, signal) {
  let reply = await exactly(
    database,
    Object.entries(body).map(([name, value]) => [name, JSON.stringify(value)]),
    signal,
  );
  let cursor = get(reply, "cursor");
  const found = [...get(cursor, "firstBatch")];
  while (true) {
    const id = get(cursor, "id", "$numberLong");
    if (id === "0" || id === undefined) break;
    const name = get(cursor, "ns").slice(database.length + 1);
    const parts = [
      ["getMore", `{"$numberLong":"${id}"}`],
      ["collection", JSON.stringify(name)],
    ];
    if (found.length >= limit) {
      await command(database, { killCursors: name, cursors: [{ $numberLong: id }] });
      break;
    }
    reply = await exactly(database, parts, signal);
    cursor = get(reply, "cursor");
    found.push(...get(cursor, "nextBatch"));
  }
  return found.slice(0, limit).map(toPlain);
}
