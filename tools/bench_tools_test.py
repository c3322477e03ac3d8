"""Tests that the tools which README.md and bench/README.md name can be started.
Needs nothing that they measure: no GPU, PyTorch or NumPy."""
import ast
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Their documents name files from one of these.
FOLDERS = (ROOT, ROOT / "bench", ROOT / "bench" / "gpu")
NAMES = re.compile(r"(?<![\w./])((?:tools|bench|peers)/\w[\w./]*|\w+\.py)\b")
BROUGHT_BY_SETUP = "peers/lib"


def named():
    return sorted({name for document in ("README.md", "bench/README.md")
                   for name in NAMES.findall((ROOT / document).read_text(
                       encoding="utf-8"))} - {BROUGHT_BY_SETUP})


def place(name):
    return next((folder / name for folder in FOLDERS
                 if (folder / name).is_file()), None)


class BenchToolsTest(unittest.TestCase):
    def test_what_the_documents_name_exists(self):
        self.assertIn("tools/bench_gpu", named())
        self.assertEqual([name for name in named() if place(name) is None], [])

    def test_the_bridge_and_its_caller_name_the_same_views(self):
        bridge, calls = ((ROOT / "bench" / "gpu" / name).read_text(
            encoding="utf-8") for name in ("bridge.cc", "calls.py"))
        views = re.findall(r"^  k(\w+),$", re.search(
            r"enum ViewName \{(.*?)kViewCount", bridge, re.S)[1], re.M)
        self.assertEqual(
            [re.sub(r"(?<!^)([A-Z])", r"_\1", view).lower() for view in views],
            ast.literal_eval(re.search(r"^NAMES = (\[.*?\])$", calls,
                                       re.S | re.M)[1]))

    def test_each_tool_says_how_it_is_used(self):
        for path in sorted({place(name) for name in named()} - {None}):
            if not os.access(path, os.X_OK):
                continue
            with self.subTest(path.name):
                done = subprocess.run([path, "--help"], capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("usage:", done.stdout)


if __name__ == "__main__":
    unittest.main()
