"""torch_check.py, as far as this machine goes."""
import os
import subprocess
import sys

from conftest import ROOT

SCRIPT = ROOT / "tests" / "python" / "torch_check.py"


def check(**environment):
    return subprocess.run([sys.executable, SCRIPT], text=True, timeout=300,
                          capture_output=True, check=False,
                          env={**os.environ, **environment})


def test_every_check_is_ok_or_says_what_is_absent():
    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[1] == "ok numpy round trip"
    assert lines[2] == "ok numpy types and strides"
    for line in lines[3:-1]:
        assert line.startswith("ok ") or ": NOTHING WAS CHECKED, " in line
    assert lines[-1].endswith(" 0 failed")


def test_a_check_that_fails_is_told(tmp_path):
    program = tmp_path / "headwise"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    done = check(HEADWISE_PROGRAM=str(program))
    assert done.returncode == 1
    assert "FAILED hooks are the programs" in done.stdout
    assert "1 failed" in done.stdout


def test_an_import_that_crashes_is_told(tmp_path):
    (tmp_path / "headwise").mkdir()
    (tmp_path / "headwise" / "__init__.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    done = check(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "FAILED import headwise: Fatal Python error" in done.stderr
    assert "calling init: " in done.stderr
    assert done.stderr.endswith("SIGSEGV\n")


def test_an_import_that_fails_is_told(tmp_path):
    (tmp_path / "headwise.py").write_text("raise ImportError('no library')\n")
    done = check(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "FAILED import headwise: Traceback" in done.stderr
    assert "ImportError: no library" in done.stderr
