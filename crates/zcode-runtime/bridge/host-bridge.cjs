"use strict";
// Runs inside ZCode's own executable (Electron as Node, or Node) as `-e <this text>`.
//
// It starts the official host in a worker thread, gives it the `process.parentPort` it expects, speaks to its services
// through the host's own RPC module and carries calls and events over stdin and stdout, one JSON object a line. The
// first line in is the configuration; every line out starts with its nonce. It decides nothing: what may be called,
// what is answered and how long things take is all in the configuration.
//
// Plain CommonJS with dynamic import, so that it runs with and without module syntax detection, and at most 24 KiB,
// because it travels on a command line.

const { Worker, MessageChannel } = require("node:worker_threads");
const { isAbsolute } = require("node:path");
const { pathToFileURL } = require("node:url");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");

const VERSION = 1;
const BRIDGE_ERROR = -32000;
const MAX_CONFIG = 1 << 20;
const MAX_LINE = 64 << 20;
const MAX_UNREAD = 256 << 20;
const MAX_STDERR = 1 << 20;
const MAX_MESSAGE = 1 << 16;
const BATCH = 1 << 20;
// The host answers its channel with this message first, once: value([200]) value(undefined).
const READY = [0x04, 0x01, 0x06, 0xc8, 0x01, 0x00];
const ERROR_DETAIL = ["kind", "status", "retryAfterMs", "data", "detail", "details", "code", "taskId", "traceId"];

let config = null;
let nonce = null;
let worker = null;
let workerGone = false;
let workerError = null;
let services = null;
let ready = false;
let ending = false;
let finished = false;
let left = false;
let exitCode = 0;
let stdoutBroken = false;
const subscriptions = new Map();
// Processes to be ended at the end, with what tells them from a later one of the same number.
const family = new Map();

// ---- Output -----------------------------------------------------------------------------------------------------------

const stdout = process.stdout;
const writeStdout = stdout.write.bind(stdout);
let batch = "";
let batchScheduled = false;

// Nobody else in this thread may write to stdout: what they print goes to stderr.
stdout.write = (...args) => process.stderr.write(...args);
globalThis.console = new console.Console({ stdout: process.stderr, stderr: process.stderr });
process.stderr.on("error", () => {});
stdout.on("error", () => {
  stdoutBroken = true;
  end(0);
});

// An unread stderr must not grow memory, so what does not fit is dropped.
function toStderr(chunk) {
  if (process.stderr.writableLength < MAX_STDERR) process.stderr.write(chunk);
}

function flush() {
  batchScheduled = false;
  if (batch === "" || stdoutBroken) return;
  const text = batch;
  batch = "";
  writeStdout(text);
  if (stdout.writableLength > MAX_UNREAD) end(1);
}

// Lines of one loop turn leave in one write: order is kept and a flood costs one system call per batch.
function writeJson(json) {
  if (nonce === null || finished) return;
  batch += nonce + " " + json + "\n";
  if (batch.length > BATCH) flush();
  else if (!batchScheduled) {
    batchScheduled = true;
    setImmediate(flush);
  }
}

function send(value) {
  writeJson(stringify(value));
}

// True if plain JSON would lose or refuse something: bytes and big integers.
function isOdd(value) {
  if (typeof value === "bigint") return true;
  if (typeof value !== "object" || value === null) return false;
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return true;
  if (Array.isArray(value)) return value.some(isOdd);
  for (const key in value) if (isOdd(value[key])) return true;
  return false;
}

function encodeOdd(key, plain) {
  const value = this[key];
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : String(value);
  }
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    const bytes = ArrayBuffer.isView(value)
      ? Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      : Buffer.from(value);
    // The host's own notation for bytes inside JSON.
    return { __zcode_rpc_nested_uint8array_v1: true, base64: bytes.toString("base64") };
  }
  return plain;
}

function stringify(value) {
  return isOdd(value) ? JSON.stringify(value, encodeOdd) : JSON.stringify(value);
}

function describe(error) {
  let text;
  try {
    text = typeof error === "string" ? error : String((error && error.message) || error);
  } catch {
    text = "unprintable error";
  }
  return text.slice(0, MAX_MESSAGE);
}

// ---- Requests ---------------------------------------------------------------------------------------------------------

function fail(id, message) {
  send({ id, error: { code: BRIDGE_ERROR, message } });
}

function answer(id, result) {
  let json;
  try {
    json = stringify(result === undefined ? null : result);
    if (json === undefined) json = "null";
  } catch (error) {
    fail(id, "the result cannot be written as JSON: " + describe(error));
    return;
  }
  writeJson('{"id":' + id + ',"result":' + json + "}");
}

function answerError(id, thrown) {
  const error = { code: BRIDGE_ERROR, message: describe(thrown) };
  if (typeof thrown === "object" && thrown !== null) {
    if (Number.isSafeInteger(thrown.code)) error.code = thrown.code;
    const name = typeof thrown.code === "string" ? thrown.code : thrown.name;
    if (typeof name === "string" && name !== "") error.name = name;
    const detail = {};
    for (const key of ERROR_DETAIL) if (thrown[key] !== undefined) detail[key] = thrown[key];
    if (typeof thrown.message !== "string" && detail.data === undefined) {
      detail.data = thrown;
      error.message = "the host answered with an error that has no message";
    }
    if (Object.keys(detail).length > 0) error.data = detail;
  }
  try {
    send({ id, error });
  } catch {
    delete error.data;
    send({ id, error });
  }
}

function listed(table, service, name) {
  return Object.hasOwn(table, service) && Array.isArray(table[service]) && table[service].includes(name);
}

function call(id, { service, method, params }) {
  if (!listed(config.allow, service, method)) return fail(id, `not allowed: ${service}.${method}`);
  if (services === null) return fail(id, "the host is not ready");
  let pending;
  try {
    pending = services[service][method](params);
  } catch (error) {
    return answerError(id, error);
  }
  Promise.resolve(pending).then(
    (result) => answer(id, result),
    (error) => answerError(id, error),
  );
}

function subscribe(id, { subscription, service, event, params }) {
  if (!listed(config.events, service, event)) return fail(id, `not allowed: ${service}.${event}`);
  if (services === null) return fail(id, "the host is not ready");
  if (!Number.isSafeInteger(subscription)) return fail(id, "a subscription needs a number");
  if (subscriptions.has(subscription)) return fail(id, "the subscription exists");
  try {
    const source = services[service];
    const listen = /^onDynamic[A-Z]/.test(event) ? source[event](params) : source[event];
    subscriptions.set(subscription, listen((payload) => deliver(subscription, payload)));
  } catch (error) {
    return answerError(id, error);
  }
  answer(id, null);
}

// An exception that leaves the listener would end the host's stream, and an event that vanishes would be worse than one
// the adapter does not know: it is announced under a name no contract has.
function deliver(subscription, payload) {
  if (!subscriptions.has(subscription)) return;
  let json;
  try {
    json = stringify(payload === undefined ? null : payload);
    if (json === undefined) json = "null";
  } catch (error) {
    json = JSON.stringify({ type: "bridge.unserializable", message: describe(error) });
  }
  writeJson('{"subscription":' + subscription + ',"event":' + json + "}");
}

function unsubscribe(id, { subscription }) {
  drop(subscription);
  answer(id, null);
}

function drop(subscription) {
  const disposable = subscriptions.get(subscription);
  subscriptions.delete(subscription);
  try {
    if (disposable && typeof disposable.dispose === "function") disposable.dispose();
  } catch (error) {
    toStderr(`bridge: unsubscribing failed: ${describe(error)}\n`);
  }
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function request(text) {
  let message;
  try {
    message = JSON.parse(text);
  } catch {
    toStderr("bridge: a request that is not JSON was ignored\n");
    return;
  }
  if (!isObject(message) || !Number.isSafeInteger(message.id)) return;
  if (isObject(message.call)) call(message.id, message.call);
  else if (isObject(message.subscribe)) subscribe(message.id, message.subscribe);
  else if (isObject(message.unsubscribe)) unsubscribe(message.id, message.unsubscribe);
  else fail(message.id, "unknown request");
}

// ---- Input ------------------------------------------------------------------------------------------------------------

let parts = [];
let size = 0;
let skipping = false;

function limit() {
  return config === null ? MAX_CONFIG : MAX_LINE;
}

function onLine(text) {
  if (config === null) configure(text);
  else if (text.trim() !== "") request(text);
}

function onData(chunk) {
  let from = 0;
  while (!ending) {
    const at = chunk.indexOf(10, from);
    const piece = chunk.subarray(from, at < 0 ? chunk.length : at);
    if (!skipping) {
      size += piece.length;
      if (size > limit()) {
        if (config === null) return refuse("the configuration line is too long");
        toStderr("bridge: a request that is too long was ignored\n");
        skipping = true;
        parts = [];
      } else if (piece.length > 0) parts.push(piece);
    }
    if (at < 0) return;
    const text = skipping ? null : (parts.length === 1 ? parts[0] : Buffer.concat(parts)).toString("utf8");
    parts = [];
    size = 0;
    skipping = false;
    from = at + 1;
    if (text !== null) onLine(text);
  }
}

// ---- Start ------------------------------------------------------------------------------------------------------------

// Before a nonce is known nothing can be written to stdout.
function refuse(reason) {
  toStderr(`bridge: configuration refused: ${reason}\n`);
  fatal("config", reason, undefined, 2);
}

function configure(text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch {
    return refuse("not JSON");
  }
  if (!isObject(given) || typeof given.nonce !== "string" || !/^[\x21-\x7e]{8,128}$/.test(given.nonce)) {
    return refuse("no nonce");
  }
  nonce = given.nonce;
  if (given.bridge !== VERSION) return refuse(`bridge version ${given.bridge}, this is ${VERSION}`);
  for (const key of ["hostIndex", "rpcModule"]) {
    if (typeof given[key] !== "string" || !isAbsolute(given[key])) return refuse(`${key} is not an absolute path`);
  }
  for (const key of ["exports", "channels", "allow", "events", "init", "dispose", "answerAtOnce"]) {
    if (!isObject(given[key])) return refuse(`${key} is not an object`);
  }
  for (const role of ["protocol", "client", "service"]) {
    if (typeof given.exports[role] !== "string") return refuse(`no export for ${role}`);
  }
  if (!Number.isSafeInteger(given.disposeMs) || given.disposeMs < 0) return refuse("disposeMs is not a duration");
  config = given;
  startWorker();
  startClient();
}

// Runs in the worker. Gives the host the port of an Electron utility process, then loads it.
function bootstrap() {
  const { parentPort, workerData } = require("node:worker_threads");
  const { EventEmitter } = require("node:events");
  // Electron's utility process warns where Node ends the thread.
  process.on("unhandledRejection", (reason) => console.error("unhandled rejection:", reason));
  // A fork() inside the host must not run the bridge again.
  const at = process.execArgv.findIndex((arg) => /^(-e|-p|-pe|--eval|--print)$/.test(arg));
  if (at >= 0) process.execArgv = [...process.execArgv.slice(0, at), ...process.execArgv.slice(at + 2)];

  const inner = new WeakMap();
  const emitterOf = (target, onListen) => {
    const emitter = new EventEmitter().setMaxListeners(0);
    for (const name of ["on", "once", "off", "addListener", "removeListener"]) {
      target[name] = (event, listener) => {
        emitter[name](event, listener);
        if (event === "message" && !name.startsWith("off") && !name.startsWith("remove")) onListen();
        return target;
      };
    }
    return emitter;
  };
  const wrap = (port) => {
    let started = false;
    const wrapped = {
      start() {
        if (started) return;
        started = true;
        port.on("message", (data) => emitter.emit("message", { data, ports: [] }));
        port.on("close", () => emitter.emit("close"));
      },
      postMessage: (data, transfer) => port.postMessage(data, (transfer || []).map((item) => inner.get(item) || item)),
      close: () => port.close(),
    };
    const emitter = emitterOf(wrapped, () => {});
    inner.set(wrapped, port);
    return wrapped;
  };
  // As in Electron, messages wait while nobody listens.
  const waiting = [];
  const deliver = () => {
    while (waiting.length > 0 && emitter.listenerCount("message") > 0) emitter.emit("message", waiting.shift());
  };
  const shim = {
    start() {},
    postMessage: (message) => parentPort.postMessage({ host: message }),
  };
  const emitter = emitterOf(shim, () => queueMicrotask(deliver));
  parentPort.on("message", ({ data, ports }) => {
    waiting.push({ data, ports: ports.map(wrap) });
    deliver();
  });
  Object.defineProperty(process, "parentPort", { value: shim, configurable: true, enumerable: true });

  import(workerData.url).catch((error) => {
    parentPort.postMessage({ failed: String((error && error.message) || error) });
  });
}

function startWorker() {
  const url = pathToFileURL(config.hostIndex).href;
  worker = new Worker(`(${bootstrap})()`, { eval: true, stdout: true, stderr: true, workerData: { url } });
  worker.stdout.on("data", toStderr);
  worker.stderr.on("data", toStderr);
  worker.on("message", (message) => {
    if (message.failed !== undefined) fatal("import", `host: ${message.failed}`);
    else fromHost(message.host);
  });
  worker.on("error", (error) => {
    workerError = describe(error);
  });
  worker.on("exit", (code) => {
    workerGone = true;
    if (ending) finish();
    else fatal("worker", workerError === null ? "the host's thread ended" : workerError, code);
  });
}

function toHost(data, ports) {
  if (worker !== null && !workerGone) worker.postMessage({ data, ports }, ports);
}

function fromHost(message) {
  if (!isObject(message) || !Object.hasOwn(config.answerAtOnce, message.type)) return;
  const reply = structuredClone(config.answerAtOnce[message.type]);
  reply.requestId = message.requestId;
  const error = isObject(reply.result) ? reply.result.error : undefined;
  if (isObject(error) && error.message === undefined) error.message = "not available in this client";
  toHost(reply, []);
}

async function startClient() {
  let classes;
  const found = {};
  try {
    const loaded = await import(pathToFileURL(config.rpcModule).href);
    classes = {};
    for (const role of ["protocol", "client", "service"]) {
      const letter = config.exports[role];
      const item = loaded[letter];
      const factory = role === "service" ? item && item.toService : item;
      if (typeof factory !== "function") throw new Error(`export ${letter} (${role}) is missing`);
      classes[role] = item;
      found[role] = String(item.name || factory.name || letter);
    }
  } catch (error) {
    return fatal("import", `RPC module: ${describe(error)}`);
  }
  if (ending) return;
  try {
    const { port1, port2 } = new MessageChannel();
    const watch = ({ data }) => {
      if (ready || !ArrayBuffer.isView(data) || data.byteLength !== READY.length) return;
      if (!READY.every((byte, index) => data[index] === byte)) return;
      ready = true;
      port1.removeEventListener("message", watch);
      send({ ready: { bridge: VERSION, node: process.versions.node, pid: process.pid, found } });
    };
    port1.addEventListener("message", watch);
    const client = new classes.client(new classes.protocol(port1));
    const made = {};
    for (const [key, channel] of Object.entries(config.channels)) {
      made[key] = classes.service.toService(client.getChannel(channel));
    }
    services = made;
    toHost(config.init, [port2]);
  } catch (error) {
    fatal("init", describe(error));
  }
}

// ---- The one road out -------------------------------------------------------------------------------------------------

function fatal(stage, message, code, status = 1) {
  if (ending) return;
  send({ fatal: { stage, message: message.slice(0, MAX_MESSAGE), ...(code === undefined ? {} : { code }) } });
  end(status);
}

function end(status) {
  if (ending) return;
  ending = true;
  exitCode = status;
  const patience = config === null ? 0 : Math.min(config.disposeMs, 1000);
  watchdog(patience + 700);
  process.stdin.pause();
  for (const subscription of [...subscriptions.keys()]) drop(subscription);
  flush();
  if (worker === null || workerGone) return finish();
  // Before the host lets its agents go and while it does: their tools would be lost with them.
  look();
  setInterval(look, 100);
  try {
    toHost(config.dispose, []);
  } catch {
    return finish();
  }
  setTimeout(finish, patience);
}

// A thread of its own ends the process if this one is blocked by then.
function watchdog(ms) {
  const body = `setTimeout(() => process.kill(${process.pid}, "SIGKILL"), ${ms})`;
  try {
    new Worker(body, { eval: true, execArgv: [], env: {} }).unref();
  } catch {
    setTimeout(() => process.kill(process.pid, "SIGKILL"), ms).unref();
  }
}

// The host is stopped before its processes, because it may start an agent anew that it sees die.
function finish() {
  if (finished) return;
  finished = true;
  flush();
  if (worker === null || workerGone) return leave();
  setTimeout(leave, 150);
  worker.terminate().then(leave, leave);
}

function leave() {
  if (left) return;
  left = true;
  try {
    endDescendants();
  } catch (error) {
    toStderr(`bridge: ending the host's processes failed: ${describe(error)}\n`);
  }
  const exit = () => process.exit(exitCode);
  if (stdoutBroken || stdout.writableLength === 0) return exit();
  writeStdout("", exit);
  setTimeout(exit, 200);
}

// Tools are commonly started in sessions of their own and ignore TERM. All are stopped first, so that none can start
// another while the list is made, and then killed. On Windows the adapter's job object does this.
function endDescendants() {
  let fresh = [...new Set([...look(), ...family.keys()])];
  for (let round = 0; round < 32 && fresh.length > 0; round += 1) {
    for (const pid of fresh) signal(pid, "SIGSTOP");
    fresh = look();
  }
  for (const pid of family.keys()) signal(pid, "SIGKILL");
}

function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch {
    // Gone already.
  }
}

// Adds to the family: descendants by parent id and, if this process leads its group, the other members of that. Members
// are remembered with their start, because a tool whose parent has ended is nobody's child any more. Gives the new ones.
function look() {
  if (process.platform === "win32") return [];
  const children = new Map();
  const started = new Map();
  const roots = [process.pid];
  for (const [pid, parent, group, start] of process.platform === "linux" ? procTable() : psTable()) {
    if (pid === process.pid) continue;
    started.set(pid, start);
    if (group === process.pid) roots.push(pid);
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(pid);
  }
  for (const [pid, start] of family) if (started.get(pid) !== start) family.delete(pid);
  roots.push(...family.keys());
  const seen = new Set(roots);
  for (const pid of seen) for (const child of children.get(pid) || []) seen.add(child);
  seen.delete(process.pid);
  const fresh = [...seen].filter((pid) => !family.has(pid));
  for (const pid of fresh) family.set(pid, started.get(pid));
  return fresh;
}

function procTable() {
  const rows = [];
  for (const name of fs.readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, "latin1");
      // The command may contain anything, so fields count from its last parenthesis: state, parent, group, ..., start.
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      rows.push([Number(name), Number(fields[1]), Number(fields[2]), fields[19]]);
    } catch {
      // Ended meanwhile.
    }
  }
  return rows;
}

function psTable() {
  const ps = spawnSync("/bin/ps", ["-axo", "pid=,ppid=,pgid=,lstart="], { encoding: "latin1", timeout: 250 });
  const rows = [];
  for (const line of (ps.stdout || "").split("\n")) {
    const [, pid, parent, group, start] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*?)\s*$/.exec(line) || [];
    if (pid !== undefined && Number(pid) !== ps.pid) rows.push([Number(pid), Number(parent), Number(group), start]);
  }
  return rows;
}

for (const [name, number] of [["SIGHUP", 1], ["SIGINT", 2], ["SIGTERM", 15]]) {
  process.on(name, () => end(128 + number));
}
process.on("uncaughtException", (error) => fatal("uncaught", describe(error)));
process.on("unhandledRejection", (reason) => toStderr(`bridge: unhandled rejection: ${describe(reason)}\n`));
process.stdin.on("data", onData);
for (const event of ["end", "close", "error"]) process.stdin.on(event, () => end(0));
