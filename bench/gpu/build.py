"""Builds the CUDA operators and bridge.cc into one shared library with nvcc."""
import concurrent.futures
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CUDA = ROOT / "src/headwise/ops/attention/cuda"
SM90 = ["-gencode=arch=compute_90a,code=sm_90a"]
SM80 = ["-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90"]
# As in the CMakeLists.txt of CUDA: template, element type, columns, flags.
INSTANCES = [("sm90/instance", "__nv_bfloat16", 64, SM90),
             ("sm90/instance", "__nv_bfloat16", 128, SM90),
             ("sm90/instance", "__half", 64, SM90),
             ("sm90/instance", "__half", 128, SM90),
             ("sm90/full_instance", "__nv_bfloat16", 64, SM90),
             ("sm90/full_instance", "__nv_bfloat16", 128, SM90),
             ("sm90/backward_instance", "__nv_bfloat16", 64, SM90),
             ("sm90/backward_instance", "__nv_bfloat16", 128, SM90),
             ("sm80/instance", "__nv_bfloat16", 64, SM80),
             ("sm80/instance", "__nv_bfloat16", 128, SM80),
             ("sm80/instance", "__nv_bfloat16", 256, SM80),
             ("sm80/instance", "__half", 128, SM80)]
HOST = ["src/headwise/base/error.cc", "src/headwise/tensor/tensor.cc",
        "src/headwise/backend/context.cc",
        "src/headwise/backend/device_backend.cc",
        "src/headwise/backend/cpu/backend.cc",
        "src/headwise/backend/cpu/thread_pool.cc",
        "src/headwise/backend/cpu/workspace.cc",
        "src/headwise/backend/cuda/backend.cc",
        "src/headwise/backend/cuda/blas.cc",
        "src/headwise/backend/cuda/blas_library.cc",
        "src/headwise/backend/cuda/record.cc",
        "src/headwise/ops/attention/call.cc",
        "src/headwise/ops/attention/cuda/arguments.cc",
        "src/headwise/ops/attention/cuda/copy_engine.cc",
        "src/headwise/ops/attention/cuda/decode.cc",
        "src/headwise/ops/attention/cuda/forward.cc",
        "src/headwise/ops/attention/cuda/observation.cc",
        "src/headwise/ops/attention/cuda/second_pass.cc",
        "src/headwise/ops/attention/cuda/sm80.cc",
        "src/headwise/ops/attention/cuda/sm90.cc",
        "src/headwise/ops/attention/cuda/why_not.cc", "bench/gpu/bridge.cc"]


def build(folder):
    """The library's path; raises with the compiler's words."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    common = ["nvcc", "-std=c++20", "-O3", "-Xcompiler=-fPIC", "-lineinfo",
              "-DHEADWISE_BUILDING", f"-I{ROOT / 'include'}",
              f"-I{ROOT / 'src'}", "-c"]
    jobs, objects = [], []
    for template, element, dim, flags in INSTANCES:
        text = (CUDA / f"{template}.cu.in").read_text(encoding="utf-8")
        text = text.replace("@HEADWISE_TYPE@", element)
        text = text.replace("@HEADWISE_DIM@", str(dim))
        name = template.replace("/", "_") + f"_{element.strip('_')}_{dim}"
        source = folder / f"{name}.cu"
        source.write_text(text, encoding="utf-8")
        jobs.append((source, flags))
    jobs += [(CUDA / f"{name}.cu", SM80)
             for name in ("prepare", "delta", "table_gradient", "decode", "gram", "observe", "received",
                          "second_pass", "sums")]
    jobs += [(ROOT / source, []) for source in HOST]

    def compile_one(job):
        source, flags = job
        # Two folders may hold files of one name.
        target = folder / f"{source.parent.name}_{source.name}.o"
        subprocess.run(common + flags + ["-o", str(target), str(source)],
                       check=True, capture_output=True, text=True)
        return str(target)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, jobs))
    library = folder / "libheadwise_gpu.so"
    subprocess.run(["nvcc", "-shared", "-o", str(library), *objects],
                   check=True, capture_output=True, text=True)
    return library
