"""Connecting, publishing, getting: properties, sizes, confirms, returns, transactions, heartbeats."""
import datetime, decimal
import pika
from checks import HOST, PORT, check, equal, name
from session import PARAMETERS, bodies, channel, connected, consume, empty, put, quiet, refused, take, until


@check
def server_says_what_it_can():
    with connected() as connection:
        properties = connection._impl.server_properties
        for key in ["publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify",
                    "connection.blocked", "consumer_priorities", "authentication_failure_close", "per_consumer_qos",
                    "direct_reply_to"]:
            equal(properties["capabilities"].get(key), True, key)
        for key in ["product", "version", "platform", "information", "copyright"]:
            assert properties[key], key
        assert all(part.isdigit() for part in properties["version"].split(".")[:2]), properties["version"]


@check
def limits_are_negotiated_downwards():
    with connected(channel_max=12, frame_max=8192, heartbeat=7) as connection:
        tuned = connection._impl.params
        equal((tuned.channel_max, tuned.frame_max, tuned.heartbeat), (12, 8192, 7))
    with connected(heartbeat=None) as connection:
        tuned = connection._impl.params
        equal((tuned.channel_max, tuned.frame_max), (2047, 131072))


@check
def wrong_password_is_refused_with_a_close():
    try:
        with connected(credentials=pika.PlainCredentials("guest", "wrong"), connection_attempts=1):
            raise AssertionError("was let in")
    except pika.exceptions.ProbableAuthenticationError as error:
        assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker " \
               "logfile." in str(error), str(error)


@check
def unknown_vhost_is_refused_with_a_close():
    try:
        with connected(virtual_host="zzz", connection_attempts=1):
            raise AssertionError("was let in")
    except pika.exceptions.ProbableAccessDeniedError as error:
        assert "(530) 'NOT_ALLOWED - vhost zzz not found'" in str(error), str(error)


@check
def every_property_comes_back():
    sent = dict(content_type="text/plain", content_encoding="utf-8", delivery_mode=2, priority=3, correlation_id="c",
                reply_to="r", expiration="60000", message_id="m", timestamp=1700000000, type="t", user_id="guest",
                app_id="a", cluster_id="x",
                headers={"s": "text", "i": 1, "l": 1 << 40, "t": True, "n": None, "x": b"\x00\xff", "f": {"a": {"b": "c"}},
                         "a": [1, "two", [3]], "d": decimal.Decimal("1.25"),
                         "T": datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)})
    with channel() as ch:
        q = ch.queue_declare("", exclusive=True).method.queue
        put(ch, q, "all", **sent)
        method, got, body = take(ch, q)
        equal((method.exchange, method.routing_key, method.redelivered, body), ("", q, False, b"all"))
        for key, value in sent.items():
            there = getattr(got, key)
            if key == "headers":
                equal(list(there), list(value), "order of the headers")
                value = {**value, "T": None}
                there = {**there, "T": None}
            equal(there, value, key)


@check
def no_property_stays_no_property():
    with channel() as ch:
        q = ch.queue_declare("", exclusive=True).method.queue
        ch.basic_publish("", q, b"")
        _, got, body = take(ch, q)
        equal(body, b"")
        equal({k: v for k, v in vars(got).items() if v is not None}, {})


@check
def bodies_of_every_size_arrive_whole():
    for frame_max in [4096, 131072]:
        with channel(frame_max=frame_max) as ch:
            q = ch.queue_declare("", exclusive=True).method.queue
            for size in [1, frame_max - 8, frame_max - 7, 3 * (frame_max - 8), 1_000_000]:
                body = bytes(i * 7 % 251 for i in range(size))
                put(ch, q, body)
                equal(take(ch, q)[2] == body, True, f"body of {size} bytes in frames of {frame_max}")


@check
def confirms_come_for_routed_and_unroutable():
    with channel() as ch:
        ch.confirm_delivery()
        q = ch.queue_declare("", exclusive=True).method.queue
        for mode in [1, 2]:
            put(ch, q, "x", delivery_mode=mode)
        put(ch, "nobody", "x")
        equal(bodies(ch, q, 2), ["x", "x"])


@check
def mandatory_comes_back_with_its_content():
    with channel() as ch:
        ch.confirm_delivery()
        try:
            ch.basic_publish("amq.direct", "nobody", b"home", pika.BasicProperties(message_id="m1"), mandatory=True)
            raise AssertionError("was taken")
        except pika.exceptions.UnroutableError as error:
            message = error.messages[0]
            m = message.method
            equal((m.reply_code, m.reply_text, m.exchange, m.routing_key), (312, "NO_ROUTE", "amq.direct", "nobody"))
            equal((message.properties.message_id, message.body), ("m1", b"home"))


@check
def mandatory_without_confirms_comes_back():
    with channel() as ch:
        returned = []
        ch.add_on_return_callback(lambda c, m, p, b: returned.append((m.reply_code, b)))
        ch.basic_publish("", "nobody-" + name(), b"x", mandatory=True)
        until(ch, lambda: returned, [(312, b"x")])


@check
def overflow_reject_publish_is_nacked():
    with channel() as ch:
        ch.confirm_delivery()
        q = name()
        ch.queue_declare(q, exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
        put(ch, q, "1")
        try:
            put(ch, q, "2")
            raise AssertionError("was confirmed")
        except pika.exceptions.NackError:
            pass
        equal(bodies(ch, q, 1), ["1"])


@check
def get_counts_what_remains():
    with channel() as ch:
        q = ch.queue_declare("", exclusive=True).method.queue
        put(ch, q, "1", "2", "3")
        for remaining, tag in [(2, 1), (1, 2), (0, 3)]:
            method, _, _ = take(ch, q, auto_ack=False)
            equal((method.message_count, method.delivery_tag), (remaining, tag))
        empty(ch, q)
        ch.basic_ack(3, multiple=True)


@check
def transaction_publishes_at_commit_and_forgets_at_rollback():
    with channel() as ch:
        q = ch.queue_declare("", exclusive=True).method.queue
        ch.tx_select()
        put(ch, q, "1", "2")
        empty(ch, q)
        ch.tx_commit()
        equal(ch.queue_declare(q, passive=True).method.message_count, 2)
        put(ch, q, "3")
        ch.tx_rollback()
        ch.tx_commit()
        equal(ch.queue_declare(q, passive=True).method.message_count, 2)


@check
def acks_in_a_transaction_wait_for_the_commit():
    q = name()
    with channel() as ch:
        ch.queue_declare(q)
        put(ch, q, "1")
        ch.tx_select()
        method, _, _ = take(ch, q, auto_ack=False)
        ch.basic_ack(method.delivery_tag)
        ch.tx_rollback()
        ch.basic_nack(method.delivery_tag, requeue=True)
        ch.tx_commit()
        method, _, _ = take(ch, q, auto_ack=False)
        equal(method.redelivered, True)
        ch.basic_ack(method.delivery_tag)
        ch.tx_commit()
    with channel() as ch:
        equal(ch.queue_delete(q).method.message_count, 0)


@check
def direct_reply_to_answers_without_a_queue():
    q = name()
    with channel() as asker, channel() as answerer:
        answerer.queue_declare(q)
        answers = []
        consume(asker, "amq.rabbitmq.reply-to", answers, auto_ack=True)
        put(asker, q, "question", reply_to="amq.rabbitmq.reply-to", correlation_id="7")
        method, properties, _ = take(answerer, q)
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to."), properties.reply_to
        equal(answerer.queue_declare(properties.reply_to, passive=True).method.consumer_count, 1)
        put(answerer, properties.reply_to, "answer", correlation_id=properties.correlation_id)
        until(asker, lambda: [(p.correlation_id, b) for _, p, b in answers], [("7", b"answer")])
        equal((answers[0][0].exchange, answers[0][0].routing_key), ("", properties.reply_to))
        answerer.queue_delete(q)
    refused(lambda ch: ch.basic_consume("amq.rabbitmq.reply-to", lambda *_: None), 406,
            "PRECONDITION_FAILED - reply consumer cannot acknowledge")
    refused(lambda ch: put(ch, "x", "x", reply_to="amq.rabbitmq.reply-to"), 406,
            "PRECONDITION_FAILED - fast reply consumer does not exist")


@check
def heartbeats_keep_an_idle_connection():
    with channel(heartbeat=1) as ch:
        ch.connection.sleep(3.5)
        ch.queue_declare("", exclusive=True)


@check
def secret_can_be_updated():
    with connected() as connection:
        connection.update_secret("anything", "rotation")
        connection.channel().close()


@check
def many_channels_open_and_close():
    with connected() as connection:
        channels = [connection.channel() for _ in range(200)]
        for ch in channels[::2]:
            ch.close()
        again = [connection.channel() for _ in range(100)]
        equal(len({c.channel_number for c in channels[1::2] + again}), 200)


@check
def channel_above_the_limit_is_refused():
    try:
        with connected(channel_max=3) as connection:
            for number in [1, 2, 3]:
                connection.channel(number)
            connection.channel()
            raise AssertionError("a fourth channel was opened")
    except pika.exceptions.NoFreeChannels:
        pass


@check
def closing_twice_and_reopening_leaves_nothing():
    q = name()
    for _ in range(20):
        with channel() as ch:
            ch.queue_declare(q, exclusive=True)
            put(ch, q, "x")
            equal(bodies(ch, q, 1), ["x"])
