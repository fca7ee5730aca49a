"""What survives kill -9, over pika: starts a server of its own, kills it, starts it again on the same folder."""
import contextlib, json, os, pathlib, signal, subprocess, tempfile, time
import pika
import session
from checks import check, equal, run_all

HOME = pathlib.Path(tempfile.mkdtemp())
SERVER = None


def start():
    global SERVER
    ports = HOME / "ports"
    ports.unlink(missing_ok=True)
    with open(HOME / "log", "a") as log:
        SERVER = subprocess.Popen(
            [os.environ["FRAMEGATE_BIN"], "--data-dir", HOME / "data", "--ports-file", ports, "--listen", "amqp=127.0.0.1:0",
             "--listen", "http=127.0.0.1:0", "--listen", "messagex=127.0.0.1:0"], stdout=log, stderr=log)
    end = time.monotonic() + 25
    while not ports.exists() or not ports.read_text():
        assert time.monotonic() < end and SERVER.poll() is None, (HOME / "log").read_text()
        time.sleep(0.02)
    session.PARAMETERS.update(host="127.0.0.1", port=int(json.loads(ports.read_text())["amqp"].rpartition(":")[2]))


def kill():
    SERVER.send_signal(signal.SIGKILL)
    SERVER.wait()


@contextlib.contextmanager
def until_killed():
    """A channel whose connection ends with the server, without a close."""
    yield pika.BlockingConnection(pika.ConnectionParameters(**session.PARAMETERS)).channel()
    kill()


def gone(run):
    with session.connected() as connection:
        try:
            run(connection.channel())
        except pika.exceptions.ChannelClosedByBroker as error:
            equal(error.reply_code, 404)
            return
        raise AssertionError("is still there")


@check
def confirmed_persistent_messages_and_durable_things_survive():
    start()
    with until_killed() as ch:
        ch.confirm_delivery()
        ch.exchange_declare("kept", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
        ch.exchange_declare("lost", "topic")
        ch.queue_declare("kept", durable=True, arguments={"x-max-priority": 3})
        ch.queue_declare("lost")
        ch.queue_bind("kept", "kept", "a.#")
        ch.queue_bind("kept", "amq.fanout")
        for n in range(50):
            ch.basic_publish("kept", "a.b", str(n).encode(), pika.BasicProperties(delivery_mode=2, message_id=f"m{n}",
                                                                                  headers={"n": n}))
        ch.basic_publish("kept", "else", b"by the alternate", pika.BasicProperties(delivery_mode=2))
        ch.basic_publish("", "kept", b"transient", pika.BasicProperties(delivery_mode=1))
        for _ in range(10):
            ch.basic_ack(session.take(ch, "kept", auto_ack=False)[0].delivery_tag)
        # five deliveries are never settled
        for _ in range(5):
            session.take(ch, "kept", auto_ack=False)
        # an ack has no answer: a confirmed publish behind it tells that it was taken
        ch.basic_publish("", "kept", b"last", pika.BasicProperties(delivery_mode=2))
    start()
    with session.channel() as ch:
        ch.exchange_declare("kept", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
        ch.queue_declare("kept", durable=True, arguments={"x-max-priority": 3})
        got = [session.take(ch, "kept") for _ in range(42)]
        equal([b.decode() for _, _, b in got], [str(n) for n in range(10, 50)] + ["by the alternate", "last"])
        equal([p.headers["n"] for _, p, _ in got[:40]], list(range(10, 50)))
        session.empty(ch, "kept")
        session.put(ch, "a.z", "routed again", exchange="kept")
        equal(session.take(ch, "kept")[2], b"routed again")
    gone(lambda ch: ch.queue_declare("lost", passive=True))
    gone(lambda ch: ch.exchange_declare("lost", passive=True))


@check
def committed_transaction_survives_and_an_open_one_does_not():
    with until_killed() as ch:
        ch.queue_declare("tx", durable=True)
        ch.tx_select()
        session.put(ch, "tx", "1", "2", delivery_mode=2)
        ch.tx_commit()
        session.put(ch, "tx", "3", delivery_mode=2)
        ch.queue_declare("tx", passive=True)
    start()
    with session.channel() as ch:
        equal(session.bodies(ch, "tx", 2), ["1", "2"])
        session.empty(ch, "tx")


@check
def dead_letters_and_counts_survive():
    with until_killed() as ch:
        ch.confirm_delivery()
        ch.queue_declare("dead", durable=True)
        ch.queue_declare("work", durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 5,
                                                          "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
        session.put(ch, "work", "rejected", "returned", delivery_mode=2)
        ch.basic_reject(session.take(ch, "work", auto_ack=False)[0].delivery_tag, requeue=False)
        ch.basic_nack(session.take(ch, "work", auto_ack=False)[0].delivery_tag, requeue=True)
        session.until(ch, lambda: session.count(ch, "dead"), 1)
        session.put(ch, "dead", "marker", delivery_mode=2)
    start()
    with session.channel() as ch:
        _, properties, body = session.take(ch, "dead")
        equal((body, properties.headers["x-death"][0]["reason"], properties.headers["x-death"][0]["count"]),
              (b"rejected", "rejected", 1))
        _, properties, body = session.take(ch, "work")
        equal((body, properties.headers["x-delivery-count"]), (b"returned", 1))
    kill()


run_all()
