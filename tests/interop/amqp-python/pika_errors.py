"""Refusals: code, text and scope of each, as clients and their tests compare them."""
import pika
from checks import check, equal, name
from session import channel, connected, put, refused, take

FAILED = "PRECONDITION_FAILED - "
NONE = lambda *_: None


def invalid(argument, value, reason):
    q = name()
    refused(lambda ch: ch.queue_declare(q, exclusive=True, arguments={argument: value}), 406,
            f"{FAILED}invalid arg '{argument}' for queue '{q}' in vhost '/': {reason}")


@check
def bad_queue_arguments():
    invalid("x-message-ttl", "10", '"expected integer, got longstr"')
    invalid("x-message-ttl", -1, "{value_negative,-1}")
    invalid("x-expires", 0, "{value_zero,0}")
    invalid("x-overflow", "bounce", "invalid_overflow")
    invalid("x-queue-type", "foo", "\"unsupported queue type 'foo'\"")
    invalid("x-max-priority", 300, "{max_value_exceeded,300}")
    invalid("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined")


@check
def arguments_that_a_queue_type_does_not_have():
    q = name()
    quorum, stream = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}
    for kind in (quorum, stream):
        refused(lambda ch: ch.queue_declare(q, arguments=kind), 406,
                f"{FAILED}invalid property 'non-durable' for queue '{q}' in vhost '/'")
        refused(lambda ch: ch.queue_declare(q, durable=True, exclusive=True, arguments=kind), 406,
                f"{FAILED}invalid property 'exclusive-owner' for queue '{q}' in vhost '/'")
        refused(lambda ch: ch.queue_declare(q, durable=True, auto_delete=True, arguments=kind), 406,
                f"{FAILED}invalid property 'auto-delete' for queue '{q}' in vhost '/'")
    refused(lambda ch: ch.queue_declare(q, durable=True, arguments={**quorum, "x-max-priority": 5}), 406,
            f"{FAILED}invalid arg 'x-max-priority' for queue '{q}' in vhost '/' of queue type rabbit_quorum_queue")
    refused(lambda ch: ch.queue_declare(q, durable=True, arguments={**stream, "x-message-ttl": 5}), 406,
            f"{FAILED}invalid arg 'x-message-ttl' for queue '{q}' in vhost '/' of queue type rabbit_stream_queue")
    refused(lambda ch: ch.queue_declare("", durable=True, arguments=quorum), 406,
            f"{FAILED}Cannot declare a server-named queue for type rabbit_quorum_queue")


@check
def redeclared_queue_must_be_the_same():
    q = name()
    with channel() as owner:
        owner.queue_declare(q, arguments={"x-message-ttl": 1000})
        same = f"{FAILED}inequivalent arg '%s' for queue '{q}' in vhost '/': "
        refused(lambda ch: ch.queue_declare(q, durable=True, arguments={"x-message-ttl": 1000}), 406,
                same % "durable" + "received 'true' but current is 'false'")
        refused(lambda ch: ch.queue_declare(q, auto_delete=True, arguments={"x-message-ttl": 1000}), 406,
                same % "auto_delete" + "received 'true' but current is 'false'")
        refused(lambda ch: ch.queue_declare(q, arguments={"x-message-ttl": 2000}), 406,
                same % "x-message-ttl" + "received '2000' but current is '1000'")
        refused(lambda ch: ch.queue_declare(q), 406,
                same % "x-message-ttl" + "received none but current is the value '1000' of type 'signedint'")
        refused(lambda ch: ch.queue_declare(q, arguments={"x-message-ttl": 1000, "x-expires": 90000}), 406,
                same % "x-expires" + "received the value '90000' of type 'signedint' but current is none")
        refused(lambda ch: ch.queue_declare(q, durable=True, arguments={"x-message-ttl": 1000, "x-queue-type": "quorum"}),
                406, same % "durable" + "received 'true' but current is 'false'")
        owner.queue_declare(q, arguments={"x-message-ttl": 1000, "x-queue-type": "classic"})
        owner.queue_declare(q, arguments={"x-message-ttl": 1000, "something": "else"})
        owner.queue_delete(q)


@check
def redeclared_exchange_must_be_the_same():
    same = FAILED + "inequivalent arg '%s' for exchange 'amq.direct' in vhost '/': "
    refused(lambda ch: ch.exchange_declare("amq.direct", "fanout", durable=True), 406,
            same % "type" + "received 'fanout' but current is 'direct'")
    refused(lambda ch: ch.exchange_declare("amq.direct", "direct"), 406,
            same % "durable" + "received 'false' but current is 'true'")


@check
def missing_things():
    nq, nx = name(), name("x")
    no_queue, no_exchange = f"NOT_FOUND - no queue '{nq}' in vhost '/'", f"NOT_FOUND - no exchange '{nx}' in vhost '/'"
    for run in [lambda ch: ch.queue_declare(nq, passive=True), lambda ch: ch.queue_purge(nq), lambda ch: ch.basic_get(nq),
                lambda ch: ch.basic_consume(nq, NONE), lambda ch: ch.queue_bind(nq, "amq.direct", "k")]:
        refused(run, 404, no_queue)
    for run in [lambda ch: ch.exchange_declare(nx, passive=True), lambda ch: put(ch, "k", "x", exchange=nx),
                lambda ch: ch.queue_bind(ch.queue_declare("", exclusive=True).method.queue, nx, "k"),
                lambda ch: ch.exchange_bind("amq.direct", nx, "k"), lambda ch: ch.exchange_bind(nx, "amq.direct", "k")]:
        refused(run, 404, no_exchange)
    refused(lambda ch: ch.queue_purge(""), 404, "NOT_FOUND - no previously declared queue")
    with channel() as ch:
        q = ch.queue_declare("", exclusive=True).method.queue
        ch.queue_unbind(q, "amq.direct", "never bound")
        ch.queue_unbind(q, nx, "k")
        ch.exchange_delete(nx)
        ch.queue_delete(nq)
        ch.basic_cancel("no such tag")


@check
def reserved_names():
    refused(lambda ch: ch.queue_declare("amq.foo"), 403,
            "ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'")
    refused(lambda ch: ch.exchange_declare("amq.foo", "direct"), 403,
            "ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'")
    refused(lambda ch: ch.exchange_delete("amq.direct"), 403,
            "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed")


@check
def default_exchange_is_untouchable():
    text = "ACCESS_REFUSED - operation not permitted on the default exchange"
    with channel() as owner:
        q = name()
        owner.queue_declare(q)
        for run in [lambda ch: ch.queue_bind(q, "", "k"), lambda ch: ch.queue_unbind(q, "", "k"),
                    lambda ch: ch.exchange_delete(""), lambda ch: ch.exchange_bind("amq.direct", "", "k")]:
            refused(run, 403, text)
        owner.queue_delete(q)


@check
def unknown_exchange_type():
    # as RabbitMQ 4 does; 3.10 closes the connection with 503
    refused(lambda ch: ch.exchange_declare(name("x"), "foo"), 406, f"{FAILED}unknown exchange type 'foo'")


@check
def internal_exchange_takes_no_publish():
    x = name("x")
    with channel() as ch:
        ch.exchange_declare(x, "fanout", internal=True)
        refused(lambda c: put(c, "k", "x", exchange=x), 403,
                f"ACCESS_REFUSED - cannot publish to internal exchange '{x}' in vhost '/'")
        ch.exchange_delete(x)


@check
def bad_properties():
    refused(lambda ch: put(ch, "k", "x", expiration="abc"), 406, FAILED + "invalid expiration 'abc': no_integer")
    refused(lambda ch: put(ch, "k", "x", expiration="-1"), 406, FAILED + "invalid expiration '-1': {value_negative,-1}")
    refused(lambda ch: put(ch, "k", "x", user_id="bob"), 406,
            FAILED + "user_id property set to 'bob' but authenticated user was 'guest'")
    refused(lambda ch: put(ch, "k", "x", headers={"CC": "text"}), 406,
            FAILED + 'invalid message: {unacceptable_type_in_header,"CC",longstr}')


@check
def unknown_delivery_tags():
    for run in [lambda ch: ch.basic_ack(99), lambda ch: ch.basic_nack(99), lambda ch: ch.basic_reject(99),
                lambda ch: ch.basic_ack(99, multiple=True)]:
        refused(run, 406, FAILED + "unknown delivery tag 99")
    refused(lambda ch: ch.basic_ack(0), 406, FAILED + "unknown delivery tag 0")

    def twice(ch):
        q = ch.queue_declare("", exclusive=True).method.queue
        put(ch, q, "x")
        tag = take(ch, q, auto_ack=False)[0].delivery_tag
        ch.basic_ack(tag)
        ch.basic_ack(tag)
    refused(twice, 406, FAILED + "unknown delivery tag 1")
    with channel() as ch:
        ch.basic_ack(0, multiple=True)
        ch.basic_nack(0, multiple=True)
        ch.queue_declare("", exclusive=True)


@check
def deleting_what_is_used():
    q, x = name(), name("x")
    with channel() as ch:
        ch.queue_declare(q)
        ch.exchange_declare(x, "direct")
        ch.queue_bind(q, x, "k")
        refused(lambda c: c.exchange_delete(x, if_unused=True), 406, f"{FAILED}exchange '{x}' in vhost '/' in use")
        put(ch, q, "x")
        refused(lambda c: c.queue_delete(q, if_empty=True), 406, f"{FAILED}queue '{q}' in vhost '/' not empty")
        ch.basic_consume(q, NONE)
        refused(lambda c: c.queue_delete(q, if_unused=True), 406, f"{FAILED}queue '{q}' in vhost '/' in use")
        ch.queue_delete(q)
        ch.exchange_delete(x)


@check
def consumers_that_exclude_each_other():
    q = name()
    text = f"ACCESS_REFUSED - queue '{q}' in vhost '/' in exclusive use"
    with channel() as ch:
        ch.queue_declare(q)
        tag = ch.basic_consume(q, NONE, exclusive=True)
        refused(lambda c: c.basic_consume(q, NONE), 403, text)
        ch.basic_cancel(tag)
        ch.basic_consume(q, NONE)
        refused(lambda c: c.basic_consume(q, NONE, exclusive=True), 403, text)
        ch.queue_delete(q)


@check
def not_implemented_ends_the_connection():
    gone = dict(whole_connection=True)
    refused(lambda ch: ch.basic_qos(prefetch_size=10), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)", **gone)
    refused(lambda ch: ch.basic_recover(requeue=False), 540, "NOT_IMPLEMENTED - requeue=false", **gone)
    refused(lambda ch: ch.flow(False), 540, "NOT_IMPLEMENTED - active=false", **gone)


@check
def stream_refusals():
    q = name()
    with channel() as ch:
        ch.queue_declare(q, durable=True, arguments={"x-queue-type": "stream"})
        refused(lambda c: c.basic_consume(q, NONE), 406,
                f"{FAILED}consumer prefetch count is not set for 'queue '{q}' in vhost '/''")
        refused(lambda c: c.basic_get(q), 540,
                f"NOT_IMPLEMENTED - basic.get not supported by stream queues queue '{q}' in vhost '/'", whole_connection=True)
        refused(lambda c: c.queue_purge(q), 540,
                f"NOT_IMPLEMENTED - queue.purge not supported by stream queues queue '{q}' in vhost '/'",
                whole_connection=True)
        ch.queue_delete(q)


@check
def modes_do_not_mix():
    refused(lambda ch: (ch.tx_select(), ch.confirm_delivery()), 406, FAILED + "cannot switch from tx to confirm mode")
    refused(lambda ch: (ch.confirm_delivery(), ch.tx_select()), 406, FAILED + "cannot switch from confirm to tx mode")
    for run in [lambda ch: ch.tx_commit(), lambda ch: ch.tx_rollback()]:
        refused(run, 406, FAILED + "channel is not transactional")


@check
def error_on_a_channel_leaves_its_neighbours():
    with connected() as connection:
        good, bad = connection.channel(), connection.channel()
        q = good.queue_declare("", exclusive=True).method.queue
        put(good, q, "1")
        take(bad, q, auto_ack=False)
        try:
            bad.queue_declare(name(), passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            pass
        method, _, _ = take(good, q)
        equal(method.redelivered, True)
