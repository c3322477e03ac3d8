#!/usr/bin/env python3
"""Spoils files of every format and gives them to the commands that read them:
each must end in time, within memory, with 0, 1 or 2, without a sanitizer's
word, and with --json and 0 print JSON.

    tests/mutation/run.py PROGRAM [--count 500] [--seed 1] [--only CASE]

A case is known by the seed and its number; one that fails is kept under
build/mutation/kept. Prints "ok" or "not ok" for each format.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import fixtures
import spoil

KEPT = fixtures.ROOT / "build" / "mutation" / "kept"
AT_ONCE = 2
MEMORY = 4 << 30
OUTPUT = 256 << 20
STOPPED = 128 + signal.SIGINT
# What a sanitizer finds must not look like an ordinary failure.
FOUND = 99
# The search for leaks takes seconds a call: once for each command.
SANITIZERS = {
    "ASAN_OPTIONS": f"exitcode={FOUND}:quarantine_size_mb=16:"
                    "allocator_may_return_null=1",
    "LSAN_OPTIONS": f"exitcode={FOUND}:detect_leaks=0",
    "UBSAN_OPTIONS": f"exitcode={FOUND}:print_stacktrace=1"}
LEAKS = {"LSAN_OPTIONS": f"exitcode={FOUND}:detect_leaks=1"}


@dataclasses.dataclass
class Case:
    """One spoilt file and one command; number 0: nothing is spoilt."""
    number: int
    subject: fixtures.Subject
    file: str
    command: list
    data: bytes = b""
    said: str = "nothing spoilt"
    leaks: bool = False  # are looked for


@dataclasses.dataclass
class Result:
    """What came of a case; fault is empty where all is well."""
    code: int
    seconds: float
    fault: str


def choose(subjects, base, seed, number):
    """The case of a number: formats take turns, the rest is drawn."""
    rng = random.Random(f"{seed}:{number}")
    turns = {}
    for subject in subjects:
        turns[subject.format] = max(turns.get(subject.format, 0),
                                    subject.turns)
    formats = [name for turn in range(max(turns.values()))
               for name in turns if turns[name] > turn]
    name = formats[number % len(formats)]
    subject = rng.choice([one for one in subjects if one.format == name])
    file = rng.choice(subject.files)
    data, said = spoil.spoil(rng, file, (base / file).read_bytes())
    return Case(number, subject, file, rng.choice(subject.commands), data,
                said)


def unspoilt(subjects):
    """Each command once on files that are well."""
    seen = {}
    for subject in subjects:
        for command in subject.commands:
            for file in subject.files if "FILE" in command else \
                    subject.files[:1]:
                words = [file if word == "FILE" else word for word in command]
                seen.setdefault(tuple(words), Case(0, subject, file, command))
    names = set()
    for case in seen.values():
        case.leaks = case.command[0] not in names
        names.add(case.command[0])
    return list(seen.values())


def furnish(base, folder, case):
    """A folder as the fixtures, with the one file spoilt."""
    for entry in base.iterdir():
        if entry.name in case.subject.copies:
            shutil.copytree(entry, folder / entry.name, symlinks=True)
        else:
            (folder / entry.name).symlink_to(entry)
    if case.number:
        target = folder / case.file
        target.unlink()
        target.write_bytes(case.data)


def resident(pid):
    try:
        pages = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def watch(process, folder, limit, may_work_on):
    """Waits for a process, or ends it; its exit code and what was wrong. One
    that may work on when its time is over (a training of many steps) must end
    when it is asked to, which counts as a failure of its own."""
    start = time.monotonic()
    fault, is_asked = "", False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() - start > limit and may_work_on and not is_asked:
            process.send_signal(signal.SIGINT)
            is_asked, start = True, time.monotonic()
        elif time.monotonic() - start > limit:
            fault = fault or f"no end after {limit} s"
        elif resident(process.pid) > MEMORY:
            fault = fault or "more than 4 GiB"
        elif (folder / "stdout").stat().st_size > OUTPUT:
            fault = fault or "output without end"
        if fault:
            process.send_signal(signal.SIGKILL)
        time.sleep(0.01)
    if usage.ru_maxrss * 1024 > MEMORY:
        fault = fault or "more than 4 GiB"
    is_stopped = is_asked and process.returncode == STOPPED
    return 1 if is_stopped else process.returncode, fault


def judge(case, code, folder):
    """What is wrong with a command that ended by itself, or nothing."""
    errors = (folder / "stderr").read_bytes().decode(errors="replace")
    if code not in (0, 1, 2):
        return f"exit {code}"
    found = re.search(r"Sanitizer:|runtime error:|error: internal", errors)
    if found:
        return found[0]
    if code == 0 and "--json" in case.command:
        try:
            json.loads((folder / "stdout").read_bytes(),
                       parse_constant=lambda word: 1 / 0)
        except (ValueError, ZeroDivisionError):
            return "prints no JSON"
    if case.number == 0 and code != case.subject.well:
        return f"exit {code} on files that are well"
    return ""


def attempt(program, base, case, limit, keep_as):
    """Runs a case in a folder of its own, kept where something was wrong."""
    with tempfile.TemporaryDirectory(prefix="headwise-") as name:
        folder = pathlib.Path(name)
        furnish(base, folder, case)
        words = [case.file if word == "FILE" else word
                 for word in case.command]
        start = time.monotonic()
        with (folder / "stdout").open("wb") as out, \
                (folder / "stderr").open("wb") as err, \
                subprocess.Popen([program, *words], cwd=folder, stdout=out,
                                 stderr=err, stdin=subprocess.DEVNULL,
                                 start_new_session=True,
                                 env={**os.environ, **SANITIZERS,
                                      **(LEAKS if case.leaks else {})}
                                 ) as process:
            code, fault = watch(process, folder, limit,
                                may_work_on=words[0] == "train")
        seconds = time.monotonic() - start
        fault = fault or judge(case, code, folder)
        if fault:
            kept = KEPT / keep_as
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            for part in ("stdout", "stderr"):
                with (folder / part).open("rb") as said:
                    (kept / part).write_bytes(said.read(1 << 20))
            shutil.copyfile(folder / case.file,
                            kept / pathlib.Path(case.file).name)
            (kept / "case").write_text(
                f"headwise {' '.join(words)}\n{case.file}: {case.said}\n"
                f"{fault}\n")
        return Result(code, seconds, fault)


def tell_fault(options, case, result, keep_as):
    words = " ".join(case.command).replace("FILE", case.file)
    print(f"not ok {case.subject.format} case {case.number}: headwise {words}"
          f"\n  {case.file}: {case.said[:200]}\n  {result.fault} "
          f"({result.seconds:.1f} s); kept in build/mutation/kept/{keep_as}; "
          f"again: --seed {options.seed} --only {case.number}", flush=True)


def run_all(options, base, makers):
    """Makes cases and runs them, two at a time; whether all is well."""
    codes = collections.defaultdict(collections.Counter)
    slowest = collections.Counter()
    bad = collections.Counter()

    def one(index, make):
        case = make()
        keep_as = f"{options.seed}-{case.number or f'well-{index}'}"
        return case, keep_as, attempt(options.program, base, case,
                                      options.limit, keep_as)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for case, keep_as, result in pool.map(
                one, range(len(makers)), makers):
            name = case.subject.format if case.number else "files as they are"
            codes[name][result.code] += 1
            slowest[name] = max(slowest[name], result.seconds)
            if result.fault:
                bad[name] += 1
                tell_fault(options, case, result, keep_as)
    for name, count in codes.items():
        if not bad[name]:
            ends = ", ".join(f"exit {code}: {times}"
                             for code, times in sorted(count.items()))
            print(f"ok {name}: {sum(count.values())} cases ({ends}; slowest "
                  f"{slowest[name]:.1f} s)")
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--count", type=int, default=500,
                        help="cases to run (default 500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="CASE",
                        help="one case, by its number")
    parser.add_argument("--limit", type=float, default=20,
                        help="seconds a command may take (default 20)")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    os.environ.update(SANITIZERS)
    with tempfile.TemporaryDirectory(prefix="headwise-") as name:
        base = pathlib.Path(name) / "base"
        base.mkdir()
        fixtures.make(options.program, base)
        subjects = fixtures.with_checkpoints(fixtures.subjects(), base)
        if options.only:
            numbers, well = [options.only], True
        else:
            numbers = range(1, options.count + 1)
            well = run_all(options, base, [
                lambda case=case: case for case in unspoilt(subjects)])
        well &= run_all(options, base, [
            functools.partial(choose, subjects, base, options.seed, number)
            for number in numbers])
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
