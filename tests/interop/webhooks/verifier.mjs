// A web-hook receiver that trusts nothing but the published verifier of Standard Webhooks.
import { createServer } from "node:http";
import assert from "node:assert/strict";
import { Webhook } from "standardwebhooks";
import { Inbox, base, check, event, finish, publish } from "./checks.mjs";

async function receiver() {
  const inbox = new Inbox();
  const server = createServer(async (request, response) => {
    if (request.method === "OPTIONS") return response.writeHead(200, { "WebHook-Allowed-Origin": "*" }).end();
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    inbox.push({ body: Buffer.concat(pieces).toString(), headers: request.headers });
    response.writeHead(204).end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  server.unref();
  return { inbox, url: `http://127.0.0.1:${server.address().port}/in` };
}

async function call(method, path, body) {
  const answer = await fetch(base + path, {
    method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body),
  });
  assert.ok(answer.ok, `${answer.status}`);
  const text = await answer.text();
  return text ? JSON.parse(text) : null;
}

const subscribe = (topic, sink, members) => call("POST", "/v1/subscriptions", { config: { topic }, sink, ...members });

async function accepts(mode, read) {
  const { inbox, url } = await receiver();
  const { secret } = await subscribe(`js.${mode}`, url, { mode });
  await publish(`js.${mode}`, event(1, { text: "\u20ac", n: 1 }));
  const { body, headers } = await inbox.next();
  const verifier = new Webhook(secret);
  assert.equal(read(verifier.verify(body, headers)).n, 1);
  assert.throws(() => verifier.verify(body.replace("1", "2"), headers));
  assert.throws(() => verifier.verify(body, { ...headers, "webhook-id": "another" }));
}

await check("structured", () => accepts("structured", (e) => e.data));
await check("binary", () => accepts("binary", (data) => data));
await check("batched", () => accepts("batched", ([e]) => e.data));

await check("own secret", async () => {
  const { inbox, url } = await receiver();
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  await subscribe("js.own", url, { secret });
  await publish("js.own", event(1, {}));
  const { body, headers } = await inbox.next();
  new Webhook(secret).verify(body, headers);
});

await check("replaced secret", async () => {
  const { inbox, url } = await receiver();
  const made = await subscribe("js.replaced", url);
  const next = "whsec_YSBuZXcgc2VjcmV0IG9mIDI2IGJ5dGVzISE=";
  await call("PATCH", `/v1/subscriptions/${made.id}`, { secret: next });
  await publish("js.replaced", event(1, {}));
  const { body, headers } = await inbox.next();
  for (const secret of [made.secret, next]) new Webhook(secret).verify(body, headers);
});

await check("repeated", async () => {
  const { inbox, url } = await receiver();
  const made = await subscribe("js.repeated", url);
  await publish("js.repeated", event(1, {}));
  const first = await inbox.next();
  await call("POST", `/v1/subscriptions/${made.id}/replay?from=earliest`);
  const second = await inbox.next();
  for (const { body, headers } of [first, second]) new Webhook(made.secret).verify(body, headers);
  assert.equal(first.headers["webhook-id"], second.headers["webhook-id"]);
});

finish();
