"""The module in C++ as a library among others."""
import shutil
import subprocess

import pytest

from headwise import _headwise


def test_it_shows_how_python_starts_it_and_nothing_else():
    """Not the C++ library either, which some compilers put into it: other
    libraries of the process would take that for theirs."""
    if not shutil.which("nm"):
        pytest.skip("NOTHING WAS CHECKED: no nm (Debian: binutils)")
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", _headwise.__file__],
        text=True, capture_output=True, check=True).stdout
    assert [line.split()[0] for line in shown.splitlines()] == [
        "PyInit__headwise"]
