"""Times the CUDA operators beside PyTorch's attention."""
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from calls import FAR

TOKENS, WIDTH = 16384, 2048
PEERS = {"flash": SDPBackend.FLASH_ATTENTION,
         "cudnn": SDPBackend.CUDNN_ATTENTION,
         "efficient": SDPBackend.EFFICIENT_ATTENTION}


def medians_ms(runs, repeats):
    """Name → median ms, all measured in turn: the chip's clock drifts with
    its power, and one after the other they would meet different clocks."""
    for _ in range(3):
        for run in runs.values():
            run()
    marks = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True)
                          for _ in range(2))
            begin.record()
            run()
            end.record()
            marks[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(b.elapsed_time(e) for b, e in pairs)
            for name, pairs in marks.items()}


def median_ms(run, repeats):
    return medians_ms({"": run}, repeats)[""]


def tensors(d, n):
    batch, heads = max(1, TOKENS // n), WIDTH // d
    t = {name: torch.randn(batch, n, heads, d, device="cuda",
                           dtype=torch.bfloat16)
         for name in ("q", "k", "v", "dout")}
    for name in ("out", "dq", "dk", "dv"):
        t[name] = torch.empty_like(t["q"])
    for name in ("lse", "entropy", "max", "distance"):
        t[name] = torch.empty(batch, heads, n, device="cuda")
    t["argmax"] = torch.empty(batch, heads, n, device="cuda",
                              dtype=torch.int32)
    t["dgates"] = torch.empty(batch, n, heads, device="cuda")
    return t


def full_results(t):
    """Row results of the full statistics."""
    found = {name: torch.empty_like(t["lse"])
             for name in ("varentropy", "sum_squares", "kept_max")}
    found["kept_argmax"] = torch.empty_like(t["argmax"])
    found["histogram"] = torch.empty(*t["lse"].shape, 43, device="cuda")
    return found


def plain(t):
    return {n: x for n, x in t.items()
            if n not in ("entropy", "max", "distance", "argmax")}


def ours(operators, t, causal, backward):
    """Name → function to time."""
    mask = (FAR, 0, 0, 0) if causal else (FAR, FAR, 0, 0)
    core, bare = operators.make(t, mask), operators.make(plain(t), mask)
    if backward:
        operators.forward("cuda.sm90", core)
        return {f"{name} backward":
                lambda name=name: operators.backward(f"cuda.{name}", core)
                for name in ("sm90", "sm80")}
    full = operators.make({**t, **full_results(t)}, mask)
    sinks = torch.zeros(t["q"].shape[2], device="cuda")
    sunk = operators.make({**plain(t), "sink_logits": sinks}, mask)
    return {"sm90 core": lambda: operators.forward("cuda.sm90", core),
            "sm90": lambda: operators.forward("cuda.sm90", bare),
            "sm90 sinks": lambda: operators.forward("cuda.sm90", sunk),
            "sm90 full": lambda: operators.forward("cuda.sm90", full),
            "sm80 core": lambda: operators.forward("cuda.sm80", core)}


def peers(t, causal, backward):
    q, k, v, dout = (t[n].transpose(1, 2).contiguous()
                     for n in ("q", "k", "v", "dout"))

    def call():
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    runs = {}
    for name, backend in PEERS.items():
        if not backward:
            def forward(backend=backend):
                with sdpa_kernel(backend):
                    call()
            runs[name] = forward
            continue
        for x in (q, k, v):
            x.requires_grad_()
        with sdpa_kernel(backend):
            out = call()
        runs[name + " backward"] = lambda out=out: torch.autograd.grad(
            out, (q, k, v), dout, retain_graph=True)
    return runs


def measure(operators, head_dims, sizes, repeats, backward=False):
    """Rows of results; prints a table in TFLOP/s."""
    rows = []
    for d in head_dims:
        head = None
        for n in sizes:
            t = tensors(d, n)
            for causal in (False, True):
                runs = {**peers(t, causal, backward),
                        **ours(operators, t, causal, backward)}
                if head is None:
                    head = list(runs)
                    print(f"d {d}, bf16, {TOKENS} tokens, TFLOP/s: "
                          + " | ".join(head), flush=True)
                flops = (4 * TOKENS * (WIDTH // d * d) * n
                         * (2.5 if backward else 1) * (0.5 if causal else 1))
                if n > TOKENS:
                    flops *= n / TOKENS
                line = []
                for name, ms in medians_ms(runs, repeats).items():
                    line.append(flops / ms / 1e9)
                    rows.append({"implementation": name, "head_dim": d,
                                 "length": n, "causal": causal, "ms": ms,
                                 "tflops": line[-1]})
                print(f"  n {n:6d} {'causal' if causal else 'full  '} "
                      + " ".join(f"{x:8.0f}" for x in line), flush=True)
    return rows


def latent(operators, repeats, n=4096, heads=16, d=192, e=128):
    """The widths of latent attention, causal, beside PyTorch's; rows of
    results, prints TFLOP/s."""
    batch = max(1, TOKENS // n)

    def of(width):
        return torch.randn(batch, n, heads, width, device="cuda",
                           dtype=torch.bfloat16)

    t = {"q": of(d), "k": of(d), "v": of(e), "dout": of(e), "out": of(e),
         "dq": of(d), "dk": of(d), "dv": of(e),
         "lse": torch.empty(batch, heads, n, device="cuda")}
    call = operators.make(t, (FAR, 0, 0, 0))
    runs = {"sm80": lambda: operators.forward("cuda.sm80", call),
            "sm80 backward": lambda: operators.backward("cuda.sm80", call)}
    q, k, v = (t[name].transpose(1, 2).contiguous() for name in "qkv")

    def peer(backend):
        with sdpa_kernel(backend):
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    for name, backend in PEERS.items():
        try:
            peer(backend)
        except RuntimeError:
            continue  # it has no such widths
        runs[name] = lambda backend=backend: peer(backend)
    rows = []
    for name, ms in medians_ms(runs, repeats).items():
        flops = batch * heads * n * n * (d + e)
        if "backward" in name:
            flops *= 2.5
        rows.append({"implementation": name, "head_dim": d, "value_dim": e,
                     "length": n, "causal": True, "ms": ms,
                     "tflops": flops / ms / 1e9})
    print(f"d {d} / {e}, bf16, causal, n {n}, TFLOP/s: " + ", ".join(
        f"{row['implementation']} {row['tflops']:.0f}" for row in rows),
        flush=True)
    return rows


def copy_bandwidth(repeats):
    """Bytes read and written a second by a large copy on the device."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    ms = median_ms(lambda: target.copy_(source), repeats)
    return 2 * source.numel() * 4 / ms * 1e3


def decoding(operators, repeats, length=32768, heads=32, kv_heads=8, d=128):
    """Decoding steps with core statistics beside PyTorch's; prints the part of
    the copy's bandwidth at which keys and values are read."""
    peak = copy_bandwidth(repeats)
    print(f"copy {peak / 1e9:.0f} GB/s; decoding, {length} keys, {heads} heads "
          f"/ {kv_heads} x {d}", flush=True)
    rows = [{"implementation": "copy", "gigabytes_per_second": peak / 1e9}]
    for batch in (1, 4, 16):
        for m in (1, 8):
            # More data than the cache holds, so that none of it is found there.
            sets = [decoding_set(batch, m, length, heads, kv_heads, d)
                    for _ in range(4 if batch == 1 else 1)]
            gigabytes = 2 * batch * length * kv_heads * d * 2 / 1e9
            calls = [operators.make(t, (FAR, 0, length - m, 0)) for t in sets]
            runs = {"decode core": lambda i: operators.forward(
                "cuda.sm90", calls[i % len(calls)])}
            for name in ("flash", "cudnn"):
                runs[name] = lambda i, name=name: peer_step(
                    sets[i % len(sets)], PEERS[name])
            line = []
            for name, run in runs.items():
                turn = iter(range(1 << 30))
                try:
                    ms = median_ms(lambda: run(next(turn)), 2 * repeats)
                except RuntimeError:
                    continue  # the peer does not take the problem
                rate = gigabytes / ms * 1e3
                rows.append({"implementation": name, "batch": batch,
                             "queries": m, "length": length, "ms": ms,
                             "gigabytes_per_second": rate,
                             "of_copy": rate * 1e9 / peak})
                line.append(f"{name} {ms * 1e3:.1f} us {rate:.0f} GB/s "
                            f"{100 * rate * 1e9 / peak:.0f} %")
            print(f"  batch {batch:2d} queries {m}: " + ", ".join(line),
                  flush=True)
    return rows


def decoding_set(batch, m, length, heads, kv_heads, d):
    def normal(rows, width):
        return torch.randn(batch, rows, width, d, device="cuda",
                           dtype=torch.bfloat16)

    t = {"q": normal(m, heads), "k": normal(length, kv_heads),
         "v": normal(length, kv_heads)}
    t["out"] = torch.empty_like(t["q"])
    for name in ("lse", "entropy", "max", "distance"):
        t[name] = torch.empty(batch, heads, m, device="cuda")
    t["argmax"] = torch.empty(batch, heads, m, device="cuda",
                              dtype=torch.int32)
    return t


def peer_step(t, backend):
    """Without a mask: all but the last query see a few keys too many."""
    q, k, v = (t[n].transpose(1, 2) for n in "qkv")
    with sdpa_kernel(backend):
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
