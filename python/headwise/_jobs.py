"""Keywords that the engine's jobs list: as signatures, as help, and checked on
their way to it."""
from __future__ import annotations

import difflib
import inspect
import json
import math
import numbers
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from . import _headwise
from ._inputs import Progress, Telling, utf8

F = TypeVar("F", bound=Callable[..., Any])
Field = dict[str, Any]

#: Keywords that have another name now.
RENAMED = {"by_effect": "by", "repeats": "repeat_form", "replace": "force"}
TYPES = {"bool": ((bool, np.bool_), "True or False"),
         "int": (numbers.Integral, "a whole number"),
         "float": (numbers.Real, "a finite number"),
         "str": ((str, os.PathLike), "a str"),
         "path": ((str, os.PathLike), "a str or a path")}
#: By function: every name that it takes.
_known: dict[str, list[str]] = {}


def bounds(field: Field) -> str:
    """"from 0 to 1", "all or core"; "": any."""
    if field["words"]:
        *others, last = field["words"]
        return f"{', '.join(others)} or {last}"
    least, most = field["least"], field["most"]
    if field["above"]:
        return f"above {least:g}" + \
            ("" if most is None else f" and up to {most:g}")
    if most is None:
        return "" if least is None else f"of at least {least:g}"
    return f"of at most {most:g}" if least is None else \
        f"from {least:g} to {most:g}"


def _holds(field: Field, value: float) -> bool:
    least, most = field["least"], field["most"]
    low = least is None or (value > least if field["above"] else value >= least)
    finite = isinstance(value, int) or math.isfinite(value)
    return low and (most is None or value <= most) and finite


def annotation(field: Field) -> str:
    """The field's type as Python writes it."""
    kind = field["type"]
    if kind == "path":
        kind = "str | os.PathLike[str]"
    if field["words"]:
        words = ", ".join(f'"{word}"' for word in field["words"])
        kind = "str" if field["list"] else f"Literal[{words}]"
    return f"str | Iterable[{kind}]" if field["list"] else \
        kind + " | None" * field["optional"]


def _one(field: Field, value: Any) -> Any:
    """A value as the engine takes it. Raises TypeError or ValueError, with
    what was expected."""
    if isinstance(value, bool) and "yes" in field["words"]:
        value = "yes" if value else "no"
    type_, words = TYPES[field["type"]]
    expected = bounds(field) if field["words"] else \
        f"{words} {bounds(field)}".rstrip()
    if not isinstance(value, type_) or (isinstance(value, bool)
                                        and field["type"] != "bool"):
        raise TypeError(expected)
    if field["type"] in ("str", "path"):
        value = utf8(os.fspath(value), field["name"])
    elif field["type"] != "bool":
        value = int(value) if field["type"] == "int" else float(value)
        if not _holds(field, value):
            raise ValueError(expected)
    if field["words"] and value not in field["words"]:
        raise ValueError(expected)
    return value


def _elements(field: Field, value: Any) -> list[Any]:
    """Of a list, of a str with commas (paths have their own), or name=value of
    a dict."""
    if isinstance(value, Mapping):
        return [name + "=" + (one if isinstance(one, str) else
                              json.dumps(one, default=float))
                for name, one in value.items()]
    if isinstance(value, str) and field["type"] != "path":
        return value.split(",") if value else []
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _taken(function: str, field: Field, value: Any) -> Any:
    try:
        if field["list"]:
            return [_one(field, one) for one in _elements(field, value)]
        return _one(field, value)
    except (TypeError, ValueError) as error:
        if str(error).startswith("["):
            raise
        found = textwrap.shorten(repr(value), 80)
        raise type(error)(f"[{function}] expected {field['name']}: {error}; "
                          f"found {found}") from None


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
    taken = {one: _taken(name, fields[one], value)
             for one, value in options.items() if value is not None}
    with Telling(progress) as tell:
        return function(*given, progress=tell, **taken)


def _help(field: Field) -> str:
    text = f"{field['name']}={field['default']!r}: {meaning(field)}"
    return textwrap.fill(text, 76, initial_indent="    ",
                         subsequent_indent="        ")


def meaning(field: Field) -> str:
    """Help and what may be given."""
    return field["help"] + (f" ({bounds(field)})" if bounds(field) else "")


def keywords(function: F) -> F:
    """Shows the fields of the jobs of the function's name: in its signature in
    the place of **options, in its help, and as `keywords`."""
    fields = {field["name"]: field
              for field in _headwise.job_fields[function.__name__]}
    signature = inspect.signature(function)
    shown = [one.replace(default=fields[one.name]["default"],
                         annotation=annotation(fields[one.name]))
             if one.name in fields and one.default is not one.empty else one
             for one in signature.parameters.values()
             if one.kind is not one.VAR_KEYWORD]
    shown += [inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=field["default"],
        annotation=annotation(field)) for name, field in fields.items()
        if name not in signature.parameters]
    function.__signature__ = signature.replace(parameters=shown)
    function.__doc__ = "\n".join([inspect.getdoc(function), "",
                                  "Keywords (None: as without it):",
                                  *map(_help, fields.values())])
    function.keywords = list(fields.values())
    _known.setdefault(function.__name__, []).extend(
        one.name for one in shown if one.name != "self")
    return function
