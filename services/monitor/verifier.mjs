// Verifies a public log, the SQLite file, as docs/reference/public-format.md describes it: no other code of
// stream-dp is used. Under Node: `node verifier.mjs FILE [--key KEY] [--head HASH]`; in a page: see the end.

const START = "0".repeat(64);
const GATE = Symbol("the gate's charges");
const SEEDED = "SEEDED SIMULATION: repeatable, NOT PRIVATE";
const FAR = 2 ** 50, MOST = 1e15; // above these a number counts neither places nor people
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const bytesOf = (text) => new TextEncoder().encode(text);

/** A log that cannot be read as one (code 2), or that contradicts itself (code 4). */
export class Fault extends Error {
  constructor(line, code = 4) { super(line); this.code = code; }
}
const refuse = (index, why) => { throw new Fault(`public log: message ${index}: ${why}`); };

// ---- Fractions [numerator, denominator], in lowest terms.

const gcd = (a, b) => { while (b) [a, b] = [b, a % b]; return a; };
const lowest = (n, d) => { const g = gcd(n, d) || 1n; return [n / g, d / g]; };
const add = ([a, b], [c, d]) => lowest(a * d + c * b, b * d);
const compare = ([a, b], [c, d]) => Number(a * d > c * b) - Number(a * d < c * b);
const total = (all) => all.reduce(add, [0n, 1n]);
const written = ([n, d]) => (d === 1n ? `${n}` : `${n}/${d}`);
/** The fraction in a text such as "1/15"; null for anything else. */
function fraction(value) {
  const match = /^([0-9]{1,1000})(?:\/([0-9]{1,1000}))?$/.exec(String(value));
  if (!match || !["string", "number", "bigint"].includes(typeof value)) return null;
  const [n, d] = [BigInt(match[1]), BigInt(match[2] ?? 1)];
  return d === 0n || n > d * 10n ** 30n ? null : lowest(n, d);
}
function logarithm(n) {
  const bits = Math.max(0, n.toString(2).length - 900);
  return Math.log(Number(n >> BigInt(bits))) + bits * Math.LN2;
}
const log = ([n, d]) => logarithm(n) - logarithm(d);

/** Whether a text is the epsilon of rho at delta, rounded up to 6 decimals; right to 12 digits. */
function isEpsilon(text, rho, delta) {
  const stated = Number(text);
  if (rho[0] === 0n) return stated === 0;
  const value = zcdpEpsilon(Math.exp(log(rho)), -log(delta)), room = 1e-12 * (1 + value);
  return value - room <= stated && stated <= value + 1e-6 + room;
}
/** The epsilon of rho in zCDP at exp(-far), at least a millionth. */
function zcdpEpsilon(r, far) {
  const at = (x) => { // x: the logarithm of a - 1
    const e = Math.exp(x);
    return (1 + e) * r + (far - e * Math.log1p(1 / e) - Math.log1p(e)) / e;
  };
  let low = Math.log(far / r) / 2 - 12, high = low + 24;
  for (let i = 0; i < 120; i++) {
    const step = (high - low) * 0.6180339887498949;
    if (at(high - step) < at(low + step)) high = low + step; else low = high - step;
  }
  return Math.max(1e-6, at((low + high) / 2));
}

/** Whether a text is the epsilon of docs/proofs/gaussian-epsilon.md, at most that of zCDP; right to 12 digits. */
function isLeastEpsilon(text, rho, delta, least) {
  if (least[0] === 0n) return false;
  if (rho[0] === 0n) return Number(text) === 0;
  const r = Math.exp(log(rho)), s = Math.exp(log(least)), square = 2 * Math.PI ** 2, thousandths = Number((least[0] * 1000n + least[1] - 1n) / least[1]);
  const above = zcdpEpsilon(r, -log(delta)), stated = Number(text), steps = Array.from({ length: 187 }, (_, i) => (i + 13) * 10 / thousandths);
  const extra = (f) => 0.6 * above * f + 14 * r * s * Math.exp(-2 * square * f * s);
  const f = steps.filter((share) => share < 0.5 && square * share * s > 2.5).reduce((best, share) => (best === null || extra(share) < extra(best) ? share : best), null);
  if (f === null) return isEpsilon(text, rho, delta);
  const q = Math.exp(-square * f * s), mean = 2 * q * Math.exp(-square * f * (1 - f) * s) / (1 - q), largest = 2 * q / (1 - q);
  const distance = 2 * r * s * (mean + largest ** 2 / (1 - largest) + mean / (1 - mean)), mu = Math.sqrt(2 * r / (1 - f));
  const mills = (x) => { let value = x; for (let k = 10 + Math.floor(150 / x ** 2); k > 0; k--) value = x + k / value; return 1 / value; };
  const fits = (eps) => {
    const a = eps / mu - mu / 2;
    return a >= 0.5 && -a * a / 2 - Math.log(2 * Math.PI) / 2 + Math.log(mills(a) - mills(a + mu)) <= log(delta) - distance;
  };
  if (!fits(above)) return isEpsilon(text, rho, delta);
  let low = 0, high = above;
  for (let i = 0; i < 80; i++) { const middle = (low + high) / 2; if (fits(middle)) high = middle; else low = middle; }
  const value = high + distance, room = 1e-10 * (1 + value);
  return value >= above - 1e-6 ? isEpsilon(text, rho, delta) || (value - room <= stated && stated <= above + 1e-6 + room) : value - room <= stated && stated <= value + 2e-6 + room;
}

// ---- JSON whose whole numbers are exact: a BigInt where a Number has too few digits, a Real for any other.

class Real { constructor(text) { this.text = text; } }
function parse(bytes) {
  const text = utf8.decode(bytes);
  JSON.parse(text); // throws for anything that is no JSON
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*/g, (m) => (m[0] === '"' ? `"s${m.slice(1)}` : `"n${m}"`));
  return JSON.parse(marked, (_, value) => {
    if (typeof value === "string") return value[0] === "s" ? value.slice(1) : number(value.slice(1));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key.slice(1), one]));
  });
}
function number(text) {
  if (!Number.isFinite(Number(text)) && /[.eE]/.test(text)) throw new Error("not finite");
  if (/[.eE]/.test(text)) return new Real(text);
  return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text);
}
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Real);
const isText = (value) => typeof value === "string" && value.length <= 10000;
const isCount = (value) => typeof value === "number" || typeof value === "bigint";
const isWhole = (value) => Number.isSafeInteger(value) && value >= 0 && value <= 1e12;
/** JSON with sorted keys and no spaces, in ASCII. */
function canonical(value) {
  if (value instanceof Real) return String(Number(value.text));
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (isObject(value)) return `{${Object.keys(value).sort().map((k) => `${canonical(k)}:${canonical(value[k])}`).join(",")}}`;
  return JSON.stringify(value).replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
const same = (a, b) => canonical(a) === canonical(b);

async function sha256(bytes) {
  return [...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// ---- The SQLite file: rows of a table by walking its tree of pages (https://www.sqlite.org/fileformat2.html).

function database(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const size = view.getUint16(16) === 1 ? 65536 : view.getUint16(16), usable = size - bytes[20];
  if (size < 512 || bytes.length < size) throw new Error("size");
  const varint = (at) => {
    let value = 0n;
    for (let i = 0; i < 9; i++) {
      const byte = view.getUint8(at + i);
      if (i === 8) return [(value << 8n) | BigInt(byte), at + 9];
      value = (value << 7n) | BigInt(byte & 127);
      if (byte < 128) return [value, at + i + 1];
    }
  };
  const small = (at) => { const [value, next] = varint(at); return [Number(value), next]; };
  function payload(at, length, inTable) {
    const most = inTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23;
    const least = Math.floor(((usable - 12) * 32) / 255) - 23, rest = least + ((length - least) % (usable - 4));
    const local = length <= most ? length : rest <= most ? rest : least;
    const out = new Uint8Array(Math.min(length, bytes.length));
    out.set(bytes.subarray(at, at + local));
    for (let done = local, page = local < length ? view.getUint32(at + local) : 0; done < length;) {
      const from = (page - 1) * size, count = Math.min(usable - 4, length - done);
      page = view.getUint32(from);
      out.set(bytes.subarray(from + 4, from + 4 + count), done);
      done += count;
    }
    return out;
  }
  function row(data) {
    const own = new DataView(data.buffer), values = [];
    const read = (at) => { let v = 0, b; do { b = own.getUint8(at++); v = v * 128 + (b & 127); } while (b > 127); return [v, at]; };
    let [end, at] = read(0), body = end;
    while (at < end) {
      let kind, value = null;
      [kind, at] = read(at);
      const width = kind < 12 ? [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0][kind] : Math.floor((kind - 12) / 2);
      const raw = data.subarray(body, body + width);
      if (raw.length < width) throw new Error("row");
      if (kind === 8 || kind === 9) value = kind - 8;
      else if (kind > 0 && kind < 7) value = Number(raw.reduce((sum, b, i) => (i ? sum * 256n + BigInt(b) : BigInt(b << 24 >> 24)), 0n));
      else if (kind >= 12) value = kind % 2 ? utf8.decode(raw) : raw;
      values.push(value);
      body += width;
    }
    return values;
  }
  function* rows(page, depth = 0) {
    const start = (page - 1) * size, head = start + (page === 1 ? 100 : 0), kind = view.getUint8(head);
    if (depth > 20 || ![2, 5, 10, 13].includes(kind)) throw new Error("page");
    const inner = kind < 8, inTable = kind === 5 || kind === 13;
    for (let i = 0; i < view.getUint16(head + 3); i++) {
      let at = start + view.getUint16(head + (inner ? 12 : 8) + 2 * i), length;
      if (inner) { yield* rows(view.getUint32(at), depth + 1); at += 4; }
      if (inner && inTable) continue;
      [length, at] = small(at);
      if (inTable) [, at] = varint(at);
      yield row(payload(at, length, inTable));
    }
    if (inner) yield* rows(view.getUint32(head + 8), depth + 1);
  }
  const tables = new Map([...rows(1)].map(([type, name, , root]) => [type === "table" ? name : "", root]));
  return (name) => rows(tables.get(name));
}

/** The last value of a header, in the MessagePack [[name, bytes], ...] of a record. */
function header(raw, wanted) {
  if (!raw) return "";
  let at = 0, found = "";
  const length = (width) => { let n = 0; for (let i = 0; i < width; i++) n = n * 256 + raw[at++]; return n; };
  const take = (n) => { if (at + n > raw.length) throw new Error("headers"); at += n; return raw.subarray(at - n, at); };
  const one = () => {
    const kind = raw[at++];
    if (kind >= 0x90 && kind < 0xa0) return Array.from({ length: kind - 0x90 }, one);
    if (kind === 0xdc) return Array.from({ length: length(2) }, one);
    if (kind >= 0xa0 && kind < 0xc0) return utf8.decode(take(kind - 0xa0));
    if (kind >= 0xd9 && kind <= 0xdb) return utf8.decode(take(length(2 ** (kind - 0xd9))));
    if (kind >= 0xc4 && kind <= 0xc6) return take(length(2 ** (kind - 0xc4)));
    if (kind === 0xc0) return new Uint8Array();
    throw new Error("headers");
  };
  try { for (const [name, value] of one()) if (name === wanted) found = new TextDecoder().decode(value); } catch { return ""; }
  return found;
}

/** The records of the releases, [part's name, value, signature], in order. Throws a Fault for anything else. */
export function recordsOf(bytes, file) {
  if (String.fromCharCode(...bytes.subarray(0, 15)) !== "SQLite format 3") throw new Fault(`${file}: not a log of stream-dp`, 2);
  try {
    const table = database(bytes), [[version]] = [...table("log")];
    if (version !== 1) throw new Fault(`${file}: not a log of a version that this code reads; use a newer stream-dp`, 2);
    const count = new Map(table("topics")).get("releases");
    if (count === undefined) throw new Fault(`${file}: no topic 'releases': nothing is published there yet`, 2);
    if (count !== 1) throw new Fault(`public log: has ${count} partitions and must have 1`);
    const own = [...table("records")].filter(([topic, partition]) => topic === "releases" && partition === 0);
    if (own.length && own[0][2]) throw new Fault(`public log: begins at position ${own[0][2]}, so its first records are gone; restore it whole and give it unlimited retention`);
    return own.map(([, , , , , value, headers]) => [header(headers, "stream-dp-part"), value ?? new Uint8Array(), header(headers, "stream-dp-signature")]);
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault(`${file}: is damaged; restore a backup`);
  }
}

// ---- Arrow IPC streams without compression, dictionaries, nesting, metadata and nulls.

const TYPES = { "2 8 0": ["uint8", Uint8Array], "2 16 0": ["uint16", Uint16Array], "2 32 0": ["uint32", Uint32Array],
  "2 8 1": ["int8", Int8Array], "2 16 1": ["int16", Int16Array], "2 32 1": ["int32", Int32Array], "2 64 1": ["int64", BigInt64Array], "3 2": ["double", Float64Array], "5": ["string", null] };

/** The columns of a stream, [name, type, values], values a list with an array for each batch. */
function arrow(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const long = (at) => { const n = Number(view.getBigInt64(at, true)); if (!Number.isSafeInteger(n) || n < 0) throw new Error("length"); return n; };
  const slot = (table, i) => {
    const rows = table - view.getInt32(table, true);
    const offset = 4 + 2 * i < view.getUint16(rows, true) ? view.getUint16(rows + 4 + 2 * i, true) : 0;
    return offset && table + offset;
  };
  const follow = (at) => at && at + view.getUint32(at, true);
  const vector = (at, width) => { const v = follow(at); return v ? Array.from({ length: Math.min(view.getUint32(v, true), data.length) }, (_, i) => v + 4 + width * i) : []; };
  const text = (at) => { const v = follow(at); return utf8.decode(data.subarray(v + 4, v + 4 + view.getUint32(v, true))); };
  const field = (at) => {
    const table = follow(at), kind = view.getUint8(slot(table, 2)), type = follow(slot(table, 3));
    if (slot(table, 4) || vector(slot(table, 5), 4).length || vector(slot(table, 6), 4).length) throw new Error("nested");
    const width = kind === 2 ? ` ${view.getInt32(slot(type, 0), true)} ${slot(type, 1) && view.getUint8(slot(type, 1))}` : kind === 3 ? ` ${view.getInt16(slot(type, 0), true)}` : "";
    if (!TYPES[kind + width]) throw new Error("type");
    return [text(slot(table, 0)), ...TYPES[kind + width], []];
  };
  let columns = null, at = 0;
  while (at + 4 <= data.length) {
    let size = view.getInt32(at, true);
    at += 4;
    if (size === -1) { size = view.getInt32(at, true); at += 4; }
    if (size === 0) break;
    const message = at + view.getUint32(at, true), kind = view.getUint8(slot(message, 1)), head = follow(slot(message, 2));
    const body = at + size, end = body + (slot(message, 3) ? long(slot(message, 3)) : 0);
    if (end > data.length) throw new Error("end");
    at = end;
    if (columns === null) {
      if (kind !== 1 || vector(slot(head, 2), 4).length) throw new Error("schema");
      columns = vector(slot(head, 1), 4).map(field);
      continue;
    }
    if (kind !== 3 || slot(head, 3)) throw new Error("batch");
    const rows = slot(head, 0) ? long(slot(head, 0)) : 0, nodes = vector(slot(head, 1), 16), buffers = vector(slot(head, 2), 16);
    const next = () => {
      const buffer = buffers.shift(), from = body + long(buffer), length = long(buffer + 8);
      if (from + length > end) throw new Error("buffer");
      return data.slice(from, from + length).buffer;
    };
    for (const [, type, Values, batches] of columns) {
      const node = nodes.shift();
      if (long(node) !== rows || long(node + 8)) throw new Error("node");
      buffers.shift(); // which values are null: none
      if (Values) batches.push(new Values(next(), 0, rows));
      else {
        const first = next(), marks = rows ? new Int32Array(first, 0, rows + 1) : [0], all = new Uint8Array(next());
        batches.push(Array.from({ length: rows }, (_, i) => {
          if (marks[i] < 0 || marks[i + 1] < marks[i] || marks[i + 1] > all.length) throw new Error("text");
          return utf8.decode(all.subarray(marks[i], marks[i + 1]));
        }));
      }
    }
  }
  if (columns === null) throw new Error("empty");
  return columns;
}

/** The table in the parts NAME/0, NAME/1, ...: a map of [type, values]. fits: whether [name, type]s are expected. */
function table(parts, name, fits) {
  const own = parts.filter(([part]) => part.startsWith(`${name}/`));
  if (!own.length || own.some(([part], i) => part !== `${name}/${i}`)) throw new Error(`${name}: its parts are not numbered from 0`);
  try {
    const pieces = own.map(([, data]) => arrow(data)), names = pieces[0].map(([column]) => column);
    if (pieces.some((piece) => !fits(piece.map(([column, type]) => [column, type])))) throw new Error("columns");
    return { names, rows: pieces.flatMap((piece) => piece[0][3].map((b) => b.length)).reduce((a, b) => a + b, 0),
      column: (wanted) => pieces.flatMap((piece) => piece[names.indexOf(wanted)][3]) };
  } catch { throw new Error(`${name}: not the table that is expected`); }
}
const exactly = (columns) => (fields) => same(fields, Object.entries(columns));
const answers = (parts, name, more) => table(parts, name, exactly({ query: "string", ...more, standard_error: "double" }));
const all = (batches, holds) => batches.every((batch) => batch.every(holds));
const flat = (batches) => batches.flatMap((batch) => Array.from(batch, Number));
const plausible = (one) => all(one.column("value"), (v) => Math.abs(Number(v)) < MOST) && all(one.column("standard_error"), (e) => e >= 0 && e < MOST);

// ---- Certificates.

const isSymbol = (value) => typeof value === "string" || isCount(value);
const isList = (test) => (value) => Array.isArray(value) && value.every(test);
const isSmall = (value) => isObject(value) && canonical(value).length <= 20000;
const isEpsilonText = (value) => typeof value === "string" && /^[0-9]{1,30}(\.[0-9]{1,12})?$/.test(value);
const tests = (names, test) => names.split(" ").map((name) => [name, test]);
const BASE = [...tests("study study_hash release kind period", isText), ...tests("number horizon", isWhole), ["mechanism", isText],
  ["parameters", isSmall], ...tests("unit neighbours guarantee invariants domain", isText), ...tests("rho rho_spent rho_total delta", fraction),
  ...tests("epsilon_spent epsilon_total", isEpsilonText), ...tests("noise code_version", isText)];
const IF_GAUSSIAN = [["least_variance", fraction], ...tests("least_epsilon_spent least_epsilon_total", isEpsilonText)];
const FIELDS = {
  "stream-dp.release": [...BASE, ["attribute", isText], ["columns", isList((v) => typeof v === "string")], ["rows", isWhole], ["values", isList(isSymbol)],
    ["padding", isWhole], ["noise_variance", fraction], ["notes", (v) => isSmall(v) && Object.values(v).every(isCount)], ["panel_bias", isText]],
  "stream-dp.batch": [...BASE, ...tests("groups people", isWhole), ["columns", isObject], ["measured", isWhole], ["notes", isSmall]],
  "stream-dp.sizes": [...BASE, ["regions", isList(isText)], ...tests("largest groups rows measured", isWhole),
    ["levels", (levels) => isList(isObject)(levels) && levels.length > 0], ["notes", isSmall]],
};

/** The labels of a study's periods. */
function labels({ every, first, count }) {
  const pad = (n) => String(n).padStart(2, "0"), day = (n) => new Date(n * 864e5).toISOString().slice(0, 10), [year, part] = first.split(/-[WQ]?/).map(Number);
  const monday = (y) => { const jan4 = Date.UTC(y, 0, 4) / 864e5; return jan4 - ((jan4 + 3) % 7); };
  const week = (n) => { let y = year; while (monday(y + 1) <= n) y++; return `${y}-W${pad((n - monday(y)) / 7 + 1)}`; };
  const clock = (n, end) => `${new Date(Date.parse(first.replace(/(T..)Z/, "$1:00Z")) + n).toISOString().slice(0, end)}Z`;
  const label = { minute: (i) => clock(i * 6e4, 16), hour: (i) => clock(i * 36e5, 13), step: (i) => String(Number(first) + i), day: (i) => day(Date.parse(first) / 864e5 + i), week: (i) => week(monday(year) + 7 * (part - 1 + i)),
    month: (i) => `${year + Math.floor((part - 1 + i) / 12)}-${pad(((part - 1 + i) % 12) + 1)}`,
    quarter: (i) => `${year + Math.floor((part - 1 + i) / 4)}-Q${((part - 1 + i) % 4) + 1}`, year: (i) => String(year + i) }[every];
  return Array.from({ length: count }, (_, i) => label(i));
}

function checkPanel(certificate, parts, { stated, numbers, declared }) {
  if (!same(certificate.values, stated.values)) return "its certificate's values are not what the study declares";
  const first = numbers.get(declared.first) ?? 1, last = numbers.get(declared.last) ?? numbers.size;
  if (certificate.number < first || certificate.number > last) return "at a period that its release does not have";
  if (parts.some(([name]) => !["panel", "measurements", "estimates"].includes(name.split("/")[0]))) return "has parts that no release has";
  const panel = table(parts, "panel", (fields) => fields.length > 0 && fields.every(([, type]) => type === "uint8"));
  const measured = answers(parts, "measurements", { value: "int64", variance: "string" }), estimated = answers(parts, "estimates", { value: "double" });
  if (panel.rows !== certificate.rows || !same(panel.names, certificate.columns) || new Set(panel.names).size < panel.names.length) return "not the columns of its certificate";
  if (panel.names.some((name) => !all(panel.column(name), (code) => code < certificate.values.length))) return "a row has a value that is not declared";
  return plausible(measured) && plausible(estimated) ? null : "a measurement or an estimate is no number of people";
}

const codes = (values) => (Array.isArray(values) ? values.length : Math.floor((values.scale.most - values.scale.least) / (values.scale.step ?? 1)) + 1 + Number(Boolean(values.absent)));
function checkTables(certificate, parts, { study }) {
  const tables = {}, bad = "not the tables of its certificate", columns_of = certificate.columns;
  const [owners, linked, key] = columns_of.groups ? ["groups", "people", "group"] : columns_of.events ? ["people", "events", "person"] : [];
  let measured;
  try {
    for (const [name, columns] of Object.entries(columns_of)) {
      const types = { ...(name === linked ? { [key]: "int32" } : {}), ...Object.fromEntries(Object.entries(columns).map(([c, v]) => [c, codes(v) > 65536 ? "uint32" : "uint16"])) };
      tables[name] = table(parts, name, (fields) => fields.length === Object.keys(types).length && same(Object.fromEntries(fields), types));
      if (Object.entries(columns).some(([c, values]) => !all(tables[name].column(c), (code) => code < codes(values)))) return bad;
    }
    measured = answers(parts, "measurements", { value: "int64", variance: "string" });
  } catch { return bad; }
  const members = linked && flat(tables[linked].column(key)), sizes = linked && flat(tables[owners].column("size"));
  if (members) {
    const counted = new Array(sizes.length).fill(0), least = columns_of[owners].size[0];
    if (members.some((group, i) => !(group in counted) || group < (members[i - 1] ?? 0) || !++counted[group]) || counted.some((n, i) => n !== sizes[i] + least)) return bad;
  }
  if (certificate.groups !== (tables.groups?.rows ?? 0) || certificate.people !== tables.people?.rows) return "not the rows of its certificate";
  if (certificate.measured !== measured.rows) return "not the measurements of its certificate";
  if (!plausible(measured)) return "a measurement is no number of people";
  const roles = study.groups?.roles;
  if (!roles || !tables.groups) return null;
  const role = flat(tables.people.column(roles.column)), most = { [roles.head]: [1, 1], [roles.spouse]: [0, 1], [roles.child]: [0, roles.children] };
  const holds = Object.entries(most).every(([value, [low, high]]) => {
    const count = new Array(sizes.length).fill(0), code = roles.values.map(String).indexOf(value);
    members.forEach((group, i) => { count[group] += Number(role[i] === code); });
    return count.every((n) => low <= n && n <= high);
  });
  return holds ? null : "a group has not the roles that the study declares";
}

function checkSizes(certificate, parts) {
  const bad = "not the sizes of its certificate", names = ["all", ...certificate.regions];
  if (!same(certificate.levels.map((level) => level.name), names)) return "its certificate's levels are not what the study declares";
  const costs = certificate.levels.map((level) => fraction(level.rho));
  if (costs.includes(null) || compare(total(costs), fraction(certificate.rho))) return "the levels of its certificate do not add up to its cost";
  const text = Object.fromEntries(certificate.regions.map((name) => [name, "string"]));
  const read = (name, columns) => { const one = table(parts, name, exactly(columns)); return [one, ...Object.keys(columns).map((c) => one.column(c).flatMap((batch) => Array.from(batch, (v) => (typeof v === "bigint" ? Number(v) : v))))]; };
  let regions, sizes, measured;
  try {
    regions = read("regions", { level: "int8", ...text, places: "int64" });
    sizes = read("sizes", { region: "int32", size: "int32", groups: "int64" });
    measured = read("measurements", { region: "int32", entry: "int32", value: "int64" });
  } catch { return bad; }
  const level = regions[1], places = regions.at(-1), [, region, size, groups] = sizes, rows = new Map();
  const paths = level.map((depth, i) => regions.slice(2, -1).map((column) => column[i]).slice(0, depth));
  paths.forEach((path, i) => rows.set(canonical(path), i));
  const parent = paths.map((path) => (path.length ? rows.get(canonical(path.slice(0, -1))) : -1));
  const sound = level.length && level[0] === 0 && level.at(-1) === names.length - 1 && places[0] <= FAR && rows.size === level.length
    && level.every((depth, i) => depth >= (level[i - 1] ?? 0) && places[i] >= 0 && parent[i] !== undefined && paths[i].every(Boolean)
      && regions.slice(2, -1).every((column, c) => c < depth || column[i] === "")) && [region, measured[1]].every((of) => of.every((r) => r >= 0 && r < level.length))
    && region.every((r, i) => size[i] >= 0 && groups[i] >= 1 && groups[i] <= FAR && (i === 0 || r > region[i - 1] || (r === region[i - 1] && size[i] > size[i - 1])));
  if (!sound) return bad;
  const sums = new Map(), own = new Map(), of = new Array(level.length).fill(0);
  region.forEach((r, i) => {
    of[r] += groups[i];
    if (level[r] < names.length - 1) own.set(`${r} ${size[i]}`, groups[i]);
    if (level[r]) sums.set(`${parent[r]} ${size[i]}`, (sums.get(`${parent[r]} ${size[i]}`) ?? 0) + groups[i]);
  });
  if (of.some((n, i) => n !== places[i]) || own.size !== sums.size || [...own].some(([key, n]) => sums.get(key) !== n)) return bad;
  if (certificate.rows !== sizes[0].rows || certificate.measured !== measured[0].rows || certificate.groups !== places[0]) return "not the rows of its certificate";
  if (certificate.levels.some((stated, depth) => stated.regions !== level.filter((d) => d === depth).length)) return "not the regions of its certificate";
  if (size.some((n) => n > certificate.largest)) return "a size above the largest of its certificate";
  return measured[3].every((v) => Math.abs(v) <= FAR) ? null : "a measurement is no number of groups or people";
}
/** Whether a message has the weights of a panel's answers, with an error for each count and rerun. */
function areWeights({ head, parts }, { study, declared, numbers }, hash) {
  const finite = (v) => (v instanceof Real ? Number.isFinite(Number(v.text)) : Number.isSafeInteger(v)), positive = (v) => finite(v) && Number(v instanceof Real ? v.text : v) >= 0;
  const few = (v) => v === 0 || v === 1 || v === 2, families = ["pattern", "union", "total"];
  const isGroup = (g) => isObject(g) && families.includes(g.family) && few(g.past) && few(g.future) && typeof g.large === "boolean"
    && Array.isArray(g.beta) && g.beta.length === 9 && g.beta.every(finite) && positive(g.roughness) && positive(g.inflation);
  const isFamily = (f) => isObject(f) && families.includes(f.family) && positive(f.factor) && positive(f.guard);
  const known = study.releases.includes(declared.get(head.release)) && numbers.get(head.period) === head.number && head.study_hash === hash;
  if (!known || !isList(isGroup)(head.groups) || !isList(isFamily)(head.families) || !isWhole(head.reruns)) return false;
  if (![head.panel_step, head.unbiased_step].every((v) => positive(v) && Number(v instanceof Real ? v.text : v) > 0)) return false;
  try {
    const counts = table(parts, "counts", exactly({ count: "int64" })), errors = table(parts, "errors", exactly({ panel: "int16", unbiased: "int16" }));
    return errors.rows === counts.rows * head.reruns;
  } catch { return false; }
}

const CHECKS = { "stream-dp.release": checkPanel, "stream-dp.batch": checkTables, "stream-dp.sizes": checkSizes };

// ---- The log: chain, signatures, releases, plan and budget.

async function isSigned(key, hash, envelope) {
  const statement = `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"manifest","digest":{"sha256":"${hash}"}}],"predicateType":"urn:stream-dp:manifest:v1","predicate":{}}`;
  const sig = /"sig":"([A-Za-z0-9+/]{86}==)"/.exec(envelope)?.[1];
  const type = "application/vnd.in-toto+json", signed = [{ keyid: key, sig }];
  if (envelope !== JSON.stringify({ payload: btoa(statement), payloadType: type, signatures: signed })) return false;
  const raw = Uint8Array.from(key.slice(8).match(/../g), (pair) => parseInt(pair, 16));
  const data = bytesOf(`DSSEv1 ${type.length} ${type} ${statement.length} ${statement}`);
  try {
    const known = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", known, Uint8Array.from(atob(sig), (c) => c.charCodeAt(0)), data);
  } catch (error) {
    if (error.name === "NotSupportedError") throw new Fault("signatures: this program cannot check Ed25519; take a newer one", 2);
    return false; // the key is no point of the curve
  }
}

/** The messages in records, each with its parts, checked against its manifest and the chain. */
async function* messagesIn(records) {
  let index = 0, previous = START, parts = [];
  for (const [name, data, signature] of records) {
    if (name !== "manifest") { parts.push([name, data]); continue; }
    let head;
    try {
      head = parse(data);
      if (!Array.isArray(head.parts) || head.parts.some((p) => !isObject(p) || !["name", "bytes", "sha256"].every((key) => key in p))) throw new Error("parts");
      if (!("previous" in head) || !["number", "bigint"].includes(typeof head.index) || head.index < 0 || head.index >= 2n ** 63n) throw new Error("index");
    } catch { throw new Fault(`public log: the manifest of message ${index} is damaged`); }
    if (head.index !== index) throw new Fault(`public log: message ${index} is missing; the next one is ${head.index}`);
    if (head.previous !== previous) throw new Fault(`public log: message ${index} does not follow the one before it (broken hash chain)`);
    const listed = await Promise.all(parts.map(async ([part, bytes]) => [part, bytes.length, await sha256(bytes)]));
    if (!same(listed, head.parts.map((p) => [p.name, p.bytes, p.sha256]))) throw new Fault(`public log: message ${index} does not have the bytes of its manifest`);
    previous = await sha256(data);
    yield { index, head, parts, hash: previous, signature };
    [index, parts] = [index + 1, []];
  }
  if (parts.length) throw new Fault(`public log: ends in the middle of message ${index}; restore a backup`);
}

const later = ({ index, head }) => { if ((head.format ?? 1) !== 1) refuse(index, "is of a later format than this version reads; use a newer one"); };

function declaration(first) {
  const study = first.head.study;
  later(first);
  const named = (list) => isList((r) => isObject(r) && isText(r.name) && isText(r.kind) && fraction(r.rho))(list);
  const sound = first.head.type === "stream-dp.study" && first.parts.every(([name]) => /^plan(\/[^/]*)?$/.test(name)) && isObject(study)
    && isText(study.name) && isText(study.unit) && ["add_remove", "replace_one", "replace_in_place"].includes(study.neighbours) && isObject(study.attributes)
    && fraction(study.rho) && fraction(study.delta) && isObject(study.periods) && isWhole(study.periods.count) && named(study.releases) && named(study.batches ?? [])
    && (study.gate === undefined || (isObject(study.gate) && fraction(study.gate.rho) && fraction(study.gate.least) && isWhole(study.gate.expected ?? study.population?.size)));
  try {
    const numbers = new Map(labels(study.periods).map((label, i) => [label, i + 1]));
    if (sound && numbers.size === study.periods.count) return { study, numbers, declared: new Map([...study.releases, ...(study.batches ?? [])].map((r) => [r.name, r])) };
  } catch { /* of no calendar */ }
  return refuse(first.index, "it does not begin with a study's declaration that this version can read; a mechanism of another package needs that package");
}

/** The label of the first period that any release covers, the last in which people enter a closed cohort. */
function lastEntry({ releases, batches }, numbers) {
  const starts = releases.map((release) => numbers.get(release.first) ?? 1);
  const dues = (batches ?? []).map((batch) => (batch.at ? Math.min(...batch.at.map((label) => numbers.get(label))) : (batch.every ?? 1)));
  const first = Math.min(...starts, ...dues);
  return [...numbers.keys()].find((label) => numbers.get(label) === first);
}

/** The guarantee of a study in words. closing: the last period in which people enter a closed cohort. */
function guarantee({ unit, neighbours, population }, closing) {
  const change = { add_remove: `one ${unit}, with its whole history, is added or removed`, replace_one: `one ${unit}'s whole history is replaced by any other`,
    replace_in_place: `one ${unit}'s own attributes change, over the whole history; groups, their sizes and their attributes do not` }[neighbours];
  const words = `All releases of the study together are rho-zCDP where ${change}. It holds for one ${unit} at a time, over all periods.`;
  return population?.closed ? `${words} The cohort is closed: a ${unit} without an accepted answer by ${closing} is never counted.` : words;
}

/** What the parts of message 0 say, as JSON; null for anything else. */
function planIn(first) {
  const data = new Uint8Array(first.parts.reduce((sum, [, part]) => sum + part.length, 0));
  first.parts.reduce((at, [, part]) => { data.set(part, at); return at + part.length; }, 0);
  try { return parse(data); } catch { return null; }
}

function checkPlan(first, { study, numbers, declared }) {
  const plan = planIn(first);
  const sound = (one) => isObject(one) && isObject(one.charges) && isObject(one.states) && isList(isText)(one.mechanisms) && typeof (one.fused ?? false) === "boolean" && Object.values(one.charges).every(fraction);
  if (!isObject(plan) || !Object.values(plan).every(sound)) refuse(0, "its plan cannot be read");
  if (!same(Object.keys(plan).sort(), [...declared.keys()].sort())) refuse(0, "its plan has not the releases of its study");
  const closing = lastEntry(study, numbers);
  for (const [name, release] of declared) {
    const charges = Object.entries(plan[name].charges), cost = total(charges.map(([, rho]) => fraction(rho))), own = study.releases.includes(release);
    const due = own ? fraction(release.rho) : total(charges.map(() => fraction(release.rho)));
    if (charges.some(([label]) => !numbers.has(label)) || compare(cost, due)) refuse(0, `its plan of ${name}: charges is not what follows from the study`);
    const expected = { study: study.name, study_hash: first.head.study_hash, release: name, kind: release.kind, unit: study.unit, neighbours: study.neighbours, horizon: study.periods.count, guarantee: guarantee(study, closing) };
    for (const field of Object.keys(expected)) if (!same(plan[name].states[field] ?? null, expected[field])) refuse(0, `its plan of ${name}: ${field} is not what follows from the study`);
  }
  return plan;
}

/** The certificate of a message, checked against the study. */
function released(message, { study, numbers, declared }, plan) {
  const { index, head, parts } = message, panels = study.releases;
  later(message);
  const fields = FIELDS[typeof head.type === "string" ? head.type : ""];
  if (!fields) refuse(index, "a certificate cannot be read: its type is unknown");
  const unread = fields.find(([name, test]) => !(name in head) || !test(head[name]));
  if (unread) refuse(index, `a certificate cannot be read: ${unread[0]}`);
  const optional = IF_GAUSSIAN.find(([name, test]) => (head[name] ?? null) !== null && !test(head[name]));
  if (optional) refuse(index, `a certificate cannot be read: ${optional[0]}`);
  if ("fused_with" in head && !(isObject(head.fused_with) && Object.values(head.fused_with).every(fraction))) refuse(index, "a certificate cannot be read: fused_with");
  const release = declared.get(head.release), type = panels.includes(release) ? "stream-dp.release" : release?.kind === "sizes" ? "stream-dp.sizes" : "stream-dp.batch";
  if (!release || type !== head.type) refuse(index, "of a release that the study does not declare");
  const stated = plan?.[head.release]?.states ?? head;
  const own = { "stream-dp.release": { attribute: [release.attribute].flat().join("&") }, "stream-dp.batch": { columns: stated.columns }, "stream-dp.sizes": { regions: study.places?.regions, largest: release.largest } }[type];
  const expected = { kind: release.kind, ...own, study: study.name, horizon: study.periods.count, unit: study.unit, neighbours: study.neighbours, rho_total: study.rho, delta: study.delta, number: numbers.get(head.period) };
  for (const [name, value] of Object.entries(expected)) {
    const holds = name === "rho_total" || name === "delta" ? compare(fraction(head[name]), fraction(value)) === 0 : value !== undefined && same(head[name], value);
    if (!holds) refuse(index, `its certificate's ${name} is not what the study declares`);
  }
  if (!isGate(head.gate, gateOf(study))) refuse(index, "its certificate's gate is not what the study declares");
  let fault;
  try { fault = CHECKS[type](head, parts, { study, numbers, declared: release, stated }); } catch (error) { fault = error.message; }
  if (fault) refuse(index, `${head.release} at ${head.period}: ${fault}`);
  return { index, certificate: head };
}

/** The gate of a study's periods, as a certificate states it, but for the count and what follows; null without. */
function gateOf(study) {
  if (!study.gate) return null;
  const rho = fraction(study.gate.rho), share = fraction(study.gate.least), expected = BigInt(study.gate.expected ?? study.population?.size ?? 0);
  const [n, d] = [rho[0], rho[1] * BigInt(study.periods.count)];
  return { rho: [n, d], variance: [d, 2n * n], least: Number((share[0] * expected + share[1] - 1n) / share[1]) };
}

/** Whether a certificate's gate is the study's. */
function isGate(stated, gate) {
  if (!gate || !stated) return !gate && !stated;
  return isObject(stated) && Number.isSafeInteger(stated.people) && stated.least === gate.least && stated.held === stated.people < gate.least
    && ["rho", "variance"].every((name) => fraction(stated[name]) && compare(fraction(stated[name]), gate[name]) === 0);
}

/** The budget, the statements and the growth of panels. Returns lines. */
function checkReleases(releases, { study, numbers, declared }, plan) {
  const why = ({ index, certificate: c }, fault) => refuse(index, `${c.release} at ${c.period}: ${fault}`);
  const costs = new Map(), whole = fraction(study.rho), delta = fraction(study.delta);
  const spent = () => {
    const strata = new Map(), plain = [];
    for (const [name, rho] of costs) {
      const [stratum] = Object.entries(declared.get(name)?.where ?? {});
      if (!stratum) { plain.push(rho); continue; }
      const values = strata.get(stratum[0]) ?? strata.set(stratum[0], new Map()).get(stratum[0]);
      values.set(String(stratum[1]), add(values.get(String(stratum[1])) ?? [0n, 1n], rho));
    }
    return total([...plain, ...[...strata.values()].map((values) => [...values.values()].reduce((a, b) => (compare(a, b) > 0 ? a : b)))]);
  };
  const gate = gateOf(study), gates = new Map(), descents = new Map(), unpublished = new Set();
  const spend = (name, rho) => costs.set(name, add(costs.get(name) ?? [0n, 1n], fraction(rho)));
  let gated = 0;
  for (const one of releases) {
    const c = one.certificate;
    if (gates.has(c.number) && !same(gates.get(c.number), c.gate)) why(one, "its gate is not that of another certificate of its period");
    if (gate) {
      gates.set(c.number, c.gate);
      gated = Math.max(gated, c.number);
      costs.set(GATE, [gate.rho[0] * BigInt(gated), gate.rho[1]]);
    }
    // An ancestor counts from the first release that descends from it, published or not, once.
    const ancestors = Object.entries(c.fused_with ?? {}).filter(([, rho]) => fraction(rho)[0]).sort(([a], [b]) => (a < b ? -1 : 1)), key = (period) => `${c.release}/${period}`;
    for (const [period] of ancestors) {
      if (study.releases.includes(declared.get(c.release)) || !(numbers.get(period) < c.number)) why(one, "it is fused with a table that does not come before it");
      if ((descents.get(key(period)) ?? []).some((label) => !ancestors.some(([period]) => period === label))) why(one, `it is fused with ${period}, and not with all that ${period} is fused with`);
    }
    for (const [period, rho] of ancestors) {
      if (descents.has(key(period)) || unpublished.has(key(period))) continue;
      unpublished.add(key(period));
      spend(c.release, rho);
    }
    descents.set(key(c.period), ancestors.map(([label]) => label));
    if (!unpublished.delete(key(c.period))) spend(c.release, c.rho);
    if (compare(spent(), whole) > 0) why(one, "over the budget");
    if (c.study_hash !== plan.hash) why(one, "of another study");
    if (compare(spent(), fraction(c.rho_spent))) why(one, "its budget does not add up");
  }
  const seeded = new Set();
  for (const one of releases) {
    const c = one.certificate, { charges, mechanisms, states, fused } = plan.of[c.release];
    if (seeded.add(c.noise === SEEDED).size > 1) why(one, "seeded noise and other noise do not mix");
    if (compare(fraction(c.rho), fraction(charges[c.period] ?? 0))) why(one, "its certificate's rho is not the charge of the plan");
    const before = fused ? Object.keys(charges).filter((label) => numbers.get(label) < c.number) : [], listed = Object.entries(c.fused_with ?? {});
    if (listed.length !== before.length || !before.every((label) => label in (c.fused_with ?? {}))) why(one, "its certificate's fused_with is not the tables before it");
    if (listed.some(([label, rho]) => fraction(rho)[0] && compare(fraction(rho), fraction(charges[label])))) why(one, "its certificate's fused_with is not the charges of the plan");
    const differs = (name, value) => (name === "noise" && c.noise === SEEDED ? false : ["rho_total", "delta", "noise_variance", "least_variance"].includes(name) && fraction(value) && fraction(c[name]) ? compare(fraction(c[name]), fraction(value)) : !(name in c) || !same(c[name], value));
    const faults = Object.entries(states).filter(([name, value]) => differs(name, value)).map(([name]) => name);
    for (const [name, rho] of [["epsilon_spent", fraction(c.rho_spent)], ["epsilon_total", whole]]) {
      if (!isEpsilon(c[name], rho, delta)) faults.push(name);
      const least = `least_${name}`;
      const variance = fraction(states.least_variance);
      if (variance && c[least] && !isLeastEpsilon(c[least], rho, delta, variance)) faults.push(least);
    }
    for (const [name] of IF_GAUSSIAN) if (Boolean(c[name]) !== ("least_variance" in states)) faults.push(name);
    if (!mechanisms.includes(c.mechanism)) faults.push("mechanism");
    if (faults.length) why(one, `its certificate's ${faults.sort()[0]} is not what follows from the study`);
  }
  const lines = [`budget: ${written(spent())} of ${written(whole)} spent, as the certificates say`], own = new Map();
  for (const one of releases) own.set(one.certificate.release, [...(own.get(one.certificate.release) ?? []), one]);
  const panels = [...own].filter(([name]) => study.releases.includes(declared.get(name))), periods = [...numbers.keys()];
  for (const [name, grown] of panels) {
    const first = numbers.get(declared.get(name).first) ?? 1;
    let end = first - 1;
    for (const one of grown) {
      const { columns, rows, number } = one.certificate, start = end;
      end += columns.length;
      if (rows !== grown[0].certificate.rows) why(one, "not the rows of the panel before it");
      if (periods.slice(first - 1, start).some((label) => columns.includes(label))) why(one, "a period of the panel cannot be released again");
      if (number !== end || !same(columns, periods.slice(start, end))) why(one, "not the columns of its periods");
    }
    lines.push(`${name}: ${grown.length} ${grown.length === 1 ? "release" : "releases"}, every panel a prefix of the next`);
  }
  for (const [name, all] of own) if (!panels.some(([panel]) => panel === name)) lines.push(`${name}: ${all.length === 1 ? "1 data set, as its" : `${all.length} data sets, each as its`} certificate says`);
  return lines;
}

/**
 * The verdict on a public log, as `stream-dp verify --all --json` gives it, and its exit code in `code`.
 * records: from recordsOf, or a function that returns them. key, head: kept elsewhere, or nothing.
 */
export async function verify(records, { key = null, head = null } = {}) {
  const messages = [], releases = [], keys = [], checks = [];
  let code = 0, declared = null;
  const isKey = (name) => typeof name === "string" && /^ed25519:[0-9a-f]{64}$/.test(name);
  const check = async (name, step) => {
    try { checks.push({ check: name, holds: true, lines: await step() }); } catch (error) {
      if (!(error instanceof Fault)) throw error;
      if (error.code !== 4) throw error;
      [code] = [error.code, checks.push({ check: name, holds: false, lines: [error.message] })];
    }
  };
  async function read() {
    let plan = null;
    for await (const message of messagesIn(typeof records === "function" ? records() : records)) {
      const { index, head: manifest, parts, hash, signature } = message;
      if (!index) declared = declaration(message);
      const renews = index > 0 && manifest.type === "stream-dp.key", named = index === 0 || renews ? manifest.signer ?? null : null;
      if ((named !== null && !isKey(named)) || (renews && parts.length)) refuse(index, "names a key of an unknown kind");
      if (!index && named) keys.push(named);
      if (renews && (!named || !keys.length)) refuse(index, "names a key in a log that is not signed");
      if (keys.length && !(await isSigned(keys.at(-1), hash, signature))) refuse(index, `has no signature of ${keys.at(-1)}`);
      if (renews) keys.push(named);
      if (!index) plan = planIn(message);
      messages.push(message);
      const weighs = index > 0 && manifest.type === "stream-dp.weights";
      if (weighs && !areWeights(message, declared, messages[0].head.study_hash)) refuse(index, "its weights are not what the study declares");
      if (index && !renews && !weighs) releases.push(released(message, declared, plan));
      if (index) message.parts = [];
    }
    if (!messages.length) throw new Fault("public log: nothing is published yet; 'stream-dp run' begins it", 2);
  }
  async function log() {
    const [first] = messages, hash = await sha256(bytesOf(canonical(declared.study)));
    if (first.head.study_hash !== hash) refuse(0, "the study's declaration does not have its hash");
    const plan = { hash, of: checkPlan(first, declared) }, [budget, ...rest] = checkReleases(releases, declared, plan);
    const followed = keys.length > 1 ? `, and ${keys.length - 1} that followed it` : "";
    const signatures = keys.length ? `signatures: ${messages.length} messages, by ${keys[0]}, named in message 0${followed}` : "signatures: none; this log is not signed";
    return [`chain: ${messages.length} messages, every hash and part as its manifest says`, signatures, budget, ...rest];
  }
  try { await read(); } catch (error) {
    if (!(error instanceof Fault) || error.code !== 4) throw error;
    return { code: 4, holds: false, checks: [{ check: "log", holds: false, lines: [error.message] }], verified: [], head: null };
  }
  await check("log", log);
  if (key !== null) await check("key", () => {
    if (!isKey(key)) throw new Fault(`--key ${key}: write ed25519: and 64 hexadecimal digits`, 2);
    if (keys[0] !== key) throw new Fault(`public log: message 0 names ${keys[0] ?? "no key"}, not the key kept elsewhere`);
    return ["key: the one that was kept elsewhere"];
  });
  if (head !== null) await check("head", () => {
    if (!/^[0-9a-f]{64}$/.test(head)) throw new Fault("head: write the 64 hexadecimal digits of a hash", 2);
    if (messages.some(({ hash }) => hash === head)) return ["head: the hash that was kept elsewhere is in the chain"];
    throw new Fault("public log: the hash kept elsewhere is not in its chain: an older log was restored, or it is another study's; 'stream-dp verify STUDY.toml --head HASH' says whether the journal has the hash, which is no fault");
  });
  return { code, holds: code === 0, checks, verified: checks.flatMap((one) => (one.holds ? one.lines : [])), head: messages.at(-1).hash };
}

// ---- Under Node, and in a page with the form #verifier of templates/verifier.html.

async function inNode({ argv }) {
  const file = argv[2], option = (name) => (argv.includes(name) ? argv[argv.indexOf(name) + 1] : null);
  const { readFileSync } = await import("node:fs");
  try {
    if (file === undefined) throw new Fault("name the file of a public log: node verifier.mjs FILE [--key KEY] [--head HASH]", 2);
    const { code, ...verdict } = await verify(() => recordsOf(new Uint8Array(readFileSync(file)), file), { key: option("--key"), head: option("--head") });
    console.log(JSON.stringify(verdict));
    process.exitCode = code;
  } catch (error) {
    console.error(error.message);
    process.exitCode = error.code === 4 ? 4 : 2;
  }
}

async function inPage({ elements: { file, key, head, verdict } }) {
  const show = (lines, title, holds = "") => {
    const list = document.createElement("ul"), first = document.createElement("strong");
    first.textContent = title;
    list.append(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    verdict.className = holds;
    verdict.replaceChildren(first, list);
  };
  const [chosen] = file.files, pins = { key: key.value.trim() || null, head: head.value.trim() || null };
  show([], `Reading ${chosen.name} ...`);
  try {
    if (!globalThis.crypto?.subtle) throw new Fault("this page cannot hash here; open it over https, or save it and open the file", 2);
    const bytes = new Uint8Array(await chosen.arrayBuffer()), found = await verify(() => recordsOf(bytes, chosen.name), pins);
    const lines = found.checks.flatMap((one) => one.lines.map((line) => `${one.holds ? line.startsWith("signatures: none") ? "absent" : "holds" : "FAILS"}: ${line}`));
    show(found.head ? [...lines, `head ${found.head}`] : lines, found.holds ? "Everything that was checked holds." : "This log does not hold.", found.holds ? "holds" : "fails");
  } catch (error) {
    show([error.message], "This file cannot be verified.", "fails");
  }
}

if (globalThis.process?.argv[1]?.endsWith("verifier.mjs")) await inNode(process);
globalThis.document?.addEventListener("submit", (event) => {
  if (event.target.id !== "verifier") return;
  event.preventDefault();
  inPage(event.target);
});
