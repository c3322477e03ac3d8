"""What people pass: texts, files, ids, heads, and progress."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Union

import numpy as np

from . import _headwise

#: A str is a text, a path is a file, integers are token ids; or several.
Text = Union[str, "os.PathLike[str]", Sequence[Any], np.ndarray]
Progress = Union[bool, Callable[[str, float, float], Any]]


class Head(NamedTuple):
    """One head of a model, counted from 0. (5, 1) and "5.1" name it too."""
    layer: int
    head: int
    #: "self", "decoder" or "cross"
    kind: str = "self"

    def __str__(self) -> str:
        name = f"{self.layer}.{self.head}"
        return name if self.kind == "self" else f"{self.kind}:{name}"


HeadLike = Union[str, "tuple[int, int]", "tuple[int, int, str]", Head]


def head_name(head: HeadLike) -> str:
    """As the library writes it: "5.1", "cross:5.1"."""
    if isinstance(head, str):
        return head
    try:
        return str(Head(*head))
    except TypeError:
        raise ValueError(f"[head] expected (layer, head), (layer, head, kind) "
                         f"or \"layer.head\"; found {head!r}") from None


def head_names(heads: Iterable[HeadLike] | str) -> list[str]:
    """Of several, of one, or of a str such as "5.1,6.0"."""
    if isinstance(heads, str):
        return [heads]
    heads = list(heads)
    if heads and isinstance(heads[0], (int, np.integer)):
        return [head_name(tuple(heads))]
    return [head_name(head) for head in heads]


def grid(values: Sequence[float], heads: Sequence[Head],
         kind: str = "self") -> np.ndarray:
    """Values of heads as [layers, heads]; NaN where a layer has fewer."""
    kept = [(head, value) for head, value in zip(heads, values)
            if head.kind == kind]
    if not kept:
        known = ", ".join(sorted({head.kind for head in heads}))
        raise ValueError(f"[kind] expected one of {known}; found {kind}")
    array = np.full((1 + max(head.layer for head, _ in kept),
                     1 + max(head.head for head, _ in kept)), np.nan)
    for head, value in kept:
        array[head.layer, head.head] = np.nan if value is None else value
    return array


def is_path(value: object) -> bool:
    return isinstance(value, os.PathLike)


#: Sequences of integers that are no ids.
BYTES = (bytes, bytearray, memoryview)
#: Ids have 32 bits.
MOST_ID = 2**31 - 1


def is_ids(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iu"
    return (isinstance(value, Sequence) and not isinstance(value, (str, *BYTES))
            and len(value) > 0
            and all(isinstance(one, (int, np.integer)) for one in value))


def id_row(values: Iterable[Any], what: str = "ids") -> list[int]:
    """Token ids as the engine takes them."""
    if isinstance(values, BYTES):
        raise ValueError(f"[{what}] expected token ids; found "
                         f"{type(values).__name__}; .decode() gives a str")
    row = []
    for one in values:
        if not isinstance(one, (int, np.integer)) or not 0 <= one <= MOST_ID:
            raise ValueError(f"[{what}] expected token ids from 0 to "
                             f"{MOST_ID}; found {one!r}")
        row.append(int(one))
    return row


def utf8(text: str, what: str = "text") -> str:
    """The text, if the engine can be given it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"[{what}] expected a str that UTF-8 can hold; found a lone "
            f"surrogate, U+{ord(text[error.start]):04X} at {error.start}; "
            "text.encode(errors=\"replace\").decode() has \"?\" there"
            ) from None
    return text


def one_text(text: Text, what: str = "text") -> str | list[int]:
    """A text or a row of ids, for what runs one sequence."""
    if isinstance(text, str):
        return utf8(text, what)
    if isinstance(text, np.ndarray) and text.ndim == 2 and len(text) == 1:
        text = text[0]
    if is_ids(text):
        return id_row(text, what)
    hint = ("; Path.read_text() reads a file" if is_path(text) else
            "; .decode() gives a str" if isinstance(text, BYTES) else "")
    raise ValueError(f"[{what}] expected a str or a row of token ids; found "
                     f"{type(text).__name__}{hint}")


def text_input(text: Text | None) -> _headwise.TextInput:
    """Texts, files or ids, for what reads a corpus."""
    texts: list[str] = []
    files: list[str] = []
    ids: list[list[int]] = []
    if text is None:
        pass
    elif isinstance(text, str):
        texts = [utf8(text)]
    elif is_path(text):
        files = [os.fspath(text)]
    elif is_ids(text):
        ids = [id_row(text)]
    else:
        parts = list(text) if isinstance(text, Iterable) else []
        if parts and all(isinstance(part, str) for part in parts):
            texts = [utf8(part) for part in parts]
        elif parts and all(map(is_path, parts)):
            files = [os.fspath(part) for part in parts]
        elif parts and all(map(is_ids, parts)):
            ids = [id_row(part) for part in parts]
        else:
            raise ValueError(
                "[text] expected a str (a text), a Path (a file), token ids, "
                f"or several of one kind; found {type(text).__name__}")
    return _headwise.TextInput(texts, files, ids)


class Bar:
    """Progress as one line on stderr."""

    def __init__(self) -> None:
        self.width = 0

    def __call__(self, stage: str, done: float, total: float) -> None:
        part = f" {100 * done / total:3.0f} %" if total > 0 else ""
        line = f"{stage}{part}"
        print("\r" + line.ljust(self.width), end="", file=sys.stderr,
              flush=True)
        self.width = len(line)

    def close(self) -> None:
        if self.width:
            print("\r" + " " * self.width, end="\r", file=sys.stderr,
                  flush=True)
