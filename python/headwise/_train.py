"""Training a transformer from a configuration."""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
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
          texts: Iterable[str] = (), settings: Mapping[str, Any] = {},
          resume: bool = False, replace: bool = False, device: str = "cpu",
          type: str | None = None, threads: int = 0,
          progress: Progress = False) -> TrainResult:
    """Trains a model; `headwise train --help` lists the fields.

    config: a dict, or the path of a JSON file. texts: documents in the place
    of its data, of translation and classification lines with a tab; the run's
    folder keeps them. settings: more fields over it,
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
            resume, replace, [texts] if isinstance(texts, str) else list(texts),
            device, type, threads, call, tell))


def export(model: "Model | str | os.PathLike[str]", out: str | os.PathLike[str],
           to: str = "huggingface", *, type: str | None = None,
           twin: bool = False, tokenizer: bool = True,
           replace: bool = False) -> str:
    """Writes a model, pruned or not, for other programs; returns what they
    call its architecture.

    model: its folder, or one that is open. to: "huggingface" (a folder for
    transformers), "gguf" (a file for llama.cpp) or "onnx". type: of the
    weights, "f32", "f16" or "bf16"; None: as they are stored. twin:
    huggingface in the shapes of the original, with zeros for heads that left.
    tokenizer=False: gguf of weights alone. replace: what is at out.
    """
    folder = getattr(model, "folder", model)
    return _headwise.export(os.fspath(folder), to, os.fspath(out), type, twin,
                            tokenizer, replace)
