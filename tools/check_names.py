#!/usr/bin/env python3
"""Fails where two files define a type of one name in one namespace.

The linker takes one of the two for both, in silence. Types of an unnamed
namespace belong to their file and may share names. Contents of namespaces are
not indented here (clang-format), so a line's beginning tells its depth.
Usage: tools/check_names.py [ROOT]
"""
import collections
import pathlib
import re
import sys

import house_files

OPEN = re.compile(r"namespace ?([\w:]*) ?\{")
CLOSE = re.compile(r"\}  // namespace")
TYPE = re.compile(r"(?:struct|class|enum class|enum)\s+(?:HEADWISE_API\s+)?"
                  r"([\w:]+)\b[^;()]*\{")


def types_of(text):
    """Names, with their namespaces, of the types that a file defines."""
    spaces = []
    for line in text.splitlines():
        if (opened := OPEN.match(line)):
            spaces.append(opened[1])
        elif CLOSE.match(line) and spaces:
            spaces.pop()
        elif (found := TYPE.match(line)) and "" not in spaces:
            yield "::".join(spaces + [found[1]])


def twins(files):
    """{type: files} of the types that several of {file: text} define."""
    homes = collections.defaultdict(set)
    for name, text in files.items():
        for one in types_of(text):
            homes[one].add(name)
    return {one: sorted(names) for one, names in sorted(homes.items())
            if len(names) > 1}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    files = {name: (root / name).read_text(encoding="utf-8")
             for name in house_files.listed(root)
             if name.endswith((".h", ".cc", ".cuh", ".cu")) and
             name.startswith(("src/", "include/", "apps/"))}
    found = twins(files)
    for one, names in found.items():
        print(f"{one} is defined in {' and '.join(names)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
