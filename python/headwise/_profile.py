"""Profiles: what every head of a model does on a text."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _headwise
from ._inputs import Head, HeadLike, grid, head_name
from ._jobs import call, keywords
from ._results import Table

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._jobs import RolesKeywords

#: What table() shows where no metric is named.
TABLE = ("entropy", "max_probability", "distance", "first", "previous",
         "induction")


class Estimate(NamedTuple):
    """A mean with its 95 % interval over sequences, and of how many rows."""
    mean: float
    low: float
    high: float
    count: float
    sequences: int


@dataclass(frozen=True)
class Role:
    """Something a head does, by its name and score."""
    name: str
    score: float
    low: float | None
    high: float | None
    #: How attention is spread, not what it is for.
    shape: bool = False
    evidence: str = ""
    material: str = ""
    #: {"behaviour", "before", "after"} of a head that was switched off.
    check: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class HeadRoles:
    """The roles of one head, strongest first; none: no role."""
    head: Head
    roles: list[Role] = field(default_factory=list)

    @property
    def has_function(self) -> bool:
        """Whether any role says what the head does, not only how its attention
        is spread (broad)."""
        return any(not role.shape for role in self.roles)

    def __str__(self) -> str:
        names = ", ".join(f"{role.name} {role.score:.2f}"
                          for role in self.roles)
        if self.roles and not self.has_function:
            names = f"only {names}"
        return f"{self.head} {names or 'no role'}"

    __repr__ = __str__


def find_roles(made: _headwise.Profile, model: _headwise.Model | None,
               **options: Any) -> list[HeadRoles]:
    text = call(_headwise.roles, made, model, **options)
    return [HeadRoles(
        Head(row["layer"], row["head"], row["kind"]),
        [Role(one["name"], one["score"], one["low"], one["high"], one["shape"],
              one["evidence"], one["material"], one.get("check"))
         for one in row["roles"]]) for row in json.loads(text)["heads"]]


class Profile:
    """What was added up for every head over a text. p["entropy"] is an array
    [layers, heads]."""

    def __init__(self, made: _headwise.Profile,
                 text: _headwise.TextInput | None = None) -> None:
        self._profile = made
        self._text = text  # that it was made of, for Model.edit(mean=p)
        #: Every head, in the order of the lists here.
        self.heads = [Head(layer, head, kind)
                      for kind, layer, head in made.heads]

    @property
    def model(self) -> str:
        """The name of the model's folder."""
        return self._profile.model

    @property
    def model_hash(self) -> str:
        """Over names, shapes and bytes of the model's weights."""
        return self._profile.model_hash

    @property
    def metrics(self) -> list[str]:
        """Names of what was counted."""
        return self._profile.metrics

    @property
    def counts(self) -> dict[str, int]:
        """Documents, windows and tokens that were read."""
        return self._profile.counts

    def array(self, metric: str, kind: str = "self") -> np.ndarray:
        """A metric's means [layers, heads]; NaN where nothing was counted."""
        return grid(self._profile.means(metric), self.heads, kind)

    def __getitem__(self, metric: str) -> np.ndarray:
        kinds = {head.kind for head in self.heads}
        return self.array(metric, "self" if "self" in kinds else min(kinds))

    def __contains__(self, metric: str) -> bool:
        return metric in self.metrics

    def index(self, head: HeadLike) -> int:
        """The place of a head in `heads`."""
        name = head_name(head)
        for i, one in enumerate(self.heads):
            if str(one) == name:
                return i
        raise ValueError(f"[head] expected a head of {self.model}; found "
                         f"{name}")

    def estimate(self, metric: str, head: HeadLike) -> Estimate:
        """A metric of one head with its interval."""
        return Estimate(*self._profile.estimates(metric)[self.index(head)])

    def histogram(self, head: HeadLike) -> np.ndarray:
        """Mass by signed log2 distance: 43 buckets around distance 0, keys
        before the query above it."""
        return np.array(self._profile.histograms[self.index(head)])

    def sinks(self, head: HeadLike) -> dict[str, int]:
        """Tokens that were sinks besides the first, and in how many windows."""
        return self._profile.sinks[self.index(head)]

    def examples(self, head: HeadLike) -> list[dict[str, Any]]:
        """Queries of one head with what they read."""
        return self._profile.examples(self.index(head))

    @keywords
    def roles(self, thresholds: Mapping[str, float] | None = None,
              **options: Unpack[RolesKeywords]) -> list[HeadRoles]:
        """What each head does, one a head. thresholds: {"induction": 0.5}."""
        return find_roles(self._profile, None, thresholds=thresholds,
                          **options)

    def table(self, metrics: Sequence[str] | None = None) -> Table:
        """One row a head; metrics: its columns, else the usual ones."""
        names = list(metrics or [name for name in TABLE if name in self])
        columns = {name: self._profile.means(name) for name in names}
        return Table({"head": str(head), **{name: columns[name][i]
                                            for name in names}}
                     for i, head in enumerate(self.heads))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file whole or not at all; load_profile reads it."""
        self._profile.save(os.fspath(path))

    def json(self) -> dict[str, Any]:
        """All of it, as `headwise profile --json` prints it."""
        return json.loads(self._profile.json())

    def __repr__(self) -> str:
        return (f"Profile({self.model}: {len(self.heads)} heads, "
                f"{self.counts['tokens']} tokens, "
                f"{len(self.metrics)} metrics)")

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def load_profile(path: str | os.PathLike[str]) -> Profile:
    """A profile from its file."""
    return Profile(_headwise.Profile.load(os.fspath(path)))


def merge(*profiles: Profile | Iterable[Profile]) -> Profile:
    """The profile of all parts: of one model on different texts, in any
    order."""
    parts: list[Profile] = []
    for part in profiles:
        several = isinstance(part, Iterable) and not isinstance(part, Profile)
        parts.extend(part if several else [part])
    for part in parts:
        if not isinstance(part, Profile):
            raise ValueError("[merge] expected profiles; found "
                             f"{type(part).__name__}")
    return Profile(_headwise.merge_profiles([one._profile for one in parts]))
