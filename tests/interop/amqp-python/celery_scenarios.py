"""Celery with two prefork workers: canvas, retry, ETA, revoke, remote control, a worker killed in the middle of a task."""
import atexit, os, pathlib, signal, subprocess, sys, tempfile, time
from checks import check, equal, name, run_all

HOME = pathlib.Path(tempfile.mkdtemp())
(HOME / "results").mkdir()
os.environ.update(CELERY_RESULTS=str(HOME / "results"), CELERY_QUEUE=name("celery"))
import celery
from celery import chain, chord, group
from celery_tasks import add, app, flaky, survives, total, when, where

WORKERS = {}


def start(worker):
    environment = {**os.environ, "WORKER": worker, "C_FORCE_ROOT": "1"}
    with open(HOME / f"{worker}.log", "w") as log:
        WORKERS[worker] = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "1", "-n", f"{worker}@localhost",
             "--loglevel", "info"], cwd=pathlib.Path(__file__).parent, env=environment, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True)


@atexit.register
def stop():
    for process in WORKERS.values():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def marks():
    return str(HOME / name("marks"))


def lines(path):
    try:
        return pathlib.Path(path).read_text().split()
    except FileNotFoundError:
        return []


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"did not come in {seconds} s"
        time.sleep(0.02)


@check
def both_workers_answer_a_ping():
    until(lambda: len(app.control.ping(timeout=1)) == 2)
    answers = app.control.inspect(timeout=2).ping()
    equal(answers, {"one@localhost": {"ok": "pong"}, "two@localhost": {"ok": "pong"}})


@check
def workers_tell_their_queues_and_tasks():
    queues = app.control.inspect(timeout=2).active_queues()
    equal({q["name"] for of_one in queues.values() for q in of_one}, {os.environ["CELERY_QUEUE"]})
    registered = app.control.inspect(timeout=2).registered()
    assert all("celery_tasks.add" in tasks for tasks in registered.values()), registered


@check
def single_tasks_answer():
    results = [add.delay(n, 1) for n in range(20)]
    equal([r.get(timeout=15) for r in results], list(range(1, 21)))


@check
def chain_hands_results_on():
    equal(chain(add.s(1, 2), add.s(10), add.s(100)).delay().get(timeout=15), 113)


@check
def group_gathers():
    equal(group(add.s(n, n) for n in range(8)).delay().get(timeout=15), [2 * n for n in range(8)])


@check
def chord_calls_its_body_at_the_end():
    equal(chord((add.s(n, n) for n in range(5)), total.s()).delay().get(timeout=20), 20)


@check
def retry_backs_off():
    path = marks()
    equal(flaky.delay(path).get(timeout=20), 2)
    first, second, third = map(float, lines(path))
    assert second - first >= 0.2 and third - second >= 0.4, (first, second, third)


@check
def eta_is_kept():
    started = time.time()
    ran = when.apply_async(countdown=1).get(timeout=15)
    assert 1 <= ran - started < 6, ran - started


@check
def revoked_task_does_not_run():
    result = when.apply_async(countdown=3)
    time.sleep(0.3)
    app.control.revoke(result.id)
    try:
        result.get(timeout=15)
        raise AssertionError("ran")
    except celery.exceptions.TaskRevokedError:
        pass


@check
def two_workers_at_prefetch_one_share():
    ran = [r.get(timeout=20) for r in [where.delay(0.1) for _ in range(12)]]
    equal(set(ran), {"one", "two"})
    assert 4 <= ran.count("one") <= 8, ran


@check
def killed_workers_task_runs_on_the_other():
    path = marks()
    result = survives.delay(path)
    until(lambda: lines(path))
    victim = lines(path)[0]
    os.killpg(WORKERS[victim].pid, signal.SIGKILL)
    WORKERS[victim].wait()
    other = {"one": "two", "two": "one"}[victim]
    equal((result.get(timeout=20), lines(path)), (other, [victim, other]))


for worker in ["one", "two"]:
    start(worker)
run_all()
