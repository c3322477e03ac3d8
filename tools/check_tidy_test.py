"""Tests of batches for clang-tidy."""
import pathlib
import re
import tempfile
import unittest
from unittest import mock

import check_tidy


class TidyTest(unittest.TestCase):
    """With a clang-tidy that dislikes what a test says."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runs = []

    def run_tidy(self, *command, may_fail):
        path = next(word for word in command if str(word).endswith(".cc"))
        text = path.read_text()
        batch = re.findall(r'#include "(.*)"', text) \
            if path.parent.name == "batches" else [str(path)]
        self.runs.append(text)
        said = []
        for name in batch:
            letter = pathlib.Path(name).stem
            if letter in self.bad:
                said.append(f"{name}:1:1: error: bad")
            if len(batch) > 1 and letter in self.clashes and \
                    "#define Name" not in text:
                said.append(f"{name}:1:1: error: redefinition of 'Name'")
            if len(batch) > 1 and letter in self.quarrels:
                said.append(f"{name}:1:1: error: only together")
        return bool(said), "\n".join(said)

    def look(self, bad="", clashes="", quarrels=""):
        self.bad, self.clashes, self.quarrels = bad, clashes, quarrels
        self.runs.clear()
        part = []
        for letter in "abcd":
            source = self.folder / f"{letter}.cc"
            source.write_text("#include <vector>\n")
            part.append((source, letter))
        found = check_tidy.look(mock.Mock(run=self.run_tidy), self.folder,
                                part, [])
        self.assertEqual({key for key, _, _ in found}, set("abcd"))
        return {key for key, code, _ in found if code}

    def test_a_batch_that_is_clean_is_one_run(self):
        self.assertEqual(self.look(), set())
        self.assertEqual(len(self.runs), 1)

    def test_what_is_wrong_is_said_of_a_source(self):
        self.assertEqual(self.look(bad="b"), {"b"})

    def test_names_that_clash_are_told_apart(self):
        self.assertEqual(self.look(clashes="bc"), set())
        self.assertEqual(len(self.runs), 2)
        self.assertTrue(self.runs[1].startswith("#include <vector>\n"))
        self.assertIn("#define Name Name_3\n", self.runs[1])

    def test_what_is_wrong_only_together_fails_nobody(self):
        self.assertEqual(self.look(quarrels="bc"), set())
        self.assertEqual(self.look(bad="b", clashes="c", quarrels="bd"), {"b"})


if __name__ == "__main__":
    unittest.main()
