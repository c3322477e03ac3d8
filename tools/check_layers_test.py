"""Tests of check_layers.py on small made-up trees."""
import pathlib
import tempfile
import unittest

import check_layers


def problems(files):
    """What the check says of a tree {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.check(folder)


def include(*names):
    return "".join(f'#include "headwise/{name}"\n' for name in names)


class CheckLayersTest(unittest.TestCase):
    def assert_one(self, found, *words):
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_downward_passes(self):
        self.assertEqual(problems({
            "src/headwise/base/rng.h": "",
            "src/headwise/ops/loss/loss.cc": include("base/rng.h"),
            "apps/headwise/bench/bench.cc": include("base/rng.h"),
        }), [])

    def test_program_takes_only_what_is_listed_from_inside(self):
        inside = {"src/headwise/nn/linear.h": "", "src/headwise/base/json.h": ""}
        self.assert_one(problems({
            "apps/headwise/cmd_new.cc": include("nn/linear.h"), **inside,
        }), "cmd_new.cc", "nn/linear.h", "APPS_INSIDE")
        self.assertEqual(problems({
            "apps/headwise/cmd_new.cc": include("base/json.h", "error.h"),
            "include/headwise/error.h": "", **inside,
        }), [])
        self.assertEqual(problems({
            "apps/headwise/study_all.cc": include("drawing/study_report.h"),
            "src/headwise/drawing/study_report.h": "",
        }), [])

    def test_what_the_program_no_longer_takes_is_not_listed(self):
        self.assert_one(problems({"apps/headwise/study_all.cc": ""}),
                        "study_all.cc", "no longer includes", "study_report.h")

    def test_every_reason_is_given(self):
        tables = (check_layers.APPS_SHARED, check_layers.APPS_WHOLE)
        reasons = [r for table in tables for r in table.values()]
        reasons += [r for _, r in check_layers.APPS_INSIDE.values()]
        self.assertTrue(all(reasons))

    def test_upward_fails(self):
        self.assert_one(problems({
            "src/headwise/base/rng.cc": include("nn/linear.h"),
            "src/headwise/nn/linear.h": "",
        }), "base/rng.cc", "upward", "nn/linear.h")

    def test_sideways_fails(self):
        self.assert_one(problems({
            "src/headwise/format/gguf.cc": include("tokenizer/bpe.h"),
            "src/headwise/tokenizer/bpe.h": "",
        }), "sideways")

    def test_relative_include_is_followed(self):
        self.assert_one(problems({
            "src/headwise/base/rng.cc": '#include "../nn/linear.h"\n',
            "src/headwise/nn/linear.h": "",
        }), "upward")
        self.assertEqual(problems({
            "src/headwise/nn/a.cc": '#include "b.h"\n',
            "src/headwise/nn/b.h": "",
        }), [])

    def test_order_inside_heads(self):
        self.assertEqual(problems({
            "src/headwise/heads/profile/p.h": "",
            "src/headwise/heads/roles/r.cc": include("heads/profile/p.h"),
        }), [])
        self.assert_one(problems({
            "src/headwise/heads/profile/p.cc": include("heads/roles/r.h"),
            "src/headwise/heads/roles/r.h": "",
        }), "not below")
        self.assert_one(problems({
            "src/headwise/heads/similarity/s.cc":
                include("heads/composition/c.h"),
            "src/headwise/heads/composition/c.h": "",
        }), "not below")

    def test_public_header_counts_as_its_layer(self):
        self.assert_one(problems({
            "include/headwise/attention.h": "",
            "src/headwise/tensor/tensor.cc": include("attention.h"),
        }), "tensor includes upward", "(ops)")

    def test_public_header_stays_clean(self):
        header = "include/headwise/tensor.h"
        for text, word in [("#include <hwy/highway.h>\n", "hwy/highway.h"),
                           (include("tensor/half.h"), "private"),
                           ("nlohmann::json Load();\n", "nlohmann::")]:
            self.assert_one(problems({
                header: text, "src/headwise/tensor/half.h": ""}), word)
        self.assertEqual(problems({header: "#include <vector>\n// hwy::\n"}),
                         [])

    def test_unknown_places_are_told(self):
        self.assert_one(problems({"src/headwise/util/x.h": ""}), "no layer")
        self.assert_one(problems({"include/headwise/new.h": ""}), "no layer")
        self.assert_one(problems({"src/headwise/heads/misc/x.h": ""}), "HEADS")

    def test_missing_header_is_told(self):
        self.assert_one(problems({
            "src/headwise/nn/a.cc": include("nn/gone.h")}), "not there")

    def test_circles(self):
        self.assert_one(problems({
            "src/headwise/nn/a.h": include("nn/b.h"),
            "src/headwise/nn/b.h": include("nn/a.h"),
        }), "files include in a circle")
        self.assert_one(problems({
            "src/headwise/ops/matmul/m.cc": include("ops/loss/l.h"),
            "src/headwise/ops/matmul/m.h": "",
            "src/headwise/ops/loss/l.h": "",
            "src/headwise/ops/loss/l.cc": include("ops/matmul/m.h"),
        }), "folders include in a circle")

    def test_layers_of_any_device_leave_memory_alone(self):
        self.assert_one(problems({
            "src/headwise/nn/a.cc": "float* x = view.As<float>();\n",
        }), "nn/a.cc", "As<>")
        self.assert_one(problems({
            "src/headwise/backend/cpu/pool.h": "",
            "src/headwise/nn/a.h": include("backend/cpu/pool.h"),
        }), "nn/a.h", "backend/cpu/pool.h")
        self.assertEqual(problems({
            "src/headwise/backend/cpu/pool.h": "",
            "src/headwise/nn/a.cc": "// As<float> is for operators.\n",
            "src/headwise/nn/a_test.cc":
                include("backend/cpu/pool.h") + "x.As<float>();\n",
            "src/headwise/nn/a_bench.cc": "x.As<float>();\n",
            "src/headwise/ops/loss/l.cc":
                include("backend/cpu/pool.h") + "x.Raw<float>();\n",
        }), [])

    def test_loops_of_the_host_are_listed(self):
        pool, memory = "backend/cpu/thread_pool.h", "backend/cpu/workspace.h"
        listed = "src/headwise/" + min(check_layers.HOST_LOOPS["heads"])
        base = {f"src/headwise/{pool}": "", f"src/headwise/{memory}": ""}
        self.assertEqual(problems({
            **base, listed: include(pool),
            "src/headwise/study/new_test.cc": include(memory)}), [])
        self.assert_one(problems({**base, listed: include(memory)}),
                        listed, memory)
        self.assert_one(problems({
            **base, "src/headwise/study/new.cc": include(pool)}),
            "study/new.cc", pool)

    def test_operators_take_memory_unchecked(self):
        self.assert_one(problems({
            "src/headwise/ops/loss/l.cc": "float* x = view.As<float>();\n",
        }), "ops/loss/l.cc", "Raw<>")
        self.assertEqual(problems({
            "src/headwise/ops/loss/l_test.cc": "view.As<float>();\n",
        }), [])

    def test_examples_use_public_headers(self):
        self.assert_one(problems({
            "examples/e.cc": include("base/rng.h"),
            "src/headwise/base/rng.h": "",
        }), "private")


if __name__ == "__main__":
    unittest.main()
