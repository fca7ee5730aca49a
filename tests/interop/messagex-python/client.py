"""A second MessageX client, written from the protocol's description alone, and what it must see."""
import base64, json, os, socket, struct, sys, traceback

HOST, PORT = os.environ["FRAMEGATE_MESSAGEX"].rsplit(":", 1)


class Failed(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]


class Client:
    def __init__(self):
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=30)
        self.file = self.socket.makefile("rb")
        self.number = 0
        self.events = []

    def frame(self, payload):
        self.socket.sendall(struct.pack(">I", len(payload)) + payload)

    def read(self):
        head = self.file.read(4)
        if len(head) < 4:
            raise ConnectionError("closed")
        payload = self.file.read(struct.unpack(">I", head)[0])
        message = json.loads(payload)
        assert message["version"] == 1
        return message

    def send(self, command, **payload):
        self.number += 1
        request_id = f"p-{self.number}"
        self.frame(json.dumps({"version": 1, "type": "COMMAND", "command": command,
                               "requestId": request_id, "payload": payload}).encode())
        return request_id

    def response(self, request_id):
        while True:
            message = self.read()
            if message["type"] == "EVENT":
                self.events.append(message)
                continue
            assert message["type"] == "RESPONSE" and message["requestId"] == request_id, message
            if message["success"]:
                assert "error" not in message
                return message["payload"]
            assert "payload" not in message
            raise Failed(message["error"])

    def call(self, command, **payload):
        return self.response(self.send(command, **payload))

    def delivery(self):
        if not self.events:
            message = self.read()
            assert message["type"] == "EVENT", message
            self.events.append(message)
        event = self.events.pop(0)
        assert event["event"] == "MESSAGE_DELIVERED", event
        return event["payload"]


def refused(code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Failed as failure:
        assert failure.code == code, failure
        return
    raise AssertionError(f"expected {code}")


def body_kinds():
    client = Client()
    client.call("QUEUE_DECLARE", name="kinds", durable=True)
    client.call("CONSUME", queueName="kinds", autoAck=True)
    for body in ["text", "", "\u20ac \U0001f600", 1, 1.5, True, None, [1, [2]], {"a": {"b": []}}]:
        client.call("PUBLISH", queueName="kinds", body=body)
        got = client.delivery()
        assert got["body"] == body and type(got["body"]) is type(body), (body, got)
        assert "encoding" not in got
    raw = bytes(range(256))
    client.call("PUBLISH", queueName="kinds", body=base64.b64encode(raw).decode(), encoding="base64")
    got = client.delivery()
    assert got["encoding"] == "base64" and base64.b64decode(got["body"]) == raw


def properties_and_headers():
    client = Client()
    client.call("QUEUE_DECLARE", name="props", durable=True)
    client.call("CONSUME", queueName="props", autoAck=True)
    properties = {"contentType": "application/json", "correlationId": "c1", "replyTo": "answers", "type": "order",
                  "appId": "shop", "priority": 4, "messageId": "m-1", "timestamp": 1700000000000}
    headers = {"text": "x", "number": 7, "float": 1.5, "flag": True, "list": [1, "a"], "table": {"k": "v"}}
    client.call("PUBLISH", queueName="props", body={"n": 1}, properties=properties, headers=headers)
    got = client.delivery()
    for key, value in properties.items():
        assert got["properties"].get(key) == value, (key, got)
    assert got["headers"] == headers and got["messageId"] == "m-1", got


def chunked_input():
    client = Client()
    payloads = [json.dumps({"version": 1, "type": "COMMAND", "command": "PING", "requestId": f"c{n}"}).encode() for n in range(3)]
    stream = b"".join(struct.pack(">I", len(p)) + p for p in payloads)
    for byte in stream[:60]:
        client.socket.sendall(bytes([byte]))
    client.socket.sendall(stream[60:])
    for n in range(3):
        assert client.response(f"c{n}")["pong"] is True


def thousand_pipelined():
    client = Client()
    client.call("QUEUE_DECLARE", name="pipelined", durable=True)
    ids = [client.send("PUBLISH", routingKey="pipelined", body=n, persistent=True) for n in range(1000)]
    for request_id in ids:
        assert client.response(request_id)["routed"] is True
    assert client.call("QUEUE_GET", name="pipelined")["messageCount"] == 1000
    client.call("CONSUME", queueName="pipelined", prefetch=100)
    for n in range(1000):
        got = client.delivery()
        assert got["body"] == n
        client.send("ACK", deliveryTag=got["deliveryTag"]) if n % 10 else client.call("ACK", deliveryTag=got["deliveryTag"])
        while n % 10 and True:
            message = client.read()
            if message["type"] == "EVENT":
                client.events.append(message)
            else:
                assert message["success"], message
                break
    assert client.call("QUEUE_GET", name="pipelined")["messageCount"] == 0


def largest_frame():
    client = Client()
    head = b'{"version":1,"type":"COMMAND","command":"PING","requestId":"big","payload":{"pad":"'
    client.frame(head + b"x" * (1048576 - len(head) - 3) + b'"}}')
    assert client.response("big")["pong"] is True
    client.socket.sendall(struct.pack(">I", 1048577))
    message = client.read()
    assert message["error"]["code"] == "FRAME_TOO_LARGE" and message["requestId"] is None
    assert client.file.read(1) == b""


def zero_length():
    client = Client()
    client.socket.sendall(b"\0\0\0\0")
    assert client.read()["error"]["code"] == "FRAME_EMPTY"
    assert client.file.read(1) == b""


def bad_json_keeps_the_connection():
    client = Client()
    for bad in [b"{", b"[]", b"\xff\xfe", b'"x"']:
        client.frame(bad)
        message = client.read()
        assert message["success"] is False and message["requestId"] is None
    assert client.call("PING")["pong"] is True


def envelope_errors():
    client = Client()
    cases = [({"version": 2}, "UNSUPPORTED_VERSION"), ({"version": "1"}, "UNSUPPORTED_VERSION"),
             ({"version": 1, "type": "EVENT", "requestId": "e"}, "INVALID_MESSAGE"),
             ({"version": 1, "type": "COMMAND", "command": "PING"}, "INVALID_MESSAGE"),
             ({"version": 1, "type": "COMMAND", "command": "NOPE", "requestId": "e"}, "UNKNOWN_COMMAND"),
             ({"version": 1, "type": "COMMAND", "command": "PING", "requestId": "e", "payload": None}, None),
             ({"version": 1, "type": "COMMAND", "command": "QUEUE_DECLARE", "requestId": "e", "payload": {}}, "VALIDATION_ERROR")]
    for message, code in cases:
        client.frame(json.dumps(message).encode())
        answer = client.read()
        got = answer.get("error", {}).get("code")
        assert code is None or got == code, (message, answer)


def redeclare():
    client = Client()
    client.call("QUEUE_DECLARE", name="re", durable=True)
    client.call("QUEUE_DECLARE", name="re", durable=True)
    refused("PRECONDITION_FAILED", client.call, "QUEUE_DECLARE", name="re", durable=False)


def server_named():
    client = Client()
    assert client.call("QUEUE_DECLARE", name="", exclusive=True)["name"].startswith("mx.gen-")


def exclusive():
    a, b = Client(), Client()
    a.call("QUEUE_DECLARE", name="mine", exclusive=True)
    refused("RESOURCE_LOCKED", b.call, "QUEUE_DECLARE", name="mine", exclusive=True)


def nack_keeps_order():
    client = Client()
    client.call("QUEUE_DECLARE", name="order", durable=True)
    for n in range(3):
        client.call("PUBLISH", routingKey="order", body=n)
    client.call("CONSUME", queueName="order", prefetch=1)
    got = client.delivery()
    assert got["body"] == 0 and got["redelivered"] is False
    client.call("NACK", deliveryTag=got["deliveryTag"])
    got = client.delivery()
    assert got["body"] == 0 and got["redelivered"] is True


def ack_twice():
    client = Client()
    client.call("QUEUE_DECLARE", name="twice", durable=True)
    client.call("PUBLISH", routingKey="twice", body=1)
    client.call("CONSUME", queueName="twice")
    got = client.delivery()
    assert client.call("ACK", deliveryTag=got["deliveryTag"])["acked"] == 1
    refused("UNKNOWN_DELIVERY_TAG", client.call, "ACK", deliveryTag=got["deliveryTag"])


def multiple_ack():
    client = Client()
    client.call("QUEUE_DECLARE", name="multi", durable=True)
    for n in range(5):
        client.call("PUBLISH", routingKey="multi", body=n)
    client.call("CONSUME", queueName="multi")
    got = [client.delivery() for _ in range(5)]
    assert client.call("ACK", deliveryTag=got[3]["deliveryTag"], multiple=True)["acked"] == 4


def get_and_purge():
    client = Client()
    client.call("QUEUE_DECLARE", name="pull", durable=True)
    assert client.call("GET", queueName="pull")["message"] is None
    for n in range(4):
        client.call("PUBLISH", routingKey="pull", body=n)
    got = client.call("GET", queueName="pull", autoAck=True)
    assert got["message"]["body"] == 0 and got["messageCount"] == 3
    assert client.call("QUEUE_PURGE", name="pull")["messageCount"] == 3


def delete_conditions():
    client = Client()
    client.call("QUEUE_DECLARE", name="del", durable=True)
    client.call("PUBLISH", routingKey="del", body=1)
    refused("QUEUE_NOT_EMPTY", client.call, "QUEUE_DELETE", name="del", ifEmpty=True)
    tag = client.call("CONSUME", queueName="del")["consumerTag"]
    client.delivery()
    refused("QUEUE_IN_USE", client.call, "QUEUE_DELETE", name="del", ifUnused=True)
    client.call("CANCEL", consumerTag=tag)
    client.call("QUEUE_DELETE", name="del")
    refused("QUEUE_NOT_FOUND", client.call, "QUEUE_GET", name="del")


def cancelled_on_delete():
    a, b = Client(), Client()
    a.call("QUEUE_DECLARE", name="gone", durable=True)
    b.call("CONSUME", queueName="gone", consumerTag="mine")
    a.call("QUEUE_DELETE", name="gone")
    event = b.read()
    assert event["event"] == "CONSUMER_CANCELLED" and event["payload"]["consumerTag"] == "mine", event
    assert event["payload"]["reason"] == "QUEUE_DELETED"


def mandatory():
    client = Client()
    refused("UNROUTABLE", client.call, "PUBLISH", exchangeName="amq.direct", routingKey="nowhere", body=1, mandatory=True)
    assert client.call("PUBLISH", exchangeName="amq.direct", routingKey="nowhere", body=1)["routed"] is False


def reserved():
    client = Client()
    refused("RESOURCE_RESERVED", client.call, "QUEUE_DECLARE", name="amq.mine", durable=True)
    refused("RESOURCE_RESERVED", client.call, "EXCHANGE_DECLARE", name="amq.mine", type="direct")


def exchange_types():
    client = Client()
    refused("INVALID_EXCHANGE_TYPE", client.call, "EXCHANGE_DECLARE", name="x", type="magic")
    names = {e["name"] for e in client.call("EXCHANGE_LIST")["exchanges"]}
    assert {"amq.direct", "amq.fanout", "amq.topic", "amq.headers"} <= names, names


def aliases():
    client = Client()
    client.call("QUEUE_DECLARE", name="alias", durable=True)
    client.call("MESSAGE_PUBLISH", routingKey="alias", body=1)
    client.call("SUBSCRIBE", queueName="alias", consumerTag="a")
    got = client.delivery()
    client.call("MESSAGE_ACK", deliveryTag=got["deliveryTag"])
    client.call("UNSUBSCRIBE", consumerTag="a")
    assert client.call("STATUS")["queues"] >= 1


def recover():
    client = Client()
    client.call("QUEUE_DECLARE", name="recover", durable=True)
    client.call("PUBLISH", routingKey="recover", body=1)
    client.call("CONSUME", queueName="recover")
    client.delivery()
    assert client.call("RECOVER")["requeued"] == 1
    assert client.delivery()["redelivered"] is True


def disconnect_requeues():
    a, b = Client(), Client()
    a.call("QUEUE_DECLARE", name="lost", durable=True)
    a.call("PUBLISH", routingKey="lost", body=1)
    a.call("CONSUME", queueName="lost")
    a.delivery()
    assert a.call("DISCONNECT") == {}
    assert a.file.read(1) == b""
    b.call("CONSUME", queueName="lost")
    got = b.delivery()
    assert got["body"] == 1 and got["redelivered"] is True and got["deliveryCount"] == 2


def response_before_first_delivery():
    client = Client()
    client.call("QUEUE_DECLARE", name="first", durable=True)
    client.call("PUBLISH", routingKey="first", body=1)
    request_id = client.send("CONSUME", queueName="first")
    assert client.read()["requestId"] == request_id
    assert client.read()["event"] == "MESSAGE_DELIVERED"


checks = [f for name, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == "__main__"
          and name not in {"Client", "Failed", "refused"}]
passed = failed = 0
for check in checks:
    try:
        check()
        passed += 1
    except Exception:
        failed += 1
        print(f"FAILED {check.__name__}")
        traceback.print_exc()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
