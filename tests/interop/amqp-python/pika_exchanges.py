"""Exchanges: each kind's matching, exchange-to-exchange bindings, alternates, lifetimes."""
from checks import check, equal, name
from session import channel, count, empty, put, refused, take


def queue(ch):
    return ch.queue_declare(name(), exclusive=True).method.queue


def exchange(ch, kind, **more):
    x = name("x")
    ch.exchange_declare(x, kind, **{"auto_delete": True, **more})
    return x


@check
def predeclared_exchanges_are_there():
    with channel() as ch:
        for x in ["direct", "fanout", "topic", "headers", "match", "rabbitmq.trace"]:
            ch.exchange_declare("amq." + x, passive=True)
        ch.exchange_declare("amq.direct", "direct", durable=True)


@check
def direct_and_fanout_route():
    with channel() as ch:
        a, b, direct, fanout = queue(ch), queue(ch), exchange(ch, "direct"), exchange(ch, "fanout")
        ch.queue_bind(a, direct, "a")
        ch.queue_bind(b, direct, "b")
        for q in (a, b):
            ch.queue_bind(q, direct, "both")
            ch.queue_bind(q, fanout, "whatever")
        put(ch, "a", "1", exchange=direct)
        put(ch, "both", "2", exchange=direct)
        put(ch, "else", "3", exchange=direct)
        put(ch, "", "4", exchange=fanout)
        equal([take(ch, a)[2] for _ in range(3)], [b"1", b"2", b"4"])
        equal([take(ch, b)[2] for _ in range(2)], [b"2", b"4"])
        empty(ch, a)
        ch.queue_unbind(a, direct, "a")
        put(ch, "a", "5", exchange=direct)
        empty(ch, a)


@check
def topic_patterns_match_words():
    table = {"": ["#", "#.#"], "a.": ["#", "#.#", "*.#"], ".": ["#", "#.#", "*.#"], "a": ["*", "#", "#.#", "*.#", "a.#"],
             "a.b": ["#", "#.#", "*.#", "a.#", "a.*", "*.b", "#.b", "a.#.b"],
             "a.x.y.b": ["#", "#.#", "*.#", "a.#", "#.b", "a.#.b"]}
    patterns = ["*", "#", "#.#", "*.#", "a.#", "a.*", "*.b", "#.b", "a.#.b"]
    with channel() as ch:
        x = exchange(ch, "topic")
        ch.confirm_delivery()
        queues = {}
        for pattern in patterns:
            queues[pattern] = queue(ch)
            ch.queue_bind(queues[pattern], x, pattern)
        for key, wanted in table.items():
            if key == "a.":
                wanted = wanted + ["a.#", "a.*"]
            put(ch, key, key, exchange=x)
            got = [p for p in patterns if count(ch, queues[p]) == 1]
            equal(sorted(got), sorted(wanted), f"patterns that match {key!r}")
            for q in queues.values():
                ch.queue_purge(q)


@check
def headers_match_all_any_and_with_x():
    with channel() as ch:
        x = exchange(ch, "headers")
        ch.confirm_delivery()
        binds = {"all": {"x-match": "all", "a": 1, "b": "t"}, "any": {"x-match": "any", "a": 1, "b": "t"},
                 "default": {"a": 1}, "present": {"x-match": "all", "a": None}, "none-all": {"x-match": "all"},
                 "none-any": {"x-match": "any"}, "x-all": {"x-match": "all", "a": 1, "x-k": 5},
                 "with-x": {"x-match": "all-with-x", "a": 1, "x-k": 5},
                 "any-with-x": {"x-match": "any-with-x", "x-k": 5}}
        queues = {}
        for key, arguments in binds.items():
            queues[key] = queue(ch)
            ch.queue_bind(queues[key], x, "", arguments=arguments)
        for headers, wanted in [
                ({"a": 1, "b": "t"}, ["all", "any", "default", "present", "none-all", "x-all"]),
                ({"a": 1}, ["any", "default", "present", "none-all", "x-all"]),
                ({"a": 2}, ["present", "none-all"]), ({}, ["none-all"]), (None, ["none-all"]),
                ({"a": 1, "x-k": 5}, ["any", "default", "present", "none-all", "x-all", "with-x", "any-with-x"]),
                ({"b": "t", "x-k": 5}, ["any", "none-all", "any-with-x"])]:
            put(ch, "", "m", exchange=x, headers=headers)
            got = [key for key in binds if count(ch, queues[key]) == 1]
            equal(sorted(got), sorted(wanted), f"bindings that match {headers}")
            for q in queues.values():
                ch.queue_purge(q)


@check
def one_queue_gets_one_copy():
    with channel() as ch:
        q, x = queue(ch), exchange(ch, "topic")
        ch.confirm_delivery()
        for pattern in ["#", "a.*", "a.b", "*.b"]:
            ch.queue_bind(q, x, pattern)
        ch.queue_bind(q, x, "#")
        put(ch, "a.b", "1", exchange=x)
        equal(count(ch, q), 1)


@check
def exchanges_feed_exchanges_even_in_a_circle():
    with channel() as ch:
        q, one = queue(ch), exchange(ch, "topic", auto_delete=False)
        two = exchange(ch, "fanout", auto_delete=False, internal=True)
        ch.exchange_bind(two, one, "to.#")
        ch.exchange_bind(one, two)
        ch.queue_bind(q, two)
        put(ch, "to.two", "1", exchange=one)
        equal(take(ch, q)[2], b"1")
        empty(ch, q)
        ch.exchange_unbind(two, one, "to.#")
        put(ch, "to.two", "2", exchange=one)
        empty(ch, q)
        ch.exchange_delete(one)
        ch.exchange_delete(two)


@check
def alternate_exchange_takes_the_unroutable():
    with channel() as ch:
        q, other = queue(ch), queue(ch)
        alternate = exchange(ch, "fanout")
        x = exchange(ch, "direct", arguments={"alternate-exchange": alternate})
        ch.queue_bind(q, x, "known")
        ch.queue_bind(other, alternate)
        ch.confirm_delivery()
        ch.basic_publish(x, "known", b"1", mandatory=True)
        ch.basic_publish(x, "unknown", b"2", mandatory=True)
        equal((take(ch, q)[2], count(ch, q)), (b"1", 0))
        method, _, body = take(ch, other)
        equal((method.exchange, method.routing_key, body), (x, "unknown", b"2"))
        ch.exchange_delete(x)


@check
def auto_delete_exchange_goes_with_its_last_binding():
    with channel() as ch:
        q, x = queue(ch), exchange(ch, "direct")
        ch.exchange_declare(x, passive=True)
        ch.queue_bind(q, x, "k")
        ch.queue_unbind(q, x, "k")
        refused(lambda c: c.exchange_declare(x, passive=True), 404, f"NOT_FOUND - no exchange '{x}' in vhost '/'")


@check
def consistent_hash_keeps_a_key_in_its_queue():
    with channel() as ch:
        x = exchange(ch, "x-consistent-hash")
        ch.confirm_delivery()
        queues = [queue(ch) for _ in range(3)]
        for q in queues:
            ch.queue_bind(q, x, "10")
        keys = [f"key-{n}" for n in range(60)]
        for _ in range(2):
            for key in keys:
                put(ch, key, key, exchange=x)
        seen = {}
        for q in queues:
            number = count(ch, q)
            assert number > 0, "a queue got nothing of 60 keys"
            for _ in range(number):
                equal(seen.setdefault(take(ch, q)[2], q), q, "the queue of a key")
        equal(len(seen), 60)
    refused(lambda c: c.queue_bind(queue(c), exchange(c, "x-consistent-hash"), "abc"), 406,
            'PRECONDITION_FAILED - The binding key must be an integer: <<"abc">>')
