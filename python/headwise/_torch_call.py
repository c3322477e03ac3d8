"""Runs of a plan as calls of the operator: all in one call where one band
holds for them."""
from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import torch

from ._torch_plan import Run

ALL = slice(None)


class Span(NamedTuple):
    """Queries of one sequence among the rows of a call."""
    run: Run
    batch: int
    begin: int
    end: int


class Part:
    """One call: sequences of a batch, cut to the same queries and keys."""

    def __init__(self, runs: list[Run], mask: tuple[int, int, int],
                 rows: tuple[slice, slice], keys: tuple[slice, slice]) -> None:
        self.runs, self.mask = runs, mask
        self.rows, self.keys = rows, keys
        self.longest = 0, 0
        self.numbers: dict[str, list[int]] = {}
        self._kept: dict = {}

    def of_rows(self, x: torch.Tensor | None) -> torch.Tensor | None:
        """x [B, M, …]"""
        return None if x is None else x[self.rows]

    def of_keys(self, x: torch.Tensor | None) -> torch.Tensor | None:
        return None if x is None else x[self.keys]

    def of_lse(self, x: torch.Tensor) -> torch.Tensor:
        """x [B, H, M]; where it is no view of x, `put_lse` follows."""
        return x[self.rows[0], :, self.rows[1]]

    def put_lse(self, x: torch.Tensor, lse: torch.Tensor) -> None:
        pass

    def of_device(self, device: torch.device) -> dict[str, torch.Tensor]:
        """Lengths and places of the call's sequences, i32."""
        return self.keep(("numbers", device), lambda: {
            name: torch.tensor(numbers, dtype=torch.int32, device=device)
            for name, numbers in self.numbers.items()})

    def keep(self, key, make):
        """What the layers that use this mask share."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def spans(self) -> list[Span]:
        return [Span(run, b, 0, run.query_end - run.query_begin)
                for b, run in enumerate(self.runs)]


class Packed(Part):
    """One call: sequences end to end, [1, B · M, …]. What no run has is a
    sequence without keys, or without queries."""

    def __init__(self, runs: list[Run], band: tuple[int, int],
                 segments: list[tuple[int, int, int]],
                 begins: list[int]) -> None:
        super().__init__(runs, (*band, 0), (ALL, ALL), (ALL, ALL))
        self.begins = begins
        queries, keys, offsets = ([*x] for x in zip(*segments))
        self.longest = max(queries), max(keys)
        self.numbers = {"query_starts": _starts(queries),
                        "key_starts": _starts(keys), "query_offsets": offsets}

    def of_rows(self, x: torch.Tensor | None) -> torch.Tensor | None:
        return None if x is None else x.reshape(1, -1, *x.shape[2:])

    of_keys = of_rows

    def of_lse(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(0, 1).reshape(1, x.shape[1], -1)

    def put_lse(self, x: torch.Tensor, lse: torch.Tensor) -> None:
        if lse.data_ptr() != x.data_ptr():
            x.copy_(lse.view(x.shape[1], x.shape[0], -1).transpose(0, 1))

    def spans(self) -> list[Span]:
        return [Span(run, 0, at, at + run.query_end - run.query_begin)
                for run, at in zip(self.runs, self.begins)]


def _starts(lengths: list[int]) -> list[int]:
    made = [0]
    for length in lengths:
        made.append(made[-1] + length)
    return made


def _band(runs: list[Run]) -> tuple[int, int] | None:
    """One band for all runs; one that reaches as far as a run goes is as good
    as none."""
    found = []
    for side in ("before", "after"):
        reach = {getattr(run, side) for run in runs} - {-1}
        if len(reach) > 1:
            return None
        found.append(reach.pop() if reach else -1)
    before, after = found
    for run in runs:
        last = run.offset + run.query_end - run.query_begin - 1
        farthest = run.key_end - run.key_begin - 1 - run.offset
        if run.before < 0 <= before < last or run.after < 0 <= after < farthest:
            return None
    return before, after


def _alike(runs: list[Run]) -> Part | None:
    """Every sequence, where they differ in their ends and places alone."""
    if len({(run.query_begin, run.query_end, run.key_begin)
            for run in runs}) > 1:
        return None
    band = _band(runs)
    if band is None:
        return None
    run, end = runs[0], max(run.key_end for run in runs)
    part = Part(runs, (*band, run.offset),
                (ALL, slice(run.query_begin, run.query_end)),
                (ALL, slice(run.key_begin, end)))
    if any(one.key_end != end for one in runs):
        part.numbers["key_lengths"] = [one.key_end - run.key_begin
                                       for one in runs]
    if any(one.offset != run.offset for one in runs):
        part.numbers["query_offsets"] = [one.offset for one in runs]
    return part


def _of_one_query(runs: list[Run]) -> Part | None:
    """Sequences that begin anywhere: the band ends where each begins. Distances
    are then not those of the sequences."""
    if any(run.query_end - run.query_begin != 1 or run.query_begin
           for run in runs):
        return None
    end = max(run.key_end for run in runs)
    part = Part(runs, (end, -1, 0), (ALL, slice(0, 1)), (ALL, slice(0, end)))
    part.numbers = {"key_lengths": [run.key_end for run in runs],
                    "query_offsets": [run.key_begin + end for run in runs]}
    return part


def _packed(runs: list[Run], batch: int, queries: int, keys: int
            ) -> Packed | None:
    band = _band(runs)
    if band is None:
        return None
    segments: list[tuple[int, int, int]] = []
    begins = []
    at, key = 0, 0

    def skip(row: int, column: int) -> bool:
        nonlocal at, key
        if row > at:
            segments.append((row - at, 0, 0))
        if column > key:
            segments.append((0, column - key, 0))
        good = row >= at and column >= key
        at, key = row, column
        return good

    for run in sorted(runs, key=lambda run: run[:2]):
        if not skip(run.sequence * queries + run.query_begin,
                    run.sequence * keys + run.key_begin):
            return None                      # runs share keys
        rows = run.query_end - run.query_begin
        columns = run.key_end - run.key_begin
        segments.append((rows, columns, run.offset))
        begins.append(at)
        at, key = at + rows, key + columns
    skip(batch * queries, batch * keys)
    return Packed(sorted(runs, key=lambda run: run[:2]), band, segments, begins)


def _one(run: Run) -> Part:
    sequence = slice(run.sequence, run.sequence + 1)
    return Part([run], (run.before, run.after, run.offset),
                (sequence, slice(run.query_begin, run.query_end)),
                (sequence, slice(run.key_begin, run.key_end)))


def _make(runs: list[Run], batch: int, queries: int, keys: int,
          watched: bool) -> list[Part]:
    made: Part | None = None
    if [run.sequence for run in runs] == list(range(batch)) and runs:
        made = _alike(runs)
        if made is None and not watched:
            made = _of_one_query(runs)
    if made is None and len(runs) > 1:
        made = _packed(runs, batch, queries, keys)
    return [made] if made is not None else [_one(run) for run in runs]


@functools.lru_cache(maxsize=16)
def _kept(plan: bytes, batch: int, queries: int, keys: int,
          watched: bool) -> list[Part]:
    rows = np.frombuffer(plan, np.int64).reshape(-1, len(Run._fields))
    return _make([Run(*row) for row in rows.tolist()], batch, queries, keys,
                 watched)


def parts_of(plan: torch.Tensor, q: torch.Tensor, k: torch.Tensor,
             watched: bool = False) -> list[Part]:
    """q [B, M, …], k [B, N, …]. Layers share them, and what they keep."""
    return _kept(plan.numpy().tobytes(), q.shape[0], q.shape[1], k.shape[1],
                 watched)


def covers(parts: list[Part], queries: int) -> bool:
    """Whether calls write every query."""
    return len(parts) == 1 and (isinstance(parts[0], Packed) or
                                parts[0].rows == (ALL, slice(0, queries)))
