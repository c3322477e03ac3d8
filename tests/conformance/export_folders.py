#!/usr/bin/env python3
"""Exports for export_transformers.py to check, on a machine that has it.

    tests/conformance/export_folders.py PROGRAM TEXT OUT MODEL…

Of each MODEL, under OUT: itself, three quarters of the heads of every layer
(--uniform), the same with a folded bias, and the twins of these and of a model
whose layers differ; each with what Headwise computes, expected.safetensors. A
form that the family cannot take is left out with a word. A model without a
tokenizer is pruned by random ids. Folders hold a configuration and weights
alone: small enough to carry to the other machine.
"""
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE.parents[1] / "tools")]
from export_onnx import run, write_ids  # noqa: E402
import id_words  # noqa: E402

FORMS = {"uniform": ["--uniform"],
         "fold": ["--uniform", "--repair", "fold"],
         "uneven": [], "uneven-fold": ["--repair", "fold"]}


def expect(program, model, folder):
    """What Headwise computes with `model`, beside the exported weights."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    ids = folder / "ids.safetensors"
    write_ids(ids, config["vocab_size"], 16)
    names = run(program, "dump", model, "--list").split()
    run(program, "dump", model, "--input", ids, "--names",
        "logits" if "logits" in names else "final", "--out",
        folder / "expected.safetensors")
    ids.unlink()


def export(program, model, out, *more):
    done = subprocess.run(
        [program, "export", model, "--to", "huggingface", "--out", out, *more],
        check=False, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        print(f"left out: {done.stderr.strip()}")
        return
    expect(program, model, out)
    for file in out.glob("tokenizer*"):
        file.unlink()
    print(f"{out}: {done.stdout.strip()}")


def with_words(model, folder):
    """The model with a tokenizer, and a text of it."""
    masked = "MaskedLM" in (model / "config.json").read_text(encoding="utf-8")
    config = id_words.add_tokenizer(model, folder, 4 if masked else None)
    text = folder.with_suffix(".txt")
    draw = random.Random(1)
    text.write_text(id_words.text_of(
        draw.randrange(5, config["vocab_size"]) for _ in range(4096)),
        encoding="utf-8")
    return folder, text


def export_all(program, text, out, model, scratch):
    start = out / model.name
    export(program, model, start.with_name(model.name + "-dense"))
    if not any(model.glob("tokenizer.json")):
        model, text = with_words(model, scratch / model.name)
    for form, flags in FORMS.items():
        pruned = scratch / f"{model.name}-{form}.ours"
        run(program, "prune", model, "--text", text, "--tokens", "4096",
            "--keep", "0.75", "--by", "activation", "--no-timing", *flags,
            "--out", pruned)
        export(program, pruned, start.with_name(f"{model.name}-{form}"))
        export(program, pruned, start.with_name(f"{model.name}-{form}-twin"),
               "--twin")
        shutil.rmtree(pruned)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    program, text, out = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name in sys.argv[4:]:
            export_all(program, text, out, pathlib.Path(name),
                       pathlib.Path(scratch))


if __name__ == "__main__":
    main()
