"""Whether CUDA can be compiled here, and run."""
import os
import shutil
import subprocess


def cuda_options():
    """For CMake, nvcc being here; None where it is not."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.path.exists(nvcc):
        return None
    os.environ["CUDACXX"] = nvcc
    options = ["-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"]
    if shutil.which("ccache"):
        options.append("-DCMAKE_CUDA_COMPILER_LAUNCHER=ccache")
    return options


def quickly_compiled():
    """Flags with which nvcc is soonest done, where it knows them."""
    known = subprocess.run([os.environ["CUDACXX"], "--help"], text=True,
                           capture_output=True, check=True).stdout
    return "-Ofc=max" if "(-Ofc)" in known else "-O0"


def gpu_name():
    """What nvidia-smi calls the first GPU; empty where there is none."""
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.strip().splitlines()[0] if said.strip() else ""
