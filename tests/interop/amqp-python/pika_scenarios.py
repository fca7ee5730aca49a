"""Everything that pika's blocking client shows of a broker."""
import pika_basics, pika_errors, pika_exchanges, pika_queues, pika_settling  # noqa: F401  each adds its checks
import wire_letters  # noqa: F401
from checks import run_all

run_all()
