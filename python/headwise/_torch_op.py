"""Attention as an operator of torch, torch.ops.headwise.attention: tensors
cross by DLPack, work is put on torch's current stream."""
from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils.dlpack import to_dlpack

from . import _headwise
from ._torch_observe import Sums
from ._torch_plan import Run

#: Who looks at calls of a tag; 0 is nobody's.
watchers: dict[int, Sums] = {}

_own = threading.local()


def context_of(x: torch.Tensor) -> _headwise.Context:
    """This thread's, on torch's current stream."""
    if x.device.type == "cuda":
        # 1 is CUDA's own name of the default stream.
        stream = torch.cuda.current_stream(x.device).cuda_stream or 1
        key = x.device.index, stream, 1
    elif x.device.type == "cpu":
        key = -1, 0, torch.get_num_threads()
    else:
        raise ValueError("[attention] expected tensors on cpu or cuda; found "
                         f"{x.device}")
    made = _own.__dict__.setdefault("contexts", {})
    if key not in made:
        made[key] = _headwise.Context(*key)
    return made[key]


class Part:
    """One call of the operator: runs that it takes at once."""

    def __init__(self, runs: list[Run], rows: tuple[slice, slice],
                 keys: tuple[slice, slice]) -> None:
        self.runs = runs
        self.rows, self.keys = rows, keys

    @property
    def mask(self) -> tuple[int, int, int]:
        run = self.runs[0]
        return run.before, run.after, run.offset

    def of_rows(self, x: torch.Tensor | None) -> torch.Tensor | None:
        """[B, M, …]"""
        return None if x is None else x[self.rows]

    def of_keys(self, x: torch.Tensor | None) -> torch.Tensor | None:
        return None if x is None else x[self.keys]

    def of_lse(self, x: torch.Tensor) -> torch.Tensor:
        """[B, H, M]"""
        return x[self.rows[0], :, self.rows[1]]

    def lengths(self, device: torch.device) -> dict[str, torch.Tensor]:
        ends = [run.key_end for run in self.runs]
        if len(set(ends)) == 1:
            return {}
        begin = self.runs[0].key_begin
        return {"key_lengths": torch.tensor([end - begin for end in ends],
                                            dtype=torch.int32, device=device)}


def parts_of(plan: torch.Tensor, batch: int) -> list[Part]:
    """All sequences at once where they differ in their ends alone, else one
    run at a time."""
    runs = [Run(*row) for row in plan.tolist()]
    alike = {run._replace(sequence=0, key_end=0, origin=0) for run in runs}
    if len(alike) == 1 and [run.sequence for run in runs] == list(range(batch)):
        run, end = runs[0], max(run.key_end for run in runs)
        return [Part(runs, (slice(None), slice(run.query_begin, run.query_end)),
                     (slice(None), slice(run.key_begin, end)))]
    return [Part([run],
                 (slice(run.sequence, run.sequence + 1),
                  slice(run.query_begin, run.query_end)),
                 (slice(run.sequence, run.sequence + 1),
                  slice(run.key_begin, run.key_end))) for run in runs]


def covers(parts: list[Part], queries: int) -> bool:
    """Whether one part has every query."""
    return (len(parts) == 1 and len(parts[0].runs) > 0
            and parts[0].rows[0] == slice(None)
            and parts[0].rows[1] == slice(0, queries))


def dense_last(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def capsules(tensors: dict[str, torch.Tensor | None]) -> dict[str, Any]:
    return {name: to_dlpack(x.detach()) for name, x in tensors.items()
            if x is not None}


def _inputs(part: Part, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
            sink_logits: torch.Tensor | None,
            gates: torch.Tensor | None) -> dict[str, torch.Tensor | None]:
    return {"q": part.of_rows(q), "k": part.of_keys(k), "v": part.of_keys(v),
            "sink_logits": sink_logits, "gates": part.of_rows(gates),
            **part.lengths(q.device)}


def _lse_like(q: torch.Tensor) -> torch.Tensor:
    batch, queries, heads = q.shape[:3]
    return q.new_full((batch, heads, queries), -torch.inf,
                      dtype=torch.float32)


NONE = (0, 0)
OPTIONAL = "Tensor? sink_logits, Tensor? gates, float scale, float soft_cap"
torch.library.define(
    "headwise::attention",
    f"(Tensor q, Tensor k, Tensor v, Tensor plan, {OPTIONAL}, int tag) -> "
    "(Tensor, Tensor, Tensor)")
torch.library.define(
    "headwise::attention_backward",
    "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, "
    f"Tensor plan, {OPTIONAL}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")


@torch.library.impl("headwise::attention", ("cpu", "cuda"))
def _forward(q, k, v, plan, sink_logits, gates, scale, soft_cap, tag):
    """q [B, M, H, D], k [B, N, G, D], v [B, N, G, E] → out [B, M, H, E], its
    log-sum-exp [B, H, M], and out before the gates (empty without)."""
    q, k, v = dense_last(q), dense_last(k), dense_last(v)
    batch, queries, heads = q.shape[:3]
    parts = parts_of(plan, batch)
    make = torch.empty if covers(parts, queries) else torch.zeros
    shape = batch, queries, heads, v.shape[-1]
    out = make(shape, dtype=q.dtype, device=q.device)
    ungated = make(shape if gates is not None else (0,), dtype=q.dtype,
                   device=q.device)
    lse = _lse_like(q)
    watch = watchers.get(tag)
    context = context_of(q)
    for part in parts:
        given = _inputs(part, q, k, v, sink_logits, gates)
        rows = watch.rows(part.of_lse(lse).shape, q.device) if watch else {}
        made = {"out": part.of_rows(out), "lse": part.of_lse(lse),
                "ungated": None if gates is None else part.of_rows(ungated)}
        _headwise.attention_forward(
            context, capsules({**given, **made, **rows}), part.mask,
            (scale, soft_cap), NONE)
        if watch:
            watch.add(context, part, given, made["lse"], rows,
                      (scale, soft_cap))
    return out, lse, ungated


@torch.library.register_fake("headwise::attention")
def _(q, k, v, plan, sink_logits, gates, scale, soft_cap, tag):
    batch, queries, heads = q.shape[:3]
    shape = batch, queries, heads, v.shape[-1]
    return (q.new_empty(shape),
            q.new_empty((batch, heads, queries), dtype=torch.float32),
            q.new_empty(shape if gates is not None else (0,)))


@torch.library.impl("headwise::attention_backward", ("cpu", "cuda"))
def _backward(dout, q, k, v, out, lse, plan, sink_logits, gates, scale,
              soft_cap):
    """out: before the gates, where there are any."""
    q, k, v, dout = map(dense_last, (q, k, v, dout))
    parts = parts_of(plan, q.shape[0])
    dq = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    # Runs may share keys: each adds its own.
    dk, dv = (torch.zeros(x.shape, dtype=torch.float32 if len(parts) > 1
                          else x.dtype, device=x.device) for x in (k, v))
    dsink = q.new_zeros(0 if sink_logits is None else q.shape[2],
                        dtype=torch.float32)
    dgates = q.new_zeros(q.shape[:3] if gates is not None else (0,),
                         dtype=torch.float32)
    context = context_of(q)
    for part in parts:
        to_k, to_v = part.of_keys(dk), part.of_keys(dv)
        if len(parts) > 1:
            to_k, to_v = (torch.empty(x.shape, dtype=q.dtype, device=q.device)
                          for x in (to_k, to_v))
        _headwise.attention_backward(context, capsules({
            **_inputs(part, q, k, v, sink_logits, gates),
            "out" if gates is None else "ungated": part.of_rows(out),
            "lse": part.of_lse(lse), "dout": part.of_rows(dout),
            "dq": part.of_rows(dq), "dk": to_k, "dv": to_v,
            "dgates": None if gates is None else part.of_rows(dgates),
            "dsink_logits": None if sink_logits is None else dsink,
        }), part.mask, (scale, soft_cap), NONE)
        if len(parts) > 1:
            part.of_keys(dk).add_(to_k)
            part.of_keys(dv).add_(to_v)
    return dq, dk.to(k.dtype), dv.to(v.dtype), dsink, dgates


@torch.library.register_fake("headwise::attention_backward")
def _(dout, q, k, v, out, lse, plan, sink_logits, gates, scale, soft_cap):
    full = torch.float32
    return (torch.empty_like(q, memory_format=torch.contiguous_format),
            torch.empty_like(k, memory_format=torch.contiguous_format),
            torch.empty_like(v, memory_format=torch.contiguous_format),
            q.new_empty(0 if sink_logits is None else q.shape[2], dtype=full),
            q.new_empty(q.shape[:3] if gates is not None else (0,),
                        dtype=full))


def _keep(ctx, inputs, output):
    q, k, v, plan, sink_logits, gates, ctx.scale, ctx.soft_cap, _ = inputs
    out, lse, ungated = output
    ctx.mark_non_differentiable(lse, ungated)
    ctx.save_for_backward(q, k, v, ungated if gates is not None else out, lse,
                          plan, sink_logits, gates)


def _differentiate(ctx, dout, *_):
    q, k, v, out, lse, plan, sink_logits, gates = ctx.saved_tensors
    dq, dk, dv, dsink, dgates = torch.ops.headwise.attention_backward(
        dout, q, k, v, out, lse, plan, sink_logits, gates, ctx.scale,
        ctx.soft_cap)
    return (dq, dk, dv, None, dsink if sink_logits is not None else None,
            dgates if gates is not None else None, None, None, None)


torch.library.register_autograd("headwise::attention", _differentiate,
                                setup_context=_keep)
