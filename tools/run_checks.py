#!/usr/bin/env python3
"""Runs the stages of ./check, one line each, and counts the tests.

A stage that passed is not run again while the files it reads stay the same:
build/check/STAGE.json keeps the hash of its inputs and what it counted. Logs
lie beside it. Stages of the background take what time the others leave. The
door is ./check, which installs what this needs.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import sys
import time
import typing

import build_cost
import house_files
import stage_costs
from check_stages import (
    BUILD_COST, form, fuzz, shared_files, stage_asan, stage_changed, stage_cuda,
    stage_dist, stage_docs, stage_format, stage_gpu, stage_headers,
    stage_install, stage_mutation, stage_python, stage_sizes, stage_tidy,
    stage_tools, stage_tsan, stage_unit, stage_web)
from stage import CHECK, ROOT, Count, Failed, Skipped, Stage


@dataclasses.dataclass
class Kind:
    """A stage of the check: what it does, what it is, the beginnings of the
    paths it reads ("*.x": the ends), the folder it builds in, when it runs, and
    the stage that does the same for fewer reasons."""
    run: typing.Callable
    what: str
    reads: tuple = ("",)
    folder: str = ""
    whole: bool = True
    quick: bool = False
    background: bool = False
    proves: str = ""

    def depends_on(self, path):
        ends = tuple(part[1:] for part in self.reads if part[:1] == "*")
        return path.startswith(self.reads) or \
            bool(ends) and path.endswith(ends)


SOURCES = ("src/", "include/", "cmake/", "CMake", "apps/", "bench/",
           "examples/", "assets/", "web/", "tests/CMake", "tests/conformance/",
           "tests/integration/")
STAGES = {
    "format": Kind(stage_format, "clang-format has nothing to change",
                   quick=True),
    "layers": Kind(form("layers"), "no folder includes upward", quick=True),
    "includes": Kind(form("includes"), "sources include what they name",
                     quick=True),
    "names": Kind(form("names"), "no two types share a name", quick=True),
    "sizes": Kind(stage_sizes, "no file or function is too long", quick=True),
    "tools": Kind(stage_tools, "the checks' own tests",
                  ("tools/", "headwise", "tests/mutation/", "bench/",
                   "README.md"), quick=True),
    "changed": Kind(stage_changed, "unit tests whose programs changed",
                    SOURCES + ("docs/",), whole=False, quick=True),
    "unit": Kind(stage_unit, "unit tests, as shipped", SOURCES + ("docs/",),
                 "release"),
    "tidy": Kind(stage_tidy, "clang-tidy, its short list",
                 SOURCES + (".clang-tidy",), "tidy", background=True),
    "headers": Kind(stage_headers,
                    "every header and the operator's sources compile alone",
                    SOURCES, "tidy", background=True),
    "asan": Kind(stage_asan, "unit tests, address and undefined behaviour",
                 SOURCES + ("docs/",), "asan"),
    "mutation": Kind(stage_mutation, "every command on spoilt files",
                     SOURCES + ("tests/mutation/",), "asan"),
    "tsan": Kind(stage_tsan, "threaded tests, data races", SOURCES, "tsan"),
    "install": Kind(stage_install, "find_package(headwise) from outside",
                    SOURCES + ("tests/install/",)),
    "python": Kind(stage_python, "the Python package, by pytest",
                   SOURCES + ("python/", "tests/python/", "docs/")),
    "dist": Kind(stage_dist, "commands by many processes, under mpirun",
                 SOURCES + ("tests/distributed/",)),
    "web": Kind(stage_web, "the report's page in Chromium",
                SOURCES + ("docs/",)),
    "docs": Kind(stage_docs, "what the documents say can be done",
                 proves="documents"),
    "documents": Kind(stage_docs, "the same, when documents changed",
                      ("*.md", "docs/", "examples/", "tests/docs/"),
                      whole=False, quick=True),
    "cuda": Kind(stage_cuda, "the CUDA sources compile and link", SOURCES,
                 "cuda"),
    "gpu": Kind(stage_gpu, "operators, models and training on this GPU",
                SOURCES, "gpu"),
}


def key_of(name, hashes):
    """The hash of all that a stage's result depends on."""
    kind = STAGES[name]
    return house_files.hash_text(
        house_files.toolchain(), shared_files(),
        {path: content for path, content in hashes.items()
         if kind.depends_on(path) or path.startswith(("tools/", "check"))})


def stamp_of(name):
    return CHECK / f"{name}.json"


def run_stage(name, keys, again, background=False):
    """One stage: its count and whether it passed, told in one line."""
    stamp, key = stamp_of(name), keys[name]
    if stamp.exists() and not again:
        known = json.loads(stamp.read_text())
        if known.pop("key") == key:
            count = Count(**known)
            tell(name, "unchanged", 0, count)
            return count
    folder = STAGES[name].folder
    is_cold = not folder or not (ROOT / "build" / folder).exists()
    stage, start = Stage(name, CHECK, background), time.monotonic()
    stamp.unlink(missing_ok=True)
    try:
        count = STAGES[name].run(stage)
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
    seconds = time.monotonic() - start
    for passed in filter(None, (name, STAGES[name].proves)):
        stamp_of(passed).write_text(json.dumps(
            {"key": keys[passed], **dataclasses.asdict(count)}))
    stage_costs.keep(CHECK, name, is_cold, seconds, stage.processor_s, count)
    tell(name, "ok", seconds, count)
    return count


def tell(name, how, seconds, count):
    tests = f"{count.passed} passed" if count.passed > 1 else ""
    skips = f"{count.skipped} skipped" if count.skipped else ""
    notes = ", ".join(filter(None, [tests, skips, count.note]))
    print(f"{name:9} {how:9} {seconds:6.1f} s  {notes}", flush=True)


def run_stages(names, again):
    """The counts of stages: one after the other, and those of the background
    beside them where there are others."""
    hashes = house_files.hashes(ROOT)
    keys = {name: key_of(name, hashes) for name in STAGES}
    aside = [name for name in names if STAGES[name].background]
    front = [name for name in names if name not in aside]
    if not front:
        aside, front = [], aside
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        later = [pool.submit(run_stage, name, keys, again, True)
                 for name in aside]
        try:
            return [run_stage(name, keys, again) for name in front] + \
                [future.result() for future in later]
        except KeyboardInterrupt:
            Stage.stopping.set()
            raise


def parser_of_options():
    parser = argparse.ArgumentParser(
        prog="./check", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="The whole test of Headwise.",
        epilog="stages (q: also of --quick, Q: only of it):\n" + "\n".join(
            f"  {name:9} {' q'[kind.quick] if kind.whole else 'Q'} {kind.what}"
            for name, kind in STAGES.items()) +
        "\n\nexamples:\n  ./check               everything that changed\n"
        "  ./check --quick       between two commits\n"
        "  ./check format unit   two stages\n"
        "  ./check --again       everything, even if nothing changed")
    parser.add_argument("stages", nargs="*", metavar="STAGE",
                        help="stages to run (default: the whole test)")
    parser.add_argument("--quick", action="store_true",
                        help="what can be known in a minute or two: form, and "
                             "unit tests of the programs that changed")
    parser.add_argument("--again", action="store_true",
                        help="run stages that passed on these files before")
    parser.add_argument("--fuzz", nargs="?", type=int, const=600,
                        metavar="SECONDS",
                        help="only the fuzzers, each that long (default 600)")
    parser.add_argument("--costs", action="store_true",
                        help="only a table of what the stages cost when they "
                             "last ran")
    parser.add_argument("--record-cost", action="store_true",
                        help="only keep the processor time of the last cold "
                             "build in tools/build_cost.json")
    return parser


def main():
    parser = parser_of_options()
    options = parser.parse_args()
    unknown = [name for name in options.stages if name not in STAGES]
    if unknown:
        parser.error(f"expected a stage of {', '.join(STAGES)}; found "
                     f"{', '.join(unknown)}")

    CHECK.mkdir(parents=True, exist_ok=True)
    if options.fuzz:
        return fuzz(options.fuzz)
    if options.costs:
        print(stage_costs.table(CHECK, {name: kind.what for name, kind
                                        in STAGES.items()}))
        return 0
    if options.record_cost:
        return record_cost()
    names = options.stages or [
        name for name, kind in STAGES.items()
        if (kind.quick if options.quick else kind.whole)]
    start = time.monotonic()
    try:
        counts = run_stages(names, options.again)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    total = Count(*(sum(getattr(count, part) for count in counts)
                    for part in ("passed", "failed", "skipped")))
    print(f"\nall of it in {time.monotonic() - start:.0f} s")
    print(f"{total.passed} passed, {total.failed} failed" +
          (f", {total.skipped} skipped" if total.skipped else ""))
    return 1 if total.failed else 0


def record_cost():
    path = CHECK / "build_cost.json"
    if not path.exists():
        print("expected a build from nothing that was measured; found none; "
              "remove build/release and run CCACHE_DISABLE=1 ./check unit")
        return 1
    cost = json.loads(path.read_text())
    build_cost.record(BUILD_COST, cost)
    print(f"kept: {cost['processor_s']} s, {cost['steps']} steps, "
          f"{cost['processor']}, {cost['compiler']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
