/** How to start a server. */
export interface PlimsollOptions {
  /** Be the only member of the replica set of this name: transactions and change streams work then. */
  replicaSet?: string;
  /** Options of `plimsoll serve`. */
  args?: string[];
  /** The database that `getUri` names when it is given none. */
  dbName?: string;
}

/** A server on a free port of this machine, with all data in memory; it ends with this process. */
export class PlimsollMemoryServer {
  /** Starts one, and waits until it serves. */
  static create(options?: PlimsollOptions): Promise<PlimsollMemoryServer>;
  readonly port: number;
  readonly pid: number;
  /** The last lines that it has logged. */
  readonly log: string[];
  /** The connection string, of a database if one is named. */
  getUri(dbName?: string): string;
  /** Ends the server and everything in it. A second call does nothing. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
