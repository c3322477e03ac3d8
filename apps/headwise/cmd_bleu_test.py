#!/usr/bin/env python3
"""headwise bleu and what it is for, through the command line: a translator is
trained on a toy language, translates lines it never saw, and is scored.

    cmd_bleu_test.py path/to/headwise
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
WORDS = {"one": "eins", "two": "zwei", "red": "rot", "blue": "blau",
         "dog": "hund", "cat": "katze", "and": "und", "house": "haus"}


def headwise(*words):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True,
                          text=True, check=False)


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def must(*words):
    done = headwise(*words)
    check(done.returncode == 0, f"{words}: {done.stderr}")
    return done.stdout


def test_scores(folder):
    said, wanted = folder / "said.txt", folder / "wanted.txt"
    said.write_text("the cat sat on the\na b c d\n")
    wanted.write_text("the cat sat on the mat\na b c d")
    score = json.loads(must("bleu", said, wanted, "--json"))
    # Nine of ten words, every n-gram right: 100·exp(1 − 10/9).
    check(abs(score["bleu"] - 89.4839) < 1e-3, score)
    check(score["segments"] == 2 and score["low"] <= score["bleu"]
          <= score["high"], score)
    text = must("bleu", said, wanted, "--baseline", wanted)
    check("BLEU 89.48" in text and "gain -10.52" in text, text)
    check(all(len(line) <= 80 for line in text.splitlines()), text)

    wanted.write_text("one line\n")
    failed = headwise("bleu", said, wanted)
    check(failed.returncode == 1 and "1 lines" in failed.stderr
          and "found 2" in failed.stderr, failed.stderr)
    wanted.write_bytes(b"a\n\xff\n")
    failed = headwise("bleu", said, wanted)
    check(failed.returncode == 1 and "UTF-8" in failed.stderr, failed.stderr)
    check(headwise("bleu", said).returncode == 2, "one file is not enough")


def write_pairs(path, rng, count):
    lines = []
    for _ in range(count):
        words = [rng.choice(list(WORDS)) for _ in range(rng.randint(4, 6))]
        lines.append(" ".join(words) + "\t" + " ".join(map(WORDS.get, words)))
    path.write_text("\n".join(lines) + "\n")
    return lines


def test_translation(folder):
    rng = random.Random(1)
    train, held = folder / "train.tsv", folder / "held.tsv"
    write_pairs(train, rng, 500)
    lines = write_pairs(held, rng, 12)
    tokenizer = folder / "tokenizer.json"
    must("vocab", "--text", train, "--size", 400, "--bos", "",
         "--special-tokens", "<unk>,<eos>,<pad>", "--out", tokenizer)
    config = folder / "run.json"
    config.write_text(json.dumps({
        "task": "translation", "out": str(folder / "model"),
        "tokenizer": str(tokenizer), "data": [str(train)],
        "validation": [str(held)],
        "model": {"model_type": "marian", "d_model": 32, "encoder_layers": 1,
                  "decoder_layers": 1, "encoder_attention_heads": 2,
                  "decoder_attention_heads": 2, "encoder_ffn_dim": 64,
                  "decoder_ffn_dim": 64, "max_position_embeddings": 32,
                  "activation_function": "relu", "scale_embedding": True,
                  "eos_token_id": 1, "pad_token_id": 2,
                  "decoder_start_token_id": 2},
        "steps": 300, "batch": 16, "micro_batch": 16, "sequence": 32,
        "rate": 0.01, "warmup": 30, "evaluate_every": 300,
        "save_every": 300}))
    must("train", config, "--json")
    source, wanted = folder / "source.txt", folder / "wanted.txt"
    source.write_text("".join(line.split("\t")[0] + "\n" for line in lines))
    wanted.write_text("".join(line.split("\t")[1] + "\n" for line in lines))
    generate = ("generate", folder / "model", "--file", source,
                "--max-tokens", 20)
    out = folder / "translated.txt"
    said = must(*generate, "--beam", 3, "--out", out)
    check("12 lines" in said, said)
    score = json.loads(must("bleu", out, wanted, "--json"))
    # Chance is below 5: eight words, in any order.
    check(score["bleu"] > 30, score)
    one = must(*generate, "--threads", 1)
    check(one == must(*generate, "--threads", 2), "threads change the texts")
    check(one.splitlines()[0] == must(
        "generate", folder / "model", lines[0].split("\t")[0],
        "--max-tokens", 20).strip(), "a line is not what its prompt gives")
    check(headwise(*generate, "--ids", 1).returncode == 2, "--file and --ids")
    return score["bleu"]


with tempfile.TemporaryDirectory() as name:
    test_scores(pathlib.Path(name))
    bleu = test_translation(pathlib.Path(name))
print(f"all as expected (BLEU {bleu:.1f})")
