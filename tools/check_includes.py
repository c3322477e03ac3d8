#!/usr/bin/env python3
"""Fails where a source names what none of the headers it includes declares.

Most builds compile many sources at once (HEADWISE_UNITY), where one lives on
the includes of another. This reads each alone: a name that some header of the
house declares must stand in a file that the source includes, itself or by
others. A forward declaration does not count where the source needs more, which
is taken to be always. Headers and sources alike include what they name of the
standard library, which builds precompile. Usage: tools/check_includes.py [ROOT]
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

# What the standard library declares where, as far as we name it.
STANDARD = {name: header for header, names in {
    "algorithm": "all_of any_of copy copy_if copy_n count_if fill fill_n "
                 "find_if lower_bound max max_element min min_element "
                 "nth_element remove_if replace reverse sort stable_sort "
                 "transform unique upper_bound",
    "array": "array to_array", "atomic": "atomic atomic_ref",
    "bit": "bit_cast bit_ceil bit_width countr_zero has_single_bit popcount",
    "charconv": "from_chars to_chars",
    "cmath": "acos cbrt ceil copysign cos erf exp expm1 floor fma hypot isfinite "
             "isinf isnan ldexp lgamma log log10 log1p log2 lround pow round sin "
             "sqrt tanh trunc",
    "condition_variable": "condition_variable", "cstring": "memchr memcmp memcpy "
    "memset strlen", "deque": "deque", "exception": "current_exception "
    "exception_ptr rethrow_exception", "filesystem": "filesystem",
    "fstream": "ifstream ofstream", "functional": "function",
    "future": "async future", "limits": "numeric_limits", "map": "map multimap",
    "memory": "make_shared make_unique shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag scoped_lock unique_lock",
    "numbers": "numbers", "numeric": "accumulate inner_product iota partial_sum",
    "optional": "nullopt optional", "queue": "priority_queue queue",
    "set": "multiset set", "span": "span", "sstream": "istringstream "
    "ostringstream stringstream", "stop_token": "stop_source stop_token",
    "string": "getline stod stoi stoll string to_string",
    "string_view": "string_view", "system_error": "error_code system_error",
    "thread": "jthread thread", "tuple": "tie tuple", "type_traits":
    "conditional_t decay_t enable_if_t is_same_v remove_cvref_t",
    "unordered_map": "unordered_map", "unordered_set": "unordered_set",
    "utility": "exchange pair swap", "variant": "monostate variant visit",
    "vector": "vector"}.items() for name in names.split()}
STANDARD_NAME = re.compile(r"\bstd::(?:ranges::)?(\w+)")
STANDARD_INCLUDE = re.compile(r"^#include <([a-z_]+)>", re.M)
# Headers that hold others, by the standard or in every library.
HOLDS = {"filesystem": {"system_error"}, "map": {"utility"}, "string": {"string_view"}, "unordered_map":
         {"utility"}}


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

    @functools.lru_cache(maxsize=None)
    def standard(self, path):
        """The standard headers that a file names itself."""
        found = set(STANDARD_INCLUDE.findall(path.read_text(encoding="utf-8")))
        return found.union(*(HOLDS.get(name, ()) for name in found))

    def missing_standard(self, path):
        """(name, header) of what a file names of the standard library."""
        known = self.standard(path).union(*map(self.standard,
                                               self.reached(path)))
        named = STANDARD_NAME.findall(code(path.read_text(encoding="utf-8")))
        for name in sorted(set(named)):
            if STANDARD.get(name, "cstddef") not in known | {"cstddef"}:
                yield name, STANDARD[name]

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
        for name, header in house.missing_standard(source):
            bad += 1
            print(f"{source.relative_to(root)}: expected #include <{header}> "
                  f"for std::{name}; found none")
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
