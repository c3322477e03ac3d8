"""The stages of ./check: what each runs, and what it counts. run_checks.py says
when."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import sys

import build_cost
import check_headers
import check_python
import ctest_programs
import house_files
from find_cuda import cuda_options, gpu_name, quickly_compiled
from stage import CHECK, JOBS, ROOT, Count, Failed, Passed, Skipped, Stage

# Tests ask for impossible sizes: an allocator answers with null.
TOO_LARGE_IS_NULL = "allocator_may_return_null=1"
SANITIZED = {"ASAN_OPTIONS": TOO_LARGE_IS_NULL,
             "UBSAN_OPTIONS": "print_stacktrace=1"}
BUILD_COST = ROOT / "tools" / "build_cost.json"


def shared_files():
    """Where the data is that is too large for the house, or that there is
    none."""
    return os.environ.get("HEADWISE_SHARED",
                          str((ROOT / "../shared").exists()))


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
    wanted = [option.removeprefix("-D").split("=", 1) for option in
              ("-DHEADWISE_BUILD_TESTS=ON", *options)
              if option.startswith("-DHEADWISE_")]
    if not (folder / "build.ninja").exists() or \
            not all(re.search(rf"^{name}:\w+={re.escape(value)}$", known, re.M)
                    for name, value in wanted):
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
    """A folder with a compile database that knows no precompiled headers, of
    whole layers and of one instruction set."""
    folder = ROOT / "build" / "tidy"
    stage.run("cmake", "--preset", "release", "-B", folder,
              "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON",
              "-DHEADWISE_UNITY_SIZE=40", "-DHEADWISE_ONE_TARGET=ON",
              "-DHEADWISE_BUILD_TESTS=OFF", "-DHEADWISE_BUILD_EXAMPLES=ON",
              "-DHEADWISE_BUILD_BENCHMARKS=OFF")
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
    """clang-tidy on what ships and changed, as many sources at a time as are
    compiled together: most of its time goes into what they include."""
    folder = without_precompiled(stage)
    passed = Passed(CHECK / "tidy.cache")
    todo = [item for item in house_files.tidy_keys(ROOT, folder)
            if item[1] not in passed]

    def look(item):
        source, key = item
        # What is compiled together includes sources.
        but = ["--checks=-bugprone-suspicious-include"] \
            if source.parent.name == "Unity" else []
        return [(key, *stage.run("clang-tidy", "--quiet", *but, "-p", folder,
                                 source, may_fail=True))]

    each(todo, passed, look)
    return Count(1, note=f"{len(todo)} batches looked at")


def stage_headers(stage):
    """Headers alone, and sources of the operator."""
    folder = without_precompiled(stage)
    found, absent = check_headers.jobs(stage, ROOT, folder)
    passed = Passed(CHECK / "headers.cache")
    todo = [item for item in found if item[0] not in passed]
    each(todo, passed, lambda item: [(item[0], *stage.run(
        *item[1], cwd=folder, may_fail=True))])
    without = f", {absent} need CUDA, which is not here" if absent else ""
    return Count(1, note=f"{len(todo)} files looked at{without}")


def sanitized(stage, taken):
    """The sanitized build, configured: clang's warnings are errors here, once
    for all that ships. Tests and kernels are those of the release build, of
    which a target makes what is taken."""
    release = build(stage, "release", taken)
    return configured(stage, "asan", "-DHEADWISE_WERROR=ON",
                      f"-DHEADWISE_TESTS_OF={release}")


def stage_asan(stage):
    sanitized(stage, "test_objects")
    folder = build_tests(stage, "asan", "unit")
    return ctest_programs.run(stage, folder, "unit", SANITIZED)[0]


def stage_tsan(stage):
    folder = build_tests(stage, "tsan", "threaded")
    return ctest_programs.run(stage, folder, "threaded", {
        "TSAN_OPTIONS": f"halt_on_error=1:{TOO_LARGE_IS_NULL}"})[0]


def stage_mutation(stage):
    """Every command on files that were spoilt, with the sanitizers."""
    folder = sanitized(stage, "headwise_ops")
    stage.run("ninja", "-C", folder, "headwise_app")
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
    """The pages in Chromium, on fixtures, the demo's report and an atlas."""
    folder = build(stage, "release", "headwise_app")
    web = ROOT / "build" / "page" / "web"
    if not (web / "dist" / "report.html").exists():
        raise Skipped("no Node, or its packages could not be had: reports are "
                      "plain tables, and the page is not tested")
    shutil.copytree(ROOT / "web" / "test", web / "test", dirs_exist_ok=True)
    demo = CHECK / "web"
    program = folder / "apps" / "headwise" / "headwise"
    stage.run(program, "demo", "--out", demo)
    atlas = CHECK / "atlas"
    stage.run(program, "atlas", ROOT / "assets/novels", "--text",
              ROOT / "assets/text", "--tokens", "4096", "--rank-tokens", "256",
              "--strongest", "3", "--samples", "1", "--out", atlas)
    code, output = stage.run(
        "node", "--test", "--test-reporter=tap", web / "test/page.test.mjs",
        web / "test/atlas.test.mjs", may_fail=True,
        env={"HEADWISE_REPORT": str(demo), "HEADWISE_ATLAS": str(atlas),
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
    # Each source once: what compiles for one chip does for the next. Nothing
    # of it runs here, so that the compilers need not make it fast.
    folder = configured(
        stage, "cuda", *options, "-DHEADWISE_CUDA_HOPPER=OFF",
        "-DHEADWISE_UNITY=OFF",
        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0",
        f"-DCMAKE_CUDA_FLAGS_DEBUG={quickly_compiled()}")
    stage.run("ninja", "-C", folder, "build.ninja")
    _, output = stage.run("ninja", "-C", folder, "-t", "targets", "all")
    objects = re.findall(r"^(src/\S+/(?:cuda|nccl)/\S+(?<!_test\.cc)\.o): ",
                         output, re.M)
    bridge = re.findall(r"^(bench/gpu/\S+\.o): ", output, re.M)
    stage.run("ninja", "-C", folder, *objects, *bridge)
    cache = (folder / "CMakeCache.txt").read_text()
    runtime = re.search(r"^CUDA_cudart_static_LIBRARY:\w+=(.+)$", cache,
                        re.M)[1]
    objects = [str(folder / name) for name in objects]
    release = build(stage, "release", "headwise_app")
    link_cuda(stage, release, objects, runtime)
    # Operators know nothing of processes.
    link_bridge(stage, folder, release,
                [name for name in objects if "/nccl/" not in name])
    return Count(2, note=f"{len(objects)} objects")


def link_of(stage, folder, target):
    """The command that links a target."""
    _, output = stage.run("ninja", "-C", folder, "-t", "commands", target)
    return output.strip().splitlines()[-1]


def link_cuda(stage, release, objects, libraries):
    """Links the program of what release is made of and of these, and starts
    it."""
    program = CHECK / "headwise-cuda"
    stage.run("bash", "-c", with_objects(
        link_of(stage, release, "headwise_app"), objects, program, libraries),
        cwd=release)
    stage.run(program, "--version")


def link_bridge(stage, folder, release, objects):
    """Links what tools/bench_gpu loads, likewise, and loads it."""
    library = CHECK / "libheadwise_gpu_bridge.so"
    link = link_of(stage, folder, "headwise_gpu_bridge")
    link = re.sub(r" -o \S+ (\S+)",
                  lambda match: " ".join(["", "-o", str(library), match[1],
                                          *objects]), link, count=1)
    link = re.sub(r"(?<= )(?=src/headwise/\S+\.a )", f"{release}/", link)
    stage.run("bash", "-c", link, cwd=folder)
    stage.run(sys.executable, "-c", "import ctypes, sys; "
              "ctypes.CDLL(sys.argv[1]).BridgeForward", library)


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
