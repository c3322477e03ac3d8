"""Core metrics of every head, added up while a model runs."""
from __future__ import annotations

import hashlib
from typing import Any

import torch

from . import _headwise
from ._profile import Profile

#: Metrics with the column of their sum and that of their weight.
SHAPE = ("entropy", "entropy.normalised", "max", "broad", "distance",
         "distance.argmax")
BROAD = 0.8


def _mass(name: str) -> tuple[str, str, str]:
    return name, name + ".chance", name + ".argmax"


class Rows:
    """Of one call: what a row says, [b, H, m], and whether it counts."""

    def __init__(self, part: Any, rows: dict[str, torch.Tensor],
                 least: int) -> None:
        device = rows["entropy"].device
        run = part.runs[0]
        ends = torch.tensor([one.key_end - one.key_begin for one in part.runs],
                            device=device)[:, None]
        self.place = run.offset + torch.arange(
            run.query_end - run.query_begin, device=device)[None]
        self.low = (self.place - run.before).clamp(min=0) \
            if run.before >= 0 else torch.zeros_like(self.place)
        self.high = torch.minimum(ends, self.place + run.after + 1) \
            if run.after >= 0 else ends.expand(-1, self.place.shape[1])
        self.visible = (self.high - self.low).expand(len(part.runs), -1)
        begins = torch.tensor([one.origin - one.key_begin for one in part.runs],
                              device=device)[:, None]
        # Queries of padding have no key of their own.
        own = (self.place > begins) & (self.place >= 0) & (self.place < ends)
        self.counts = (own & (self.visible >= max(2, least)))[:, None] \
            & torch.isfinite(rows["entropy"])
        self.sees_first = (begins == 0) & (self.low == 0)


class Sums:
    """Tallies [H, 6] of each metric of one layer."""

    def __init__(self, least: int) -> None:
        self.least = least
        self.tallies: dict[str, torch.Tensor] = {}
        self.tokens = self.sequences = 0

    def rows(self, shape: torch.Size, device: torch.device
             ) -> dict[str, torch.Tensor]:
        """What the operator fills besides its output."""
        made = {name: torch.empty(shape, device=device) for name in
                ("entropy", "max_probability", "distance")}
        made["argmax"] = torch.empty(shape, dtype=torch.int32, device=device)
        return made

    def _add(self, name: str, value: torch.Tensor, counts: torch.Tensor
             ) -> None:
        x = torch.where(counts, value.double(), 0).sum(-1)
        w = counts.double().sum(-1)
        six = torch.stack([(w > 0).double(), w, x, w * w, w * x, x * x], -1)
        six = six.sum(0)
        before = self.tallies.get(name)
        self.tallies[name] = six if before is None else before + six

    def add(self, context: _headwise.Context, part: Any,
            given: dict[str, torch.Tensor], lse: torch.Tensor,
            rows: dict[str, torch.Tensor], numbers: tuple[float, float]
            ) -> None:
        from ._torch_op import NONE, capsules
        band = torch.empty(*lse.shape, 3, device=lse.device)
        first = torch.empty_like(lse)
        _headwise.attention_band(
            context, capsules({**given, "gates": None, "lse": lse,
                               "mass": band, "first": first}),
            part.mask, numbers, NONE, 1, 1)
        at = Rows(part, rows, self.least)
        entropy, argmax = rows["entropy"], rows["argmax"]
        visible = at.visible[:, None].double().clamp(min=2)
        normalised = entropy / visible.log()
        place = at.place[:, None]
        for name, value in zip(SHAPE, (
                entropy, normalised, rows["max_probability"],
                normalised > BROAD, rows["distance"],
                (place - argmax).abs())):
            self._add(name, value, at.counts)
        masses = [("first", first, argmax == 0, at.sees_first)]
        for k, name in zip((-1, 0, 1), ("previous", "self", "next")):
            key = at.place + k
            masses.append((name, band[..., k + 1], argmax == place + k,
                           (key >= at.low) & (key < at.high)))
        for name, mass, hit, seen in masses:
            counts = at.counts & seen[:, None]
            for form, value in zip(_mass(name), (mass, 1 / visible, hit)):
                self._add(form, value.expand_as(mass), counts)
        self.tokens += at.visible.numel()
        self.sequences += len(part.runs)


def hash_of(model: torch.nn.Module) -> str:
    """Of names, shapes and a sum of each weight."""
    made = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        total = weight.double().sum().item() if weight.numel() else 0
        made.update(f"{name} {list(weight.shape)} {total!r}\n".encode())
    return "torch:" + made.hexdigest()


def profile_of(model: torch.nn.Module, layers: dict[int, Sums],
               heads: dict[int, int], least: int) -> Profile:
    """What was added up, by layer."""
    names = sorted({name for sums in layers.values() for name in sums.tallies})
    metrics: dict[str, list[list[float]]] = {name: [] for name in names}
    for layer, sums in sorted(layers.items()):
        for name in names:
            tally = sums.tallies.get(name)
            metrics[name] += [[0.0] * 6] * heads[layer] if tally is None \
                else tally.cpu().tolist()
    refs = [("self", layer, head) for layer in sorted(layers)
            for head in range(heads[layer])]
    one = next(iter(layers.values()))
    name = getattr(getattr(model, "config", None), "_name_or_path", "")
    return Profile(_headwise.profile_of_tallies(
        name or type(model).__name__, hash_of(model), refs, metrics,
        (0, least), (one.sequences, one.tokens), 0))
