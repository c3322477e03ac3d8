#!/usr/bin/env python3
"""Holds the six metrics of an atlas to their definitions (docs/atlas.md), over
maps that transformers gives, in NumPy and float64. Needs torch.

    headwise atlas MODEL --text TEXT --tokens 8192 --context 128 --out ATLAS
    bench/atlas_metrics.py ATLAS MODEL TEXT --tokens 8192 --context 128

Prints the largest difference of each metric, |a − b| / max(1, |b|), and fails
above 1e-3.
"""
import argparse
import json
import pathlib
import sys
import time

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

NAMES = ["self_attention_score", "prev_token_score", "pattern_entropy",
         "qk_distance", "qk_distance_variance", "induction_score"]


def windows(tokenizer, text, context, tokens):
    """Rows of at most `context` ids, framed as the tokenizer frames texts."""
    empty = tokenizer("").input_ids
    before = empty[:1] if len(empty) > 0 else []
    after = empty[1:]
    ids = tokenizer(text, add_special_tokens=False).input_ids
    step = context - len(before) - len(after)
    seen = 0
    for begin in range(0, len(ids), step):
        if tokens and seen >= tokens:
            return
        part = ids[begin:begin + step]
        if len(part) < 2:
            return
        row = before + part + after
        seen += len(row)
        yield row


class Sums:
    """Of one layer, [heads]."""

    def __init__(self, heads):
        self.values = np.zeros((6, heads))
        self.rows = self.pairs = self.repeats = 0

    def add(self, ids, a):
        """a [heads, N, N]"""
        n = len(ids)
        far = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
        self.rows += n
        self.pairs += n - 1
        v = self.values
        v[0] += np.trace(a, axis1=1, axis2=2)
        v[1] += np.trace(a, offset=-1, axis1=1, axis2=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            v[2] -= np.where(a > 0, a * np.log(a), 0).sum((1, 2))
        v[3] += (a * far).sum((1, 2))
        v[4] += (a * far ** 2).sum((1, 2))
        for q in range(n):
            earlier = [j for j in range(q) if ids[j] == ids[q]]
            if earlier:
                self.repeats += 1
                v[5] += a[:, q, [j + 1 for j in earlier]].sum(1)

    def metrics(self):
        v = self.values
        distance = v[3] / self.rows
        return np.array([v[0] / self.rows, v[1] / self.pairs, v[2] / self.rows,
                         distance, v[4] / self.rows - distance ** 2,
                         v[5] / self.repeats])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("atlas", type=pathlib.Path)
    parser.add_argument("model")
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--tokens", type=int, default=0)
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    model = AutoModel.from_pretrained(given.model, dtype=torch.float32,
                                      attn_implementation="eager").eval()
    sums, tokens, begin = None, 0, time.monotonic()
    for ids in windows(tokenizer, given.text.read_text(encoding="utf-8"),
                       given.context, given.tokens):
        with torch.inference_mode():
            maps = model(torch.tensor([ids]), output_attentions=True).attentions
        sums = sums or [Sums(layer.shape[1]) for layer in maps]
        tokens += len(ids)
        for layer, a in zip(sums, maps):
            layer.add(ids, a[0].double().numpy())
    seconds = time.monotonic() - begin
    config = json.loads((given.atlas / "data/config.json").read_text())
    rows = json.loads((given.atlas / "data/scatter_data.json").read_text())
    worst = np.zeros(6)
    for (layer, head), row in zip(config["heads"], rows):
        expected = sums[layer].metrics()[:, head]
        found = np.array([row[name] for name in NAMES])
        worst = np.maximum(worst, np.abs(found - expected)
                           / np.maximum(1, np.abs(expected)))
    for name, value in zip(NAMES, worst):
        print(f"{name:22} {value:.2e}")
    print(f"{len(rows)} heads, {tokens} tokens; this script: "
          f"{tokens / seconds:.0f} tokens/s")
    return int(not (worst < 1e-3).all())


if __name__ == "__main__":
    sys.exit(main())
