"""Training a transformer from a configuration."""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _headwise
from ._inputs import Progress, Telling

if TYPE_CHECKING:
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


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def train(config: Mapping[str, Any] | str | os.PathLike[str],
          on_step: Callable[[TrainStep], Any] | None = None, *,
          settings: Mapping[str, Any] = {}, resume: bool = False,
          replace: bool = False, device: str = "cpu", type: str | None = None,
          threads: int = 0, progress: Progress = False) -> TrainResult:
    """Trains a model; `headwise train --help` lists the fields.

    config: a dict, or the path of a JSON file. settings: more fields over it,
    {"model.hidden_size": 128}. on_step is called with each TrainStep; what it
    raises ends the run and is raised here, and so does Ctrl-C: the folder then
    has a checkpoint that resume=True goes on from, bit for bit. replace=True
    begins anew over what the folder holds.
    """
    is_file = isinstance(config, (str, os.PathLike))
    call = None if on_step is None else \
        lambda step: on_step(TrainStep(**step)) and None
    with Telling(progress) as tell:
        return TrainResult(**_headwise.train(
            os.fspath(config) if is_file else "",
            "" if is_file else json.dumps(dict(config)),
            [f"{name}={_word(value)}" for name, value in settings.items()],
            resume, replace, device, type, threads, call, tell))
