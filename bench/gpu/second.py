"""Holds the second passes to the float64 reference on random problems."""
import random

import torch

from check import (Verdict, add_observed, add_shape, add_sinks, poisoned,
                   random_problem)
from reference import attention


def check_second(operators, name, count, head_dims, types, shaped):
    """Whether rows, largest keys, pairs, column sums and windows agree."""
    verdict, failed = Verdict(), 0
    for seed in range(500000, 500000 + count):
        r = random_problem(seed, head_dims, types, seed % 4 == 0)
        add_observed(r, seed)
        if shaped:
            add_shape(r, seed)
        if seed % 3 == 0:
            add_sinks(r, seed)
        t = poisoned(r, "full")
        call = operators.make(t, r["mask"], r.get("active"),
                              soft_cap=r.get("soft_cap", 0.0))
        operators.forward(name, call)
        ref = attention(r)
        verdict.wrong = []
        judge_one(verdict, operators, name, call, r, t, ref,
                  random.Random(seed))
        if verdict.wrong:
            failed += 1
            what = {n: list(x.shape) if torch.is_tensor(x) else x
                    for n, x in r.items()}
            print(f"FAILED {name} second passes, seed {seed}: {verdict.wrong} "
                  f"{what}", flush=True)
    worst = " ".join(f"{n} {w:.2f}" for n, w in verdict.worst.items())
    print(f"{name}: {count - failed} of {count} second passes agree; worst: "
          f"{worst}", flush=True)
    return failed == 0


def nans(*shape):
    return torch.full(shape, float("nan"), device="cuda")


def judge_one(verdict, operators, name, call, r, t, ref, rng):
    batch, m, heads, _ = r["q"].shape
    n = r["k"].shape[1]
    active = r.get("active", list(range(heads)))
    a = ref["a"]
    rows = [(rng.randrange(batch), rng.randrange(m)) for _ in range(7)]
    at = tuple(zip(*rows))
    truth = a[list(at[0]), :, list(at[1])]  # [rows, H, N]

    dense = nans(len(rows), heads, n)
    operators.rows(name, call, rows, dense)
    verdict.hold("rows", dense[:, active], truth[:, active], 1e-2)

    top = min(3, n)
    keys = torch.full((len(rows), heads, top), -7, device="cuda",
                      dtype=torch.int32)
    found = nans(len(rows), heads, top)
    operators.top_k(name, call, rows, keys, found)
    best = truth.topk(top, dim=-1).values
    verdict.hold("top", found[:, active], best[:, active], 1e-2)
    mass = torch.gather(truth, -1, keys.long().clamp_min(0))
    mass = torch.where(keys >= 0, mass, 0.0)
    verdict.hold("top keys", mass[:, active], best[:, active], 1e-3)

    wanted = [rng.randrange(n) for _ in rows]
    mass = nans(heads, len(rows))
    is_argmax = torch.full((heads, len(rows)), 9, device="cuda",
                           dtype=torch.uint8)
    operators.pairs(name, call, rows, wanted, mass, is_argmax)
    picked = truth[range(len(rows)), :, wanted].T
    verdict.hold("pairs", mass[active], picked[active], 1e-2)
    argmax = t["argmax"][list(at[0]), :, list(at[1])].T
    same = argmax == torch.tensor(wanted, device="cuda")
    verdict.hold("is argmax", is_argmax[active].double(),
                 same[active].double(), 0.5)

    t["received"].fill_(float("nan"))
    operators.received(name, call)
    w = torch.ones(batch, m, device="cuda", dtype=torch.float64)
    if "query_weights" in r:
        w = r["query_weights"].double()
    truth = torch.einsum("bhmn,bm->bhn", a, w)[:, active]
    verdict.hold("received", t["received"][:, active], truth,
                 1e-2 * truth.abs().clamp_min(1))
    judge_window(verdict, operators, name, call, a, active, rng)
    judge_gram(verdict, operators, name, call, a, w, ref["seen"], active)


def judge_window(verdict, operators, name, call, a, active, rng):
    batch, _, m, n = a.shape
    b, h = rng.randrange(batch), rng.choice(active)
    i0, j0 = rng.randrange(m), rng.randrange(n)
    i1, j1 = rng.randrange(i0, m) + 1, rng.randrange(j0, n) + 1
    high, wide = rng.choice([1, 3, 8]), rng.choice([1, 5, 16])
    maximum, mean = nans(high, wide), nans(high, wide)
    operators.window(name, call, (b, h, i0, i1, j0, j1), maximum, mean)

    def cells(size, count):
        first = [c * size // count for c in range(count + 1)]
        return [(first[c], max(first[c] + 1, first[c + 1]))
                for c in range(count)]

    for y, (u, v) in enumerate(cells(i1 - i0, high)):
        for x, (p, q) in enumerate(cells(j1 - j0, wide)):
            cell = a[b, h, i0 + u:i0 + v, j0 + p:j0 + q]
            size = (v - u) * (q - p)
            verdict.hold("window", maximum[y, x], cell.amax(), 1e-2)
            verdict.hold("window mean", mean[y, x], cell.sum() / size, 1e-2)


def judge_gram(verdict, operators, name, call, a, w, seen, active):
    heads = a.shape[1]
    gram = nans(2 * heads, 2 * heads).double()
    operators.gram(name, call, gram)
    twice = active + [heads + h for h in active]
    w = w * seen[:, active].all(1)
    root = a[:, active].sqrt()
    total = torch.einsum("bhmn,bgmn,bm->hg", root, root, w)
    mean = total / w.sum() if w.sum() > 0 else torch.zeros_like(total)
    found = gram[twice][:, twice]
    verdict.hold("gram", found, mean.repeat(2, 2), 1e-2)
    rest = [h for h in range(heads) if h not in active]
    if rest and not torch.isnan(gram[rest]).all():
        verdict.wrong.append("an inactive head's row of the gram was touched")
