// The console in a real browser: Chromium from the system, driven by the published playwright-core.
// This script starts the server itself, because it also kills it. With SCREENSHOTS=FOLDER it leaves two pictures there.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { chromium } from "playwright-core";
import { check, event, finish } from "./checks.mjs";

const home = fs.mkdtempSync(path.join(os.tmpdir(), "framegate-console-"));
const portsFile = path.join(home, "ports");
const logFile = path.join(home, "log");
let server = null, http = "127.0.0.1:0", base = "";

async function until(what, test) {
  const end = Date.now() + 25000;
  let last;
  for (;;) {
    try {
      const value = await test();
      if (value) return value;
    } catch (error) { last = error; }
    if (Date.now() > end) throw new Error(`${what}: not within 25 s${last ? `; last: ${last.message}` : ""}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

// Port 0 the first time, afterwards the port that it had, on the same data.
async function start() {
  fs.rmSync(portsFile, { force: true });
  const log = fs.openSync(logFile, "a");
  const child = spawn(process.env.FRAMEGATE_BIN, ["--data-dir", path.join(home, "data"), "--ports-file", portsFile,
    "--listen", `http=${http}`, "--listen", "messagex=127.0.0.1:0", "--listen", "amqp=127.0.0.1:0"], { stdio: ["ignore", log, log] });
  fs.closeSync(log);
  child.ended = new Promise((done) => child.on("exit", done));
  server = child;
  const ports = await until("the server's ports", () => JSON.parse(fs.readFileSync(portsFile, "utf8")));
  http = ports.http;
  base = `http://${http}`;
}

async function kill() {
  server.kill("SIGKILL");
  await server.ended;
}

async function publish(topic, sent) {
  const answer = await fetch(`${base}/v1/topics/${topic}/events`, {
    method: "POST", headers: { "content-type": "application/cloudevents+json" }, body: JSON.stringify(sent),
  });
  assert.equal(answer.status, 202, await answer.clone().text());
}

async function admin(method, where, body) {
  const answer = await fetch(`${base}/admin/v1/${where}`, {
    method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${method} ${where}: ${answer.status} ${await answer.clone().text()}`);
  return answer.json();
}

process.on("exit", (code) => {
  server?.kill("SIGKILL");
  if (code !== 0 && fs.existsSync(logFile)) console.log(`--- log of the server ---\n${fs.readFileSync(logFile, "utf8")}`);
  fs.rmSync(home, { recursive: true, force: true });
});

await start();
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
let outage = false;
const complaints = [], requested = new Set();
page.on("console", (message) => {
  // The browser itself reports each refused connection while there is no server, and the one status of 400 that is wanted.
  const where = message.location().url;
  const refused = outage && /ERR_|WebSocket connection to/.test(message.text());
  const wanted = where.endsWith("/v1/topics/a.*/events") && /status of 400/.test(message.text());
  if (["error", "warning"].includes(message.type()) && !refused && !wanted) complaints.push(`${message.text()} ${where}`);
});
page.on("pageerror", (error) => complaints.push(`uncaught: ${error}`));
page.on("request", (request) => requested.add(new URL(request.url()).host));

const text = (selector) => page.textContent(selector);
const state = (feed) => page.getAttribute(`#${feed}-state`, "data-state");
// what a feed shows, oldest first
const shown = (feed) => page.$$eval(`#${feed}-events li[data-id]`, (items) => items.map((item) => item.dataset.id).reverse());
const row = (table, name) => page.$$eval(`#${table} tbody tr`, (rows, wanted) => {
  const found = rows.find((tr) => tr.dataset.name === wanted);
  return found ? Array.from(found.cells, (td) => td.textContent) : null;
}, name);
const feeds = ["sse", "ws"];
const expected = [];

async function bothShowExpected() {
  for (const feed of feeds) {
    await until(`${feed} shows ${expected.length} events`, async () => (await shown(feed)).length >= expected.length);
    assert.deepEqual(await shown(feed), expected, feed);
    assert.equal(await text(`#${feed}-count`), String(expected.length));
    assert.equal(await text(`#${feed}-gaps`), "0");
  }
}

await check("the page is served with a policy that allows nothing from elsewhere", async () => {
  const answer = await page.goto(`${base}/`);
  assert.equal(answer.status(), 200);
  assert.match(answer.headers()["content-security-policy"], /default-src '(self|none)'/);
  assert.equal(await page.title(), "framegate");
  await until("the server's state", async () => (await page.getAttribute("#server-state", "data-state")) === "live");
});

await check("listeners are shown with their addresses", async () => {
  await until("listener http", async () => (await row("listeners", "http"))?.[1] === http);
  assert.match((await row("listeners", "messagex"))[1], /^127\.0\.0\.1:[1-9]\d*$/);
});

await check("both feeds start", async () => {
  await page.click("#subscribe-start");
  for (const feed of feeds) await until(`${feed} is live`, async () => (await state(feed)) === "live");
});

await check("an event that the page publishes arrives over EventSource and over WebSocket", async () => {
  await page.fill("#publish-data", '{"from": "page"}');
  await page.click("#publish-send");
  const answer = await until("the answer", async () => /published 1: (\{.*\})/.exec(await text("#publish-result")));
  expected.push(JSON.parse(answer[1]).id);
  await bothShowExpected();
  for (const feed of feeds) assert.equal(await text(`#${feed}-events .data`), '{"from":"page"}');
});

await check("an event that another client publishes arrives over EventSource and over WebSocket", async () => {
  await publish("demo.other", event("other-1", { from: "<b>fetch</b>" }));
  expected.push("other-1");
  await bothShowExpected();
  for (const feed of feeds) assert.equal(await text(`#${feed}-events .data`), '{"from":"<b>fetch</b>"}');
});

await check("topics are shown live with the events that they keep", async () => {
  await until("the topic", async () => (await row("topics", "demo.other"))?.[1] === "1");
  await publish("demo.other", event("other-2", 2));
  expected.push("other-2");
  await until("the second event", async () => (await row("topics", "demo.other"))?.[1] === "2");
});

await check("a queue appears when it is declared, counts, and disappears when it is deleted", async () => {
  await admin("POST", "queues", { name: "appears" });
  await until("the queue", async () => (await row("queues", "appears"))?.[1] === "0");
  await admin("POST", "bindings", { exchange: "amq.topic", queue: "appears", key: "bound.#" });
  await publish("bound.x", event("bound", 1));
  await until("its message", async () => (await row("queues", "appears"))?.[1] === "1");
  await admin("DELETE", "queues/appears");
  await until("its end", async () => !(await row("queues", "appears")));
});

await check("the page binds a queue that it makes", async () => {
  await page.fill("#bind-queue", "made-here");
  await page.click("#bind-create");
  await until("the answer", async () => /is bound/.test(await text("#bind-result")));
  await publish("demo.bound", event("bound-2", 1));
  expected.push("bound-2");
  await until("its message", async () => (await row("queues", "made-here"))?.[1] === "1");
});

await check("after kill -9 of the server the page comes back by itself, without a gap or a duplicate", async () => {
  await bothShowExpected();
  outage = true;
  await kill();
  for (const feed of feeds) await until(`${feed} notices`, async () => (await state(feed)) === "waiting");
  await until("the server's state", async () => (await page.getAttribute("#server-state", "data-state")) === "failed");
  await start();
  // some before the feeds are back, some while they come back, some after it
  for (let n = 0; n < 10; n++) {
    await publish("demo.other", event(`again-${n}`, n));
    expected.push(`again-${n}`);
  }
  for (let n = 10; (await state("sse")) !== "live" || (await state("ws")) !== "live"; n++) {
    assert.ok(n < 130, "the feeds do not come back"); // the page keeps 200 rows
    await publish("demo.other", event(`again-${n}`, n));
    expected.push(`again-${n}`);
    await new Promise((done) => setTimeout(done, 200));
  }
  outage = false;
  await publish("demo.other", event("after", "after"));
  expected.push("after");
  await bothShowExpected();
  for (const feed of feeds) assert.ok(Number(await text(`#${feed}-reconnects`)) >= 1, `${feed}: reconnects`);
});

await check("the tables come back with what is durable", async () => {
  await until("the state", async () => (await page.getAttribute("#server-state", "data-state")) === "live");
  const bound = expected.slice(expected.indexOf("bound-2"));
  const others = expected.filter((id) => /^(other|again|after)/.test(id));
  await until("every message", async () => (await row("queues", "made-here"))?.[1] === String(bound.length));
  await until("every event", async () => (await row("topics", "demo.other"))?.[1] === String(others.length));
});

await check("events that the page publishes in a row arrive in order on both", async () => {
  await page.fill("#publish-count", "25");
  await page.click("#publish-send");
  await until("the answer", async () => /^published 25/.test(await text("#publish-result")));
  for (const feed of feeds) {
    await until(feed, async () => (await shown(feed)).length === expected.length + 25);
    assert.equal(await text(`#${feed}-gaps`), "0");
  }
  assert.deepEqual(await shown("sse"), await shown("ws"));
  assert.equal(new Set(await shown("sse")).size, expected.length + 25);
});

await check("what the server refuses is said in words", async () => {
  await page.fill("#publish-topic", "a.*");
  await page.fill("#publish-count", "1");
  await page.click("#publish-send");
  await until("the refusal", async () => /^refused: .*wildcard/.test(await text("#publish-result")));
  await page.fill("#publish-topic", "demo.hello");
});

async function picture(name) {
  if (process.env.SCREENSHOTS) await page.screenshot({ path: path.join(process.env.SCREENSHOTS, name), fullPage: true });
}

await picture("desktop.png");

await check("at 360 px nothing has to be scrolled sideways", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = await page.evaluate(() => Array.from(document.querySelectorAll("body *"))
    .filter((element) => element.getBoundingClientRect().right > innerWidth + 0.5 && !element.closest(".scroll"))
    .map((element) => element.id || element.tagName));
  assert.deepEqual(wide, []);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
});

await picture("360.png");

await check("the feeds stop when they are told to", async () => {
  for (const feed of feeds) {
    await page.click(`#${feed}-toggle`);
    assert.equal(await state(feed), "off");
  }
  await until("their connections are gone", async () => (await admin("GET", "topics")).topics
    .every((topic) => topic.subscribers === 0));
});

await check("nothing was asked from elsewhere and the console of the browser is empty", async () => {
  assert.deepEqual([...requested], [http]);
  assert.deepEqual(complaints, []);
});

await browser.close();
finish();
