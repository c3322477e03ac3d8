"""Masks as the operator takes them: runs of queries that see one range of keys
through one band. A plan is a host tensor, int64 [runs, 9], whose columns are
those of Run; queries of no run see nothing."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

#: Elements of a mask that are looked at together.
BLOCK = 1 << 24


class Run(NamedTuple):
    """Queries [query_begin, query_end) of a sequence. Within its keys, counted
    from key_begin, the first of them stands at `offset`; −1 reaches all."""
    sequence: int
    query_begin: int
    query_end: int
    key_begin: int
    key_end: int
    before: int
    after: int
    offset: int
    #: The key at which the sequence begins, which may no longer be kept.
    origin: int


class Unsupported(ValueError):
    """What the operator cannot do exactly."""

    def __init__(self, where: str, expected: str, found: str) -> None:
        super().__init__(f"[{where}] expected {expected}; found {found}; "
                         "register(fallback=True) runs such calls with sdpa")


def plan_of(runs: list[Run]) -> torch.Tensor:
    return torch.tensor(runs, dtype=torch.int64, device="cpu").reshape(
        -1, len(Run._fields))


def band_plan(batch: int, queries: int, keys: int, before: int, after: int,
              offset: int) -> torch.Tensor:
    """One band for every sequence, without padding."""
    return plan_of([Run(b, 0, queries, 0, keys, before, after, offset, 0)
                    for b in range(batch)])


def _breaks(low: np.ndarray, high: np.ndarray,
            origin: np.ndarray) -> np.ndarray:
    """Whether a new run begins at each query. Within one, `low` stays and then
    grows by 1, and `high` grows by 1 and then stays."""
    new = np.ones(low.shape, bool)
    empty = high <= low
    dlow, dhigh = np.diff(low), np.diff(high)
    jump = (dlow < 0) | (dlow > 1) | (dhigh < 0) | (dhigh > 1)
    jump |= np.diff(origin) != 0
    both = empty[:, 1:] & empty[:, :-1]
    step = (empty[:, 1:] != empty[:, :-1]) | (jump & ~both)
    turn = ((dlow[:, :-1] == 1) & (dlow[:, 1:] == 0)) \
        | ((dhigh[:, :-1] == 0) & (dhigh[:, 1:] == 1))
    # A step into a run says nothing of the run.
    turn &= ~step[:, :-1] & ~both[:, 1:]
    step[:, 1:] |= turn
    new[:, 1:] = step
    return new


def _run(b: int, begin: int, end: int, low: np.ndarray, high: np.ndarray,
         first: int, origin: int) -> Run:
    """The run of queries [begin, end), of which the first stands at `first`."""
    position = first + np.arange(end - begin)
    grows = np.flatnonzero(np.diff(low)) + 1
    before = int(position[grows[0]] - low[grows[0]]) if len(grows) else -1
    grows_up = np.flatnonzero(np.diff(high)) + 1
    after = (int(high[grows_up[0]] - 1 - position[grows_up[0]])
             if len(grows_up) else -1)
    # A band that does not hold its own position is told from another one.
    shift = 0
    if len(grows_up) and after < 0:
        shift, after = after, 0
        before += shift if len(grows) else 0
    elif len(grows) and before < 0:
        shift = -before
        before, after = 0, after - shift if len(grows_up) else -1
    return Run(b, begin, end, int(low[0]), int(high[-1]), before, after,
               first + shift - int(low[0]), origin)


def plan_of_ranges(low: np.ndarray, high: np.ndarray, first: int,
                   origin: np.ndarray) -> torch.Tensor:
    """Of keys [low, high) that each query sees, all [B, M]; query 0 stands at
    key `first`, and its sequence begins at `origin`."""
    new = _breaks(low, high, origin)
    runs = []
    for b in range(low.shape[0]):
        begins = np.flatnonzero(new[b])
        for begin, end in zip(begins, [*begins[1:], low.shape[1]]):
            if high[b, begin] > low[b, begin]:
                runs.append(_run(b, int(begin), int(end), low[b, begin:end],
                                 high[b, begin:end], first + int(begin),
                                 int(origin[b, begin])))
    return plan_of(runs)


def ranges_of_rows(seen: torch.Tensor, where: str
                   ) -> tuple[np.ndarray, np.ndarray]:
    """[low, high) of a dense mask, bool [B, M, N]."""
    keys = seen.shape[-1]
    count = seen.sum(-1)
    bytes_ = seen.to(torch.uint8)
    low = bytes_.argmax(-1)
    high = keys - bytes_.flip(-1).argmax(-1)
    high = torch.where(count > 0, high, low)
    if bool((high - low != count).any()):
        raise Unsupported(where, "queries that see keys without a gap",
                          "a mask with gaps in the keys of a query")
    return low.cpu().numpy(), high.cpu().numpy()


def plan_of_dense(mask: torch.Tensor) -> torch.Tensor:
    """Of what eager attention adds to scores, or True where a key is seen:
    [B, H, M, N]."""
    if mask.ndim != 4:
        raise Unsupported("mask", "[batch, heads, queries, keys]",
                          str(list(mask.shape)))
    if mask.dtype == torch.bool:
        seen = mask
    else:
        seen = mask == 0
        if not bool((seen | (mask <= torch.finfo(mask.dtype).min / 2)).all()):
            raise Unsupported("mask", "0 or the smallest number (a mask)",
                              "other numbers (a bias of scores)")
    if bool((seen != seen[:, :1]).any()):
        raise Unsupported("mask", "one mask for all heads",
                          "masks that differ between heads")
    low, high = ranges_of_rows(seen[:, 0], "mask")
    queries, keys = mask.shape[2:]
    return plan_of_ranges(low, high, keys - queries,
                          np.zeros(low.shape, np.int64))


class Known:
    """What transformers' own mask functions are made of, read off the
    functions: the same code, and what it closed over."""

    def __init__(self) -> None:
        from transformers import masking_utils as made
        self.causal = made.causal_mask_function
        self.whole = made.bidirectional_mask_function
        none = torch.zeros(1, 1, dtype=torch.int64, device="cpu")
        code = {"both": made.and_masks(made.causal_mask_function),
                "window": made.sliding_window_overlay(1),
                "around": made.sliding_window_bidirectional_overlay(1),
                "chunk": made.chunked_overlay(1, none[0]),
                "packed": made.packed_sequence_mask_function(none)}
        self.names = {function.__code__: name
                      for name, function in code.items()}

    def parts(self, function: Callable) -> list[tuple[str, dict]] | None:
        """Names of the parts with what they hold; None: another function."""
        if function is self.causal:
            return [("causal", {})]
        if function is self.whole:
            return []
        code = getattr(function, "__code__", None)
        name = self.names.get(code)
        if name is None:
            return None
        held = {key: cell.cell_contents for key, cell in
                zip(code.co_freevars, function.__closure__ or ())}
        if name != "both":
            return [(name, held)]
        parts = [self.parts(part) for part in held["mask_functions"]]
        if any(part is None for part in parts):
            return None
        return [one for part in parts for one in part]


def _kept_range(keep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[begin, end) of the tokens that are kept, [B] each."""
    count = keep.sum(-1)
    begin = keep.argmax(-1)
    end = np.where(count > 0, keep.shape[-1] - keep[:, ::-1].argmax(-1), begin)
    if (end - begin != count).any():
        raise Unsupported("attention_mask", "padding before or after a "
                          "sequence", "padding within it")
    return begin, end


class Ranges:
    """The keys that queries see, as parts of a mask narrow them down. Numbers
    are those of the whole sequence until `plan`."""

    def __init__(self, batch: int, queries: int, keys: int, query_offset: int,
                 key_offset: int) -> None:
        self.query = np.broadcast_to(query_offset + np.arange(queries),
                                     (batch, queries))
        self.low = np.full((batch, queries), key_offset, np.int64)
        self.high = np.full((batch, queries), key_offset + keys, np.int64)
        self.origin = np.zeros((batch, queries), np.int64)
        self.offset = query_offset, key_offset

    def narrow(self, low: np.ndarray | None = None,
               high: np.ndarray | None = None) -> None:
        if low is not None:
            self.low = np.maximum(self.low, low)
        if high is not None:
            self.high = np.minimum(self.high, high)

    def keep(self, keep: torch.Tensor) -> None:
        begin, end = _kept_range(keep.cpu().numpy().astype(bool))
        self.narrow(begin[:, None], end[:, None])
        self.origin = np.maximum(self.origin, begin[:, None])

    def add(self, name: str, held: dict) -> None:
        if name == "causal":
            self.narrow(high=self.query + 1)
        elif name == "window":
            self.narrow(low=self.query - held["sliding_window"] + 1)
        elif name == "around":
            self.narrow(self.query - held["sliding_window"],
                        self.query + held["sliding_window"] + 1)
        elif name == "chunk":
            size = held["chunk_size"]
            left = held["left_padding"].cpu().numpy()[:, None]
            begin = left + (self.query - left) // size * size
            self.narrow(begin, begin + size)
        else:
            self.pack(held["packed_sequence_mask"].cpu().numpy())

    def pack(self, ids: np.ndarray) -> None:
        """ids [B, N]: the number of each token's sequence, which never falls;
        there is no cache beside them."""
        begin, end = np.empty_like(ids), np.empty_like(ids)
        for b, row in enumerate(ids):
            begin[b] = np.searchsorted(row, row, "left")
            end[b] = np.searchsorted(row, row, "right")
        self.narrow(begin, end)
        self.origin = np.maximum(self.origin, begin)

    def plan(self) -> torch.Tensor:
        query_offset, key_offset = self.offset
        return plan_of_ranges(self.low - key_offset, self.high - key_offset,
                              query_offset - key_offset,
                              self.origin - key_offset)


def found_ranges(function: Callable, batch: int, queries: int, keys: int,
                 query_offset: int | torch.Tensor, key_offset: int,
                 device: torch.device | str
                 ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What a mask function lets each query see, [low, high) [B, M], and where
    queries stand [M], found by halving: a graph of torch.compile cannot read
    off what a function is made of. Those of transformers, padding apart, let a
    query see its own place and keys around it without a gap."""
    b = torch.arange(batch, device=device)[:, None]
    h = torch.zeros((1, 1), dtype=torch.int64, device=device)
    q = (torch.arange(queries, device=device) + query_offset)[None]
    own = q.clamp(key_offset, key_offset + keys - 1) + 0 * b
    steps = keys.bit_length() if isinstance(keys, int) else 31
    low, seen = torch.full_like(own, key_offset), own
    for _ in range(steps):
        middle = (low + seen) // 2
        sees = function(b, h, q, middle)
        low, seen = (torch.where(sees, low, middle + 1),
                     torch.where(sees, middle, seen))
    first = seen
    high, seen = torch.full_like(own, key_offset + keys - 1), own
    for _ in range(steps):
        middle = (high + seen + 1) // 2
        sees = function(b, h, q, middle)
        high, seen = (torch.where(sees, high, middle - 1),
                      torch.where(sees, middle, seen))
    return first - key_offset, seen + 1 - key_offset, q[0] - key_offset


def plan_of_found(low: np.ndarray, high: np.ndarray, place: np.ndarray,
                  keep: torch.Tensor | None) -> torch.Tensor:
    """keep [B, N]: keys that are no padding."""
    # Who sees nothing before itself begins a sequence.
    origin = np.maximum.accumulate(np.where(low == place, place, 0), 1)
    if keep is not None:
        begin, end = _kept_range(keep.cpu().numpy().astype(bool))
        low = np.maximum(low, begin[:, None])
        high = np.minimum(high, end[:, None])
        origin = np.maximum(origin, begin[:, None])
    return plan_of_ranges(low, np.maximum(low, high), int(place[0]), origin)


def plan_of_function(known: Known, dense: Callable, batch: int, queries: int,
                     keys: int, query_offset: int, key_offset: int,
                     function: Callable, keep: torch.Tensor | None,
                     **more: object) -> torch.Tensor:
    """Of a mask function of transformers; dense: its sdpa_mask, by which other
    functions are looked at, some queries at a time."""
    parts = known.parts(function)
    if parts is not None:
        ranges = Ranges(batch, queries, keys, query_offset, key_offset)
        for name, held in parts:
            ranges.add(name, held)
        if keep is not None:
            missing = keys + key_offset - keep.shape[-1]
            if missing > 0:
                keep = torch.nn.functional.pad(keep, (0, missing))
            ranges.keep(keep)
        return ranges.plan()
    rows = max(1, BLOCK // max(1, batch * keys))
    lows, highs = [], []
    for at in range(0, queries, rows):
        seen = dense(batch_size=batch, q_length=min(rows, queries - at),
                     kv_length=keys, q_offset=query_offset + at,
                     kv_offset=key_offset, mask_function=function,
                     attention_mask=keep, allow_is_causal_skip=False, **more)
        low, high = ranges_of_rows(
            seen[:, 0].expand(batch, -1, -1), "mask function")
        lows.append(low)
        highs.append(high)
    low, high = np.concatenate(lows, 1), np.concatenate(highs, 1)
    return plan_of_ranges(low, high, query_offset - key_offset,
                          np.full(low.shape, -key_offset))
