"""Metrics of every head, added up while a model runs."""
from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import torch

from . import _headwise
from ._profile import Profile
from ._torch_call import Packed, Part, Span

BROAD = 0.8
#: How far band masses reach: of the core, and of all metrics.
NEAR, FAR, LOCAL = 1, 8, 4
COPIES = ("duplicate", "induction")
#: Calls whose sums wait to be added up together.
WAITING = 64
NOWHERE = -9
LARGEST = 3e38

Band = Callable[[int, torch.Tensor, torch.Tensor], None]


def offset_name(k: int) -> str:
    return {-1: "previous", 0: "self", 1: "next"}.get(k, f"offset.{k}")


class Tokens:
    """The ids of one call of a model, [B, N]."""

    def __init__(self, ids: torch.Tensor, special: Sequence[int]) -> None:
        found = ids.cpu().numpy().astype(np.int32)
        self.ids = np.where(np.isin(found, special), -1, found)
        self._kept: dict[int, tuple] = {}

    def of(self, part: Part, device: torch.device) -> tuple | None:
        """Labels of queries and keys [2, B, M], and how many keys of each
        label a query sees before itself; None: the call has other tokens."""
        if id(part) not in self._kept:
            self._kept[id(part)] = part, self._make(part, device)
        return self._kept[id(part)][1]

    def _make(self, part: Part, device: torch.device) -> tuple | None:
        ids = torch.from_numpy(self.ids)
        try:
            query, key = part.of_rows(ids), part.of_keys(ids)
        except (IndexError, RuntimeError):
            return None
        if query.shape != key.shape or part.mask[1] != 0 or \
                any(span.run.offset for span in part.spans()):
            return None
        before = torch.full_like(key, -1)
        before[:, 1:] = key[:, :-1]
        seen = np.zeros((2, *query.shape), np.float32)
        for span in part.spans():
            before[span.batch, span.begin] = -1
            rows = span.batch, slice(span.begin, span.end)
            seen[(slice(None), *rows)] = copies_seen(
                query[rows].numpy(), part.mask[0])
        return (query.expand(2, *query.shape).contiguous().to(device),
                torch.stack([key, before]).to(device),
                torch.from_numpy(seen).to(device))


def copies_seen(ids: np.ndarray, reach: int) -> np.ndarray:
    """[2, M]: of each query the earlier copies that it sees, and the keys
    behind earlier copies; −1 has none."""
    place = np.arange(len(ids))
    size = len(ids) + 1
    codes = np.sort(ids.astype(np.int64) * size + place)
    low = np.maximum(place - reach, 0) if reach >= 0 else 0 * place

    def before(end: np.ndarray) -> np.ndarray:
        return np.searchsorted(codes, ids.astype(np.int64) * size + end)
    seen = np.stack([before(place) - before(low),
                     before(place) - before(np.maximum(low - 1, 0))])
    return np.where(ids >= 0, seen, 0)


class Rows:
    """Which rows of a call count and what they see, [B, M]; the same for all
    layers of one mask."""

    def __init__(self, part: Part, queries: int, batch: int, least: int,
                 reach: int, device: torch.device) -> None:
        self.part = part
        low, high, place, begin = (np.zeros((batch, queries), np.int64)
                                   for _ in range(4))
        for span in part.spans():
            at = span.batch, slice(span.begin, span.end)
            low[at], high[at], place[at] = _range_of(span, part.mask)
            begin[at] = span.run.origin - span.run.key_begin
        visible = np.maximum(high - low, 1)
        # Queries of padding have no key of their own.
        counts = (place > begin) & (place >= 0) & (place < high) \
            & (high - low >= max(2, least))
        self.tokens = sum(span.end - span.begin for span in part.spans())
        self.visible = visible
        targets = [np.where(counts & (begin == 0) & (low == 0), 0, NOWHERE)]
        for k in range(-reach, reach + 1):
            key = place + k
            targets.append(np.where(counts & (key >= low) & (key < high), key,
                                    NOWHERE))
        seen = [t != NOWHERE for t in targets]
        weights = np.stack([counts, *seen])
        shape = 4 if reach < 0 else 6
        near = sum(one.astype(int) for one in seen[
            1 + reach - LOCAL:2 + reach + LOCAL]) if reach >= LOCAL else 0

        def there(x: np.ndarray, kind: torch.dtype) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(x)).to(device, kind)
        half = torch.float32
        log = np.log(np.maximum(visible, 2))
        self.counts = there(weights, torch.bool)[:, :, None]
        self.factors = there(np.stack([counts] * shape + seen + seen),
                             half)[:, :, None]
        self.even = there(1 / visible, half)[:, None]
        self.by_log = there(counts / log, half)[:, None]
        self.broad = there(np.where(counts, BROAD * log, np.inf), half)[:, None]
        self.place = there(place, torch.int32)[:, None]
        self.targets = there(np.stack(targets), torch.int32)[:, :, None]
        self.near = there(near / visible, half)[:, None]

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """x [..., B, H, M] over the rows of each sequence: [..., S, H]."""
        if not isinstance(self.part, Packed):
            return x.sum(-1, dtype=torch.float64)
        begins = torch.tensor(self.part.begins, device=x.device)
        ends = torch.tensor([span.end for span in self.part.spans()],
                            device=x.device)
        upto = torch.nn.functional.pad(x.cumsum(-1, dtype=torch.float64),
                                       (1, 0)).squeeze(-3)
        return (upto[..., ends] - upto[..., begins]).transpose(-1, -2)


def _range_of(span: Span, mask: tuple[int, int, int]) -> tuple:
    run = span.run
    keys = run.key_end - run.key_begin
    place = run.offset + np.arange(span.end - span.begin)
    low = np.maximum(place - mask[0], 0) if mask[0] >= 0 else 0
    high = np.minimum(place + mask[1] + 1, keys) if mask[1] >= 0 else keys
    return low, high, place


class Sums:
    """Tallies [H, 6] of each metric of one layer."""

    def __init__(self, least: int, cross: bool = False,
                 every: bool = False) -> None:
        self.least, self.cross, self.every = least, cross, every
        self.reach = -1 if cross else FAR if every else NEAR
        self.tokens = self.sequences = 0
        self.shape = ("entropy", "max", "entropy.normalised", "broad") \
            if cross else ("entropy", "max", "distance", "entropy.normalised",
                           "broad", "distance.argmax")
        self.prefix = ""
        #: Set for each call of the model.
        self.ids: Tokens | None = None
        self._tallies: dict[str, torch.Tensor] = {}
        self._waiting: list[tuple[list[str], torch.Tensor, torch.Tensor]] = []

    def rows(self, part: Part, lse: torch.Tensor
             ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """What the operator takes and fills besides its output; and the planes
        [K, B, H, M] of all that is summed, the first of which it fills."""
        shape = len(self.shape)
        targets = 2 * self.reach + 2 if self.reach >= 0 else 1
        planes = torch.empty((shape + 2 * targets, *lse.shape),
                             device=lse.device)
        made = dict(zip(("entropy", "max_probability", "distance"),
                        planes[:2 if self.cross else 3]))
        made["argmax"] = torch.empty(lse.shape, dtype=torch.int32,
                                     device=lse.device)
        labels = self.ids.of(part, lse.device) if self.ids and self.every \
            and not self.cross else None
        if labels is not None:
            made["query_labels"], made["key_labels"] = labels[:2]
            made["label_mass"] = torch.empty((*lse.shape, 2),
                                             device=lse.device)
        return made, planes

    def add(self, part: Part, rows: dict[str, torch.Tensor],
            planes: torch.Tensor, band: Band) -> None:
        """band(reach, mass, first) fills the masses around the diagonal and on
        the first key."""
        entropy = rows["entropy"]
        near, device = max(self.reach, 0), entropy.device
        at = part.keep(("rows", self.least, self.reach, device), lambda: Rows(
            part, entropy.shape[2], entropy.shape[0], self.least, self.reach,
            device))
        shape, targets = len(self.shape), len(at.targets)
        mass = torch.empty((*entropy.shape, 2 * near + 1), device=device)
        band(near, mass, planes[shape])
        self._fill(at, planes, mass, rows["argmax"])
        good = entropy < LARGEST
        counts = at.counts & good
        weights = at.sum(counts)
        names = list(self.shape) + [
            name + form for form in ("", ".argmax", ".chance")
            for name in ("first", *map(offset_name, range(
                -self.reach, self.reach + 1)))]
        planes.nan_to_num_(0, 0, 0)
        x = [at.sum(planes.mul_(at.factors).mul_(good)),
             at.sum(torch.where(counts[1:], at.even, 0.0))]
        w = [weights[:1].expand(shape, -1, -1), *[weights[1:]] * 3]
        if self.reach >= LOCAL:
            self._local(at, mass, counts[0], names, x, w)
        if "label_mass" in rows:
            self._copies(at, rows["label_mass"], mass[..., near], counts[0],
                         self.ids.of(part, device)[2], names, x, w)
        self._keep(names, torch.cat(x), torch.cat(w))
        if not self.prefix:
            self.tokens += at.tokens
            self.sequences += len(part.runs)

    def _fill(self, at: Rows, planes: torch.Tensor, mass: torch.Tensor,
              argmax: torch.Tensor) -> None:
        shape, targets = len(self.shape), len(at.targets)
        entropy, own = planes[0], dict(zip(self.shape, planes))
        torch.mul(entropy, at.by_log, out=own["entropy.normalised"])
        torch.gt(entropy, at.broad, out=own["broad"])
        if not self.cross:
            torch.sub(at.place, argmax, out=own["distance.argmax"]).abs_()
            planes[shape + 1:shape + targets].copy_(mass.permute(3, 0, 1, 2))
        torch.eq(argmax, at.targets, out=planes[shape + targets:])

    def _local(self, at: Rows, mass: torch.Tensor, counts: torch.Tensor,
               names: list, x: list, w: list) -> None:
        middle = mass.shape[-1] // 2
        near = mass[..., middle - LOCAL:middle + LOCAL + 1].sum(-1)
        self._add(at, [near, at.near], counts, x, w)
        names += ["local", "local.chance"]

    def _add(self, at: Rows, values: list, counts: torch.Tensor, x: list,
             w: list) -> None:
        for value in values:
            x.append(at.sum(torch.where(counts, value, 0.0))[None])
            w.append(at.sum(counts)[None])

    def _copies(self, at: Rows, mass: torch.Tensor, own: torch.Tensor,
                counts: torch.Tensor, seen: torch.Tensor, names: list, x: list,
                w: list) -> None:
        # A query is a copy of itself.
        for name, value, count in zip(
                COPIES, (mass[..., 0] - own, mass[..., 1]), seen):
            count = count[:, None]
            self._add(at, [value, count * at.even], counts & (count > 0), x,
                      w)
            names += [name, name + ".chance"]

    def _keep(self, names: list[str], x: torch.Tensor, w: torch.Tensor
              ) -> None:
        self._waiting.append(([self.prefix + name for name in names], x, w))
        if len(self._waiting) >= WAITING:
            self._flush()

    def _flush(self) -> None:
        for names, x, w in self._waiting:
            six = torch.stack([(w > 0).double(), w, x, w * w, w * x, x * x],
                              -1).sum(1)
            for name, one in zip(names, six):
                before = self._tallies.get(name)
                self._tallies[name] = one if before is None else before + one
        self._waiting.clear()

    def tallies(self) -> dict[str, torch.Tensor]:
        self._flush()
        return self._tallies


def hash_of(model: torch.nn.Module) -> str:
    """Of names, shapes and a sum of each weight."""
    made = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        total = weight.double().sum().item() if weight.numel() else 0
        made.update(f"{name} {list(weight.shape)} {total!r}\n".encode())
    return "torch:" + made.hexdigest()


def profile_of(model: torch.nn.Module, layers: dict[tuple[str, int], Sums],
               heads: dict[tuple[str, int], int],
               settings: tuple[int, int, int, bool], text_key: int) -> Profile:
    """What was added up, by kind and layer."""
    made = {key: sums.tallies() for key, sums in layers.items()}
    # What no row has, as the next token of a causal model, is no metric.
    names = sorted({name for tallies in made.values()
                    for name, tally in tallies.items() if tally[:, 1].any()})
    metrics: dict[str, list[list[float]]] = {name: [] for name in names}
    refs = []
    for key, tallies in made.items():
        refs += [(*key, head) for head in range(heads[key])]
        for name in names:
            found = tallies.get(name)
            metrics[name] += [[0.0] * 6] * heads[key] if found is None \
                else found.cpu().tolist()
    one = next(iter(layers.values()))
    name = getattr(getattr(model, "config", None), "_name_or_path", "")
    return Profile(_headwise.profile_of_tallies(
        name or type(model).__name__, hash_of(model), refs, metrics,
        settings, (one.sequences, one.tokens), text_key))
