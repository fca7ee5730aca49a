"""The same for the published Python client: one line of JSON a scenario, without ids and times."""

import json
import os
import random
import sys
import time

from bunqueue import FlowProducer, Queue, Worker

AT = {"host": os.environ.get("BQ_HOST", "127.0.0.1"), "port": int(os.environ.get("BQ_PORT", "6789"))}
RUN = "".join(random.choices("abcdefghij", k=6))
open_ones = []


def queue(text):
    one = Queue(f"py-{text}-{RUN}", **AT)
    open_ones.append(one)
    return one


def worker(text, work, **more):
    one = Worker(f"py-{text}-{RUN}", work, poll_timeout_ms=300, concurrency=1, **AT, **more)
    open_ones.insert(0, one)
    return one


def until(what, done, seconds=8):
    end = time.monotonic() + seconds
    while True:
        value = done()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen")
        time.sleep(0.02)


def reaches(q, job_id, state):
    until(f"state {state}", lambda: q.get_state(job_id) == state)


def job_is_processed():
    q = queue("basic")
    job = q.add("good", {"n": 1, "text": "é", "list": [1, None, 2.5]}, attempts=2)
    seen = []
    worker("basic", lambda j: (seen.append([j.name, j.data.get("n"), j.data.get("text"), j.data.get("list")]), {"ok": j.data["n"]})[1])
    result = q.wait_for_job(job.id, 5000)
    return {"seen": seen, "result": result, "state": q.get_state(job.id), "stored": q.get_result(job.id)}


def data_that_is_no_map_comes_as_payload():
    q = queue("payload")
    job = q.add("text", "just text")
    seen = []
    worker("payload", lambda j: seen.append(j.data.get("payload")))
    reaches(q, job.id, "completed")
    return seen


def bulk_in_order():
    q = queue("bulk")
    ids = q.add_bulk([{"name": "b", "data": {"n": n}} for n in range(10)])
    seen = []
    worker("bulk", lambda j: seen.append(j.data["n"]))
    until("10 jobs", lambda: len(seen) == 10)
    return {"ids": len(ids), "seen": seen}


def failing_job_is_dead():
    q = queue("dead")
    job = q.add("bad", {}, attempts=1)

    def work(_):
        raise ValueError("no luck")

    worker("dead", work)
    reaches(q, job.id, "failed")
    dead = q.get_dlq()
    count = q.retry_dlq(job.id)
    until("dead again", lambda: len(q.get_dlq()) == 1)
    return {"dead": len(dead), "count": count, "purged": until("purged", q.purge_dlq)}


def progress_and_logs():
    q = queue("progress")
    job = q.add("p", {})
    states = []

    def work(j):
        j.update_progress(40, "some")
        j.log("a line")
        states.append(q.get_progress(job.id))
        return 1

    worker("progress", work)
    reaches(q, job.id, "completed")
    return {"progress": [{k: s.get(k) for k in ("progress", "message")} for s in states],
            "logs": [line.get("message") for line in q.get_job_logs(job.id)]}


def pause_and_resume():
    q = queue("pause")
    q.pause()
    job = q.add("x", {})
    seen = []
    worker("pause", lambda j: seen.append(1))
    time.sleep(0.5)
    paused = [q.is_paused(), len(seen)]
    q.resume()
    reaches(q, job.id, "completed")
    return {"paused": paused, "is_paused": q.is_paused()}


def counts_and_lists():
    q = queue("list")
    q.add("w", {})
    q.add("p", {}, priority=3)
    q.add("d", {}, delay=60000)
    return {"counts": q.get_job_counts(), "waiting": len(q.get_waiting()), "delayed": len(q.get_delayed()),
            "prioritized": len(q.get_prioritized()), "count": q.count(), "priorities": q.get_counts_per_priority()}


def delayed_job_is_promoted():
    q = queue("promote")
    job = q.add("d", {}, delay=60000)
    q.promote_job(job.id)
    return q.get_state(job.id)


def job_that_is_not_there():
    q = queue("none")
    return {"job": q.get_job("no-such-job"), "state": q.get_state("no-such-job"), "custom": q.get_job_by_custom_id("nope")}


def acks_in_batches():
    q = queue("ackb")
    q.add_bulk([{"name": "b", "data": {"n": n}} for n in range(20)])
    worker("ackb", lambda j: j.data["n"], ack_batch={"size": 10})
    until("20 completed", lambda: q.get_completed_count() == 20)
    return q.get_job_counts()


def drain_and_obliterate():
    q = queue("drain")
    q.add("a", {})
    q.add("b", {}, delay=60000)
    drained = q.drain()
    q.add("c", {})
    q.obliterate()
    return {"drained": drained, "count": q.count()}


def scheduler():
    q = queue("cron")
    name = f"py-tick-{RUN}"
    seen = []
    worker("cron", lambda j: seen.append(1))
    q.every(name, 250, {"a": 1})
    until("2 runs", lambda: len(seen) >= 2)
    found = q.get_job_scheduler(name)
    q.remove_job_scheduler(name)
    return {"every": found["repeatEvery"], "gone": q.get_job_scheduler(name)}


def flow():
    q = queue("flow")
    producer = FlowProducer(**AT)
    open_ones.append(producer)
    name = f"py-flow-{RUN}"
    tree = producer.add({"name": "root", "queue": name, "queueName": name, "data": {},
                         "children": [{"name": "child", "queue": name, "queueName": name, "data": {"n": 1}}]})
    seen = []
    worker("flow", lambda j: seen.append(1))
    reaches(q, tree.job.id, "completed")
    return len(seen)


def limits():
    q = queue("limits")
    q.set_global_rate_limit(5)
    q.remove_global_rate_limit()
    q.set_global_concurrency(2)
    q.remove_global_concurrency()
    return {"stall": q.get_stall_config(), "dlq": q.get_dlq_config(), "ping": q.ping()}


def workers_are_listed():
    q = queue("workers")
    worker("workers", lambda j: 1)
    name = f"py-workers-{RUN}"
    return until("the worker", lambda: len([w for w in q.get_workers() if name in w.get("queues", [])]))


SCENARIOS = [
    job_is_processed, data_that_is_no_map_comes_as_payload, bulk_in_order, failing_job_is_dead, progress_and_logs,
    pause_and_resume, counts_and_lists, delayed_job_is_promoted, job_that_is_not_there, acks_in_batches,
    drain_and_obliterate, scheduler, flow, limits, workers_are_listed,
]

for scenario in SCENARIOS:
    if len(sys.argv) > 1 and f"python_{scenario.__name__}" not in sys.argv[1:]:
        continue
    try:
        outcome = scenario()
    except Exception as error:  # the outcome of a scenario that cannot go on
        outcome = f"error: {error}"
    print(json.dumps({"scenario": f"python_{scenario.__name__}", "outcome": outcome}), flush=True)
    for one in open_ones:
        try:
            one.close(1) if isinstance(one, Worker) else one.close()
        except Exception:
            pass
    open_ones.clear()
os._exit(0)
