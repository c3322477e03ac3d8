"""Attention as an operator of torch, torch.ops.headwise.attention: tensors
cross by DLPack, work is put on torch's current stream."""
from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils.dlpack import to_dlpack

from . import _headwise
from ._torch_call import Part, covers, parts_of
from ._torch_observe import Sums
from ._torch_plan import band_plan, plan_of_dense, plan_of_found

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


def part_of_all(part: Part, k: torch.Tensor) -> bool:
    """Whether a call has every key of k."""
    return part.of_keys(k[:, :, :1, :1]).numel() == k.shape[0] * k.shape[1]


def dense_last(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def as_run(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """As the fast kernels take them: f32 on the CPU."""
    kind = torch.float32 if tensors[0].device.type == "cpu" \
        else tensors[0].dtype
    return [dense_last(x.to(kind)) for x in tensors]


def capsules(tensors: dict[str, torch.Tensor | None]) -> dict[str, Any]:
    return {name: to_dlpack(x.detach()) for name, x in tensors.items()
            if x is not None}


def _inputs(part: Part, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
            sink_logits: torch.Tensor | None,
            gates: torch.Tensor | None) -> dict[str, torch.Tensor | None]:
    return {"q": part.of_rows(q), "k": part.of_keys(k), "v": part.of_keys(v),
            "sink_logits": sink_logits, "gates": part.of_rows(gates),
            **part.of_device(q.device)}


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
    kind = q.dtype
    q, k, v = as_run(q, k, v)
    batch, queries, heads = q.shape[:3]
    watch = watchers.get(tag)
    parts = parts_of(plan, q, k, watch is not None)
    whole = covers(parts, queries)
    make = torch.empty if whole else torch.zeros
    shape = batch, queries, heads, v.shape[-1]
    out = make(shape, dtype=q.dtype, device=q.device)
    ungated = make(shape if gates is not None else (0,), dtype=q.dtype,
                   device=q.device)
    lse = torch.empty((batch, heads, queries), device=q.device)
    if not whole:
        lse.fill_(-torch.inf)
    context = context_of(q)
    for part in parts:
        given = _inputs(part, q, k, v, sink_logits, gates)
        to_lse = part.of_lse(lse)
        more, planes = watch.rows(part, to_lse) if watch else ({}, None)
        made = {"out": part.of_rows(out), "lse": to_lse,
                "ungated": None if gates is None else part.of_rows(ungated)}
        numbers = part.mask, (scale, soft_cap), part.longest
        _headwise.attention_forward(
            context, capsules({**given, **made, **more}), *numbers)
        part.put_lse(lse, to_lse)
        if watch:
            watch.add(part, more, planes, lambda reach, mass, first: (
                _headwise.attention_band(context, capsules(
                    {**given, "gates": None, "lse": to_lse, "mass": mass,
                     "first": first}), *numbers, reach, reach)))
    return out.to(kind), lse, ungated.to(kind)


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
    kind = q.dtype
    q, k, v, dout, out = as_run(q, k, v, dout, out)
    parts = parts_of(plan, q, k)
    several = len(parts) > 1
    make = torch.empty if covers(parts, q.shape[1]) else torch.zeros
    dq = make(q.shape, dtype=q.dtype, device=q.device)
    # Keys that no call has stay 0; calls that share keys add up.
    alone = covers(parts, q.shape[1]) and part_of_all(parts[0], k)
    make_keys = torch.empty if alone else torch.zeros
    dk, dv = (make_keys(x.shape, dtype=torch.float32 if several else x.dtype,
                        device=x.device) for x in (k, v))
    dsink = q.new_zeros(0 if sink_logits is None else q.shape[2],
                        dtype=torch.float32)
    dgates = q.new_zeros(q.shape[:3] if gates is not None else (0,),
                         dtype=torch.float32)
    context = context_of(q)
    for part in parts:
        to_k, to_v = part.of_keys(dk), part.of_keys(dv)
        if several:
            to_k, to_v = (torch.empty(x.shape, dtype=q.dtype, device=q.device)
                          for x in (to_k, to_v))
        _headwise.attention_backward(context, capsules({
            **_inputs(part, q, k, v, sink_logits, gates),
            "out" if gates is None else "ungated": part.of_rows(out),
            "lse": part.of_lse(lse), "dout": part.of_rows(dout),
            "dq": part.of_rows(dq), "dk": to_k, "dv": to_v,
            "dgates": None if gates is None else part.of_rows(dgates),
            "dsink_logits": None if sink_logits is None else dsink,
        }), part.mask, (scale, soft_cap), part.longest)
        if several:
            part.of_keys(dk).add_(to_k)
            part.of_keys(dv).add_(to_v)
    return dq.to(kind), dk.to(kind), dv.to(kind), dsink, dgates


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


# ---- Plans within a graph of torch.compile.

torch.library.define(
    "headwise::band_plan",
    "(SymInt batch, SymInt queries, SymInt keys, int before, int after) -> "
    "Tensor")
torch.library.define("headwise::mask_plan",
                     "(Tensor mask, SymInt batch) -> Tensor")
torch.library.define(
    "headwise::range_plan",
    "(Tensor low, Tensor high, Tensor place, Tensor? keep) -> Tensor")


def _some_runs() -> torch.Tensor:
    return torch.empty((torch.library.get_ctx().new_dynamic_size(), 9),
                       dtype=torch.int64, device="cpu")


@torch.library.impl("headwise::band_plan", "CompositeExplicitAutograd")
def _band_plan(batch, queries, keys, before, after):
    return band_plan(batch, queries, keys, before, after, 0)


@torch.library.register_fake("headwise::band_plan")
def _(batch, queries, keys, before, after):
    return torch.empty((batch, 9), dtype=torch.int64, device="cpu")


@torch.library.impl("headwise::mask_plan", ("cpu", "cuda"))
def _mask_plan(mask, batch):
    """Kept on the mask for the layers that follow."""
    version = None if mask.is_inference() else mask._version
    kept = getattr(mask, "_headwise_plan", None)
    if kept is None or kept[0] != version or version is None:
        kept = version, plan_of_dense(mask.expand(batch, *mask.shape[1:]))
        mask._headwise_plan = kept
    return kept[1]


@torch.library.register_fake("headwise::mask_plan")
def _(mask, batch):
    return _some_runs()


@torch.library.impl("headwise::range_plan", ("cpu", "cuda"))
def _range_plan(low, high, place, keep):
    return plan_of_found(*(x.cpu().numpy() for x in (low, high, place)), keep)


@torch.library.register_fake("headwise::range_plan")
def _(low, high, place, keep):
    return _some_runs()
