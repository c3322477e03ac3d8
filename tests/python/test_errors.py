"""Wrong arguments, missing files, damaged ones: Python's errors, our text."""
import pickle
import shutil
import subprocess
import sys

import pytest

import headwise as hw
from conftest import BOOK, MODEL


def test_what_is_not_there(tmp_path, m):
    for act in (lambda: hw.load(tmp_path / "none"),
                lambda: hw.load(tmp_path),
                lambda: m.loss(tmp_path / "none.txt"),
                lambda: hw.load_profile("none.heads"),
                lambda: hw.train(tmp_path / "none.json")):
        with pytest.raises(FileNotFoundError, match="expected"):
            act()


def test_what_cannot_be_written(p, tmp_path):
    with pytest.raises(OSError, match="expected"):
        p.save(tmp_path / "no folder" / "x.heads")


def test_a_damaged_file(tmp_path):
    shutil.copytree(MODEL, tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").write_bytes(b"\x10" * 40)
    with pytest.raises(ValueError, match="model.safetensors"):
        hw.load(tmp_path / "m")
    (tmp_path / "x.heads").write_text("nothing")
    with pytest.raises(ValueError, match="x.heads"):
        hw.load_profile(tmp_path / "x.heads")


@pytest.mark.parametrize("words, act", [
    ("cpu, cuda", lambda m: hw.load(MODEL, device="tpu")),
    ("f32", lambda m: hw.load(MODEL, type="f8")),
    ("f32", lambda m: hw.load(MODEL, type="bf16")),
    ("did you mean|nearest", lambda m: m.run("x", cache=["layer.0.attn"])),
    ("str or a row", lambda m: m.run(BOOK)),
    ("str or a row", lambda m: m.run(3)),
    ("vocabulary|ids", lambda m: m.run([1, 5000])),
    ("expected", lambda m: m.run([-1])),
    ("one kind", lambda m: m.loss([BOOK, "text"])),
    ("one kind", lambda m: m.loss(3.5)),
    ("expected text", lambda m: m.loss("")),
    ("head", lambda m: m.edit(drop=[(6, 0)])),
    ("head", lambda m: m.edit(drop=[(0, 8)])),
    ("layer", lambda m: m.edit(drop=[3.5])),
    ("finite", lambda m: m.edit(gate={(0, 0): float("nan")})),
    ("made by", lambda m: m.edit(drop=[(0, 0)], mean=m.profile(None, "core",
                                                             repeats=1))),
    ("all or core", lambda m: m.profile(BOOK, "some")),
    ("progress", lambda m: m.loss("a b c", progress=3)),
    ("ablation", lambda m: m.rank(BOOK, by="nonsense")),
    ("two", lambda m: m.patch("a", "b")),
    ("texts alone", lambda m: m.patch("a", "b", (1, 2))),
    ("tokens", lambda m: m.patch("The sea", "The sea and the man",
                                 (" a", " b"))),
    ("queries", lambda m: m.attention("The sea", 0, 0, queries=(3, 99))),
    ("step", lambda m: m.attention("The sea", 0, 0, keys=slice(0, 2, 2))),
    ("head", lambda m: m.attention("The sea", 9, 0)),
    ("head", lambda m: m.head(0, 99)),
    ("WeightNames|weight", lambda m: m.weight("nonsense")),
    ("expected", lambda m: m.profile("a b c")["nonsense"]),
    ("kind", lambda m: m.profile("a b c").array("copying", "cross")),
    ("expected", lambda m: hw.merge()),
    ("expected", lambda m: hw.train({"nonsense": 3})),
    ("max_tokens", lambda m: m.generate("a", -1)),
    ("at most", lambda m: m.generate("a b c " * 400)),
    ("ids from 0 to 2147483647; found 4294967301", lambda m: m.run([5 + 2**32])),
    ("found 18446744073709551616", lambda m: m.loss([[5, 2**64]])),
    ("ids from 0", lambda m: m.decode([2**31])),
    ("ids from 0", lambda m: m.patch([5], [6], (2**40, 3))),
    ("ids from 0 .* found 1.5", lambda m: m.decode([1.5])),
    (r"lone surrogate, U\+D800 at 2", lambda m: m.run("a \ud800")),
    ("lone surrogate", lambda m: m.encode("\udfff")),
    ("lone surrogate", lambda m: m.loss(["a", "\ud800"])),
    ("lone surrogate", lambda m: m.generate("\ud800")),
    ("lone surrogate", lambda m: m.patch("\ud800", "b", (" a", " b"))),
    ("found bytes; .decode", lambda m: m.run(b"abc")),
    ("found bytes", lambda m: m.loss(b"abc")),
    ("found bytearray", lambda m: m.decode(bytearray(b"abc"))),
    ("found memoryview", lambda m: m.run(memoryview(b"abc"))),
    ("4096 tokens; found 4096", lambda m: m.decode([5, 4096])),
    ("expected token ids", lambda m: m.decode([-1])),
    ("profiles; found NoneType", lambda m: hw.merge([None])),
    ("UTF-8", lambda m: hw._headwise.run(m._model, "\ud800")),
    ("32 bits", lambda m: hw._headwise.run(m._model, [2**40])),
    ("found None", lambda m: hw._headwise.merge_profiles([None])),
])
def test_wrong_arguments(m, words, act):
    with pytest.raises(ValueError, match=words):
        act(m)


@pytest.mark.parametrize("act", [
    lambda m, _: _.run(without_value(_.Model), "a"),
    lambda m, _: _.loss(m, without_value(_.TextInput)),
    lambda m, _: m.edit([], {}, without_value(_.Means)),
    lambda m, _: without_value(_.Means).sites,
    lambda m, _: without_value(_.Intervention).remove(),
    lambda m, _: without_value(_.Profile).json(),
    lambda m, _: _.merge_profiles([without_value(_.Profile)]),
    lambda m, _: _.roles(without_value(_.Profile), None),
    lambda m, _: without_value(_.Tensor).numpy(),
], ids=["model", "text", "edit", "means", "intervention", "profile",
        "profiles", "roles", "tensor"])
def test_objects_without_a_value(m, act):
    with pytest.raises(ValueError, match="without a value|made"):
        act(m._model, hw._headwise)


def without_value(kind):
    return kind.__new__(kind)


def test_buffers_are_not_made_by_hand(p):
    with pytest.raises(TypeError, match="headwise"):
        without_value(hw._headwise._Buffer)
    with pytest.raises(TypeError):
        pickle.dumps(p)


def test_wrong_types_are_pythons_own(m):
    with pytest.raises(TypeError):
        m.loss("a b", seed="x")
    with pytest.raises(TypeError):
        hw.load(3)


LITTLE_MEMORY = """
import resource, sys
import headwise as hw
m = hw.load(sys.argv[1], threads=1)
m.run("The sea")
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
try:
    m.run([5] * 200000)
except MemoryError as error:
    print("told:", error)
print(m.run("The sea")[0].shape)
"""


def test_too_much_memory():
    done = subprocess.run([sys.executable, "-c", LITTLE_MEMORY, str(MODEL)],
                          text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told, shape = done.stdout.splitlines()
    assert told.startswith("told: [") and "expected" in told
    assert shape.startswith("(1, ")
