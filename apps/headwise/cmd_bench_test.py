#!/usr/bin/env python3
"""What `headwise bench`, `headwise explain` and bench/compare promise to users.

    cmd_bench_test.py PATH/headwise
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HEADWISE = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ROW = ["op", "impl", "peer", "pass", "type", "mask", "batch", "heads",
       "kv_heads", "query_len", "key_len", "head_dim", "threads", "observe",
       "ms", "spread", "gflops", "extra_bytes"]
TINY = ["--heads", "2", "--query-len", "17", "--head-dim", "8",
        "--seconds", "0.05"]


def run(*arguments, **environment):
    return subprocess.run([HEADWISE, *arguments], text=True, check=False,
                          capture_output=True, timeout=120,
                          env={**os.environ, **environment})


class Bench(unittest.TestCase):
    def test_json_has_exactly_the_agreed_form(self):
        done = run("bench", "attention", *TINY, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(list(document), ["machine", "rows"])
        seen = set()
        for row in document["rows"]:
            self.assertEqual(list(row), ROW)
            self.assertFalse(row["peer"])
            self.assertGreater(row["ms"], 0)
            self.assertGreaterEqual(row["spread"], 0)
            self.assertGreaterEqual(row["extra_bytes"], 0)
            seen.add((row["mask"], row["observe"]))
        self.assertEqual(seen, {(mask, level) for mask in ("none", "causal")
                                for level in ("none", "core", "full")})

    def test_table_names_the_cost_of_statistics(self):
        done = run("bench", "attention", *TINY, "--mask", "causal")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 heads × 8", done.stdout)
        self.assertRegex(done.stdout, r"core .*[+-]\d+\.\d %")

    def test_matmul_is_timed(self):
        done = run("bench", "matmul", "--m", "4", "--n", "5", "--k", "6",
                   "--seconds", "0.05", "--json")
        row = json.loads(done.stdout)["rows"][0]
        self.assertEqual((row["op"], row["query_len"], row["key_len"],
                          row["head_dim"]), ("matmul", 4, 5, 6))

    def test_training_steps_are_timed_beside_their_products(self):
        done = run("bench", "train", "--sentences", "2", "--length", "16",
                   "--threads", "1,2", "--seconds", "0.1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["threads"] for row in rows], [1, 2])
        for row in rows:
            self.assertEqual((row["op"], row["batch"], row["length"]),
                             ("train", 2, 16))
            self.assertAlmostEqual(row["share"],
                                   row["gflops"] / row["matmul_gflops"])
            self.assertGreater(row["share"], 0)
            self.assertGreater(row["share_without_attention"], row["share"])

    def test_steps_of_a_shape_are_timed(self):
        shape = str(ROOT / "assets/planted")
        for gates in ([], ["--no-gates"]):
            done = run("bench", "train", "--shape", shape, "--sentences", "2",
                       "--length", "8", "--seconds", "0.01", "--json", *gates)
            self.assertEqual(done.returncode, 0, done.stderr)
            row, = json.loads(done.stdout)["rows"]
            self.assertEqual((row["op"], row["model"], row["gates"]),
                             ("train", shape, not gates))
            self.assertAlmostEqual(row["tokens_per_second"],
                                   2 * 8 * 1e3 / row["ms"])
        self.assertIn("tokens/s", run(
            "bench", "train", "--shape", shape, "--sentences", "1",
            "--length", "4", "--seconds", "0.01").stdout)

    def test_decoding_is_timed_beside_a_copy(self):
        few = ["--context", "4", "--tokens", "3", "--seconds", "0.01"]
        for model in ([str(ROOT / "assets/novels")],
                      ["--shape", "minimind2-small"]):
            done = run("bench", "decode", *model, *few, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            row, = json.loads(done.stdout)["rows"]
            self.assertEqual((row["op"], row["model"], row["device"]),
                             ("decode", model[-1], "cpu"))
            self.assertEqual((row["context"], row["tokens"]), (4, 3))
            self.assertAlmostEqual(
                row["rate"],
                1e-9 * row["bytes_per_token"] * row["tokens_per_second"])
            self.assertAlmostEqual(row["share"],
                                   row["rate"] / row["copy_rate"])
        self.assertIn("% of a copy's",
                      run("bench", "decode", *model, *few).stdout)

    def test_shapes_devices_and_types_that_are_not_here_are_named(self):
        for words, code, text in (
                (["--shape", "llama-8"], 1, "expected llama-7b, "),
                (["--shape", "gpt2", str(ROOT / "assets/novels")], 2,
                 "--shape or a model's folder"),
                (["--device", "gpu"], 2, "expected cpu, cuda, cuda:N or auto"),
                (["--device", "cuda:99"], 1, "expected a "),
                (["--type", "bf16"], 2, "expected f32")):
            done = run("bench", "decode", *words)
            self.assertEqual(done.returncode, code, words)
            self.assertIn(text, done.stderr)

    def test_fewer_heads_are_timed_beside_all(self):
        done = run("bench", "prune", "--prompt", "64", "--seconds", "0.1",
                   "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row.get("proportion") for row in rows],
                         [1, 0.75, 0.5, 0.25] + 7 * [None])
        self.assertEqual(rows[0]["share"], 1)
        self.assertEqual([row["what"] for row in rows if row["share"] == 1],
                         ["12 of 12 heads", "mixture, 8 of 8 a token",
                          "mixture, 8 of 8 a token, trained"])
        self.assertLess(rows[3]["ms"], rows[0]["ms"])

    def test_missing_peer_leaves_a_note_and_no_failure(self):
        with tempfile.TemporaryDirectory() as empty:
            done = run("bench", "attention", *TINY, "--mask", "none",
                       "--peers", HEADWISE_PEERS=empty)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("peer onnxruntime: not installed; run bench/peers/setup",
                      done.stdout)

    def test_usage_errors_name_the_nearest_and_exit_2(self):
        for arguments, text in (
                (["bench"], "OPERATOR is required"),
                (["bench", "atention"], "did you mean attention?"),
                (["bench", "attention", "--hedas", "2"],
                 "did you mean --heads?"),
                (["bench", "attention", "--mask", "casual"],
                 "did you mean causal?"),
                (["bench", "attention", "--m", "2"],
                 "--m says nothing about attention"),
                (["bench", "attention", "--heads", "6", "--kv-heads", "4"],
                 "heads 6, kv_heads 4")):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_files_that_cannot_be_used_exit_1(self):
        done = run("bench", "attention", "--problems", "no/such.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/such.json", done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"op": "attention", "problems": [{"hedas": 3}]}')
            file.flush()
            done = run("bench", "attention", "--problems", file.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn('did you mean "heads"?', done.stderr)

    def test_flags_lie_over_the_problems_of_a_file(self):
        done = run("bench", "attention", *TINY, "--problems",
                   str(ROOT / "bench/problems/attention_backward.json"),
                   "--mask", "causal", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["pass"] for row in rows],
                         ["forward", "backward"])
        self.assertEqual({row["query_len"] for row in rows}, {17})


class Explain(unittest.TestCase):
    def test_every_implementation_runs_or_says_why_not(self):
        done = run("explain", "attention", "--mask", "causal", "--json")
        problem = json.loads(done.stdout)["problems"][0]
        names = {one["name"]: one["why_not"]
                 for one in problem["implementations"]}
        self.assertEqual(names["reference"], "")
        text = run("explain", "attention", "--mask", "causal").stdout
        self.assertRegex(text, r"reference +runs")
        self.assertIn("instruction set: ", text)

    def test_matmul_too(self):
        self.assertRegex(run("explain", "matmul").stdout, r"reference +runs")


class Compare(unittest.TestCase):
    def compare(self, base_ms, new_ms, *flags):
        row = dict.fromkeys(ROW, 1)
        row.update(peer=False, spread=0.01)
        paths = []
        with tempfile.TemporaryDirectory() as folder:
            for name, ms in (("base", base_ms), ("new", new_ms)):
                path = pathlib.Path(folder) / name
                path.write_text(json.dumps({"rows": [{**row, "ms": ms}]}))
                paths.append(str(path))
            return subprocess.run(
                [sys.executable, str(ROOT / "bench/compare"), *paths, *flags],
                text=True, check=False, capture_output=True)

    def test_ratio_is_the_gain_of_the_new(self):
        done = self.compare(3.0, 2.0)
        self.assertEqual(done.returncode, 0)
        self.assertIn("1.500×", done.stdout)

    def test_fails_only_beyond_the_limit_and_the_noise(self):
        self.assertEqual(self.compare(1, 1.06, "--fail", "5").returncode, 0)
        self.assertEqual(self.compare(1, 1.08, "--fail", "5").returncode, 1)


if __name__ == "__main__":
    unittest.main()
