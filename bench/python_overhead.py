#!/usr/bin/env python3
"""What Python costs: the package beside the program, and hooks in Python.

    PYTHONPATH=BUILD/python bench/python_overhead.py [--program PROGRAM]
        [--repeats 5] [--rows 8] [--tokens 1024] [--device cpu] [--keep FOLDER]

On a model of GPT-2 small's shape with random weights, made for the run:
  profile   a profile of rows × tokens ids, core metrics: the program beside a
            Python that imports the package, opens the model, profiles and
            saves; whole processes.
  hooks     a run of so many tokens to the last layer, alone and with a function
            of Python at every layer's head_output, and at every place where
            heads are apart (query, key, value, head_output).
Both sides take turns; medians with their ranges. Ends with status 1 where the
package costs 3 % or more, or hooks at every head's output 30 %.
"""
import argparse
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, LAYERS, HEADS, VOCABULARY, POSITIONS = 768, 12, 12, 50257, 1024
MOST_PACKAGE, MOST_HOOKS = 0.03, 0.30
IN_PYTHON = """
import sys
import headwise as hw
model, rows, tokens, device, out = sys.argv[1:]
import numpy as np
ids = np.load(rows).tolist()
m = hw.load(model, device)
m.profile(ids, "core", repeats=0, context=int(tokens)).save(out)
"""


def write_tensors(path, tensors):
    """A safetensors file."""
    names = {"float32": "F32", "float16": "F16", "int32": "I32"}
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": names[str(array.dtype)],
                        "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


def make_model(folder):
    import numpy as np
    rng = np.random.default_rng(3)

    def noise(*shape):
        some = 0.02 * rng.standard_normal(1 << 20).astype(np.float32)
        return np.resize(some, shape).astype(np.float16)

    def norm(name):
        return {f"{name}.weight": np.ones(WIDTH, np.float16),
                f"{name}.bias": np.zeros(WIDTH, np.float16)}

    def linear(name, inner, outer):
        return {f"{name}.weight": noise(inner, outer),
                f"{name}.bias": np.zeros(outer, np.float16)}
    tensors = {"wte.weight": noise(VOCABULARY, WIDTH),
               "wpe.weight": noise(POSITIONS, WIDTH), **norm("ln_f")}
    for layer in range(LAYERS):
        at = f"h.{layer}"
        tensors |= {**norm(f"{at}.ln_1"), **norm(f"{at}.ln_2"),
                    **linear(f"{at}.attn.c_attn", WIDTH, 3 * WIDTH),
                    **linear(f"{at}.attn.c_proj", WIDTH, WIDTH),
                    **linear(f"{at}.mlp.c_fc", WIDTH, 4 * WIDTH),
                    **linear(f"{at}.mlp.c_proj", 4 * WIDTH, WIDTH)}
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(
        {"model_type": "gpt2", "n_embd": WIDTH, "n_layer": LAYERS,
         "n_head": HEADS, "n_ctx": POSITIONS, "n_positions": POSITIONS,
         "vocab_size": VOCABULARY, "n_inner": 4 * WIDTH}))


def seconds_of(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def in_turns(calls, repeats):
    """Seconds of each, by name; one call before that is not counted."""
    for call in calls.values():
        call()
    taken = {name: [] for name in calls}
    for turn in range(repeats):
        names = list(calls)
        for name in names if turn % 2 == 0 else names[::-1]:
            taken[name].append(seconds_of(calls[name]))
    return taken


def told(taken):
    """One line each; what each costs over the first, by medians."""
    middle = {name: statistics.median(some) for name, some in taken.items()}
    first = next(iter(middle.values()))
    for name, some in taken.items():
        print(f"  {name:<28} {middle[name]:7.3f} s "
              f"({min(some):.3f} to {max(some):.3f})  "
              f"{100 * (middle[name] / first - 1):+5.1f} %", flush=True)
    return {name: value / first - 1 for name, value in middle.items()}


def measure_package(args, model, ids, work):
    import numpy as np
    np.save(work / "ids.npy", ids)
    write_tensors(work / "ids.safetensors", {"input_ids": ids})
    out = work / "out.heads"

    def run(*words):
        subprocess.run([str(word) for word in words], check=True,
                       stdout=subprocess.DEVNULL)
    return told(in_turns({
        "the program": lambda: run(
            args.program, "profile", model, "--ids", work / "ids.safetensors",
            "--metrics", "core", "--repeats", 0, "--context", args.tokens,
            "--device", args.device, "--out", out),
        "Python": lambda: run(sys.executable, "-c", IN_PYTHON, model,
                              work / "ids.npy", args.tokens, args.device, out),
    }, args.repeats))


def measure_hooks(args, model, ids):
    import headwise as hw
    m = hw.load(model, args.device)
    row = ids[0].tolist()
    calls = []

    def look(site, x):
        calls.append(x.shape)

    def hooked(*patterns):
        def run():
            hooks = [m.hook(f"layer.*.attention.{one}", look)
                     for one in patterns]
            calls.clear()
            m.run(row, out=False)
            assert len(calls) == LAYERS * len(patterns), calls
            for hook in hooks:
                hook.remove()
        return run
    return told(in_turns({
        "no hook": lambda: m.run(row, out=False),
        "every head_output": hooked("head_output"),
        "query, key, value, output": hooked("query", "key", "value",
                                            "head_output"),
    }, args.repeats))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default=os.environ.get(
        "HEADWISE_PROGRAM", ROOT / "build/release/apps/headwise/headwise"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", type=pathlib.Path,
                        help="where the model is, or is put and left")
    args = parser.parse_args()
    if args.repeats < 5 or not 0 < args.tokens <= POSITIONS:
        parser.error(f"expected at least 5 repeats and 1 to {POSITIONS} tokens")
    import numpy as np
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        model = args.keep or work / "model"
        if not (model / "config.json").exists():
            make_model(model)
        rng = np.random.default_rng(11)
        ids = rng.integers(0, VOCABULARY, (args.rows, args.tokens), np.int32)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; "
              f"{args.rows} x {args.tokens} tokens; medians of {args.repeats}")
        print("profile")
        package = measure_package(args, model, ids, work)["Python"]
        print("hooks")
        hooks = measure_hooks(args, model, ids)["every head_output"]
    print(f"Python over the program {100 * package:+.1f} % (limit "
          f"{100 * MOST_PACKAGE:.0f}), hooks {100 * hooks:+.1f} % (limit "
          f"{100 * MOST_HOOKS:.0f}); load {os.getloadavg()[0]:.1f}")
    return 0 if package < MOST_PACKAGE and hooks < MOST_HOOKS else 1


if __name__ == "__main__":
    sys.exit(main())
