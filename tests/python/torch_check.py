#!/usr/bin/env python3
"""Tensors between headwise, NumPy and torch, on the host and on a GPU.

    PYTHONPATH=BUILD/python tests/python/torch_check.py [--program PROGRAM]

One line a check: ok, skip (with what is absent) or FAILED; ends with status 1
where one failed. Needs no test framework: it is for machines whose Python,
NumPy and torch are not Debian's. Pointers are compared, so that what is said
not to be copied is not; values are those of the CPU, and of the program.
"""
import argparse
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import traceback

import numpy as np


def import_in_a_child(**environment):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", "import numpy, headwise"],
        capture_output=True, text=True, errors="replace", check=False,
        env={**os.environ, **environment})


def why_no_import():
    """What an import of the package ends with, or "". One that crashes leaves
    no Python to say so; the loader's words then name the library whose start
    was the last."""
    done = import_in_a_child()
    if done.returncode >= 0:
        return done.stderr if done.returncode else ""
    told = import_in_a_child(LD_DEBUG="files").stderr.splitlines()
    starts = [line for line in told if "calling init" in line]
    return "\n".join([done.stderr, *starts[-3:],
                      signal.Signals(-done.returncode).name])


if why := why_no_import():
    sys.exit(f"FAILED import headwise: {why}")
import headwise as hw  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "assets" / "novels"
LINE = "The captain looked at the sea."
SITE = "layer.3.attention.head_output"
# f32 on a GPU sums in another order.
NEAR = 1e-3


class Absent(Exception):
    """What a check needs and this machine does not have."""


def pointer(array):
    return array.__array_interface__["data"][0]


def need_torch():
    try:
        import torch
    except ImportError as error:
        raise Absent(f"no torch: {error}") from None
    return torch


class Models:
    """Opened when first asked for."""

    def __init__(self):
        self._made = {}

    def on(self, device):
        if device not in self._made:
            try:
                self._made[device] = hw.load(MODEL, device, type="f32")
            except ValueError as error:
                self._made[device] = Absent(str(error))
        if isinstance(self._made[device], Absent):
            raise self._made[device]
        return self._made[device]

    @property
    def cpu(self):
        return self.on("cpu")

    @property
    def gpu(self):
        torch = need_torch()
        if not torch.cuda.is_available():
            raise Absent("torch has no GPU here")
        return self.on("cuda:0")


# ---- The host.

def numpy_round_trip(models, _):
    out, cache = models.cpu.run(LINE, cache=["layer.*.attention.*"])
    for array in (out, *cache.values()):
        ours = hw.Tensor(array)
        back = np.from_dlpack(ours)
        assert ours.pointer == pointer(array) == pointer(back)
        assert back.shape == array.shape and back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def numpy_types_and_strides(*_):
    for kind in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1"):
        array = np.arange(24).reshape(2, 3, 4).astype(kind)
        for view in (array, array[:, ::2], array.T):
            back = np.from_dlpack(hw.Tensor(view))
            assert pointer(back) == pointer(view)
            assert back.dtype == view.dtype and back.strides == view.strides
            np.testing.assert_array_equal(back, view)


def hooks_are_the_programs(models, program):
    if not pathlib.Path(program).exists():
        raise Absent(f"no program: {program}")
    seen = {}
    with models.cpu.hook("layer.*.attention.*",
                         lambda site, x: seen.update({site: x})):
        out, _ = models.cpu.run(LINE)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.safetensors"
        subprocess.run([program, "dump", MODEL, LINE, "--names",
                        "layer.*.attention.*,logits", "--out", path],
                       check=True, stdout=subprocess.DEVNULL)
        data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    assert len(seen) == 30
    for name, array in {**seen, "logits": out}.items():
        begin, end = header[name]["data_offsets"]
        assert array.tobytes() == data[8 + size + begin:8 + size + end], name


def torch_takes_arrays(models, _):
    torch = need_torch()
    out, cache = models.cpu.run(LINE, cache=SITE)
    for array in (out, cache[SITE]):
        for given in (array, hw.Tensor(array)):
            theirs = torch.from_dlpack(given)
            assert theirs.data_ptr() == pointer(array)
            assert np.array_equal(theirs.numpy(), array)
    del out, array, given
    theirs += 1  # the memory is torch's now, too
    assert torch.isfinite(theirs).all()


def torch_gives_tensors(*_):
    torch = need_torch()
    for kind in (torch.float32, torch.float64, torch.float16, torch.bfloat16,
                 torch.int32, torch.int64, torch.uint8):
        x = torch.arange(12).to(kind).reshape(3, 4)
        for view in (x, x.T, x[:, 1:3]):
            ours = hw.Tensor(view)
            assert ours.pointer == view.data_ptr(), kind
            assert ours.strides == tuple(view.stride())
            assert np.array_equal(ours.numpy(), view.to(torch.float64).numpy())
            back = torch.from_dlpack(ours)
            assert back.data_ptr() == view.data_ptr() and back.dtype == kind
            assert torch.equal(back, view)


def torch_in_a_hook(models, _):
    torch = need_torch()

    def close(site, x):
        z = torch.from_dlpack(x)
        assert z.data_ptr() == pointer(x)
        z[:, 2] = 0
    with models.cpu.hook(SITE, close):
        hooked = models.cpu.run(LINE)[0]
    with models.cpu.edit(drop=[(3, 2)]):
        np.testing.assert_allclose(hooked, models.cpu.run(LINE)[0], atol=1e-5)


# ---- A GPU.

def kept_on_the_gpu(model, site):
    """What a run leaves there, by name: tensors that may be kept."""
    kept = {}
    with model.hook(site, lambda name, x: kept.update({name: x})):
        out, _ = model.run(LINE)
    return out, kept


def gpu_values_are_the_cpus(models, _):
    out, cache = models.gpu.run(LINE, cache=["layer.*.attention.*"])
    want, wanted = models.cpu.run(LINE, cache=["layer.*.attention.*"])
    np.testing.assert_allclose(out, want, atol=10 * NEAR)
    assert cache.keys() == wanted.keys()
    for name, array in cache.items():
        np.testing.assert_allclose(array, wanted[name], atol=NEAR,
                                   err_msg=name)


def gpu_to_torch_on_a_side_stream(models, _):
    torch = need_torch()
    _, kept = kept_on_the_gpu(models.gpu, "layer.*.attention.*")
    _, wanted = models.cpu.run(LINE, cache=["layer.*.attention.*"])
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for name, x in kept.items():
            theirs = torch.from_dlpack(x)
            assert theirs.is_cuda and theirs.data_ptr() == x.pointer, name
            twice = theirs * 2
            del theirs
            side.synchronize()
            np.testing.assert_allclose(twice.cpu() / 2, wanted[name][0],
                                       atol=NEAR, err_msg=name)


def torch_to_gpu_and_back(models, _):
    torch = need_torch()
    stream = kept_on_the_gpu(models.gpu, SITE)[1][SITE].stream
    assert stream not in (None, 0)
    for kind in (torch.float32, torch.bfloat16, torch.int64):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.zeros(1 << 24, dtype=kind, device="cuda:0")
            for _ in range(50):
                x += 1
            ours = hw.Tensor(x, stream)  # our queue waits for theirs
            assert ours.pointer == x.data_ptr() and ours.device == "cuda:0"
            back = torch.from_dlpack(ours)
            assert back.data_ptr() == x.data_ptr() and back.dtype == kind
            assert bool((back == 50).all())


def torch_on_a_side_stream_in_a_hook(models, _):
    """What a hook does on any stream is done before the run goes on."""
    torch, gpu = need_torch(), models.gpu
    side = torch.cuda.Stream()

    def close(site, x):
        with torch.cuda.stream(side):
            z = torch.from_dlpack(x)
            assert z.data_ptr() == x.pointer
            assert hw.Tensor(z, x.stream).pointer == x.pointer
            slow = torch.ones(4096, 4096, device="cuda:0")
            for _ in range(20):
                slow = slow @ slow / 4096
            z[:, 2] = z[:, 2] * (slow.mean() - 1).round()
    with gpu.hook(SITE, close):
        hooked = gpu.run(LINE)[0]
    with gpu.edit(drop=[(3, 2)]):
        np.testing.assert_allclose(hooked, gpu.run(LINE)[0], atol=NEAR)


def torch_replaces_in_a_hook(models, _):
    """A tensor of torch, made on a side stream, or of the host."""
    torch, gpu = need_torch(), models.gpu
    other = "The captain looked at the man."
    _, kept = models.cpu.run(other, cache=SITE)
    side = torch.cuda.Stream()

    def on_gpu(site, x):
        with torch.cuda.stream(side):
            return torch.from_numpy(kept[SITE][0]).to("cuda:0",
                                                      non_blocking=True)
    with models.cpu.hook(SITE, lambda site, x: kept[SITE][0]):
        want = models.cpu.run(LINE)[0]
    for function in (on_gpu, lambda site, x: kept[SITE][0],
                     lambda site, x: torch.from_numpy(kept[SITE][0])):
        with gpu.hook(SITE, function):
            np.testing.assert_allclose(gpu.run(LINE)[0], want, atol=10 * NEAR)


def memory_outlives_its_run(models, _):
    torch = need_torch()
    _, first = kept_on_the_gpu(models.gpu, SITE)
    theirs = torch.from_dlpack(first.pop(SITE))
    want = theirs.clone()
    for _ in range(20):
        kept_on_the_gpu(models.gpu, SITE)
    assert torch.equal(theirs, want)


CHECKS = (numpy_round_trip, numpy_types_and_strides, hooks_are_the_programs,
          torch_takes_arrays, torch_gives_tensors, torch_in_a_hook,
          gpu_values_are_the_cpus, gpu_to_torch_on_a_side_stream,
          torch_to_gpu_and_back, torch_on_a_side_stream_in_a_hook,
          torch_replaces_in_a_hook, memory_outlives_its_run)


def versions():
    words = [f"headwise {hw.__version__}", f"NumPy {np.__version__}",
             f"Python {sys.version.split()[0]}"]
    try:
        torch = need_torch()
        words.append(f"torch {torch.__version__}")
        if torch.cuda.is_available():
            words.append(torch.cuda.get_device_name(0))
    except Absent as absent:
        words.append(str(absent))
    return ", ".join(words)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default=os.environ.get(
        "HEADWISE_PROGRAM", ROOT / "build/release/apps/headwise/headwise"))
    program = parser.parse_args().program
    print(versions(), flush=True)
    models, failed, skipped = Models(), 0, 0
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        try:
            check(models, program)
            print(f"ok {name}", flush=True)
        except Absent as absent:
            skipped += 1
            print(f"skip {name}: NOTHING WAS CHECKED, {absent}", flush=True)
        except Exception:  # every other check still runs
            failed += 1
            traceback.print_exc()
            print(f"FAILED {name}", flush=True)
    print(f"{len(CHECKS) - failed - skipped} ok, {skipped} skipped, "
          f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
