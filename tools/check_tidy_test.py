"""Tests of batches for clang-tidy."""
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import check_tidy


class TidyTest(unittest.TestCase):
    """With a clang-tidy that dislikes what a test says."""

    def run_tidy(self, *command, may_fail):
        path = next(word for word in command
                    if str(word).endswith(".cc"))
        self.runs += 1
        batch = re.findall(r'"(.*)"', path.read_text()) \
            if path.parent.name == "batches" else [str(path)]
        said = [f"{name}:1:1: error: x" for name in batch
                if name in self.bad or len(batch) > 1 and name in self.clashes]
        return bool(said), "\n".join(said)

    def look(self, bad=(), clashes=()):
        self.bad, self.clashes, self.runs = bad, clashes, 0
        with tempfile.TemporaryDirectory() as folder:
            found = check_tidy.look(
                mock.Mock(run=self.run_tidy), pathlib.Path(folder),
                [(pathlib.Path(f"/{name}.cc"), name) for name in "abcd"], [])
        return {key for key, code, _ in found if code}

    def test_a_batch_that_is_clean_is_one_run(self):
        self.assertEqual(self.look(), set())
        self.assertEqual(self.runs, 1)

    def test_what_is_wrong_is_said_of_a_source(self):
        self.assertEqual(self.look(bad=("/b.cc",)), {"b"})

    def test_names_that_clash_fail_nobody(self):
        self.assertEqual(self.look(clashes=("/b.cc", "/c.cc")), set())
        self.assertEqual(self.look(bad=("/b.cc",), clashes=("/b.cc", "/c.cc")),
                         {"b"})


if __name__ == "__main__":
    unittest.main()
