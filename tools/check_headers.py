"""Headers that must compile alone: without a source that included other
things first; and the operator's sources, which other projects may compile one by
one (HEADWISE_UNITY=OFF).

Most of the time would go into what they include. It is precompiled in a few
sets, and a header is read after one that holds only what it includes itself
(header_sets.py). Where that fails, the header is read once more with nothing
before it, and that decides. clang reads them all: its precompiled headers cost a
reader only what it uses.
"""
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shlex
import shutil

import header_sets
import house_files
from stage import JOBS

FOLDERS = ("include/", "src/", "apps/")
OPERATOR = tuple(f"src/headwise/{layer}/"
                 for layer in ("base", "backend", "tensor", "ops", "nn"))
READER = ("clang++", "-std=c++20", "-Wall", "-Wextra", "-Wshadow",
          "-Wno-unused-parameter", "-Werror", "-fsyntax-only")
# Public headers are compiled by strangers, who may be stricter than we are.
COMPILERS = ("g++", "clang++")
STRICT = ("-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
          "-Wsign-conversion", "-Werror", "-fsyntax-only")
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")


def headers(root):
    return [root / name for name in house_files.listed(root)
            if name.startswith(FOLDERS) and name.endswith(".h")]


def operator_sources(root):
    """What ships of them and is else compiled together; kernels never are, and
    those of CUDA have a stage of their own."""
    for name in house_files.listed(root):
        if name.startswith(OPERATOR) and name.endswith(".cc") and \
                not name.endswith(("_test.cc", "_bench.cc")) and \
                "/cuda/" not in name:
            text = (root / name).read_text(encoding="utf-8")
            if "foreach_target.h" not in text and "<arm_neon.h>" not in text:
                yield root / name


def include_folders(commands):
    """The flags by which any of these compile commands finds headers, and
    CUDA's."""
    found = {f"-I{CUDA}"} if CUDA.exists() else set()
    for command in commands:
        words = shlex.split(command)
        for at, word in enumerate(words):
            if word.startswith("-I"):
                found.add(word)
            elif word == "-isystem":
                found.add(f"-I{words[at + 1]}")
    return sorted(found)


def alone(compiler, header):
    """A command that reads a header and writes nothing."""
    return [*compiler, "-include", str(header), "-x", "c++", os.devnull]


def abroad(root, header):
    """Commands that read a public header with nothing of our build."""
    return [alone((compiler, *STRICT, f"-I{root / 'include'}"), header)
            for compiler in COMPILERS if shutil.which(compiler)]


def needs_absent(header):
    """Whether a header is of CUDA or NCCL, of which something is not here."""
    foreign = re.findall(r"^#include <((?:cu|nccl)\w*\.h)>",
                         header.read_text(encoding="utf-8"), re.M)
    if "cuda" not in header.parts and not foreign:
        return False
    return not CUDA.exists() or any(not (CUDA / name).exists()
                                    for name in foreign)


def jobs(root, build):
    """(key, command, includes that may be precompiled) of what is to be looked
    at, and how many need a CUDA that is not here."""
    every = [*headers(root), *operator_sources(root)]
    looked_at = {header for header in every if not needs_absent(header)}
    reader = (*READER, *include_folders(
        house_files.compile_commands(build).values()))
    found = []
    for header in sorted(looked_at):
        commands = [alone(reader, header)]
        if header.is_relative_to(root / "include"):
            commands += abroad(root, header)
        wanted = header_sets.wanted(root, header, looked_at)
        found += [(house_files.key_of(root, header, command), command,
                   wanted if command[0] == READER[0] else frozenset())
                  for command in commands]
    return found, len(every) - len(looked_at)


def compiler_of(command):
    """The compiler and flags of a command that reads a header."""
    words = command[:command.index("-include")]
    return tuple(word for word in words if word != "-fsyntax-only")


@contextlib.contextmanager
def precompiled(stage, build, todo):
    """Precompiles what jobs have in common, for as long as they run: {compiler:
    {set of includes: file that has them}}."""
    groups = collections.defaultdict(list)
    for _, command, wanted in todo:
        groups[compiler_of(command)].append(wanted)
    folder = build / "headers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files, writing = {}, []
    for compiler, wants in groups.items():
        files[compiler] = {}
        for names in header_sets.chosen(wants):
            path = folder / f"{len(writing)}.h"
            path.write_text("".join(f"#include {name}\n"
                                    for name in sorted(names)))
            files[compiler][names] = path
            writing.append([*compiler, "-x", "c++-header", path, "-o",
                            f"{path}.gch"])
    try:
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(lambda command: stage.run(*command, may_fail=True),
                          writing))
        yield files
    finally:
        shutil.rmtree(folder)


def look(stage, build, job, files):
    """Looks at one header: (key, exit code, output)."""
    key, command, wanted = job
    known = files[compiler_of(command)]
    names = header_sets.best_of(known, wanted)
    if names:
        at = command.index("-include")
        code, output = stage.run(
            *command[:at], "-include", known[names], *command[at:], cwd=build,
            may_fail=True)
        if not code:
            return [(key, code, output)]
    return [(key, *stage.run(*command, cwd=build, may_fail=True))]
