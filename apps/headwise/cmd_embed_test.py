#!/usr/bin/env python3
"""Vectors of texts as modules.json says, and classes by a checkpoint's head.

    cmd_embed_test.py path/to/headwise path/to/sources
"""
import json
import math
import pathlib
import shutil
import struct
import tempfile

from command_testing import SOURCES, check, headwise, refused, well

ENCODER = SOURCES / "assets/encoder"
TEXTS = ["The cat sat on the mat.", "A dog ran home."]
PART = "sentence_transformers.models."


def vectors(*arguments):
    out = json.loads(well("embed", *arguments, "--json"))
    return [text["vector"] for text in out["texts"]], out


def near(a, b):
    return len(a) == len(b) and all(
        math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-6) for x, y in zip(a, b))


def write_modules(model, **pooling):
    (model / "1_Pooling").mkdir(exist_ok=True)
    (model / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (model / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": PART + "Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": PART + "Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize",
         "type": PART + "Normalize"}]))


def embeds(folder):
    first, out = vectors(ENCODER, *TEXTS, "--pooling", "cls")
    check(out["width"] == 256 and len(first) == 2, out["width"])
    lines = folder / "lines.txt"
    lines.write_text("\n".join(TEXTS) + "\n")
    from_file, _ = vectors(ENCODER, "--file", lines, "--pooling", "cls",
                           "--out", folder / "vectors.safetensors")
    check(from_file == first, "lines of a file are the same texts")
    check((folder / "vectors.safetensors").stat().st_size > 2 * 256 * 4, "out")
    model = folder / "encoder"
    shutil.copytree(ENCODER, model)
    write_modules(model, pooling_mode_cls_token=True)
    said, out = vectors(model, *TEXTS)
    check(out["pooling"] == "cls, normalized (modules.json)", out["pooling"])
    for raw, unit in zip(first, said):
        length = math.sqrt(sum(x * x for x in raw))
        check(near([x / length for x in raw], unit), "normalized")
    write_modules(model, pooling_mode_mean_tokens=False)
    refused(1, "pooling mode", "embed", model, TEXTS[0])
    refused(2, "--file", "embed", ENCODER)
    empty = folder / "empty.txt"
    empty.write_text("\n")
    refused(1, "expected a text; found none", "embed", ENCODER, "--file", empty)


def add_tensors(file, added):
    """Vectors and matrices of f32 behind those of a safetensors file."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    for name, (shape, values) in added.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(body), len(body) + len(packed)]}
        body += packed
    head = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(head)) + head + body)


def classifies(folder):
    refused(1, "BertForMaskedLM", "classify", ENCODER, TEXTS[0])
    model = folder / "classes"
    shutil.copytree(ENCODER, model)
    config = json.loads((model / "config.json").read_text())
    config["architectures"] = ["BertForSequenceClassification"]
    config["id2label"] = {"0": "bad", "1": "good"}
    (model / "config.json").write_text(json.dumps(config))
    width = config["hidden_size"]
    file = model / "model.safetensors"
    file.chmod(0o644)
    # Of no state: the bias alone.
    add_tensors(file, {
        "bert.pooler.dense.weight": ([width, width], [0.0] * width * width),
        "bert.pooler.dense.bias": ([width], [0.0] * width),
        "classifier.weight": ([2, width], [0.0] * 2 * width),
        "classifier.bias": ([2], [-1.0, 1.0])})
    out = json.loads(well("classify", model, *TEXTS, "--json"))
    check(out["labels"] == ["bad", "good"] and len(out["rows"]) == 2, out)
    check(out["rows"][1]["logits"] == [-1, 1], out["rows"])
    check(near(out["rows"][0]["probabilities"],
               [1 / (1 + math.exp(2)), 1 / (1 + math.exp(-2))]), out["rows"])
    check("good" in headwise("classify", model, TEXTS[0]).stdout, "a table")


with tempfile.TemporaryDirectory() as scratch:
    embeds(pathlib.Path(scratch))
    classifies(pathlib.Path(scratch))
