// The published CloudEvents SDK for JavaScript, unmodified: binary, structured, emitter; out again over SSE.
import assert from "node:assert/strict";
import { CloudEvent, HTTP, emitterFor, httpTransport, Mode } from "cloudevents";
import { EventSource } from "eventsource";
import { Inbox, base, check, finish } from "./checks.mjs";

async function subscribe(topic) {
  const inbox = new Inbox();
  const es = new EventSource(`${base}/v1/sse?topic=${topic}`);
  es.onmessage = (m) => inbox.push(m.data);
  await new Promise((done, fail) => { es.onopen = done; es.onerror = fail; });
  return { next: () => inbox.next(), close: () => es.close() };
}

async function post(topic, message) {
  const answer = await fetch(`${base}/v1/topics/${topic}/events`, { method: "POST", headers: message.headers, body: message.body });
  assert.equal(answer.status, 202, await answer.clone().text());
}

const kinds = [
  ["json", "application/json", { a: [1, 2.5, null], text: "\u20ac" }],
  ["number", "application/json", 42],
  ["text", "text/plain", "some \u20ac text"],
  ["xml", "application/xml", "<a/>"],
  ["bytes", "application/octet-stream", new Uint8Array([0, 255, 128, 7])],
];

for (const [name, datacontenttype, data] of kinds) {
  for (const mode of ["binary", "structured"]) {
    await check(`${mode} ${name}`, async () => {
      const topic = `js.${mode}.${name}`;
      const stream = await subscribe(topic);
      const sent = new CloudEvent({ id: `${mode}-${name}`, source: "/js", type: "com.example.js", datacontenttype, subject: "s", ext1: "x", data });
      await post(topic, HTTP[mode](sent));
      const body = await stream.next();
      const got = HTTP.toEvent({ headers: { "content-type": "application/cloudevents+json" }, body });
      for (const key of ["id", "source", "type", "subject", "ext1", "datacontenttype", "time"]) assert.equal(got[key], sent[key], key);
      if (data instanceof Uint8Array) assert.deepEqual([...Buffer.from(JSON.parse(body).data_base64, "base64")], [...data]);
      else assert.deepEqual(got.data, data);
      stream.close();
    });
  }
}

await check("batch", async () => {
  const stream = await subscribe("js.batch");
  const events = [1, 2, 3].map((n) => new CloudEvent({ id: `b${n}`, source: "/js", type: "t", data: { n } }));
  await post("js.batch", { headers: { "content-type": "application/cloudevents-batch+json" }, body: JSON.stringify(events) });
  for (const n of [1, 2, 3]) assert.equal(JSON.parse(await stream.next()).data.n, n);
  stream.close();
});

for (const mode of [Mode.BINARY, Mode.STRUCTURED]) {
  await check(`emitterFor ${mode} (chunked transfer)`, async () => {
    const stream = await subscribe(`js.emitter.${mode}`);
    const emit = emitterFor(httpTransport(`${base}/v1/topics/js.emitter.${mode}/events`), { mode });
    await emit(new CloudEvent({ id: "e", source: "/js", type: "t", data: { n: 1 } }));
    assert.equal(JSON.parse(await stream.next()).data.n, 1);
    stream.close();
  });
}

await check("an invalid event is refused with a reason", async () => {
  const answer = await fetch(`${base}/v1/topics/js.bad/events`, {
    method: "POST", headers: { "content-type": "application/cloudevents+json" }, body: JSON.stringify({ specversion: "1.0", id: "x", type: "t" }),
  });
  assert.equal(answer.status, 400);
  assert.match(answer.headers.get("content-type"), /application\/problem\+json/);
  const problem = await answer.json();
  assert.equal(problem.errors[0].pointer, "/source");
});

finish();
