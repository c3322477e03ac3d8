#!/usr/bin/env python3
"""headwise export as people call it: twins that answer as the pruned model,
files with the right heads, and what is refused before anything is written.

    apps/headwise/cmd_export_test.py PROGRAM SOURCES

Other programs read what it writes in tests/conformance/export_*.py.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile

from command_testing import (PROGRAM, SOURCES, TEXT, check, headwise, refused,
                             well)

MODEL = SOURCES / "assets/novels"


def prune(out, *flags):
    well("prune", MODEL, "--text", TEXT, "--tokens", 256, "--by", "activation",
         "--no-timing", "--out", out, *flags)
    return out


def config_of(folder):
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def logits(model, folder):
    file = folder / "logits.safetensors"
    well("dump", model, "--text", TEXT / "README.md", "--out", file)
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    begin, end = header["logits"]["data_offsets"]
    return struct.unpack(f"<{(end - begin) // 4}f",
                         data[8 + size + begin:8 + size + end])


def same(a, b, folder):
    pairs = zip(logits(a, folder), logits(b, folder), strict=True)
    check(max(abs(x - y) for x, y in pairs) < 1e-4, f"{a} and {b} differ")


def unchanged(folder):
    out = folder / "same"
    well("export", MODEL, "--to", "huggingface", "--out", out)
    for name in ("config.json", "model.safetensors"):
        check((out / name).read_bytes() == (MODEL / name).read_bytes(), name)


def twins(folder):
    heads = config_of(MODEL)["num_attention_heads"]
    for name, flags in (("uneven", ["--keep", 0.5]),
                        ("folded", ["--keep", 0.5, "--repair", "fold"])):
        pruned = prune(folder / name, *flags)
        twin = folder / f"{name}-twin"
        well("export", pruned, "--to", "huggingface", "--twin", "--out", twin)
        config = config_of(twin)
        check(config["num_attention_heads"] == heads and
              "heads_per_layer" not in config, f"{config}")
        same(pruned, twin, folder)
    check(config["attention_bias"], "a folded bias without attention_bias")
    refused(1, "the same number of heads", "export", folder / "uneven", "--to",
            "huggingface", "--out", folder / "x")


def uniform(folder):
    drop = ",".join(f"{layer}.0"
                    for layer in range(config_of(MODEL)["num_hidden_layers"]))
    pruned = prune(folder / "uniform", "--drop", drop)
    out = folder / "uniform-hf"
    well("export", pruned, "--to", "huggingface", "--type", "f32", "--out", out)
    config = config_of(out)
    check(config["model_type"] == "mistral" and
          config["sliding_window"] is None, f"{config}")
    check(config["num_attention_heads"] ==
          config_of(MODEL)["num_attention_heads"] - 1, f"{config}")
    same(pruned, out, folder)
    folded = prune(folder / "uniform-fold", "--drop", drop, "--repair", "fold")
    well("export", folded, "--to", "huggingface", "--out", folder / "seed")
    check(config_of(folder / "seed")["attention_out_bias"], "seed_oss")


def files(folder):
    for model, architecture in ((folder / "uneven", "deci"),
                                (folder / "uniform", "llama")):
        out = folder / f"{architecture}.gguf"
        written = json.loads(well("export", model, "--to", "gguf", "--type",
                                  "f16", "--out", out, "--json"))
        check(written["architecture"] == architecture, f"{written}")
        check(out.read_bytes()[:4] == b"GGUF", "no GGUF")
    refused(1, "not there yet", "export", MODEL, "--to", "gguf", "--out", out)
    well("export", MODEL, "--to", "gguf", "--force", "--out", out)
    refused(1, "Llama family", "export", SOURCES / "assets/planted", "--to",
            "gguf", "--out", folder / "x")
    done = headwise("export", SOURCES / "assets/planted", "--to", "onnx",
                    "--out", folder / "x.onnx")
    check(done.returncode == 0 or "a build with ONNX" in done.stderr,
          done.stderr)


def spoiled(folder, name, config=None, change=lambda tokenizer: None):
    """A copy of the model whose tokenizer `change` has changed."""
    copy = folder / name
    shutil.copytree(MODEL, copy)
    file = copy / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    change(tokenizer)
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    if config:
        changed = {**config_of(copy), **config}
        (copy / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    return copy


def tokenizers(folder):
    """llama.cpp ends at a text that two tokens have and at special tokens that
    there are not; texts must be UTF-8."""
    def without_last(tokenizer):
        """Its id, which is free then, and it."""
        model = tokenizer["model"]
        last = max(model["vocab"], key=model["vocab"].get)
        model["merges"] = [merge for merge in model["merges"]
                           if merge.replace(" ", "") != last]
        return model["vocab"].pop(last), last

    def added(tokenizer, token, text):
        tokenizer["added_tokens"].append({
            **tokenizer["added_tokens"][0], "id": token, "content": text})

    def known(tokenizer):  # an added token that the vocabulary has elsewhere
        free, _ = without_last(tokenizer)
        added(tokenizer, free, next(iter(tokenizer["model"]["vocab"])))

    def again(tokenizer):
        for _ in range(2):
            added(tokenizer, without_last(tokenizer)[0], "<|again|>")

    def joined(tokenizer):
        merges = tokenizer["model"]["merges"]
        merges[0] = merges[0].replace(" ", "")

    def named(tokenizer):  # as a token is that no text has
        free, _ = without_last(tokenizer)
        added(tokenizer, without_last(tokenizer)[0], f"[PAD{free}]")

    out = folder / "spoiled.gguf"
    gguf = ["--to", "gguf", "--out", out]
    refused(1, "each token's text once", "export",
            spoiled(folder, "again", change=again), *gguf)
    refused(1, "two tokens", "export", spoiled(folder, "joined", change=joined),
            *gguf)
    for key in ("bos_token_id", "eos_token_id"):
        refused(1, f"{key}] expected a token below", "export",
                spoiled(folder, key, {key: 1 << 20}), *gguf)
    check(not out.exists(), "a file that llama.cpp does not read")
    model = spoiled(folder, "known", change=known)
    well("export", model, *gguf)
    first = next(iter(json.loads((model / "tokenizer.json").read_text(
        encoding="utf-8"))["model"]["vocab"])).encode()
    check(out.read_bytes().count(struct.pack("<Q", len(first)) + first) == 1,
          "a token's text twice")
    model = os.fsencode(spoiled(folder, "named", change=named))
    os.rename(model, model + b"\xff")
    well("export", os.fsdecode(model + b"\xff"), *gguf, "--force")
    written = out.read_bytes()
    check("named\N{REPLACEMENT CHARACTER}".encode() in written
          and b"named\xff" not in written, "a name that is no UTF-8")
    texts = re.findall(rb"\[PAD\d+\]_*", written)
    check(len(texts) == len(set(texts)) == 2, f"{texts}")


def folders(folder):
    """Where a model is written: nothing of others goes."""
    model = folder / "source"
    shutil.copytree(MODEL, model)
    (folder / "key").write_text("secret", encoding="utf-8")
    (model / "notes.txt").symlink_to(folder / "key")
    out, beside = folder / "there", folder / "there.writing"
    beside.mkdir()
    (beside / "mine").write_text("mine", encoding="utf-8")
    export = ["export", model, "--to", "huggingface", "--out"]
    well(*export, out)
    check(not (out / "notes.txt").exists(), "what a link leads to was copied")
    refused(1, "not there yet", *export, out)
    os.chmod(out, 0o700)
    well(*export, out, "--force")
    check(out.stat().st_mode & 0o777 == 0o700 and (beside / "mine").exists(),
          "the mode, or a folder beside it")
    (out / "mine").write_text("mine", encoding="utf-8")
    refused(1, "found mine", *export, out, "--force")
    refused(1, "the model would be lost", *export, model, "--force")
    refused(1, "the model would be lost", "export", model, "--to", "gguf",
            "--out", model / "model.safetensors", "--force")


def two_at_once(folder):
    """Each that says it wrote did, and the folder is whole."""
    out = folder / "both"
    command = [str(PROGRAM), "export", str(MODEL), "--to", "huggingface",
               "--out", str(out), "--force"]
    both = [subprocess.Popen(command, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
            for _ in range(4)]
    errors = [one.communicate()[1] for one in both]
    check(any(one.returncode == 0 for one in both), f"{errors}")
    for one, error in zip(both, errors, strict=True):
        check(one.returncode == 0 or "one writer of the folder" in error, error)
    for name in ("config.json", "model.safetensors"):
        check((out / name).read_bytes() == (MODEL / name).read_bytes(), name)
    check([path.name for path in folder.glob(".both*")] == [], "left beside it")


def refusals(folder):
    start = ["export", MODEL, "--out", folder / "x", "--to"]
    refused(2, "huggingface, gguf or onnx", *start, "tflite")
    refused(2, "f32, f16 or bf16", *start, "gguf", "--type", "q4")
    refused(2, "--twin", *start, "gguf", "--twin")
    refused(2, "f32", *start, "onnx", "--type", "f16")
    refused(2, "--no-tokenizer", *start, "onnx", "--no-tokenizer")
    refused(1, "config.json", "export", folder, "--to", "gguf", "--out",
            folder / "x")
    check(not (folder / "x").exists(), "half an export was left")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        unchanged(folder)
        twins(folder)
        uniform(folder)
        files(folder)
        tokenizers(folder)
        folders(folder)
        two_at_once(folder)
        refusals(folder)


if __name__ == "__main__":
    main()
