#!/usr/bin/env python3
"""Fails when a folder includes sideways or upward.

The order of the layers is LAYERS and HEADS below; public headers belong to the
layer that PUBLIC gives them. Also: public headers include only each other and
the standard library, examples include only public headers, the program takes
from inside what APPS_INSIDE lists, neither files nor folders include in a
circle, and the layers of ANY_DEVICE leave memory to the operators. Usage: tools/check_layers.py [ROOT]
"""
import fnmatch
import pathlib
import posixpath
import re
import sys

# Bottom to top; folders of one row may not include each other.
LAYERS = [
    ["base"],
    ["backend"],
    ["tensor"],
    ["dist"],
    ["ops"],
    ["format", "tokenizer"],
    ["nn"],
    ["model"],
    ["runtime", "train"],
    ["heads"],
    ["study", "export"],
    ["drawing"],
    ["server"],
    ["api"],  # the public doors of the whole engine: model.h, rank.h, …
    ["report"],  # runs the doors
    ["library"],  # src/headwise/library.cc: all layers as one object
    ["apps", "python", "bench"],
]
HEADS = [
    ["profile"],
    ["similarity", "composition", "atlas"],
    ["importance"],
    ["roles"],
    ["pruning"],
]
# Layers that run on any device: they do not reach into memory as the host's
# (As<T>, Raw<T>), and include nothing of the CPU's backend. Their tests and
# benchmarks may.
ANY_DEVICE = ["nn", "model", "runtime", "train"]
# What files of these layers do with the host itself, whatever the device.
HOST_BY_PURPOSE = {
    # Text is read and cut into tokens by the host's threads.
    "src/headwise/train/corpus.cc": {"headwise/backend/cpu/thread_pool.h"},
}
# Layers that count on the host what operators leave them: of the CPU's backend
# they take its threads alone, and only in these files. A new one needs a
# reason why no operator does the work.
HOST_LOOPS = {
    "heads": {
        "heads/atlas/atlas_observer.cc",     # rows, by head
        "heads/profile/rows/core_rows.cc",   # the core's sums, by head
        "heads/profile/rows/reference.cc",   # tallies, by head
        "heads/profile/site_notes.cc",       # what is known of tokens, by window
        "heads/profile/words/positions.cc",  # tokens to words, by head
        "heads/similarity/pattern.cc",       # divergences in f64, by pair
        "heads/similarity/similarity.cc",    # bases in f64, by head
    },
    "study": {"study/support/trained.cc"},  # whole runs beside each other
}
HOST_THREADS = "src/headwise/backend/cpu/thread_pool.h"
# The lowest layer that speaks each public header: its plain structs are filled
# there. Functions that take a Transformer are always of api.
PUBLIC = {
    "atlas.h": "heads",
    "attention.h": "ops",
    "bleu.h": "train",
    "cache.h": "runtime",
    "classify.h": "api",
    "compose.h": "heads",
    "context.h": "backend",
    "device.h": "backend",
    "embed.h": "model",
    "error.h": "base",
    "evaluate.h": "heads",
    "explain.h": "heads",
    "export.h": "base",
    "export_model.h": "export",
    "fields.h": "base",
    "fill.h": "runtime",
    "generate.h": "runtime",
    "head_edit.h": "heads",
    "head_ref.h": "nn",
    "head_weights.h": "api",
    "implementations.h": "ops",
    "loss.h": "heads",
    "memory.h": "base",
    "model.h": "api",
    "model_info.h": "api",
    "multi_head_attention.h": "nn",
    "observation.h": "ops",
    "patch.h": "heads",
    "profile.h": "heads",
    "progress.h": "base",
    "prune.h": "heads",
    "rank.h": "heads",
    "report.h": "api",
    "roles.h": "heads",
    "scale.h": "model",
    "session.h": "api",
    "show.h": "runtime",
    "similar.h": "heads",
    "tensor.h": "tensor",
    "text_input.h": "runtime",
    "tokenizer.h": "tokenizer",
    "train.h": "api",
    "version.h": "base",
    "vocabulary.h": "tokenizer",
    "work_group.h": "dist",
}
# What apps/ takes from inside: the program is built on the public headers. Any
# file of it may take these, which turn results into what people read and files
# into what the library reads.
APPS_SHARED = {
    "headwise/base/atomic_file.h": "files are written whole or not at all",
    "headwise/base/byte_size.h": "\"1.5 MiB\" in messages",
    "headwise/base/fields.h": "flags and words from fields of jobs",
    "headwise/base/json.h": "--json, and lines of JSON that are read",
    "headwise/base/nearest.h": "\"did you mean\", of commands and flags",
    "headwise/drawing/pictures.h": "SVG and pages of results",
    "headwise/drawing/terminal.h": "tables and maps in a terminal",
    "headwise/drawing/text.h": "wrapping, colours and widths",
    "headwise/heads/importance/interval_json.h": "intervals in --json",
}
# The rest by file, with the reason. An entry that is no longer needed fails.
APPS_INSIDE = {
    "apps/headwise/cmd_compare.cc": (
        {"headwise/drawing/compare_report.h",
         "headwise/study/compare/comparison.h",
         "headwise/study/compare/trained_comparison.h"},
        "layers of random weights beside trained ones: for teaching, no door"),
    "apps/headwise/cmd_study.cc": (
        {"headwise/drawing/study_report.h",
         "headwise/study/advice/head_advice.h", "headwise/study/study.h"},
        "claims that run: for teaching, no door"),
    "apps/headwise/study_all.cc": (
        {"headwise/drawing/study_report.h"}, "of study"),
}
# Whole files, by pattern.
APPS_WHOLE = {
    "apps/headwise/bench/*": "measures operators and layers from inside",
}

SOURCES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
# Types of libraries that a public header must not show.
FOREIGN = re.compile(r"\b(hwy::|cuda\w+_t\b|__nv_\w+|nlohmann::|httplib::)")
HOST_MEMORY = re.compile(r"\b(As|Raw)\s*<")
CHECKED_MEMORY = re.compile(r"\bAs\s*<")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def row_of(name, rows):
    for i, row in enumerate(rows):
        if name in row:
            return i
    return None


class Tree:
    """The files of a checkout, what they include and where they stand."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.problems = []
        self.files = {}  # path relative to the root -> text
        for top in ("include/headwise", "src/headwise", "apps", "bench",
                    "examples", "python"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SOURCES and path.is_file():
                    name = path.relative_to(self.root).as_posix()
                    self.files[name] = path.read_text(encoding="utf-8")

    def find(self, includer, kind, target):
        """The file of ours that an include names, or None."""
        if kind == '"':
            beside = posixpath.normpath(
                posixpath.join(posixpath.dirname(includer), target))
            if beside in self.files:
                return beside
        for top in ("include/", "src/"):
            if top + target in self.files:
                return top + target
        return None

    def layer(self, name):
        """(layer, folder under it or '') of a file, or None if it has none."""
        parts = name.split("/")
        if parts[0] == "include":
            layer = PUBLIC.get(parts[-1])
            return (layer, "") if layer else None
        if parts[0] in ("apps", "python", "bench"):
            return (parts[0], "")
        if parts[0] == "src" and len(parts) == 3:
            return ("library", "")
        if parts[0] == "src" and row_of(parts[2], LAYERS) is not None:
            return (parts[2], parts[3] if len(parts) > 4 else "")
        return None

    def edges(self):
        for name, text in self.files.items():
            for match in INCLUDE.finditer(text):
                target = self.find(name, match[1], match[2])
                if target is None and match[2].startswith("headwise/"):
                    self.problem(name, f"includes {match[2]}, which is not there")
                yield name, match[2], target

    def problem(self, name, words):
        self.problems.append(f"{name}: {words}")


def check_order(tree, name, target):
    source, goal = tree.layer(name), tree.layer(target)
    if source is None or goal is None:
        return  # already told by check_places
    rows = [row_of(place[0], LAYERS) for place in (source, goal)]
    if source[0] != goal[0]:
        if rows[1] >= rows[0]:
            way = "upward" if rows[1] > rows[0] else "sideways"
            tree.problem(name, f"{source[0]} includes {way}: {target} "
                               f"({goal[0]})")
    elif source[0] == "heads" and source[1] != goal[1]:
        # A file in heads/ itself is the ground that its folders stand on.
        below = -1 if not goal[1] else row_of(goal[1], HEADS)
        above = -1 if not source[1] else row_of(source[1], HEADS)
        if below is not None and above is not None and below >= above:
            tree.problem(name, f"heads/{source[1]} includes {target}, which "
                               "is not below it")


def check_places(tree):
    for name in tree.files:
        if name.startswith("examples/"):
            continue
        place = tree.layer(name)
        if place is None:
            tree.problem(name, "belongs to no layer; LAYERS or PUBLIC in "
                               "tools/check_layers.py must name it")
        elif place[0] == "heads" and place[1] and \
                row_of(place[1], HEADS) is None:
            tree.problem(name, f"heads/{place[1]} is not in HEADS of "
                               "tools/check_layers.py")


def check_public(tree, name, written, target):
    if target is None:
        if "/" in written or "." in written:
            tree.problem(name, f"a public header includes {written}; only "
                               "public headers and the standard library may be")
    elif not target.startswith("include/"):
        tree.problem(name, f"a public header includes the private {target}")


def check_any_device(tree, name):
    place = tree.layer(name)
    if place is None or place[0] not in ANY_DEVICE or \
            not name.startswith("src/") or \
            pathlib.PurePosixPath(name).stem.endswith(("_test", "_bench")):
        return
    text = tree.files[name]
    if HOST_MEMORY.search(COMMENT.sub("", text)):
        tree.problem(name, f"{place[0]} runs on any device, so it does not "
                           "read memory as the host's (As<>, Raw<>); an operator "
                           "can")
    for match in INCLUDE.finditer(text):
        target = tree.find(name, match[1], match[2])
        if match[2] in HOST_BY_PURPOSE.get(name, ()):
            continue
        if target and target.startswith("src/headwise/backend/cpu/"):
            tree.problem(name, f"{place[0]} runs on any device, so it does "
                               f"not include {match[2]}")


def check_unchecked(tree, name):
    """Operators know type and device of what they run on: As<> would check it
    once more, and turn a GPU's memory down."""
    place = tree.layer(name)
    if place and place[0] == "ops" and name.startswith("src/") and \
            not pathlib.PurePosixPath(name).stem.endswith("_test") and \
            CHECKED_MEMORY.search(COMMENT.sub("", tree.files[name])):
        tree.problem(name, "an operator takes Raw<>; As<> is for the host's "
                           "memory, and checks")


def check_host_loops(tree, name):
    place = tree.layer(name)
    if place is None or place[0] not in HOST_LOOPS or \
            not name.startswith("src/") or \
            pathlib.PurePosixPath(name).stem.endswith("_test"):
        return
    listed = name.removeprefix("src/headwise/") in HOST_LOOPS[place[0]]
    for match in INCLUDE.finditer(tree.files[name]):
        target = tree.find(name, match[1], match[2]) or ""
        if not target.startswith("src/headwise/backend/cpu/") or \
                (listed and target == HOST_THREADS):
            continue
        tree.problem(name, f"{place[0]} leaves memory to Temp and threads to "
                           f"the files of HOST_LOOPS, so it does not include "
                           f"{match[2]}")


def check_apps(tree):
    """The program takes from inside what the tables above list."""
    taken = set()
    for name in tree.files:
        if not name.startswith("apps/") or \
                any(fnmatch.fnmatch(name, p) for p in APPS_WHOLE):
            continue
        for match in INCLUDE.finditer(tree.files[name]):
            target = tree.find(name, match[1], match[2]) or ""
            if not target.startswith("src/") or match[2] in APPS_SHARED:
                continue
            if match[2] in APPS_INSIDE.get(name, ((), ""))[0]:
                taken.add((name, match[2]))
                continue
            tree.problem(name, f"the program takes {match[2]} from inside; "
                               "there is a public header, or APPS_INSIDE of "
                               "tools/check_layers.py gives the reason")
    for name, (headers, _) in APPS_INSIDE.items():
        for header in sorted(headers):
            if name in tree.files and (name, header) not in taken:
                tree.problem(name, f"no longer includes {header}: take it out "
                                   "of APPS_INSIDE in tools/check_layers.py")


def find_circle(graph):
    """One circle of a graph {node: {node}}, as a list of nodes, or None."""
    state = {}
    for start in sorted(graph):
        stack = [(start, iter(sorted(graph.get(start, ()))))]
        if start in state:
            continue
        state[start] = "open"
        while stack:
            node, targets = stack[-1]
            for target in targets:
                if state.get(target) == "open":
                    path = [n for n, _ in stack]
                    return path[path.index(target):] + [target]
                if target not in state:
                    state[target] = "open"
                    stack.append((target,
                                  iter(sorted(graph.get(target, ())))))
                    break
            else:
                state[node] = "done"
                stack.pop()
    return None


def check(root):
    """Every fault of the tree under root, as text."""
    tree = Tree(root)
    check_places(tree)
    files, folders = {}, {}
    for name, written, target in list(tree.edges()):
        if name.startswith("include/"):
            check_public(tree, name, written, target)
        if name.startswith("examples/"):
            if target and not target.startswith(("include/", "examples/")):
                tree.problem(name, f"an example includes the private {target}")
            continue
        if target is None or target == name:
            continue
        check_order(tree, name, target)
        files.setdefault(name, set()).add(target)
        places = tree.layer(name), tree.layer(target)
        # Operators and parts of heads are folders of their own; a folder
        # inside one of them (cpu/, cuda/) belongs to it.
        if all(places) and "include" not in (name[:7], target[:7]):
            ends = ["/".join(p).rstrip("/") if p[0] in ("ops", "heads")
                    else p[0] for p in places]
            if ends[0] != ends[1]:
                folders.setdefault(ends[0], set()).add(ends[1])
    for kind, graph in (("files", files), ("folders", folders)):
        circle = find_circle(graph)
        if circle:
            tree.problem(circle[0], f"{kind} include in a circle: " +
                         " -> ".join(circle))
    check_apps(tree)
    for name, text in tree.files.items():
        check_any_device(tree, name)
        check_host_loops(tree, name)
        check_unchecked(tree, name)
        if name.startswith("include/"):
            found = FOREIGN.search(COMMENT.sub("", text))
            if found:
                tree.problem(name, f"a public header names {found[0]}")
    return sorted(set(tree.problems))


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    problems = check(sys.argv[1] if len(sys.argv) > 1 else default)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
