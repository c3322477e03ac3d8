"""Tests of how ./check remembers, counts and fails."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import run_checks
from run_checks import Count, Failed, Skipped


class RunStageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, value in (("ROOT", pathlib.Path(folder.name)),
                            ("CHECK", pathlib.Path(folder.name))):
            self.addCleanup(setattr, run_checks, name,
                            getattr(run_checks, name))
            setattr(run_checks, name, value)
        self.runs = 0

    def run_stage(self, body, key="a", again=False):
        def counted(stage):
            self.runs += 1
            return body(stage)

        run_checks.STAGES["made-up"] = (counted, "", ("src/",))
        self.addCleanup(run_checks.STAGES.pop, "made-up", None)
        with contextlib.redirect_stdout(io.StringIO()) as self.said:
            return run_checks.run_stage("made-up", key, again)

    def test_passed_is_remembered_until_a_file_changes(self):
        for key, again, runs in [("a", False, 1), ("a", False, 1),
                                 ("a", True, 2), ("b", False, 3)]:
            count = self.run_stage(lambda _: Count(7), key, again)
            self.assertEqual((count.passed, self.runs), (7, runs))

    def test_failed_is_run_again_and_says_why(self):
        def fail(_):
            raise Failed("the reason", Count(passed=2, failed=3))

        for runs in (1, 2):
            count = self.run_stage(fail)
            self.assertEqual((count.passed, count.failed), (2, 3))
            self.assertEqual(self.runs, runs)
            self.assertIn("the reason", self.said.getvalue())

    def test_a_failing_command_fails_its_stage(self):
        count = self.run_stage(lambda stage: stage.run("false"))
        self.assertEqual(count.failed, 1)

    def test_skipped_is_loud_and_not_remembered(self):
        def skip(_):
            raise Skipped("no nvcc")

        for runs in (1, 2):
            count = self.run_stage(skip)
            self.assertEqual((count.skipped, self.runs), (1, runs))
            self.assertIn("SKIPPED", self.said.getvalue())
            self.assertIn("no nvcc", self.said.getvalue())

    def test_a_key_follows_the_files_a_stage_reads(self):
        self.run_stage(lambda _: Count(1))
        keys = {run_checks.key_of("made-up", hashes) for hashes in (
            {"src/a.cc": "1"}, {"src/a.cc": "1", "docs/b.md": "1"},
            {"src/a.cc": "2"}, {"src/a.cc": "1", "tools/c.py": "1"})}
        self.assertEqual(len(keys), 3)


if __name__ == "__main__":
    unittest.main()
