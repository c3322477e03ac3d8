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

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from . import _torch_op
from ._inputs import Head
from ._profile import Profile
from ._torch_observe import Sums, Tokens, profile_of
from ._torch_plan import Unsupported
from ._torch_slot import Mask, Slot

__all__ = ["Mask", "Unsupported", "attention", "gates", "observe",
           "register"]

#: Random repeats: tokens of a period, its copies, sequences at a time.
PERIOD, COPIES, TOGETHER = 25, 4, 8


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


def register(*, fallback: bool = False) -> None:
    """Makes attn_implementation="headwise" known to transformers. What is not
    supported is an error that names it (Unsupported); fallback: a warning, and
    sdpa runs that call."""
    from transformers import AttentionInterface, AttentionMaskInterface
    slot = Slot(fallback)
    AttentionInterface.register("headwise", slot.attention)
    AttentionMaskInterface.register("headwise", slot.mask)


class Site(NamedTuple):
    """Which attention of a model."""
    kind: str
    layer: int


def attention_modules(model: torch.nn.Module) -> dict[Site, torch.nn.Module]:
    """The modules that attend, in the model's order."""
    found: dict[Site, torch.nn.Module] = {}
    pair = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    for name, module in model.named_modules():
        if not type(module).__name__.endswith("Attention") or \
                not hasattr(module, "is_causal"):
            continue
        words = name.lower()
        kind = "cross" if "cross" in words or "encoder_attn" in words else \
            "decoder" if pair and "decoder" in words else "self"
        site = Site(kind, sum(one.kind == kind for one in found))
        layer = getattr(module, "layer_idx", None)
        if isinstance(layer, int) and layer != site.layer:
            raise Unsupported("model", f"layer {site.layer} at {name}",
                              f"layer {layer}")
        found[site] = module
    if not found:
        raise Unsupported("model", "modules …Attention with is_causal, as "
                          "those of transformers have", "none")
    return found


def _heads_of(module: torch.nn.Module) -> int:
    for name in ("num_heads", "num_attention_heads"):
        if isinstance(getattr(module, name, None), int):
            return getattr(module, name)
    return module.config.num_attention_heads


def _device_of(module: torch.nn.Module) -> torch.device:
    return next((weight.device for weight in module.parameters()),
                torch.device("cpu"))


@contextmanager
def gates(model: torch.nn.Module,
          closed: Sequence[Head | tuple[int, int]] = (), *,
          gate: Mapping[Head | tuple[int, int], float] = {}
          ) -> Iterator[None]:
    """Closes heads while it lasts, or lets a part of each through:
    gate={(5, 1): 0.5}."""
    modules = attention_modules(model)
    made: dict[Site, torch.Tensor] = {}
    for head, share in {**dict.fromkeys(closed, 0.0), **gate}.items():
        one = Head(*head)
        site = Site(one.kind, one.layer)
        if site not in modules or \
                not 0 <= one.head < _heads_of(modules[site]):
            raise ValueError(f"[head] expected a head of the model; found "
                             f"{one}")
        row = made.setdefault(site, torch.ones(
            _heads_of(modules[site]), device=_device_of(modules[site])))
        row[one.head] = share
    before = {site: getattr(modules[site], "headwise_gates", None)
              for site in made}
    try:
        for site, row in made.items():
            other = before[site]
            modules[site].headwise_gates = row if other is None \
                else row * other
        yield
    finally:
        for site, row in before.items():
            modules[site].headwise_gates = row


class Seen:
    """What heads did so far."""

    def __init__(self, model: torch.nn.Module,
                 modules: dict[Site, torch.nn.Module], least: int,
                 every: bool) -> None:
        self._model, self._least, self._every = model, least, every
        self._heads = {site: _heads_of(module)
                       for site, module in modules.items()}
        self._layers = {site: Sums(least, site.kind == "cross", every)
                        for site in modules}
        self._ids: list[torch.Tensor] = []
        self._repeats = 0
        config = getattr(model, "config", None)
        special = [getattr(config, name + "_token_id", None)
                   for name in ("bos", "eos", "pad")]
        self._special = [one for one in special if isinstance(one, int)]

    def _hear(self, module: torch.nn.Module, args: tuple,
              given: dict[str, Any]) -> None:
        """Before each call of the model."""
        ids = given.get("input_ids", args[0] if args else None)
        if not isinstance(ids, torch.Tensor) or ids.is_floating_point() or \
                ids.ndim != 2:
            return
        self._ids.append(ids)
        tokens = Tokens(ids, self._special) if self._every else None
        for sums in self._layers.values():
            sums.ids = tokens

    def _text_key(self) -> int:
        return sum(int.from_bytes(hashlib.sha256(
            ids.cpu().numpy().tobytes()).digest()[:8], "little")
            for ids in self._ids) % 2 ** 64

    def repeats(self, sequences: int = 32) -> None:
        """Runs the model on random tokens that come four times, by which heads
        of induction and of duplicates are known."""
        kept, self._ids = self._ids, []
        for sums in self._layers.values():
            sums.prefix = "repeats."
        try:
            for ids in _random_repeats(self._model, self._special, sequences):
                with torch.no_grad():
                    self._model(input_ids=ids, use_cache=False)
        finally:
            self._ids = kept
            for sums in self._layers.values():
                sums.prefix = ""
        self._repeats += sequences

    def profile(self) -> Profile:
        """Metrics of every head, each call's sequences as windows."""
        return profile_of(self._model, self._layers, self._heads,
                          (0, self._least, self._repeats, self._every),
                          self._text_key())


def _random_repeats(model: torch.nn.Module, special: list[int],
                    sequences: int) -> Iterator[torch.Tensor]:
    vocabulary = model.config.get_text_config().vocab_size
    rng = torch.Generator("cpu").manual_seed(1)
    left_out = torch.tensor(special, dtype=torch.int64, device="cpu")
    for begin in range(0, sequences, TOGETHER):
        rows = []
        for _ in range(min(TOGETHER, sequences - begin)):
            ids = torch.randperm(vocabulary, generator=rng, device="cpu")
            ids = ids[~torch.isin(ids, left_out)][:PERIOD]
            rows.append(ids.repeat(COPIES))
        yield torch.stack(rows).to(_device_of(model))


_tags = itertools.count(1)


@contextmanager
def observe(model: torch.nn.Module, metrics: str = "core", *,
            min_visible: int = 8) -> Iterator[Seen]:
    """Adds up what every head does in the calls of a model while it lasts.
    Rows that see fewer keys than min_visible do not count. metrics="all":
    also offsets to ±8, local mass, and copies of the current token."""
    if metrics not in ("core", "all"):
        raise ValueError(f"[metrics] expected core or all; found {metrics}")
    modules = attention_modules(model)
    seen = Seen(model, modules, min_visible, metrics == "all")
    tags = {site: next(_tags) for site in modules}
    listens = model.register_forward_pre_hook(seen._hear, with_kwargs=True)
    try:
        for site, module in modules.items():
            _torch_op.watchers[tags[site]] = seen._layers[site]
            module.headwise_tag = tags[site]
        yield seen
    finally:
        listens.remove()
        for site, module in modules.items():
            module.headwise_tag = 0
            del _torch_op.watchers[tags[site]]
