"""The published SDK, 1.x API (still the most deployed): binary and structured, out again over SSE."""
import json
from cloudevents.http import CloudEvent, from_http, to_binary, to_structured
from common import DATA, check, finish, post, subscribe


def crossing(mode, name, content_type, data, member, value):
    def run():
        topic = f"py1.{mode}.{name}"
        events = subscribe(topic)
        attributes = {"id": f"{mode}-{name}", "source": "/python", "type": "com.example.plain", "datacontenttype": content_type, "myext": "v"}
        # the SDK writes every string as JSON unless the application marshals its text itself
        text = {"data_marshaller": str.encode} if mode == "binary" and name in ("text", "xml") else {}
        headers, body = (to_binary if mode == "binary" else to_structured)(CloudEvent(attributes, data), **text)
        post(topic, headers, body)
        got = next(events)
        if mode == "structured" and name in ("text", "xml"):
            assert got["data"] == value, got
        else:
            assert got[member] == value, got
        for key, text in attributes.items():
            assert got[key] == text, (key, got)
        assert got["time"]
        again = from_http({"content-type": "application/cloudevents+json"}, json.dumps(got))
        assert again["id"] == attributes["id"]
    return run


for mode in ("binary", "structured"):
    for row in DATA:
        check(f"{mode} {row[0]}", crossing(mode, *row))


def encoded_header():
    events = subscribe("py1.encoded")
    headers, body = to_binary(CloudEvent({"id": "e", "source": "/python", "type": "t", "note": "100% sure"}, {"a": 1}))
    post("py1.encoded", headers, body)
    assert next(events)["note"] == "100% sure"


def defaults():
    events = subscribe("py1.defaults")
    headers, body = to_structured(CloudEvent({"source": "/python", "type": "t"}, {"a": 1}))
    post("py1.defaults", headers, body)
    got = next(events)
    assert got["id"] and got["time"] and got["data"] == {"a": 1}


check("a raw percent sign in a header", encoded_header)
check("generated id and time", defaults)
finish()
