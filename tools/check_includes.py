#!/usr/bin/env python3
"""Fails where a source names what none of the headers it includes declares.

Most builds compile many sources at once (HEADWISE_UNITY), where one lives on
the includes of another. This reads each alone: a name that some header of the
house declares must stand in a file that the source includes, itself or by
others. A forward declaration does not count where the source needs more, which
is taken to be always. Usage: tools/check_includes.py [ROOT]
"""
import collections
import functools
import pathlib
import re
import sys

import house_files

FOLDERS = ("include/", "src/", "apps/", "tests/", "python/", "examples/")
# Words that are no names: comments, text, includes.
NO_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|"
                     r'"(?:\\.|[^"\\\n])*"|^#include[^\n]*|'
                     r"^(?:TYPED_)?TEST\w*\([^)]*\)", re.S | re.M)
# Not of another namespace, nor members.
NAME = re.compile(r"(?<![\w.~:])(?<!->)(k?[A-Z]\w+)\b")
FORWARD = re.compile(r"^\s*(?:class|struct|enum class)(?: HEADWISE_API)? "
                     r"(\w+)(?: : \w+)?;", re.M)
# What stands at the beginning of a line begins a declaration here
# (clang-format does not indent namespaces).
DECLARED = re.compile(
    r"^(?:template <[^\n]*>\s+)?(?:\[\[\w+\]\]\s+)?"
    r"(?!using namespace|namespace|return|friend|#)"
    r"(?:\w[\w:<>,&*\[\] ]*?[ &*\n])(k?[A-Z]\w+)(?= ?[({=;\[]| : | final)",
    re.M)
# A member, a local name, the second of two constants.
MEMBER = re.compile(r"(?:[\w>&*\]]|(?<=\d),) +&?\*?\[?"
                    r"(k?[A-Z]\w+)(?= ?[({=;,\]])")


def code(text):
    return NO_CODE.sub(" ", text)


class House:
    """The files of the house, read once."""

    def __init__(self, root):
        self.root = root
        self.files = [root / name for name in house_files.listed(root)
                      if name.startswith(FOLDERS) and
                      name.endswith((".h", ".cc"))]
        # What a source could get from those it is compiled with.
        self.near = collections.defaultdict(set)
        for path in self.files:
            if path.suffix == ".cc":
                self.near[self.layer(path)] |= self.reached(path)
        self.homes = collections.defaultdict(set)
        for path in self.files:
            if path.suffix == ".h":
                for name in DECLARED.findall(self.code(path)):
                    self.homes[name].add(path)

    @functools.lru_cache(maxsize=None)
    def code(self, path):
        return FORWARD.sub("", code(path.read_text(encoding="utf-8")))

    @functools.lru_cache(maxsize=None)
    def words(self, path):
        return set(re.findall(r"\w+", self.code(path)))

    def layer(self, source):
        """Where the sources are that may be compiled with one."""
        return (source.relative_to(self.root).parent.parts[:3],
                source.stem.endswith("_test"))

    def reached(self, source):
        """The files that a source includes, itself or by others."""
        return set(house_files.all_includes(self.root, source)) - {source}

    def missing(self, source):
        """(name, where it is declared) of what a source names without the
        header."""
        text = self.code(source)
        reached = self.reached(source)
        own = set(DECLARED.findall(text)) | set(MEMBER.findall(text))
        for name in sorted(set(NAME.findall(text)) - own):
            homes = self.homes[name] & self.near[self.layer(source)]
            if homes and not any(name in self.words(path) for path in reached):
                yield name, min(homes)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    house, bad = House(root), 0
    for source in house.files:
        if source.suffix != ".cc":
            continue
        for name, home in house.missing(source):
            bad += 1
            print(f"{source.relative_to(root)}: expected an #include of what "
                  f"declares {name}; found none; "
                  f"{home.relative_to(root)} does")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
