"""Looks into the attention heads of language models.

    import headwise as hw
    m = hw.load("assets/novels")
    out, cache = m.run("The captain", cache=["layer.*.attention.*"])
    p = m.profile(Path("novel.txt"))
    p["entropy"]                        # [layers, heads]
    with m.edit(drop=[(5, 1)]):
        m.loss(Path("novel.txt"))

A str is a text, a pathlib.Path (or several) is files, integers are token ids.
Arrays are NumPy's over the library's own memory; what lies on a GPU is a
Tensor, which torch.from_dlpack takes. Threads may share a model: their calls
wait for each other, and distinct models run at once. Ctrl-C ends any work and
leaves the model as it was. Errors are ValueError, OSError and MemoryError.
"""
from __future__ import annotations

from typing import Any

from ._headwise import Tensor
from ._headwise import version as __version__
from ._inputs import Head
from ._model import Generated, Intervention, Loss, Means, Model, load
from ._profile import Estimate, HeadRoles, Profile, Role, load_profile, merge
from ._results import (Atlas, Attention, Composition, HeadWeights, Interval,
                       Patching, Picture, Ranking, Report, Similarity, Table)
from ._train import TrainResult, TrainStep, export, train

__all__ = [
    "Atlas", "Attention", "Composition", "Estimate", "Generated", "Head",
    "HeadRoles", "HeadWeights", "Intervention", "Interval", "Loss", "Means",
    "Model", "Patching", "Picture", "Profile", "Ranking", "Report", "Role",
    "Similarity", "Table", "Tensor", "TrainResult", "TrainStep", "export",
    "load", "load_profile", "merge", "train", "__version__",
]


def __getattr__(name: str) -> Any:
    """`hw.torch`, for those who have torch."""
    if name != "torch":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    return importlib.import_module(".torch", __name__)
