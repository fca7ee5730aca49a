"""Queues: names, exclusiveness, lifetime, every argument, dead letters, the three types."""
import time
import pika
from checks import check, equal, name
from session import bodies, channel, connected, consume, count, empty, put, quiet, refused, take, until

LOCKED = ("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{0}' in vhost '/'. It could be originally "
          "declared on another connection or the exclusive property value does not match that of the original declaration.")


def declare(ch, **arguments):
    return ch.queue_declare(name(), exclusive=True,
                            arguments={"x-" + key.replace("_", "-"): value for key, value in arguments.items()}).method.queue


def missing(q):
    refused(lambda ch: ch.queue_declare(q, passive=True), 404, f"NOT_FOUND - no queue '{q}' in vhost '/'")


@check
def server_names_a_queue():
    with channel() as ch:
        one, two = (ch.queue_declare("", exclusive=True).method.queue for _ in range(2))
        for q in (one, two):
            assert q.startswith("amq.gen-") and len(q) == 30, q
        assert one != two
        # the empty name is the last one declared here
        put(ch, two, "x")
        equal(take(ch, "")[2], b"x")
        ch.queue_bind("", "amq.direct")
        put(ch, two, "bound", exchange="amq.direct")
        equal(take(ch, two)[2], b"bound")


@check
def exclusive_queue_is_its_connections_own():
    q = name()
    with channel() as ch:
        ch.queue_declare(q, exclusive=True)
        for run in [lambda c: c.queue_declare(q, exclusive=True), lambda c: c.queue_declare(q, passive=True),
                    lambda c: c.basic_consume(q, lambda *_: None), lambda c: c.basic_get(q), lambda c: c.queue_purge(q),
                    lambda c: c.queue_delete(q), lambda c: c.queue_bind(q, "amq.direct", "k")]:
            refused(run, 405, LOCKED.format(q))
        with channel() as other:
            put(other, q, "for all")
        equal(take(ch, q)[2], b"for all")
    with channel() as ch:
        ch.queue_declare(q)
        ch.queue_delete(q)


@check
def auto_delete_queue_goes_with_its_last_consumer():
    q = name()
    with channel() as ch:
        ch.queue_declare(q, auto_delete=True)
        put(ch, q, "1")
        equal(take(ch, q)[2], b"1")
        equal(count(ch, q), 0)
        tags = [consume(ch, q, []) for _ in range(2)]
        ch.basic_cancel(tags[0])
        equal(ch.queue_declare(q, passive=True).method.consumer_count, 1)
        ch.basic_cancel(tags[1])
        missing(q)


@check
def delete_and_purge_count_ready_messages():
    q = name()
    with channel() as ch:
        ch.confirm_delivery()
        ch.queue_declare(q)
        put(ch, q, "1", "2", "3")
        take(ch, q, auto_ack=False)
        equal(ch.queue_purge(q).method.message_count, 2)
        put(ch, q, "4")
        equal(ch.queue_delete(q).method.message_count, 1)
        equal(ch.queue_delete(q).method.message_count, 0)


@check
def message_ttl_of_the_queue():
    with channel() as ch:
        ch.confirm_delivery()
        q = declare(ch, message_ttl=80)
        put(ch, q, "1")
        until(ch, lambda: count(ch, q), 0)
        empty(ch, q)


@check
def lower_of_both_ttls_wins():
    with channel() as ch:
        ch.confirm_delivery()
        q = declare(ch, message_ttl=60000)
        put(ch, q, "short", expiration="50")
        until(ch, lambda: count(ch, q), 0)
        q = declare(ch, message_ttl=50)
        put(ch, q, "long", expiration="60000")
        until(ch, lambda: count(ch, q), 0)


@check
def expiration_zero_needs_a_waiting_consumer():
    with channel() as ch:
        q, got = declare(ch), []
        put(ch, q, "gone", expiration="0")
        empty(ch, q)
        consume(ch, q, got, auto_ack=True)
        put(ch, q, "seen", expiration="0")
        until(ch, lambda: [b for _, _, b in got], [b"seen"])


@check
def unused_queue_expires():
    q = name()
    with channel() as ch:
        ch.queue_declare(q, arguments={"x-expires": 150})
        tag = consume(ch, q, [])
        quiet(ch, 0.4)
        equal(count(ch, q), 0)
        ch.basic_cancel(tag)
        quiet(ch, 0.5)
        missing(q)


@check
def full_queue_drops_its_head():
    with channel() as ch:
        ch.confirm_delivery()
        q = declare(ch, max_length=3)
        put(ch, q, *"12345")
        equal((count(ch, q), bodies(ch, q, 3)), (3, ["3", "4", "5"]))
        q = declare(ch, max_length_bytes=10)
        put(ch, q, "aaaa", "bbbb", "cccc")
        equal(bodies(ch, q, 2), ["bbbb", "cccc"])


@check
def priorities_order_the_queue():
    with channel() as ch:
        q = declare(ch, max_priority=5)
        for body, priority in [("a0", None), ("b3", 3), ("c5", 5), ("d3", 3), ("e9", 9), ("f1", 1)]:
            put(ch, q, body, priority=priority)
        equal(bodies(ch, q, 6), ["c5", "e9", "b3", "d3", "f1", "a0"])


@check
def single_active_consumer_hands_over():
    with channel() as ch:
        q, one, two = declare(ch, single_active_consumer=True), [], []
        first = consume(ch, q, one, auto_ack=True)
        consume(ch, q, two, auto_ack=True)
        put(ch, q, "1", "2", "3")
        until(ch, lambda: (len(one), len(two)), (3, 0))
        ch.basic_cancel(first)
        put(ch, q, "4", "5")
        until(ch, lambda: (len(one), len(two)), (3, 2))


def death(properties):
    entry = properties.headers["x-death"][0]
    return {key: value for key, value in entry.items() if key != "time"}


@check
def rejected_message_is_a_dead_letter():
    with channel() as ch:
        dead = declare(ch)
        q = declare(ch, dead_letter_exchange="", dead_letter_routing_key=dead)
        put(ch, q, "x", message_id="m")
        ch.basic_reject(take(ch, q, auto_ack=False)[0].delivery_tag, requeue=False)
        method, properties, body = take(ch, dead)
        equal((method.exchange, method.routing_key, method.redelivered, body, properties.message_id),
              ("", dead, False, b"x", "m"))
        equal(death(properties), {"count": 1, "reason": "rejected", "queue": q, "exchange": "", "routing-keys": [q]})
        equal(list(properties.headers["x-death"][0]), ["count", "reason", "queue", "time", "exchange", "routing-keys"])
        assert abs(properties.headers["x-death"][0]["time"].timestamp() - time.time()) < 86400 * 2
        for key, value in [("reason", "rejected"), ("queue", q), ("exchange", "")]:
            equal(properties.headers["x-first-death-" + key], value)


@check
def expired_message_is_a_dead_letter_without_its_expiration():
    with channel() as ch:
        dead, q = declare(ch), name()
        x = name("x")
        ch.exchange_declare(x, "fanout", auto_delete=True)
        ch.queue_bind(dead, x)
        q = declare(ch, dead_letter_exchange=x)
        put(ch, q, "x", expiration="30", headers={"mine": 1})
        method, properties, _ = take(ch, dead)
        equal((method.exchange, method.routing_key, properties.expiration), (x, q, None))
        equal(death(properties), {"count": 1, "reason": "expired", "queue": q, "exchange": "", "routing-keys": [q],
                                  "original-expiration": "30"})
        equal(properties.headers["mine"], 1)


@check
def overflow_makes_dead_letters():
    with channel() as ch:
        dead = declare(ch)
        q = declare(ch, max_length=1, dead_letter_exchange="", dead_letter_routing_key=dead)
        put(ch, q, "1", "2")
        _, properties, body = take(ch, dead)
        equal((body, death(properties)["reason"]), (b"1", "maxlen"))
        q = declare(ch, max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="",
                    dead_letter_routing_key=dead)
        put(ch, q, "1", "2")
        _, properties, body = take(ch, dead)
        equal((body, death(properties)["reason"], bodies(ch, q, 1)), (b"2", "maxlen", ["1"]))


@check
def second_death_in_one_place_counts_up():
    with channel() as ch:
        work = name()
        wait = declare(ch, message_ttl=20, dead_letter_exchange="", dead_letter_routing_key=work)
        ch.queue_declare(work, exclusive=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait})
        put(ch, work, "retry")
        for round_ in range(3):
            method, properties, _ = take(ch, work, auto_ack=False)
            deaths = (properties.headers or {}).get("x-death", [])
            equal([(d["queue"], d["reason"], d["count"]) for d in deaths],
                  [(wait, "expired", round_), (work, "rejected", round_)] if round_ else [])
            ch.basic_reject(method.delivery_tag, requeue=False)


@check
def dead_letter_cycle_without_a_reject_ends():
    with channel() as ch:
        ch.confirm_delivery()
        q = name()
        ch.queue_declare(q, exclusive=True, arguments={"x-message-ttl": 20, "x-dead-letter-exchange": "",
                                                       "x-dead-letter-routing-key": q})
        put(ch, q, "x")
        until(ch, lambda: count(ch, q), 0)
        quiet(ch)
        equal(count(ch, q), 0)


@check
def carbon_copies_reach_their_queues():
    with channel() as ch:
        to, cc, bcc = (declare(ch) for _ in range(3))
        put(ch, to, "x", headers={"CC": [cc], "BCC": [bcc], "n": 1})
        for q in (to, cc, bcc):
            equal(take(ch, q)[1].headers, {"CC": [cc], "n": 1})


@check
def quorum_queue_counts_deliveries_and_limits_them():
    q, dead = name(), name()
    with channel() as ch:
        ch.queue_declare(dead, durable=True)
        ch.queue_declare(q, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 2,
                                                     "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
        put(ch, q, "x", delivery_mode=2)
        for earlier in [0, 1, 2]:
            method, properties, _ = take(ch, q, auto_ack=False)
            equal((properties.headers or {}).get("x-delivery-count"), earlier)
            ch.basic_nack(method.delivery_tag, requeue=True)
        _, properties, _ = take(ch, dead)
        equal(death(properties)["reason"], "delivery_limit")
        # a pushed first delivery has no count at all
        ch.confirm_delivery()
        put(ch, q, "y", delivery_mode=2)
        got = []
        tag = consume(ch, q, got)
        until(ch, lambda: [p.headers for _, p, _ in got], [None])
        ch.basic_nack(got[0][0].delivery_tag, requeue=True)
        until(ch, lambda: [p.headers for _, p, _ in got], [None, {"x-delivery-count": 1}])
        ch.basic_ack(got[1][0].delivery_tag)
        ch.basic_cancel(tag)
        ch.queue_delete(q)
        ch.queue_delete(dead)


@check
def stream_is_read_again_from_any_offset():
    q = name()
    with channel() as ch:
        ch.queue_declare(q, durable=True, arguments={"x-queue-type": "stream"})
        ch.confirm_delivery()
        put(ch, q, *[str(n) for n in range(20)])
        ch.basic_qos(prefetch_count=100)
        for offset, first in [("first", 0), (5, 5), (19, 19)]:
            got = []
            tag = consume(ch, q, got, arguments={"x-stream-offset": offset})
            wanted = [(n, str(n).encode()) for n in range(first, 20)]
            until(ch, lambda: [(p.headers["x-stream-offset"], b) for _, p, b in got], wanted)
            ch.basic_ack(0, multiple=True)
            ch.basic_cancel(tag)
        got = []
        consume(ch, q, got, arguments={"x-stream-offset": "next"})
        put(ch, q, "new")
        until(ch, lambda: [b for _, _, b in got], [b"new"])
        ch.queue_delete(q)


@check
def known_arguments_are_taken():
    with channel() as ch:
        declare(ch, queue_mode="lazy", queue_version=2, queue_type="classic", consumer_timeout=3600000,
                queue_master_locator="client-local", anything={"a": [1]})
