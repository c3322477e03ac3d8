#!/usr/bin/env python3
"""What headwise show prints for machines follows docs/show.schema.json.

Usage: cmd_show_test.py PROGRAM SOURCE_FOLDER
"""
import json
import re
import sys
import unittest

from command_testing import SOURCES, well

PLANTED = SOURCES / "assets" / "planted"
SCHEMA = json.loads((SOURCES / "docs" / "show.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}


def is_a(kind, value):
    if kind in ("number", "integer"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (kind == "number" and isinstance(value, float))
    return isinstance(value, TYPES[kind])


def faults(schema, value, where="it"):
    """What is wrong with a value; the words of the schema that are known here
    are all that it may use."""
    known = {"$schema", "title", "description", "type", "required", "const",
             "properties", "items", "oneOf", "pattern", "minItems"}
    assert set(schema) <= known, set(schema) - known
    if "oneOf" in schema:
        each = [list(faults(one, value, where)) for one in schema["oneOf"]]
        if sum(not found for found in each) != 1:
            yield f"{where} is not one of: {each}"
    if "type" in schema and not is_a(schema["type"], value):
        yield f"{where} is no {schema['type']}: {value!r:.60}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where} is not {schema['const']}"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where} is {value}"
    if isinstance(value, dict):
        named = schema.get("properties", {})
        for key in set(schema.get("required", [])) - set(value):
            yield f"{where} has no {key}"
        for key in set(value) - set(named) if named else ():
            yield f"{where} has a {key}, which is not described"
        for key in set(value) & set(named):
            yield from faults(named[key], value[key], f"{where}.{key}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where} has {len(value)} items"
        for i, item in enumerate(value):
            yield from faults(schema.get("items", {}), item, f"{where}[{i}]")


class Show(unittest.TestCase):
    def follows(self, *arguments):
        made = json.loads(well("show", *arguments, "--json"),
                          parse_constant=self.fail)
        self.assertEqual(list(faults(SCHEMA, made)), [])
        return made

    def test_heads(self):
        made = self.follows(PLANTED, "The cat sat on", "--heads", "0.0,1.0")
        self.assertEqual([head["head"] for head in made["heads"]],
                         ["0.0", "1.0"])
        self.assertEqual(len(made["heads"][0]["map"]), len(made["tokens"]))

    def test_one_query(self):
        made = self.follows(PLANTED, "The cat sat on", "--heads", "0.0",
                            "--query", "2")
        self.assertEqual(made["query"], 2)
        [head] = made["heads"]
        self.assertEqual([one["query"] for one in head["top"]], [2])
        self.assertEqual(len(head["strip"]), len(made["tokens"]))
        self.assertAlmostEqual(sum(head["strip"]), 1, places=4)

    def test_pooled(self):
        made = self.follows(PLANTED, "The cat sat on " * 9, "--heads", "0.0",
                            "--cells", "4")
        self.assertTrue(made["heads"][0]["pooled"])

    def test_the_example(self):
        for picture in self.follows("--example", "cat-sat"):
            self.assertEqual(len(picture["values"]),
                             len(picture["rows"]) * len(picture["columns"]))

    def test_what_is_wrong_is_found(self):
        made = self.follows(PLANTED, "The cat sat on", "--heads", "0.0")
        del made["heads"][0]["strip"]
        self.assertNotEqual(list(faults(SCHEMA, made)), [])
        self.assertNotEqual(list(faults(SCHEMA, [{"title": "x"}])), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
