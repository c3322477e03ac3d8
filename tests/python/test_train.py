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
