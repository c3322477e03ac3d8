#!/usr/bin/env python3
"""Whether transformers computes with an exported folder what Headwise does.

    tests/conformance/export_transformers.py FOLDER…

Each FOLDER is one of `headwise export --to huggingface`, with what Headwise
itself computed beside the weights: expected.safetensors, of `headwise dump` of
the model that was exported (tests/conformance/export_folders.py makes both).
Stock code loads the folder in f32; logits, or the last hidden state of a model
without a head, agree to 1e-3. Meant for transformers 5.17 and torch 2.11. Skips with a word where they are absent.
"""
import pathlib
import sys

TOLERANCE = 1e-3


def check(folder):
    import safetensors.torch
    import torch
    import transformers

    expected = safetensors.torch.load_file(str(folder / "expected.safetensors"))
    ids = expected["input_ids"].long()
    mask = expected["attention_mask"].long()
    head = "logits" in expected
    config = transformers.AutoConfig.from_pretrained(folder)
    if not head:
        kind = transformers.AutoModel
    elif config.model_type in ("bert", "roberta", "distilbert"):
        kind = transformers.AutoModelForMaskedLM
    else:
        kind = transformers.AutoModelForCausalLM
    model, loading = kind.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True)
    missing = [name for name in loading["missing_keys"] if "pooler" not in name]
    if missing or loading["unexpected_keys"] or loading["mismatched_keys"]:
        return f"{folder}: loaded with {loading}", False
    with torch.no_grad():
        result = model.eval()(input_ids=ids, attention_mask=mask)
    found = result.logits if head else result.last_hidden_state
    # Ours are rows end to end, without padding.
    found = found[mask.bool()].reshape(-1, found.shape[-1])
    ours = expected["logits" if head else "final"].float()
    ours = ours.reshape(-1, ours.shape[-1])
    difference = (found - ours).abs().max().item()
    largest = ours.abs().max().item()
    same = difference <= TOLERANCE
    return (f"{folder}: {config.model_type}, transformers "
            f"{transformers.__version__}: differ by {difference:.2e} at most, "
            f"of {largest:.2f}"), same


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    try:
        import safetensors.torch  # noqa: F401
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"SKIPPED: {error}")
        return
    failed = 0
    for name in sys.argv[1:]:
        words, good = check(pathlib.Path(name))
        print(words if good else f"FAILED: {words}")
        failed += not good
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
