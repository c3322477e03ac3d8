#!/usr/bin/env python3
"""Commands that keep what they have: killed, they go on to the same output.

Usage: resume_test.py PROGRAM SOURCE_FOLDER
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
MODEL = SOURCE / "assets" / "planted"
TEXT = SOURCE / "assets" / "text" / "the-lamp-at-sorrel-point.txt"
LONG = ("--text", TEXT, "--context", 64, "--tokens")


class Resume(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.partial = self.folder / "p"

    def run_with(self, *args):
        return subprocess.run(
            [PROGRAM, *map(str, args), "--partial", self.partial], text=True,
            capture_output=True, timeout=120, cwd=self.folder)

    def whole(self, *args):
        done = self.run_with(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.partial.exists())
        return done.stdout

    def kill(self, *args):
        """Kills a command once it has kept something."""
        child = subprocess.Popen(
            [PROGRAM, *map(str, args), "--partial", self.partial, "--threads",
             "1", "--checkpoint-seconds", "1e-6"], cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while (not self.partial.exists() and child.poll() is None
               and time.monotonic() < deadline):
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        self.assertEqual(child.returncode, -signal.SIGKILL, "it had ended")
        self.assertTrue(self.partial.exists())

    def check_goes_on(self, *args, output=lambda printed: printed):
        whole = output(self.whole(*args))
        self.kill(*args)
        resumed = self.run_with(*args, "--resume")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(output(resumed.stdout), whole)
        self.assertFalse(self.partial.exists())

    def test_profile(self):
        out = self.folder / "out.heads"
        self.check_goes_on(
            "profile", MODEL, *LONG, 8192, "--words", "--repeats", 2, "--out",
            out, output=lambda _: out.read_bytes())

    def test_similar(self):
        self.check_goes_on("similar", MODEL, *LONG, 1024, "--json")

    def test_atlas(self):
        def files(_):
            root = self.folder / "atlas"
            found = {path.relative_to(root): path.read_bytes()
                     for path in root.rglob("*.*")}
            shutil.rmtree(root)
            return found
        self.check_goes_on("atlas", MODEL, *LONG, 8192, "--out",
                           self.folder / "atlas", "--profile-tokens", 512,
                           "--rank-tokens", 128, "--strongest", 2, output=files)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_evaluate_with_means_over_the_text(self):
        self.check_goes_on("evaluate", MODEL, *LONG, 8192, "--drop", "1.1,0.4",
                           "--replace", "mean", "--json")

    def test_evaluate_refuses_other_heads(self):
        args = ("evaluate", MODEL, *LONG, 8192, "--drop")
        self.kill(*args, "1.1")
        other = self.run_with(*args, "1.2", "--resume")
        self.assertEqual(other.returncode, 1)
        self.assertIn("other settings", other.stderr)

    def test_patch(self):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({
            "prompt": f"The {animal} sat near the old",
            "counterfactual": f"The {animal} sat near the new",
            "answers": [" house", " river"]}) + "\n"
            for animal in 300 * ("cat", "dog")))
        self.check_goes_on("patch", SOURCE / "assets" / "novels", "--prompts",
                           prompts, "--json")

    def test_the_plan_of_prune(self):
        plan = self.folder / "plan.json"
        self.check_goes_on(
            "prune", MODEL, *LONG, 4096, "--max-loss", "+5%", "--plan-only",
            "--plan-out", plan, output=lambda _: plan.read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
