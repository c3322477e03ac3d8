#!/usr/bin/env python3
"""Whether llama.cpp answers with an exported GGUF as Headwise does.

    tests/conformance/export_llama_cpp.py PROGRAM MODEL… [--packages FOLDER]

Each MODEL, a folder of ours, pruned or not, is written as f32 and as f16; the
text below goes through llama.cpp's tokenizer and ours, and the 32 likeliest
tokens one after the other through both. llama.cpp is npm's node-llama-cpp with
@node-llama-cpp/linux-x64; FOLDER is where `npm install` put them
($HEADWISE_NPM, or the folder of the call). Skips with a word where they are
absent.
"""
import json
import pathlib
import shutil
import sys
import tempfile

from export_peer import arguments, run

SCRIPT = pathlib.Path(__file__).with_suffix(".mjs").resolve()
TEXT = "The cat sat on the mat and looked at the old lamp, 1234 times; it's"
TOKENS = 32


def ours(program, model):
    result = json.loads(run(program, "generate", model, TEXT, "--max-tokens",
                            TOKENS, "--json"))
    return result["prompt_ids"], result["ids"]


def check(given, model, kind, folder):
    file = folder / f"{kind}.gguf"
    written = json.loads(run(
        given.program, "export", model, "--to", "gguf", "--type", kind, "--out",
        file, "--json"))
    prompt, ids = ours(given.program, model)
    theirs = json.loads(run("node", SCRIPT, file, TEXT,
                            ",".join(map(str, prompt)), TOKENS,
                            cwd=given.packages))
    if theirs["prompt"] != prompt[-len(theirs["prompt"]):]:
        sys.exit(f"FAILED: {model}: ids of the text: {prompt}, llama.cpp "
                 f"{theirs['prompt']}")
    # We stop at the end of the text; what llama.cpp says then does not count.
    if theirs["tokens"][:len(ids)] != ids or not ids:
        sys.exit(f"FAILED: {model} as {kind}: {ids}, llama.cpp "
                 f"{theirs['tokens']}")
    print(f"{model} as {written['architecture']}, {kind}: the same "
          f"{len(ids)} tokens")


def main():
    given = arguments()
    if shutil.which("node") is None or not (
            pathlib.Path(given.packages) / "node_modules/node-llama-cpp"
    ).exists():
        print("SKIPPED: llama.cpp is not here: npm install --ignore-scripts "
              "node-llama-cpp, and --packages names the folder")
        return
    with tempfile.TemporaryDirectory() as name:
        for model in given.models:
            if not (pathlib.Path(model) / "tokenizer.json").exists():
                # node-llama-cpp itself asks for one.
                print(f"SKIPPED: {model} has no tokenizer.json")
                continue
            for kind in ("f32", "f16"):
                folder = pathlib.Path(name) / str(abs(hash((model, kind))))
                folder.mkdir()
                check(given, model, kind, folder)


if __name__ == "__main__":
    main()
