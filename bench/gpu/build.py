"""Builds what tools/bench_gpu loads, by the house's own CMake."""
import os
import pathlib
import shutil
import subprocess

import find_cuda

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = "headwise_gpu_bridge"


def build(folder, *options):
    """The library's path; raises with the compiler's words."""
    cuda = find_cuda.cuda_options()
    if cuda is None:
        raise FileNotFoundError("nvcc: not in PATH, nor in /usr/local/cuda/bin")
    generator = [] if shutil.which("ninja") else ["-G", "Unix Makefiles"]
    configure = ["cmake", "-S", ROOT, "-B", folder, "--preset", "release",
                 *generator, "-DHEADWISE_CUDA=ON", "-DHEADWISE_OPERATOR_ONLY=ON",
                 "-DHEADWISE_ONE_TARGET=ON", *cuda, *options]
    make = ["cmake", "--build", folder, "--target", TARGET, "--parallel",
            str(os.cpu_count() or 2)]
    for command in configure, make:
        subprocess.run(list(map(str, command)), cwd=ROOT, check=True,
                       text=True, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    return pathlib.Path(folder) / "bench" / f"lib{TARGET}.so"
