#!/usr/bin/env python3
"""What the public headers give is what the program prints, bit for bit.

Usage: same_numbers_test.py PROGRAM SOURCE_FOLDER API_PROGRAM
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
API = pathlib.Path(sys.argv[3]).resolve()
FOLDER = tempfile.TemporaryDirectory()
MODEL = pathlib.Path(FOLDER.name) / "novels"
TEXT = SOURCE / "assets" / "text" / "the-lamp-at-sorrel-point.txt"
TOKENS = 128  # as in numbers.cc


def setUpModule():
    """The shipped model, that says it knows 32 positions: TOKENS are then
    several windows, and random repeats are short."""
    unittest.addModuleCleanup(FOLDER.cleanup)
    shutil.copytree(SOURCE / "assets" / "novels", MODEL)
    path = MODEL / "config.json"
    config = json.loads(path.read_text())
    config["max_position_embeddings"] = 32
    path.write_text(json.dumps(config))


def output(*command, folder=None):
    done = subprocess.run([*map(str, command)], text=True, capture_output=True,
                          cwd=folder, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr}")
    return done.stdout


def of_api(what, *arguments, folder=None):
    return output(API, what, *(arguments or (MODEL, TEXT)), folder=folder)


def without_model(text):
    value = json.loads(text)
    value.pop("model", None)
    return value


class SameNumbers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def of_program(self, *arguments):
        return output(PROGRAM, *arguments, folder=self.path)

    def test_profile(self):
        self.assertEqual(of_api("profile"),
                         self.of_program("profile", MODEL, "--text", TEXT,
                                         "--tokens", TOKENS, "--json"))

    def test_roles(self):
        self.assertEqual(of_api("roles"),
                         self.of_program("roles", MODEL, "--text", TEXT,
                                         "--tokens", TOKENS, "--json"))

    def test_rank(self):
        self.assertEqual(
            json.loads(of_api("rank")),
            without_model(self.of_program(
                "rank", MODEL, "--text", TEXT, "--tokens", TOKENS, "--by",
                "ablation-mean,gradient,weights", "--self-repair", "--json")))

    def test_similar(self):
        self.assertEqual(
            json.loads(of_api("similar")),
            without_model(self.of_program("similar", MODEL, "--text", TEXT,
                                          "--tokens", TOKENS, "--json")))

    def test_compose(self):
        self.assertEqual(
            json.loads(of_api("compose")),
            without_model(self.of_program("compose", MODEL, "--text", TEXT,
                                          "--tokens", 64, "--top", 1000000,
                                          "--json")))

    def test_losses(self):
        losses = json.loads(of_api("evaluate"))
        for kind, flags in (("closed", ["--drop", "0.0,1.1"]),
                            ("mean", ["--drop", "0.0,1.1", "--replace",
                                      "mean"])):
            printed = json.loads(self.of_program(
                "evaluate", MODEL, "--text", TEXT, "--tokens", TOKENS, *flags,
                "--json"))
            for mine, theirs in (("whole", "loss"), (kind, "closed")):
                self.assertEqual(
                    losses[mine],
                    [printed[theirs][end] for end in ("value", "low", "high")])

    def test_generate(self):
        printed = json.loads(self.of_program(
            "generate", MODEL, "The captain", "--drop", "0.0,1.1",
            "--max-tokens", 24, "--temperature", 0.8, "--top-k", 20, "--seed",
            3, "--json"))
        self.assertEqual(json.loads(of_api("generate")), printed["ids"])

    def test_activations(self):
        self.of_program("dump", MODEL, "The captain looked at the sea.",
                        "--names", "layer.*.attention.*,final,logits", "--out",
                        "x.safetensors")
        data = (self.path / "x.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        tensors = json.loads(data[8:8 + size])
        lines = of_api("activations").splitlines()
        self.assertGreater(len(lines), 20)
        for line in lines:
            name, count, *numbers = line.split()
            begin, end = tensors[name]["data_offsets"]
            values = struct.unpack(f"<{count}f",
                                   data[8 + size + begin:8 + size + end])
            sum_of = 0.0
            for value in values:
                sum_of += value
            self.assertEqual([float(n) for n in numbers],
                             [values[0], values[-1], sum_of], name)

    def test_show(self):
        self.of_program("show", MODEL, "The captain looked at the sea.",
                        "--heads", "0.0,1.1", "--svg", "x.svg")
        self.assertEqual(of_api("show"),
                         (self.path / "x.svg").read_text() + "\n")

    def test_report(self):
        printed = json.loads(self.of_program(
            "report", MODEL, "--text", TEXT, "--tokens", TOKENS, "--skip",
            "importance", "--json", "-"))
        self.assertEqual(json.loads(of_api("report")), printed)

    def test_training(self):
        config = SOURCE / "examples" / "train" / "induction.json"
        losses = json.loads(of_api("train", config, self.path / "mine",
                                   folder=SOURCE))
        output(PROGRAM, "train", config, "--set", "steps=6", "--set",
               "observe_every=0", "--set", f"out={self.path}/theirs",
               folder=SOURCE)
        record = json.loads((self.path / "theirs/training.json").read_text())
        self.assertEqual(losses, record["losses"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
