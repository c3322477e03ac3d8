"""Training a transformer from a configuration."""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _headwise
from ._jobs import call, keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._jobs import ExportKeywords, TrainKeywords
    from ._model import Model


class TrainStep(NamedTuple):
    """One step of the optimizer."""
    step: int
    #: Nats a target, before the update.
    loss: float
    #: Of gates, besides the loss.
    penalty: float
    gradient_norm: float
    rate: float
    tokens: int
    #: Of the evaluation that followed; NaN where none did.
    validation: float
    seconds: float


class TrainResult(NamedTuple):
    """What a run gave."""
    finished: bool
    steps: int
    parameters: int
    tokens: int
    seconds: float
    losses: list[float]
    #: (step, loss) of evaluations.
    validation: list[tuple[int, float]]
    #: The model as the last step left it.
    last: str
    #: The checkpoint with the lowest validation loss, or "".
    best: str

    def load(self, **options: Any) -> "Model":
        """The model as the last step left it; options as of load."""
        from ._model import load
        return load(self.last, **options)


@keywords
def train(config: Mapping[str, Any] | str | os.PathLike[str],
          on_step: Callable[[TrainStep], Any] | None = None, *,
          texts: Iterable[str] = (),
          **options: Unpack[TrainKeywords]) -> TrainResult:
    """Trains a model; `headwise train --help` lists the fields.

    config: a dict, or the path of a JSON file. texts: documents in the place
    of its data, of translation and classification lines with a tab; the run's
    folder keeps them. on_step is called with each TrainStep; what it raises
    ends the run and is raised here, and so does Ctrl-C: the folder then has a
    checkpoint that resume=True goes on from.
    """
    is_file = isinstance(config, (str, os.PathLike))
    told = None if on_step is None else \
        lambda step: on_step(TrainStep(*step)) and None
    return TrainResult(*call(
        _headwise.train, os.fspath(config) if is_file else None,
        None if is_file else json.dumps(dict(config)),
        [texts] if isinstance(texts, str) else list(texts), told, **options))


@keywords
def export(model: "Model | str | os.PathLike[str]", out: str | os.PathLike[str],
           to: str | None = None, **options: Unpack[ExportKeywords]) -> str:
    """Writes a model, pruned or not, for other programs; returns what they
    call its architecture. model: its folder, or one that is open."""
    folder = getattr(model, "folder", model)
    return call(_headwise.export, os.fspath(folder), out=out, to=to, **options)
