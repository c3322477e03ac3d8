"""Tests of tests/mutation: that spoilt files differ and come again by their
number, and that it sees each way in which a program may fail."""
import json
import pathlib
import random
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent /
                       "tests" / "mutation"))
import fixtures  # noqa: E402
import run  # noqa: E402
import spoil  # noqa: E402


class SpoilTest(unittest.TestCase):
    def files(self, folder):
        fixtures.write_texts(folder)
        fixtures.write_trees(folder)
        fixtures.write_families(folder)
        fixtures.write_other_tokenizers(folder)
        return [path for path in sorted(folder.rglob("*")) if path.is_file()]

    def test_every_format_is_changed_and_the_same_way_again(self):
        with tempfile.TemporaryDirectory() as name:
            files = self.files(pathlib.Path(name))
            self.assertGreater(len(files), 30)
            for path in files:
                data = path.read_bytes()
                changed = 0
                for seed in range(12):
                    one, again = (spoil.spoil(random.Random(seed), path.name,
                                              data) for _ in range(2))
                    self.assertEqual(one, again, path)
                    changed += one[0] != data
                self.assertGreater(changed, 5, path)

    def test_safetensors_come_apart_and_together(self):
        header = {"a": {"dtype": "F32", "shape": [1],
                        "data_offsets": [0, 4]}}
        data = spoil.put_together(header, b"1234")
        self.assertEqual(spoil.take_apart(data), (header, b"1234"))

    def test_values_become_what_no_reader_expects(self):
        value = {"a": [1, 2, {"b": "text"}], "c": 0.5}
        said = {json.dumps(spoil.spoil_value(random.Random(seed), value)[0])
                for seed in range(200)}
        self.assertGreater(len(said), 60)
        self.assertTrue(any("NaN" in text for text in said))


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.base = self.folder / "base"
        (self.base / "model").mkdir(parents=True)
        (self.base / "model" / "config.json").write_text('{"a": 1}')
        patch = mock.patch.object(run, "KEPT", self.folder / "kept")
        patch.start()
        self.addCleanup(patch.stop)

    def attempt(self, body, number=1, limit=5, command="info"):
        program = self.folder / "program"
        program.write_text("#!/bin/bash\n" + body)
        program.chmod(0o755)
        subject = fixtures.Subject("config", ["model/config.json"], [],
                                   ["model"])
        case = run.Case(number, subject, "model/config.json",
                        [command, "FILE", "--json"], b"spoilt", "how")
        return run.attempt(str(program), self.base, case, limit, "case")

    def test_failing_in_order_is_well(self):
        for body in ("exit 1", "exit 2", "echo '{}'"):
            self.assertEqual(self.attempt(body).fault, "", body)
        self.assertFalse((self.folder / "kept").exists())

    def test_sees_what_must_not_be(self):
        for body, fault in (
                ("kill -SEGV $$", "exit -11"), ("exit 99", "exit 99"),
                ("echo 'ERROR: AddressSanitizer: x' >&2; exit 1",
                 "Sanitizer:"),
                ("echo 'error: internal: x' >&2; exit 1", "error: internal"),
                ("echo '{\"a\": NaN}'", "prints no JSON"),
                ("sleep 9", "no end after 0.3 s")):
            limit = 0.3 if "sleep" in body else 5
            self.assertEqual(self.attempt(body, limit=limit).fault, fault)
        self.assertEqual(self.attempt("exit 1", number=0).fault,
                         "exit 1 on files that are well")

    def test_a_training_may_work_on_but_ends_when_asked(self):
        stops = "trap 'exit 130' INT; while :; do sleep 0.1; done"
        deaf = "trap '' INT; while :; do sleep 0.1; done"
        for body, command, fault in (
                (stops, "train", ""), (stops, "info", "no end after 0.3 s"),
                (deaf, "train", "no end after 0.3 s")):
            self.assertEqual(self.attempt(body, limit=0.3,
                                          command=command).fault, fault)

    def test_sees_too_much_memory(self):
        with mock.patch.object(run, "MEMORY", 64 << 20):
            result = self.attempt("exec python3 -c 'bytearray(200 << 20)'")
        self.assertEqual(result.fault, "more than 4 GiB")

    def test_the_program_reads_the_spoilt_file_and_the_case_is_kept(self):
        self.attempt('cat "$2" >&2; kill -SEGV $$')
        kept = self.folder / "kept" / "case"
        self.assertEqual((kept / "stderr").read_text(), "spoilt")
        self.assertEqual((kept / "config.json").read_text(), "spoilt")
        self.assertEqual((self.base / "model" / "config.json").read_text(),
                         '{"a": 1}')

    def test_a_case_comes_again_by_its_number(self):
        subjects = [fixtures.Subject(name, ["model/config.json"],
                                     [["info"], ["dump"]], [])
                    for name in ("one", "two")]
        for number in range(1, 20):
            self.assertEqual(run.choose(subjects, self.base, 1, number),
                             run.choose(subjects, self.base, 1, number))
        self.assertEqual({run.choose(subjects, self.base, 1, number)
                          .subject.format for number in (1, 2)},
                         {"one", "two"})


if __name__ == "__main__":
    unittest.main()
