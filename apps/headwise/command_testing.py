"""What tests of commands share: running the program, and ending at what is not
as it should be. Tests are called as TEST.py PROGRAM SOURCES.
"""
import json
import pathlib
import shutil
import subprocess
import sys

PROGRAM = pathlib.Path(sys.argv[1])
SOURCES = pathlib.Path(sys.argv[2])
TEXT = SOURCES / "assets/text"


def headwise(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=False,
                          capture_output=True, text=True, timeout=300)


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def well(*arguments):
    done = headwise(*arguments)
    check(done.returncode == 0, f"{arguments}: {done.stderr}")
    return done.stdout


def few_positions(model, folder, positions=16):
    """A copy in a folder of a model that says it knows 16 positions: random
    repeats then take a fifth of the time. Or other ones."""
    copy = folder / model.name
    shutil.copytree(model, copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["max_position_embeddings"] = positions
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return copy


def refused(code, word, *arguments):
    done = headwise(*arguments)
    check(done.returncode == code and word in done.stderr,
          f"{arguments}: {done.returncode} {done.stderr}")
