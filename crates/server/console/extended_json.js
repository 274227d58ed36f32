// Extended JSON without loss: order of fields, types and values of numbers. Also what people type, as shells let them.
//
// An exact document is `{ fields: [[name, value], …] }`: objects of JavaScript would put names like "7" in front.

/** Reads JSON; objects become exact documents. */
export function parse(text) {
  let position = 0;
  const space = () => {
    while (position < text.length && " \t\n\r".includes(text[position])) position += 1;
  };
  const string = () => {
    const begin = position;
    position += 1;
    while (text[position] !== '"') position += text[position] === "\\" ? 2 : 1;
    position += 1;
    return JSON.parse(text.slice(begin, position));
  };
  const value = () => {
    space();
    const first = text[position];
    if (first === '"') return string();
    if (first === "{" || first === "[") {
      const isObject = first === "{";
      const found = [];
      position += 1;
      for (space(); text[position] !== (isObject ? "}" : "]"); space()) {
        if (text[position] === ",") position += 1;
        space();
        if (isObject) {
          const name = string();
          space();
          position += 1;
          found.push([name, value()]);
        } else found.push(value());
      }
      position += 1;
      return isObject ? { fields: found } : found;
    }
    const begin = position;
    while (position < text.length && !",]} \t\n\r".includes(text[position])) position += 1;
    return JSON.parse(text.slice(begin, position));
  };
  return value();
}

/** The value of a field of an exact document. */
export function get(document, ...path) {
  return path.reduce((inside, name) => inside?.fields?.find(([own]) => own === name)?.[1], document);
}

/** A number or date of canonical Extended JSON as a number; other values as they are. */
export function plain(value) {
  const [[name, inner] = []] = value?.fields ?? [];
  if (name === "$numberInt" || name === "$numberLong" || name === "$numberDouble" || name === "$numberDecimal") return Number(inner);
  if (name === "$date") return plain(inner);
  return value;
}

const INT_MAX = 2147483647;

/** What stands for a value of canonical Extended JSON in text that people read: its tokens, or nothing if it is a plain object. */
function special(value) {
  const [[name, inner] = []] = value.fields;
  if (value.fields.length !== 1)
    return name === "$code" || name === "$binary" ? { text: JSON.stringify(toObject(value)), kind: "special" } : undefined;
  switch (name) {
    case "$numberInt":
      return { text: inner, kind: "number" };
    case "$numberLong": {
      const isWide = Math.abs(Number(inner)) > INT_MAX + 1;
      return isWide ? { text: inner, kind: "number" } : { text: `{ "$numberLong": "${inner}" }`, kind: "number" };
    }
    case "$numberDouble":
      if (!/^-?[0-9]/.test(inner)) return { text: `{ "$numberDouble": "${inner}" }`, kind: "number" };
      return { text: shortDouble(inner), kind: "number" };
    case "$date": {
      const millis = Number(get(inner, "$numberLong") ?? NaN);
      const isReadable = millis >= 0 && millis < 253402300800000;
      const text = isReadable ? `"${new Date(millis).toISOString()}"` : JSON.stringify(toObject(inner));
      return { text: `{ "$date": ${text} }`, kind: "special" };
    }
    case "$oid":
    case "$numberDecimal":
    case "$binary":
    case "$regularExpression":
    case "$timestamp":
    case "$minKey":
    case "$maxKey":
    case "$symbol":
    case "$undefined":
    case "$dbPointer":
    case "$code":
    case "$uuid":
      return {
        text: JSON.stringify(toObject(value))
          .replace(/^\{/, "{ ")
          .replace(/\}$/, " }")
          .replace(/:(?=["{0-9])/, ": "),
        kind: "special",
      };
    default:
      return undefined;
  }
}

/** The shortest text of the same double, with a point or an exponent, so that it stays one. */
function shortDouble(text) {
  const number = Number(text);
  const shortest = Object.is(number, -0) ? "-0.0" : String(number);
  return /[.e]/.test(shortest) ? shortest : `${shortest}.0`;
}

/** An exact document as an object of JavaScript. */
export function toObject(value) {
  if (Array.isArray(value)) return value.map(toObject);
  if (value?.fields) return Object.fromEntries(value.fields.map(([name, inner]) => [name, toObject(inner)]));
  return value;
}

/** An exact value as JavaScript has it: numbers are numbers, dates are of `Date`, of identifiers and the like there is the text. */
export function toPlain(value) {
  if (Array.isArray(value)) return value.map(toPlain);
  if (!value?.fields) return value;
  const [[name, inner] = []] = value.fields;
  if (value.fields.length === 1) {
    if (name === "$date") return new Date(plain(inner));
    if (name === "$oid" || name === "$symbol" || name === "$uuid") return inner;
    if (name?.startsWith("$number")) return plain(value);
  }
  return Object.fromEntries(value.fields.map(([own, of]) => [own, toPlain(of)]));
}

/** Calls `token(text, kind)` for each piece of a value's text. Lines are broken where they would be longer than `width`. */
export function write(value, token, { indent = 0, width = 90 } = {}) {
  const oneLine = tokensOf(value);
  const length = oneLine.reduce((sum, [text]) => sum + text.length, 0);
  const isSpecial = value?.fields && special(value);
  const isComposed = !isSpecial && (Array.isArray(value) || value?.fields);
  if (!isComposed || (length + indent <= width && (indent > 0 || Array.isArray(value)))) {
    oneLine.forEach(([text, kind]) => token(text, kind));
    return;
  }
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const entries = Array.isArray(value) ? value.map((inner) => [undefined, inner]) : value.fields;
  if (entries.length === 0) return token(open + close, "sign");
  token(`${open}\n`, "sign");
  entries.forEach(([name, inner], index) => {
    token(" ".repeat(indent + 2), "space");
    if (name !== undefined) {
      token(JSON.stringify(name), "name");
      token(": ", "sign");
    }
    write(inner, token, { indent: indent + 2, width });
    token(index + 1 < entries.length ? ",\n" : "\n", "sign");
  });
  token(" ".repeat(indent), "space");
  token(close, "sign");
}

function tokensOf(value) {
  if (Array.isArray(value)) {
    if (value.length === 0) return [["[]", "sign"]];
    return [["[", "sign"], ...value.flatMap((inner, index) => [...(index > 0 ? [[", ", "sign"]] : []), ...tokensOf(inner)]), ["]", "sign"]];
  }
  if (value?.fields) {
    const found = special(value);
    if (found) return [[found.text, found.kind]];
    if (value.fields.length === 0) return [["{}", "sign"]];
    const inner = value.fields.flatMap(([name, of], index) => [
      ...(index > 0 ? [[", ", "sign"]] : []),
      [JSON.stringify(name), "name"],
      [": ", "sign"],
      ...tokensOf(of),
    ]);
    return [["{ ", "sign"], ...inner, [" }", "sign"]];
  }
  return [[JSON.stringify(value), typeof value === "string" ? "string" : typeof value === "number" ? "number" : "word"]];
}

/** The text of a value, to be read and edited. */
export function textOf(value, options) {
  let text = "";
  write(
    value,
    (piece) => {
      text += piece;
    },
    options,
  );
  return text;
}

/** The text of a value in one line. */
export function lineOf(value) {
  return tokensOf(value)
    .map(([text]) => text)
    .join("");
}

/** A date that is given as text, of UTC unless it says otherwise, in milliseconds, or not at all: now. */
function date(text) {
  const given = text === "" ? Date.now() : JSON.parse(text);
  const moment = new Date(typeof given === "string" && /T[0-9:.]*$/.test(given) ? `${given}Z` : given);
  if (Number.isNaN(moment.getTime())) throw new SyntaxError(`${text} is no date`);
  return `{"$date":{"$numberLong":"${moment.getTime()}"}}`;
}

const CALLS = {
  ObjectId: (text) => `{"$oid":${text}}`,
  ISODate: date,
  Date: date,
  NumberLong: (text) => `{"$numberLong":${quoted(text)}}`,
  Long: (text) => `{"$numberLong":${quoted(text)}}`,
  NumberInt: (text) => `{"$numberInt":${quoted(text)}}`,
  Int32: (text) => `{"$numberInt":${quoted(text)}}`,
  Double: (text) => `{"$numberDouble":${quoted(text)}}`,
  NumberDecimal: (text) => `{"$numberDecimal":${quoted(text)}}`,
  Decimal128: (text) => `{"$numberDecimal":${quoted(text)}}`,
  UUID: (text) => `{"$uuid":${text}}`,
};

const quoted = (text) => (text.startsWith('"') ? text : `"${text}"`);

/** JSON of what people type: names without quotes, single quotes, trailing commas, /patterns/, ObjectId("…") and the like. */
export function fromTyped(text) {
  let json = "";
  let rest = text;
  const wrong = () => new SyntaxError(`This is not understood: ${rest.slice(0, 30)}`);
  const take = (pattern) => {
    const found = pattern.exec(rest);
    if (found) rest = rest.slice(found[0].length);
    return found;
  };
  while (rest !== "") {
    let found;
    if ((found = take(/^\s+/))) json += " ";
    else if (take(/^\/\/[^\n]*/)) json += " ";
    else if ((found = take(/^"(?:[^"\\]|\\.)*"/s))) json += found[0];
    else if ((found = take(/^'((?:[^'\\]|\\.)*)'/s))) json += JSON.stringify(found[1].replace(/\\'/g, "'"));
    else if ((found = take(/^\/((?:[^/\\\n]|\\.)+)\/([a-z]*)/))) {
      const [pattern, options] = [JSON.stringify(found[1]), JSON.stringify([...found[2]].sort().join(""))];
      json += `{"$regularExpression":{"pattern":${pattern},"options":${options}}}`;
    } else if ((found = take(/^,\s*(?=[\]}])/))) json += "";
    else if ((found = take(/^(?:new\s+)?([A-Z][A-Za-z0-9]*)\(\s*("(?:[^"\\]|\\.)*"|'[^'\\]*'|-?[0-9.eE+]*)\s*\)/))) {
      if (!CALLS[found[1]]) throw new SyntaxError(`${found[1]}(…) is not known here`);
      const inner = found[2].startsWith("'") ? JSON.stringify(found[2].slice(1, -1)) : found[2];
      json += CALLS[found[1]](inner);
    } else if ((found = take(/^([A-Za-z_$][\w$.]*)(?=\s*:)/))) json += JSON.stringify(found[1]);
    else if ((found = take(/^(?:true|false|null)\b/))) json += found[0];
    else if ((found = take(/^-?(?:Infinity|NaN)\b/))) json += `{"$numberDouble":"${found[0]}"}`;
    else if ((found = take(/^undefined\b/))) json += "null";
    else if ((found = take(/^[-0-9.eE+]+/))) json += found[0];
    else if ((found = take(/^[{}[\],:]/))) json += found[0];
    else throw wrong();
  }
  return json.trim();
}
