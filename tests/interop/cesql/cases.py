"""Runs the public CESQL cases of a folder through the evaluator, a process that answers a line for a line."""

import json
import pathlib
import subprocess
import sys

import yaml

# The event of cases that name none: every context attribute and an extension of each type.
FULL = {
    "specversion": "1.0", "id": "full-1", "source": "http://localhost/full", "type": "com.example.full",
    "subject": "topic", "time": "2020-03-21T12:34:56.78Z", "datacontenttype": "text/json",
    "dataschema": "http://example.com/schema", "exbool": True, "exint": 42, "exstring": "exstring",
}


class Loader(yaml.SafeLoader):
    """YAML that leaves timestamps as the text they are."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def main():
    evaluator, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    cases = []
    for path in sorted(folder.glob("*.yaml")):
        for case in yaml.load(path.read_text(), Loader)["tests"]:
            event = dict(case.get("event", FULL), **case.get("eventOverrides", {}))
            cases.append((path.stem, case, {"expression": str(case["expression"]), "event": event}))
    lines = "".join(json.dumps(asked) + "\n" for _, _, asked in cases)
    done = subprocess.run([evaluator], input=lines, capture_output=True, text=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), f"{len(answers)} answers to {len(cases)} cases"
    passed = failed = 0
    for (file, case, asked), got in zip(cases, answers):
        wanted = {"result": case.get("result"), "error": case.get("error")}
        if wanted["error"] == "parse":
            wanted["result"] = None
        same = got == wanted and type(got["result"]) is type(wanted["result"])
        passed, failed = passed + same, failed + (not same)
        if not same:
            print(f"FAILED {file}: {case['name']}: {asked['expression']}: wanted {wanted}, got {got}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
