#!/usr/bin/env python3
"""What commands are given, from outside: judged before the model runs, never
lost, never mistaken for something else.

Usage: cmd_inputs_test.py PROGRAM SOURCE_FOLDER
"""
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from command_testing import few_positions

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
PLANTED = SOURCE / "assets" / "planted"
NOVELS = SOURCE / "assets" / "novels"
TEXT = SOURCE / "assets" / "text" / "the-lamp-at-sorrel-point.txt"

SENTENCE = ("# text = The cat sat\n"
            "1\tThe\t_\t_\t_\t_\t2\tdet\t_\t_\n"
            "2\tcat\t_\t_\t_\t_\t3\tnsubj\t_\t_\n"
            "3\tsat\t_\t_\t_\t_\t0\troot\t_\t_\n\n")


def run(*args, **options):
    return subprocess.run([PROGRAM, *args], capture_output=True,
                          **options)


def write_ids(path, rows, columns, byte=5, kind="U8", size=1):
    head = json.dumps({"input_ids": {
        "dtype": kind, "shape": [rows, columns],
        "data_offsets": [0, rows * columns * size]}}).encode()
    ids = bytes([byte]) * (rows * columns) if size == 1 else byte
    path.write_bytes(struct.pack("<Q", len(head)) + head + ids)
    return path


class Inputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def refused(self, pattern, *args, code=1, **options):
        done = run(*args, **options)
        told = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, told)
        self.assertRegex(told, pattern)
        self.assertNotIn("internal", told)
        return told


class Early(Inputs):
    def test_material_is_judged_before_text_is_read(self):
        """Standard input stays open: who reads it first waits for ever."""
        wrong = self.write("a.conll", "The cat sat\n")
        treebank = self.write("a.conllu", SENTENCE)
        pairs = self.write("pairs.tsv", "a house\tein Haus\n")
        for flag, path, told in (
                ("--coref", wrong, "5 columns separated by tabs; found 1"),
                ("--coref", treebank, "mentions such as .3. in the last"),
                ("--conllu", wrong, "10 columns"),
                ("--conllu", self.folder / "none", "none"),
                ("--pairs", pairs, "an encoder–decoder"),
                ("--patterns", wrong, "a.conll")):
            commands = ["profile"]
            if flag in ("--coref", "--conllu"):
                commands.append("roles")
            for command in commands:
                child = subprocess.Popen(
                    [PROGRAM, command, PLANTED, "--text", "-", flag, path]
                    + (["--out", self.folder / "a.heads"]
                       if command == "profile" else []),
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
                try:
                    child.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    child.kill()
                    self.fail(f"{command} {flag}: reads the text first")
                finally:
                    child.stdin.close()
                    error = child.stderr.read().decode()
                    child.stderr.close()
                    child.stdout.close()
                self.assertEqual(child.returncode, 1, error)
                self.assertRegex(error, told)

    def test_a_treebank_may_be_a_folder(self):
        bank = self.folder / "bank"
        bank.mkdir()
        (bank / "a.conllu").write_text(SENTENCE * 60)
        (bank / "b.conllu").write_text(SENTENCE.replace("cat", "dog") * 60)
        (bank / "README.md").write_text("of what it is\n")
        done = run("roles", PLANTED, "--conllu", bank, "--json", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"syntactic.nsubj", done.stdout)

    def test_dense_probabilities_and_memory_are_counted_first(self):
        long = write_ids(self.folder / "long", 1, 5000)
        out = self.folder / "a.safetensors"
        self.refused("at most 4096 tokens for dense probabilities; found 5000",
                     "dump", NOVELS, "--input", long, "--names", "*.probs",
                     "--out", out)
        many = write_ids(self.folder / "many", 1024, 4096)
        self.refused(r"expected \d\.\d TiB of memory for these activations; "
                     r"found [\d.]+ [GM]iB free; take fewer names",
                     "dump", NOVELS, "--input", many, "--names", "*.probs",
                     "--out", out)
        self.assertFalse(out.exists())

    def test_tensors_that_nothing_reads_are_told_of(self):
        model = shutil.copytree(PLANTED, self.folder / "odd",
                                copy_function=shutil.copyfile)
        file = model / "model.safetensors"
        data = file.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        end = len(data) - 8 - size
        for name in ("odd.\x1b[2Jone", "odd.two"):
            header[name] = {"dtype": "F32", "shape": [1],
                            "data_offsets": [end, end + 4]}
            end += 4
        head = json.dumps(header).encode()
        head += b" " * (-len(head) % 8)
        file.write_bytes(struct.pack("<Q", len(head)) + head + data[8 + size:]
                         + bytes(8))
        done = run("show", model, "The cat sat", "--heads", "0.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.decode().count("warning: "), 1)
        self.assertIn("found 2 that gpt2 does not read: odd.⟨1b⟩[2Jone, "
                      "odd.two", done.stderr.decode())
        told = run("info", model).stdout.decode()
        self.assertIn("not read", told)
        self.assertIn("odd.two", told)
        self.assertNotIn("\x1b", told)
        self.assertEqual(len(json.loads(
            run("info", model, "--json").stdout)["unread"]), 2)

    def test_padding_keeps_its_place(self):
        rows = [[5, 6, 7] + [0] * 30, [0] * 24 + list(range(3, 12))]
        mask = [[int(bool(i)) for i in row] for row in rows]
        data = struct.pack("<132i", *sum(rows + mask, []))
        head = json.dumps({name: {
            "dtype": "I32", "shape": [2, 33], "data_offsets": [at, at + 264]}
            for name, at in (("input_ids", 0), ("attention_mask", 264))})
        ids = self.folder / "ids"
        ids.write_bytes(struct.pack("<Q", len(head)) + head.encode() + data)
        out = self.folder / "out"
        done = run("dump", PLANTED, "--input", ids, "--names",
                   "logits,layer.0.attention.probs", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        written = out.read_bytes()
        size = struct.unpack("<Q", written[:8])[0]
        header = json.loads(written[8:8 + size])
        self.assertEqual(header["logits"]["shape"][:2], [2, 33])
        self.assertEqual(
            header["layer.0.attention.probs"]["shape"][2:], [33, 33])
        for name, kept in (("input_ids", rows), ("attention_mask", mask)):
            begin, end = header[name]["data_offsets"]
            self.assertEqual(
                written[8 + size + begin:8 + size + end],
                struct.pack("<66i", *sum(kept, [])), name)

    def test_rows_of_nothing_take_no_memory(self):
        if "asan" in str(PROGRAM):
            self.skipTest("sanitizers have a memory of their own")
        ids = write_ids(self.folder / "ids", 300_000_000, 0)
        self.assertLess(ids.stat().st_size, 100)
        out = self.folder / "x"

        def small():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

        for args in (("dump", PLANTED, "--input", ids, "--out", out),
                     ("profile", PLANTED, "--ids", ids, "--out", out),
                     ("rank", PLANTED, "--ids", ids)):
            self.refused("expected at least [12] tokens in each sequence; "
                         "found 0", *args, preexec_fn=small)

    def test_ids_outside_the_vocabulary_are_refused(self):
        for bad in (10 ** 7, 2 ** 24, 2 ** 31, 2 ** 32 + 5, -1):
            ids = write_ids(self.folder / "ids", 1, 4,
                            struct.pack("<4q", 5, 6, bad, 7), "I64", 8)
            for command in (("profile", PLANTED, "--ids", ids, "--out",
                             self.folder / "a.heads"),
                            ("dump", PLANTED, "--input", ids, "--out",
                             self.folder / "a.out")):
                self.refused(str(bad), *command)
            if -2 ** 31 <= bad < 2 ** 31:
                self.refused(str(bad), "generate", PLANTED, f"--ids=5,{bad}")


class Engine(Inputs):
    def test_where_models_run_is_told_before_they_are_opened(self):
        commands = (("generate", "none", "A text"), ("train", "none.json"),
                    ("profile", "none", "--text", "none"),
                    ("similar", "none", "--text", "none"),
                    ("compose", "none"), ("show", "none", "A text"),
                    ("report", "none", "--text", "none"),
                    ("compare", "A text"),
                    ("rank", "none", "--text", "none"),
                    ("evaluate", "none", "--text", "none"))
        for args in commands:
            self.refused("expected a build with CUDA|expected a GPU cuda:99",
                         *args, "--device", "cuda:99")
            self.refused("expected cpu, cuda, cuda:N or auto; found tpu", *args,
                         "--device", "tpu", code=2)
            self.refused("expected f32, bf16, f16 or auto; found f8", *args,
                         "--type", "f8", code=2)
            self.refused("--type.*expected f32.*found bf16", *args, "--type",
                         "bf16", code=2)

    def test_the_cpu_and_f32_are_what_is_there(self):
        said = [run("show", PLANTED, "The cat sat", "--heads", "0.0", *more)
                for more in ((), ("--device", "cpu", "--type", "f32"))]
        self.assertEqual(said[1].returncode, 0, said[1].stderr)
        self.assertEqual(said[0].stdout, said[1].stdout)


class Kept(Inputs):
    def interrupted(self, text):
        """A profile that was killed after its first checkpoint."""
        out = self.folder / "p.heads"
        partial = self.folder / "p.heads.partial"
        child = subprocess.Popen(
            [PROGRAM, "profile", PLANTED, "--text", text, "--repeats", "0",
             "--checkpoint-seconds", "0.02", "--out", out],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while (not partial.exists() and child.poll() is None
               and time.monotonic() < deadline):
            time.sleep(0.005)
        child.kill()
        child.wait()
        self.assertTrue(partial.exists(), "no checkpoint was written")
        return out, partial

    def test_a_shorter_text_does_not_resume(self):
        text = self.write("long.txt", TEXT.read_text() * 8)
        out, partial = self.interrupted(text)
        before = partial.read_bytes()
        other = self.write("other.txt", "It was another text, a shorter one.")
        for more, words in (((), "the text that was begun with; found a sh"),
                            (("--tokens", "16"), "found work on other set")):
            self.refused(words, "profile", PLANTED, "--text", other, "--repeats", "0",
                         "--out", out, "--resume", *more)
            self.assertEqual(partial.read_bytes(), before)
            self.assertFalse(out.exists())

    def test_errors_name_the_flags_that_a_command_has(self):
        out = self.folder / "p.heads"
        parts = [self.folder / name for name in ("all.heads", "core.heads")]
        for metrics, part in zip(("all", "core"), parts):
            text = self.write(metrics, TEXT.read_text()[len(metrics):2000])
            self.assertEqual(run("profile", PLANTED, "--text", text, "--repeats",
                                 "0", "--metrics", metrics, "--out",
                                 part).returncode, 0)
        told = self.refused("profiles of the same metrics, all; found core",
                            "merge", *parts, "--out", out)
        self.assertNotIn("--metrics", told)
        self.refused("for example --heads 1,8", "compare", "A text", "--heads",
                     "0")

    def test_nothing_to_resume_is_said(self):
        self.refused("expected interrupted work; found none",
                     "profile", PLANTED, "--text", TEXT, "--resume", "--out",
                     self.folder / "p.heads")

    def test_an_interruption_in_the_treebank_keeps_the_text(self):
        bank = self.write("bank.conllu", SENTENCE * 40000)
        out = self.folder / "p.heads"
        partial = self.folder / "p.heads.partial"
        command = [PROGRAM, "profile", PLANTED, "--text", TEXT, "--repeats",
                   "0", "--out", out, "--checkpoint-seconds", "0"]
        ours, theirs = pty.openpty()
        child = subprocess.Popen(command + ["--conllu", bank], stderr=theirs,
                                 stdout=subprocess.DEVNULL)
        os.close(theirs)
        seen = b""
        try:
            while b"treebank" not in seen:
                seen += os.read(ours, 4096)
            child.send_signal(signal.SIGINT)
            while True:
                seen += os.read(ours, 4096)
        except OSError:  # the program ended
            pass
        os.close(ours)
        self.assertEqual(child.wait(), 1, seen)
        self.assertIn(b"--resume continues", seen)
        self.assertTrue(partial.exists())
        self.assertFalse(out.exists())
        bank.write_text(SENTENCE * 8)
        done = run(*command[1:], "--conllu", bank, "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(partial.exists())
        self.assertTrue(out.exists())


class Names(Inputs):
    def test_odd_paths_get_plain_words(self):
        loop = self.folder / "loop"
        loop.symlink_to(loop)
        long = "a" * 5000
        broken = os.fsencode(self.folder) + b"/no\xff"
        for path in (loop, long, broken, "", "/proc/self/mem", "/dev/null"):
            for args in (("info", path), ("roles", path),
                         ("show", path, "x", "--heads", "0.0"),
                         ("show", PLANTED, "--text", path, "--heads", "0.0"),
                         ("dump", PLANTED, "--input", path, "--out", "x"),
                         ("profile", PLANTED, "--text", path, "--out", "x"),
                         ("profile", PLANTED, "--text", TEXT, "--conllu", path,
                          "--tokens", "64", "--out", "x"),
                         ("vocab", "--text", path, "--out", "x"),
                         ("merge", path, "-o", "x"),
                         ("report", PLANTED, "--text", path, "--out", "x"),
                         ("bleu", path, path)):
                done = run(*args, cwd=self.folder, stdin=subprocess.DEVNULL)
                told = done.stderr.decode(errors="replace")
                self.assertIn(done.returncode, (0, 1, 2), (args, told))
                self.assertNotIn("internal", told, args)
                self.assertNotIn("fault of the program", told, args)

    def test_folders_that_cannot_be_read(self):
        closed = self.folder / "closed"
        closed.mkdir(mode=0)
        self.folder.chmod(0o777)
        options = {"cwd": self.folder}
        if os.geteuid() == 0:  # who reads every folder
            options["user"] = 65534
            try:
                run("--version", **options)
            except PermissionError:
                self.skipTest("nobody else may run the program")
        for args in (("profile", PLANTED, "--text", closed, "--out", "x"),
                     ("roles", PLANTED, "--conllu", closed),
                     ("roles", PLANTED, "--coref", closed),
                     ("vocab", "--text", closed, "--out", "x"),
                     ("info", closed)):
            self.refused("ermission denied", *args, **options)

    def test_a_name_that_is_not_utf8_is_a_name(self):
        model = os.fsencode(self.folder) + b"/mod\xff"
        shutil.copytree(os.fsencode(PLANTED), model)
        done = run("show", model, "The cat sat", "--heads", "0.0", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mod\ufffd", json.loads(done.stdout)["model"])
        out = self.folder / "p.heads"
        done = run("profile", model, "--text", TEXT, "--tokens", "256",
                   "--repeats", "0", "--out", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("mod⟨ff⟩", done.stdout.decode())
        self.assertEqual(run("roles", out, "--json").returncode, 0)

    def test_windows_end(self):
        self.refused("context. expected at most 131072 tokens, which is what "
                     "one window may take; found 10000000", "show", NOVELS,
                     "The cat sat", "--heads", "5.0", "--context", "10000000")

    def test_out_of_memory_says_what_to_lower(self):
        if "asan" in str(PROGRAM):
            self.skipTest("sanitizers have a memory of their own")
        limit = 1 << 30

        def small():
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        self.refused(r"\[memory\] expected .*; found [\d.]+ [KM]iB free; "
                     "lower --context", "show",
                     few_positions(NOVELS, self.folder, 10 ** 6), "--text",
                     self.write("long.txt", TEXT.read_text() * 150),
                     "--heads", "5.0", "--context", "1000000",
                     preexec_fn=small)


class Mixed(Inputs):
    """--text names files, a sentence is written as it is."""

    def test_a_sentence_behind_text(self):
        hint = "a sentence is written without it"
        for command in (("show", PLANTED, "--heads", "0.0"),
                        ("dump", PLANTED, "--out", "x")):
            self.refused(hint, *command, "--text", "The cat sat",
                         cwd=self.folder)
        self.refused("--text names files", "profile", PLANTED, "--text",
                     "The cat sat", cwd=self.folder)

    def test_a_file_in_a_sentences_place(self):
        self.write("a.txt", "The cat sat on the mat")
        for args in (("show", PLANTED, "a.txt", "--heads", "0.0"),
                     ("dump", PLANTED, "a.txt", "--out", "x"),
                     ("compare", "a.txt", "--no-roles"),
                     ("generate", PLANTED, "a.txt", "--max-tokens", "1")):
            done = run(*args, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr.decode(),
                             r"warning: \[a.txt\] is taken as the text itself; "
                             "found a file of that name")

    def test_files_and_sentences_give_the_same(self):
        sentence = "The cat sat on the mat"
        path = self.write("a.txt", sentence)
        command = ("show", PLANTED, "--heads", "0.0", "--json")
        itself = run(*command, sentence)
        self.assertEqual(itself.returncode, 0, itself.stderr)
        self.assertEqual(itself.stderr, b"")
        self.assertEqual(itself.stdout, run(*command, "--text", path).stdout)
        self.assertEqual(itself.stdout, run(*command, "--text", "-",
                                            input=sentence.encode()).stdout)
        dumped = []
        for args in ((sentence,), ("--text", path)):
            out = self.folder / "a.out"
            self.assertEqual(run("dump", PLANTED, *args, "--out",
                                 out).returncode, 0)
            dumped.append(out.read_bytes())
        self.assertEqual(*dumped)


class Long(Inputs):
    def one_layer(self):
        """A model that is quick on 8192 tokens, with the novels' tokenizer."""
        config = self.write("run.json", json.dumps({
            "out": str(self.folder / "model"), "data": [str(TEXT)],
            "tokenizer": str(NOVELS / "tokenizer.json"),
            "model": {"model_type": "llama", "hidden_size": 16,
                      "intermediate_size": 16, "num_hidden_layers": 1,
                      "num_attention_heads": 2, "max_position_embeddings": 512},
            "steps": 1, "batch": 1, "micro_batch": 1, "sequence": 16}))
        done = run("train", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "model"

    def test_a_long_text_is_shown_from_its_beginning(self):
        text = self.write("long.txt", TEXT.read_text() * 20)
        model = self.one_layer()
        begun = time.monotonic()
        done = run("show", model, "--text", text, "--heads", "0.0", "--json",
                   timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - begun, 120)
        self.assertIn(b"the first 8192 tokens of the text are shown; --context "
                      b"shows more", done.stderr)
        shown = json.loads(done.stdout)
        self.assertEqual(len(shown["tokens"]), 8192)
        self.assertEqual(len(shown["heads"][0]["top"]), 24)
        done = run("show", PLANTED, "--text", text, "--heads", "0.0")
        self.assertIn(b"the first 512 tokens of the text are shown, all that "
                      b"the model has positions for", done.stderr)
        done = run("show", model, "--text", text, "--heads", "0.0",
                   "--context", "100", "--json")
        self.assertEqual(len(json.loads(done.stdout)["tokens"]), 100)


class Compared(Inputs):
    def test_any_models_by_name_with_roles(self):
        page = self.folder / "a.html"
        novels = few_positions(NOVELS, self.folder)
        few_positions(SOURCE / "assets" / "novels-one-head", self.folder)
        done = run("compare", "The cat sat", "--model", PLANTED, "--model",
                   novels, "--json", "--out", page)
        self.assertEqual(done.returncode, 0, done.stderr)
        sets = json.loads(done.stdout)["sets"]
        self.assertEqual([one["model"] for one in sets], ["planted", "novels"])
        self.assertNotEqual(sets[0]["tokens"], sets[1]["tokens"])
        self.assertTrue(any(one["role"] for one in sets[0]["maps"]))
        self.assertIn("</html>", page.read_text())
        done = run("compare", "The cat sat",
                   env={**os.environ, "HEADWISE_ASSETS": self.folder})
        self.assertIn("on random repeats:", done.stdout.decode())
        done = run("compare", "The cat sat", "--heads", "1,4")
        told = re.sub(r"\s+", " ", done.stdout.decode())
        self.assertIn("Weights are untrained", told)
        self.assertIn("shipped of one head and of 8 heads", told)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
