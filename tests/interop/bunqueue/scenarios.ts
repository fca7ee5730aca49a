// Named scenarios with the published client. Each gives an outcome without ids and times, which is printed as one line of JSON;
// `check` compares it with what the original server gave.
//   bun scenarios.ts [NAME...]     BQ_PORT, BQ_HOST: the server
import { Bunqueue, FlowProducer, Forwarder, Queue, QueueEvents, QueueGroup, QueuePro, UnrecoverableError, Worker, WorkerPro } from "bunqueue/client";

const connection = { host: process.env.BQ_HOST ?? "127.0.0.1", port: Number(process.env.BQ_PORT ?? 6789), poolSize: 1 };
const open: { close(): unknown }[] = [];
const keep = <T extends { close(): unknown }>(one: T): T => { open.push(one); return one; };
const run = Math.random().toString(36).slice(2, 8);
const name = (text: string) => `${text}-${run}`;
const queue = (text: string, more: object = {}) => keep(new Queue(name(text), { connection, ...more } as any));
const worker = (text: string, work: (job: any) => any, more: object = {}) =>
  keep(new Worker(name(text), work, { connection, concurrency: 1, pollTimeout: 300, ...more } as any));
const events = async (text: string) => {
  const own = keep(new QueueEvents(name(text), { connection } as any));
  await own.waitUntilReady();
  return own;
};
const until = async (what: string, done: () => any, ms = 8000) => {
  const end = Date.now() + ms;
  for (;;) {
    const value = await done();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not happen`);
    await Bun.sleep(15);
  }
};
const state = (q: any, id: string) => q.getJobState(id);
const reaches = (q: any, id: string, wanted: string) => until(`${id} ${wanted}`, async () => (await state(q, id)) === wanted);
const attempt = async (work: () => any) => { try { return await work(); } catch (error: any) { return `error: ${String(error.message).replaceAll(run, "RUN")}`; } };

const scenarios: Record<string, () => Promise<unknown>> = {
  async job_is_processed_and_its_result_kept() {
    const q = queue("basic");
    const job = await q.add("good", { n: 1, text: "é", nested: { list: [1, null, 2.5] } });
    const seen: any[] = [];
    worker("basic", async (j) => { seen.push([j.name, j.data, j.attemptsMade]); return { ok: j.data.n }; });
    await reaches(q, job.id, "completed");
    const got: any = await q.getJob(job.id);
    return { seen, state: await got.getState(), returnvalue: got.returnvalue, counts: await q.getJobCountsAsync() };
  },
  async bulk_is_delivered_in_order() {
    const q = queue("bulk");
    await q.addBulk(Array.from({ length: 20 }, (_, n) => ({ name: "b", data: { n } })));
    const seen: number[] = [];
    worker("bulk", async (j) => { seen.push(j.data.n); });
    await until("20 jobs", () => seen.length === 20);
    return seen;
  },
  async priority_and_lifo_decide_the_order() {
    const q = queue("order");
    const add = (n: string, opts: object) => q.add(n, {}, opts as any);
    for (const [n, opts] of [["a", {}], ["b", { priority: 5 }], ["c", { priority: 10 }], ["d", { lifo: true }], ["e", { lifo: true }], ["f", {}]] as const) await add(n, opts);
    const seen: string[] = [];
    worker("order", async (j) => { seen.push(j.name); });
    await until("6 jobs", () => seen.length === 6);
    return seen;
  },
  async delayed_job_is_not_early() {
    const q = queue("delay");
    const at = Date.now();
    const job = await q.add("later", {}, { delay: 400 });
    const before = await state(q, job.id);
    let took = 0;
    worker("delay", async () => { took = Date.now() - at; });
    await until("the job", () => took);
    return { before, early: took < 395, late: took > 2500 };
  },
  async promoted_job_is_ready_at_once() {
    const q = queue("promote");
    const job = await q.add("later", {}, { delay: 60000 });
    await job.promote();
    return { state: await state(q, job.id), again: await attempt(() => q.promoteJob(job.id)) };
  },
  async failing_job_is_retried_and_completes() {
    const q = queue("retry");
    const job = await q.add("flaky", {}, { attempts: 3, backoff: { type: "fixed", delay: 50 } });
    const made: number[] = [];
    worker("retry", async (j) => { made.push(j.attemptsMade); if (made.length < 3) throw new Error("not yet"); return "done"; });
    await reaches(q, job.id, "completed");
    return { made, result: ((await q.getJob(job.id)) as any).returnvalue };
  },
  async last_failure_goes_to_the_dead_letters() {
    const q = queue("dead");
    const job = await q.add("bad", { x: 1 }, { attempts: 2, backoff: { type: "fixed", delay: 20 } });
    worker("dead", async () => { throw new Error("no luck"); });
    await reaches(q, job.id, "failed");
    const got: any = await q.getJob(job.id);
    const [entry]: any[] = await q.getDlqAsync();
    return { reason: got.failedReason, attempts: got.attemptsMade, hasStack: Array.isArray(got.stacktrace) && got.stacktrace.length > 0,
      entry: { reason: entry.reason, error: entry.error, attempts: entry.attempts.map((a: any) => [a.attempt, a.reason, a.error]) },
      counts: await q.getJobCountsAsync() };
  },
  async unrecoverable_error_is_not_retried() {
    const q = queue("fatal");
    const job = await q.add("bad", {}, { attempts: 5 });
    let runs = 0;
    worker("fatal", async () => { runs += 1; throw new UnrecoverableError("fatal"); });
    await reaches(q, job.id, "failed");
    return { runs, reason: ((await q.getJob(job.id)) as any).failedReason };
  },
  async dead_letters_are_retried_and_purged() {
    const q = queue("dlq");
    const ids = (await q.addBulk([1, 2, 3].map((n) => ({ name: "x", data: { n }, opts: { attempts: 1 } })))).map((j: any) => j.id);
    let fail = true;
    const w: any = worker("dlq", async () => { if (fail) throw new Error("x"); return "ok"; });
    for (const id of ids) await reaches(q, id, "failed");
    const stats: any = await q.getDlqStatsAsync();
    fail = false;
    const one = await q.retryDlqAsync(ids[0]);
    await reaches(q, ids[0], "completed");
    const purged = await q.purgeDlqAsync();
    await w.close();
    return { total: stats.total, byReason: stats.byReason, one, purged, left: (await q.getDlqAsync()).length };
  },
  async progress_and_logs_are_kept() {
    const q = queue("progress");
    let go: () => void = () => {};
    const gate = new Promise<void>((done) => { go = done; });
    worker("progress", async (j) => { await j.updateProgress(42, "half"); await j.log("line one"); await j.log("line two"); await gate; return 1; });
    const job = await q.add("p", {});
    const got: any = await until("progress", async () => { const j: any = await q.getJob(job.id); return j.progress === 42 && (await q.getJobLogs(job.id)).count === 2 && j; });
    const logs: any = await q.getJobLogs(job.id);
    go();
    await reaches(q, job.id, "completed");
    return { progress: got.progress, logs: logs.logs.map((l: any) => (typeof l === "string" ? l.replace(/^\[?\d{4}-[^ ]*\]? ?/, "") : l.message)), count: logs.count };
  },
  async waiting_for_a_job_gives_its_result() {
    const q = queue("wait");
    const own = await events("wait");
    const job = await q.add("w", { n: 2 });
    worker("wait", async (j) => j.data.n * 21);
    return { result: await job.waitUntilFinished(own, 5000) };
  },
  async queue_events_tell_a_jobs_life() {
    const q = queue("events");
    const own = await events("events");
    const seen: any[] = [];
    for (const kind of ["waiting", "active", "progress", "completed", "failed", "retried"]) {
      (own as any).on(kind, (e: any) => seen.push([kind, kind === "completed" ? e.returnvalue : kind === "failed" ? e.failedReason : kind === "progress" ? e.data : null]));
    }
    let first = true;
    worker("events", async (j) => { await j.updateProgress(10); if (first) { first = false; throw new Error("once"); } return { r: 1 }; });
    await q.add("e", {}, { attempts: 2, backoff: { type: "fixed", delay: 20 } });
    await until("the end", () => seen.some(([kind]) => kind === "completed"));
    return seen;
  },
  async worker_events_tell_the_same() {
    const q = queue("workerevents");
    const seen: any[] = [];
    const w: any = worker("workerevents", async (j) => { if (j.name === "bad") throw new Error("bad"); await j.updateProgress(5); return 7; });
    w.on("active", (j: any) => seen.push(["active", j.name]));
    w.on("completed", (j: any, r: any) => seen.push(["completed", j.name, r]));
    w.on("failed", (j: any, e: any) => seen.push(["failed", j.name, e.message]));
    w.on("progress", (j: any, p: any) => seen.push(["progress", j.name, p]));
    await q.add("good", {});
    await until("completed", () => seen.length === 3);
    await q.add("bad", {}, { attempts: 1 });
    await until("failed", () => seen.length === 5);
    return seen;
  },
  async jobs_are_listed_and_counted_by_state() {
    const q = queue("list");
    await q.add("w", {});
    await q.add("p", {}, { priority: 3 });
    await q.add("d", {}, { delay: 60000 });
    const names = async (s: any) => (await q.getJobsAsync({ state: s } as any)).map((j: any) => j.name).sort();
    return { waiting: await names("waiting"), prioritized: await names("prioritized"), delayed: await names("delayed"),
      all: await names(undefined), counts: await q.getJobCountsAsync(), count: await q.countAsync(), byPriority: await q.getCountsPerPriorityAsync() };
  },
  async paused_queue_delivers_nothing_until_it_is_resumed() {
    const q = queue("pause");
    await q.pauseAsync();
    const job = await q.add("x", {});
    let ran = false;
    worker("pause", async () => { ran = true; });
    await Bun.sleep(400);
    const paused = { isPaused: await q.isPausedAsync(), ran, counts: await q.getJobCountsAsync(), state: await state(q, job.id) };
    await q.resumeAsync();
    await reaches(q, job.id, "completed");
    return { paused, isPaused: await q.isPausedAsync() };
  },
  async drained_queue_is_empty() {
    const q = queue("drain");
    await q.addBulk([{ name: "a", data: {} }, { name: "b", data: {}, opts: { delay: 60000 } }]);
    const count = await q.drainAsync();
    return { count, counts: await q.getJobCountsAsync() };
  },
  async obliterated_queue_is_gone() {
    const q = queue("obliterate");
    const job = await q.add("a", {});
    await q.obliterateAsync();
    return { state: await state(q, job.id), counts: await q.getJobCountsAsync() };
  },
  async clean_removes_what_is_old_enough() {
    const q = queue("clean");
    const job = await q.add("a", {});
    worker("clean", async () => 1);
    await reaches(q, job.id, "completed");
    await Bun.sleep(30);
    const none = await q.cleanAsync(60000, 100, "completed");
    const one = await q.cleanAsync(1, 100, "completed");
    return { none: none.length, one: one.length, state: await state(q, job.id) };
  },
  async removed_job_is_gone() {
    const q = queue("remove");
    const job = await q.add("a", {});
    await job.remove();
    return { state: await state(q, job.id), job: await q.getJob(job.id), again: await attempt(() => q.removeAsync(job.id)) };
  },
  async job_id_is_taken_once() {
    const q = queue("id");
    const id = name("the-id");
    const [a, b] = [await q.add("a", { n: 1 }, { jobId: id }), await q.add("b", { n: 2 }, { jobId: id })];
    const got: any = await q.getJob(id);
    return { same: a.id === id && b.id === id, name: got.name, data: got.data, count: await q.countAsync() };
  },
  async deduplication_keeps_the_first() {
    const q = queue("dedup");
    const [a, b] = [await q.add("a", { n: 1 }, { deduplication: { id: "k", ttl: 5000 } } as any), await q.add("a", { n: 2 }, { deduplication: { id: "k", ttl: 5000 } } as any)];
    const holder = await q.getDeduplicationJobId("k");
    return { same: a.id === b.id, holder: holder === a.id, count: await q.countAsync(), removed: await q.removeDeduplicationKey("k"), third: (await q.add("a", {}, { deduplication: { id: "k" } } as any)).id !== a.id };
  },
  async deduplication_replaces() {
    const q = queue("replace");
    const a = await q.add("a", { n: 1 }, { deduplication: { id: "k", ttl: 5000 } } as any);
    const b = await q.add("a", { n: 2 }, { deduplication: { id: "k", ttl: 5000, replace: true } } as any);
    return { differ: a.id !== b.id, old: await state(q, a.id), data: ((await q.getJob(b.id)) as any).data, count: await q.countAsync() };
  },
  async finished_jobs_are_removed_when_asked() {
    const q = queue("roc");
    const [a, b] = await q.addBulk([{ name: "ok", data: {}, opts: { removeOnComplete: true } }, { name: "bad", data: {}, opts: { removeOnFail: true, attempts: 1 } }]);
    let done = 0;
    const w: any = worker("roc", async (j) => { if (j.name === "bad") throw new Error("x"); });
    w.on("completed", () => (done += 1)); w.on("failed", () => (done += 1));
    await until("both", () => done === 2);
    await until("gone", async () => (await state(q, a.id)) === "unknown" && (await state(q, b.id)) === "unknown");
    return { counts: await q.getJobCountsAsync() };
  },
  async data_and_priority_and_delay_change() {
    const q = queue("change");
    const job = await q.add("a", { n: 1 });
    await job.updateData({ n: 2 } as any);
    await job.changePriority({ priority: 7 });
    const after: any = await q.getJob(job.id);
    await job.changeDelay(60000);
    return { data: after.data, priority: after.priority, state: await state(q, job.id) };
  },
  async attempt_that_takes_too_long_fails() {
    const q = queue("timeout");
    const job = await q.add("slow", {}, { timeout: 200, attempts: 1 });
    worker("timeout", async () => { await Bun.sleep(1500); });
    await reaches(q, job.id, "failed");
    const [entry]: any[] = await q.getDlqAsync();
    return { reason: entry.reason };
  },
  async manual_worker_moves_jobs_by_token() {
    const q = queue("manual");
    await q.addBulk([{ name: "a", data: {} }, { name: "b", data: {}, opts: { attempts: 1 } }]);
    const w: any = worker("manual", null as any, { autorun: false });
    const one: any = await attempt(() => w.getNextJob("t1"));
    return { got: one && one.name };
  },
  async concurrency_of_a_queue_bounds_active_jobs() {
    const q = queue("conc");
    await q.setGlobalConcurrencyAsync(2);
    let now = 0, most = 0, done = 0;
    worker("conc", async () => { now += 1; most = Math.max(most, now); await Bun.sleep(60); now -= 1; done += 1; }, { concurrency: 8 });
    await q.addBulk(Array.from({ length: 8 }, (_, n) => ({ name: "c", data: { n } })));
    await until("8 jobs", () => done === 8);
    return { most, limit: await q.getGlobalConcurrency() };
  },
  async rate_limit_of_a_queue_bounds_deliveries() {
    const q = queue("rate");
    await q.setGlobalRateLimitAsync(2, 60000);
    let done = 0;
    worker("rate", async () => { done += 1; }, { concurrency: 8 });
    await q.addBulk(Array.from({ length: 5 }, (_, n) => ({ name: "r", data: { n } })));
    await until("2 jobs", () => done >= 2);
    await Bun.sleep(300);
    const limited = done;
    const limit = await q.getGlobalRateLimit();
    await q.removeGlobalRateLimitAsync();
    await until("5 jobs", () => done === 5);
    return { limited, limit };
  },
  async groups_take_turns() {
    const q = queue("groups");
    const jobs = [["a", "A"], ["a2", "A"], ["a3", "A"], ["b", "B"], ["b2", "B"]].map(([n, id]) => ({ name: n, data: {}, opts: { group: { id } } as any }));
    await q.addBulk(jobs);
    const count = await q.getGroupJobsCount("A");
    const seen: string[] = [];
    worker("groups", async (j) => { seen.push(j.name); });
    await until("5 jobs", () => seen.length === 5);
    return { count, seen };
  },
  async group_is_paused_alone() {
    const q = queue("grouppause");
    await q.addBulk([{ name: "a", data: {}, opts: { group: { id: "A" } } as any }, { name: "b", data: {}, opts: { group: { id: "B" } } as any }]);
    const changed = await q.pauseGroup("A");
    const seen: string[] = [];
    worker("grouppause", async (j) => { seen.push(j.name); });
    await until("b", () => seen.length === 1);
    await Bun.sleep(200);
    const before = [...seen];
    const resumed = await q.resumeGroup("A");
    await until("a", () => seen.length === 2);
    return { changed, before, resumed, seen };
  },
  async flow_runs_children_first() {
    const q = queue("flow");
    const flow = keep(new FlowProducer({ connection } as any));
    const tree: any = await flow.add({ name: "root", queueName: name("flow"), data: {}, children: [{ name: "c1", queueName: name("flow"), data: { n: 1 } }, { name: "c2", queueName: name("flow"), data: { n: 2 } }] });
    const before = await state(q, tree.job.id);
    const seen: string[] = [];
    let values: any;
    worker("flow", async (j) => { seen.push(j.name); if (j.name === "root") values = Object.values(await j.getChildrenValues()).sort(); return j.data.n ?? "root"; });
    await reaches(q, tree.job.id, "completed");
    return { before, last: seen.at(-1), children: seen.slice(0, 2).sort(), values };
  },
  ...Object.fromEntries(["failParentOnFailure", "continueParentOnFailure", "ignoreDependencyOnFailure", "removeDependencyOnFailure", "none"].map((policy) => [`flow_with_failing_child_${policy}`, async () => {
    const text = `flow${policy.toLowerCase()}`;
    const q = queue(text);
    const flow = keep(new FlowProducer({ connection } as any));
    const opts = policy === "none" ? { attempts: 1 } : { attempts: 1, [policy]: true };
    const tree: any = await flow.add({ name: "root", queueName: name(text), data: {}, children: [{ name: "bad", queueName: name(text), data: {}, opts: opts as any }] });
    worker(text, async (j) => { if (j.name === "bad") throw new Error("child failed"); return "root done"; });
    await reaches(q, tree.children[0].job.id, "failed");
    const wanted = policy === "failParentOnFailure" ? "failed" : policy === "none" ? "waiting-children" : "completed";
    await reaches(q, tree.job.id, wanted);
    const root: any = await q.getJob(tree.job.id);
    return { state: await state(q, tree.job.id), failed: Object.values(await root.getFailedChildrenValues()), ignored: Object.values(await root.getIgnoredChildrenFailures()) };
  }])),
  async chain_runs_step_by_step() {
    queue("chain");
    const flow = keep(new FlowProducer({ connection } as any));
    const seen: string[] = [];
    worker("chain", async (j) => { seen.push(j.name); return j.name; });
    await flow.addChain(["one", "two", "three"].map((n) => ({ name: n, queueName: name("chain"), data: {} })));
    await until("3 steps", () => seen.length === 3);
    return seen;
  },
  async scheduler_makes_jobs() {
    const q = queue("cron");
    let ran = 0;
    worker("cron", async (j) => { if (j.name === "tick") ran += 1; });
    const made: any = await q.upsertJobScheduler(name("tick"), { every: 250 } as any, { name: "tick", data: { a: 1 } } as any);
    await until("2 runs", () => ran >= 2);
    const list: any[] = (await q.getJobSchedulers()).filter((s: any) => JSON.stringify(s).includes(run));
    const removed = await q.removeJobScheduler(name("tick"));
    return { every: made.every ?? made.repeatEvery, listed: list.length, removed, again: await q.removeJobScheduler(name("tick")), gone: await q.getJobScheduler(name("tick")) };
  },
  async pattern_scheduler_shows_its_next_run() {
    const q = queue("pattern");
    const made: any = await q.upsertJobScheduler(name("daily"), { pattern: "0 3 * * *", tz: "Europe/Berlin" } as any, { name: "d", data: {} } as any);
    const next = new Date(made.next ?? made.nextRun);
    const hour = new Intl.DateTimeFormat("en-GB", { timeZone: "Europe/Berlin", hour: "2-digit", minute: "2-digit" }).format(next);
    await q.removeJobScheduler(name("daily"));
    return { hour, bad: await attempt(() => q.upsertJobScheduler(name("bad"), { pattern: "not a pattern" } as any, {} as any)) };
  },
  async lost_worker_gives_its_job_back() {
    const q = queue("lost");
    const job = await q.add("x", {});
    const first: any = worker("lost", async () => { await Bun.sleep(20000); }, { connection: { ...connection, poolSize: 1 } });
    await reaches(q, job.id, "active");
    await first.close(true);
    await until("waiting again", async () => (await state(q, job.id)) === "waiting", 9000);
    let ran = false;
    worker("lost", async () => { ran = true; });
    await reaches(q, job.id, "completed");
    return { ran };
  },
  async completed_job_runs_again() {
    const q = queue("again");
    const job = await q.add("x", {});
    let runs = 0;
    worker("again", async () => { runs += 1; });
    await reaches(q, job.id, "completed");
    const count = await q.retryCompletedAsync(job.id);
    await until("2 runs", () => runs === 2);
    return { count };
  },
  async group_of_queues_acts_on_all() {
    const group: any = new QueueGroup(name("ns"));
    const [a, b] = ["a", "b"].map((n) => keep(group.getQueue(n, { connection })) as any);
    await a.add("x", {}); await b.add("y", {});
    await group.pauseAllAsync?.();
    const paused = await a.isPausedAsync();
    return { paused, names: (await attempt(() => group.listQueuesAsync())) };
  },
  async simple_face_serves_one_queue() {
    const seen: string[] = [];
    const app: any = keep(new Bunqueue(name("simple"), { connection, processor: async (j: any) => { seen.push(j.name); return 1; } } as any) as any);
    const job = await app.add("s", {});
    await until("the job", () => seen.length === 1);
    return { seen, counts: await attempt(async () => { await until("completed", async () => (await app.getJobCountsAsync()).completed === 1); return app.getJobCountsAsync(); }) };
  },
  async pro_classes_are_the_same() {
    const q: any = keep(new QueuePro(name("pro"), { connection } as any) as any);
    const seen: string[] = [];
    keep(new WorkerPro(name("pro"), async (j: any) => { seen.push(j.name); }, { connection, pollTimeout: 300 } as any) as any);
    await q.add("p", {});
    await until("the job", () => seen.length === 1);
    return seen;
  },
  async odd_values_come_back() {
    const q = queue("odd");
    const data = { date: new Date(1700000000123), bytes: new Uint8Array([0, 1, 255]), big: 9007199254740991, neg: -2147483649, f: 0.1, nil: null, deep: [[[{}]]] };
    let got: any;
    worker("odd", async (j) => { got = j.data; return { date: j.data.date, bytes: j.data.bytes }; });
    const job = await q.add("o", data as any);
    await reaches(q, job.id, "completed");
    return { date: got.date instanceof Date && got.date.getTime(), bytes: [...got.bytes], big: got.big, neg: got.neg, f: got.f, nil: got.nil, deep: got.deep };
  },
  async workers_are_listed() {
    const q: any = queue("workers");
    const w: any = worker("workers", async () => {}, { concurrency: 3 });
    await w.waitUntilReady?.();
    const list: any[] = await until("the worker", async () => { const l = await attempt(() => q.getWorkers()); return Array.isArray(l) && l.length > 0 && l; });
    return { count: list.length };
  },
};

const wanted = process.argv.slice(2);
for (const [title, scenario] of Object.entries(scenarios).filter(([title]) => wanted.length === 0 || wanted.includes(title))) {
  let outcome: unknown;
  try {
    outcome = await Promise.race([scenario(), Bun.sleep(20000).then(() => { throw new Error("took 20 s"); })]);
  } catch (error: any) {
    outcome = `error: ${String(error?.message ?? error).replace(/[0-9a-f-]{36}/g, "ID").replaceAll(run, "RUN")}`;
  }
  console.log(JSON.stringify({ scenario: title, outcome: JSON.parse(JSON.stringify(outcome ?? null).replaceAll(run, "RUN")) }));
  for (const one of open.splice(0).reverse()) await Promise.race([Promise.resolve().then(() => one.close()).catch(() => {}), Bun.sleep(1000)]);
}
process.exit(0);
