// What the Node suites share: the driver from where it was installed, and a server of their own to start and stop.

import { spawn } from "node:child_process";
import { mkdtempSync, openSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const modules = process.env.PLIMSOLL_NODE_MODULES;
const require = createRequire(modules ? join(modules, "index.js") : import.meta.url);

export const { MongoClient, MongoBulkWriteError, MongoServerError, Decimal128, Long, ObjectId } = require("mongodb");

/** A port that nobody listens on at this moment. */
export async function freePort() {
  const probe = createServer();
  await new Promise((listening) => probe.listen(0, "127.0.0.1", listening));
  const { port } = probe.address();
  await new Promise((closed) => probe.close(closed));
  return port;
}

/** A server process with a data directory of its own, which outlives the process, and the suite if that fails. */
export class Server {
  /** With more words of the command line, if there are any. */
  static async start(...more) {
    const server = new Server();
    server.more = more;
    server.folder = mkdtempSync(join(tmpdir(), "plimsoll-node-"));
    process.once("exit", (code) => {
      if (code === 0) rmSync(server.folder, { recursive: true, force: true });
    });
    server.port = await freePort();
    server.uri = `mongodb://127.0.0.1:${server.port}/`;
    await server.start();
    return server;
  }

  async start() {
    const log = openSync(join(this.folder, "server.log"), "a");
    const words = ["serve", "--data", join(this.folder, "data"), "--listen", `127.0.0.1:${this.port}`];
    words.push("--cache", "64MiB", ...this.more);
    this.process = spawn(process.env.PLIMSOLL_BINARY, words, { stdio: ["ignore", log, log] });
    this.ended = new Promise((ended) => this.process.once("exit", ended));
    for (let attempt = 0; attempt < 3000; attempt++) {
      if (await this.accepts()) return;
      await sleep(10);
    }
    throw new Error("the server does not listen");
  }

  accepts() {
    return new Promise((answer) => {
      const socket = connect(this.port, "127.0.0.1", () => {
        socket.destroy();
        answer(true);
      });
      socket.once("error", () => answer(false));
    });
  }

  async end(signal) {
    this.process.kill(signal);
    return await this.ended;
  }
}
