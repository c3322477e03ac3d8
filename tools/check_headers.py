"""Headers that must compile alone: without a source that included other
things first.

Most of the time would go into what they include. It is precompiled in a few
sets, and a header is read after one that holds only what it includes itself
(header_sets.py). Where that fails, the header is read once more with nothing
before it, and that decides.
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
    """(key, command, includes that may be precompiled) of what is to be looked
    at, and how many need a CUDA that is not here."""
    commands = {source: command for source, command
                in house_files.compile_commands(build).items()
                if not source.name.endswith("_test.cc")}
    folders = {header: cuda_folder(header) for header in headers(root)}
    looked_at = {header for header, cuda in folders.items() if cuda != ""}
    found = []
    for header in sorted(looked_at):
        command = alone(header, nearest_command(header, commands))
        wanted = header_sets.wanted(root, header, looked_at)
        if folders[header]:
            command.insert(1, f"-I{folders[header]}")
            wanted = frozenset()
        all_commands = [command]
        if header.is_relative_to(root / "include"):
            all_commands += abroad(root, header)
        found += [(house_files.key_of(root, header, one), one, wanted)
                  for one in all_commands]
    return found, len(folders) - len(looked_at)


def shared_flags(command):
    """The compiler and flags of a command that precompiled headers depend on:
    neither Highway's macros, which none of them sees, nor how much is
    optimized. The compiler refuses what was written with others."""
    words = command[:command.index("-include")]
    kept = [word for word in words
            if not word.startswith(("-DHWY_", "-O", "-fsyntax-only"))]
    level = [word for word in words if word.startswith("-O")][-1:]
    return (*kept, *(re.sub("-O[123]", "-O1", word) for word in level))


@contextlib.contextmanager
def precompiled(stage, build, todo):
    """Precompiles what jobs have in common, for as long as they run: {flags:
    {set of includes: file that has them}}."""
    groups = collections.defaultdict(list)
    for _, command, wanted in todo:
        groups[shared_flags(command)].append(wanted)
    folder = build / "headers"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    files, writing = {}, []
    for flags, wants in groups.items():
        files[flags] = {}
        for names in header_sets.chosen(wants):
            path = folder / f"{len(writing)}.h"
            path.write_text("".join(f"#include {name}\n"
                                    for name in sorted(names)))
            files[flags][names] = path
            writing.append([*flags, "-x", "c++-header", path, "-o",
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
    known = files[shared_flags(command)]
    names = header_sets.best_of(known, wanted)
    if names:
        at = command.index("-include")
        code, output = stage.run(
            *command[:at], "-Winvalid-pch", "-include", known[names],
            *command[at:], cwd=build, may_fail=True)
        if not code:
            return [(key, code, output)]
    return [(key, *stage.run(*command, cwd=build, may_fail=True))]
