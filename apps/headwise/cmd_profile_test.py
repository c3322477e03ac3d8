#!/usr/bin/env python3
"""headwise profile from outside: killed and resumed, by its parts, by pairs.

Usage: cmd_profile_test.py PROGRAM SOURCE_FOLDER
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
PLANTED = SOURCE / "assets" / "planted"
TEXT = SOURCE / "assets" / "text" / "the-lamp-at-sorrel-point.txt"


def run(*args):
    return subprocess.run([PROGRAM, "profile", *map(str, args)], text=True,
                          capture_output=True)


def metrics(path, *args):
    printed = subprocess.run([PROGRAM, "roles", path, "--json", "--all", *args],
                             text=True, capture_output=True, check=True).stdout
    return json.loads(printed)["heads"]


def beginning(path):
    """The first quarter of the text."""
    path.write_text("".join(TEXT.read_text().splitlines(True)[:100]))
    return path


class Profile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        text = self.folder / "long.txt"
        text.write_text(TEXT.read_text() * 3)
        out, partial = self.folder / "p.heads", self.folder / "p.heads.partial"
        command = [PLANTED, "--text", text, "--repeats", 0, "--out", out]
        child = subprocess.Popen(  # by one thread, to be killed in time
            [PROGRAM, "profile", *map(str, command), "--checkpoint-seconds", "0.02",
             "--threads", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while (not partial.exists() and child.poll() is None
               and time.monotonic() < deadline):
            time.sleep(0.005)
        child.kill()
        child.wait()
        self.assertTrue(partial.exists(), "no checkpoint was written")
        self.assertFalse(out.exists())
        resumed = run(*command, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertFalse(partial.exists())
        whole = self.folder / "whole.heads"
        command[-1] = whole
        self.assertEqual(run(*command).returncode, 0)
        self.assertTrue(out.read_bytes() == whole.read_bytes(),
                        "a resumed profile has other bits than a whole one")

    def test_the_core_alone_is_enough_for_some_roles(self):
        out = self.folder / "core.heads"
        done = run(PLANTED, "--text", beginning(self.folder / "a.txt"),
                   "--metrics", "core", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        heads = {f"{h['layer']}.{h['head']}": h for h in metrics(out)}
        self.assertEqual(heads["0.0"]["roles"][0]["name"], "previous-token")
        self.assertEqual(heads["0.3"]["roles"][0]["name"], "first-token")
        self.assertNotIn("content", heads["0.0"]["metrics"])

    def test_words_and_both_forms_of_induction(self):
        out = self.folder / "words.heads"
        done = run(PLANTED, "--text", TEXT, "--words", "--out", out,
                   "--tokens", 500)
        self.assertEqual(done.returncode, 0, done.stderr)
        for args in ((), ("--words",), ("--repeat-form", "50x2")):
            heads = {f"{h['layer']}.{h['head']}": h
                     for h in metrics(out, *args)}
            self.assertEqual(heads["1.0"]["roles"][0]["name"], "induction")
        self.assertIn("words.previous", heads["0.0"]["metrics"])

    def test_parts_make_the_whole_but_none_twice(self):
        text = beginning(self.folder / "whole.txt")
        lines = text.read_text().splitlines(keepends=True)
        parts = []
        for half in (lines[:len(lines) // 2], lines[len(lines) // 2:]):
            text = self.folder / f"part{len(parts)}.txt"
            text.write_text("".join(half))
            parts.append(text.with_suffix(".heads"))
            self.assertEqual(run(PLANTED, "--text", text, "--repeats", 0,
                                 "--out", parts[-1]).returncode, 0)

        def merge(*profiles):
            return subprocess.run(
                [PROGRAM, "merge", *profiles, "-o", self.folder / "all.heads",
                 "--json"], text=True, capture_output=True)

        whole = merge(*parts)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        twice = merge(parts[0], parts[1], parts[0])
        self.assertEqual(twice.returncode, 1, twice.stderr)
        self.assertIn("part0.heads", twice.stderr)

    def test_patterns_are_shown(self):
        patterns = []
        for name, query in (("speech", "she"), ("place", "the"),
                            ("unmet", "zyzzyva")):
            path = self.folder / f"{name}.json"
            path.write_text(json.dumps({"name": name, "rules": [
                {"match": rf"\b{query}\b", "query": 1},
                {"match": r"\b[A-Z][a-z]+\b", "key": 1}]}))
            patterns += ["--patterns", path]
        out = self.folder / "p.heads"
        done = run(PLANTED, "--text", beginning(self.folder / "a.txt"),
                   "--repeats", 0, "--out", out, *patterns)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Pattern speech", done.stdout)
        self.assertIn("Pattern place", done.stdout)
        self.assertIn("warning: [pattern unmet]", done.stderr)
        shown = subprocess.run([PROGRAM, "roles", out], text=True,
                               capture_output=True).stdout
        self.assertIn("Pattern speech", shown)

    def test_rows_that_are_left_out_are_named(self):
        printed = run("--explain").stdout
        self.assertIn("rows of special tokens are left out",
                      " ".join(printed.lower().split()))
        named = run(PLANTED, "--explain", "--json")
        special = json.loads(named.stdout)["special_tokens"]
        self.assertTrue(any("<" in name for name in special), special)

    def test_mentions_without_a_choice_are_warned_of(self):
        coref = self.folder / "one.conll"
        rows = []
        for sentence in (("Mara", "walked"), ("Mara", "sat")):
            for i, word in enumerate(sentence):
                mention = "(1)" if word == "Mara" else "_"
                rows.append(f"one\t0\t{i}\t{word}\t_\t_\t_\t_\t_\t_\t_\t"
                            f"_\t{mention}")
            rows.append("")
        coref.write_text("#begin document (one); part 0\n" + "\n".join(rows)
                         + "\n#end document\n")
        done = run(PLANTED, "--text", TEXT, "--repeats", 0, "--tokens", 500,
                   "--coref", coref, "--out", self.folder / "p.heads")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: [coreference]", done.stderr)
        self.assertIn("found 1 without", done.stderr)

    def test_ids_outside_the_vocabulary_are_named(self):
        def file_of(ids):
            header = json.dumps({"input_ids": {
                "dtype": "I64", "shape": [1, len(ids)],
                "data_offsets": [0, 8 * len(ids)]}}).encode()
            path = self.folder / "ids.safetensors"
            path.write_bytes(struct.pack("<Q", len(header)) + header
                             + struct.pack(f"<{len(ids)}q", *ids))
            return path

        def profile(*ids):
            return run(PLANTED, "--ids", file_of(ids), "--repeats", 0, "--out",
                       self.folder / "ids.heads")

        self.assertEqual(profile(0, 1, 2, 3, 1, 2).returncode, 0)
        for bad in (5000, 2**24 + 1, 2**31 - 1, 2**32 + 5, -1, -2**63):
            result = profile(0, 1, bad, 3)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(f"found {bad} at place 2", result.stderr)

    def test_pairs_are_for_encoder_decoders(self):
        pairs = self.folder / "pairs.tsv"
        pairs.write_text("a house\tein Haus\n")
        result = run(PLANTED, "--text", TEXT, "--pairs", pairs, "--out",
                     self.folder / "p.heads")
        self.assertEqual(result.returncode, 1)
        self.assertIn("an encoder–decoder", result.stderr)
        self.assertFalse((self.folder / "p.heads").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
