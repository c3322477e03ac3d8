"""Keywords that the engine's jobs list: shown, and handed on to it."""
from __future__ import annotations

import difflib
import inspect
import json
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import _headwise
from ._inputs import Bar, Progress

F = TypeVar("F", bound=Callable[..., Any])
Field = dict[str, Any]

#: Keywords that have another name now.
RENAMED = {"by_effect": "by", "repeats": "repeat_form", "replace": "force",
           "on_checkpoint": "partial"}
#: By function: every name that it takes.
_known: dict[str, list[str]] = {}


def meaning(field: Field) -> str:
    """Help and what may be given."""
    return field["help"] + (f" ({field['bounds']})" if field["bounds"] else "")


def annotation(field: Field) -> str:
    """The field's type as Python writes it."""
    words = ", ".join(f'"{word}"' for word in field["words"])
    kind = "str | os.PathLike[str]" if field["type"] == "path" else \
        f"Literal[{words}]" if words and not field["list"] else field["type"]
    return f"str | Iterable[{kind}]" if field["list"] else \
        kind + " | None" * field["optional"]


def keywords(function: F) -> F:
    """Shows the fields of the jobs of the function's name: in its signature in
    the place of **options, in its help, and as `keywords`."""
    fields = {field["name"]: field
              for field in _headwise.job_fields[function.__name__]}
    signature = inspect.signature(function)
    own = signature.parameters
    shown = [one.replace(default=fields[one.name]["default"],
                         annotation=annotation(fields[one.name]))
             if one.name in fields and one.default is not one.empty else one
             for one in own.values() if one.kind is not one.VAR_KEYWORD]
    shown += [inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=field["default"],
        annotation=annotation(field))
        for name, field in fields.items() if name not in own]
    function.__signature__ = signature.replace(parameters=shown)
    function.__doc__ = "\n".join([
        inspect.getdoc(function), "", "Keywords (None: as without it):",
        *(textwrap.fill(f"{name}={field['default']!r}: {meaning(field)}", 76,
                        initial_indent=" " * 4, subsequent_indent=" " * 8)
          for name, field in fields.items())])
    function.keywords = list(fields.values())
    _known.setdefault(function.__name__, []).extend(
        one.name for one in shown if one.name != "self")
    return function


def _plain(field: Field, value: Any) -> Any:
    """Paths as str; of a list its elements, of a str those between commas
    (paths have their own), of a dict name=value."""
    if not field["list"]:
        return os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(value, Mapping):
        return [name + "=" + (one if isinstance(one, str) else
                              json.dumps(one, default=float))
                for name, one in value.items()]
    if isinstance(value, str) and field["type"] != "path":
        return value.split(",") if value else []
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
        value = [value]
    return [os.fspath(one) if isinstance(one, os.PathLike) else one
            for one in value]


def _refuse(function: str, name: str) -> None:
    known = _known[function]
    now = RENAMED.get(name)
    if now in known:
        raise TypeError(f"[{function}] expected {now}; found {name}, its name "
                        "before")
    near = difflib.get_close_matches(name, known, 1, 0)[0]
    raise TypeError(f"[{function}] expected a keyword that it knows; found "
                    f"{name}; did you mean {near}?")


def call(function: Callable[..., Any], *given: Any, progress: Progress = False,
         **options: Any) -> Any:
    """Calls the engine with keywords of its jobs; None: as without it."""
    name = function.__name__
    fields = {field["name"]: field for field in _headwise.job_fields[name]}
    for one in options.keys() - fields.keys():
        _refuse(name, one)
    bar = Bar()
    tell = bar if progress is True else progress or None
    if not callable(tell) and tell is not None:
        raise ValueError("[progress] expected True, False or a function of "
                         f"(stage, done, total); found {progress!r}")
    try:
        return function(*given, progress=tell, **{
            one: _plain(fields[one], value)
            for one, value in options.items() if value is not None})
    finally:
        bar.close()
