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
import os
import pathlib
import re
import shutil
import sys
import time
import typing

import build_cost
import check_headers
import check_python
import check_tidy
import ctest_programs
import house_files
import stage_costs
from find_cuda import cuda_options, gpu_name
from stage import CHECK, JOBS, ROOT, Count, Failed, Passed, Skipped, Stage

# Tests ask for impossible sizes: an allocator answers with null.
TOO_LARGE_IS_NULL = "allocator_may_return_null=1"
SANITIZED = {"ASAN_OPTIONS": TOO_LARGE_IS_NULL,
             "UBSAN_OPTIONS": "print_stacktrace=1"}
BUILD_COST = ROOT / "tools" / "build_cost.json"


def configured(stage, preset, *options, name=None):
    """The folder of a preset, or one of another name, configured with its
    tests."""
    folder = ROOT / "build" / (name or preset)
    cache = folder / "CMakeCache.txt"
    known = cache.read_text() if cache.exists() else ""
    if f"CMAKE_HOME_DIRECTORY:INTERNAL={ROOT}\n" not in known and known:
        shutil.rmtree(folder)
        known = ""
    if preset == "release":
        options += check_python.options()
    wanted = ["HEADWISE_BUILD_TESTS:BOOL=ON"] + [
        option.removeprefix("-D").replace("=", ":BOOL=")
        for option in options if option.endswith("=ON")]
    if not (folder / "build.ninja").exists() or \
            any(one not in known for one in wanted):
        stage.run("cmake", "--preset", preset, "-B", folder,
                  "-DHEADWISE_BUILD_TESTS=ON", "-DHEADWISE_BUILD_EXAMPLES=ON",
                  "-DHEADWISE_BUILD_BENCHMARKS=ON", *options)
    return folder


def build(stage, preset, *targets):
    """Configures a preset with its tests and builds targets of it."""
    folder = configured(stage, preset)
    stage.run("ninja", "-C", folder, *targets)
    return folder


def build_tests(stage, preset, label):
    """Builds what the tests of a label run, and nothing else."""
    folder = configured(stage, preset)
    # CMake first, if its files changed: they name the tests.
    stage.run("ninja", "-C", folder, "build.ninja")
    stage.run("ninja", "-C", folder, *ctest_programs.targets(folder, label))
    return folder


def stage_format(stage):
    files = [f for f in house_files.listed(ROOT)
             if f.endswith((".cc", ".h", ".cu", ".cuh"))]
    stage.run("clang-format", "--dry-run", "--Werror", *files)
    return Count(1, note=f"{len(files)} files")


def form(name):
    """What tools/check_NAME.py sees in the files alone."""
    def run(stage):
        stage.run(sys.executable, f"tools/check_{name}.py")
        return Count(1)
    return run


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


def build_release(stage):
    """All that ships and its tests; a build from nothing is measured."""
    folder = configured(stage, "release")
    if (folder / ".ninja_log").exists():
        print("  build cost: not measured, the folder was not empty")
    else:
        cost, said = build_cost.measure(stage, folder, "headwise_app")
        print(f"  build cost: {said}")
        if cost:
            print("  " + build_cost.judge(BUILD_COST, cost))
            (CHECK / "build_cost.json").write_text(json.dumps(cost))
    return build(stage, "release", "all")


def unit_memory(folder, environment):
    return ctest_programs.Memory(CHECK / "unit_passed.json", folder, "unit",
                                 [environment, shared_files()])


def stage_unit(stage):
    folder, env = build_release(stage), fetched_models(stage)
    count, passed = ctest_programs.run(stage, folder, "unit", env)
    unit_memory(folder, env).passed(passed)
    return count


def stage_changed(stage):
    """Unit tests of those programs that are not what passed last."""
    folder = build_tests(stage, "release", "unit")
    env = fetched_models(stage)
    memory = unit_memory(folder, env)
    changed = memory.changed()
    count = Count()
    if changed:
        count, passed = ctest_programs.run(stage, folder, "unit", env, changed)
        memory.passed(passed)
    count.note = f"{len(changed)} of {len(memory.keys)} programs changed"
    return count


def without_precompiled(stage):
    """A folder with a compile database that knows no precompiled headers:
    whoever reads it sees each source with its own includes only."""
    folder = ROOT / "build" / "tidy"
    stage.run("cmake", "--preset", "release", "-B", folder,
              "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "-DHEADWISE_UNITY=OFF",
              "-DHEADWISE_BUILD_TESTS=ON", "-DHEADWISE_BUILD_EXAMPLES=ON",
              "-DHEADWISE_BUILD_BENCHMARKS=ON")
    return folder


def each(jobs, passed, look):
    """Runs look(job) in parallel, which tells (key, exit code, output) of one
    or more; keeps the keys of what passed, and fails with what the others
    said."""
    failures = []
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for done in pool.map(look, jobs):
            for key, code, output in done:
                if code:
                    failures.append(re.sub(r"\d+ warnings.*\n", "", output))
                else:
                    passed.add(key)
    if failures:
        raise Failed("\n".join(failures))


def stage_tidy(stage):
    """clang-tidy on what ships and changed; tests would double its time."""
    folder = without_precompiled(stage)
    passed = Passed(CHECK / "tidy.cache")
    todo = [item for item in house_files.tidy_keys(ROOT, folder)
            if item[1] not in passed]
    each(check_tidy.batches(folder, todo), passed,
         lambda job: check_tidy.look(stage, folder, *job))
    return Count(1, note=f"{len(todo)} files looked at")


def stage_headers(stage):
    """Headers alone."""
    folder = without_precompiled(stage)
    found, absent = check_headers.jobs(ROOT, folder)
    passed = Passed(CHECK / "headers.cache")
    todo = [item for item in found if item[0] not in passed]
    each(todo, passed, lambda job: [(job[0], *stage.run(
        *job[1], cwd=folder, may_fail=True))])
    without = f", {absent} need CUDA, which is not here" if absent else ""
    return Count(1, note=f"{len(todo)} files looked at{without}")


def stage_asan(stage):
    """Clang's warnings are errors here, once for the whole house."""
    configured(stage, "asan", "-DHEADWISE_WERROR=ON")
    folder = build_tests(stage, "asan", "unit")
    return ctest_programs.run(stage, folder, "unit", SANITIZED)[0]


def stage_tsan(stage):
    folder = build_tests(stage, "tsan", "threaded")
    return ctest_programs.run(stage, folder, "threaded", {
        "TSAN_OPTIONS": f"halt_on_error=1:{TOO_LARGE_IS_NULL}"})[0]


def stage_mutation(stage):
    """Every command on files that were spoilt, with the sanitizers."""
    folder = build(stage, "asan", "headwise_app")
    return script(stage, sys.executable, "tests/mutation/run.py",
                  folder / "apps" / "headwise" / "headwise", "--count", 500,
                  env=SANITIZED)


def script(stage, *command, env=None):
    """Runs a script that prints "ok …", "not ok …" or "skip …" a test."""
    code, output = stage.run(*command, may_fail=True, env=env)
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
    build(stage, "release", "headwise", "headwise_operator", "headwise_app")
    return script(stage, "tests/install/run")


def stage_python(stage):
    """The Python package of the release build, by pytest."""
    why_not = check_python.why_not()
    if why_not:
        raise Skipped(f"THE PYTHON PACKAGE IS NOT TESTED: {why_not}")
    folder = build(stage, "release", "headwise_app", "headwise_python")
    return check_python.run(stage, folder)


def stage_dist(stage):
    build(stage, "release", "headwise_app")
    return script(stage, "tests/distributed/run")


def stage_docs(stage):
    build(stage, "release", "headwise", "headwise_app")
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


# Their programs run each test on the GPU too, where there is one.
GPU_TESTS = ("backend", "ops", "nn", "runtime", "conformance", "train",
             "heads", "api")


def stage_gpu(stage):
    """The tests that run operators and models, on the GPU of this machine."""
    options = cuda_options()
    if options is None:
        raise Skipped("NOTHING WAS TESTED ON A GPU: no nvcc here")
    name = gpu_name()
    if not name:
        raise Skipped("NOTHING WAS TESTED ON A GPU: nvidia-smi finds none")
    folder = configured(stage, "cuda", *options, name="gpu")
    stage.run("ninja", "-C", folder, "build.ninja")
    stage.run("ninja", "-C", folder, *(f"{test}_test" for test in GPU_TESTS))
    known = {program.name for program in ctest_programs.programs(folder, "unit")
             if program.name.split(".")[0] in GPU_TESTS}
    count, _ = ctest_programs.run(stage, folder, "unit", only=known)
    count.note = name
    return count


def stage_cuda(stage):
    """Compiles what CUDA adds, and links the program of it and of what ships
    without."""
    options = cuda_options()
    if options is None:
        raise Skipped("no nvcc: the CUDA sources are not compiled")
    # Each source once: what compiles for one chip does for the next.
    folder = configured(stage, "cuda", *options, "-DHEADWISE_CUDA_HOPPER=OFF")
    stage.run("ninja", "-C", folder, "build.ninja")
    _, output = stage.run("ninja", "-C", folder, "-t", "targets", "all")
    objects = re.findall(r"^(src/\S+/(?:cuda|nccl)/\S+(?<!_test\.cc)\.o): ",
                         output, re.M)
    stage.run("ninja", "-C", folder, *objects)
    cache = (folder / "CMakeCache.txt").read_text()
    runtime = re.search(r"^CUDA_cudart_static_LIBRARY:\w+=(.+)$", cache,
                        re.M)[1]
    link_cuda(stage, [str(folder / name) for name in objects], runtime)
    return Count(1, note=f"{len(objects)} objects")


def link_cuda(stage, objects, libraries):
    """Links the program of what release is made of and of these, and starts
    it."""
    release = build(stage, "release", "headwise_app")
    _, output = stage.run("ninja", "-C", release, "-t", "commands",
                          "headwise_app")
    program = CHECK / "headwise-cuda"
    stage.run("bash", "-c", with_objects(output.strip().splitlines()[-1],
                                         objects, program, libraries),
              cwd=release)
    stage.run(program, "--version")


def with_objects(link, objects, program, libraries):
    """The link command of a program with more objects, before the libraries:
    what they define is not taken from the one that says there is no CUDA."""
    link = re.sub(r"(?<= )-o \S+/headwise ",
                  " ".join([*objects, "-o", str(program), ""]), link)
    return re.sub(r"( && :)?$", rf" {libraries} -ldl -lrt -lpthread\1", link,
                  count=1)


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


@dataclasses.dataclass
class Kind:
    """A stage of the check: what it does, what it is, the beginnings of the
    paths it reads ("*.x": the ends), the folder it builds in, and when it
    runs."""
    run: typing.Callable
    what: str
    reads: tuple = ("",)
    folder: str = ""
    whole: bool = True
    quick: bool = False
    background: bool = False

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
                  ("tools/", "headwise", "tests/mutation/"), quick=True),
    "changed": Kind(stage_changed, "unit tests whose programs changed",
                    SOURCES + ("docs/",), whole=False, quick=True),
    "unit": Kind(stage_unit, "unit tests, as shipped", SOURCES + ("docs/",),
                 "release"),
    "tidy": Kind(stage_tidy, "clang-tidy, its short list",
                 SOURCES + (".clang-tidy",), "tidy", background=True),
    "headers": Kind(stage_headers, "every header compiles alone", SOURCES,
                    "tidy", background=True),
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
    "docs": Kind(stage_docs, "what the documents say can be done"),
    "documents": Kind(stage_docs, "the same, when documents changed",
                      ("*.md", "docs/", "examples/", "tests/docs/"),
                      whole=False, quick=True),
    "cuda": Kind(stage_cuda, "the CUDA sources compile and link", SOURCES,
                 "cuda"),
    "gpu": Kind(stage_gpu, "operators, models and training on this GPU",
                SOURCES, "gpu"),
}


def shared_files():
    """Where the data is that is too large for the house, or that there is
    none."""
    return os.environ.get("HEADWISE_SHARED",
                          str((ROOT / "../shared").exists()))


def key_of(name, hashes):
    """The hash of all that a stage's result depends on."""
    kind = STAGES[name]
    return house_files.hash_text(
        house_files.toolchain(), shared_files(),
        {path: content for path, content in hashes.items()
         if kind.depends_on(path) or path.startswith(("tools/", "check"))})


def run_stage(name, key, again, background=False):
    """One stage: its count and whether it passed, told in one line."""
    stamp = CHECK / f"{name}.json"
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
    stamp.write_text(json.dumps({"key": key, **dataclasses.asdict(count)}))
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
    keys = {name: key_of(name, hashes) for name in names}
    aside = [name for name in names if STAGES[name].background]
    front = [name for name in names if name not in aside]
    if not front:
        aside, front = [], aside
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        later = [pool.submit(run_stage, name, keys[name], again, True)
                 for name in aside]
        try:
            return [run_stage(name, keys[name], again) for name in front] + \
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
