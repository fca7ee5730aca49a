// The console: publishes events, follows topics over both transports side by side, and shows what the broker
// holds. Plain script of one page; it keeps nothing but the token, for the life of the tab.
"use strict";

const byId = (id) => document.getElementById(id);
const ROWS_MAX = 200;
const POLL_MS = 2000;
const RECONNECT_MS_MAX = 15000;
const SOURCE = `/framegate/console/${randomId()}`;
let published = 0;

function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// ---- access -----------------------------------------------------------------------------------------------------

let token = sessionStorage.getItem("framegate-token") || "";

async function api(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token) headers.authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers });
  const text = await response.text();
  let body = null;
  try { body = text ? JSON.parse(text) : null; } catch { body = null; }
  if (response.status === 401) byId("token-form").hidden = false;
  if (!response.ok) throw new Error(body && body.detail ? body.detail : `${response.status} ${response.statusText}`);
  return body;
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("framegate-token", token);
  byId("token").value = "";
  byId("token-form").hidden = true;
  poll();
});

// ---- publish ----------------------------------------------------------------------------------------------------

function say(output, text, bad) {
  output.textContent = text;
  output.classList.toggle("bad", Boolean(bad));
}

byId("publish-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const output = byId("publish-result");
  const topic = byId("publish-topic").value;
  const text = byId("publish-data").value;
  const count = Math.min(Math.max(Number(byId("publish-count").value) || 1, 1), 1000);
  let data = text;
  let datacontenttype = "text/plain";
  try { data = JSON.parse(text); datacontenttype = "application/json"; } catch { /* it is text */ }
  byId("publish-send").disabled = true;
  try {
    let answer = null;
    for (let sent = 0; sent < count; sent += 1) {
      published += 1;
      const cloudEvent = {
        specversion: "1.0", id: randomId(), source: SOURCE, type: byId("publish-type").value,
        consoleseq: published, datacontenttype, data,
      };
      answer = await api(`/v1/topics/${encodeURIComponent(topic)}/events`, {
        method: "POST",
        headers: { "content-type": "application/cloudevents+json" },
        body: JSON.stringify(cloudEvent),
      });
    }
    say(output, `published ${count}${answer ? `: ${JSON.stringify(answer)}` : ""}`);
  } catch (error) {
    say(output, `refused: ${error.message}`, true);
  } finally {
    byId("publish-send").disabled = false;
  }
});

// ---- what both feeds show ---------------------------------------------------------------------------------------

class Panel {
  constructor(name) {
    this.name = name;
    this.list = byId(`${name}-events`);
    this.reset();
  }

  part(what) { return byId(`${this.name}-${what}`); }

  reset() {
    this.events = 0;
    this.gaps = 0;
    this.reconnects = 0;
    this.sequences = new Map();
    this.list.replaceChildren();
    for (const what of ["count", "gaps", "reconnects"]) this.part(what).textContent = "0";
    this.part("cursor").textContent = "-";
  }

  state(state, text) {
    const element = this.part("state");
    element.dataset.state = state;
    if (element.textContent !== text) element.textContent = text;
  }

  running(running) {
    const button = this.part("toggle");
    button.setAttribute("aria-pressed", String(running));
    button.textContent = running ? "Stop" : "Start";
  }

  reconnect() {
    this.reconnects += 1;
    this.part("reconnects").textContent = String(this.reconnects);
    this.row("note", "reconnecting");
  }

  gap(text) {
    this.gaps += 1;
    this.part("gaps").textContent = String(this.gaps);
    this.row("gap", `gap: ${text}`);
  }

  row(kind, text) {
    const item = document.createElement("li");
    item.className = kind;
    item.textContent = text;
    this.push(item);
  }

  push(item) {
    this.list.prepend(item);
    while (this.list.children.length > ROWS_MAX) this.list.lastElementChild.remove();
  }

  cursor(cursor) {
    if (cursor) this.part("cursor").textContent = cursor;
  }

  // Each console numbers its own events over all topics; a subscription that sees them all sees no number missing.
  // `known`: the transport has said already that something is missing.
  check(event, known) {
    if (!String(event.source || "").startsWith("/framegate/console/") || event.consoleseq === undefined) return;
    const sequence = Number(event.consoleseq);
    const before = this.sequences.get(event.source);
    if (!known && before !== undefined && sequence > before + 1) {
      this.gap(`${sequence - before - 1} events of ${event.source} are missing before number ${sequence}`);
    }
    if (before === undefined || sequence > before) this.sequences.set(event.source, sequence);
    if (this.sequences.size > 1000) this.sequences.delete(this.sequences.keys().next().value);
  }

  event(event, cursor, known) {
    this.events += 1;
    this.part("count").textContent = String(this.events);
    this.cursor(cursor);
    this.check(event, known);
    const item = document.createElement("li");
    item.dataset.id = event.id || "";
    item.dataset.cursor = cursor || "";
    const head = document.createElement("div");
    head.className = "head";
    const time = new Date().toLocaleTimeString();
    head.textContent = `${time}  ${event.type || ""}  ${event.subject || ""}  id ${event.id || "-"}  cursor ${cursor || "-"}`;
    const data = document.createElement("pre");
    data.className = "data";
    const value = event.data !== undefined ? event.data : event.data_base64;
    const shown = typeof value === "string" ? value : JSON.stringify(value);
    data.textContent = (shown === undefined ? "" : shown).slice(0, 2000);
    item.append(head, data);
    this.push(item);
  }
}

function topics() {
  return byId("subscribe-topics").value.split(/[\s,]+/).filter(Boolean);
}

// ---- Server-Sent Events -----------------------------------------------------------------------------------------

const sse = new Panel("sse");
let source = null;

function startSse() {
  sse.reset();
  const query = new URLSearchParams();
  for (const topic of topics()) query.append("topic", topic);
  const from = byId("subscribe-from").value;
  if (from !== "latest") query.set("lastEventId", from);
  if (token) query.set("access_token", token);
  source = new EventSource(`/v1/sse?${query}`);
  sse.running(true);
  sse.state("waiting", "connecting");
  source.onopen = () => sse.state("live", "live");
  source.onerror = () => {
    if (source && source.readyState === EventSource.CLOSED) {
      sse.state("failed", "refused or ended by the server");
      stopSse(true);
      return;
    }
    sse.state("waiting", "connection lost, reconnecting");
    sse.reconnect();
  };
  source.onmessage = (message) => {
    try { sse.event(JSON.parse(message.data), message.lastEventId); } catch (error) { sse.row("gap", `not JSON: ${error.message}`); }
  };
  source.addEventListener("framegate", (message) => {
    let notice = {};
    try { notice = JSON.parse(message.data); } catch { /* shown as it is */ }
    sse.cursor(message.lastEventId);
    if (notice.error) {
      const why = notice.detail || notice.error;
      sse.row("gap", `error: ${why}`);
      if (notice.retryable === false) {
        stopSse(true);
        sse.state("failed", why);
      }
    } else if (notice.lost) {
      sse.gap(`events before ${notice.resumedFrom || "now"} are gone`);
    } else {
      sse.row("note", message.data);
    }
  });
}

function stopSse(keepState) {
  if (source) source.close();
  source = null;
  sse.running(false);
  if (!keepState) sse.state("off", "off");
}

byId("sse-toggle").addEventListener("click", () => (source ? stopSse() : startSse()));

// ---- WebSocket --------------------------------------------------------------------------------------------------

const ws = new Panel("ws");
let socket = null;
let wanted = null;

function startWs() {
  ws.reset();
  wanted = topics().map((topic, index) => ({ sub: `console-${index}`, topic, from: byId("subscribe-from").value, seq: null }));
  wanted.delay = 500;
  ws.running(true);
  connectWs();
}

function connectWs() {
  ws.state("waiting", "connecting");
  const url = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/v1/ws`;
  const protocols = ["framegate.v1.json"];
  if (token) protocols.push(`bearer.${token}`);
  const mine = new WebSocket(url, protocols);
  socket = mine;
  mine.onopen = () => {
    wanted.forEach((want, index) => {
      want.seq = null;
      mine.send(JSON.stringify({ op: "subscribe", id: index + 1, sub: want.sub, topic: want.topic, from: want.from }));
    });
  };
  mine.onmessage = (message) => heardWs(JSON.parse(message.data));
  mine.onclose = (event) => {
    if (socket !== mine || !wanted) return;
    const why = event.reason ? `: ${event.reason}` : "";
    if (event.code >= 4400 && event.code < 4408) {
      stopWs(true);
      ws.state("failed", `closed with ${event.code}${why}`);
      return;
    }
    ws.reconnect();
    ws.state("waiting", `closed with ${event.code}${why}, reconnecting`);
    setTimeout(() => { if (wanted && socket === mine) connectWs(); }, wanted.delay);
    wanted.delay = Math.min(wanted.delay * 2, RECONNECT_MS_MAX);
  };
}

function heardWs(message) {
  const want = wanted && wanted.find((candidate) => candidate.sub === message.sub);
  if (message.op === "event" && want) {
    const jumped = want.seq !== null && message.seq > want.seq + 1;
    if (jumped) ws.gap(`${message.seq - want.seq - 1} deliveries are missing`);
    if (message.seq !== undefined) want.seq = message.seq;
    if (message.cursor) want.from = message.cursor;
    ws.event(message.event || {}, message.cursor, jumped);
  } else if (message.op === "ok" && want) {
    ws.state("live", "live");
    wanted.delay = 500;
    if (message.cursor) want.from = message.cursor;
    ws.cursor(message.cursor);
    if (message.lost) ws.gap(`events before ${message.cursor || "now"} are gone`);
  } else if (message.op === "error") {
    ws.row("gap", `error: ${message.detail || message.code}`);
    ws.state("failed", message.detail || message.code);
  } else if (message.op === "notice") {
    if (message.lost || message.code === "lost") ws.gap(JSON.stringify(message));
    else ws.row("note", JSON.stringify(message));
  } else if (message.op === "ping" && socket) {
    socket.send(JSON.stringify({ op: "pong" }));
  }
}

function stopWs(keepState) {
  wanted = null;
  if (socket) socket.close(1000);
  socket = null;
  ws.running(false);
  if (!keepState) ws.state("off", "off");
}

byId("ws-toggle").addEventListener("click", () => (wanted ? stopWs() : startWs()));

byId("subscribe-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!source) startSse();
  if (!wanted) startWs();
});

// ---- bindings ---------------------------------------------------------------------------------------------------

byId("bind-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const queue = byId("bind-queue").value;
  const post = (path, body) => api(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
  });
  try {
    const known = (await api("/admin/v1/queues")).queues.some((candidate) => candidate.name === queue);
    if (!known) await post("/admin/v1/queues", { name: queue });
    await post("/admin/v1/bindings", { exchange: byId("bind-exchange").value, queue, key: byId("bind-key").value });
    say(byId("bind-result"), `queue '${queue}' is bound`);
    poll();
  } catch (error) {
    say(byId("bind-result"), `refused: ${error.message}`, true);
  }
});

// ---- live tables ------------------------------------------------------------------------------------------------

function cell(text, isNumber) {
  const td = document.createElement("td");
  td.textContent = text === null || text === undefined ? "" : String(text);
  if (isNumber) td.className = "number";
  return td;
}

function fill(id, rows) {
  const body = byId(id).tBodies[0];
  const columns = byId(id).tHead.rows[0].cells.length;
  const lines = rows.slice(0, ROWS_MAX).map((row) => {
    const tr = document.createElement("tr");
    tr.dataset.name = String(row[0]);
    tr.append(...row.map((value, index) => cell(value, index > 0 && typeof value === "number")));
    return tr;
  });
  if (rows.length !== lines.length || lines.length === 0) {
    const tr = document.createElement("tr");
    const td = cell(lines.length === 0 ? "none" : `and ${rows.length - lines.length} more`);
    td.colSpan = columns;
    td.className = "empty";
    tr.append(td);
    lines.push(tr);
  }
  body.replaceChildren(...lines);
}

function showTotals(totals) {
  byId("totals").replaceChildren(...Object.entries(totals).map(([name, value]) => {
    const div = document.createElement("div");
    const dt = document.createElement("dt");
    const dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = String(value);
    dd.id = `total-${name}`;
    div.append(dt, dd);
    return div;
  }));
}

let polling = null;

async function poll() {
  clearTimeout(polling);
  const state = byId("server-state");
  if (!document.hidden) {
    try {
      const filter = new URLSearchParams();
      if (byId("live-name").value) filter.set("name", byId("live-name").value);
      const filled = new URLSearchParams(filter);
      if (byId("live-nonempty").checked) filled.set("nonempty", "true");
      const [overview, connections, queues, allTopics, exchanges] = await Promise.all(
        ["overview", "connections", `queues?${filled}`, `topics?${filled}`, `exchanges?${filter}`]
          .map((what) => api(`/admin/v1/${what}`)));
      fill("listeners", overview.listeners.map((l) => [l.name, l.addr]));
      fill("connections", connections.connections.map((c) => [c.id, c.label, c.user, c.consumers, c.unacked]));
      fill("queues", queues.queues.map((q) => [q.name, q.ready, q.unacked, q.consumers, q.bytes]));
      fill("topics", allTopics.topics.map((t) => [t.name, t.events, t.next_offset, t.subscribers, t.bytes]));
      fill("exchanges", exchanges.exchanges.map((e) => [e.name, e.kind, e.durable, e.alternate]));
      showTotals(overview.totals);
      state.dataset.state = "live";
      state.textContent = `version ${overview.version}, as ${overview.user}`;
    } catch (error) {
      state.dataset.state = "failed";
      state.textContent = error.message;
    }
  }
  polling = setTimeout(poll, POLL_MS);
}

for (const id of ["live-name", "live-nonempty"]) byId(id).addEventListener("input", () => poll());
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
poll();
