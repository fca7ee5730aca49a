"""Consuming and settling: prefetch, acks, requeue order, recover, cancel, priorities among consumers."""
import pika
from checks import check, equal, name
from session import bodies, channel, connected, consume, count, empty, put, quiet, take, until


def texts(got):
    return [b.decode() for _, _, b in got]


def queue_of(ch, *messages, **more):
    q = ch.queue_declare("", exclusive=True, **more).method.queue
    put(ch, q, *messages)
    return q


@check
def consumer_gets_all_in_order():
    with channel() as ch:
        q, got = queue_of(ch), []
        tag = consume(ch, q, got)
        wanted = [str(n) for n in range(300)]
        put(ch, q, *wanted)
        until(ch, lambda: texts(got), wanted)
        equal([m.delivery_tag for m, _, _ in got], list(range(1, 301)))
        equal({m.consumer_tag for m, _, _ in got}, {tag})
        ch.basic_ack(0, multiple=True)
        ch.basic_cancel(tag)
        equal(count(ch, q), 0)


@check
def chosen_consumer_tag_is_kept():
    with connected() as connection:
        ch = connection.channel()
        q, answers = queue_of(ch), []
        impl = ch._impl
        impl.basic_consume(q, lambda *_: None, consumer_tag="mine", callback=answers.append)
        until(ch, lambda: [a.method.consumer_tag for a in answers], ["mine"])


@check
def prefetch_per_consumer_bounds_each():
    with channel() as ch:
        q, one, two = queue_of(ch), [], []
        ch.basic_qos(prefetch_count=2)
        consume(ch, q, one)
        ch.basic_qos(prefetch_count=3)
        consume(ch, q, two)
        put(ch, q, *[str(n) for n in range(20)])
        until(ch, lambda: (len(one), len(two)), (2, 3))
        quiet(ch)
        equal((len(one), len(two)), (2, 3))
        ch.basic_ack(one[0][0].delivery_tag)
        until(ch, lambda: len(one), 3)
        quiet(ch)
        equal((len(one), len(two)), (3, 3))


@check
def global_prefetch_bounds_the_channel():
    with channel() as ch:
        q, one, two = queue_of(ch), [], []
        ch.basic_qos(prefetch_count=4, global_qos=True)
        consume(ch, q, one)
        consume(ch, q, two)
        put(ch, q, *[str(n) for n in range(20)])
        until(ch, lambda: len(one) + len(two), 4)
        quiet(ch)
        equal(len(one) + len(two), 4)
        ch.basic_ack(0, multiple=True)
        until(ch, lambda: len(one) + len(two), 8)


@check
def both_limits_hold_together():
    with channel() as ch:
        q, one, two = queue_of(ch), [], []
        ch.basic_qos(prefetch_count=2)
        ch.basic_qos(prefetch_count=3, global_qos=True)
        consume(ch, q, one)
        consume(ch, q, two)
        put(ch, q, *[str(n) for n in range(9)])
        until(ch, lambda: len(one) + len(two), 3)
        quiet(ch)
        equal((len(one) + len(two), max(len(one), len(two))), (3, 2))


@check
def raised_prefetch_lets_more_through():
    with channel() as ch:
        q, got = queue_of(ch), []
        ch.basic_qos(prefetch_count=1, global_qos=True)
        consume(ch, q, got)
        put(ch, q, *"12345")
        until(ch, lambda: len(got), 1)
        ch.basic_qos(prefetch_count=4, global_qos=True)
        until(ch, lambda: len(got), 4)


@check
def no_ack_consumers_ignore_the_prefetch():
    with channel() as ch:
        q, got = queue_of(ch), []
        ch.basic_qos(prefetch_count=1)
        consume(ch, q, got, auto_ack=True)
        put(ch, q, *"12345")
        until(ch, lambda: texts(got), list("12345"))


@check
def consumers_take_turns():
    with channel() as ch:
        q, one, two = queue_of(ch), [], []
        consume(ch, q, one, auto_ack=True)
        consume(ch, q, two, auto_ack=True)
        put(ch, q, *[str(n) for n in range(10)])
        until(ch, lambda: len(one) + len(two), 10)
        equal((len(one), len(two)), (5, 5))


@check
def higher_priority_consumer_goes_first():
    with channel() as ch:
        q, low, high = queue_of(ch), [], []
        ch.basic_qos(prefetch_count=2)
        consume(ch, q, low)
        consume(ch, q, high, arguments={"x-priority": 10})
        put(ch, q, *"123")
        until(ch, lambda: (texts(high), texts(low)), (["1", "2"], ["3"]))


@check
def requeued_messages_take_their_old_places():
    with channel() as ch:
        q = queue_of(ch, *"01234")
        tags = [take(ch, q, auto_ack=False)[0].delivery_tag for _ in range(3)]
        ch.basic_ack(tags[2])
        ch.basic_nack(tags[1], requeue=True)
        ch.basic_nack(tags[0], requeue=True)
        got = [take(ch, q) for _ in range(4)]
        equal([(b.decode(), m.redelivered) for m, _, b in got],
              [("0", True), ("1", True), ("3", False), ("4", False)])


@check
def nack_multiple_settles_up_to_its_tag():
    with channel() as ch:
        q = queue_of(ch, *"0123")
        for _ in range(4):
            last = take(ch, q, auto_ack=False)[0].delivery_tag
        ch.basic_nack(last - 1, multiple=True, requeue=True)
        equal(bodies(ch, q, 3), ["0", "1", "2"])
        empty(ch, q)
        ch.basic_ack(last)


@check
def reject_drops_or_requeues():
    with channel() as ch:
        q = queue_of(ch, "0", "1")
        ch.basic_reject(take(ch, q, auto_ack=False)[0].delivery_tag, requeue=False)
        ch.basic_reject(take(ch, q, auto_ack=False)[0].delivery_tag, requeue=True)
        method, _, body = take(ch, q)
        equal((method.redelivered, body), (True, b"1"))
        empty(ch, q)


@check
def recover_redelivers_everything_unacked():
    with channel() as ch:
        q, got = queue_of(ch), []
        consume(ch, q, got)
        put(ch, q, *"123")
        until(ch, lambda: texts(got), list("123"))
        ch.basic_recover(requeue=True)
        until(ch, lambda: texts(got), list("123123"))
        equal([m.redelivered for m, _, _ in got], [False] * 3 + [True] * 3)
        equal([m.delivery_tag for m, _, _ in got], [1, 2, 3, 4, 5, 6])


@check
def closed_channel_gives_back_what_it_held():
    with connected() as connection:
        first, second = connection.channel(), connection.channel()
        q = queue_of(first, *"123")
        for _ in range(2):
            take(first, q, auto_ack=False)
        first.close()
        got = [take(second, q) for _ in range(3)]
        equal([(b.decode(), m.redelivered) for m, _, b in got], [("1", True), ("2", True), ("3", False)])


@check
def closed_connection_gives_back_what_it_held():
    q = name()
    with channel() as ch:
        with channel() as other:
            other.queue_declare(q)
            put(other, q, "1", "2")
            consume(other, q, into := [])
            until(other, lambda: texts(into), ["1", "2"])
        got = [take(ch, q) for _ in range(2)]
        equal([(b.decode(), m.redelivered) for m, _, b in got], [("1", True), ("2", True)])
        ch.queue_delete(q)


@check
def cancelled_consumer_keeps_its_unacked():
    with channel() as ch:
        q, got = queue_of(ch), []
        ch.basic_qos(prefetch_count=2)
        tag = consume(ch, q, got)
        put(ch, q, *"1234")
        until(ch, lambda: texts(got), ["1", "2"])
        ch.basic_cancel(tag)
        equal(count(ch, q), 2)
        ch.basic_ack(got[0][0].delivery_tag)
        ch.basic_nack(got[1][0].delivery_tag, requeue=True)
        equal(bodies(ch, q, 3), ["2", "3", "4"])


@check
def deleted_queue_cancels_its_consumers():
    q = name()
    with channel() as ch, channel() as other:
        ch.queue_declare(q)
        cancelled = []
        ch.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        tag = consume(ch, q, [])
        other.queue_delete(q)
        until(ch, lambda: cancelled, [tag])
        # the channel goes on
        ch.queue_declare("", exclusive=True)


@check
def same_tag_on_two_connections_is_two_consumers():
    q = name()
    with channel() as one, channel() as two:
        one.queue_declare(q)
        got_one, got_two = [], []
        consume(one, q, got_one, auto_ack=True, consumer_tag="same")
        consume(two, q, got_two, auto_ack=True, consumer_tag="same")
        put(one, q, *"123456")

        def both():
            two.connection.process_data_events(time_limit=0.02)
            return len(got_one), len(got_two)
        until(one, both, (3, 3))
        one.queue_delete(q)


@check
def delivery_tags_belong_to_their_channel():
    with connected() as connection:
        one, two = connection.channel(), connection.channel()
        q = queue_of(one, "1", "2")
        equal(take(one, q, auto_ack=False)[0].delivery_tag, 1)
        equal(take(two, q, auto_ack=False)[0].delivery_tag, 1)
        one.basic_ack(1)
        two.basic_nack(1, requeue=True)
        equal(bodies(one, q, 1), ["2"])


@check
def gets_do_not_count_against_a_global_limit():
    with channel() as ch:
        q, got = queue_of(ch, "0"), []
        ch.basic_qos(prefetch_count=1, global_qos=True)
        method, _, _ = take(ch, q, auto_ack=False)
        consume(ch, q, got)
        put(ch, q, "1", "2")
        until(ch, lambda: texts(got), ["1"])
        ch.basic_ack(method.delivery_tag)
        quiet(ch)
        equal(texts(got), ["1"])
