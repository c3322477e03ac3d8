"""Tests of how ./check remembers, counts and fails."""
import contextlib
import io
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

import check_stages
import house_files
import run_checks
import stage_costs
from run_checks import Count, Failed, Skipped


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, value in (("ROOT", pathlib.Path(folder.name)),
                            ("CHECK", pathlib.Path(folder.name))):
            self.addCleanup(setattr, run_checks, name,
                            getattr(run_checks, name))
            setattr(run_checks, name, value)
        self.runs = 0


class RunStageTest(InAFolder):
    def run_stage(self, body, key="a", again=False):
        def counted(stage):
            self.runs += 1
            return body(stage)

        run_checks.STAGES["made-up"] = run_checks.Kind(counted, "", ("src/",))
        self.addCleanup(run_checks.STAGES.pop, "made-up", None)
        with contextlib.redirect_stdout(io.StringIO()) as self.said:
            return run_checks.run_stage("made-up", {"made-up": key}, again)

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

    def test_what_a_stage_proves_is_not_run_again(self):
        def refuse(_):
            raise Failed("run again")

        for name, kind in (
                ("whole", run_checks.Kind(lambda _: Count(3), "",
                                          proves="part")),
                ("part", run_checks.Kind(refuse, ""))):
            run_checks.STAGES[name] = kind
            self.addCleanup(run_checks.STAGES.pop, name)
        with contextlib.redirect_stdout(io.StringIO()):
            for name, key, passed in (("whole", "a", 3), ("part", "a", 3),
                                      ("part", "b", 0)):
                count = run_checks.run_stage(
                    name, {"whole": key, "part": key}, False)
                self.assertEqual(count.passed, passed)

    def test_a_key_follows_the_files_a_stage_reads(self):
        self.run_stage(lambda _: Count(1))
        keys = {run_checks.key_of("made-up", hashes) for hashes in (
            {"src/a.cc": "1"}, {"src/a.cc": "1", "docs/b.md": "1"},
            {"src/a.cc": "2"}, {"src/a.cc": "1", "tools/c.py": "1"})}
        self.assertEqual(len(keys), 3)

    def test_what_a_stage_reads_may_be_an_ending(self):
        kind = run_checks.Kind(None, "", ("docs/", "*.md"))
        for path, read in (("docs/a.json", True), ("src/b/c.md", True),
                           ("src/b/c.cc", False)):
            self.assertEqual(kind.depends_on(path), read, path)

    def test_a_stage_that_passed_tells_its_cost(self):
        self.run_stage(lambda stage: stage.run("true") and Count(5))
        table = stage_costs.table(run_checks.CHECK, {"made-up": "a thing"})
        self.assertRegex(table, r"\| made-up \| a thing \| 5 \| \d+ s")


class RunStagesTest(InAFolder):
    """The order of stages, and what runs beside them."""

    def run_stages(self, again=False):
        with contextlib.redirect_stdout(io.StringIO()) as self.said, \
                mock.patch.object(house_files, "hashes", lambda _: {}):
            return run_checks.run_stages(["aside", "front"], again)

    def test_the_background_runs_beside_the_others_and_counts(self):
        begun, ended = threading.Event(), threading.Event()

        def front(_):
            # Would wait for ever if one came after the other.
            self.assertTrue(begun.wait(10))
            ended.set()
            return Count(2)

        def aside(stage):
            begun.set()
            self.assertTrue(ended.wait(10))
            _, nice = stage.run("nice")
            return Count(int(nice))

        for name, body in (("aside", aside), ("front", front)):
            run_checks.STAGES[name] = run_checks.Kind(
                body, "", background=name == "aside")
            self.addCleanup(run_checks.STAGES.pop, name)
        self.assertEqual(sum(count.passed for count in self.run_stages()),
                         2 + 19)


class LinkTest(unittest.TestCase):
    def test_objects_come_before_the_libraries(self):
        self.assertEqual(check_stages.with_objects(
            ": && g++ -O3 main.o -o apps/headwise/headwise  ops.a -lz && :",
            ["/c/a.o", "/c/b.o"], "/check/program", "/cuda/rt.a"),
            ": && g++ -O3 main.o /c/a.o /c/b.o -o /check/program  ops.a -lz "
            "/cuda/rt.a -ldl -lrt -lpthread && :")


class SpeedsTest(unittest.TestCase):
    def test_without_nvcc_or_gpu_the_gpu_stage_skips_loudly(self):
        for options, gpu, why in ((None, "a GPU", "no nvcc"),
                                  ([], "", "nvidia-smi finds none")):
            with mock.patch.multiple(
                    check_stages, cuda_options=lambda found=options: found,
                    gpu_name=lambda found=gpu: found), \
                    self.assertRaises(Skipped) as skipped:
                check_stages.stage_gpu(None)
            self.assertIn("NOTHING WAS TESTED ON A GPU", str(skipped.exception))
            self.assertIn(why, str(skipped.exception))

    def test_the_whole_has_all_that_the_quick_one_has(self):
        """Under the same name, or as the stage that the quick one is of."""
        whole = {name for name, kind in run_checks.STAGES.items()
                 if kind.whole}
        quick = {name for name, kind in run_checks.STAGES.items()
                 if kind.quick}
        self.assertEqual(quick - whole, {"changed", "documents"})
        self.assertLessEqual({"unit", "docs", "asan", "tsan", "tidy"}, whole)


if __name__ == "__main__":
    unittest.main()
