#!/usr/bin/env python3
"""headwise rank from outside: interrupted, killed and resumed; ids; what hurts.

Usage: cmd_rank_test.py PROGRAM SOURCE_FOLDER
"""
import json
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
PLANTED = SOURCE / "assets" / "planted"
GOLDENS = SOURCE / "tests" / "conformance" / "goldens"
TEXT = SOURCE / "assets" / "text" / "the-lamp-at-sorrel-point.txt"


def run(command, *args, **how):
    return subprocess.run([PROGRAM, command, *map(str, args)], text=True,
                          capture_output=True, timeout=120, **how)


def write_ids(path, rows):
    """Safetensors with input_ids [B, N] i32."""
    data = struct.pack(f"<{len(rows) * len(rows[0])}i", *sum(rows, []))
    header = json.dumps({"input_ids": {
        "dtype": "I32", "shape": [len(rows), len(rows[0])],
        "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def spoil(model, tensor, value):
    """Puts one number into the middle of a bf16 tensor of a checkpoint."""
    file = model / "model.safetensors"
    data = bytearray(file.read_bytes())
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])[tensor]
    assert entry["dtype"] == "BF16", entry
    begin, end = (8 + size + at for at in entry["data_offsets"])
    at = begin + (end - begin) // 4 * 2
    data[at:at + 2] = struct.pack("<f", value)[2:]
    file.write_bytes(data)


class Rank(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def stop(self, command, how, *more):
        """Starts a ranking, and ends it once it has kept something."""
        partial = self.folder / "p"
        child = subprocess.Popen(
            [PROGRAM, "rank", *map(str, command), "--checkpoint-seconds", "0.02",
             *more],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while (not partial.exists() and child.poll() is None
               and time.monotonic() < deadline):
            time.sleep(0.002)
        child.send_signal(how)
        return child.wait(), child.communicate()[1]

    def test_one_that_was_stopped_goes_on_to_the_same_numbers(self):
        command = [PLANTED, "--text", TEXT, "--tokens", 512, "--context", 128,
                   "--json", "--by", "ablation-zero,ablation-mean", "--self-repair",
                   "--partial", self.folder / "p"]
        whole = run("rank", *command)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        for how in signal.SIGINT, signal.SIGKILL:
            # One thread takes longer for the same: it is stopped in time.
            code, said = self.stop(command, how, "--threads", "1")
            self.assertTrue((self.folder / "p").exists())
            if how == signal.SIGINT:
                self.assertEqual(code, 1, said)
                self.assertIn("error: [rank]", said)
                self.assertIn("--resume", said)
                self.assertNotIn("similar", said)
            resumed = run("rank", *command, "--resume")
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            self.assertEqual(resumed.stdout, whole.stdout)
            self.assertFalse((self.folder / "p").exists())

    def test_what_was_kept_of_another_text_is_refused(self):
        command = [PLANTED, "--text", TEXT, "--tokens", 4096,
                   "--partial", self.folder / "p"]
        self.stop(command, signal.SIGINT)
        self.assertTrue((self.folder / "p").exists())
        command[4] = 2048
        other = run("rank", *command, "--resume")
        self.assertEqual(other.returncode, 1)
        self.assertIn("another text", other.stderr)
        self.assertTrue((self.folder / "p").exists())

    def test_ids_instead_of_text_need_no_tokenizer(self):
        model = self.folder / "model"
        model.mkdir()
        for name in "config.json", "model.safetensors":
            shutil.copy(GOLDENS / "llama" / name, model)
        write_ids(self.folder / "ids",
                  [[(3 * i + 7 * b) % 60 for i in range(24)] for b in range(6)])
        done = run("rank", model, "--ids", self.folder / "ids", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["tokens"], 144)
        for args in [], ["--ids", self.folder / "ids", "--text", TEXT]:
            self.assertEqual(run("rank", model, *args).returncode, 2)

    def test_one_sequence_cannot_be_resampled_and_nothing_runs(self):
        done = run("rank", PLANTED, "--text", TEXT, "--tokens", 64,
                   "--context", 64, "--by", "ablation-mean,ablation-resample",
                   "--partial", self.folder / "p")
        self.assertEqual(done.returncode, 1)
        self.assertIn("at least two sequences", done.stderr)

    def hurting(self, *args):
        done = run("rank", *args, "--by", "ablation-mean", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        json_form = json.loads(done.stdout)
        plain = run("rank", *args, "--by", "ablation-mean").stdout
        return json_form["hurting"], " ".join(plain.split())

    def test_whether_heads_hurt_has_an_answer_of_its_own(self):
        # 41 sequences; from half of them it cannot be told of every head.
        long = self.folder / "long.txt"
        long.write_text("".join(TEXT.read_text().splitlines(True)[:120]))
        found, said = self.hurting(PLANTED, "--text", long, "--context", 64)
        self.assertEqual(found["answer"], "some")
        self.assertIn("1 hurts", said)
        found, said = self.hurting(PLANTED, "--text", TEXT, "--tokens", 512,
                                   "--context", 64)
        self.assertEqual(found["answer"], "not-tested")
        self.assertNotIn("none hurts", said)
        self.assertIn("not tested", said)
        found, said = self.hurting(PLANTED, "--text", TEXT, "--tokens", 256)
        self.assertEqual(found["answer"], "not-tested")
        self.assertIn("at least 4 sequences", said)
        ids = self.folder / "ids"
        write_ids(ids, [[(3 * i + 7 * b) % 60 for i in range(24)]
                        for b in range(6)])
        found, said = self.hurting(GOLDENS / "bert-headless", "--ids", ids)
        self.assertEqual(found["answer"], "not-testable")
        self.assertIn("cannot be tested", said)


class NotFinite(unittest.TestCase):
    def test_every_command_names_the_weight_and_fails(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for value in float("nan"), float("inf"), -3.4e38:
                model = folder / "model"
                shutil.copytree(PLANTED, model, dirs_exist_ok=True)
                tensor = "transformer.h.1.ln_1.weight"
                spoil(model, tensor, value)
                for command, *args in (
                        ("rank", "--text", TEXT, "--tokens", 128),
                        ("similar", "--text", TEXT, "--tokens", 128),
                        ("patch", "--prompt", "The lamp", "--answers", " the",
                         " a"),
                        ("profile", "--text", TEXT, "--tokens", 128, "--out",
                         folder / "out"),
                        ("report", "--text", TEXT, "--tokens", 128, "--out",
                         folder / "out")):
                    done = run(command, model, *args)
                    self.assertEqual(done.returncode, 1, (command, value))
                    self.assertIn(tensor, done.stderr, command)
                    self.assertFalse((folder / "out").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
