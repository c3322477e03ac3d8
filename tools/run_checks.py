#!/usr/bin/env python3
"""Runs the stages of ./check, one line each, and counts the tests.

A stage that passed is not run again while the files it reads stay the same:
build/check/STAGE.json keeps the hash of its inputs and what it counted. Logs
lie beside it. The door is ./check, which installs what this needs.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import house_files

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHECK = ROOT / "build" / "check"
# Tests ask for impossible sizes: an allocator answers with null.
TOO_LARGE_IS_NULL = "allocator_may_return_null=1"
JOBS = os.cpu_count() or 2


class Failed(Exception):
    """A stage did not pass; the text says why."""


class Skipped(Exception):
    """A stage cannot run here; the text says what is absent."""


@dataclasses.dataclass
class Count:
    """How many tests a stage ran."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""


class Stage:
    """What a stage function gets: its name and a log to write to."""

    def __init__(self, name):
        self.name = name
        self.log_path = CHECK / f"{name}.log"
        self.log_path.write_text("")

    def log(self, text):
        with self.log_path.open("a", encoding="utf-8") as out:
            out.write(text)

    def run(self, *command, env=None, may_fail=False):
        """Runs a command into the log; its output as text."""
        self.log("$ " + " ".join(map(str, command)) + "\n")
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False,
            env={**os.environ, **(env or {})})
        self.log(done.stdout)
        if done.returncode and not may_fail:
            raise Failed(done.stdout)
        return done.returncode, done.stdout


def build(stage, preset, *targets):
    """Configures a preset with its tests and builds targets of it."""
    folder = ROOT / "build" / preset
    cache = folder / "CMakeCache.txt"
    known = cache.read_text() if cache.exists() else ""
    if f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in known and known:
        shutil.rmtree(folder)
    if "HEADWISE_BUILD_TESTS:BOOL=ON" not in known or \
            not (folder / "build.ninja").exists():
        stage.run("cmake", "--preset", preset, "-DHEADWISE_BUILD_TESTS=ON",
                  "-DHEADWISE_BUILD_EXAMPLES=ON",
                  "-DHEADWISE_BUILD_BENCHMARKS=ON")
    stage.run("ninja", "-C", folder, *targets)
    return folder


def ctest(stage, folder, label, env=None):
    """Runs the ctest programs of a label and counts the tests inside them."""
    reports = folder / "reports" / label
    shutil.rmtree(reports, ignore_errors=True)
    code, output = stage.run(
        "ctest", "--test-dir", folder, "-L", label, "-j", JOBS,
        "--output-on-failure", "--no-tests=error", "--timeout", 1200,
        env=env, may_fail=True)
    count = Count()
    for path in reports.glob("*.json"):
        for suite in json.loads(path.read_text())["testsuites"]:
            count.failed += suite["failures"] + suite["errors"]
            for test in suite["testsuite"]:
                count.skipped += test["result"] == "SKIPPED"
                count.passed += test["result"] == "COMPLETED" and \
                    "failures" not in test
    # Programs that are no GoogleTest count as one test each.
    for name, how in re.findall(r"Test +#\d+: (\S+) \.+ *(Passed|\*\*\*\w+)",
                                output):
        if not (reports / f"{name}.json").exists():
            count.passed += how == "Passed"
            count.skipped += how == "***Skipped"
            count.failed += how not in ("Passed", "***Skipped")
    if code:
        # A program that crashed has left no report.
        count.failed = max(count.failed, 1)
        raise Failed(output, count)
    return count


def stage_format(stage):
    files = [f for f in house_files.listed(ROOT)
             if f.endswith((".cc", ".h", ".cu", ".cuh"))]
    stage.run("clang-format", "--dry-run", "--Werror", *files)
    return Count(1, note=f"{len(files)} files")


def stage_layers(stage):
    stage.run(sys.executable, "tools/check_layers.py")
    return Count(1)


def stage_names(stage):
    stage.run(sys.executable, "tools/check_names.py")
    return Count(1)


def stage_sizes(stage):
    _, output = stage.run(sys.executable, "tools/check_sizes.py")
    for line in output.splitlines():
        if line.startswith("warning: "):
            print("  " + line)
    return Count(1, note=output.splitlines()[-1])


def stage_tools(stage):
    _, output = stage.run(sys.executable, "-m", "unittest", "discover", "-s",
                          "tools", "-p", "*_test.py")
    return Count(int(re.search(r"Ran (\d+) test", output)[1]))


def fetched_models(stage):
    """Where the larger real models are, as the tests' environment: as given,
    or in build/models, where ../shared/tools/get-models puts them once. Their
    tests skip where the script or the network is absent."""
    if "HEADWISE_MODELS" in os.environ:
        return {}
    shared = pathlib.Path(os.environ.get("HEADWISE_SHARED",
                                         ROOT.parent / "shared"))
    script, folder = shared / "tools" / "get-models", ROOT / "build" / "models"
    if not script.exists():
        print(f"  models: none, {script} is absent; their tests skip")
        return {}
    code, _ = stage.run("timeout", "600", script, folder, may_fail=True)
    if code:
        print("  models: not all could be fetched; their tests skip")
    return {"HEADWISE_MODELS": str(folder)}


def stage_unit(stage):
    folder = build(stage, "release", "all")
    return ctest(stage, folder, "unit", env=fetched_models(stage))


def stage_tidy(stage):
    """clang-tidy on what ships and changed; tests would double its time."""
    folder = build(stage, "release", "all")
    with (CHECK / "tidy.cache").open("a+", encoding="utf-8") as cache:
        cache.seek(0)
        known = set(cache.read().split())
        todo = {key: path for path, key in house_files.tidy_keys(ROOT, folder)
                if key not in known}
        failures = []

        def tidy(item):
            key, path = item
            code, output = stage.run("clang-tidy", "--quiet", "-p", folder,
                                     path, may_fail=True)
            return key, code, output

        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            for key, code, output in pool.map(tidy, sorted(
                    todo.items(), key=lambda item: item[1])):
                if code:
                    failures.append(re.sub(r"\d+ warnings.*\n", "", output))
                else:
                    cache.write(key + "\n")
    if failures:
        raise Failed("\n".join(failures))
    return Count(1, note=f"{len(todo)} files looked at")


def stage_asan(stage):
    return ctest(stage, build(stage, "asan", "all"), "unit",
                 {"ASAN_OPTIONS": TOO_LARGE_IS_NULL,
                  "UBSAN_OPTIONS": "print_stacktrace=1"})


def stage_tsan(stage):
    return ctest(stage, build(stage, "tsan", "threaded_tests"), "threaded",
                 {"TSAN_OPTIONS": f"halt_on_error=1:{TOO_LARGE_IS_NULL}"})


def script(stage, *command):
    """Runs a script that prints "ok …", "not ok …" or "skip …" a test."""
    code, output = stage.run(*command, may_fail=True)
    lines = output.splitlines()
    count = Count(sum(line.startswith("ok ") for line in lines),
                  sum(line.startswith("not ok ") for line in lines),
                  sum(line.startswith("skip ") for line in lines))
    for line in lines:
        if line.startswith("skip "):
            print("  " + line)
    if code or count.failed:
        count.failed = max(count.failed, 1)
        raise Failed(output, count)
    return count


def stage_install(stage):
    build(stage, "release", "all")
    return script(stage, "tests/install/run")


def stage_docs(stage):
    build(stage, "release", "all")
    return script(stage, sys.executable, "tests/docs/run.py")


def stage_web(stage):
    """The report's page in Chromium, on a fixture and on the demo's report."""
    folder = build(stage, "release", "headwise_app")
    web = ROOT / "build" / "page" / "web"
    if not (web / "dist" / "report.html").exists():
        raise Skipped("no Node, or its packages could not be had: reports are "
                      "plain tables, and the page is not tested")
    shutil.copytree(ROOT / "web" / "test", web / "test", dirs_exist_ok=True)
    demo = CHECK / "web"
    stage.run(folder / "apps" / "headwise" / "headwise", "demo", "--out", demo)
    code, output = stage.run(
        "node", "--test", "--test-reporter=tap", web / "test/page.test.mjs",
        may_fail=True,
        env={"HEADWISE_REPORT": str(demo),
             "HEADWISE_SCHEMA": str(ROOT / "docs" / "report.schema.json")})
    found = [re.search(rf"^# {word} (\d+)$", output, re.M)
             for word in ("pass", "fail", "skipped")]
    if not all(found):
        raise Failed(output)
    count = Count(*(int(match[1]) for match in found))
    for why in sorted(set(re.findall(r"^ok .*# SKIP (.*)$", output, re.M))):
        print(f"  skip: {why}")
    if code:
        raise Failed(output, count)
    return count


def stage_cuda(stage):
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        raise Skipped("no nvcc: the CUDA sources are not compiled")
    os.environ["CUDACXX"] = nvcc
    build(stage, "cuda", "headwise_app")
    return Count(1)


def fuzz(seconds):
    """Each fuzzer for that long; new inputs are kept in build/fuzz/corpus."""
    stage = Stage("fuzz")
    folder = build(stage, "fuzz", "fuzz")
    for program in sorted((folder / "tests").glob("fuzz_*")):
        name = program.name.removeprefix("fuzz_")
        seeds = f"tests/fuzz/corpus/{name}"
        code, output = stage.run(
            str(program), f"-max_total_time={seconds}", "-timeout=20",
            "-rss_limit_mb=4096", "-max_len=65536",
            f"-artifact_prefix={folder}/", str(folder / "corpus" / name),
            seeds, may_fail=True)
        if code:
            print("\n".join(output.splitlines()[-60:]))
        print(f"{name}: {'FOUND SOMETHING' if code else 'ok'}, {seconds} s",
              flush=True)
        if code:
            return 1
    return 0


SOURCES = ("src/", "include/", "cmake/", "CMake", "apps/", "bench/",
           "examples/", "assets/", "web/", "tests/CMake", "tests/conformance/",
           "tests/integration/")
# name: (function, what it is, the beginnings of the paths it reads)
STAGES = {
    "format": (stage_format, "clang-format has nothing to change", ("",)),
    "layers": (stage_layers, "no folder includes upward", ("",)),
    "names": (stage_names, "no two types share a name", ("",)),
    "sizes": (stage_sizes, "no file or function is too long", ("",)),
    "tools": (stage_tools, "the checks' own tests", ("tools/",)),
    "unit": (stage_unit, "unit tests, as shipped", SOURCES),
    "tidy": (stage_tidy, "clang-tidy, its short list",
             SOURCES + (".clang-tidy",)),
    "asan": (stage_asan, "unit tests, address and undefined behaviour",
             SOURCES),
    "tsan": (stage_tsan, "threaded tests, data races", SOURCES),
    "install": (stage_install, "find_package(headwise) from outside",
                SOURCES + ("tests/install/",)),
    "web": (stage_web, "the report's page in Chromium",
            SOURCES + ("docs/",)),
    "docs": (stage_docs, "what the README says can be done", ("",)),
    "cuda": (stage_cuda, "the CUDA sources compile", SOURCES),
}


def key_of(name, hashes):
    """The hash of all that a stage's result depends on."""
    text = json.dumps([house_files.toolchain(), os.environ.get(
        "HEADWISE_SHARED", str((ROOT / "../shared").exists()))])
    prefixes = STAGES[name][2] + ("tools/", "check")
    for path, content in hashes.items():
        if path.startswith(prefixes):
            text += f"{path} {content}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def run_stage(name, key, again):
    """One stage: its count and whether it passed, told in one line."""
    stamp = CHECK / f"{name}.json"
    if stamp.exists() and not again:
        known = json.loads(stamp.read_text())
        if known.pop("key") == key:
            count = Count(**known)
            tell(name, "unchanged", 0, count)
            return count
    stage, start = Stage(name), time.monotonic()
    stamp.unlink(missing_ok=True)
    try:
        count = STAGES[name][0](stage)
    except Skipped as skipped:
        count = Count(skipped=1, note=str(skipped))
        tell(name, "SKIPPED", time.monotonic() - start, count)
        return count
    except Failed as failed:
        count = failed.args[1] if len(failed.args) > 1 else Count(failed=1)
        print("\n".join(str(failed.args[0]).splitlines()[-60:]))
        count.note = f"see {stage.log_path.relative_to(ROOT)}"
        tell(name, "FAILED", time.monotonic() - start, count)
        return count
    stamp.write_text(json.dumps({"key": key, **dataclasses.asdict(count)}))
    tell(name, "ok", time.monotonic() - start, count)
    return count


def tell(name, how, seconds, count):
    tests = f"{count.passed} passed" if count.passed > 1 else ""
    skips = f"{count.skipped} skipped" if count.skipped else ""
    notes = ", ".join(filter(None, [tests, skips, count.note]))
    print(f"{name:8} {how:9} {seconds:6.1f} s  {notes}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        prog="./check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="The whole test of Headwise.",
        epilog="stages:\n" + "\n".join(
            f"  {name:8} {what}" for name, (_, what, _) in STAGES.items()) +
        "\n\nexamples:\n  ./check               everything that changed\n"
        "  ./check format unit   two stages\n"
        "  ./check --again       everything, even if nothing changed")
    parser.add_argument("stages", nargs="*", metavar="STAGE",
                        help="stages to run (default: all)")
    parser.add_argument("--again", action="store_true",
                        help="run stages that passed on these files before")
    parser.add_argument("--fuzz", nargs="?", type=int, const=600,
                        metavar="SECONDS",
                        help="only the fuzzers, each that long (default 600)")
    options = parser.parse_args()
    unknown = [name for name in options.stages if name not in STAGES]
    if unknown:
        parser.error(f"expected a stage of {', '.join(STAGES)}; found "
                     f"{', '.join(unknown)}")

    CHECK.mkdir(parents=True, exist_ok=True)
    if options.fuzz:
        return fuzz(options.fuzz)
    hashes = house_files.hashes(ROOT)
    total, start = Count(), time.monotonic()
    for name in options.stages or STAGES:
        count = run_stage(name, key_of(name, hashes), options.again)
        total.passed += count.passed
        total.failed += count.failed
        total.skipped += count.skipped
    print(f"\nall of it in {time.monotonic() - start:.0f} s")
    print(f"{total.passed} passed, {total.failed} failed" +
          (f", {total.skipped} skipped" if total.skipped else ""))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
