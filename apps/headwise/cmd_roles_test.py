#!/usr/bin/env python3
"""headwise roles on the planted model: what it prints for people and machines.

Usage: cmd_roles_test.py PROGRAM SOURCE_FOLDER
"""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
PLANTED = SOURCE / "assets" / "planted"
TEXT = PLANTED / "vocabulary.txt"

# The roles that the planted heads were built for.
TRUTH = {
    "0.0": "previous-token", "0.1": "local", "0.2": "local",
    "0.3": "first-token", "0.5": "duplicate", "0.6": "offset -2",
    "1.0": "induction", "1.1": "self", "1.2": "delimiter", "1.3": "first-token",
    "1.4": "induction", "1.6": "first-token",
}


# Tests that ask the same share the answer.
@functools.cache
def run(*args, columns=80):
    environment = dict(os.environ, COLUMNS=str(columns))
    return subprocess.run([PROGRAM, "roles", *map(str, args)], text=True,
                          capture_output=True, env=environment)


def roles_of(result):
    return {f"{head['layer']}.{head['head']}": head
            for head in json.loads(result.stdout)["heads"]}


class Roles(unittest.TestCase):
    def test_planted_heads_get_their_roles_first(self):
        result = run(PLANTED, "--text", TEXT, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        heads = roles_of(result)
        self.assertEqual(len(heads), 16)
        for name, role in TRUTH.items():
            self.assertTrue(heads[name]["roles"], name)
            self.assertEqual(heads[name]["roles"][0]["name"], role, name)
        for name in ("0.4", "0.7", "1.5", "1.7"):
            self.assertEqual(heads[name]["roles"], [], name)
        sink_heavy = {role["name"]: role for role in heads["1.3"]["roles"]}
        self.assertTrue(sink_heavy["previous-token"]["sink_excluded"])
        metric = heads["0.0"]["metrics"]["previous"]
        self.assertGreater(metric["mean"], 0.95)
        self.assertEqual(set(metric), {"mean", "low", "high", "count"})

    def test_json_is_as_the_schema_says(self):
        schema = json.loads((SOURCE / "docs" / "roles.schema.json").read_text())
        head_schema = schema["properties"]["heads"]["items"]
        role_schema = head_schema["properties"]["roles"]["items"]
        printed = json.loads(run(PLANTED, "--confirm", "--json").stdout)
        self.assertEqual(set(printed), set(schema["required"]))
        for head in printed["heads"]:
            self.assertEqual(set(head), set(head_schema["required"]))
            for role in head["roles"]:
                self.assertLessEqual(set(role_schema["required"]), set(role))
                self.assertLessEqual(set(role), set(role_schema["properties"]))

    def test_confirm_shows_what_ablation_does(self):
        heads = roles_of(run(PLANTED, "--confirm", "--json"))
        induction = next(role for role in heads["1.0"]["roles"]
                         if role["name"] == "induction")
        self.assertGreater(induction["check"]["after"],
                           induction["check"]["before"] + 0.1)
        previous = next(role for role in heads["0.0"]["roles"]
                        if role["name"] == "previous-token")
        self.assertLess(previous["check"]["after"],
                        previous["check"]["before"] / 2)

    def test_without_text_it_says_so(self):
        result = run(PLANTED, columns=500)
        self.assertIn("no text was given", " ".join(result.stdout.split()))

    def test_lines_fit(self):
        for columns in (40, 80):
            for args in (("--explain",), (PLANTED, "--text", TEXT, "--all")):
                printed = run(*args, columns=columns)
                self.assertEqual(printed.returncode, 0, printed.stderr)
                for line in printed.stdout.splitlines():
                    self.assertLessEqual(len(line), columns, line)

    def test_a_profile_gives_the_same_roles(self):
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "planted.heads"
            subprocess.run([PROGRAM, "profile", PLANTED, "--text", TEXT,
                            "--out", profile], check=True, capture_output=True)
            from_profile = run(profile, "--json")
            self.assertEqual(from_profile.stdout,
                             run(PLANTED, "--text", TEXT, "--json").stdout)
            self.assertEqual(run(profile, "--text", TEXT).returncode, 2)
            self.assertEqual(run(profile, "--confirm").returncode, 2)

    def test_what_roles_rest_on_is_told(self):
        def head_of(*args):
            result = run(PLANTED, *args, columns=500)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout.splitlines()[0]
        self.assertIn("on random repeats alone: no text was given, so only "
                      "positions, sinks, copies and retrieval", head_of())
        with tempfile.TemporaryDirectory() as folder:
            bank = pathlib.Path(folder) / "bank.conllu"
            bank.write_text("# text = the house\n"
                            "1\tthe\t_\t_\t_\t_\t2\tdet\t_\t_\n"
                            "2\thouse\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
            self.assertIn("on random repeats and a treebank: no text was given, "
                          "so only positions, sinks, copies, retrieval and "
                          "syntax could be judged", head_of("--conllu", bank))
            self.assertIn("tokens of text, random repeats and a treebank.",
                          head_of("--conllu", bank, "--text", TEXT))

    def test_mistakes_are_named(self):
        def fails(code, words, *args):
            result = run(*args)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stdout, "")
        fails(1, "did you mean induction?", PLANTED, "--thresholds", "inducton=1")
        fails(1, "none.heads", "none.heads")
        fails(2, "expected a profile or a model")
        with tempfile.TemporaryDirectory() as folder:
            bank = pathlib.Path(folder) / "bank.conllu"
            bank.write_text("# text = Dogs\n1\tCats\t_\t_\t_\t_\t0\troot\t_\t_\n")
            fails(1, "sentence 1", PLANTED, "--conllu", bank)
            empty = pathlib.Path(folder) / "empty.txt"
            empty.write_text("")
            fails(1, "error: ", PLANTED, "--text", empty)

    def test_the_documentation_is_current(self):
        page = run("--explain", "--markdown").stdout
        self.assertEqual(page, (SOURCE / "docs" / "metrics.md").read_text(),
                         "headwise roles --explain --markdown > docs/metrics.md")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
