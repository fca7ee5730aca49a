// rascal: a whole vhost from configuration, redeliveries, recovery strategies, dead letters.
import assert from "node:assert/strict";
import rascal from "rascal";
import { Inbox, check } from "./checks.mjs";
import { host, name, port, relay } from "./relay.mjs";

const { BrokerAsPromised: Broker } = rascal;

async function withBroker(run, at = { host, port }) {
  const [exchange, queue, dead] = [name("x"), name("q"), name("dead")];
  const config = rascal.withDefaultConfig({
    vhosts: {
      "/": {
        connection: { hostname: at.host, port: at.port, user: "guest", password: "guest", options: { heartbeat: 5 }, retry: { min: 100, max: 300 } },
        namespace: false,
        exchanges: { [exchange]: { type: "topic" }, [`${exchange}.dead`]: { type: "fanout" } },
        queues: {
          [queue]: { options: { durable: true, arguments: { "x-dead-letter-exchange": `${exchange}.dead` } } },
          [dead]: {},
        },
        bindings: [`${exchange}[order.#] -> ${queue}`, `${exchange}.dead -> ${dead}`],
        publications: { orders: { exchange, routingKey: "order.new", options: { persistent: true } }, direct: { queue } },
        subscriptions: { orders: { queue, prefetch: 5, redeliveries: { limit: 3, counter: "memory" } }, dead: { queue: dead } },
      },
    },
    redeliveries: { counters: { memory: { size: 50, type: "inMemory" } } },
  });
  const broker = await Broker.create(config);
  broker.on("error", () => {});
  broker.on("vhost_initialised", () => {});
  try {
    await run(broker, { exchange, queue, dead });
  } finally {
    await broker.nuke().catch(() => broker.shutdown());
  }
}

async function publish(broker, which, content, overrides) {
  const publication = await broker.publish(which, content, overrides);
  await new Promise((done, failed) => publication.on("success", done).on("error", failed).on("return", done));
}

async function subscribe(broker, which, handle) {
  const inbox = new Inbox();
  const subscription = await broker.subscribe(which);
  subscription.on("message", (message, content, settle) => {
    inbox.push({ message, content });
    handle(settle, content);
  }).on("error", () => {}).on("invalid_content", (_, __, settle) => settle()).on("redeliveries_exceeded", (_, __, settle) => settle());
  return { inbox, subscription };
}

await check("rascal: publications reach subscriptions", () => withBroker(async (broker) => {
  const { inbox } = await subscribe(broker, "orders", (settle) => settle());
  for (let n = 0; n < 20; n += 1) await publish(broker, "orders", { n });
  for (let n = 0; n < 20; n += 1) assert.deepEqual((await inbox.next()).content, { n });
  await publish(broker, "direct", "text");
  assert.equal((await inbox.next()).content, "text");
}));

await check("rascal: a failed message is a dead letter", () => withBroker(async (broker, { queue }) => {
  await subscribe(broker, "orders", (settle) => settle(new Error("no")));
  const { inbox } = await subscribe(broker, "dead", (settle) => settle());
  await publish(broker, "orders", { bad: true });
  const { content, message } = await inbox.next();
  assert.deepEqual(content, { bad: true });
  const [death] = message.properties.headers["x-death"];
  assert.deepEqual([death.reason, death.queue, death.count, death["routing-keys"]], ["rejected", queue, 1, ["order.new"]]);
}));

await check("rascal: nack with requeue redelivers, republish counts attempts", () => withBroker(async (broker) => {
  let tries = 0;
  const { inbox } = await subscribe(broker, "orders", (settle, content) => {
    tries += 1;
    if (tries === 1) return settle(new Error("again"), [{ strategy: "nack", requeue: true, defer: 20 }]);
    if (tries < 4) return settle(new Error("again"), [{ strategy: "republish", defer: 20, attempts: 5 }]);
    return settle();
  });
  await publish(broker, "orders", { n: 1 });
  const seen = [];
  for (let n = 0; n < 4; n += 1) seen.push(await inbox.next());
  assert.equal(seen[1].message.fields.redelivered, true);
  assert.equal(seen[3].message.properties.headers.rascal.recovery[Object.keys(seen[3].message.properties.headers.rascal.recovery)[0]].republished, 2);
}));

await check("rascal: an unroutable mandatory publication is returned", () => withBroker(async (broker) => {
  const publication = await broker.publish("orders", "x", { routingKey: "else", options: { mandatory: true } });
  const returned = await new Promise((done) => publication.on("return", done).on("error", done));
  assert.equal(returned.fields.replyCode, 312);
}));

await check("rascal: the subscription goes on after a cut connection", async () => {
  const through = await relay();
  await withBroker(async (broker) => {
    const { inbox } = await subscribe(broker, "orders", (settle) => settle());
    await publish(broker, "orders", { n: 1 });
    assert.deepEqual((await inbox.next()).content, { n: 1 });
    through.cut();
    for (;;) {
      try { await publish(broker, "orders", { n: 2 }); break; } catch { await new Promise((done) => setTimeout(done, 100)); }
    }
    let got;
    do { got = (await inbox.next()).content; } while (got.n < 2);
    assert.deepEqual(got, { n: 2 });
  }, { host: "127.0.0.1", port: through.port });
  through.close();
});
