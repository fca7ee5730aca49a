// A tiny runner: each check is an async function; prints the totals that tests/run reads.
let passed = 0, failed = 0;
export const base = "http://" + process.env.FRAMEGATE_HTTP;

export async function check(name, run) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("took 30 s")), 30000); });
  try {
    await Promise.race([run(), late]);
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}: ${error.stack ?? error}`);
  } finally {
    clearTimeout(timer);
  }
}

export function finish() {
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

export async function publish(topic, event) {
  const answer = await fetch(`${base}/v1/topics/${topic}/events`, {
    method: "POST", headers: { "content-type": "application/cloudevents+json" }, body: JSON.stringify(event),
  });
  if (answer.status !== 202) throw new Error(`publish: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

export const event = (id, data) => ({ specversion: "1.0", id: String(id), source: "/js", type: "com.example.js", data });

// A queue of what a callback brings, to await one by one.
export class Inbox {
  items = [];
  waiting = [];
  push(item) { const next = this.waiting.shift(); if (next) next(item); else this.items.push(item); }
  next() { return this.items.length ? Promise.resolve(this.items.shift()) : new Promise((done) => this.waiting.push(done)); }
}
