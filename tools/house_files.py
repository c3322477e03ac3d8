"""Which files the project has, and hashes of what a check depends on."""
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess


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


def hashes(root):
    return {name: hash_file(os.path.join(root, name)) for name in listed(root)}


@functools.lru_cache(maxsize=None)
def toolchain():
    """Versions of the compilers and checkers."""
    return [run(tool, "--version") for tool in
            ("g++", "cmake", "clang-format", "clang-tidy")]


def tidy_keys(root, build):
    """(source, key) of each C++ source that ships; the key changes with the
    source, the headers of ours that it includes, and its flags."""
    commands = {
        re.search(r" -o (\S+)", entry["command"])[1]: entry
        for entry in json.loads((build / "compile_commands.json").read_text())
        if re.search(r"(?<!_test)\.cc$", entry["file"])}
    rules = hash_file(str(root / ".clang-tidy"))
    # "object: #deps N, …" and then one indented path a line.
    for block in run("ninja", "-C", str(build), "-t", "deps").split("\n\n"):
        lines = block.strip().splitlines()
        if not lines or not re.match(r"\S+: #deps", lines[0]):
            continue
        entry = commands.get(lines[0].split(": #deps")[0])
        if entry is None:
            continue
        text = rules + entry["command"] + json.dumps(toolchain())
        for line in sorted(lines[1:]):
            path = os.path.normpath(os.path.join(build, line.strip()))
            if path.startswith(f"{root}/") and os.path.exists(path):
                text += path + hash_file(path)
        yield entry["file"], hashlib.sha256(text.encode()).hexdigest()
