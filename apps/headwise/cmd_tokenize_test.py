#!/usr/bin/env python3
"""How texts become tokens: headwise tokenize, one rule of the begin token for
all commands, and tokenizers that would never end.

Usage: cmd_tokenize_test.py PROGRAM SOURCE_FOLDER
"""
import gzip
import json
import pathlib
import shutil
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
SENTENCE = "The cat sat on"


def run(*args, code=0, **more):
    result = subprocess.run([PROGRAM, *map(str, args)], text=True,
                            capture_output=True, timeout=60, **more)
    if result.returncode != code:
        raise AssertionError(f"{args}: exit {result.returncode}\n"
                             f"{result.stdout}{result.stderr}")
    return result


def tokens(model, text, *more):
    made = json.loads(run("tokenize", model, text, "--json", *more).stdout)
    return made["texts"][0]["tokens"]


def read_tensors(path):
    """Numbers of each tensor, and the metadata."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    notes = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + at for at in entry["data_offsets"])
        kind = {"F32": "f", "I32": "i", "I64": "q"}[entry["dtype"]]
        count = (end - begin) // struct.calcsize(kind)
        tensors[name] = struct.unpack(f"<{count}{kind}", data[begin:end])
    return tensors, notes


class InFolder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def planted_with(self, tokenizer_config):
        """The planted model whose tokenizer says more."""
        copy = self.folder / "model"
        shutil.copytree(PLANTED, copy)
        (copy / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
        return copy


class Tokenize(InFolder):
    def test_pieces_and_back(self):
        found = tokens(NOVELS, "The captain\n")
        self.assertEqual(found[0]["text"], "<bos>")
        self.assertTrue(found[0]["added"])
        self.assertEqual("".join(t["text"] for t in found[1:]), "The captain\n")
        self.assertEqual(found[-1]["end"], 12)
        ids = ",".join(str(t["id"]) for t in found[1:])
        self.assertEqual(run("tokenize", NOVELS, "--ids", ids).stdout,
                         "The captain\n\n")

    def test_a_token_stays_on_its_line(self):
        shown = run("tokenize", NOVELS, "a\nb").stdout
        self.assertIn('"\\n"', shown)
        self.assertIn("the tokenizer's template adds it", shown)

    def test_files_and_standard_input(self):
        (self.folder / "a.txt").write_text(SENTENCE)
        of_file = json.loads(run("tokenize", NOVELS, "--text",
                                 self.folder / "a.txt", "--json").stdout)
        of_input = json.loads(run("tokenize", NOVELS, "--text", "-", "--json",
                                  input=SENTENCE).stdout)
        self.assertEqual(of_file["texts"][0]["tokens"], tokens(NOVELS, SENTENCE))
        self.assertEqual(of_input["texts"][0]["tokens"],
                         tokens(NOVELS, SENTENCE))

    def test_a_long_text_is_whole(self):
        text = "The captain looked at the sea. " * 36000  # 1.1 MB, one line
        (self.folder / "a.txt").write_text(text)
        made = json.loads(run("tokenize", NOVELS, "--text",
                              self.folder / "a.txt", "--json").stdout)
        [document] = made["texts"]
        own = [t for t in document["tokens"] if not t["added"]]
        self.assertEqual(len(document["tokens"]) - len(own), 1)
        self.assertEqual("".join(t["text"] for t in own), text)
        places = [t["begin"] for t in own] + [len(text)]
        self.assertEqual([0] + [t["end"] for t in own], places)

    def test_several_texts_are_one_json(self):
        for name in "ab":
            (self.folder / f"{name}.txt").write_text(name * 3)
        made = json.loads(run("tokenize", NOVELS, "--text", self.folder,
                              "--json").stdout)
        self.assertEqual(made["format"], "headwise.tokens/1")
        self.assertEqual([pathlib.Path(text["name"]).name
                          for text in made["texts"]], ["a.txt", "b.txt"])

    def test_a_long_table_has_every_token(self):
        shown = run("tokenize", NOVELS, "a\n" * 6000).stdout.splitlines()
        self.assertEqual(sum(line.split()[:1] == ["place"] for line in shown),
                         2)
        rows = [line.split()[0] for line in shown
                if line.split()[0].isdigit() and "\"" in line]
        self.assertEqual(rows, [str(i) for i in range(len(rows))])
        self.assertGreater(len(rows), 12000)

    def test_a_tokenizer_alone(self):
        self.assertEqual(tokens(NOVELS / "tokenizer.json", SENTENCE),
                         tokens(NOVELS, SENTENCE))

    def test_parts_of_characters_are_bytes(self):
        self.assertIn("⟨e8⟩", [t["text"] for t in tokens(NOVELS, "蹦")])

    def test_calls_that_make_no_sense(self):
        for args in [(), ("x", "--ids", "1"), ("x", "--text", "-")]:
            self.assertIn("one of TEXT, --text and --ids",
                          run("tokenize", NOVELS, *args, code=2).stderr)
        self.assertIn("ids of tokens, below 4096; found 4096",
                      run("tokenize", NOVELS, "--ids", "4096", code=1).stderr)
        self.assertIn("auto, yes or no",
                      run("tokenize", NOVELS, "x", "--bos", "maybe",
                          code=2).stderr)

    def test_a_script_that_the_tokenizer_does_not_know(self):
        for args in [("tokenize", NOVELS, "Привет, мир"),
                     ("generate", NOVELS, "Привет, мир", "--max-tokens", "1")]:
            self.assertIn("warning: [text] expected letters that the tokenizer "
                          "knows; found 100 %", run(*args).stderr)
        self.assertEqual(run("tokenize", NOVELS, "The café, 12 €").stderr, "")
        (self.folder / "a.txt").write_text("Все счастливые семьи похожи. " * 40)
        novels = few_positions(NOVELS, self.folder)
        for args in [("rank", "--by", "weights"), ("similar",), ("roles",),
                     ("profile", "--metrics", "core", "--out",
                      self.folder / "a.heads")]:
            self.assertIn("warning: [text]",
                          run(args[0], novels, "--text", self.folder / "a.txt",
                              "--tokens", 32, *args[1:]).stderr, args)


class Begin(InFolder):
    """One rule for the token that begins texts."""

    def difference_by_dump(self, model, *more):
        """Logit of " the" minus that of " a" after the sentence."""
        answers = [tokens(model, text, "--bos", "no")[0]["id"]
                   for text in (" the", " a")]
        run("dump", model, SENTENCE, "--names", "logits", "--out",
            self.folder / "logits", *more)
        tensors, _ = read_tensors(self.folder / "logits")
        size = len(tensors["logits"]) // len(tensors["input_ids"])
        last = tensors["logits"][-size:]
        return last[answers[0]] - last[answers[1]]

    def difference_by_patch(self, model, *more):
        made = run("patch", model, "--prompt", SENTENCE, "--answers", " the",
                   " a", "--json", *more).stdout
        return json.loads(made)["difference"]["value"]

    def test_all_commands_read_alike(self):
        silent = self.planted_with({"add_bos_token": False})
        for model, begins in [(PLANTED, True), (silent, False)]:
            for more, expected in [((), begins), (("--bos", "yes"), True),
                                   (("--bos", "no"), False)]:
                first = tokens(model, SENTENCE, *more)[0]
                self.assertEqual(first["text"] == "<bos>", expected, more)
                self.assertAlmostEqual(self.difference_by_dump(model, *more),
                                       self.difference_by_patch(model, *more),
                                       delta=1e-3)
                prompt = json.loads(run("generate", model, SENTENCE, "--json",
                                        "--max-tokens", 1, *more).stdout)
                shown = json.loads(run("show", model, SENTENCE,
                                       "--heads", "0.0", "--json", *more).stdout)
                ids = [t["id"] for t in tokens(model, SENTENCE, *more)]
                self.assertEqual(prompt["prompt_ids"], ids)
                self.assertEqual(len(shown["tokens"]), len(ids))

    def test_a_chat_template_shows_that_the_model_knows_the_token(self):
        model = self.planted_with({
            "add_bos_token": False, "bos_token": "<bos>",
            "chat_template": "{{- '<bos>user' + messages[0].content }}"})
        self.assertEqual(tokens(model, SENTENCE)[0]["text"], "<bos>")
        self.assertIn("begin with <bos> (the chat template begins with it)",
                      " ".join(run("info", model).stdout.split()))

    def test_info_names_the_rule(self):
        texts = json.loads(run("info", PLANTED, "--json").stdout)["texts"]
        self.assertEqual(texts["begin"], ["<bos>"])
        self.assertEqual(texts["begin_ids"], [0])
        silent = self.planted_with({"add_bos_token": False})
        self.assertIn("begin with no token (tokenizer_config.json: "
                      "add_bos_token is false)",
                      " ".join(run("info", silent).stdout.split()))

    def test_profiles_remember_it(self):
        profile = ("profile", PLANTED, "--text", PLANTED / "vocabulary.txt",
                   "--tokens", 256, "--metrics", "core", "--json", "--out")
        with_token = run(*profile, self.folder / "a.heads").stdout
        without = run(*profile, self.folder / "b.heads", "--bos", "no").stdout
        self.assertEqual(json.loads(with_token)["settings"]["bos"], 0)
        self.assertEqual(json.loads(without)["settings"]["bos"], -1)
        self.assertIn("begin of windows",
                      run("merge", self.folder / "a.heads",
                          self.folder / "b.heads", "--out",
                          self.folder / "c.heads", code=1).stderr)


class Dump(InFolder):
    def test_tokens_are_written_with_the_activations(self):
        out = self.folder / "cat.safetensors"
        run("dump", PLANTED, SENTENCE, "--names", "logits", "--out",
            out)
        tensors, notes = read_tensors(out)
        expected = tokens(PLANTED, SENTENCE)
        self.assertEqual(list(tensors["input_ids"]), [t["id"] for t in expected])
        self.assertEqual(json.loads(notes["pieces"]),
                         [[t["text"] for t in expected]])
        again = self.folder / "again.safetensors"
        run("dump", PLANTED, "--input", out, "--names", "logits", "--out", again)
        self.assertEqual(read_tensors(again)[0]["logits"], tensors["logits"])


class Hostile(InFolder):
    """Files that make much of little end soon, and say what was too much."""

    def ends_soon(self, expected, *args):
        begun = time.monotonic()
        self.assertIn(expected, run(*args, code=1).stderr)
        self.assertLess(time.monotonic() - begun, 20)

    def tokenizer(self, **parts):
        path = self.folder / "tokenizer.json"
        path.write_text(json.dumps(
            {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
             **parts}))
        return path

    def test_rules_that_grow_the_text(self):
        grows = {"type": "Replace", "pattern": {"String": "a"},
                 "content": "aaaa"}
        path = self.tokenizer(normalizer={"type": "Sequence",
                                          "normalizers": [grows] * 40})
        self.ends_soon("bytes of a text of 1; found more", "tokenize", path, "a")
        path = self.tokenizer(decoder={"type": "Sequence",
                                       "decoders": [grows] * 40})
        self.ends_soon("found more", "tokenize", path, "--ids", "0,1")

    def test_expressions_without_end(self):
        text = self.folder / "a.txt"
        # The first 16384 bytes tell the script, in a time of their own.
        text.write_text("b" * 16384 + ("a" * 16 + "b") * 6000)
        path = self.tokenizer(pre_tokenizer={
            "type": "Split", "pattern": {"Regex": "(a+)+[cd]"},
            "behavior": "Isolated"})
        self.ends_soon("s for a text of 118384 bytes", "tokenize", path, "--text",
                       text)
        pattern = self.folder / "pattern.json"
        pattern.write_text(json.dumps(
            {"name": "x", "rules": [{"match": "(a+)+[cd]", "query": 1, "key": 1}]}))
        self.ends_soon("s for a text of 118384 bytes", "profile", PLANTED,
                       "--text", text, "--patterns", pattern, "--metrics",
                       "core", "--out", self.folder / "a.heads")

    def test_a_small_file_of_a_long_line(self):
        path = self.folder / "a.txt.gz"
        path.write_bytes(gzip.compress(b"a" * (17 << 20)))
        self.ends_soon("at most 16.0 MiB of text in one call; found 17.0 MiB",
                       "tokenize", NOVELS, "--text", path, "--json")

    def test_a_vocabulary_of_air(self):
        path = self.tokenizer(added_tokens=[{"content": "x", "id": 2**24 - 1,
                                             "special": False}])
        config = self.folder / "run.json"
        (self.folder / "a.txt").write_text("ab" * 500)
        config.write_text(json.dumps({
            "out": str(self.folder / "out"),
            "data": [str(self.folder / "a.txt")], "tokenizer": str(path),
            "model": {"model_type": "gpt2", "n_embd": 16, "n_layer": 1,
                      "n_head": 2, "n_positions": 32},
            "steps": 1, "batch": 1, "micro_batch": 1, "sequence": 16}))
        self.ends_soon("for 3 tokens; found 16777215", "train", config)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
