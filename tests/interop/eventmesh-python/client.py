"""An EventMesh TCP client, written from the protocol's description alone, in both generations, and what it must see.

Like the published SDKs a client object opens two connections (one to publish, one to subscribe), correlates by sequence only, acks
with the received body as a JSON string and without header properties, and sends heartbeats.
"""
import base64, json, os, random, socket, struct, sys, time, traceback

HOST, PORT = os.environ["FRAMEGATE_EVENTMESH"].rsplit(":", 1)
OVERHEAD = {"A": 8, "B": 13}


class Connection:
    def __init__(self, generation, agent):
        self.generation = generation
        self.socket = socket.create_connection((HOST, int(PORT)), timeout=30)
        self.file = self.socket.makefile("rb")
        self.pushed = []
        reply = self.call("HELLO_REQUEST", agent)
        assert (reply["cmd"], reply["code"]) == ("HELLO_RESPONSE", 0), reply

    def send(self, cmd, seq, body=None, properties=None):
        header = json.dumps({"cmd": cmd, "code": 0, "seq": seq, "properties": properties or {}, "command": cmd}).encode()
        if body is None:
            body = b"null" if self.generation == "A" else b""
        else:
            body = json.dumps(body).encode()
        length = len(header) + len(body) + OVERHEAD[self.generation]
        self.socket.sendall(b"EventMesh0000" + struct.pack(">II", length, len(header)) + header + body)

    def read(self):
        prefix = self.file.read(21)
        if len(prefix) < 21:
            raise ConnectionError("closed")
        assert prefix[:13] == b"EventMesh0000"
        length, header_bytes = struct.unpack(">II", prefix[13:])
        package = json.loads(self.file.read(header_bytes))
        assert isinstance(package["seq"], str) and package["command"] == package["cmd"], package
        body = self.file.read(length - OVERHEAD[self.generation] - header_bytes)
        package["body"] = json.loads(body) if body else None
        return package

    def call(self, cmd, body=None, properties=None):
        seq = str(random.randrange(10**9, 10**10))
        self.send(cmd, seq, body, properties)
        while True:
            package = self.read()
            if package["seq"] == seq:
                return package
            self.pushed.append(package)

    def ok(self, cmd, answer, body=None, properties=None):
        package = self.call(cmd, body, properties)
        assert (package["cmd"], package["code"]) == (answer, 0), package
        return package

    def push(self):
        return self.pushed.pop(0) if self.pushed else self.read()

    def ack(self, push):
        self.send(push["cmd"] + "_ACK", push["seq"], json.dumps(push["body"]))


class Client:
    """Two connections of one process, as the SDKs have them."""
    processes = 0

    def __init__(self, generation, group, protocol="eventmeshmessage"):
        Client.processes += 1
        self.protocol = protocol
        agent = {"env": "test", "subsystem": "5023", "path": "/data/app", "pid": Client.processes, "host": "python", "port": 8362,
                 "version": "2.1", "username": "u", "password": "p", "idc": "FT", "group": group, "unack": 0}
        self.pub = Connection(generation, dict(agent, purpose="pub"))
        self.sub = Connection(generation, dict(agent, purpose="sub"))

    def properties(self):
        return {"protocoltype": self.protocol, "protocolversion": "1.0", "protocoldesc": "tcp"}

    def publish(self, message, cmd="ASYNC_MESSAGE_TO_SERVER"):
        return self.pub.ok(cmd, cmd + "_ACK", message, self.properties())

    def listen(self, topic, mode="CLUSTERING", kind="ASYNC"):
        topics = {"topicList": [{"topic": topic, "mode": mode, "type": kind}]}
        self.sub.ok("SUBSCRIBE_REQUEST", "SUBSCRIBE_RESPONSE", topics)
        self.sub.ok("LISTEN_REQUEST", "LISTEN_RESPONSE")


def mesh(topic, body, **properties):
    return {"topic": topic, "properties": dict({"ttl": "60000"}, **properties), "headers": {}, "body": body}


def event(topic, number):
    return {"specversion": "1.0", "id": f"e{number}", "source": "/python", "type": "cloudevents", "subject": topic,
            "datacontenttype": "application/cloudevents+json", "ttl": "30000", "data": {"n": number}}


def messages_of_both_body_formats_round_trip(generation):
    client = Client(generation, f"both-{generation}")
    topic = f"mesh-{generation}"
    client.listen(topic)
    client.publish(mesh(topic, "caf\u00e9", keys="k"))
    push = client.sub.push()
    assert push["cmd"] == "ASYNC_MESSAGE_TO_CLIENT" and push["properties"]["protocoltype"] == "eventmeshmessage", push
    assert push["body"] == mesh(topic, "caf\u00e9", keys="k"), push
    client.sub.ack(push)
    events = Client(generation, f"events-{generation}", "cloudevents")
    topic = f"events-{generation}"
    events.listen(topic)
    events.publish(event(topic, 1))
    push = events.sub.push()
    assert push["properties"]["protocoltype"] == "cloudevents", push
    assert {k: push["body"][k] for k in event(topic, 1)} == event(topic, 1), push
    events.sub.ack(push)


def subscriber_reads_the_format_that_its_process_publishes(generation):
    events = Client(generation, f"reader-{generation}", "cloudevents")
    topic = f"mixed-{generation}"
    events.publish(event("elsewhere", 0))
    events.listen(topic)
    Client(generation, "writer").publish(mesh(topic, "plain text"))
    push = events.sub.push()
    assert push["properties"]["protocoltype"] == "cloudevents", push
    body = push["body"]
    assert body["specversion"] == "1.0" and body["id"] and body["source"] and body["type"], body
    data = body.get("data", base64.b64decode(body.get("data_base64", "")).decode())
    assert data == "plain text", body
    events.sub.ack(push)


def members_of_a_group_share_and_heartbeats_are_answered(generation):
    topic = f"shared-{generation}"
    members = [Client(generation, f"team-{generation}") for _ in range(2)]
    for member in members:
        member.listen(topic)
    for n in range(40):
        members[0].publish(mesh(topic, str(n)))
        for member in members:
            member.sub.ok("HEARTBEAT_REQUEST", "HEARTBEAT_RESPONSE")
    got = []
    for member in members:
        member.sub.socket.settimeout(1)
    deadline = time.monotonic() + 20
    while len(got) < 40 and time.monotonic() < deadline:
        for member in members:
            member.sub.ok("HEARTBEAT_REQUEST", "HEARTBEAT_RESPONSE")
            while member.sub.pushed:
                push = member.sub.push()
                got.append(int(push["body"]["body"]))
                member.sub.ack(push)
    assert sorted(got) == list(range(40)), got


def broadcast_reaches_every_member(generation):
    topic = f"news-{generation}"
    members = [Client(generation, f"all-{generation}") for _ in range(3)]
    for member in members:
        member.listen(topic, "BROADCASTING")
    members[0].publish(mesh(topic, "to all"), "BROADCAST_MESSAGE_TO_SERVER")
    for member in members:
        push = member.sub.push()
        assert (push["cmd"], push["body"]["body"]) == ("BROADCAST_MESSAGE_TO_CLIENT", "to all"), push
        member.sub.ack(push)


def call_is_answered(generation):
    topic = f"rr-{generation}"
    worker, caller = Client(generation, f"workers-{generation}"), Client(generation, "callers")
    worker.listen(topic, kind="SYNC")
    caller.pub.send("REQUEST_TO_SERVER", "4242424242", mesh(topic, "ping"), caller.properties())
    push = worker.sub.push()
    assert push["cmd"] == "REQUEST_TO_CLIENT" and push["body"]["properties"]["emcorrelationid"], push
    worker.sub.send("RESPONSE_TO_SERVER", "1111111111", dict(push["body"], body="pong"), worker.properties())
    worker.sub.ack(push)
    reply = caller.pub.read()
    assert (reply["cmd"], reply["seq"], reply["code"], reply["body"]["body"]) == ("RESPONSE_TO_CLIENT", "4242424242", 0, "pong"), reply
    caller.pub.send("RESPONSE_TO_CLIENT_ACK", reply["seq"], json.dumps(reply["body"]))


def lost_connection_gives_back_what_it_held(generation):
    topic = f"lost-{generation}"
    first, second = Client(generation, f"heirs-{generation}"), Client(generation, f"heirs-{generation}")
    first.listen(topic)
    first.publish(mesh(topic, "precious"))
    assert first.sub.push()["body"]["body"] == "precious"
    first.sub.socket.shutdown(socket.SHUT_RDWR)
    second.listen(topic)
    push = second.sub.push()
    assert push["body"]["body"] == "precious", push
    second.sub.ack(push)


def goodbye_and_unsubscribe(generation):
    client = Client(generation, f"bye-{generation}")
    client.listen(f"bye-{generation}")
    client.sub.ok("UNSUBSCRIBE_REQUEST", "UNSUBSCRIBE_RESPONSE")
    client.publish(mesh(f"bye-{generation}", "to nobody"))
    client.sub.ok("HEARTBEAT_REQUEST", "HEARTBEAT_RESPONSE")
    assert not client.sub.pushed
    for connection in (client.sub, client.pub):
        connection.ok("CLIENT_GOODBYE_REQUEST", "CLIENT_GOODBYE_RESPONSE")


checks = [messages_of_both_body_formats_round_trip, subscriber_reads_the_format_that_its_process_publishes,
          members_of_a_group_share_and_heartbeats_are_answered, broadcast_reaches_every_member, call_is_answered,
          lost_connection_gives_back_what_it_held, goodbye_and_unsubscribe]
passed = failed = 0
for generation in "AB":
    for check in checks:
        try:
            check(generation)
            passed += 1
        except Exception:
            failed += 1
            print(f"FAILED {check.__name__} in generation {generation}")
            traceback.print_exc()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
