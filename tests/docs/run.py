#!/usr/bin/env python3
"""Keeps the documents true: every command of README.md runs, its C++ compiles
and runs, its table of studies says what they say, and every relative link of
every document leads somewhere.

Commands are the lines of ```sh blocks. They run in a scratch folder that holds
links to the checkout's entries, so that what they write stays out of it.
Prints "ok", "not ok" or "skip" for each.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
# The whole test runs this one: asking it for its help shows that it is there.
STAND_INS = {"./check": "./check --help"}
TIMEOUT = 120


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def commands(text):
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.split(" # ")[0].strip()
            if line and not line.startswith("#"):
                yield line


def tell(passed, what, output=""):
    print(f"{'ok' if passed else 'not ok'} {what}", flush=True)
    if not passed:
        print("\n".join(f"  {line}" for line in output.splitlines()[-30:]))
    return passed


def try_command(line, folder):
    start = time.monotonic()
    try:
        done = subprocess.run(
            ["bash", "-c", STAND_INS.get(line, line)], cwd=folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as late:
        return tell(False, line, f"no end after {late.timeout} s")
    seconds = time.monotonic() - start
    passed = done.returncode == 0 and done.stdout.strip() != ""
    return tell(passed, f"{line} ({seconds:.1f} s)",
                f"exit code {done.returncode}\n{done.stdout}")


def try_program(source, folder):
    """Compiles a whole program against the public headers, and runs it."""
    path = pathlib.Path(folder, "program.cc")
    path.write_text(source)
    library = BUILD / "src" / "headwise"
    done = subprocess.run(
        f"g++ -std=c++20 -Wall -Wextra -Werror -I{ROOT}/include {path} "
        f"-o {folder}/program -L{library} -lheadwise -Wl,-rpath,{library} "
        f"&& {folder}/program",
        shell=True, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
    return tell(done.returncode == 0, "the README's C++", done.stdout)


def try_study(name, outcome, folder):
    done = subprocess.run(["./headwise", "study", name], cwd=folder, text=True,
                          capture_output=True, timeout=TIMEOUT, check=False)
    return tell(re.search(rf"^{outcome}:", done.stdout, re.M) is not None,
                f"study {name}: {outcome}", done.stdout + done.stderr)


def try_links(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    lost = [target for target in re.findall(
        r"\]\(([^)#\s]+)[^)]*\)|(?:src|href)=\"([^\"#]+)", text)
        for target in target
        if target and not re.match(r"[a-z]+:", target)
        and not (path.parent / target).exists()]
    return tell(not lost, f"links of {path.relative_to(ROOT)}",
                "\n".join(f"leads nowhere: {target}" for target in lost))


def main():
    readme = (ROOT / "README.md").read_text()
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        for entry in ROOT.iterdir():
            if entry.name not in ("build", ".git"):
                os.symlink(entry, pathlib.Path(folder, entry.name))
        for line in commands(readme):
            passed &= try_command(line, folder)
        for name, outcome in re.findall(
                r"^\| `([\w-]+)` \|.*\| (HELD|DID NOT HOLD) \|$", readme,
                re.M):
            passed &= try_study(name, outcome, folder)
        for source in blocks(readme, "cpp"):
            passed &= try_program(source, folder)
    documents = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co",
         "--exclude-standard", "*.md"], cwd=ROOT, text=True,
        capture_output=True, check=True).stdout.split()
    for name in sorted(set(documents)):
        passed &= try_links(ROOT / name)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
