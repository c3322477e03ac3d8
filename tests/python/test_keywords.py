"""Keywords come from the jobs' own lists of fields: shown, checked, handed on."""
import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest

import headwise as hw
from conftest import BOOK, MODEL, ROOT
from headwise import _headwise, _jobs

SPEC = importlib.util.spec_from_file_location(
    "make_python_stubs", ROOT / "tools" / "make_python_stubs.py")
TOOL = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TOOL)
WITH_KEYWORDS = {name: function for name, function in TOOL.functions(hw)
                 if TOOL.fields_of(function)}


def test_what_is_made_is_what_the_module_lists():
    hint = "run tools/make_python_stubs.py"
    assert TOOL.STUB.read_text() == TOOL.stub(hw), hint
    assert TOOL.PAGE.read_text() == TOOL.page(hw), hint
    compile(TOOL.stub(hw), "_jobs.pyi", "exec")


def test_every_list_belongs_to_a_function():
    assert set(_headwise.job_fields) == {
        function.__name__ for function in WITH_KEYWORDS.values()}


@pytest.mark.parametrize("name", WITH_KEYWORDS)
def test_signature_and_help_show_every_keyword(name):
    function = WITH_KEYWORDS[name]
    shown = inspect.signature(function).parameters
    text = inspect.getdoc(function)
    for field in _headwise.job_fields[function.__name__]:
        assert field["name"] in shown and field["help"]
        assert shown[field["name"]].annotation is not inspect.Parameter.empty
        assert f"    {field['name']}=" in text
    assert not any(one.kind is one.VAR_KEYWORD for one in shown.values())


def test_a_signature_says_type_and_default():
    shown = inspect.signature(hw.Model.profile).parameters
    assert shown["min_visible"].default == 8
    assert shown["min_visible"].annotation == "int"
    assert shown["metrics"].default == "all"
    assert shown["metrics"].annotation == 'Literal["all", "core"]'
    assert shown["metrics"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert shown["words"].kind is inspect.Parameter.KEYWORD_ONLY
    assert shown["tokens"].annotation == "int | None"
    assert inspect.signature(hw.Model.rank).parameters["by"].default[0] == \
        "ablation-mean"


@pytest.mark.parametrize("words, act", [
    (r"\[loss\] expected a keyword that it knows; found sead; did you mean "
     r"seed\?", lambda m: m.loss("a b", sead=1)),
    ("found on_tokens; did you mean on_token",
     lambda m: m.generate("a", on_tokens=print)),
    ("found profil; did you mean profile", lambda m: m.rank("a", profil=1)),
    (r"\[export\] expected force; found replace, its name before",
     lambda m: hw.export(m, "x", replace=True)),
    ("expected repeat_form; found repeats",
     lambda m: m.roles(m.profile("a b c", "core"), repeats="50x2")),
    ("expected by; found by_effect", lambda m: m.compose(by_effect=True)),
    (r"expected seed: int; found 'x'",
     lambda m: m.loss("a b", seed="x")),
    ("expected seed: int; found 1.5",
     lambda m: m.loss("a b", seed=1.5)),
    ("expected truncate: bool; found 'no'",
     lambda m: m.generate("a", truncate="no")),
    ("expected temperature: float of at least 0; found '1'",
     lambda m: m.generate("a", temperature="1")),
    ("expected device: str; found 3", lambda m: hw.load(MODEL, 3)),
    ("expected bos: auto, yes or no; found 3",
     lambda m: hw.load(MODEL, bos=3)),
])
def test_types_and_names(m, words, act):
    with pytest.raises(TypeError, match=words):
        act(m)


@pytest.mark.parametrize("words, act", [
    ("expected top_p: float above 0 and up to 1; found 0",
     lambda m: m.generate("a", top_p=0)),
    ("expected top_p: float above 0 and up to 1; found 1.5",
     lambda m: m.generate("a", top_p=1.5)),
    ("expected top_p: .* found nan",
     lambda m: m.generate("a", top_p=float("nan"))),
    ("expected length_penalty: float that is finite; found inf",
     lambda m: m.generate("a", length_penalty=float("inf"))),
    ("expected context: int of at least 0; found -1",
     lambda m: m.loss("a b", context=-1)),
    ("expected repeats: int from 0 to 10000; found 10001",
     lambda m: m.profile(None, repeats=10001)),
    ("expected seed: int; found -1", lambda m: m.loss("a b", seed=-1)),
    ("expected seed: int; found 18446744073709551616",
     lambda m: m.loss("a b", seed=2**64)),
    (r"expected by: ablation-zero, .* or weights; found \['x'\]",
     lambda m: m.rank("a b", by="x")),
    (r"expected top_queries: int; found \[0, 'x'\]",
     lambda m: m.attention("a b", 0, 0, top=1, top_queries=[0, "x"])),
    ("expected metrics: all or core; found 'some'",
     lambda m: m.profile("a b", "some")),
    (r"expected skip: importance, .* or samples; found \['all'\]",
     lambda m: m.report(BOOK, skip="all")),
])
def test_values(m, words, act):
    with pytest.raises(ValueError, match=words):
        act(m)


def test_none_is_as_without_it(m):
    whole = m.loss(BOOK, tokens=64)
    assert m.loss(BOOK, tokens=64, seed=None, context=None) == whole
    assert m.loss(BOOK, tokens=np.int64(64), context=np.int32(256)) == whole
    assert m.generate("The", np.int32(3), temperature=None,
                      top_p=np.float32(1)) == m.generate("The", 3)


def test_lists_are_given_in_several_forms():
    def plain(value, kind="str"):
        return _jobs._plain({"type": kind, "list": True}, value)
    assert plain("a,b") == plain(["a", "b"]) == plain(("a", "b")) == ["a", "b"]
    assert plain("") == plain(()) == []
    assert plain("a,b", "path") == plain(Path("a,b"), "path") == \
        plain([Path("a,b")], "path") == ["a,b"]
    assert plain({"a": 0.5, "b": "c", "d": np.float32(2)}) == [
        "a=0.5", "b=c", "d=2.0"]
    assert plain({"a": [1, 2], "b": True}) == ["a=[1, 2]", "b=true"]


def test_words_that_stand_for_several(m):
    both = m.rank("The sea and the man and the lamp.", by="weights")
    assert both.criteria == ["weights-ov", "weights-qk"]


def test_truth_values_stand_for_yes_and_no():
    text = "The sea"
    assert hw.load(MODEL, bos=False).encode(text) == \
        hw.load(MODEL, bos="no").encode(text)
    with pytest.raises(ValueError, match="auto, yes or no"):
        hw.load(MODEL, bos="maybe")


def test_the_engine_itself_refuses_what_it_does_not_know(m):
    text = _headwise.TextInput(["a b"], [], [])
    with pytest.raises(TypeError, match="sead"):
        _headwise.loss(m._model, text, sead=1)
