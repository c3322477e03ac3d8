"""131 072 tokens with all statistics, summed: time, memory, sampled rows."""
import torch

from calls import FAR
from reference import attention
from timing import median_ms


def long(operators, n=131072, samples=48):
    """Rows of results; prints time, memory beside the tensors, and how far
    sampled rows are from float64."""
    return [run(operators, n, samples, features) for features in (0, 16)]


def run(operators, n, samples, features, heads=12, d=64):
    gen = torch.Generator(device="cuda").manual_seed(1)

    def normal(*shape, dtype=torch.bfloat16):
        return torch.randn(*shape, device="cuda", generator=gen).to(dtype)

    t = {name: normal(1, n, heads, d) for name in "qkv"}
    t["out"] = torch.full_like(t["q"], float("nan"))
    double = {"device": "cuda", "dtype": torch.float64}
    if features:
        t["key_features"] = normal(1, n, features, dtype=torch.float32)
        t["query_labels"], t["key_labels"] = (
            torch.randint(0, 50, (1, 1, n), device="cuda", dtype=torch.int32)
            for _ in range(2))
        t["summed_features"] = torch.zeros(1, heads, features, **double)
        t["summed_labels"] = torch.zeros(1, heads, 1, **double)
    for name in ("lse", "entropy", "distance", "varentropy", "sum_squares",
                 "kept_max"):
        t[name] = torch.full((1, heads, n), float("nan"), device="cuda")
    t["sums"] = torch.zeros(1, heads, 12, **double)
    t["summed_histogram"] = torch.zeros(1, heads, 43, **double)
    call = operators.make(t, (FAR, 0, 0, 0))
    operators.peak_bytes()
    operators.forward("cuda.sm90", call)
    extra = operators.peak_bytes() / 2**20
    ms = median_ms(lambda: operators.forward("cuda.sm90", call), 3)
    worst = sampled_error(t, samples)
    count = t["sums"][0, :, 0].tolist()
    print(f"{n} tokens, {heads} x {d}, causal, full statistics, {features} "
          f"features, {int(features > 0)} label, summed: {ms:.1f} ms, "
          f"{extra:.0f} MiB beside the tensors, rows counted "
          f"{min(count):.0f}, worst of {samples} sampled rows "
          + " ".join(f"{k} {v:.1e}" for k, v in worst.items()), flush=True)
    return {"implementation": "sm90 full, long", "length": n, "ms": ms,
            "features": features, "extra_mebibytes": extra, "worst": worst}


def sampled_error(t, samples):
    n = t["q"].shape[1]
    at = torch.randint(n, (samples,)).tolist()
    worst = {}
    for i in at:
        r = {name: t[name][:, :i + 1] for name in "kv"}
        r["q"] = t["q"][:, i:i + 1]
        r["mask"] = (FAR, 0, i, 0)
        ref = attention(r)
        for name in ("out", "entropy", "distance", "varentropy", "sum_squares",
                     "kept_max"):
            mine = (t[name][:, i:i + 1] if name == "out"
                    else t[name][:, :, i:i + 1])
            error = (mine.double() - ref[name]).abs() / ref[
                name].abs().clamp_min(1)
            worst[name] = max(worst.get(name, 0), error.max().item())
    return worst
