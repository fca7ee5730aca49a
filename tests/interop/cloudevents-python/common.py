"""Publishes with an SDK, receives over SSE with sseclient-py, compares."""
import json, os, sys, traceback
import requests, sseclient

BASE = "http://" + os.environ["FRAMEGATE_HTTP"]
passed = failed = 0


def subscribe(topic):
    answer = requests.get(f"{BASE}/v1/sse", params={"topic": topic}, stream=True, timeout=30)
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
    return (json.loads(e.data) for e in sseclient.SSEClient(answer).events() if e.event == "message")


def post(topic, headers, body):
    answer = requests.post(f"{BASE}/v1/topics/{topic}/events", headers=headers, data=body, timeout=30)
    assert answer.status_code == 202, (answer.status_code, answer.text)
    return answer.json()


def check(name, function):
    global passed, failed
    try:
        function()
        passed += 1
    except Exception:
        failed += 1
        print(f"FAILED {name}")
        traceback.print_exc()


def finish():
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


#: (name, content type, data, member that must arrive, its value)
DATA = [
    ("json", "application/json", {"n": 1, "text": "\u20ac"}, "data", {"n": 1, "text": "\u20ac"}),
    ("list", "application/json", [1, 2, {"a": None}], "data", [1, 2, {"a": None}]),
    ("text", "text/plain", "some \u20ac text", "data", "some \u20ac text"),
    ("xml", "application/xml", "<a b='c'/>", "data", "<a b='c'/>"),
    ("bytes", "application/octet-stream", b"\x00\xff\x80", "data_base64", "AP+A"),
]
