#!/usr/bin/env python3
"""Makes what repeats keywords of the Python package: its _jobs.pyi and the part
"Every function" of docs/python.md.

The built module lists the keywords (`_headwise.job_fields`): PYTHONPATH, or
build/release/python, holds it. Usage: tools/make_python_stubs.py [--check]
"""
import inspect
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUB = ROOT / "python" / "headwise" / "_jobs.pyi"
PAGE = ROOT / "docs" / "python.md"
BEGIN = "<!-- made by tools/make_python_stubs.py -->\n"
END = "<!-- end -->\n"
HEAD = '''"""Keywords of functions. Made by tools/make_python_stubs.py."""
import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict, TypeVar

from ._inputs import Progress

F = TypeVar("F", bound=Callable[..., Any])

def keywords(function: F) -> F: ...
def call(function: Callable[..., Any], *given: Any, progress: Progress = False,
         **options: Any) -> Any: ...
'''


def functions(hw):
    """(shown name, function) of all that the page lists, in its order."""
    for name in ("load", "load_profile", "merge", "train", "export"):
        yield f"hw.{name}", getattr(hw, name)
    for short, owner in (("m", hw.Model), ("p", hw.Profile)):
        for name, value in vars(owner).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                yield f"{short}.{name}", value


def fields_of(function):
    return getattr(function, "keywords", [])


def own_parameters(function):
    """Those that the function names itself, as they are shown."""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = set(code.co_varnames[:count + bool(code.co_flags & 4)])
    return [one for one in inspect.signature(function).parameters.values()
            if one.name in names]


def quoted(value):
    return repr(value).replace("'", '"')


# ---- The stub.

def typed_dict(jobs, function):
    """The body of a TypedDict of the keywords that the function hands on."""
    own = {one.name for one in own_parameters(function)}
    lines = []
    for field in fields_of(function):
        if field["name"] in own:
            continue
        lines.append(f"    {field['name']}: {jobs.annotation(field)}")
        lines += textwrap.wrap(
            f'"""{jobs.meaning(field)}; default: {field["default"]!r}"""',
            80, initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines or ["    pass"])


def stub(hw):
    """Functions with the same keywords share a TypedDict."""
    parts, made = [HEAD], {}
    for _, function in functions(hw):
        name = f"{function.__name__.capitalize()}Keywords"
        if not fields_of(function) or name in made.values():
            continue
        body = typed_dict(hw._jobs, function)
        same = made.setdefault(body, name)
        parts.append(f"{name} = {same}\n" if same != name else
                     f"class {name}(TypedDict, total=False):\n{body}\n")
    return "\n".join(parts)


# ---- The page.

def call_of(name, function):
    """`hw.load(folder, device, **keywords)`"""
    listed = {field["name"] for field in fields_of(function)}
    words = []
    for one in own_parameters(function):
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not any(
                word.startswith("*") for word in words):
            words.append("*")
        star = "*" if one.kind is one.VAR_POSITIONAL else ""
        default = "" if one.default is one.empty else \
            "=…" if isinstance(one.default, tuple) and one.default else \
            "=" + quoted(one.default)
        words.append(star + one.name + default)
    return f"{name}({', '.join(words + ['**keywords'] * bool(listed))})"


def table(jobs, function):
    lines = ["| keyword | default | |", "|---|---|---|"]
    for field in fields_of(function):
        text = jobs.meaning(field).replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{field['name']}` | `{quoted(field['default'])}` "
                     f"| {text} |")
    return "\n".join(lines)


def part(hw):
    """The list of functions, then tables of keywords."""
    lines, tables = [], {}
    for name, function in functions(hw):
        lines.append(textwrap.fill(
            f"- `{call_of(name, function)}`", 80, subsequent_indent="  ",
            break_long_words=False, break_on_hyphens=False))
        if fields_of(function):
            tables.setdefault(table(hw._jobs, function), []).append(name)
    chapters = [f"**{', '.join(names)}**\n\n{text}\n"
                for text, names in tables.items()]
    return "\n".join(lines) + "\n\n" + "\n".join(chapters)


def page(hw):
    text = PAGE.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + "\n" + part(hw) + "\n" + text[end:]


def main():
    sys.path.append(str(ROOT / "build" / "release" / "python"))
    import headwise as hw
    wrong = []
    for path, text in ((STUB, stub(hw)), (PAGE, page(hw))):
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            wrong.append(str(path.relative_to(ROOT)))
    if wrong:
        print(f"{' and '.join(wrong)}: not what the module lists; run "
              "tools/make_python_stubs.py")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
