"""The test programs of a build folder: which there are, before they are built
too; what each depends on when it runs; what they counted.

CTest itself names the commands only of programs that exist.
"""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

import house_files
import stage as stages

CODE = (".cc", ".h", ".cu", ".cuh", ".cmake", "CMakeLists.txt")
# No test program reads these when it runs.
NOT_DATA = ("tools/", ".ci/", "web/", "tests/docs/", "tests/fuzz/",
            "tests/install/", "tests/mutation/")


@dataclasses.dataclass
class Program:
    """One line of CTest: a name, a command, and its properties as text."""
    name: str
    command: list
    properties: str


def programs(folder, label):
    """What CTest would run of a label."""
    found = []
    for path in sorted(folder.rglob("CTestTestfile.cmake")):
        text = path.read_text(encoding="utf-8")
        for name, words in re.findall(
                r"^add_test\(\[=\[(.+?)\]=\] (.*)\)$", text, re.M):
            properties = re.search(
                r"^set_tests_properties\(\[=\[" + re.escape(name) +
                r"\]=\] PROPERTIES (.*?)(?: _BACKTRACE_TRIPLES .*)?\)$", text,
                re.M)
            properties = properties[1] if properties else ""
            labels = re.search(r'LABELS "([^"]*)"', properties)
            if labels and label in labels[1].split(";"):
                found.append(Program(name, re.findall(r'"([^"]*)"', words),
                                     properties))
    return found


def targets(folder, label):
    """The files to build so that every test of a label can run."""
    return sorted({os.path.relpath(word, folder)
                   for program in programs(folder, label)
                   for word in program.command
                   if word.startswith(f"{folder}/")})


def libraries(program, folder):
    """The libraries of the build that a built program loads."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True,
                          check=False).stdout
    return sorted(set(re.findall(rf"({re.escape(str(folder))}/\S+)", said)))


def key_of(program, folder, hashes, environment):
    """Changes with all that a built test's result depends on: the program,
    the files of the house that it may read, and what is told to it."""
    files = [word for word in program.command if os.path.isfile(word)]
    for word in list(files):
        if word.startswith(f"{folder}/"):
            files += libraries(word, folder)
    # Scripts compare what the program prints with the documents.
    is_script = not program.command[0].startswith(f"{folder}/")
    data = {path: content for path, content in hashes.items()
            if not path.endswith(CODE) and not path.startswith(NOT_DATA)
            and (is_script or not path.endswith(".md"))}
    return house_files.hash_text(
        program.command, program.properties, environment, data,
        [house_files.hash_file(path) for path in files])


def count_tests(folder, label, output):
    """What came of a run: the tests inside GoogleTest programs by their
    reports, other programs as one each."""
    count = stages.Count()
    reports = folder / "reports" / label
    for path in reports.glob("*.json"):
        for suite in json.loads(path.read_text())["testsuites"]:
            count.failed += suite["failures"] + suite["errors"]
            for test in suite["testsuite"]:
                count.skipped += test["result"] == "SKIPPED"
                count.passed += test["result"] == "COMPLETED" and \
                    "failures" not in test
    for name, how in outcomes(output):
        if not (reports / f"{name}.json").exists():
            count.passed += how == "Passed"
            count.skipped += how == "***Skipped"
            count.failed += how not in ("Passed", "***Skipped")
    return count


def outcomes(output):
    return re.findall(r"Test +#\d+: (\S+) \.+ *(Passed|\*\*\*\w+)", output)


def run(stage, folder, label, env=None, only=None):
    """Runs the programs of a label, or only those named. The count, and the
    names of those that passed."""
    shutil.rmtree(folder / "reports" / label, ignore_errors=True)
    choice = [] if only is None else [
        "-R", "^(" + "|".join(map(re.escape, sorted(only))) + ")$"]
    code, output = stage.run(
        "ctest", "--test-dir", folder, "-L", label, *choice, "-j", stages.JOBS,
        "--output-on-failure", "--no-tests=error", "--timeout", 1200,
        env=env, may_fail=True)
    count = count_tests(folder, label, output)
    if code:
        # A program that crashed has left no report.
        count.failed = max(count.failed, 1)
        raise stages.Failed(output, count)
    return count, {name for name, how in outcomes(output) if how == "Passed"}


class Memory:
    """Which tests passed last, by their keys, in a file."""

    def __init__(self, path, folder, label, environment):
        self.path = pathlib.Path(path)
        self.known = json.loads(path.read_text()) if path.exists() else {}
        hashes = house_files.hashes(stages.ROOT)
        self.keys = {program.name: key_of(program, folder, hashes, environment)
                     for program in programs(folder, label)}

    def changed(self):
        return {name for name, key in self.keys.items()
                if self.known.get(name) != key}

    def passed(self, names):
        self.known.update({name: self.keys[name] for name in names
                           if name in self.keys})
        self.path.write_text(json.dumps(self.known))
