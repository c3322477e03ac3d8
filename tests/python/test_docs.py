"""docs/python.md, docstrings and stubs say what is there."""
import ast
import inspect
import re

import pytest

import headwise as hw
from conftest import ROOT
from headwise import _headwise

PAGE = (ROOT / "docs" / "python.md").read_text()
STUB = ast.parse((ROOT / "python/headwise/_headwise.pyi").read_text())


def public(owner):
    """Functions of the package, or of one of its classes."""
    return {name: value for name, value in vars(owner).items()
            if inspect.isfunction(value) and not name.startswith("_")}


def test_the_pages_code_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert len(blocks) > 10
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert not names["m"].edited


def test_every_name_of_the_package_is_documented():
    for name in hw.__all__:
        thing = getattr(hw, name)
        assert name == "__version__" or inspect.getdoc(thing), name
        if inspect.isclass(thing) and thing.__module__.startswith(
                "headwise._") and thing is not hw.Tensor:
            for method, function in public(thing).items():
                assert inspect.getdoc(function), f"{name}.{method}"
    assert "device" in inspect.getdoc(hw.load)


def parameters(text):
    """How many of a pybind11 docstring's first line."""
    inner = text.splitlines()[0]
    inner = inner[inner.index("(") + 1:inner.rindex(") ->")]
    depth, count = 0, 1 if inner else 0
    for letter in inner:
        depth += letter in "[(" or -(letter in "])")
        count += letter == "," and depth == 0
    return count - ("*" in re.split(r",\s*", inner))


def stub_functions(body):
    return {node.name: node for node in body
            if isinstance(node, ast.FunctionDef)}


def count_of(node):
    return len(node.args.args) + len(node.args.kwonlyargs) + \
        bool(node.args.vararg)


@pytest.mark.parametrize("node", [node for node in STUB.body if isinstance(
    node, ast.ClassDef)], ids=lambda node: node.name)
def test_stubs_of_classes(node):
    real = getattr(_headwise, node.name)
    functions = stub_functions(node.body)
    fields = {one.target.id for one in node.body
              if isinstance(one, ast.AnnAssign)}
    names = {name for name in vars(real) if not name.startswith("_")}
    assert names == {name for name in {*functions, *fields}
                     if not name.startswith("_")}
    for name, stub in functions.items():
        member = inspect.getattr_static(real, name)
        if isinstance(member, property):
            continue
        text = getattr(real, name).__doc__ or ""
        if "->" in text.split("\n")[0]:
            assert parameters(text) == count_of(stub), f"{node.name}.{name}"
