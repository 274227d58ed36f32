// A throw-away Plimsoll server: all data in memory, gone with the process.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const LINES_KEPT = 50;

/** The server's program: that in this package, or the one that PLIMSOLL_PROGRAM names. */
function program() {
  return process.env.PLIMSOLL_PROGRAM ?? fileURLToPath(new URL("./bin/plimsoll", import.meta.url));
}

export class PlimsollMemoryServer {
  #child;
  #ended;
  #options;

  /** Use `create`. */
  constructor(child, ended, options) {
    this.#child = child;
    this.#ended = ended;
    this.#options = options;
    this.log = [];
  }

  static async create(options = {}) {
    const fixed = ["serve", "--ephemeral", "--stop-with-input", "--listen", "127.0.0.1:0", "--log-format", "json"];
    const set = options.replicaSet ? ["--replica-set", options.replicaSet] : [];
    // Its standard input is a pipe: when this process ends, however it does, the server ends, too.
    const child = spawn(program(), [...fixed, ...set, ...(options.args ?? [])], { stdio: ["pipe", "ignore", "pipe"] });
    child.stdin.on("error", () => {});
    const ended = new Promise((resolve) => {
      child.once("error", (error) => resolve(error.message));
      child.once("exit", (code, signal) => resolve(`it ended with ${code ?? signal}`));
    });
    const server = new PlimsollMemoryServer(child, ended, options);
    const port = await Promise.race([server.#listens(), ended]);
    if (typeof port !== "number") {
      throw new Error(`the server did not start: ${port}\n${server.log.join("\n")}`);
    }
    server.port = port;
    // It keeps no program from ending.
    child.unref();
    child.stderr.unref?.();
    child.stdin.unref?.();
    return server;
  }

  #listens() {
    return new Promise((resolve) => {
      createInterface({ input: this.#child.stderr }).on("line", (line) => {
        this.log.push(line);
        this.log.splice(0, this.log.length - LINES_KEPT);
        if (this.port === undefined && line.includes("Waiting for connections")) {
          resolve(JSON.parse(line).attr.port);
        }
      });
    });
  }

  get pid() {
    return this.#child.pid;
  }

  getUri(dbName = this.#options.dbName ?? "") {
    const query = this.#options.replicaSet ? `replicaSet=${this.#options.replicaSet}` : "directConnection=true";
    return `mongodb://127.0.0.1:${this.port}/${dbName}?${query}`;
  }

  async stop() {
    // Nothing has to be closed in order: nothing of it stays.
    this.#child.ref();
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  async [Symbol.asyncDispose]() {
    await this.stop();
  }
}
