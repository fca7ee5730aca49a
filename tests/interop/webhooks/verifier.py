"""A web-hook receiver that trusts nothing but the published verifier of Standard Webhooks."""
import http.server, json, os, queue, sys, threading, traceback, urllib.request

from standardwebhooks import Webhook, WebhookVerificationError

BASE = "http://" + os.environ["FRAMEGATE_HTTP"]
passed = failed = 0


class Receiver(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        self.posts = queue.Queue()
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_OPTIONS(self):
        self.send_response(200)
        self.send_header("WebHook-Allowed-Origin", "*")
        self.end_headers()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.posts.put((body, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def call(method, path, body=None, kind="application/json"):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(BASE + path, data, {"content-type": kind}, method=method)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.loads(answer.read() or b"null")


def publish(topic, number):
    event = {"specversion": "1.0", "id": str(number), "source": "/py", "type": "t", "data": {"text": "\u20ac", "n": number}}
    call("POST", f"/v1/topics/{topic}/events", event, "application/cloudevents+json")


def subscribe(topic, receiver, **members):
    sink = f"http://127.0.0.1:{receiver.server_address[1]}/in"
    return call("POST", "/v1/subscriptions", {"config": {"topic": topic}, "sink": sink, **members})


def refuses(secret, body, headers):
    try:
        Webhook(secret).verify(body, headers)
    except WebhookVerificationError:
        return True
    return False


def accepts(mode, read):
    receiver, topic = Receiver(), "py." + mode
    secret = subscribe(topic, receiver, mode=mode)["secret"]
    publish(topic, 1)
    body, headers = receiver.posts.get(timeout=30)
    assert read(Webhook(secret).verify(body.decode(), headers), headers) == 1
    assert refuses(secret, body.decode().replace("1", "2"), headers)
    assert refuses(secret, body.decode(), {**headers, "webhook-id": "another"})


def own_secret():
    receiver = Receiver()
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    subscribe("py.own", receiver, secret=secret)
    publish("py.own", 1)
    body, headers = receiver.posts.get(timeout=30)
    Webhook(secret).verify(body.decode(), headers)


def replaced_secret():
    receiver = Receiver()
    made = subscribe("py.replaced", receiver)
    new = "whsec_YSBuZXcgc2VjcmV0IG9mIDI2IGJ5dGVzISE="
    call("PATCH", "/v1/subscriptions/" + made["id"], {"secret": new})
    publish("py.replaced", 1)
    body, headers = receiver.posts.get(timeout=30)
    for secret in (made["secret"], new):
        Webhook(secret).verify(body.decode(), headers)


def repeated():
    receiver = Receiver()
    made = subscribe("py.repeated", receiver)
    publish("py.repeated", 1)
    first = receiver.posts.get(timeout=30)
    call("POST", f"/v1/subscriptions/{made['id']}/replay?from=earliest")
    second = receiver.posts.get(timeout=30)
    for body, headers in (first, second):
        Webhook(made["secret"]).verify(body.decode(), headers)
    assert first[1]["webhook-id"] == second[1]["webhook-id"]


CHECKS = {
    "structured": lambda: accepts("structured", lambda event, _: event["data"]["n"]),
    "binary": lambda: accepts("binary", lambda data, headers: data["n"] if headers["ce-type"] == "t" else None),
    "batched": lambda: accepts("batched", lambda events, _: events[0]["data"]["n"]),
    "own secret": own_secret,
    "replaced secret": replaced_secret,
    "repeated": repeated,
}
for name, function in CHECKS.items():
    try:
        function()
        passed += 1
    except Exception:
        failed += 1
        print(f"FAILED {name}")
        traceback.print_exc()
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
