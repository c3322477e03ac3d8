"""Headers that must compile alone: without a source that included other
things first; and the operator's sources, which other projects may compile one by
one (HEADWISE_UNITY=OFF).

Public headers are read with nothing before them, by both compilers. The others
are read after the standard library, which is precompiled once: most of the time
would go into it.
"""
import os
import pathlib
import re
import shlex
import shutil

import house_files

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


def standard_headers(root):
    """The headers of the standard library that the house includes."""
    found = set()
    for name in house_files.listed(root):
        if name.startswith(FOLDERS) and name.endswith((".h", ".cc")):
            found |= set(re.findall(r"^#include <([a-z_]+)>", (
                root / name).read_text(encoding="utf-8"), re.M))
    return sorted(found)


def precompiled(stage, root, build, reader):
    """Precompiles the standard library for a reader: the flags that use it."""
    folder = build / "headers"
    folder.mkdir(exist_ok=True)
    header = folder / "standard.h"
    header.write_text("".join(f"#include <{name}>\n"
                              for name in standard_headers(root)))
    flags = [flag for flag in reader if flag != "-fsyntax-only"]
    stage.run(*flags, "-x", "c++-header", header, "-o", f"{header}.gch")
    return ["-include", header]


def jobs(stage, root, build):
    """(key, command) of what is to be looked at, and how many need a CUDA that
    is not here."""
    every = [*headers(root), *operator_sources(root)]
    looked_at = [path for path in every if not needs_absent(path)]
    reader = (*READER, *include_folders(
        house_files.compile_commands(build).values()))
    inside = [*reader, *precompiled(stage, root, build, reader)]
    found = []
    for path in looked_at:
        commands = abroad(root, path) if path.is_relative_to(root / "include") \
            else [alone(inside, path)]
        found += [(house_files.key_of(root, path, list(map(str, command))),
                   command) for command in commands]
    return found, len(every) - len(looked_at)
