"""Headers that must compile alone: without a source that included other
things first, and without precompiled headers."""
import os
import pathlib
import re
import shlex
import shutil

import house_files

FOLDERS = ("include/", "src/", "apps/")
# Public headers are compiled by strangers, who may be stricter than we are.
COMPILERS = ("g++", "clang++")
STRICT = ("-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow",
          "-Wsign-conversion", "-Werror", "-fsyntax-only")


def headers(root):
    return [root / name for name in house_files.listed(root)
            if name.startswith(FOLDERS) and name.endswith(".h")]


def nearest_command(header, commands):
    """The command of the source that stands nearest to a header."""
    def distance(source):
        shared = os.path.commonpath([header, source])
        return (len(source.parts) - len(pathlib.Path(shared).parts) +
                len(header.parts) - len(pathlib.Path(shared).parts))

    return commands[min(sorted(commands), key=distance)]


def alone(header, command):
    """Turns a source's command into one that reads a header and writes
    nothing. A compiler cache in front of it could answer nothing."""
    words = shlex.split(command)
    if os.path.basename(words[0]) == "ccache":
        del words[0]
    for flag in ("-o", "-c"):
        at = words.index(flag)
        del words[at:at + 2]
    return [*words, "-Werror", "-fsyntax-only", "-include", str(header), "-x",
            "c++", os.devnull]


def abroad(root, header):
    """Commands that read a public header with nothing of our build."""
    return [[compiler, *STRICT, f"-I{root / 'include'}", "-include",
             str(header), "-x", "c++", os.devnull]
            for compiler in COMPILERS if shutil.which(compiler)]


def cuda_folder(header):
    """What a header of CUDA or NCCL needs besides: a folder, None when it
    needs none, "" when it is not here."""
    foreign = re.findall(r"^#include <((?:cu|nccl)\w*\.h)>",
                         header.read_text(), re.M)
    if "cuda" not in header.parts and not foreign:
        return None
    folder = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"),
                          "include")
    is_here = folder.exists() and all((folder / name).exists()
                                      for name in foreign)
    return str(folder) if is_here else ""


def jobs(root, build):
    """(key, command) of what is to be looked at, and how many need a CUDA that
    is not here."""
    commands = {source: command for source, command
                in house_files.compile_commands(build).items()
                if not source.name.endswith("_test.cc")}
    absent, found = 0, []
    for header in headers(root):
        command = alone(header, nearest_command(header, commands))
        cuda = cuda_folder(header)
        if cuda == "":
            absent += 1
            continue
        if cuda:
            command.insert(1, f"-I{cuda}")
        found.append((house_files.key_of(root, header, command), command))
        if header.is_relative_to(root / "include"):
            found += [(house_files.key_of(root, header, strict), strict)
                      for strict in abroad(root, header)]
    return found, absent
