#!/usr/bin/env python3
"""headwise export as people call it: twins that answer as the pruned model,
files with the right heads, and what is refused before anything is written.

    apps/headwise/cmd_export_test.py PROGRAM SOURCES

Other programs read what it writes in tests/conformance/export_*.py.
"""
import json
import pathlib
import struct
import tempfile

from command_testing import SOURCES, TEXT, check, headwise, refused, well

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
        refusals(folder)


if __name__ == "__main__":
    main()
