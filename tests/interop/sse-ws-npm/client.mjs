// Published clients, unmodified: npm eventsource, @microsoft/fetch-event-source, ws.
import assert from "node:assert/strict";
import net from "node:net";
import { EventSource } from "eventsource";
import WebSocket from "ws";
import { Inbox, base, check, event, finish, publish } from "./checks.mjs";

const open = (target, name) => new Promise((done, fail) => {
  target[name === "open" ? "onopen" : name] = done;
  target.onerror = fail;
});

async function source(query, options) {
  const inbox = new Inbox(), control = new Inbox();
  const es = new EventSource(`${base}/v1/sse?${query}`, options);
  es.onmessage = (m) => inbox.push(m);
  es.addEventListener("framegate", (m) => control.push(m));
  await open(es, "open");
  return { es, inbox, control };
}

// A way to the server that can be cut.
async function cutter() {
  const target = new URL(base), sockets = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(Number(target.port), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => { sockets.delete(socket); near.destroy(); far.destroy(); });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const cut = () => sockets.forEach((socket) => socket.destroy());
  return { url: `http://127.0.0.1:${server.address().port}`, cut, close: () => { cut(); server.close(); } };
}

await check("eventsource receives events with an id on each", async () => {
  const { es, inbox } = await source("topic=a");
  for (let n = 0; n < 5; n++) await publish("a", event(n, { n }));
  for (let n = 0; n < 5; n++) {
    const message = await inbox.next();
    assert.equal(JSON.parse(message.data).data.n, n);
    assert.notEqual(message.lastEventId, "");
  }
  es.close();
});

await check("eventsource resumes where it was after the connection is cut", async () => {
  const inbox = new Inbox();
  const proxy = await cutter();
  const es = new EventSource(`${proxy.url}/v1/sse?topic=resume`);
  es.onmessage = (m) => inbox.push(m);
  await open(es, "open");
  es.onerror = () => {};
  await publish("resume", event(0, 0));
  assert.equal(JSON.parse((await inbox.next()).data).data, 0);
  proxy.cut();
  for (let n = 1; n <= 20; n++) await publish("resume", event(n, n));
  for (let n = 1; n <= 20; n++) assert.equal(JSON.parse((await inbox.next()).data).data, n);
  es.close();
  proxy.close();
});

await check("eventsource misses nothing when it is cut before its first event", async () => {
  const inbox = new Inbox(), proxy = await cutter();
  const es = new EventSource(`${proxy.url}/v1/sse?topic=first`);
  es.onmessage = (m) => inbox.push(m);
  await new Promise((done) => es.addEventListener("framegate", done));
  es.onerror = () => {};
  proxy.cut();
  for (let n = 0; n < 5; n++) await publish("first", event(n, n));
  for (let n = 0; n < 5; n++) assert.equal(JSON.parse((await inbox.next()).data).data, n);
  es.close();
  proxy.close();
});

await check("eventsource gets a notice when its id is of another store", async () => {
  await publish("lost", event(1, 1));
  const inbox = new Inbox();
  const es = new EventSource(`${base}/v1/sse?topic=lost&lastEventId=abc.0:1`);
  es.addEventListener("framegate", (m) => inbox.push(["notice", JSON.parse(m.data)]));
  es.onmessage = (m) => inbox.push(["event", JSON.parse(m.data)]);
  await open(es, "open");
  const [kind, notice] = await inbox.next();
  assert.equal(kind, "notice");
  assert.equal(notice.lost, true);
  assert.equal((await inbox.next())[1].data, 1);
  es.close();
});

await check("wildcards and several topics on one connection", async () => {
  const { es, inbox } = await source("topic=w.*&topic=other");
  await publish("w.x", event("w", "w"));
  await publish("other", event("o", "o"));
  await publish("w.x.y", event("no", "no"));
  await publish("other", event("p", "p"));
  const got = [await inbox.next(), await inbox.next(), await inbox.next()].map((m) => JSON.parse(m.data).data);
  assert.deepEqual(got, ["w", "o", "p"]);
  es.close();
});

await check("event=type names the event by its type", async () => {
  const es = new EventSource(`${base}/v1/sse?topic=typed&event=type`);
  const inbox = new Inbox();
  es.addEventListener("com.example.js", (m) => inbox.push(m));
  await open(es, "open");
  await publish("typed", event("t", 1));
  assert.equal(JSON.parse((await inbox.next()).data).id, "t");
  es.close();
});

async function socket(query = "", protocols = ["framegate.v1.json"]) {
  const ws = new WebSocket(`${base.replace("http", "ws")}/v1/ws${query}`, protocols);
  const inbox = new Inbox();
  ws.on("message", (data, binary) => inbox.push(binary ? data : JSON.parse(data.toString())));
  ws.on("close", (code) => inbox.push({ closed: code }));
  await new Promise((done, fail) => { ws.on("open", done); ws.on("error", fail); });
  return { ws, inbox, send: (op) => ws.send(JSON.stringify(op)) };
}

await check("ws subscribes, publishes and receives", async () => {
  const { ws, inbox, send } = await socket();
  assert.equal(ws.protocol, "framegate.v1.json");
  send({ op: "subscribe", id: 1, sub: "s", topic: "ws.t" });
  assert.equal((await inbox.next()).op, "ok");
  send({ op: "publish", id: "p", topic: "ws.t", event: event("x", { a: 1 }) });
  const got = [await inbox.next(), await inbox.next()];
  const answer = got.find((m) => m.op === "ok"), delivered = got.find((m) => m.op === "event");
  assert.equal(answer.id, "p");
  assert.deepEqual(delivered.event.data, { a: 1 });
  ws.close();
});

await check("ws resumes from a cursor", async () => {
  const { ws, inbox, send } = await socket();
  for (let n = 0; n < 3; n++) await publish("ws.c", event(n, n));
  send({ op: "subscribe", id: 1, sub: "s", topic: "ws.c", from: "earliest" });
  assert.equal((await inbox.next()).op, "ok");
  const first = await inbox.next();
  send({ op: "unsubscribe", id: 2, sub: "s" });
  for (let m = await inbox.next(); m.id !== 2; m = await inbox.next());
  send({ op: "subscribe", id: 3, sub: "s2", topic: "ws.c", from: first.cursor });
  const ok = await inbox.next();
  assert.deepEqual([ok.op, ok.lost], ["ok", false]);
  assert.equal((await inbox.next()).event.data, 1);
  ws.close();
});

await check("cloudevents.json: a peer that knows nothing but events", async () => {
  const { ws, inbox } = await socket("?topic=pure", ["cloudevents.json"]);
  assert.equal(ws.protocol, "cloudevents.json");
  ws.send(JSON.stringify(event("pure-1", "hello")));
  const got = await inbox.next();
  assert.deepEqual([got.id, got.data, got.specversion], ["pure-1", "hello", "1.0"]);
  ws.close();
});

await check("ws refuses what is too large with 1009", async () => {
  const { ws, inbox } = await socket();
  ws.send("x".repeat(2 * 1024 * 1024));
  let message = await inbox.next();
  while (!message.closed) message = await inbox.next();
  assert.equal(message.closed, 1009);
});

await check("fetch-event-source shows no empty messages", async () => {
  globalThis.document ??= { hidden: false, addEventListener() {}, removeEventListener() {} };
  globalThis.window ??= { setTimeout, clearTimeout, fetch };
  const { fetchEventSource } = await import("@microsoft/fetch-event-source");
  const inbox = new Inbox(), controller = new AbortController();
  const opened = new Inbox();
  fetchEventSource(`${base}/v1/sse?topic=fes`, {
    signal: controller.signal, openWhenHidden: true, fetch,
    onopen: async () => opened.push(true),
    onmessage: (m) => inbox.push(m),
  });
  await opened.next();
  await publish("fes", event("1", 1));
  let message = await inbox.next();
  assert.equal(message.event, "framegate");
  message = await inbox.next();
  assert.equal(JSON.parse(message.data).data, 1);
  controller.abort();
});

finish();
