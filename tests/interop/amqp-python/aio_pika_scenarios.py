"""What aio-pika's applications do: robust connections, iterators, confirms in parallel, RPC, transactions."""
import asyncio, logging
import aio_pika
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.patterns import RPC, Master
from checks import HOST, PORT, URL, check, equal, name, run_all

# a cut connection is expected here; its traces would hide what is not
logging.disable(logging.CRITICAL)


async def open_channel(**more):
    connection = await aio_pika.connect(URL)
    return connection, await connection.channel(**more)


@check
async def publishes_in_parallel_are_all_confirmed():
    connection, channel = await open_channel()
    async with connection:
        queue = await channel.declare_queue(exclusive=True)
        await asyncio.gather(*[channel.default_exchange.publish(
            Message(str(n).encode(), delivery_mode=DeliveryMode.PERSISTENT), queue.name) for n in range(500)])
        got = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    got.append(int(message.body))
                if len(got) == 500:
                    break
        equal(got, list(range(500)))


@check
async def failed_processing_requeues_or_drops():
    connection, channel = await open_channel()
    async with connection:
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(Message(b"x"), queue.name)
        for requeue, redelivered in [(True, False), (False, True)]:
            message = await queue.get(timeout=5)
            equal(message.redelivered, redelivered)
            try:
                async with message.process(requeue=requeue):
                    raise ValueError("no")
            except ValueError:
                pass
        equal(await queue.get(fail=False), None)


@check
async def unroutable_mandatory_raises():
    connection, channel = await open_channel(on_return_raises=True)
    async with connection:
        try:
            await channel.default_exchange.publish(Message(b"x"), name(), mandatory=True)
            raise AssertionError("was taken")
        except aio_pika.exceptions.DeliveryError as error:
            equal((error.message.delivery.reply_code, error.message.delivery.reply_text), (312, "NO_ROUTE"))


@check
async def properties_and_headers_come_back():
    connection, channel = await open_channel()
    async with connection:
        queue = await channel.declare_queue(exclusive=True)
        headers = {"i": 5, "big": 1 << 40, "f": 2.5, "b": True, "s": "text", "raw": bytearray(b"\x00\xff"), "n": None,
                   "list": [1, "a", {"b": 2}], "t": {"deep": {"er": 1}}}
        sent = Message(b"x", headers=headers, content_type="a/b", content_encoding="c", priority=4, correlation_id="d",
                       reply_to="e", expiration=60, message_id="f", type="g", user_id="guest", app_id="h",
                       delivery_mode=DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(sent, queue.name)
        got = await queue.get(timeout=5, no_ack=True)
        equal({**got.headers, "raw": bytearray(got.headers["raw"])}, headers)
        for key in ["content_type", "content_encoding", "priority", "correlation_id", "reply_to", "expiration",
                    "message_id", "type", "user_id", "app_id", "delivery_mode"]:
            equal(getattr(got, key), getattr(sent, key), key)


@check
async def each_kind_of_exchange_is_declared_and_bound():
    connection, channel = await open_channel()
    async with connection:
        for kind, key, arguments in [(ExchangeType.DIRECT, "k", None), (ExchangeType.FANOUT, "", None),
                                     (ExchangeType.TOPIC, "a.#", None), (ExchangeType.HEADERS, "", {"h": "v"})]:
            exchange = await channel.declare_exchange(name("x"), kind, auto_delete=True)
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, key, arguments=arguments)
            sent = key.replace("#", "b.c")
            await exchange.publish(Message(b"x", headers={"h": "v"}), sent)
            got = await queue.get(timeout=5, no_ack=True)
            equal((got.exchange, got.routing_key), (exchange.name, sent))
            await queue.unbind(exchange, key, arguments=arguments)


@check
async def prefetch_spreads_work_over_consumers():
    connection, channel = await open_channel()
    async with connection:
        await channel.set_qos(prefetch_count=1)
        queue = await channel.declare_queue(exclusive=True)
        seen, done = {"one": [], "two": []}, asyncio.Event()

        def worker(who):
            async def run(message):
                seen[who].append(message.body)
                await asyncio.sleep(0.01)
                await message.ack()
                if sum(map(len, seen.values())) == 20:
                    done.set()
            return run
        for who in seen:
            await queue.consume(worker(who))
        for n in range(20):
            await channel.default_exchange.publish(Message(str(n).encode()), queue.name)
        await asyncio.wait_for(done.wait(), 10)
        assert min(map(len, seen.values())) >= 5, seen


@check
async def deleted_queue_leaves_the_channel_usable():
    connection, channel = await open_channel()
    async with connection:
        queue = await channel.declare_queue(name())
        await queue.consume(lambda message: None)
        async with await aio_pika.connect(URL) as other:
            await (await other.channel()).queue_delete(queue.name)
        equal((await (await channel.declare_queue(exclusive=True)).purge()).message_count, 0)


@check
async def rpc_pattern_answers_and_raises():
    connection, channel = await open_channel()
    async with connection:
        rpc = await RPC.create(channel)
        method = name("multiply")

        async def multiply(*, x, y):
            return x * y
        await rpc.register(method, multiply, auto_delete=True)
        answers = await asyncio.gather(*[rpc.call(method, kwargs=dict(x=n, y=2)) for n in range(50)])
        equal(answers, [2 * n for n in range(50)])

        async def fails():
            raise KeyError("gone")
        await rpc.register(method + "-2", fails, auto_delete=True)
        try:
            await rpc.call(method + "-2")
            raise AssertionError("did not raise")
        except KeyError:
            pass
        await rpc.close()


@check
async def master_and_workers_share_tasks():
    connection, channel = await open_channel()
    async with connection:
        master, got, done = Master(channel), [], asyncio.Event()
        task = name("task")

        async def work(*, number):
            got.append(number)
            if len(got) == 10:
                done.set()
        worker = await master.create_worker(task, work, auto_delete=True)
        for number in range(10):
            await master.create_task(task, dict(number=number))
        await asyncio.wait_for(done.wait(), 10)
        equal(got, list(range(10)))
        await worker.close()


@check
async def transaction_commits_and_rolls_back():
    connection, channel = await open_channel(publisher_confirms=False)
    async with connection:
        queue = await channel.declare_queue(exclusive=True)
        async with channel.transaction():
            await channel.default_exchange.publish(Message(b"1"), queue.name)
        try:
            async with channel.transaction():
                await channel.default_exchange.publish(Message(b"2"), queue.name)
                raise ValueError("no")
        except ValueError:
            pass
        equal((await queue.get(timeout=5, no_ack=True)).body, b"1")
        equal(await queue.get(fail=False), None)


@check
async def refusal_of_one_channel_is_an_exception_of_its_kind():
    connection, channel = await open_channel()
    async with connection:
        try:
            await channel.declare_queue(name(), passive=True)
            raise AssertionError("there is no such queue")
        except aio_pika.exceptions.ChannelNotFoundEntity:
            pass
        channel = await connection.channel()
        queue = await channel.declare_queue(name(), exclusive=True)
        try:
            await channel.declare_queue(queue.name, exclusive=True, arguments={"x-max-length": 1})
            raise AssertionError("another argument was taken")
        except aio_pika.exceptions.ChannelPreconditionFailed:
            pass


class Cut:
    """A relay in front of the broker whose connections can be cut."""

    async def __aenter__(self):
        self.writers = set()
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def serve(self, reader, writer):
        there, back = await asyncio.open_connection(HOST, PORT)
        self.writers |= {writer, back}

        async def pump(source, sink):
            try:
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()
        await asyncio.gather(pump(reader, back), pump(there, writer))

    def cut(self):
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def __aexit__(self, *_):
        self.cut()
        self.server.close()


@check
async def robust_connection_restores_what_it_declared():
    async with Cut() as relay:
        connection = await aio_pika.connect_robust(f"amqp://guest:guest@127.0.0.1:{relay.port}/", reconnect_interval=0.1)
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name("x"), ExchangeType.TOPIC, auto_delete=True)
        queue = await channel.declare_queue(name(), exclusive=True)
        await queue.bind(exchange, "k.#")
        got = asyncio.Queue()
        await queue.consume(lambda message: got.put(message.body), no_ack=True)
        await exchange.publish(Message(b"before"), "k.1")
        equal(await asyncio.wait_for(got.get(), 10), b"before")
        lost, back = asyncio.Event(), asyncio.Event()
        connection.close_callbacks.add(lambda *_: lost.set())
        connection.reconnect_callbacks.add(lambda *_: back.set())
        relay.cut()
        await asyncio.wait_for(back.wait(), 15)
        for _ in range(50):
            try:
                await exchange.publish(Message(b"after"), "k.2", timeout=2)
                break
            except Exception:
                await asyncio.sleep(0.1)
        equal(await asyncio.wait_for(got.get(), 10), b"after")
        await connection.close()


@check
async def server_ends_a_connection_that_is_silent():
    import struct
    reader, writer = await asyncio.open_connection(HOST, PORT)

    def method(channel, *parts):
        payload = b"".join(parts)
        writer.write(struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce")

    async def answer():
        kind, channel, size = struct.unpack(">BHI", await reader.readexactly(7))
        return await reader.readexactly(size + 1)
    writer.write(b"AMQP\0\0\x09\x01")
    await answer()
    method(0, struct.pack(">HHI", 10, 11, 0), b"\x05PLAIN", struct.pack(">I", 12), b"\0guest\0guest", b"\x05en_US")
    await answer()
    method(0, struct.pack(">HHHIH", 10, 31, 2047, 131072, 1))
    method(0, struct.pack(">HH", 10, 40), b"\x01/\0\0")
    await answer()
    heartbeats = 0
    # one second of heartbeat: the server sends some, then gives up on a peer that sends none
    try:
        while head := await asyncio.wait_for(reader.read(8), 10):
            equal(head, b"\x08\0\0\0\0\0\0\xce")
            heartbeats += 1
    except ConnectionResetError:
        pass
    assert heartbeats >= 1, "no heartbeat came"
    writer.close()


run_all(lambda run: asyncio.run(asyncio.wait_for(run(), 28)))
