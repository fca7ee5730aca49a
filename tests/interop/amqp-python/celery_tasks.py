"""The application that celery_scenarios.py starts workers of."""
import os, time
from celery import Celery

app = Celery("tasks", broker=f"amqp://guest:guest@{os.environ['FRAMEGATE_AMQP']}//",
             backend=f"file://{os.environ['CELERY_RESULTS']}")
app.conf.update(task_default_queue=os.environ["CELERY_QUEUE"], worker_prefetch_multiplier=1, worker_concurrency=1,
                broker_connection_retry_on_startup=True, broker_heartbeat=10, worker_hijack_root_logger=False,
                result_chord_retry_interval=0.2, task_track_started=False)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def flaky(self, marks):
    """Fails twice, with a longer pause each time."""
    with open(marks, "a") as file:
        file.write(f"{time.time()}\n")
    if self.request.retries < 2:
        raise self.retry(countdown=0.2 * 2 ** self.request.retries)
    return self.request.retries


@app.task
def when():
    return time.time()


@app.task(acks_late=True)
def where(seconds):
    time.sleep(seconds)
    return os.environ["WORKER"]


@app.task(acks_late=True)
def survives(marks):
    """The first run waits to be killed; the second one finds its mark and ends."""
    with open(marks, "a") as file:
        file.write(os.environ["WORKER"] + "\n")
    with open(marks) as file:
        first = len(file.readlines()) == 1
    time.sleep(60 if first else 0)
    return os.environ["WORKER"]
