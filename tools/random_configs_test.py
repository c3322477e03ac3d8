"""Tests of tools/random_configs.py, without torch and transformers."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import random_configs

TOOL = pathlib.Path(random_configs.__file__)
DRAWN = range(60)


class RandomConfigsTest(unittest.TestCase):
    def drawn(self, family, key):
        return {json.dumps(random_configs.drawn(family, seed).get(key))
                for seed in DRAWN}

    def test_a_seed_makes_the_same_again(self):
        for family in random_configs.FAMILIES:
            self.assertEqual(random_configs.drawn(family, 7),
                             random_configs.drawn(family, 7))
            self.assertGreater(len({json.dumps(random_configs.drawn(
                family, seed)) for seed in DRAWN}), 30)

    def test_every_family_has_an_output_of_its_own_at_times(self):
        for family in random_configs.FAMILIES:
            self.assertEqual(self.drawn(family, "tie_word_embeddings"),
                             {"true", "false"})

    def test_settings_that_nobody_computes_come_up(self):
        self.assertIn("true", self.drawn("gpt2", "add_cross_attention"))
        self.assertIn("false", self.drawn("llama", "is_causal"))
        self.assertIn(0.5, {
            random_configs.drawn("qwen3", seed)["rope_parameters"].get(
                "partial_rotary_factor") for seed in DRAWN})

    def test_every_type_of_rotary_positions_comes_up(self):
        for family in ("llama", "mistral", "qwen2", "qwen3"):
            self.assertEqual(
                {random_configs.drawn(family, seed)["rope_parameters"][
                    "rope_type"] for seed in DRAWN},
                {"default", "linear", "dynamic", "llama3", "yarn", "longrope",
                 "proportional"})

    def test_a_refusal_must_name_a_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "config.json").write_text(json.dumps(
                {"is_causal": False, "rope_parameters": {"rope_type": "x"}}))
            for error, named in (('expected "is_causal" to be true', True),
                                 ('expected "rope_type" to be', True),
                                 ("a fault of the program", False)):
                self.assertEqual(random_configs.named(error, folder), named)

    def test_the_table_counts_verdicts(self):
        lines = random_configs.table({"bert": {"right": 2, "refused": 1,
                                               "left out": 0, "wrong": 0},
                                      "gpt2": {"right": 3, "refused": 0,
                                               "left out": 1, "wrong": 4}})
        self.assertEqual(lines.splitlines()[-1].split(),
                         ["all", "5", "1", "1", "4"])

    def test_it_skips_where_transformers_is_absent(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "torch.py").write_text("raise ImportError")
            done = subprocess.run(
                [sys.executable, TOOL], env={"PYTHONPATH": folder},
                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (77, ""))
        self.assertIn("transformers is not installed", done.stdout)


if __name__ == "__main__":
    unittest.main()
