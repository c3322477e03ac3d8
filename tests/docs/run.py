#!/usr/bin/env python3
"""Keeps the documents true: every command of README.md runs, its C++ compiles
and runs, its table of studies says what they say, and every relative link of
every document leads somewhere. Of docs/claims.md: every claim has its row,
the page is what tools/make_claims.py writes, no row is stale (its study's hash
is what it was measured with), its commands run (studies that were recorded:
exist), and so do those of docs/exercises.md. docs/tutorial.md: every command
prints what the page says it prints (outputs.py). docs/findings.md: its figures
are those of the records in docs/studies.json.

Commands are the lines of ```sh blocks. They run in a scratch folder that holds
links to the checkout's entries, so that what they write stays out of it.
Prints "ok", "not ok" or "skip" for each.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

import outputs

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
    lines = [f"{'ok' if passed else 'not ok'} {what}"]
    if not passed:
        lines += [f"  {line}" for line in output.splitlines()[-30:]]
    print("\n".join(lines), flush=True)
    return passed


def at_once(attempt, items):
    """Tries what does not depend on each other, two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return all(list(pool.map(attempt, items)))


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


def try_words(line, listed, folder):
    """Whether a slow command could run: its name and flags are known, and a
    study it names exists."""
    words = shlex.split(line)
    done = subprocess.run(["./headwise", words[1], "--help"], cwd=folder,
                          text=True, capture_output=True, timeout=TIMEOUT,
                          check=False)
    wrong = [word for word in words[2:] if word.startswith("--")
             and word.split("=")[0] not in done.stdout]
    if done.returncode != 0:
        wrong.append(words[1])
    if words[1] == "study" and words[2] not in listed:
        wrong.append(words[2])
    return tell(not wrong, f"{line} (its words)", f"unknown: {wrong}")


def try_hashes(folder):
    """No row rests on a record of a study that has changed since. A step of
    each training tells what it expects: a minute or two."""
    done = subprocess.run(["./headwise", "study", "--all", "--hash"],
                          cwd=folder, text=True, capture_output=True,
                          timeout=10 * TIMEOUT, check=False)
    if done.returncode != 0:
        return tell(False, "studies tell their hashes", done.stderr)
    path = pathlib.Path(folder, "hashes.json")
    path.write_text(done.stdout)
    check = subprocess.run([ROOT / "tools" / "make_claims.py", "--check",
                            "--hashes", path], text=True, capture_output=True,
                           check=False)
    return tell(check.returncode == 0, "no row of docs/claims.md is stale",
                check.stdout + check.stderr)


def try_claims(claims, listed, folder):
    rows = [row for row in claims["claims"] if "number" in row]
    numbers = [row["number"] for row in rows]
    passed = tell(numbers == list(range(1, 63)), "claims 1 to 62 have a row",
                  str(numbers))
    numbers = [row["number"] for row in claims["corrections"]]
    passed &= tell(numbers == [f"E{i}" for i in range(1, 20)],
                   "corrections E1 to E19 have a row", str(numbers))
    check = subprocess.run([ROOT / "tools" / "make_claims.py", "--check"],
                           text=True, capture_output=True, check=False)
    passed &= tell(check.returncode == 0, "docs/claims.md is up to date",
                   check.stdout + check.stderr)
    passed &= try_hashes(folder)
    recorded = json.loads((ROOT / "docs" / "studies.json").read_text())
    lost = sorted(set(recorded) - listed)
    passed &= tell(not lost, "recorded studies exist", str(lost))
    return passed


def try_lines(lines, claims, listed, folder):
    """Runs commands of the documents; of studies it looks at the words only,
    and passes over those that claims.json says come later."""
    planned = {row.get("study") for row in claims["claims"]}
    passed, studies = True, []
    for line in dict.fromkeys(lines):
        words = shlex.split(line)
        if words[1:2] != ["study"] or "--list" in words:
            passed &= try_command(line, folder)
        elif words[2] in listed or words[2] not in planned:
            studies.append(line)
        else:
            print(f"skip {line}: later")
    return passed & at_once(lambda line: try_words(line, listed, folder),
                            studies)


def try_documents(folder):
    """docs/claims.md, docs/exercises.md and what docs/findings.md runs."""
    claims = json.loads((ROOT / "docs" / "claims.json").read_text())
    listed = {study["study"] for study in json.loads(subprocess.run(
        ["./headwise", "study", "--list", "--json"], cwd=folder, text=True,
        capture_output=True, timeout=TIMEOUT, check=True).stdout)}
    lines = ["./" + row["command"]
             for row in claims["claims"] + claims["corrections"]
             if "command" in row]
    lines += ["./" + figure["command"] for row in claims["claims"]
              for figure in row.get("take", []) if "command" in figure]
    lines += [f"./headwise study {row['study']}" for row in claims["claims"]
              if "study" in row]
    for name in ("exercises.md", "findings.md"):
        lines += commands((ROOT / "docs" / name).read_text())
    return (try_claims(claims, listed, folder)
            & try_lines(lines, claims, listed, folder))


def try_block(command, said, folder):
    """Runs a block as one script; what it prints is what stands below it."""
    start = time.monotonic()
    title = next(line for line in command.splitlines() if line.strip())
    try:
        done = subprocess.run(
            ["bash", "-e", "-c", command], cwd=folder, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT,
            check=False)
    except subprocess.TimeoutExpired as late:
        return tell(False, title, f"no end after {late.timeout} s")
    wrong = outputs.difference(said, done.stdout)
    if done.returncode != 0:
        wrong = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return tell(not wrong, f"{title} prints what the tutorial says "
                f"({time.monotonic() - start:.1f} s)", wrong)


def try_tutorial(folder):
    text = (ROOT / "docs" / "tutorial.md").read_text()
    pairs = re.findall(r"^```sh\n(.*?)^```\n+```\n(.*?)^```$", text,
                       re.M | re.S)
    wrong = outputs.sees_wrong_figures()
    passed = tell(not wrong, "a wrong figure of the tutorial is seen", wrong)
    passed &= tell(0 < len(pairs) == len(blocks(text, "sh")),
                   "every command of the tutorial has its output below it")
    return passed & at_once(lambda pair: try_block(*pair, folder), pairs)


FIGURE = re.compile(r"([-−+]?[\d.]+)\s\[([-−+]?[\d.]+),\s([-−+]?[\d.]+)\]")


def recorded_in(figure, records):
    """Whether a record has these three numbers, as rounded on the page."""
    shown = [outputs.read(number) for number in figure]
    return any(
        all(abs(value - found.get(key, float("inf"))) <= 0.501 * unit
            for key, (value, unit) in zip(("value", "low", "high"), shown))
        for record in records for found in record["figures"].values())


def try_findings():
    """Each section's figures with an interval are in the records of the
    studies that it runs or in assets/README.md."""
    text = (ROOT / "docs" / "findings.md").read_text()
    records = json.loads((ROOT / "docs" / "studies.json").read_text())
    assets = " ".join((ROOT / "assets" / "README.md").read_text().split())
    passed = True
    for section in text.split("\n## ")[1:]:
        title = section.splitlines()[0]
        names = re.findall(r"^\./headwise study ([\w-]+)", section, re.M)
        missing = [name for name in names
                   if not records.get(name, {}).get("full")]
        if missing:
            print(f"skip figures of “{title}”: docs/studies.json has no full "
                  f"run of {', '.join(missing)}")
            continue
        used = [records[name] for name in names]
        lost = [figure for figure in FIGURE.findall(section)
                if not recorded_in(figure, used)
                and "{} [{}, {}]".format(*figure) not in assets]
        passed &= tell(not lost, f"figures of “{title}”", str(lost))
    return passed


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
        studies = re.findall(
            r"^\| `([\w-]+)` \|.*\| (HELD|REFUTED|UNDECIDED|EXPLORATORY) \|$",
            readme, re.M)
        passed &= at_once(lambda study: try_study(*study, folder), studies)
        for source in blocks(readme, "cpp"):
            passed &= try_program(source, folder)
        passed &= try_tutorial(folder)
        passed &= try_findings()
        passed &= try_documents(folder)
    documents = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-co",
         "--exclude-standard", "*.md"], cwd=ROOT, text=True,
        capture_output=True, check=True).stdout.split()
    for name in sorted(set(documents)):
        passed &= try_links(ROOT / name)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
