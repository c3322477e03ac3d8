"""Hugging Face models on this library's attention, which counts what every
head does while it runs.

    import headwise.torch
    headwise.torch.register()
    model = AutoModelForCausalLM.from_pretrained(
        name, attn_implementation="headwise")
    with headwise.torch.observe(model) as seen:
        model(**inputs)
    seen.profile()["entropy"]           # [layers, heads]
    with headwise.torch.gates(model, [(5, 1)]):
        model(**inputs)
"""
from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask

from . import _torch_op  # registers the operator
from ._inputs import Head
from ._profile import Profile
from ._torch_observe import Sums, profile_of
from ._torch_plan import (Known, Unsupported, band_plan, plan_of_dense,
                          plan_of_function)

__all__ = ["Mask", "Unsupported", "attention", "gates", "observe",
           "register"]

#: Arguments of a model's attention that change what it computes.
FOREIGN = ("position_bias", "attention_bias", "head_mask", "indices",
           "block_indices")


class Mask(BlockMask):
    """Which keys queries see, as structure. transformers hands on what has
    this type as it is; any other use of it is an error."""

    def __init__(self, plan: torch.Tensor, shape: tuple[int, ...]) -> None:
        self.plan = plan
        self.sizes = shape

    @property
    def shape(self) -> tuple[int, ...]:
        return self.sizes

    @property
    def ndim(self) -> int:
        return len(self.sizes)

    def to(self, *_: Any, **__: Any) -> Mask:
        return self

    def __getitem__(self, index: Any) -> Any:
        raise Unsupported("mask", "a model that hands its mask on",
                          "one that cuts it")

    def __repr__(self) -> str:
        return f"Mask({list(self.sizes)}, {len(self.plan)} runs)"


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
              plan: torch.Tensor, *, scale: float | None = None,
              soft_cap: float = 0.0, sink_logits: torch.Tensor | None = None,
              gates: torch.Tensor | None = None, tag: int = 0
              ) -> torch.Tensor:
    """q [B, M, H, D], k [B, N, G, D] and v [B, N, G, E] to [B, M, H, E]; gates
    [B, M, H]. All but the plan may be differentiated."""
    out, _, _ = torch.ops.headwise.attention(
        q, k, v, plan, sink_logits, gates, float(scale or 0), float(soft_cap),
        tag)
    return out


@torch.compiler.disable
def _dense(mask: torch.Tensor, batch: int) -> torch.Tensor:
    """The plan of a dense mask, kept on the mask for the layers that follow."""
    version = None if mask.is_inference() else mask._version
    kept = getattr(mask, "_headwise_plan", None)
    if kept is None or kept[0] != version or version is None:
        kept = version, plan_of_dense(mask.expand(batch, *mask.shape[1:]))
        mask._headwise_plan = kept
    return kept[1]


def _plan(module: torch.nn.Module, q: torch.Tensor, k: torch.Tensor,
          mask: Any, is_causal: bool | None, window: int | None
          ) -> torch.Tensor:
    """q, k: [B, H, M, D], [B, G, N, D]."""
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    if mask is None:
        # What sdpa makes of none.
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        after = 0 if is_causal and queries > 1 else -1
        if window is not None and keys > window:
            raise Unsupported("mask", f"a mask for its window of {window}",
                              "none")
        return band_plan(batch, queries, keys, -1, after, 0)
    if tuple(mask.shape[-2:]) != (queries, keys):
        raise Unsupported("mask", f"{queries} × {keys}, as queries and keys",
                          f"{mask.shape[-2]} × {mask.shape[-1]}")
    if isinstance(mask, Mask):
        return mask.plan
    return _dense(mask, batch)


def _refuse(dropout: float, found: Mapping[str, Any]) -> None:
    if dropout > 0:
        raise Unsupported("dropout", "0 (attention_dropout of the "
                          "configuration)", str(dropout))
    for name in FOREIGN:
        if found.get(name) is not None:
            raise Unsupported(name, "none", "one")
    if found.get("output_attentions"):
        raise Unsupported("output_attentions", "False", "True")


class _Slot:
    """What transformers calls by the name "headwise"."""

    def __init__(self, fallback: bool) -> None:
        from transformers import masking_utils
        from transformers.integrations import sdpa_attention
        self.fallback = fallback
        self.known = Known()
        self.dense_mask = masking_utils.sdpa_mask
        self.sdpa = sdpa_attention.sdpa_attention_forward

    def _fall_back(self, error: Unsupported) -> None:
        if not self.fallback:
            raise error
        warnings.warn(f"sdpa runs instead: {error}", stacklevel=3)

    @torch.compiler.disable
    def mask(self, batch_size: int, q_length: int, kv_length: int,
             q_offset: Any = 0, kv_offset: Any = 0, *, mask_function: Any,
             attention_mask: torch.Tensor | None = None,
             use_vmap: bool = False, device: Any = "cpu",
             **more: Any) -> Any:
        sizes = dict(batch_size=batch_size, q_length=q_length,
                     kv_length=kv_length)
        try:
            plan = plan_of_function(
                self.known, self.dense_mask, batch_size, q_length, kv_length,
                int(q_offset), int(kv_offset), mask_function, attention_mask,
                use_vmap=use_vmap, device=device)
        except Unsupported as error:
            self._fall_back(error)
            return self.dense_mask(
                **sizes, q_offset=q_offset, kv_offset=kv_offset,
                mask_function=mask_function, attention_mask=attention_mask,
                use_vmap=use_vmap, device=device,
                **{**more, "allow_is_causal_skip": False})
        return Mask(plan, (batch_size, 1, q_length, kv_length))

    def attention(self, module: torch.nn.Module, query: torch.Tensor,
                  key: torch.Tensor, value: torch.Tensor, attention_mask: Any,
                  dropout: float = 0.0, scaling: float | None = None,
                  is_causal: bool | None = None, softcap: float | None = None,
                  s_aux: torch.Tensor | None = None,
                  sliding_window: int | None = None, **more: Any
                  ) -> tuple[torch.Tensor, None]:
        try:
            _refuse(dropout, more)
            plan = _plan(module, query, key, attention_mask, is_causal,
                         sliding_window)
        except Unsupported as error:
            self._fall_back(error)
            return self._run_sdpa(module, query, key, value, attention_mask,
                                  dropout, scaling, is_causal, softcap, s_aux,
                                  error, more)
        gates = getattr(module, "headwise_gates", None)
        if gates is not None:
            gates = gates.to(query.device).expand(
                query.shape[0], query.shape[2], query.shape[1])
        if torch.is_autocast_enabled(query.device.type):
            kind = torch.get_autocast_dtype(query.device.type)
            query, key, value = (x.to(kind) for x in (query, key, value))
        out = attention(
            *(x.transpose(1, 2) for x in (query, key, value)), plan,
            scale=scaling, soft_cap=softcap or 0.0, gates=gates,
            sink_logits=None if s_aux is None else s_aux.reshape(-1).float(),
            tag=getattr(module, "headwise_tag", 0))
        return out, None

    def _run_sdpa(self, module: torch.nn.Module, query: torch.Tensor,
                  key: torch.Tensor, value: torch.Tensor, mask: Any,
                  dropout: float, scaling: float | None,
                  is_causal: bool | None, softcap: float | None,
                  s_aux: torch.Tensor | None, error: Unsupported,
                  more: Mapping[str, Any]) -> tuple[torch.Tensor, None]:
        """sdpa has neither caps, sinks nor gates: they would be lost."""
        gates = getattr(module, "headwise_gates", None)
        if softcap or s_aux is not None or gates is not None:
            raise error
        if isinstance(mask, Mask):
            mask = _seen(mask).to(query.device)
        return self.sdpa(module, query, key, value, mask, dropout=dropout,
                         scaling=scaling, is_causal=is_causal, **more)


def _seen(mask: Mask) -> torch.Tensor:
    """The dense mask, bool [B, 1, M, N], of a plan."""
    batch, _, queries, keys = mask.sizes
    seen = torch.zeros(batch, 1, queries, keys, dtype=torch.bool)
    for b, begin, end, low, high, before, after, offset, _ in \
            mask.plan.tolist():
        place = offset + torch.arange(end - begin)[:, None]
        key = torch.arange(high - low)
        part = torch.ones(end - begin, high - low, dtype=torch.bool)
        if before >= 0:
            part &= key >= place - before
        if after >= 0:
            part &= key <= place + after
        seen[b, 0, begin:end, low:high] = part
    return seen


def register(*, fallback: bool = False) -> None:
    """Makes attn_implementation="headwise" known to transformers. What is not
    supported is an error that names it (Unsupported); fallback: a warning, and
    sdpa runs that call."""
    from transformers import AttentionInterface, AttentionMaskInterface
    slot = _Slot(fallback)
    AttentionInterface.register("headwise", slot.attention)
    AttentionMaskInterface.register("headwise", slot.mask)


def attention_modules(model: torch.nn.Module) -> dict[int, torch.nn.Module]:
    """The modules of a decoder-only model that attend, by layer."""
    found: dict[int, torch.nn.Module] = {}
    for name, module in model.named_modules():
        layer = getattr(module, "layer_idx", None)
        if not isinstance(layer, int) or \
                not type(module).__name__.endswith("Attention"):
            continue
        if layer in found:
            raise Unsupported("model", "one attention a layer",
                              f"{name} beside another of layer {layer}")
        found[layer] = module
    if not found:
        raise Unsupported("model", "attention with a layer_idx", "none")
    return found


def _heads_of(module: torch.nn.Module) -> int:
    count = getattr(module, "num_heads", None)
    return count or module.config.num_attention_heads


@contextmanager
def gates(model: torch.nn.Module,
          closed: Sequence[Head | tuple[int, int]] = (), *,
          gate: Mapping[tuple[int, int], float] = {}) -> Iterator[None]:
    """Closes heads while it lasts, or lets a part of each through:
    gate={(5, 1): 0.5}."""
    modules = attention_modules(model)
    wanted = {**{tuple(head)[:2]: 0.0 for head in closed}, **gate}
    made: dict[int, torch.Tensor] = {}
    for (layer, head), share in wanted.items():
        if layer not in modules or not 0 <= head < _heads_of(modules[layer]):
            raise ValueError(f"[head] expected a head of the model; found "
                             f"{layer}.{head}")
        row = made.setdefault(layer, torch.ones(_heads_of(modules[layer])))
        row[head] = share
    before = {layer: getattr(modules[layer], "headwise_gates", None)
              for layer in made}
    try:
        for layer, row in made.items():
            other = before[layer]
            modules[layer].headwise_gates = row if other is None \
                else row * other
        yield
    finally:
        for layer, row in before.items():
            modules[layer].headwise_gates = row


class Seen:
    """What heads did so far."""

    def __init__(self, model: torch.nn.Module, least: int) -> None:
        self._model, self._least = model, least
        self._heads = {layer: _heads_of(module) for layer, module in
                       attention_modules(model).items()}
        self._layers = {layer: Sums(least) for layer in self._heads}

    def profile(self) -> Profile:
        """Core metrics of every head, each call's sequences as windows."""
        return profile_of(self._model, self._layers, self._heads, self._least)


_tags = itertools.count(1)


@contextmanager
def observe(model: torch.nn.Module, metrics: str = "core", *,
            min_visible: int = 8) -> Iterator[Seen]:
    """Adds up what every head does in the calls of a model while it lasts.
    Rows that see fewer keys than min_visible do not count."""
    if metrics != "core":
        raise ValueError(f"[metrics] expected core; found {metrics}")
    seen = Seen(model, min_visible)
    modules = attention_modules(model)
    tags = {layer: next(_tags) for layer in modules}
    try:
        for layer, module in modules.items():
            _torch_op.watchers[tags[layer]] = seen._layers[layer]
            module.headwise_tag = tags[layer]
        yield seen
    finally:
        for layer, module in modules.items():
            module.headwise_tag = 0
            del _torch_op.watchers[tags[layer]]
