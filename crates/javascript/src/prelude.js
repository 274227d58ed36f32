// What every function finds: the types of MongoDB's shell, its helpers, and what the server calls (names that begin with two underscores).
// Run once in each engine, before any function of a client's.
(() => {
  "use strict";
  const define = (target, name, value) =>
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });
  const global = globalThis;

  const makeType = (name, fields, show) => {
    const Type = function (...given) {
      if (!new.target) return new Type(...given);
      fields(this, given);
    };
    define(global, name, Type);
    define(Type.prototype, "toString", function () { return show(this); });
    define(Type.prototype, "tojson", function () { return show(this); });
    return Type;
  };
  const hidden = (self, name, value) => Object.defineProperty(self, name, { value, enumerable: false });

  const hex = (text, length) => {
    if (typeof text !== "string" || text.length !== length || !/^[0-9a-fA-F]*$/.test(text)) {
      throw new Error("invalid hexadecimal text: " + text);
    }
    return text.toLowerCase();
  };
  const digits = (value, length) => value.toString(16).padStart(length, "0");
  const random = Array.from({ length: 5 }, () => digits(Math.floor(Math.random() * 256), 2)).join("");
  let counter = Math.floor(Math.random() * 2 ** 24);
  const newObjectId = () => {
    counter = (counter + 1) % 2 ** 24;
    return digits(Math.floor(Date.now() / 1000), 8) + random + digits(counter, 6);
  };
  const ObjectId = makeType("ObjectId", (self, [text]) => {
    hidden(self, "str", hex(text === undefined ? newObjectId() : String(text), 24));
  }, (self) => `ObjectId("${self.str}")`);
  define(ObjectId.prototype, "valueOf", function () { return this.str; });
  define(ObjectId.prototype, "equals", function (other) { return other instanceof ObjectId && other.str === this.str; });
  define(ObjectId.prototype, "getTimestamp", function () { return new Date(parseInt(this.str.slice(0, 8), 16) * 1000); });
  define(global, "ObjectID", ObjectId);

  const NumberLong = makeType("NumberLong", (self, [value]) => {
    hidden(self, "big", BigInt.asIntN(64, BigInt(typeof value === "number" ? Math.trunc(value) : value ?? 0)));
  }, (self) => `NumberLong(${self.big > 2n ** 53n || self.big < -(2n ** 53n) ? `"${self.big}"` : self.big})`);
  define(NumberLong.prototype, "valueOf", function () { return Number(this.big); });
  define(NumberLong.prototype, "toNumber", function () { return Number(this.big); });
  define(NumberLong.prototype, "compare", function (other) {
    const right = new NumberLong(other instanceof NumberLong ? other.big : other).big;
    return this.big < right ? -1 : this.big > right ? 1 : 0;
  });
  const NumberInt = makeType("NumberInt", (self, [value]) => { hidden(self, "int", Number(value ?? 0) | 0); },
    (self) => `NumberInt(${self.int})`);
  define(NumberInt.prototype, "valueOf", function () { return this.int; });
  define(NumberInt.prototype, "toNumber", function () { return this.int; });
  const NumberDecimal = makeType("NumberDecimal", (self, [text]) => { hidden(self, "text", String(text ?? "0")); },
    (self) => `NumberDecimal("${self.text}")`);
  define(NumberDecimal.prototype, "valueOf", function () { return Number(this.text); });

  const Timestamp = makeType("Timestamp", (self, [time, increment]) => {
    self.t = Number(time ?? 0) >>> 0;
    self.i = Number(increment ?? 0) >>> 0;
  }, (self) => `Timestamp(${self.t}, ${self.i})`);
  const BinData = makeType("BinData", (self, [subtype, text]) => {
    self.type = Number(subtype) & 255;
    hidden(self, "text", String(text ?? ""));
  }, (self) => `BinData(${self.type},"${self.text}")`);
  define(BinData.prototype, "subtype", function () { return this.type; });
  define(BinData.prototype, "base64", function () { return this.text; });
  define(BinData.prototype, "length", function () {
    return Math.floor(this.text.replace(/=+$/, "").length * 3 / 4);
  });
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const fromHex = (text) => {
    const bytes = hex(text, text.length - text.length % 2).match(/../g) ?? [];
    let written = "";
    for (let at = 0; at < bytes.length; at += 3) {
      const some = bytes.slice(at, at + 3).map((byte) => parseInt(byte, 16));
      const word = (some[0] << 16) | ((some[1] ?? 0) << 8) | (some[2] ?? 0);
      const four = [18, 12, 6, 0].map((shift) => LETTERS[(word >> shift) & 63]);
      written += four.slice(0, some.length + 1).join("").padEnd(4, "=");
    }
    return written;
  };
  define(global, "HexData", (subtype, text) => new BinData(subtype, fromHex(String(text))));
  define(global, "UUID", (text) => new BinData(4, fromHex(hex(String(text).replace(/-/g, ""), 32))));
  define(global, "MD5", (text) => new BinData(5, fromHex(hex(String(text), 32))));
  const MinKeyType = makeType("__MinKey", () => {}, () => '{ "$minKey" : 1 }');
  const MaxKeyType = makeType("__MaxKey", () => {}, () => '{ "$maxKey" : 1 }');
  define(global, "MinKey", new MinKeyType());
  define(global, "MaxKey", new MaxKeyType());
  const Code = makeType("Code", (self, [code, scope]) => {
    self.code = String(code);
    if (scope !== undefined) self.scope = scope;
  }, (self) => self.code);
  const DBPointer = makeType("DBPointer", (self, [namespace, id]) => {
    self.ns = String(namespace);
    self.id = id;
  }, (self) => `DBPointer("${self.ns}", ${self.id})`);
  define(global, "DBRef", function (collection, id, database) {
    const made = { $ref: collection, $id: id };
    if (database !== undefined) made.$db = database;
    return made;
  });
  define(global, "ISODate", (text) => {
    if (text === undefined) return new Date();
    const date = new Date(/[zZ]|[+-]\d\d:?\d\d$/.test(text) || /^\d{4}(-\d\d){0,2}$/.test(text) ? text : text + "Z");
    if (isNaN(date)) throw new Error("invalid ISO date: " + text);
    return date;
  });

  const quoted = (text) => JSON.stringify(text);
  const show = (value, indent, oneLine, depth) => {
    if (depth > 200) throw new Error("tojson: too deep");
    if (value === undefined) return "undefined";
    if (value === null) return "null";
    switch (typeof value) {
      case "string": return quoted(value);
      case "number": case "boolean": return String(value);
      case "bigint": return `NumberLong("${value}")`;
      case "function": return value.toString();
    }
    if (value instanceof Date) return isNaN(value) ? 'ISODate("")' : `ISODate(${quoted(value.toISOString().replace(".000Z", "Z"))})`;
    if (value instanceof RegExp) return value.toString();
    if (typeof value.tojson === "function") return value.tojson();
    const inner = indent + "\t";
    const [line, last] = oneLine ? [" ", " "] : ["\n" + inner, "\n" + indent];
    if (Array.isArray(value)) {
      if (value.length === 0) return "[ ]";
      return "[" + line + value.map((item) => show(item, inner, oneLine, depth + 1)).join("," + line) + last + "]";
    }
    const names = Object.keys(value);
    if (names.length === 0) return "{ }";
    const fields = names.map((name) => `${quoted(name)} : ${show(value[name], inner, oneLine, depth + 1)}`);
    return "{" + line + fields.join("," + line) + last + "}";
  };
  define(global, "tojson", (value, indent = "", oneLine = false) => show(value, indent, oneLine, 0));
  define(global, "tojsononeline", (value) => show(value, "", true, 0));
  define(global, "tojsonObject", global.tojson);
  const printed = (values) => __print(values.map((value) => (typeof value === "string" ? value : String(value))).join(" "));
  define(global, "print", (...values) => printed(values));
  define(global, "printjson", (value) => printed([tojson(value)]));
  define(global, "printjsononeline", (value) => printed([tojsononeline(value)]));
  define(global, "sleep", (millis) => { const end = Date.now() + Number(millis); while (Date.now() < end) __pause(); });
  define(global, "emit", (key, value) => { __emitted.push(key, value); });
  define(global, "isString", (value) => typeof value === "string");
  define(global, "isNumber", (value) => typeof value === "number");
  define(global, "isObject", (value) => value !== null && typeof value === "object");
  define(global, "assert", (truth, message) => { if (!truth) throw new Error(message ?? "assert failed"); });

  define(Array, "contains", (list, wanted) => list.some((item) => item == wanted));
  define(Array, "unique", (list) => list.filter((item, at) => list.findIndex((other) => other == item) === at));
  define(Array, "sum", (list) => list.length === 0 ? null : list.slice(1).reduce((sum, item) => sum + item, list[0]));
  define(Array, "avg", (list) => list.length === 0 ? null : Array.sum(list) / list.length);
  define(Array, "stdDev", (list) => {
    const mean = Array.avg(list);
    return Math.sqrt(Array.sum(list.map((item) => (item - mean) ** 2)) / list.length);
  });
  define(Array, "tojson", (list, indent, oneLine) => tojson(list, indent, oneLine));
  define(Object, "extend", (target, source) => Object.assign(target, source));

  // Calls of the server.
  define(global, "__define", (target, name, value) => {
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: true });
  });
  define(global, "__make", (kind, first, second) => {
    switch (kind) {
      case "oid": return new ObjectId(first);
      case "long": return new NumberLong(first);
      case "decimal": return new NumberDecimal(first);
      case "date": return new Date(first);
      case "regex": return new RegExp(first, second);
      case "timestamp": return new Timestamp(first, second);
      case "binary": return new BinData(first, second);
      case "minKey": return MinKey;
      case "maxKey": return MaxKey;
      case "code": return new Code(first, second);
      case "pointer": return new DBPointer(first, new ObjectId(second));
    }
  });
  // Which fields of an object that came as BSON were int32: their names, or of an array how many elements it had.
  const ints = new WeakMap();
  define(global, "__noteInts", (object, which) => { ints.set(object, which); });
  define(global, "__ints", (object) => ints.get(object));
  // The kind of a value that is no plain object, with its parts; null for a plain one.
  define(global, "__parts", (value) => {
    if (value instanceof Date) return ["date", value.getTime()];
    if (value instanceof ObjectId) return ["oid", value.str];
    if (value instanceof NumberLong) return ["long", value.big.toString()];
    if (value instanceof NumberInt) return ["int", value.int];
    if (value instanceof NumberDecimal) return ["decimal", value.text];
    if (value instanceof RegExp) return ["regex", value.source, value.flags];
    if (value instanceof Timestamp) return ["timestamp", value.t, value.i];
    if (value instanceof BinData) return ["binary", value.type, value.text];
    if (value instanceof MinKeyType) return ["minKey"];
    if (value instanceof MaxKeyType) return ["maxKey"];
    if (value instanceof Code) return ["code", value.code, value.scope];
    if (value instanceof DBPointer) return ["pointer", value.ns, String(value.id.str)];
    if (typeof value === "function") return ["code", value.toString()];
    if (value instanceof Number || value instanceof String || value instanceof Boolean) return ["plain", value.valueOf()];
    return null;
  });
  const evaluate = global.eval;
  define(global, "__function", (code) => {
    const made = evaluate("(" + code + "\n)");
    if (typeof made !== "function") throw new Error("the code is no function: " + code);
    return made;
  });
  // `$where` takes an expression, too, or the body of a function.
  define(global, "__condition", (code) => {
    const text = code.trim();
    if (/^(async\s+)?function\b/.test(text) || /^(\([^()]*\)|[\w$]+)\s*=>/.test(text)) return __function(text);
    try {
      return evaluate("(function () { return (" + text.replace(/;\s*$/, "") + "\n); })");
    } catch (problem) {
      return evaluate("(function () { " + text + "\n })");
    }
  });
})();
