#!/usr/bin/env python3
"""Compares a model's folder as transformers and as Headwise read it.

    tools/check_checkpoint.py FOLDER…
                              [--program build/release/apps/headwise/headwise]

Every folder is opened by transformers (f32, whatever it is stored in), run on
random ids and compared with the logits of `headwise dump`: |Δ| ≤ 1e-4·max(1,
|logit|). Exit code 0: all agree; 1: some do not; 77: transformers is not
installed.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE = 1e-4
SEQUENCES, TOKENS = 2, 100


def model_of(transformers, torch, folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = (transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder
            else transformers.AutoModelForCausalLM)
    model, notes = kind.from_pretrained(folder, dtype=torch.float32,
                                        output_loading_info=True)
    unread = sorted(notes["missing_keys"]) + sorted(notes["unexpected_keys"])
    if unread:
        raise RuntimeError(f"tensors that do not fit: {', '.join(unread)}")
    return model.eval()


def worst(transformers, torch, program, folder):
    """The largest |Δ| / max(1, |logit|), and the standard deviation."""
    from safetensors.torch import load_file, save_file
    model = model_of(transformers, torch, folder)
    torch.manual_seed(1)
    size = (SEQUENCES, TOKENS)
    given = {"input_ids": torch.randint(3, model.config.vocab_size, size)}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.randint(
            3, model.config.vocab_size, size)
    with torch.no_grad():
        want = model(**given).logits
    with tempfile.TemporaryDirectory() as scratch:
        ids, out = f"{scratch}/ids.safetensors", f"{scratch}/out.safetensors"
        save_file(given, ids)
        done = subprocess.run(
            [program, "dump", folder, "--input", ids, "--names", "logits",
             "--out", out], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        got = load_file(out)["logits"].reshape(want.shape)
    error = (got - want).abs() / want.abs().clamp(min=1)
    return float(error.max()), float(want.std())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--program", default=str(
        ROOT / "build/release/apps/headwise/headwise"))
    options = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError:
        print("skip: transformers is not installed (pip install transformers)")
        return 77
    failed = False
    for folder in options.folders:
        try:
            error, spread = worst(transformers, torch, options.program, folder)
            agrees = error <= TOLERANCE
            print(f"{'ok' if agrees else 'FAILED'} {folder}: largest "
                  f"difference {error:.1e}, logits' deviation {spread:.2f}")
        except (OSError, RuntimeError, ValueError) as problem:
            agrees = False
            print(f"FAILED {folder}: {problem}")
        failed |= not agrees
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
