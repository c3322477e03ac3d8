"""Finds the induction heads of a model and shows that they do it.

    ./headwise python examples/induction.py [MODEL]

Random tokens are repeated; a model that copies predicts the second half. Which
heads look at what followed last time, and what is lost without them?
"""
import sys
from pathlib import Path

import numpy as np

import headwise as hw

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "novels"


def second_half_loss(model, rows):
    """Nats a token where a row is said for the second time."""
    losses = []
    for row in rows:
        logits = model.run(row)[0][0].astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        half = len(row) // 2
        losses.append(-log_p[np.arange(half, len(row) - 1), row[half + 1:]])
    return np.mean(losses)


def main():
    model = hw.load(sys.argv[1] if len(sys.argv) > 1 else FOLDER)
    print(model)
    scores = model.induction_scores()
    order = np.dstack(np.unravel_index(np.argsort(-scores, None),
                                       scores.shape))[0]
    print("induction scores, highest first:")
    for layer, head in order[:5]:
        print(f"  {layer}.{head}  {scores[layer, head]:.2f}")

    random = np.random.default_rng(1)
    halves = random.integers(100, model.info["vocabulary"], (8, 40))
    rows = np.concatenate([halves, halves], 1)
    print(f"loss on the second copy of random tokens (uniform would be "
          f"{np.log(model.info['vocabulary']):.2f}):")
    print(f"  whole model               {second_half_loss(model, rows):.2f}")
    for count in (1, 3):
        closed = [(int(layer), int(head)) for layer, head in order[:count]]
        with model.edit(drop=closed):
            loss = second_half_loss(model, rows)
        print(f"  without the first {count}       {loss:.2f}")
    # Of the same layers: a lower one may be what the copying heads read.
    layers = {int(layer) for layer, _ in order[:3]}
    others = [(int(layer), int(head)) for layer, head in order[::-1]
              if layer in layers][:3]
    with model.edit(drop=others):
        loss = second_half_loss(model, rows)
    print(f"  without 3 of their layers {loss:.2f}")


if __name__ == "__main__":
    main()
