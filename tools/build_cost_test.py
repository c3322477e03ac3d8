"""Tests of what is said about a build's cost."""
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import build_cost


def made_up(seconds, processor="Abacus"):
    return {"processor": processor, "compiler": "g++ 12",
            "processor_s": seconds, "steps": 300}


class BuildCostTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "cost.json"
        self.path.write_text('{"machines": []}')

    def test_warns_when_a_tenth_is_passed_and_not_before(self):
        build_cost.record(self.path, made_up(100))
        for seconds, warns in ((90, False), (110, False), (111, True)):
            said = build_cost.judge(self.path, made_up(seconds))
            self.assertEqual(said.startswith("warning"), warns, said)

    def test_compares_only_with_the_same_processor(self):
        build_cost.record(self.path, made_up(100, "another"))
        self.assertIn("no figure", build_cost.judge(self.path, made_up(500)))

    def test_recording_replaces_the_machines_figure_alone(self):
        for cost in (made_up(100), made_up(7, "another"), made_up(120)):
            build_cost.record(self.path, cost)
        kept = json.loads(self.path.read_text())["machines"]
        self.assertEqual(sorted(cost["processor_s"] for cost in kept),
                         [7, 120])

    def measure(self, *hits):
        stage = mock.Mock(processor_s=5.0)

        def run(*_):
            stage.processor_s += 42.0
            return 0, "[1/7] Building\n[7/7] Linking\n"

        stage.run.side_effect = run
        with mock.patch.object(build_cost, "cache_hits", side_effect=hits):
            return build_cost.measure(stage, "build", "all")

    def test_measures_a_build_that_no_cache_answered(self):
        cost, said = self.measure(10, 10)
        self.assertEqual((cost["processor_s"], cost["steps"]), (42, 7))
        self.assertIn("42 s", said)

    def test_a_build_that_the_cache_answered_is_no_measure(self):
        cost, said = self.measure(10, 13)
        self.assertIsNone(cost)
        self.assertIn("answered 3 of 7", said)

    def test_the_processor_has_a_name(self):
        self.assertNotIn(build_cost.processor(), ("", "unknown"))


if __name__ == "__main__":
    unittest.main()
