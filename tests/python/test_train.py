"""Training from Python is the program's, step by step."""
import json
import math
import os
import signal
import subprocess
import sys

import pytest

import headwise as hw
from conftest import ROOT

CONFIG = ROOT / "examples" / "train" / "induction.json"


@pytest.fixture
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_losses_are_the_programs(at_root, program, tmp_path):
    steps = []
    result = hw.train(CONFIG, steps.append, settings={
        "steps": 6, "observe_every": 0, "out": str(tmp_path / "mine")})
    path = os.environ.get("HEADWISE_PROGRAM",
                          ROOT / "build/release/apps/headwise/headwise")
    subprocess.run([path, "train", CONFIG, "--set", "steps=6", "--set",
                    "observe_every=0", "--set", f"out={tmp_path}/theirs"],
                   check=True, capture_output=True)
    record = json.loads((tmp_path / "theirs/training.json").read_text())
    assert [step.loss for step in steps] == result.losses == record["losses"]
    assert result.finished and result.steps == 6
    assert steps[0].step == 0 and math.isnan(steps[0].validation)
    model = result.load(threads=1)
    assert model.info["parameters"] == result.parameters


def test_a_run_that_is_ended_goes_on(at_root, tmp_path):
    config = {**json.loads(CONFIG.read_text()), "steps": 6, "observe_every": 0}

    def end(step):
        if step.step == 2:
            raise StopIteration("enough")
    with pytest.raises(StopIteration, match="enough"):
        hw.train({**config, "out": str(tmp_path / "a")}, end)
    rest = hw.train({**config, "out": str(tmp_path / "a")}, resume=True)
    whole = hw.train({**config, "out": str(tmp_path / "b")})
    assert rest.losses == whole.losses and len(whole.losses) == 6
    with pytest.raises(ValueError, match="resume|replace"):
        hw.train({**config, "out": str(tmp_path / "a")})


INTERRUPTED = """
import sys
import headwise as hw
try:
    hw.train(sys.argv[1], lambda step: print("step", step.step, flush=True),
             settings={"steps": 100000, "observe_every": 0, "out": sys.argv[2]})
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_leaves_a_checkpoint(at_root, tmp_path):
    with subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, CONFIG, tmp_path / "a"],
            text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "step 0\n"
        process.send_signal(signal.SIGINT)
        *steps, last = process.communicate(timeout=60)[0].splitlines()
    assert last == "interrupted" and process.returncode == 0
    first = []

    def end(step):
        first.append(step.step)
        raise StopIteration
    with pytest.raises(StopIteration):
        hw.train(CONFIG, end, resume=True, settings={
            "steps": 100000, "observe_every": 0, "out": str(tmp_path / "a")})
    # The step that was on when it was interrupted is finished and kept.
    assert first in ([1 + len(steps)], [2 + len(steps)])


def test_texts_from_memory_are_those_of_a_file(tmp_path):
    text = (ROOT / "assets/text/the-lamp-at-sorrel-point.txt").read_text(
        encoding="utf-8")[:4000]
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    config = {
        "task": "causal_lm", "steps": 2, "batch": 2, "micro_batch": 2,
        "sequence": 16, "warmup": 1, "evaluate_every": 2, "save_every": 2,
        "hold_out": 0, "tokenizer": str(ROOT / "assets/planted/tokenizer.json"),
        "model": {"model_type": "llama", "hidden_size": 16,
                  "intermediate_size": 16, "num_hidden_layers": 1,
                  "num_attention_heads": 2, "max_position_embeddings": 32}}
    by_text = hw.train({**config, "out": str(tmp_path / "a")}, texts=[text])
    by_file = hw.train({**config, "out": str(tmp_path / "b"),
                        "data": [str(tmp_path / "text.txt")]})
    assert by_text.losses == by_file.losses and len(by_text.losses) == 2


def test_export_writes_what_others_read(m, tmp_path):
    assert hw.export(m, tmp_path / "hf") == m.info["model_type"]
    assert hw.load(tmp_path / "hf").hash == m.hash
    hw.export(m.folder, tmp_path / "m.gguf", "gguf", tokenizer=False)
    assert (tmp_path / "m.gguf").read_bytes()[:4] == b"GGUF"
    with pytest.raises(ValueError, match="not there yet"):
        hw.export(m, tmp_path / "hf")
    with pytest.raises(ValueError, match="gguf or onnx"):
        hw.export(m, tmp_path / "x", "tar")
