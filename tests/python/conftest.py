"""Where the model, the text and the program are. $HEADWISE_PROGRAM names the
program whose numbers are compared; PYTHONPATH finds the package."""
import json
import os
import pathlib
import subprocess

import pytest

import headwise as hw

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "assets" / "novels"
BOOK = ROOT / "assets" / "text" / "the-lamp-at-sorrel-point.txt"
TOKENS = 1024


@pytest.fixture(scope="session")
def m():
    return hw.load(MODEL)


@pytest.fixture(scope="session")
def p(m):
    return m.profile(BOOK, tokens=TOKENS)


@pytest.fixture(autouse=True)
def untouched(request):
    """No test leaves an edit or a hook behind."""
    yield
    if "m" in request.fixturenames:
        assert not request.getfixturevalue("m").edited


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Runs the program; its stdout, read as JSON where it is."""
    path = os.environ.get("HEADWISE_PROGRAM",
                          ROOT / "build/release/apps/headwise/headwise")
    if not pathlib.Path(path).exists():
        pytest.skip(f"NOTHING IS COMPARED WITH THE PROGRAM: {path} is absent")
    folder = tmp_path_factory.mktemp("program")

    def run(*words):
        done = subprocess.run([str(path), *map(str, words)], text=True,
                              capture_output=True, cwd=folder, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in words else folder
    return run
