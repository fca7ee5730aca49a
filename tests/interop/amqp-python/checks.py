"""A tiny runner: checks run in order, each with a limit of time; prints the totals that the callers read."""
import os, signal, sys, traceback, uuid

HOST, _, PORT = os.environ["FRAMEGATE_AMQP"].rpartition(":")
PORT = int(PORT)
HOST = HOST.strip("[]")
URL = f"amqp://guest:guest@{HOST}:{PORT}/%2F"
LIMIT_SECONDS = 30
CHECKS = []


def check(run):
    CHECKS.append(run)
    return run


def name(what="q"):
    """A name that no other check uses."""
    return f"{what}-{uuid.uuid4().hex[:10]}"


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what} is {got!r}, {wanted!r} is expected")


def _late(*_):
    raise TimeoutError(f"took {LIMIT_SECONDS} s")


def run_all(call=lambda run: run()):
    """Runs every check by `call`; names given on the command line select."""
    wanted = sys.argv[1:]
    passed = failed = 0
    signal.signal(signal.SIGALRM, _late)
    for run in CHECKS:
        if wanted and run.__name__ not in wanted:
            continue
        signal.alarm(LIMIT_SECONDS)
        try:
            call(run)
            passed += 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            failed += 1
            last = traceback.extract_tb(error.__traceback__)
            lines = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(last[:3]))
            print(f"FAILED {run.__name__}: {type(error).__name__}: {error} ({lines})", flush=True)
        finally:
            signal.alarm(0)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)
