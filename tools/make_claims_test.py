"""What tools/make_claims.py says of made-up records, and how figures are taken
from what commands print."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import claims_figures  # noqa: E402
import make_claims  # noqa: E402


def figure(word="HELD", value=1.0, **more):
    return {"value": value, "expected": "≥ 0", "decides": True,
            "verdict": word, **more}


def record(figures, **more):
    return {"study": "s", "figures": figures, "seeds": [1, 2], "full": True,
            "hash": "aa", "machine": "a processor", "date": "2026-01-31",
            "seconds": 1, **more}


def study_page(figures, row=None, hashes=None, **more):
    claims = {"claims": [{"section": "One"},
                         {"number": 1, "claim": "A | b.", "study": "s",
                          **(row or {})}], "corrections": []}
    return make_claims.page(claims, {"s": record(figures, **more)}, {}, hashes)


class TakeTest(unittest.TestCase):
    PRINTED = {"heads": [
        {"class": "critical", "roles": [], "d": {"mean": 3, "low": 2,
                                                 "high": 4}},
        {"class": "slack", "roles": ["x"], "d": {"mean": 9, "low": 8,
                                                 "high": 10}}],
               "gini": 0.5, "a.b": 7}

    def take(self, **figure_):
        return claims_figures.take({"name": "n", **figure_}, self.PRINTED)

    def test_paths(self):
        self.assertEqual(self.take(path="gini"), 0.5)
        self.assertEqual(self.take(path="a.b"), 7)
        self.assertEqual(self.take(path="heads/1/class"), "slack")

    def test_reductions(self):
        self.assertEqual(self.take(path="heads/*", reduce="count"), 2)
        self.assertEqual(self.take(path="heads/*", where=["roles", "=", []],
                                   of="class", reduce="count"), 1)
        self.assertEqual(self.take(path="heads/*", where=["d/low", "≥", 5],
                                   reduce="count"), 1)
        self.assertEqual(self.take(path="heads/*", where=["none", "≥", 5],
                                   reduce="count"), 0)
        self.assertEqual(self.take(path="heads/*/class", reduce="distinct"), 2)
        self.assertEqual(self.take(path="heads/*/d", reduce="max")["mean"], 9)

    def test_several_values_need_a_reduction(self):
        with self.assertRaises(ValueError):
            self.take(path="heads/*/class")
        with self.assertRaises(KeyError):
            self.take(path="missing")

    def test_words(self):
        taken = {"name": "n", "path": "gini", "expected": "≥ 0.4"}

        def word(basis, **more):
            return claims_figures.measure({**taken, **more}, self.PRINTED,
                                          basis)["verdict"]

        self.assertEqual(word("program"), "HELD")
        self.assertEqual(word("program", expected="≤ 0.4"), "REFUTED")
        self.assertEqual(word("model"), "UNDECIDED")

    def test_an_interval_is_kept(self):
        taken = claims_figures.measure(
            {"name": "n", "path": "heads/0/d"}, self.PRINTED, "model")
        self.assertEqual(taken["value"], 3)
        self.assertEqual(taken["sequences"], {"low": 2, "high": 4})
        self.assertFalse(taken["decides"])

    def test_a_hash_sees_what_is_expected(self):
        row = {"claim": "c", "command": "headwise x", "basis": "program",
               "take": [{"name": "n", "path": "p", "expected": "≥ 1"}]}
        before = claims_figures.row_hash(row)
        self.assertEqual(before, claims_figures.row_hash({**row, "note": "n"}))
        row["take"] = [{**row["take"][0], "expected": "≥ 2"}]
        self.assertNotEqual(before, claims_figures.row_hash(row))


class PageTest(unittest.TestCase):
    def test_the_weakest_word(self):
        for words, weakest in [(["HELD"], "HELD"),
                               (["HELD", "EXPLORATORY"], "EXPLORATORY"),
                               (["EXPLORATORY", "UNDECIDED"], "UNDECIDED"),
                               (["UNDECIDED", "REFUTED"], "REFUTED")]:
            figures = {str(i): figure(word) for i, word in enumerate(words)}
            text, said = study_page(figures)
            self.assertEqual(said, [weakest])
            self.assertIn(f"| **{weakest}** |", text)
            self.assertIn(f"1 {weakest}", text.split("##")[0])

    def test_a_row_says_all_of_its_run(self):
        text, _ = study_page({"gain": figure(low=0.5, high=1.5)})
        self.assertIn("| 1 | A \\| b. | `headwise study s --full` | "
                      "gain: 1 [0.5, 1.5] (≥ 0). | 2 | a processor, 2026-01-31 "
                      "| **HELD** |", text)

    def test_a_row_judges_the_figures_it_names(self):
        figures = {"a": figure("HELD"), "b": figure("REFUTED"),
                   "c": {**figure("HELD"), "decides": False}}
        self.assertEqual(study_page(figures, {"figures": ["a"]})[1], ["HELD"])
        self.assertEqual(study_page(figures, {"figures": ["a", "c"]})[1],
                         ["HELD"])
        self.assertEqual(study_page(figures, {"figures": ["c"]})[1],
                         ["UNDECIDED"])
        with self.assertRaises(SystemExit):
            study_page(figures, {"figures": ["d"]})

    def test_why_nothing_is_decided(self):
        text, _ = study_page({"a": figure("UNDECIDED",
                                          why="1 of at least 5 seeds")})
        self.assertIn("**UNDECIDED**: 1 of at least 5 seeds |", text)

    def test_another_hash_makes_a_row_stale(self):
        figures = {"a": figure()}
        self.assertEqual(study_page(figures, hashes={"s": "aa"})[1], ["HELD"])
        self.assertEqual(study_page(figures, hashes={"s": "bb"})[1], ["stale"])
        self.assertEqual(study_page(figures, hashes={"t": "aa"})[1], ["stale"])

    def test_records_of_the_old_form_are_not_measured(self):
        claims = {"claims": [{"section": "One"},
                             {"number": 1, "claim": "c", "study": "s"}],
                  "corrections": []}
        old = {"held": True, "figures": {}, "full": True}
        for studies in ({}, {"s": old}):
            _, words = make_claims.page(claims, studies, {})
            self.assertEqual(words, [make_claims.UNMEASURED])

    def test_rows_of_commands(self):
        row = {"number": 2, "claim": "c", "command": "headwise x --json",
               "basis": "detectors",
               "take": [{"name": "n", "path": "p", "expected": "≥ 1"}]}
        claims = {"claims": [{"section": "One"}, row], "corrections": []}
        kept = {"2": {"hash": claims_figures.row_hash(row), "machine": "m",
                      "date": "d", "figures": {"n": figure()}}}
        text, words = make_claims.page(claims, {}, kept)
        self.assertEqual(words, ["HELD"])
        self.assertIn("detectors only", text)
        row["take"][0]["expected"] = "≥ 2"
        self.assertEqual(make_claims.page(claims, {}, kept)[1], ["stale"])
        self.assertEqual(make_claims.page(claims, {}, {})[1],
                         [make_claims.UNMEASURED])
        row["no_verdict"] = "advice"
        row["take"][0]["expected"] = "≥ 1"
        self.assertEqual(make_claims.page(claims, {}, kept)[1], [""])


if __name__ == "__main__":
    unittest.main()
