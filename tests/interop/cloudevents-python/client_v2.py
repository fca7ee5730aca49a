"""The published SDK, 2.x core API: binary and structured, every kind of data, out again over SSE."""
import json
from cloudevents.core.v1.event import CloudEvent
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.bindings.http import from_http_event, HTTPMessage
from cloudevents.core.formats.json import JSONFormat
from common import DATA, check, finish, post, subscribe


def crossing(mode, name, content_type, data, member, value):
    def run():
        topic = f"py2.{mode}.{name}"
        events = subscribe(topic)
        attributes = {"id": f"{mode}-{name}", "source": "/python", "type": "com.example.\u20ac sp%ce", "specversion": "1.0",
                      "datacontenttype": content_type, "subject": "a b", "myext": "v w"}
        # this SDK writes a list in a binary body as Python prints it: the application has to encode it
        event = CloudEvent(attributes, json.dumps(data).encode() if (mode, name) == ("binary", "list") else data)
        message = (to_binary_event if mode == "binary" else to_structured_event)(event, JSONFormat())
        post(topic, message.headers, message.body)
        got = next(events)
        assert got.get(member) == value, (got, message.body)
        for key in ("id", "source", "type", "subject", "datacontenttype", "myext"):
            assert got[key] == attributes[key], (key, got)
        again = from_http_event(HTTPMessage({"content-type": "application/cloudevents+json"}, json.dumps(got).encode()), JSONFormat())
        assert again.get_id() == attributes["id"] and again.get_type() == attributes["type"]
    return run


for mode in ("binary", "structured"):
    for row in DATA:
        check(f"{mode} {row[0]}", crossing(mode, *row))


def duplicate():
    event = CloudEvent({"id": "d", "source": "/python", "type": "t", "specversion": "1.0", "datacontenttype": "application/json"}, {"a": 1})
    message = to_structured_event(event, JSONFormat())
    first, second = post("py2.dup", message.headers, message.body), post("py2.dup", message.headers, message.body)
    assert first["duplicate"] is False and second["duplicate"] is True and first["offset"] == second["offset"]


def no_data():
    events = subscribe("py2.none")
    event = CloudEvent({"id": "n", "source": "/python", "type": "t", "specversion": "1.0"}, None)
    message = to_structured_event(event, JSONFormat())
    post("py2.none", message.headers, message.body)
    got = next(events)
    assert got["id"] == "n" and got.get("data") is None and "data_base64" not in got, got


check("duplicate", duplicate)
check("no data", no_data)
finish()
