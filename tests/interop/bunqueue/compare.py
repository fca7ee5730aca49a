"""Compares outcomes of scenarios (lines of JSON on the standard input) with those recorded at the original server, or with the
better ones that are listed with their reason. Scenarios that need what is not served yet are listed apart: they must be refused,
and leave the list when they are not. Prints the totals that tests/run reads."""

import json
import pathlib
import sys

here = pathlib.Path(__file__).parent


def lines(name):
    return {line["scenario"]: line for line in map(json.loads, (here / name).read_text().splitlines())}


def plain(outcome):
    """Output that is JSON is compared as a value: keys have no order, and the stray one of the original does not count."""
    if isinstance(outcome, list) and len(outcome) == 2 and isinstance(outcome[0], str):
        try:
            value = json.loads(outcome[0].replace("TIME", "0"), object_hook=without_stray)
            return [value, outcome[1]]
        except ValueError:
            pass
    return outcome


def without_stray(entries):
    return {name: value for name, value in entries.items() if name != "_state"}


recorded, better, unserved = lines("recorded.jsonl"), lines("better.jsonl"), lines("unserved.jsonl")
passed, failed, seen = 0, 0, set()
for line in sys.stdin:
    if not line.startswith("{"):
        print(line, end="")
        continue
    got = json.loads(line)
    name = got["scenario"]
    seen.add(name)
    expected = better.get(name, recorded.get(name))
    if name in unserved:
        if expected and plain(got["outcome"]) == plain(expected["outcome"]):
            failed += 1
            print(f"FAILED {name}: is served, and listed as if it were not")
        else:
            print(f"not served yet, {unserved[name]['needs']}: {name}")
    elif expected is None:
        print(f"FAILED {name}: was never recorded")
        failed += 1
    elif plain(got["outcome"]) == plain(expected["outcome"]):
        passed += 1
    else:
        failed += 1
        print(f"FAILED {name}: {json.dumps(got['outcome'])}\n  where {json.dumps(expected['outcome'])} was recorded")
for name in recorded.keys() - seen:
    failed += 1
    print(f"FAILED {name}: did not run")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
