"""Connections of pika's blocking client, closed at the end of their check."""
import contextlib, time
import pika
from checks import HOST, PORT, equal

PARAMETERS = dict(host=HOST, port=PORT, credentials=pika.PlainCredentials("guest", "guest"), heartbeat=60,
                  blocked_connection_timeout=20, socket_timeout=10)


@contextlib.contextmanager
def connected(**more):
    connection = pika.BlockingConnection(pika.ConnectionParameters(**{**PARAMETERS, **more}))
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


@contextlib.contextmanager
def channel(**more):
    with connected(**more) as connection:
        yield connection.channel()


def put(ch, queue, *bodies, exchange="", **properties):
    for body in bodies:
        ch.basic_publish(exchange, queue, body.encode() if isinstance(body, str) else body,
                         pika.BasicProperties(**properties))


def take(ch, queue, auto_ack=True, tries=200):
    """The next message by `get`, waiting at most about two seconds for it."""
    for _ in range(tries):
        method, properties, body = ch.basic_get(queue, auto_ack=auto_ack)
        if method is not None:
            return method, properties, body
        ch.connection.sleep(0.01)
    raise AssertionError(f"nothing came to {queue}")


def bodies(ch, queue, count):
    return [take(ch, queue)[2].decode() for _ in range(count)]


def empty(ch, queue):
    method, _, body = ch.basic_get(queue, auto_ack=True)
    if method is not None:
        raise AssertionError(f"{queue} holds {body!r}, nothing is expected")


def until(ch, what, wanted, seconds=5):
    """Serves the connection until `what()` is as wanted."""
    end = time.monotonic() + seconds
    while True:
        got = what()
        if got == wanted:
            return
        if time.monotonic() > end:
            equal(got, wanted, "what came")
        ch.connection.process_data_events(time_limit=0.02)


def quiet(ch, seconds=0.15):
    """Serves the connection for a while: what should not come would come now."""
    ch.connection.process_data_events(time_limit=0)
    ch.connection.sleep(seconds)


def consume(ch, queue, into, auto_ack=False, **more):
    return ch.basic_consume(queue, lambda c, m, p, b: into.append((m, p, b)), auto_ack=auto_ack, **more)


def count(ch, queue):
    return ch.queue_declare(queue, passive=True).method.message_count


def refused(run, code, text, whole_connection=False, **more):
    """`run(channel)` must end its channel (or connection) with exactly this code and text."""
    kind = pika.exceptions.ConnectionClosedByBroker if whole_connection else pika.exceptions.ChannelClosedByBroker
    with connected(**more) as connection:
        ch = connection.channel()
        try:
            run(ch)
            ch.queue_declare(queue="", exclusive=True)
        except kind as error:
            equal((error.reply_code, error.reply_text), (code, text), "the refusal")
            if not whole_connection:
                connection.channel().close()
            return
        raise AssertionError(f"was not refused; {code} {text} is expected")
