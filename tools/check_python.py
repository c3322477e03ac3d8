"""The Python package as ./check builds and tests it: with Debian's Python, in
the release folder, by pytest."""
import functools
import pathlib
import re
import subprocess

from stage import ROOT, Count, Failed

PYTHON = "/usr/bin/python3"
HEADER = pathlib.Path("/usr/include/pybind11/pybind11.h")


def options():
    """How the release folder is configured so that the package is part of
    it."""
    return ("-DHEADWISE_PYTHON=ON",) if HEADER.exists() else ()


@functools.cache
def why_not():
    """What is absent for its tests, or ""."""
    if not HEADER.exists():
        return "no pybind11-dev"
    code = subprocess.run([PYTHON, "-c", "import numpy, pytest"],
                          capture_output=True, check=False).returncode
    return "no python3-numpy or python3-pytest" if code else ""


def run(stage, folder, *arguments):
    """The tests; what they skip is told."""
    code, output = stage.run(
        PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider",
        *arguments, ROOT / "tests" / "python", may_fail=True,
        env={"PYTHONPATH": str(folder / "python"),
             "PYTHONDONTWRITEBYTECODE": "1",
             "HEADWISE_PROGRAM": str(folder / "apps/headwise/headwise")})
    count = counted(output)
    for line in output.splitlines():
        if line.startswith("SKIPPED"):
            print("  " + line)
    if code:
        count.failed = max(count.failed, 1)
        raise Failed(output, count)
    return count


def counted(output):
    """Of pytest's last line."""
    lines = output.strip().splitlines() or [""]

    def number(word):
        found = re.search(rf"(\d+) {word}", lines[-1])
        return int(found[1]) if found else 0
    return Count(number("passed"), number("failed") + number("error"),
                 number("skipped"))
