"""clang-tidy in batches: many sources in one translation unit.

Most of clang-tidy's time goes into the standard library's headers, which a
batch reads once. Names that clash are told apart. A batch of which nothing is
said passes; another is split, down to one source. Kernels, which Highway
includes once for each instruction set, are alone from the start.
"""
import collections
import re
import shlex

import house_files

# Three times as many save a third where all goes well, and lose it where names
# clash in ways that are not seen beforehand.
SIZE = 16
# The name in a line that begins a definition: a type, a function, a constant.
DEFINED = re.compile(r"^(?=\w)[\w:<>,&*\[\]() ]*?[ &*]([A-Za-z]\w*)"
                     r"(?= ?[({=;\[]| : | final)", re.M)


def is_alone(source):
    return "foreach_target.h" in source.read_text(encoding="utf-8")


def flags(command):
    """A compile command without its compiler, its source and its object."""
    words = shlex.split(command)
    for flag in ("-o", "-c"):
        at = words.index(flag)
        del words[at:at + 2]
    return [word for word in words if word.startswith("-")
            or words[words.index(word) - 1] == "-isystem"]


def batches(build, todo):
    """(sources with keys, flags) of what can be looked at together."""
    commands = house_files.compile_commands(build)
    groups = collections.defaultdict(list)
    for source, key in todo:
        words = flags(commands[source])
        where = str(source) if is_alone(source) else " ".join(words)
        groups[where].append((source, key, words))
    for found in groups.values():
        for at in range(0, len(found), SIZE):
            part = found[at:at + SIZE]
            yield [item[:2] for item in part], part[0][2]


def look(stage, build, part, words):
    """Looks at sources together: (key, exit code, output) of each."""
    if len(part) == 1:
        source, key = part[0]
        return [(key, *stage.run("clang-tidy", "--quiet", "-p", build, source,
                                 may_fail=True))]
    folder = build / "batches"
    folder.mkdir(exist_ok=True)
    path = folder / f"{part[0][1]}.cc"
    clashes = likely_clashes([source for source, _ in part])
    while True:
        path.write_text(together([source for source, _ in part], clashes))
        code, output = stage.run(
            "clang-tidy", "--quiet", "--checks=-bugprone-suspicious-include",
            path, "--", *words, "-ferror-limit=0", may_fail=True)
        if not code:
            return [(key, 0, output) for _, key in part]
        more = set(re.findall(r"redefinition of '(\w+)'", output)) - clashes
        if not more:
            break
        clashes |= more
    return [result for smaller in split(part, output)
            for result in look(stage, build, smaller, words)]


def own_names(source):
    """What a source defines in namespaces without a name."""
    return set(DEFINED.findall("".join(re.findall(
        r"^namespace \{$(.*?)^\}  // namespace$",
        source.read_text(encoding="utf-8"), re.M | re.S))))


def likely_clashes(sources):
    """Names that several sources define for themselves."""
    seen = collections.Counter(name for source in sources
                               for name in own_names(source))
    return {name for name, count in seen.items() if count > 1}


def together(sources, clashes):
    """One source that includes others, in each of which the names that clash
    are its own: where it defines them, or, where nobody is seen to, in all.
    What they include comes first, with its names as they are."""
    lines = {line: None for source in sources for line in re.findall(
        r"^#include .*", source.read_text(encoding="utf-8"), re.M)}
    text = "".join(f"{line}\n" for line in lines) if clashes else ""
    owned = [own_names(source) for source in sources]
    of_nobody = clashes.difference(*owned)
    for number, (source, own) in enumerate(zip(sources, owned)):
        names = sorted(clashes & own | of_nobody)
        text += "".join(f"#define {name} {name}_{number}\n" for name in names)
        text += f'#include "{source}"\n'
        text += "".join(f"#undef {name}\n" for name in names)
    return text


def split(part, output):
    """Smaller parts: each of whom something was said, and the others."""
    said = set(re.findall(r"^(\S+?):\d+:\d+: error:", output, re.M))
    named = [[item] for item in part if str(item[0]) in said]
    others = [item for item in part if [item] not in named]
    if named:
        return named + [others] * bool(others)
    return [part[:len(part) // 2], part[len(part) // 2:]]
