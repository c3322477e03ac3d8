"""Which files the project has, and hashes of what a check depends on."""
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess

# Where an #include "…" of the house may point, besides the file's own folder.
INCLUDE_FOLDERS = ("include", "src", "apps/headwise", "tests/integration")


def run(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True,
                          text=True).stdout


def listed(root):
    """Paths of all files that are tracked or new, and not ignored."""
    # Another user's checkout is read all the same.
    names = run("git", "-c", "safe.directory=*", "ls-files", "-co",
                "--exclude-standard", "-z", cwd=root)
    return sorted({name for name in names.split("\0")
                   if name and os.path.isfile(os.path.join(root, name))})


@functools.lru_cache(maxsize=None)
def hash_file(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def hash_text(*parts):
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def hashes(root):
    return {name: hash_file(os.path.join(root, name)) for name in listed(root)}


@functools.lru_cache(maxsize=None)
def toolchain():
    """Versions of the compilers and checkers."""
    return [run(tool, "--version") for tool in
            ("g++", "cmake", "clang-format", "clang-tidy")]


def resolve(root, source, name):
    """The file of the house that an #include "name" in source means, or
    None."""
    for folder in (source.parent, *(root / part for part in INCLUDE_FOLDERS)):
        path = pathlib.Path(os.path.normpath(folder / name))
        if path.is_file():
            return path
    return None


@functools.lru_cache(maxsize=None)
def includes(root, source):
    """The files of the house that a file names in its #includes, whatever
    #if they stand under."""
    names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', source.read_text(
        encoding="utf-8", errors="replace"), re.M)
    found = (resolve(root, source, name) for name in names)
    return tuple(path for path in found if path)


def all_includes(root, source):
    """A file and all of the house that it includes, sorted."""
    seen, todo = {source}, [source]
    while todo:
        for path in includes(root, todo.pop()):
            if path not in seen:
                seen.add(path)
                todo.append(path)
    return sorted(seen)


def key_of(root, source, *more):
    """Changes with a file, with what it includes of the house, with the
    toolchain, and with more."""
    return hash_text(toolchain(), *more, *(
        [str(path), hash_file(str(path))]
        for path in all_includes(root, source)))


def compile_commands(build):
    """path: command of each source in a compile database."""
    database = json.loads((build / "compile_commands.json").read_text())
    return {pathlib.Path(entry["file"]): entry["command"]
            for entry in database}


def tidy_keys(root, build):
    """(source, key) of what clang-tidy looks at: what is compiled together,
    and what alone, but for stand-ins of what is absent. The key changes with
    the sources, the headers of ours that they include, and the flags."""
    ours = {root / name for name in listed(root)}
    rules = hash_file(str(root / ".clang-tidy"))
    for source, command in sorted(compile_commands(build).items()):
        if source.parent.name == "Unity" or source in ours and not any(
                part.startswith("no_") for part in source.parts):
            yield source, key_of(root, source, rules, command)
