"""Holds the CUDA operators to the float64 reference on random problems.

Outputs are poisoned before each run, inputs are fresh; tolerances are those of
ops/attention: values 1e-2 of the largest |v|, statistics 1e-2 of max(1, |ref|),
gradients 2e-2 of the largest |reference| (gates': or the rounding of outputs).
"""
import random

import torch

from calls import FAR
from reference import attention

ROWS = ("lse", "entropy", "max", "distance", "missing")
MORE = ("varentropy", "sum_squares", "kept_max")
SETTINGS = ("mask", "active", "scale", "soft_cap")
# Gradients of parameters are added to; NaN for heads that are not to be
# touched.
SUMMED = ("drelative_table", "dsink_logits")
PARAMETERS = ("relative_table", "sink_logits", *SUMMED)


def random_problem(seed, head_dims, types, decoding=False, crowded=False):
    rng = random.Random(seed)
    kv_heads = rng.choice([1, 2, 3])
    heads = kv_heads * rng.choice([1, 1, 2, 4])
    batch = rng.choice([1, 2, 3])
    if crowded:
        kv_heads, heads, batch = 8, 16, 12
    m = rng.choice([1, 17, 64, 100, 128, 200, 320, 513])
    n = rng.choice([1, 5, 64, 128, 129, 200, 384, 700])
    if decoding:
        m, n = rng.choice([1, 1, 2, 5, 8]), rng.choice([1, 70, 700, 3000, 9001])
    d = rng.choice(head_dims)
    offset = rng.choice([0, 0, n - m, 37, -20])
    mask = rng.choice([(FAR, FAR, 0, 0), (FAR, 0, offset, 0),
                       (rng.choice([0, 10, 130, 300]), 0, offset, 0),
                       (rng.choice([10, 130]), 0, offset,
                        rng.choice([1, 4, 150])),
                       (rng.choice([3, 150]), rng.choice([2, 140]), offset, 0)])
    gen = torch.Generator(device="cuda").manual_seed(seed)
    element = rng.choice(types)

    def normal(*shape, dtype=element, scale=1.0):
        x = torch.randn(*shape, device="cuda", generator=gen) * scale
        return x.to(dtype)

    # Large scales make scores jump far beyond what came before them.
    scale = rng.choice([0.3, 1, 1, 4, 40])
    r = {"mask": mask, "q": normal(batch, m, heads, d, scale=scale),
         "k": normal(batch, n, kv_heads, d), "v": normal(batch, n, kv_heads, d),
         "dout": normal(batch, m, heads, d), "scale": scale}

    def lengths(most):
        return torch.randint(0, most + 1, (batch,), device="cuda",
                             dtype=torch.int32, generator=gen)

    # What lies past the end of a sequence may be anything.
    if rng.random() < 0.3:
        r["query_lengths"] = lengths(m)
        for b, end in enumerate(r["query_lengths"].tolist()):
            r["q"][b, end:] = r["dout"][b, end:] = float("nan")
    if rng.random() < 0.3:
        r["key_lengths"] = lengths(n)
        for b, end in enumerate(r["key_lengths"].tolist()):
            r["k"][b, end:] = r["v"][b, end:] = float("nan")
    if rng.random() < 0.2:
        r["query_offsets"] = lengths(n)
    if rng.random() < 0.4:
        r["gates"] = torch.rand(batch, m, heads, device="cuda", generator=gen)
        if rng.random() < 0.5:
            r["replacement"] = normal(batch, m, heads, d, dtype=torch.float32)
    if heads > 1 and rng.random() < 0.3:
        r["active"] = sorted(rng.sample(range(heads), heads - 1))
    return r


def poisoned(r, statistics):
    batch, m, heads, d = r["q"].shape
    n = r["k"].shape[1]
    nan = float("nan")
    t = {name: r[name] for name in r if name not in SETTINGS}
    t["out"] = torch.full_like(r["dout"], nan)
    t["lse"] = torch.full((batch, heads, m), nan, device="cuda")
    if "gates" in r:
        t["ungated"] = torch.full_like(r["dout"], nan)
    if statistics == "full":
        poison_full(r, t)
    if statistics:
        for name in ROWS[1:]:
            t[name] = torch.full_like(t["lse"], nan)
        t["argmax"] = torch.full((batch, heads, m), -7, device="cuda",
                                 dtype=torch.int32)
    for name, like in (("dq", "q"), ("dk", "k"), ("dv", "v")):
        t[name] = torch.full_like(r[like], nan)
    t["dgates"] = torch.full((batch, m, heads), nan, device="cuda")
    t["received"] = torch.full((batch, heads, n), nan, device="cuda")
    for name in SUMMED:
        if name in r:
            t[name] = r[name].clone()
    return t


def poison_full(r, t):
    batch, m, heads, _ = r["q"].shape

    def of(*shape, dtype=torch.float32):
        return torch.full(shape, float("nan"), device="cuda", dtype=dtype)

    for name in MORE:
        t[name] = of(batch, heads, m)
    t["kept_argmax"] = torch.full((batch, heads, m), -7, device="cuda",
                                  dtype=torch.int32)
    t["histogram"] = of(batch, heads, m, 43)
    t["sums"] = of(batch, heads, 12, dtype=torch.float64)
    t["summed_histogram"] = of(batch, heads, 43, dtype=torch.float64)
    for name, source, axis in (("feature", "key_features", 2),
                               ("label", "query_labels", 0)):
        if source in r:
            count = r[source].shape[axis]
            t[name + "_mass"] = of(batch, heads, m, count)
            t[f"summed_{name}s"] = of(batch, heads, count,
                                      dtype=torch.float64)


def add_observed(r, seed):
    """What the full statistics look at."""
    rng = random.Random(seed + 77)
    batch, m = r["q"].shape[:2]
    n = r["k"].shape[1]
    gen = torch.Generator(device="cuda").manual_seed(seed + 77)

    def whole(low, high, *shape, dtype=torch.int32):
        return torch.randint(low, high, shape, device="cuda", dtype=dtype,
                             generator=gen)

    if rng.random() < 0.6:
        r["key_features"] = torch.randn(batch, n, rng.choice([1, 5, 40]),
                                        device="cuda", generator=gen)
    if rng.random() < 0.6:
        count = rng.choice([1, 2, 4])
        r["query_labels"] = whole(-1, 6, count, batch, m)
        r["key_labels"] = whole(-1, 6, count, batch, n)
    if rng.random() < 0.5:
        r["excluded_keys"] = whole(0, 2, batch, n, dtype=torch.uint8)
    if rng.random() < 0.5:
        r["query_weights"] = torch.rand(batch, m, device="cuda", generator=gen)


def add_shape(r, seed):
    """Soft caps and biases."""
    rng = random.Random(seed + 99)
    heads = r["q"].shape[2]
    gen = torch.Generator(device="cuda").manual_seed(seed + 99)
    if rng.random() < 0.4:
        r["soft_cap"] = rng.choice([5.0, 30.0])
    kind = rng.choice(["none", "alibi", "relative"])
    if kind == "alibi":
        r["alibi_slopes"] = torch.rand(heads, device="cuda", generator=gen) / 8
    elif kind == "relative":
        reach = rng.choice([0, 3, 60])
        r["relative_table"] = torch.randn(heads, 2 * reach + 1, device="cuda",
                                          generator=gen)


def other_values(r, seed, share=0.25, widths=None):
    """Of a share of the problems: values of another size than keys."""
    rng = random.Random(seed + 33)
    if rng.random() >= share:
        return
    d = r["v"].shape[3]
    e = rng.choice(widths or [8, 40, d // 2 // 8 * 8])
    gen = torch.Generator(device="cuda").manual_seed(seed + 33)
    for name in ("v", "dout", "replacement"):
        if name in r:
            x = r[name]
            more = torch.randn(*x.shape[:3], max(0, e - d), device="cuda",
                               generator=gen).to(x.dtype)
            # What is NaN lies past the end of a sequence.
            more = torch.where(x[..., :1].isnan(), x[..., :1], more)
            r[name] = torch.cat([x[..., :e], more], -1).contiguous()


def add_sinks(r, seed):
    """A sink logit of each head, beside the scores or far from them."""
    rng = random.Random(seed + 11)
    heads = r["q"].shape[2]
    gen = torch.Generator(device="cuda").manual_seed(seed + 11)

    def normal():
        return torch.randn(heads, device="cuda", generator=gen)

    far = rng.choice([0, 0, 0, 9, -9, 60, 3 * r.get("scale", 1)])
    r["sink_logits"] = 2 * normal() + far
    if rng.random() < 0.3:
        r["sink_logits"][rng.randrange(heads)] = -float("inf")
    r["dsink_logits"] = normal()
    close_inactive(r, "dsink_logits")


def close_inactive(r, name):
    if "active" in r:
        heads = r["q"].shape[2]
        rest = [h for h in range(heads) if h not in r["active"]]
        r[name][rest] = float("nan")


def add_gradients(r, seed, entropy, table):
    """Gradients of entropies, and a relative table with its own."""
    rng = random.Random(seed + 55)
    batch, m, heads, _ = r["q"].shape
    gen = torch.Generator(device="cuda").manual_seed(seed + 55)
    if entropy:
        size = rng.choice([1, 20])  # beside the values' part, or above it
        r["dentropy"] = size * torch.randn(batch, heads, m, device="cuda",
                                           generator=gen)
        if "query_lengths" in r:
            for b, end in enumerate(r["query_lengths"].tolist()):
                r["dentropy"][b, :, end:] = float("nan")
    if table:
        r.pop("alibi_slopes", None)
        width = 2 * rng.choice([0, 1, 20, 64, 200, 1000]) + 1
        for name in ("relative_table", "drelative_table"):
            r[name] = torch.randn(heads, width, device="cuda", generator=gen)
        close_inactive(r, "drelative_table")


class Verdict:
    def __init__(self):
        self.worst, self.wrong = {}, []

    def hold(self, name, found, truth, tolerance):
        error = (found.double() - truth).abs() / tolerance
        error = torch.where(torch.isnan(error), float("inf"), error)
        worst = error.max().item() if error.numel() else 0.0
        self.worst[name] = max(self.worst.get(name, 0.0), worst)
        if not worst <= 1:
            self.wrong.append(f"{name} {worst:.3g}x")


def judge_full(verdict, r, t, ref, heads):
    names = [*MORE, "histogram",
             *(n for n in ("feature_mass", "label_mass") if n in t)]
    for name in names:
        truth = ref[name][:, heads]
        verdict.hold(name, t[name][:, heads], truth,
                     1e-2 * truth.abs().clamp_min(1))
    key = t["kept_argmax"][:, heads].long()
    kept = ref["kept"][:, heads]
    mass = torch.gather(kept, -1, key.clamp_min(0)[..., None])[..., 0]
    verdict.hold("kept_argmax", torch.where(key >= 0, mass, 0.0),
                 ref["kept_max"][:, heads], 1e-3)
    seen = ref["seen"][:, heads]
    w = seen.double()
    if "query_weights" in r:
        w = w * r["query_weights"].double()[:, None]
    visible = ref["visible"][:, heads]
    entropy = ref["entropy"][:, heads]
    far = (ref["position"][:, heads]
           - t["argmax"][:, heads]).abs().double()
    columns = {
        "count": torch.ones_like(w), "entropy": entropy,
        "normalized entropy": torch.where(
            visible > 1, entropy / visible.clamp_min(2).log(), 0.0),
        "max": ref["max"][:, heads], "distance": ref["distance"][:, heads],
        "argmax distance": torch.where(seen, far, 0.0),
        "varentropy": ref["varentropy"][:, heads],
        "squares": ref["sum_squares"][:, heads],
        "kept max": ref["kept_max"][:, heads], "visible": visible,
        "missing": ref["missing"][:, heads],
        "not finite": torch.zeros_like(w)}
    for i, (name, column) in enumerate(columns.items()):
        truth = (w * column).sum(-1)
        # Rows' own errors add up where the truth is next to nothing.
        verdict.hold("sum of " + name, t["sums"][:, heads, i], truth,
                     (1e-2 * truth.abs().clamp_min(1)).maximum(
                         1e-4 * w.abs().sum(-1)))
    for name, summed in (("histogram", "summed_histogram"),
                         ("feature_mass", "summed_features"),
                         ("label_mass", "summed_labels")):
        if summed in t:
            truth = (w[..., None] * ref[name][:, heads]).sum(-2)
            size = (w[..., None] * ref[name][:, heads].abs()).sum(-2)
            verdict.hold(summed, t[summed][:, heads], truth,
                         1e-2 * size.clamp_min(1))


def judge(verdict, r, t, ref, statistics, backward):
    heads = r.get("active", list(range(r["q"].shape[2])))
    sized = max(1.0, *(r[n].nan_to_num().abs().max().item()
                       for n in ("v", "replacement") if n in r))
    for name in ("out", "ungated"):
        if name in t:
            verdict.hold(name, t[name][:, :, heads], ref[name][:, :, heads],
                         1e-2 * sized)
    truth = ref["lse"][:, heads]
    dead = torch.isinf(truth)
    found = t["lse"][:, heads]
    if not torch.equal(torch.isinf(found) & (found < 0), dead):
        verdict.wrong.append("lse of unseen rows")
    verdict.hold("lse", torch.where(dead, 0, found),
                 torch.where(dead, 0, truth),
                 1e-2 * truth.abs().nan_to_num(posinf=1).clamp_min(1))
    if statistics:
        for name in ROWS[1:]:
            truth = ref[name][:, heads]
            verdict.hold(name, t[name][:, heads], truth,
                         1e-2 * truth.abs().clamp_min(1))
        key = t["argmax"][:, heads].long()
        seen = ref["seen"][:, heads]
        if not torch.equal(key >= 0, seen):
            verdict.wrong.append("argmax of unseen rows")
        mass = torch.gather(ref["a"][:, heads], -1,
                            key.clamp_min(0)[..., None])[..., 0]
        verdict.hold("argmax", torch.where(seen, mass, 0.0),
                     torch.where(seen, ref["max"][:, heads], 0.0), 1e-3)
    if statistics == "full":
        judge_full(verdict, r, t, ref, heads)
    if "active" in r:
        rest = [h for h in range(r["q"].shape[2]) if h not in heads]
        if not torch.isnan(t["out"][:, :, rest].float()).all():
            verdict.wrong.append("an inactive head's output was touched")
    if backward:
        eps = torch.finfo(r["q"].dtype).eps
        for name in ("dq", "dgates"):
            truth = ref[name][:, :, heads]
            size = max(1e-2, truth.abs().max().item()) if truth.numel() else 1
            tolerance = torch.full_like(truth, 2e-2 * size)
            if "dq_rounding" in ref and name == "dq":
                tolerance = tolerance.maximum(
                    2 * eps * ref["dq_rounding"][:, :, heads])
            if name == "dgates":
                # Of terms that cancel in ⟨dout, O⟩ the rounding of O stays.
                tolerance = tolerance.maximum(
                    eps * ref["gate_terms"][:, :, heads])
            verdict.hold(name, t[name][:, :, heads], truth, tolerance)
        for name in ("dk", "dv"):
            size = max(1e-2, ref[name].abs().max().item())
            tolerance = torch.full_like(ref[name], 2e-2 * size)
            if "dk_rounding" in ref and name == "dk":
                tolerance = tolerance.maximum(2 * eps * ref["dk_rounding"])
            verdict.hold(name, t[name], ref[name], tolerance)
        truth = ref["received"][:, heads]
        verdict.hold("received", t["received"][:, heads], truth,
                     1e-2 * truth.abs().clamp_min(1))
        for name in SUMMED:
            if name in t:
                judge_summed(verdict, r, t, name, ref[name],
                             ref[name + "_size"])


def judge_summed(verdict, r, t, name, truth, size):
    heads = r.get("active", list(range(r["q"].shape[2])))
    found = t[name].double() - r[name].double()
    verdict.hold(name, found[heads], truth[heads], 2e-2 * size[heads])
    rest = [h for h in range(r["q"].shape[2]) if h not in heads]
    if not torch.isnan(t[name][rest]).all():
        verdict.wrong.append(f"an inactive head's {name} was touched")


def repeats(operators, name, call, r, t):
    """Whether another backward gives the same bits."""
    names = [n for n in ("dq", "dk", "dv", *SUMMED) if n in t]
    before = {n: t[n].clone() for n in names}
    for n in names:
        if n in r:
            t[n].copy_(r[n])
        else:
            t[n].fill_(float("nan"))
    operators.backward(name, call)
    return all(torch.equal(before[n].nan_to_num(), t[n].nan_to_num())
               for n in names)


def check_packed(operators, name, count, head_dims, types, entropy=False,
                 table=False, sinks=False):
    """Packed sequences against the same sequences one by one."""
    verdict, failed = Verdict(), 0
    for seed in range(count):
        rng = random.Random(seed)
        d, element = rng.choice(head_dims), rng.choice(types)
        heads, kv_heads = rng.choice([(4, 4), (4, 2), (3, 1)])
        spans = [(rng.choice([0, 1, 70, 200, 333]), rng.choice([1, 64, 257]))
                 for _ in range(rng.choice([1, 3, 5]))]
        mask = rng.choice([(FAR, FAR, 0, 0), (FAR, 0, 0, 0), (40, 3, 5, 2)])
        gen = torch.Generator(device="cuda").manual_seed(seed)

        def normal(length, width):
            return torch.randn(1, max(1, length), width, d, device="cuda",
                               generator=gen).to(element)

        m, n = (sum(x) for x in zip(*spans))
        r = {"q": normal(m, heads), "k": normal(n, kv_heads),
             "v": normal(n, kv_heads), "dout": normal(m, heads)}
        add_gradients(r, seed, entropy, table)
        if sinks:
            add_sinks(r, seed)
        t = poisoned(r, "full")
        for sums in ("sums", "summed_histogram"):
            t[sums] = t[sums].repeat(len(spans), 1, 1)
        starts = [[0], [0]]
        for span in spans:
            for axis in (0, 1):
                starts[axis].append(starts[axis][-1] + span[axis])
        t["query_starts"], t["key_starts"] = (
            torch.tensor(x, device="cuda", dtype=torch.int32) for x in starts)
        call = operators.make(t, mask, lengths=(
            len(spans), max(x[0] for x in spans), max(x[1] for x in spans)))
        # Where every sequence is empty, there is nothing for cuda.sm90.
        operators.forward(operators.takes(name, call), call)
        operators.backward(operators.takes(name, call, backward=True), call)
        torch.cuda.synchronize()
        verdict.wrong = []
        truth = {n: 0 for n in SUMMED if n in r}
        size = dict(truth)
        for i, span in enumerate(spans):
            if span[0] == 0:
                continue
            at = [slice(starts[a][i], starts[a][i] + span[a]) for a in (0, 1)]
            of_keys = ("k", "v", "dk", "dv")
            alone = {name: x if name in PARAMETERS else
                     x[:, :, at[0]] if name == "dentropy" else
                     x[:, at[name in of_keys]] for name, x in r.items()}
            ref = attention({**alone, "mask": mask})
            part = {}
            for name_, x in t.items():
                if name_ == "received":
                    part[name_] = x[:, :, at[1]]
                elif name_.startswith("sum") and name_ != "sum_squares":
                    part[name_] = x[i:i + 1]
                elif name_ in ROWS + MORE or name_ in (
                        "argmax", "kept_argmax", "histogram", "dentropy"):
                    part[name_] = x[:, :, at[0]]
                elif not name_.endswith("starts") and name_ not in PARAMETERS:
                    part[name_] = x[:, at[name_ in of_keys]]
            judge(verdict, {**alone, "mask": mask}, part, ref, "full", True)
            for n in truth:
                truth[n] = truth[n] + ref[n]
                size[n] = size[n] + ref[n + "_size"]
        for n in truth:
            if torch.is_tensor(truth[n]):
                judge_summed(verdict, r, t, n, truth[n], size[n])
        if verdict.wrong:
            failed += 1
            print(f"FAILED {name} packed seed {seed}: {verdict.wrong} {spans}",
                  flush=True)
    kind = " entropy" * entropy + " table" * table + " sinks" * sinks
    print(f"{name}: {count - failed} of {count} packed{kind} problems agree",
          flush=True)
    return failed == 0


def check(operators, name, count, head_dims, types, first_seed=0,
          shaped=False, decoding=False, entropy=False, table=False,
          crowded=False, sinks=False):
    """Whether all problems agree; prints the worst error of each result as a
    part of its tolerance. shaped: with biases and soft caps; decoding: few
    queries, many keys; entropy, table: with gradients of entropies and of a
    relative table; crowded: so many rows that every block of a kernel takes
    several work items, one after the other; sinks: with sink logits, and two
    problems in three with values of another size than keys."""
    verdict, failed, backwards, own = Verdict(), 0, 0, 0
    for seed in range(first_seed, first_seed + count):
        r = random_problem(seed, head_dims, types, decoding, crowded)
        if sinks:
            add_sinks(r, seed)
            widths = [e for e in (8, 40, 64, 96, 128) if e != r["q"].shape[3]]
            other_values(r, seed, 0.67, widths)
        else:
            other_values(r, seed)
        statistics = (None, "core", "full")[seed % 3]
        if statistics == "full":
            add_observed(r, seed)
        if shaped:
            add_shape(r, seed)
        add_gradients(r, seed, entropy, table)
        t = poisoned(r, statistics)
        call = operators.make(t, r["mask"], r.get("active"),
                              soft_cap=r.get("soft_cap", 0.0))
        operators.forward(name, call)
        # Gradients through scores of hundreds are rounding: not compared.
        backward = r["scale"] <= 4
        if backward:
            gradients = operators.takes(name, call, backward=True)
            operators.backward(gradients, call)
            backwards += 1
            own += gradients == name
        torch.cuda.synchronize()
        verdict.wrong = []
        judge(verdict, r, t, attention(r), statistics, backward)
        if backward and (entropy or table or sinks) and not repeats(
                operators, gradients, call, r, t):
            verdict.wrong.append("another backward gave other bits")
        if verdict.wrong:
            failed += 1
            if failed <= 8:
                what = {n: list(x.shape) if torch.is_tensor(x) else x
                        for n, x in r.items()}
                print(f"FAILED {name} seed {seed}: {verdict.wrong} {what}",
                      flush=True)
    worst = " ".join(f"{n} {w:.2f}" for n, w in verdict.worst.items())
    kind = " shaped" * shaped + " decoding" * decoding
    kind += " entropy" * entropy + " table" * table + " crowded" * crowded
    kind += " sinks" * sinks
    print(f"{name}: {count - failed} of {count}{kind} problems agree "
          f"({backwards} with gradients, {own} of them its own); worst: {worst}",
          flush=True)
    return failed == 0


def check_sinks(operators, count, head_dims, types):
    """Sink logits and values of another size, on both fast paths: every pass,
    decoding, packed sequences, and beside all that gradients may have."""
    def of(name, part, dims, kinds, first_seed, **options):
        return check(operators, name, max(1, count // part), dims, kinds,
                     first_seed=first_seed, sinks=True, **options)

    good = of("cuda.sm90", 1, head_dims, types, 1000000)
    good &= of("cuda.sm80", 1, head_dims, types, 1100000, shaped=True)
    # Keys of latent attention are wider than its values.
    wide = [torch.bfloat16]
    good &= of("cuda.sm80", 3, [192], wide, 1200000)
    good &= of("cuda.sm90", 3, head_dims, types, 1300000, decoding=True)
    good &= of("cuda.sm80", 3, head_dims, types, 1400000, decoding=True)
    good &= of("cuda.sm80", 6, [192], wide, 1500000, decoding=True)
    good &= of("cuda.sm80", 3, head_dims, types, 1600000, shaped=True,
               entropy=True)
    good &= of("cuda.sm80", 6, head_dims, types, 1700000, shaped=True,
               entropy=True, table=True)
    for name in ("cuda.sm90", "cuda.sm80"):
        good &= check_packed(operators, name, max(1, count // 10), head_dims,
                             types, sinks=True)
    return good
