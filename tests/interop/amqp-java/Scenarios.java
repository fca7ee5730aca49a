import com.rabbitmq.client.*;
import java.util.*;
import java.util.concurrent.*;

/** What applications of the RabbitMQ Java client do, over one connection each; prints the totals that the caller reads. */
public final class Scenarios {
    interface Run {
        void with(Connection connection, Channel channel) throws Exception;
    }

    static final ConnectionFactory FACTORY = new ConnectionFactory();
    static int passed, failed;

    static void check(String name, Run run) {
        ExecutorService one = Executors.newSingleThreadExecutor();
        try {
            one.submit(() -> {
                try (Connection connection = FACTORY.newConnection(name)) {
                    run.with(connection, connection.createChannel());
                }
                return null;
            }).get(30, TimeUnit.SECONDS);
            passed++;
        } catch (Exception error) {
            failed++;
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println("FAILED " + name + ": " + cause + (cause.getCause() == null ? "" : ": " + cause.getCause()));
            for (StackTraceElement at : cause.getStackTrace()) {
                if (at.getClassName().startsWith("Scenarios")) System.out.println("    at " + at);
            }
        } finally {
            one.shutdownNow();
        }
    }

    static void equal(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) throw new AssertionError("got " + got + ", expected " + wanted);
    }

    static String name(String what) {
        return what + "-" + UUID.randomUUID().toString().substring(0, 10);
    }

    static String queue(Channel channel, Map<String, Object> arguments) throws Exception {
        return channel.queueDeclare("", false, true, false, arguments).getQueue();
    }

    static GetResponse take(Channel channel, String queue, boolean autoAck) throws Exception {
        for (int i = 0; i < 300; i++) {
            GetResponse got = channel.basicGet(queue, autoAck);
            if (got != null) return got;
            Thread.sleep(10);
        }
        throw new AssertionError("nothing came to " + queue);
    }

    static void refused(Connection connection, int code, String text, ChannelRun run) throws Exception {
        Channel channel = connection.createChannel();
        try {
            run.with(channel);
        } catch (java.io.IOException error) {
            ShutdownSignalException signal = (ShutdownSignalException) error.getCause();
            AMQP.Channel.Close close = (AMQP.Channel.Close) signal.getReason();
            equal(close.getReplyCode() + " " + close.getReplyText(), code + " " + text);
            return;
        }
        throw new AssertionError("was not refused: " + text);
    }

    interface ChannelRun {
        void with(Channel channel) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String address = System.getenv("FRAMEGATE_AMQP");
        FACTORY.setHost(address.substring(0, address.lastIndexOf(':')));
        FACTORY.setPort(Integer.parseInt(address.substring(address.lastIndexOf(':') + 1)));
        FACTORY.setRequestedHeartbeat(10);

        check("server properties", (connection, channel) -> {
            Map<String, Object> capabilities = (Map<String, Object>) connection.getServerProperties().get("capabilities");
            equal(capabilities.get("publisher_confirms"), true);
            equal(connection.getChannelMax(), 2047);
            equal(connection.getFrameMax(), 131072);
        });
        check("publish, confirm, consume, ack", (connection, channel) -> {
            channel.confirmSelect();
            String queue = queue(channel, null);
            for (int n = 0; n < 500; n++) channel.basicPublish("", queue, MessageProperties.PERSISTENT_BASIC, ("" + n).getBytes());
            channel.waitForConfirmsOrDie(10000);
            channel.basicQos(50);
            BlockingQueue<Delivery> got = new LinkedBlockingQueue<>();
            channel.basicConsume(queue, false, (tag, delivery) -> got.add(delivery), tag -> { });
            for (int n = 0; n < 500; n++) {
                Delivery delivery = got.poll(10, TimeUnit.SECONDS);
                equal(new String(delivery.getBody()), "" + n);
                channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
            }
        });
        check("properties and headers of every type come back", (connection, channel) -> {
            String queue = queue(channel, null);
            Map<String, Object> headers = new LinkedHashMap<>();
            headers.put("byte", (byte) -3);
            headers.put("short", (short) -300);
            headers.put("int", 5);
            headers.put("long", 1L << 40);
            headers.put("float", 1.5f);
            headers.put("double", -2.25);
            headers.put("boolean", true);
            headers.put("decimal", new java.math.BigDecimal("1.25"));
            headers.put("date", new Date(1700000000000L));
            headers.put("none", null);
            headers.put("table", Map.of("deep", 7L));
            headers.put("list", List.of(1, (byte) 2, true));
            AMQP.BasicProperties sent = new AMQP.BasicProperties("a/b", "c", headers, 2, 4, "d", "e", "60000", "f",
                new Date(1700000000000L), "g", "guest", "h", "i");
            channel.basicPublish("", queue, sent, "x".getBytes());
            GetResponse got = take(channel, queue, true);
            equal(got.getProps().getHeaders(), headers);
            for (Map.Entry<String, Object> header : headers.entrySet()) {
                Object there = got.getProps().getHeaders().get(header.getKey());
                if (there != null) equal(there.getClass() == header.getValue().getClass() || there instanceof Map || there instanceof List, true);
            }
            equal(got.getProps(), sent);
        });
        check("mandatory message is returned", (connection, channel) -> {
            BlockingQueue<Return> returned = new LinkedBlockingQueue<>();
            channel.addReturnListener(returned::add);
            channel.confirmSelect();
            channel.basicPublish("", name("none"), true, null, "x".getBytes());
            channel.waitForConfirmsOrDie(5000);
            Return back = returned.poll(5, TimeUnit.SECONDS);
            equal(back.getReplyCode() + back.getReplyText() + new String(back.getBody()), "312NO_ROUTEx");
        });
        check("nack of a full queue", (connection, channel) -> {
            channel.confirmSelect();
            String queue = queue(channel, Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
            channel.basicPublish("", queue, null, "1".getBytes());
            equal(channel.waitForConfirms(5000), true);
            channel.basicPublish("", queue, null, "2".getBytes());
            equal(channel.waitForConfirms(5000), false);
        });
        check("cancel notification", (connection, channel) -> {
            String queue = channel.queueDeclare(name("q"), false, false, false, null).getQueue();
            CountDownLatch cancelled = new CountDownLatch(1);
            channel.basicConsume(queue, true, (tag, delivery) -> { }, tag -> cancelled.countDown());
            connection.createChannel().queueDelete(queue);
            equal(cancelled.await(5, TimeUnit.SECONDS), true);
        });
        check("requeue, reject, recover", (connection, channel) -> {
            String queue = queue(channel, null);
            for (String body : List.of("0", "1", "2")) channel.basicPublish("", queue, null, body.getBytes());
            long first = take(channel, queue, false).getEnvelope().getDeliveryTag();
            long second = take(channel, queue, false).getEnvelope().getDeliveryTag();
            channel.basicNack(second, false, true);
            channel.basicReject(first, true);
            equal(new String(take(channel, queue, false).getBody()), "0");
            channel.basicRecover(true);
            GetResponse again = take(channel, queue, false);
            equal(new String(again.getBody()) + again.getEnvelope().isRedeliver(), "0true");
        });
        check("transactions", (connection, channel) -> {
            String queue = queue(channel, null);
            channel.txSelect();
            channel.basicPublish("", queue, null, "x".getBytes());
            equal(channel.messageCount(queue), 0L);
            channel.txRollback();
            channel.basicPublish("", queue, null, "y".getBytes());
            channel.txCommit();
            equal(new String(take(channel, queue, true).getBody()), "y");
        });
        check("direct reply-to by the client's RPC", (connection, channel) -> {
            String queue = queue(channel, null);
            Channel server = connection.createChannel();
            server.basicConsume(queue, true, (tag, request) -> server.basicPublish("", request.getProperties().getReplyTo(),
                new AMQP.BasicProperties.Builder().correlationId(request.getProperties().getCorrelationId()).build(),
                ("re " + new String(request.getBody())).getBytes()), tag -> { });
            RpcClient client = new RpcClient(new RpcClientParams().channel(channel).exchange("").routingKey(queue).timeout(5000));
            for (int n = 0; n < 20; n++) equal(client.stringCall("q" + n), "re q" + n);
            client.close();
        });
        check("exchanges and their bindings", (connection, channel) -> {
            channel.confirmSelect();
            String from = name("x"), to = name("x"), queue = queue(channel, null);
            channel.exchangeDeclare(to, BuiltinExchangeType.FANOUT);
            channel.exchangeDeclare(from, BuiltinExchangeType.TOPIC, false, false, Map.of("alternate-exchange", to));
            channel.exchangeBind(to, from, "a.*");
            channel.queueBind(queue, to, "");
            for (String key : List.of("a.b", "other")) channel.basicPublish(from, key, null, key.getBytes());
            channel.waitForConfirmsOrDie(5000);
            equal(channel.messageCount(queue), 2L);
            channel.exchangeUnbind(to, from, "a.*");
            channel.exchangeDelete(from);
            channel.exchangeDelete(to);
        });
        check("dead letters", (connection, channel) -> {
            String dead = queue(channel, null);
            String queue = queue(channel, Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead, "x-message-ttl", 30));
            channel.basicPublish("", queue, null, "x".getBytes());
            Map<String, Object> headers = take(channel, dead, true).getProps().getHeaders();
            Map<String, Object> death = ((List<Map<String, Object>>) headers.get("x-death")).get(0);
            equal(death.get("count"), 1L);
            equal(death.get("reason").toString() + death.get("queue"), "expired" + queue);
            equal(death.get("time") instanceof Date, true);
        });
        check("refusals", (connection, channel) -> {
            refused(connection, 404, "NOT_FOUND - no queue 'nosuch' in vhost '/'", c -> c.queueDeclarePassive("nosuch"));
            refused(connection, 403, "ACCESS_REFUSED - operation not permitted on the default exchange", c -> c.exchangeDelete(""));
            refused(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.topic' in vhost '/': "
                + "received 'false' but current is 'true'", c -> c.exchangeDeclare("amq.topic", "topic", false));
            String queue = queue(channel, null);
            try (Connection other = FACTORY.newConnection()) {
                refused(other, 405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + queue + "' in vhost '/'. It could be "
                    + "originally declared on another connection or the exclusive property value does not match that of the original declaration.",
                    c -> c.queueDeclarePassive(queue));
            }
        });
        check("wrong password", (connection, channel) -> {
            ConnectionFactory wrong = FACTORY.clone();
            wrong.setPassword("wrong");
            try {
                wrong.newConnection();
                throw new AssertionError("was let in");
            } catch (AuthenticationFailureException error) {
                equal(error.getMessage(), "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.");
            }
        });
        check("large bodies", (connection, channel) -> {
            String queue = queue(channel, null);
            for (int size : new int[] {0, 131064, 131065, 2000000}) {
                byte[] body = new byte[size];
                Arrays.fill(body, (byte) size);
                channel.basicPublish("", queue, null, body);
                equal(Arrays.equals(take(channel, queue, true).getBody(), body), true);
            }
        });
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
