#!/usr/bin/env python3
"""An encoder of whole words from text to answers: vocab, train with roles
observed, info, fill, profile, roles, show.

    cmd_encoder_test.py path/to/headwise path/to/sources
"""
import json
import pathlib
import random
import sys
import tempfile

from command_testing import check, headwise, refused, well

NAMES = ["anna", "peter", "mary", "john"]
THINGS = {"anna": "bread", "peter": "fish", "mary": "cake", "john": "soup"}


def write_text(folder):
    """Who eats what is told by the name at the other end of the sentence."""
    rng = random.Random(4)
    sentences = []
    for _ in range(4000):
        name = rng.choice(NAMES)
        verb = rng.choice(["ate", "made", "sold"])
        sentences.append(f"{name} {verb} the {THINGS[name]} again.")
    (folder / "text.txt").write_text(" ".join(sentences))


def learn_words(folder):
    out = folder / "words.json"
    made = json.loads(well("vocab", "--text", folder / "text.txt", "--kind",
                           "words", "--out", out, "--json"))
    # Five special tokens, four names, three verbs, four things, the, again, .
    check(made["entries"] == 5 + 4 + 3 + 4 + 3, f"entries: {made}")
    refused(1, "--kind words", "vocab", "--text", folder / "text.txt",
            "--cased", "--out", folder / "x.json")
    refused(1, "--kind bpe", "vocab", "--text", folder / "text.txt", "--kind",
            "words", "--bos", "<s>", "--out", folder / "x.json")
    return out


def train(folder, words):
    config = folder / "run.json"
    config.write_text(json.dumps({
        "task": "masked_lm", "out": str(folder / "model"),
        "data": [str(folder / "text.txt")], "tokenizer": str(words),
        "model": {"model_type": "bert", "hidden_size": 32,
                  "intermediate_size": 48, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "max_position_embeddings": 32},
        "steps": 600, "batch": 8, "micro_batch": 8, "sequence": 32,
        "sentence_share": 0.8, "rate": 0.005, "warmup": 20, "decay": 0.01,
        "evaluate_every": 100, "evaluate_sequences": 32, "observe_every": 300,
        "save_every": 300}))
    well("train", config, "--conllu", "shipped", "--coref", "shipped",
         "--threads", 2)
    record = json.loads((folder / "model/training.json").read_text())
    first = sum(record["losses"][:20]) / 20
    last = sum(record["losses"][-20:]) / 20
    check(last < 0.6 * first, f"loss fell from {first} to {last} only")
    refused(1, "observe_every", "train", config, "--set", "observe_every=0",
            "--conllu", "shipped", "--force")
    return folder / "model"


def observed(model):
    moments = [json.loads(line) for line in
               (model / "roles.jsonl").read_text().splitlines()]
    check([m["step"] for m in moments] == [0, 300, 600], "observed steps")
    for moment in moments:
        check(len(moment["heads"]) == 8 and len(moment["roles"]) == 8, "heads")
        for role in ["previous-token", "next-token", "delimiter", "broad",
                     "coreference", "syntactic(nsubj)", "syntactic(det)"]:
            check(len(moment["scores"].get(role, [])) == 8, f"no {role}")
    picture = (model / "roles.svg").read_text()
    for words in ["Heads that have each role", "The strongest head",
                  "syntactic(nsubj)"]:
        check(words in picture, f"roles.svg without {words}")


def fills(model):
    told = json.loads(well("fill", model, "Anna ate the [MASK] again.",
                           "--top", 3, "--json"))
    guesses = told["masks"][0]["guesses"]
    check(len(guesses) == 3 and guesses[0]["token"] == "bread", f"{guesses}")
    check(guesses[0]["probability"] > 0.5, f"{guesses}")
    two = well("fill", model, "<mask> made the fish [MASK].")
    check("mask 1" in two and "peter" in two and "again" in two, two)
    every = ",".join(f"{layer}.{head}" for layer in range(2)
                     for head in range(4))
    blind = json.loads(well("fill", model, "Anna ate the [MASK] again.",
                            "--drop", every, "--json"))
    less = {g["token"]: g["probability"] for g in blind["masks"][0]["guesses"]}
    check(less.get("bread", 0) < guesses[0]["probability"],
          f"closed heads change nothing: {less}")
    refused(1, "[MASK]", "fill", model, "Anna ate the bread.")


def opens(model, sources):
    check("bert" in well("info", model).lower(), "info")
    well("profile", model, "--text", model.parent / "text.txt", "--tokens",
         2000, "--out", model.parent / "p.heads")
    check("layer" in well("roles", model, "--conllu", "shipped", "--coref",
                          "shipped", "--json"), "roles")
    check("Anna" in well("show", model, "Anna ate the bread again.",
                         "--heads", "1.0"), "show")
    refused(1, "headwise generate", "fill", sources / "assets/novels",
            "The [MASK].")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_text(folder)
        model = train(folder, learn_words(folder))
        observed(model)
        fills(model)
        opens(model, pathlib.Path(sys.argv[2]))
    check(headwise("fill", "--help").returncode == 0, "fill --help")


main()
