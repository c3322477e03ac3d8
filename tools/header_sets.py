"""Which headers are worth precompiling for others that must compile alone.

What is precompiled for a header has to hide nothing: it holds only headers of
the standard library and of ours that the header includes in any case, itself or
by way of others of ours, each of which is looked at alone too. Only the
includes with which a file begins count: no #if, no #define and no code comes
before them. What else is foreign is never in a set.
"""
import collections
import functools
import itertools
import os
import pathlib
import re
import subprocess

import house_files

INCLUDE = re.compile(r'#include ([<"])([^<>"]+)[>"]\s*(?://.*)?')
STANDARD = re.compile(r"[a-z_]+")
# To write a precompiled header and to read it, where to parse it is 1.
WRITING, READING = 1.2, 0.05
# A byte of ours, with the templates it names, where one of the library is 1.
OURS = 12


@functools.lru_cache(maxsize=None)
def opening(root, path):
    """What a file includes before anything else: standard headers, as <name>,
    and files of the house, as "path". Ends before what is neither."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        include = INCLUDE.fullmatch(line)
        if include:
            ours = house_files.resolve(root, path, include[2])
            is_standard = include[1] == "<" and STANDARD.fullmatch(include[2])
            if bool(ours) == bool(is_standard):
                break
            found.append(f'"{ours}"' if ours else f"<{include[2]}>")
        elif line.strip() and not line.startswith("//") and \
                line != "#pragma once":
            break
    return tuple(found)


def wanted(root, header, looked_at):
    """What a header includes in any case, itself or by way of others that are
    looked at alone. Nothing if it includes itself: another would then see less
    of it than alone."""
    found, todo = set(), [header]
    while todo:
        for one in opening(root, todo.pop()):
            path = pathlib.Path(one.strip('"'))
            if path == header:
                return frozenset()
            if one.startswith('"') and path not in looked_at:
                break
            if one.startswith('"') and one not in found:
                todo.append(path)
            found.add(one)
    return frozenset(found)


@functools.lru_cache(maxsize=None)
def reads(name):
    """The files that a standard header reads, itself among them."""
    rule = subprocess.run(
        ("g++", "-std=c++20", "-M", "-x", "c++", "-"), text=True, check=False,
        input=f"#include {name}\n", capture_output=True).stdout
    return frozenset(os.path.normpath(word) for word in rule.split()
                     if word.startswith("/"))


@functools.lru_cache(maxsize=None)
def cost(names):
    """About what it takes to parse headers: the bytes they read."""
    ours = [name.strip('"') for name in names if name.startswith('"')]
    files = frozenset().union(*(reads(name) for name in names
                                if name.startswith("<")))
    return (sum(map(os.path.getsize, files)) +
            OURS * sum(map(os.path.getsize, ours)))


def candidates(counts):
    """Sets of which several headers want all."""
    found = {one & other for one, other in
             itertools.combinations_with_replacement(counts, 2)}
    for names in sorted(found, key=sorted):
        fits = [one for one in counts if names <= one]
        if names and sum(counts[one] for one in fits) > 1:
            yield names, fits


def chosen(wants, price=cost):
    """The sets to precompile for headers, given what each wants: time and
    again the one that saves most."""
    counts = collections.Counter(wants)
    offers = {names: (fits, price(names))
              for names, fits in candidates(counts)}
    saved, found = collections.Counter(), []

    def gain(names):
        fits, parsing = offers[names]
        each = (1 - READING) * parsing
        return sum(max(0, each - saved[one]) * counts[one]
                   for one in fits) - WRITING * parsing

    while offers:
        best = max(offers, key=gain)
        if gain(best) <= 0:
            break
        fits, parsing = offers.pop(best)
        for one in fits:
            saved[one] = max(saved[one], (1 - READING) * parsing)
        found.append(best)
    return found


def best_of(sets, names, price=cost):
    """Which of the sets saves a header most that wants these names, or None."""
    return max((one for one in sets if one <= names), key=price, default=None)
