// amqplib's promise interface.
import assert from "node:assert/strict";
import amqp from "amqplib";
import { Inbox, check } from "./checks.mjs";
import { name, pause, until, url } from "./relay.mjs";

async function withChannel(run, kind = "createChannel") {
  const connection = await amqp.connect(url);
  connection.on("error", () => {});
  try {
    const channel = await connection[kind]();
    channel.on("error", () => {});
    return await run(channel, connection);
  } finally {
    await connection.close().catch(() => {});
  }
}
const withConfirms = (run) => withChannel(run, "createConfirmChannel");
const queueOf = async (channel, options) => (await channel.assertQueue("", { exclusive: true, ...options })).queue;
const take = (channel, queue, options = { noAck: true }) => until(() => channel.get(queue, options));

// The refusal that ends a channel: code and text.
async function refused(run, code, text) {
  await withChannel(async (channel) => {
    const error = await new Promise((done, failed) => {
      channel.on("error", done);
      Promise.resolve(run(channel)).then(() => pause(5000)).then(() => failed(new Error("was not refused")), () => {});
    });
    assert.equal(error.code, code);
    assert.ok(error.message.endsWith(`"${text}"`), error.message);
  });
}

await check("amqplib: the server names its product and what it can", () => withChannel(async (_, connection) => {
  const { serverProperties } = connection.connection;
  assert.ok(serverProperties.product && serverProperties.version);
  assert.equal(serverProperties.capabilities.publisher_confirms, true);
}));

await check("amqplib: publish, consume and ack in order", () => withConfirms(async (channel) => {
  const queue = await queueOf(channel);
  const inbox = new Inbox();
  await channel.consume(queue, (message) => inbox.push(message));
  for (let n = 0; n < 500; n += 1) channel.sendToQueue(queue, Buffer.from(String(n)), { persistent: n % 2 === 0 });
  await channel.waitForConfirms();
  for (let n = 0; n < 500; n += 1) {
    const message = await inbox.next();
    assert.equal(message.content.toString(), String(n));
    assert.equal(message.fields.deliveryTag, n + 1);
    channel.ack(message);
  }
  assert.equal((await channel.checkQueue(queue)).messageCount, 0);
}));

await check("amqplib: properties and typed header values come back", () => withChannel(async (channel) => {
  const queue = await queueOf(channel);
  const headers = {
    text: "t", bool: true, none: null, int: 5, big: 2 ** 40, double: 1.5, list: [1, "a", { b: 2 }], table: { deep: { er: 1 } },
    bytes: Buffer.from([0, 255]), stamp: { "!": "timestamp", value: 1700000000 }, decimal: { "!": "decimal", value: { places: 2, digits: 125 } },
  };
  const typed = { byte: { "!": "byte", value: -3 }, short: { "!": "short", value: -300 }, float: { "!": "float", value: 0.5 },
    long: { "!": "long", value: 12 } };
  const sent = { contentType: "a/b", contentEncoding: "c", deliveryMode: 2, priority: 4, correlationId: "d", replyTo: "e", expiration: "60000",
    messageId: "f", timestamp: 1700000000, type: "g", userId: "guest", appId: "h" };
  channel.sendToQueue(queue, Buffer.from("x"), { ...sent, headers: { ...headers, ...typed } });
  const got = await take(channel, queue);
  for (const [key, value] of Object.entries(sent)) assert.deepEqual(got.properties[key], value, key);
  for (const [key, value] of Object.entries(headers)) assert.deepEqual(got.properties.headers[key], value, key);
  assert.deepEqual(Object.entries(typed).map(([key]) => got.properties.headers[key]), [-3, -300, 0.5, 12]);
}));

await check("amqplib: each kind of exchange routes", () => withConfirms(async (channel) => {
  for (const [kind, pattern, key, args] of [["direct", "k", "k"], ["fanout", "", "any"], ["topic", "a.*.#", "a.b.c.d"],
    ["headers", "", "", { "x-match": "any", h: "v", other: 1 }]]) {
    const { exchange } = await channel.assertExchange(name("x"), kind, { autoDelete: true });
    const queue = await queueOf(channel);
    await channel.bindQueue(queue, exchange, pattern, args);
    channel.publish(exchange, key, Buffer.from(kind), { headers: { h: "v" } });
    await channel.waitForConfirms();
    assert.equal((await take(channel, queue)).content.toString(), kind);
    await channel.unbindQueue(queue, exchange, pattern, args);
  }
}));

await check("amqplib: exchange to exchange and alternate exchange", () => withConfirms(async (channel) => {
  const other = (await channel.assertExchange(name("x"), "fanout")).exchange;
  const first = (await channel.assertExchange(name("x"), "direct", { alternateExchange: other })).exchange;
  const queue = await queueOf(channel);
  await channel.bindExchange(first, "amq.topic", "only.#");
  await channel.bindQueue(queue, other, "");
  channel.publish("amq.topic", "only.this", Buffer.from("x"));
  await channel.waitForConfirms();
  const got = await take(channel, queue);
  assert.deepEqual([got.fields.exchange, got.fields.routingKey], ["amq.topic", "only.this"]);
  for (const exchange of [first, other]) await channel.deleteExchange(exchange);
}));

await check("amqplib: mandatory message without a queue is returned before its confirm", () => withConfirms(async (channel) => {
  const seen = [];
  channel.on("return", (message) => seen.push([message.fields.replyCode, message.fields.replyText, message.content.toString()]));
  await new Promise((done, failed) => channel.publish("", name(), Buffer.from("x"), { mandatory: true },
    (error) => { seen.push("confirm"); return error ? failed(error) : done(); }));
  assert.deepEqual(seen, [[312, "NO_ROUTE", "x"], "confirm"]);
}));

await check("amqplib: reject-publish overflow is a nack", () => withConfirms(async (channel) => {
  const queue = await queueOf(channel, { maxLength: 1, overflow: "reject-publish" });
  const publish = () => new Promise((done) => channel.sendToQueue(queue, Buffer.from("x"), {}, (error) => done(Boolean(error))));
  assert.deepEqual([await publish(), await publish()], [false, true]);
}));

await check("amqplib: nack, reject, recover and requeued order", () => withConfirms(async (channel) => {
  const queue = await queueOf(channel);
  for (const body of ["0", "1", "2"]) channel.sendToQueue(queue, Buffer.from(body));
  await channel.waitForConfirms();
  const [a, b] = [await take(channel, queue, {}), await take(channel, queue, {})];
  channel.nack(b);
  channel.reject(a, true);
  const again = [await take(channel, queue, {}), await take(channel, queue, {})];
  assert.deepEqual(again.map((m) => [m.content.toString(), m.fields.redelivered]), [["0", true], ["1", true]]);
  await channel.recover();
  assert.equal((await take(channel, queue, {})).content.toString(), "0");
  channel.nackAll(false);
  assert.equal((await channel.checkQueue(queue)).messageCount, 2);
}));

await check("amqplib: prefetch holds deliveries back", () => withConfirms(async (channel) => {
  const queue = await queueOf(channel);
  await channel.prefetch(2);
  const got = [];
  await channel.consume(queue, (message) => got.push(message));
  for (let n = 0; n < 5; n += 1) channel.sendToQueue(queue, Buffer.from(String(n)));
  await channel.waitForConfirms();
  await until(() => got.length === 2);
  await pause(100);
  assert.equal(got.length, 2);
  channel.ack(got[1], true);
  await until(() => got.length === 4);
}));

await check("amqplib: consumer of a deleted queue gets null", () => withChannel(async (channel) => {
  const { queue } = await channel.assertQueue(name());
  const inbox = new Inbox();
  await channel.consume(queue, (message) => inbox.push(message));
  await channel.deleteQueue(queue);
  assert.equal(await inbox.next(), null);
}));

await check("amqplib: dead letters carry their history", () => withChannel(async (channel) => {
  const dead = await queueOf(channel);
  const queue = await queueOf(channel, { deadLetterExchange: "", deadLetterRoutingKey: dead, messageTtl: 60000 });
  channel.sendToQueue(queue, Buffer.from("x"), { expiration: 20, headers: { mine: 1 } });
  const { headers, expiration } = (await take(channel, dead)).properties;
  assert.equal(expiration, undefined);
  const { time, ...entry } = headers["x-death"][0];
  assert.equal(time["!"], "timestamp");
  assert.deepEqual(entry, { count: 1, reason: "expired", queue, exchange: "", "routing-keys": [queue], "original-expiration": "20" });
  assert.deepEqual([headers.mine, headers["x-first-death-reason"], headers["x-first-death-queue"]], [1, "expired", queue]);
}));

await check("amqplib: CC and BCC", () => withChannel(async (channel) => {
  const [to, cc, bcc] = [await queueOf(channel), await queueOf(channel), await queueOf(channel)];
  channel.sendToQueue(to, Buffer.from("x"), { CC: [cc], BCC: bcc });
  for (const queue of [to, cc, bcc]) assert.deepEqual((await take(channel, queue)).properties.headers, { CC: [cc] });
}));

await check("amqplib: direct reply-to", () => withChannel(async (channel) => {
  const server = await queueOf(channel);
  await channel.consume(server, (m) => channel.sendToQueue(m.properties.replyTo, Buffer.from(`${m.content}!`),
    { correlationId: m.properties.correlationId }), { noAck: true });
  const inbox = new Inbox();
  await channel.consume("amq.rabbitmq.reply-to", (m) => inbox.push(m), { noAck: true });
  channel.sendToQueue(server, Buffer.from("hello"), { replyTo: "amq.rabbitmq.reply-to", correlationId: "9" });
  const answer = await inbox.next();
  assert.deepEqual([answer.content.toString(), answer.properties.correlationId], ["hello!", "9"]);
}));

await check("amqplib: large bodies", () => withChannel(async (channel) => {
  const queue = await queueOf(channel);
  for (const size of [0, 1, 131064, 131065, 3_000_000]) {
    const body = Buffer.alloc(size, size % 251);
    channel.sendToQueue(queue, body);
    assert.ok((await take(channel, queue)).content.equals(body), `${size}`);
  }
}));

await check("amqplib: refusals have RabbitMQ's codes and texts", async () => {
  const queue = name();
  await refused((channel) => channel.checkQueue(queue), 404, `NOT_FOUND - no queue '${queue}' in vhost '/'`);
  await refused((channel) => channel.checkExchange("nox"), 404, "NOT_FOUND - no exchange 'nox' in vhost '/'");
  await refused((channel) => channel.assertQueue("amq.foo"), 403,
    "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'");
  await refused((channel) => channel.assertExchange("amq.direct", "fanout"), 406,
    "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but current is 'direct'");
  await refused((channel) => channel.ack({ fields: { deliveryTag: 7 } }), 406, "PRECONDITION_FAILED - unknown delivery tag 7");
});

await check("amqplib: exclusive queue of another connection", () => withChannel(async (channel) => {
  const queue = await queueOf(channel);
  await refused((other) => other.checkQueue(queue), 405, `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${queue}' in vhost '/'. ` +
    "It could be originally declared on another connection or the exclusive property value does not match that of the original declaration.");
}));

await check("amqplib: a wrong password and an unknown vhost are refused", async () => {
  await assert.rejects(amqp.connect(url.replace("guest:guest", "guest:wrong")), /ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN/);
  await assert.rejects(amqp.connect(url.replace("%2F", "zzz")), /ConnectionClose/);
});

await check("amqplib: a secret is updated, a heartbeat of one second kept", () => withChannel(async (channel, connection) => {
  await connection.updateSecret(Buffer.from("new"), "rotation");
  const quick = await amqp.connect(`${url}?heartbeat=1`);
  let failure;
  quick.on("error", (error) => { failure = error; });
  await pause(2500);
  await (await quick.createChannel()).assertQueue("", { exclusive: true });
  await quick.close();
  assert.equal(failure, undefined);
}));
