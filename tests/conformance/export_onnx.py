#!/usr/bin/env python3
"""Whether ONNX Runtime computes with an exported file what Headwise does.

    tests/conformance/export_onnx.py PROGRAM MODEL… [--packages FOLDER]

Each MODEL, a folder of ours, pruned or not, is written as ONNX and run on 16
ids beside `headwise dump`; logits (or what a model without a head gives) agree
to 1e-3. ONNX Runtime is npm's onnxruntime-node; FOLDER is where
`npm install` put it ($HEADWISE_NPM, or the folder of the call). Skips with a
word where it is absent.
"""
import json
import pathlib
import shutil
import struct
import sys
import tempfile

from export_peer import arguments, run

SCRIPT = pathlib.Path(__file__).with_suffix(".mjs").resolve()
TOLERANCE = 1e-3


def write_ids(path, vocabulary, length):
    """Safetensors with input_ids [1, length]. The first ids of a vocabulary of
    words are left out: RoBERTa counts no positions of what is padding."""
    first = 3 if vocabulary > 32 else 0
    ids = [first + (7 * i * i + 3 * i + 1) % (vocabulary - first)
           for i in range(length)]
    header = json.dumps({"input_ids": {
        "dtype": "I32", "shape": [1, length],
        "data_offsets": [0, 4 * length]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header +
                     struct.pack(f"<{length}i", *ids))


def check(given, model, folder):
    config = json.loads((pathlib.Path(model) / "config.json").read_text())
    length = min(16, config.get("block_size", 16))
    write_ids(folder / "ids.safetensors", config["vocab_size"], length)
    names = run(given.program, "dump", model, "--list").split()
    name = "logits" if "logits" in names else "final"
    run(given.program, "dump", model, "--input", folder / "ids.safetensors",
        "--names", name, "--out", folder / "dump.safetensors")
    run(given.program, "export", model, "--to", "onnx", "--out",
        folder / "model.onnx")
    found = json.loads(run(
        "node", SCRIPT, folder / "model.onnx", folder / "dump.safetensors",
        name, cwd=given.packages))
    words = (f"{model}: {name} differ by {found['difference']} at most, "
             f"of {found['largest']:.2f}")
    # JSON has null for a difference that is no number.
    if found["difference"] is None or found["difference"] > TOLERANCE:
        sys.exit(f"FAILED: {words}")
    print(words)


def main():
    given = arguments()
    if shutil.which("node") is None or not (
            pathlib.Path(given.packages) / "node_modules/onnxruntime-node"
    ).exists():
        print("SKIPPED: ONNX Runtime is not here: npm install "
              "--ignore-scripts onnxruntime-node, and --packages names the "
              "folder")
        return
    for model in given.models:
        with tempfile.TemporaryDirectory() as name:
            check(given, model, pathlib.Path(name))


if __name__ == "__main__":
    main()
