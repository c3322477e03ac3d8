#!/usr/bin/env python3
"""Makes src/headwise/ops/attention/testdata/torch_goldens.txt with PyTorch.

Each case is a small attention problem computed in float64: the output by
torch.nn.functional.scaled_dot_product_attention where it can express the
problem (else by the formula), everything else by autograd. The file is plain
text: a line of names and sizes, then one line per tensor. The test that reads
it is src/headwise/ops/attention/torch_golden_test.cc.

    python3 tools/make_attention_goldens.py [FILE]
"""
import math
import os
import sys

import torch

DEFAULT = os.path.join(
    os.path.dirname(__file__), "..", "src", "headwise", "ops", "attention",
    "testdata", "torch_goldens.txt")

CASES = [
    dict(name="plain", batch=2, heads=2, queries=5, keys=6, dim=4),
    dict(name="causal_grouped", heads=4, kv_heads=2, queries=4, keys=7, dim=4,
         after=0, offset=3),
    dict(name="window_sinks_relative", heads=2, queries=8, keys=8, dim=3,
         before=2, after=0, sinks=1, reach=3),
    dict(name="alibi_multi_query", heads=3, kv_heads=1, queries=6, keys=6,
         dim=4, value_dim=2, scale=0.75, alibi=True),
    dict(name="ragged", batch=3, heads=2, queries=4, keys=5, dim=4,
         lengths=[5, 1, 3]),
    dict(name="capped_gated_entropy", heads=2, kv_heads=1, queries=5, keys=5,
         dim=4, after=1, soft_cap=1.5, gates=True, dentropy=True),
    dict(name="sink_logits_window_grouped", batch=2, heads=4, kv_heads=2,
         queries=5, keys=7, dim=6, value_dim=4, before=3, after=0, offset=2,
         sink_logits=True),
    dict(name="sink_logits_gated_entropy_relative", heads=3, kv_heads=1,
         queries=6, keys=6, dim=3, value_dim=5, after=0, reach=2,
         soft_cap=2.5, gates=True, dentropy=True, sink_logits=True),
]


def dyadic(generator, *shape, step=1 / 32, bound=2.0):
    """Random multiples of `step`: exact in f32 and short in decimal."""
    n = int(bound / step)
    values = torch.randint(-n, n + 1, shape, generator=generator)
    return (values * step).double()


class Case:
    def __init__(self, name, queries, keys, dim, batch=1, heads=1,
                 kv_heads=None, value_dim=None, before=None, after=None,
                 offset=0, sinks=0, reach=None, alibi=False, scale=None,
                 soft_cap=0.0, gates=False, dentropy=False, lengths=None,
                 sink_logits=False):
        self.name = name
        self.batch, self.heads = batch, heads
        self.kv_heads = kv_heads or heads
        self.queries, self.keys, self.dim = queries, keys, dim
        self.value_dim = value_dim or dim
        self.before = before if before is not None else -1
        self.after = after if after is not None else -1
        self.offset, self.sinks, self.reach = offset, sinks, reach
        self.alibi, self.soft_cap = alibi, soft_cap
        self.scale = scale or 1 / math.sqrt(dim)
        self.explicit_scale = scale or 0
        self.lengths = lengths
        generator = torch.Generator().manual_seed(len(name))
        b, m, n = batch, queries, keys
        self.tensors = {
            "q": dyadic(generator, b, m, heads, dim),
            "k": dyadic(generator, b, n, self.kv_heads, dim),
            "v": dyadic(generator, b, n, self.kv_heads, self.value_dim),
        }
        self.dout = dyadic(generator, b, m, heads, self.value_dim)
        if reach is not None:
            self.tensors["table"] = dyadic(generator, heads, 2 * reach + 1)
        if alibi:
            self.slopes = torch.tensor([2.0**-(h + 1) for h in range(heads)],
                                       dtype=torch.float64)
        if gates:
            gate = dyadic(generator, b, m, heads, bound=1.0).abs()
            gate[:, 0] = 0  # the gradient at a closed gate, too
            self.tensors["gates"] = gate
            self.replacement = dyadic(generator, b, m, heads, self.value_dim)
        if dentropy:
            self.dentropy = dyadic(generator, b, heads, m)
        if sink_logits:
            self.tensors["sink_logits"] = dyadic(generator, heads)
        for tensor in self.tensors.values():
            tensor.requires_grad_()

    def position(self):
        p = torch.arange(self.queries)[:, None] + self.offset
        return p, torch.arange(self.keys)[None, :]

    def visible(self):
        """[B, 1, M, N] of booleans."""
        p, j = self.position()
        seen = torch.ones(self.queries, self.keys, dtype=torch.bool)
        if self.after >= 0:
            seen &= j <= p + self.after
        if self.before >= 0:
            seen &= (j >= p - self.before) | (j < self.sinks)
        seen = seen.expand(self.batch, 1, -1, -1)
        if self.lengths:
            length = torch.tensor(self.lengths)[:, None, None, None]
            seen = seen & (j < length)
        return seen

    def bias(self):
        """[H, M, N]."""
        p, j = self.position()
        bias = torch.zeros(self.heads, self.queries, self.keys,
                           dtype=torch.float64)
        if self.alibi:
            bias = bias - self.slopes[:, None, None] * (p - j).abs()
        if self.reach is not None:
            index = (j - p).clamp(-self.reach, self.reach) + self.reach
            bias = bias + self.tensors["table"][:, index]
        return bias

    def run(self):
        """Output, lse and entropy, differentiable."""
        q, k, v = (self.tensors[n].transpose(1, 2) for n in "qkv")
        group = self.heads // self.kv_heads
        k = k.repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        z = self.scale * q @ k.transpose(-1, -2)
        if self.soft_cap:
            z = self.soft_cap * torch.tanh(z / self.soft_cap)
        mask = self.bias().masked_fill(~self.visible(), -math.inf)
        z = z + mask
        if "sink_logits" in self.tensors:
            sink = self.tensors["sink_logits"][None, :, None, None]
            with_sink = torch.cat([z, sink.expand(*z.shape[:-1], 1)], dim=-1)
            lse = torch.logsumexp(with_sink, dim=-1)
        else:
            lse = torch.logsumexp(z, dim=-1)
        log_a = z - lse[..., None]
        entropy = -(log_a.exp() * log_a.masked_fill(~self.visible(), 0)).sum(-1)
        if self.soft_cap or "sink_logits" in self.tensors:
            out = log_a.exp() @ v
        else:
            out = torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, scale=self.scale)
        out = out.transpose(1, 2)
        if "gates" in self.tensors:
            g = self.tensors["gates"][..., None]
            out = g * out + (1 - g) * self.replacement
        return out, lse, entropy

    def write(self, file):
        out, lse, entropy = self.run()
        loss = (out * self.dout).sum()
        if hasattr(self, "dentropy"):
            loss = loss + (entropy * self.dentropy).sum()
        loss.backward()
        header = dict(
            batch=self.batch, heads=self.heads, kv_heads=self.kv_heads,
            queries=self.queries, keys=self.keys, dim=self.dim,
            value_dim=self.value_dim, before=self.before, after=self.after,
            offset=self.offset, sinks=self.sinks,
            reach=-1 if self.reach is None else self.reach,
            alibi=int(self.alibi), scale=self.explicit_scale,
            soft_cap=self.soft_cap)
        file.write(f"case {self.name} " + " ".join(
            f"{key} {value:g}" for key, value in header.items()) + " end\n")
        tensors = dict(self.tensors, dout=self.dout, out=out, lse=lse,
                       entropy=entropy)
        tensors |= {"d" + n: t.grad for n, t in self.tensors.items()}
        if self.alibi:
            tensors["slopes"] = self.slopes
        if hasattr(self, "replacement"):
            tensors["replacement"] = self.replacement
        if hasattr(self, "dentropy"):
            tensors["dentropy"] = self.dentropy
        if self.lengths:
            tensors["key_lengths"] = torch.tensor(self.lengths)
        for name, tensor in tensors.items():
            values = " ".join(f"{x:.9g}" for x in tensor.flatten().tolist())
            file.write(f"{name} {tensor.numel()} {values}\n")


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else DEFAULT
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"torch {torch.__version__}\n")
        for case in CASES:
            Case(**case).write(file)


if __name__ == "__main__":
    main()
