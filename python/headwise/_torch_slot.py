"""The functions that transformers calls by the name "headwise": one of masks,
one of attention."""
from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask

from . import _torch_op  # noqa: F401: registers the operator
from ._torch_plan import (Known, Unsupported, band_plan, found_ranges,
                          plan_of_function)

#: Arguments of a model's attention that change what it computes.
FOREIGN = ("position_bias", "attention_bias", "head_mask", "indices",
           "block_indices")


TYPES = (torch.float32, torch.bfloat16, torch.float16)


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

    def dense(self) -> torch.Tensor:
        """bool [B, 1, M, N]: True where a key is seen."""
        batch, _, queries, keys = self.sizes
        seen = torch.zeros(batch, 1, queries, keys, dtype=torch.bool,
                           device="cpu")
        for b, begin, end, low, high, before, after, offset, _ in \
                self.plan.tolist():
            place = offset + torch.arange(end - begin, device="cpu")[:, None]
            key = torch.arange(high - low, device="cpu")
            part = torch.ones_like(seen[b, 0, begin:end, low:high])
            if before >= 0:
                part &= key >= place - before
            if after >= 0:
                part &= key <= place + after
            seen[b, 0, begin:end, low:high] = part
        return seen


@functools.lru_cache(maxsize=64)
def _kept_band(batch: int, queries: int, keys: int, after: int
               ) -> torch.Tensor:
    return band_plan(batch, queries, keys, -1, after, 0)


def _band(batch: int, queries: int, keys: int, after: int) -> torch.Tensor:
    if torch.compiler.is_compiling():
        return torch.ops.headwise.band_plan(batch, queries, keys, -1, after)
    return _kept_band(batch, queries, keys, after)


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
        return _band(batch, queries, keys, after)
    if not isinstance(mask, Mask) and mask.dtype == torch.int64 \
            and mask.ndim == 2:
        return mask                              # the plan of a graph
    if tuple(mask.shape[-2:]) != (queries, keys):
        raise Unsupported("mask", f"{queries} × {keys}, as queries and keys",
                          f"{mask.shape[-2]} × {mask.shape[-1]}")
    if isinstance(mask, Mask):
        return mask.plan
    return torch.ops.headwise.mask_plan(mask, batch)


def _refuse(q: torch.Tensor, dropout: float,
            found: Mapping[str, Any]) -> None:
    if q.dtype not in TYPES:
        raise Unsupported("type", "float32, bfloat16 or float16",
                          str(q.dtype).removeprefix("torch."))
    if dropout > 0:
        raise Unsupported("dropout", "0 (attention_dropout of the "
                          "configuration)", str(dropout))
    for name in FOREIGN:
        if found.get(name) is not None:
            raise Unsupported(name, "none", "one")
    if found.get("output_attentions"):
        raise Unsupported("output_attentions", "False", "True")


class Slot:
    """Both functions; fallback: sdpa runs what is not supported."""

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

    def mask(self, *sizes: Any, **given: Any) -> Any:
        """Structure: of a graph of torch.compile the plan itself."""
        if torch.compiler.is_compiling():
            return self._in_graph(*sizes, **given)
        return self._structure(*sizes, **given)

    def _in_graph(self, batch_size: int, q_length: int, kv_length: int,
                  q_offset: Any = 0, kv_offset: Any = 0, *,
                  mask_function: Any,
                  attention_mask: torch.Tensor | None = None,
                  use_vmap: bool = False, device: Any = "cpu",
                  **more: Any) -> Any:
        if use_vmap:  # a function of the user's own
            return self.dense_mask(
                batch_size=batch_size, q_length=q_length, kv_length=kv_length,
                q_offset=q_offset, kv_offset=kv_offset,
                mask_function=mask_function, attention_mask=attention_mask,
                use_vmap=use_vmap, device=device,
                **{**more, "allow_is_causal_skip": False})
        keep = attention_mask
        if keep is not None:
            missing = kv_length + kv_offset - keep.shape[-1]
            if missing > 0:
                keep = torch.nn.functional.pad(keep, (0, missing))
            keep = keep[:, kv_offset:kv_offset + kv_length]
        return torch.ops.headwise.range_plan(*found_ranges(
            mask_function, batch_size, q_length, kv_length, q_offset,
            kv_offset, device), keep)

    def _structure(self, batch_size: int, q_length: int, kv_length: int,
                   q_offset: Any = 0, kv_offset: Any = 0, *,
                   mask_function: Any,
                   attention_mask: torch.Tensor | None = None,
                   use_vmap: bool = False, device: Any = "cpu",
                   **more: Any) -> Any:
        try:
            plan = plan_of_function(
                self.known, self.dense_mask, batch_size, q_length, kv_length,
                int(q_offset), int(kv_offset), mask_function, attention_mask,
                use_vmap=use_vmap, device=device)
        except Unsupported as error:
            self._fall_back(error)
            return self.dense_mask(
                batch_size=batch_size, q_length=q_length, kv_length=kv_length,
                q_offset=q_offset, kv_offset=kv_offset,
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
            _refuse(query, dropout, more)
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
        out, _, _ = torch.ops.headwise.attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2),
            plan, None if s_aux is None else s_aux.reshape(-1).float(), gates,
            float(scaling or 0), float(softcap or 0),
            getattr(module, "headwise_tag", 0))
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
            mask = mask.dense().to(query.device)
        return self.sdpa(module, query, key, value, mask, dropout=dropout,
                         scaling=scaling, is_causal=is_causal, **more)
