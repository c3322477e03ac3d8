"""Examples and notebooks run from end to end."""
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_the_induction_example():
    done = subprocess.run([sys.executable, ROOT / "examples/induction.py"],
                          text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines()
              if line.startswith("  without") or "whole model" in line]
    whole, _, three, others = losses
    assert three - whole > 3 * abs(others - whole)


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["ablation", "induction",
                                                 "tour"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path):
    for name in ("nbconvert", "ipykernel"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"NOTEBOOKS ARE NOT RUN: no python3-{name}")
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute",
         "--output-dir", str(tmp_path), str(path)], text=True,
        capture_output=True, timeout=300,
        env={**os.environ, "JUPYTER_PLATFORM_DIRS": "1",
             "IPYTHONDIR": str(tmp_path / "ipython"),
             "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")})
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / path.name).read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert not any(one["output_type"] == "error" for one in outputs)
    assert any("text/html" in one.get("data", {}) for one in outputs)
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs"), "notebooks are kept without outputs"
