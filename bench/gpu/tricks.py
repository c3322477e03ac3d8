"""What stock PyTorch offers for the same numbers: FlexAttention, attention with
the matrix in memory, and statistics by further calls of its fast kernels."""
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from timing import TOKENS, WIDTH, median_ms, ours, tensors


def flex(q, k, v, causal):
    from torch.nn.attention.flex_attention import (create_block_mask,
                                                   flex_attention)
    torch.compiler.reset()  # it keeps eight shapes, then runs uncompiled
    run = torch.compile(flex_attention, dynamic=False)
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None,
                                 q.shape[2], k.shape[2], device="cuda")
    return lambda: run(q, k, v, block_mask=mask, return_lse=True)


def eager(q, k, v, causal):
    """Output, entropy, maximum and expected distance from the whole matrix."""
    n = q.shape[2]
    i = torch.arange(n, device="cuda")
    far = (i[:, None] - i).abs().to(q.dtype)

    def run():
        s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            s = s.masked_fill(i[:, None] < i, float("-inf"))
        a = s.float().softmax(-1)
        entropy = -torch.special.xlogy(a, a).sum(-1)
        return a.to(v.dtype) @ v, entropy, a.max(-1), (a * far).sum(-1)
    return run


def second_call(q, k, v, causal):
    """Entropy from a second call with V := K: H = LSE - scale <q, sum A k>; the
    LSE as the first call returns it."""
    aten = torch.ops.aten._scaled_dot_product_flash_attention

    def run():
        out, lse = aten(q, k, v, is_causal=causal)[:2]
        mean_key = aten(q, k, k, is_causal=causal)[0]
        return out, lse - (q * mean_key).sum(-1) / math.sqrt(q.shape[-1])
    return run


def more_columns(q, k, v, causal):
    """Expected position as one more column of V; heads grow by 8 columns, since
    the kernel takes one size for all three."""
    position = torch.arange(q.shape[2], device="cuda",
                            dtype=q.dtype)[None, None, :, None]
    scale = 1 / math.sqrt(q.shape[-1])
    wider = [F.pad(x, (0, 8)) for x in (q, k, v)]
    wider[2][..., -8:-7] = position

    def run():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(*wider, is_causal=causal,
                                                  scale=scale)
    return run


def measure_tricks(operators, repeats, sizes=(2048, 8192)):
    """Rows of results; prints milliseconds. Peers that cannot run are left
    out."""
    rows = []
    for d in (64, 128):
        for n in sizes:
            t = tensors(d, n)
            q, k, v = (t[name].transpose(1, 2).contiguous() for name in "qkv")
            for causal in (False, True):
                mine = ours(operators, t, causal, False)
                runs = {"sm90 core": mine["sm90 core"],
                        "sm90 full": mine["sm90 full"]}
                makers = {"flex": flex, "V := K too": second_call,
                          "more columns": more_columns}
                if n <= 2048:
                    makers["eager, core"] = eager
                line = []
                for name, make in {**runs, **makers}.items():
                    try:
                        run = make if name in runs else make(q, k, v, causal)
                        ms = median_ms(run, repeats)
                    except Exception as error:  # noqa: BLE001 - a peer's own
                        line.append(f"{name}: {type(error).__name__}")
                        continue
                    flops = 4 * TOKENS * WIDTH * n * (0.5 if causal else 1)
                    rows.append({"implementation": name, "head_dim": d,
                                 "length": n, "causal": causal, "ms": ms,
                                 "tflops": flops / ms / 1e9,
                                 "table": "tricks"})
                    line.append(f"{name} {ms:.2f} ms")
                print(f"  d {d} n {n} {'causal' if causal else 'full'}: "
                      + ", ".join(line), flush=True)
    return rows
