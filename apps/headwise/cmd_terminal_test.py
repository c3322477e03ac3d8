#!/usr/bin/env python3
"""What a terminal would obey never reaches it, wherever it came from.

Usage: cmd_terminal_test.py PROGRAM SOURCE_FOLDER
"""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_testing import few_positions

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
PLANTED = SOURCE / "assets" / "planted"
NOVELS = SOURCE / "assets" / "novels"
# Controls and what turns the direction of writing; lines and tabs are none.
ACTS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"


def run(*args, **options):
    return subprocess.run([PROGRAM, *args], capture_output=True, check=False,
                          **options)


class Terminal(unittest.TestCase):
    """Escape sequences of what is read do not reach who looks at it."""

    HOSTILE = "The \x1b[2Jcat\x1b]0;x\x07 sat \u009b31m on \u202ea mat"
    NAME = "na\x1b[2Jme\u202e\u009b"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / self.NAME
        self.folder.mkdir()

    def on_terminal(self, *args):
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [PROGRAM, *args], stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        seen = b""
        try:
            while True:
                seen += os.read(ours, 65536)
        except OSError:  # the program ended
            pass
        os.close(ours)
        child.wait()
        return seen.decode()

    def assert_clean(self, seen):
        # Colours, and the wiping of a progress bar, are our own.
        rest = re.sub(r"\x1b\[([0-9;]*m|K)|\r", "", seen)
        self.assertNotRegex(rest, ACTS)

    def test_tokens_and_words(self):
        for args in (("show", PLANTED, self.HOSTILE, "--heads", "0.0"),
                     ("show", PLANTED, self.HOSTILE, "--heads", "0.0",
                      "--query", "3"),
                     ("compare", self.HOSTILE, "--no-roles"),
                     ("compare", self.HOSTILE, "--untrained")):
            seen = self.on_terminal(*args)
            self.assertIn("⟨1b⟩", seen)
            self.assert_clean(seen)
            piped = run(*args).stdout.decode()
            self.assertNotIn("\x1b", piped)

    def test_names_and_flags_in_errors(self):
        name = "no\x1b[31msuch"
        for args in (("show", name, "x", "--heads", "0.0"),
                     ("info", name), (name,), ("study", name),
                     ("study", "--" + name), ("rank", "m", "--tokens", name),
                     ("vocab", "--text", name, "--out", "x"),
                     ("profile", PLANTED, "--text", name)):
            done = run(*args, cwd=self.folder)
            self.assertIn(done.returncode, (1, 2))
            told = done.stderr.decode()
            self.assertIn("⟨1b⟩", told, args)
            self.assert_clean(told)

    def test_names_of_models(self):
        config = json.loads((PLANTED / "config.json").read_text())
        model = self.folder / "model"
        shutil.copytree(PLANTED, model)
        config["model_type"] = "gpt2\x1b[2J"
        (model / "config.json").write_text(json.dumps(config))
        done = run("info", model)
        self.assert_clean(done.stdout.decode() + done.stderr.decode())

    def told(self, *args):
        """What a command prints on a terminal, and in a pipe."""
        seen = self.on_terminal(*args)
        self.assert_clean(seen)
        done = run(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        piped = done.stdout.decode() + done.stderr.decode()
        self.assertNotRegex(piped, ACTS)
        return piped

    def test_names_of_files(self):
        text = self.folder / "a.txt"
        text.write_text("the cat sat on a mat " * 40)
        config = self.folder / "run.json"
        tokens = self.folder / "tokenizer.json"
        config.write_text(json.dumps({
            "out": str(self.folder / "run"), "data": [str(text)],
            "tokenizer": str(tokens),
            "model": {"model_type": "gpt2", "n_embd": 16, "n_layer": 1,
                      "n_head": 2, "n_positions": 32},
            "steps": 1, "batch": 1, "micro_batch": 1, "sequence": 16}))
        model = few_positions(PLANTED, self.folder)
        profile = self.folder / "a.heads"
        for args in (("tokenize", PLANTED, "--text", text),
                     ("vocab", "--text", text, "--size", "280", "--out",
                      tokens),
                     ("train", config, "--force"),
                     ("profile", model, "--text", text, "--tokens", "64",
                      "--metrics", "core", "--out", profile),
                     ("merge", profile, "--out", self.folder / "b.heads"),
                     ("export", model, "--to", "huggingface", "--force", "--out",
                      self.folder / "out"),
                     ("generate", model, "--file", text, "--max-tokens", "1",
                      "--out", self.folder / "made.txt")):
            self.assertIn("⟨1b⟩", self.told(*args), args)

    def test_tokens_become_text(self):
        ids = [token["id"] for token in json.loads(run(
            "tokenize", NOVELS, self.HOSTILE, "--bos", "no",
            "--json").stdout)["texts"][0]["tokens"]]
        args = ("tokenize", NOVELS, "--ids", ",".join(map(str, ids)))
        self.assertIn("⟨1b⟩[2Jcat⟨1b⟩]0;x⟨07⟩ sat ⟨9b⟩31m", self.told(*args))
        self.assertEqual(json.loads(run(*args, "--json").stdout)["text"],
                         self.HOSTILE)

    def test_json_has_the_text_itself(self):
        args = ("tokenize", NOVELS, self.HOSTILE, "--bos", "no", "--json")
        made = json.loads(self.told(*args))
        # Tokens of one character share its place.
        places = {token["begin"]: token["end"]
                  for token in made["texts"][0]["tokens"]}
        data = b"".join(self.HOSTILE.encode()[begin:end]
                        for begin, end in places.items())
        self.assertEqual(data.decode(), self.HOSTILE)
        args = ("show", PLANTED, self.HOSTILE, "--heads", "0.0", "--json")
        self.assertIn("\u009b", "".join(json.loads(self.told(*args))["tokens"]))


class Sources(unittest.TestCase):
    """All that is printed goes through console.cc, which makes it safe."""

    DOORS = re.compile(
        r"fmt::print|std::c(out|err|log)|\\(x1b|033|e)\b|"
        r"\b(v?f?printf|f?puts|putc|fputc|putchar|perror|psignal)\(|"
        r"\bf?write\((STD|[^)]*\bstd(out|err)\))")

    def test_nothing_prints_by_itself(self):
        here = SOURCE / "apps" / "headwise"
        found = {}
        for path in sorted(here.rglob("*.cc")) + sorted(here.rglob("*.h")):
            code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
            if self.DOORS.search(code):
                found[str(path.relative_to(here))] = True
        # process.cc prints words of its own in a handler of signals.
        self.assertEqual(set(found), {"console.cc", "process.cc"},
                         "WriteStdout, WriteDrawn, WriteJson and WriteStderr "
                         "of console.h print")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
