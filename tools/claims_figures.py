"""Figures of docs/claims.md: taken from what a command prints as JSON, and the
words that figures earn. tools/make_claims.py writes the page.

A figure of a row:

    {"name": "heads without a role",
     "path": "heads/*",             steps into the JSON; * is every item
     "where": ["roles", "=", []],   of those items, these only
     "of": "metrics/distance",      then on into each
     "reduce": "count",             count, max, min, sum or distinct
     "expected": "≥ 1",             ≤, ≥ or =; left out: only told
     "format": ".3g",
     "command": "headwise …",       where it is not the row's
     "file": "a.safetensors"}       the header of what it wrote, not its output

What it finds is a number, a text, or an interval: an object with "value",
"mean" or "score", "low" and "high".
"""
import hashlib
import json
import math
import operator

# A claim takes the last of its figures' words.
WORDS = ["HELD", "EXPLORATORY", "UNDECIDED", "NOT MEASURED", "REFUTED"]
COUNTED = ["HELD", "REFUTED", "UNDECIDED", "EXPLORATORY", "NOT MEASURED"]
COMPARE = {"=": operator.eq, "≥": operator.ge, "≤": operator.le,
           "∈": lambda value, among: value in among}
MIDDLES = ["value", "mean", "score"]  # of an interval
# What a row's figures are of, and what its word can be at the most.
BASES = {
    "program": "",  # what the program does, on any machine: mathematics
    "model": "one trained model",
    "detectors": "detectors only: of a model whose heads were planted",
}


def weakest(words):
    return max(words, key=WORDS.index) if words else "UNDECIDED"


def middle(found):
    """The number of a figure, whether it has an interval or not."""
    if isinstance(found, dict):
        return next(found[key] for key in MIDDLES if key in found)
    return found


def steps_into(items, path):
    for step in path.split("/") if path else []:
        if step == "*":
            items = [inner for item in items for inner in
                     (item.values() if isinstance(item, dict) else item)]
        else:
            items = [item[int(step)] if isinstance(item, list)
                     else item[step] for item in items]
    return items


def passes(item, where):
    path, compare, value = where
    try:
        found = steps_into([item], path)[0]
    except (KeyError, IndexError, TypeError):
        return False
    return found is not None and COMPARE[compare](found, value)


REDUCE = {
    "count": len,
    "max": lambda items: max(items, key=middle),
    "min": lambda items: min(items, key=middle),
    "sum": lambda items: sum(middle(item) for item in items),
    "distinct": lambda items: len({json.dumps(item) for item in items}),
}


def take(figure, printed):
    """What a figure names in what a command printed."""
    items = steps_into([printed], figure.get("path", ""))
    if "where" in figure:
        items = [item for item in items if passes(item, figure["where"])]
    items = steps_into(items, figure.get("of", ""))
    if "reduce" in figure:
        return REDUCE[figure["reduce"]](items)
    if len(items) != 1:
        raise ValueError(f"{figure['name']}: {len(items)} values, expected "
                         "one or a \"reduce\"")
    return items[0]


def header(path):
    """What a safetensors file says of its tensors."""
    data = path.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


def judge(value, expected, basis):
    """The word of one figure, and why where its value alone does not say."""
    if basis == "model":
        return "UNDECIDED", BASES[basis]
    sign, limit = expected.split()
    if isinstance(value, float) and math.isnan(value):
        return "UNDECIDED", "not a number"
    return ("HELD" if COMPARE[sign](value, float(limit)) else "REFUTED"), ""


def measure(figure, printed, basis):
    """A figure as it is recorded: as those of `headwise study --json`."""
    found = take(figure, printed)
    record = {"value": middle(found), "expected": figure.get("expected", "")}
    if isinstance(found, dict):
        record["sequences"] = {"low": found["low"], "high": found["high"]}
    record["decides"] = record["expected"] != ""
    if record["decides"]:
        record["verdict"], why = judge(record["value"], record["expected"],
                                       basis)
        if why:
            record["why"] = why
    return record


def row_hash(row):
    """Of all that a row's verdict depends on but the run."""
    said = [row["claim"], row["command"], row["basis"], row["take"]]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()
                          ).hexdigest()[:16]


def number(value, form=".3g"):
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:{form}}"


def show(name, record, form=".3g"):
    """As "gain: 0.083 [0.05, 0.11] (≥ 0)"."""
    text = f"{name}: {number(record['value'], form)}"
    if "low" in record:
        text += f" [{number(record['low'])}, {number(record['high'])}]"
    if "sequences" in record:
        between = record["sequences"]
        text += (f" (over sequences [{number(between['low'])}, "
                 f"{number(between['high'])}])")
    if record["expected"]:
        text += f" ({record['expected']})"
    return text
