#!/usr/bin/env python3
"""Head statistics by Hugging Face eager attention + hooks, beside ours.

    bench/peers/hf_profile.py --headwise build/release/apps/headwise/headwise

Makes a random model of GPT-2 small's shape (12 layers x 12 heads x 64, 4096
positions), runs it in PyTorch with eager attention and a forward hook that
computes entropy, previous, first, distance and max of every head, then runs
`headwise profile --metrics core`, which gives the same, and `--metrics all`,
which gives everything, on the same checkpoint and ids. Needs torch,
transformers and safetensors; no network. Prints tokens/s and peak memory, and
JSON with --json.

How it is measured: each side and length runs in a process of its own, so that
peak resident memory is its own. (A process also counts the peak of the one that
started it, so this one never loads PyTorch.) PyTorch is timed inside (one
warm-up of --warm-up tokens, then the best of the calls); ours is timed from
outside as the difference between a run of many windows and a run of one, so
that loading is left out on both sides. PyTorch's hooks keep sums only: each layer's matrix is
freed before the next. The two sides take turns for --runs runs; medians are
printed, and the least and the largest ratio.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

def make(folder, lengths, more):
    """A random model, and for each length N ids [1, N] and [1 + more, N]."""
    import torch
    from safetensors.torch import save_file
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(1)
    config = GPT2Config(n_positions=max(lengths))
    GPT2LMHeadModel(config).save_pretrained(folder, safe_serialization=True)
    torch.manual_seed(2)
    for length in lengths:
        for windows in (1, 1 + more):
            # The last id is <|endoftext|>.
            ids = torch.randint(0, config.vocab_size - 1, (windows, length))
            save_file({"input_ids": ids},
                      str(folder / f"ids-{length}-{windows}.safetensors"))


class HeadSums:
    """A hook's sums of one layer, as tensors [heads]."""

    def __init__(self):
        self.sums = None

    def __call__(self, module, inputs, output):
        import torch
        p = output[1]  # [batch, heads, N, N]
        n = p.shape[-1]
        position = torch.arange(n)
        distance = (position[:, None] - position[None, :]).abs().to(p.dtype)
        found = torch.stack([
            -torch.special.xlogy(p, p).sum(-1).mean((0, 2)),
            p.diagonal(-1, -2, -1).mean((0, 2)),
            p[..., 0].mean((0, 2)),
            (p * distance).sum(-1).mean((0, 2)),
            p.amax(-1).mean((0, 2)),
        ])
        self.sums = found if self.sums is None else self.sums + found


def run_torch(folder, length, args):
    import torch
    import transformers
    from safetensors.torch import load_file
    torch.set_num_threads(args.threads)
    model = transformers.GPT2LMHeadModel.from_pretrained(
        folder, attn_implementation="eager").transformer.eval()
    hooks = []
    for block in model.h:
        hooks.append(HeadSums())
        block.attn.register_forward_hook(hooks[-1])
    ids = load_file(
        str(folder / f"ids-{length}-{1 + args.windows}.safetensors"))["input_ids"]
    best = float("inf")
    with torch.no_grad():
        model(ids[:1, :args.warm_up], use_cache=False)
        for call in range(args.calls):
            begin = time.perf_counter()
            model(ids[(1 + call) % len(ids)][None], use_cache=False)
            best = min(best, time.perf_counter() - begin)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"tokens_per_s": length / best, "peak_bytes": peak,
            "torch": torch.__version__,
            "transformers": transformers.__version__}


def run_headwise(args, folder, length, metrics):
    """Tokens/s between one window and 1 + --windows, and the peak."""
    seconds, peak = [], 0
    for windows in (1, 1 + args.windows):
        command = [args.headwise, "profile", str(folder), "--ids",
                   str(folder / f"ids-{length}-{windows}.safetensors"),
                   "--context", str(length), "--repeats", "0",
                   "--threads", str(args.threads), "--metrics", metrics,
                   "--out", str(folder / "random.heads")]
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
        seconds.append(time.perf_counter() - begin)
        peak = max(peak, usage.ru_maxrss * 1024)
    return {"tokens_per_s": args.windows * length / (seconds[1] - seconds[0]),
            "peak_bytes": peak}


def median_of(runs, key):
    return statistics.median(run[key] for run in runs)


def row_of(length, metrics, threads, ours, peers):
    """What several runs of both sides, taken in turn, come to."""
    ratios = [our["tokens_per_s"] / peer["tokens_per_s"]
              for our, peer in zip(ours, peers)]
    row = {"length": length, "threads": threads, "metrics": metrics,
           "speed_ratio": statistics.median(ratios),
           "speed_ratios": ratios}
    for name, runs in (("headwise", ours), ("hugging_face", peers)):
        row[name] = {**runs[0],
                     **{key: median_of(runs, key)
                        for key in ("tokens_per_s", "peak_bytes")}}
    row["memory_ratio"] = (row["hugging_face"]["peak_bytes"] /
                           row["headwise"]["peak_bytes"])
    return row


def line_of(row):
    ours, peer = row["headwise"], row["hugging_face"]
    return (f"{row['length']:6} {row['metrics']:>7} "
            f"{ours['tokens_per_s']:10.0f} {peer['tokens_per_s']:13.0f} "
            f"{row['speed_ratio']:6.2f} ({min(row['speed_ratios']):.2f}–"
            f"{max(row['speed_ratios']):.2f}) "
            f"{ours['peak_bytes'] / 2**20:10.0f} / "
            f"{peer['peak_bytes'] / 2**20:.0f} {row['memory_ratio']:10.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headwise", default="headwise")
    parser.add_argument("--lengths", default="1024,4096")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--metrics", default="core,all")
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1024)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--torch", nargs=2, metavar=("FOLDER", "N"),
                        help="internal: run PyTorch's side and print JSON")
    parser.add_argument("--make", metavar="FOLDER",
                        help="internal: write the model and the ids")
    args = parser.parse_args()
    lengths = [int(n) for n in args.lengths.split(",")]
    if args.make:
        return make(pathlib.Path(args.make), lengths, args.windows)
    if args.torch:
        folder, length = pathlib.Path(args.torch[0]), int(args.torch[1])
        print(json.dumps(run_torch(folder, length, args)))
        return
    rows = []
    if not args.json:
        print("     N metrics   headwise  hugging face  ratio (range)   "
              "peak MiB ours/theirs  ratio", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([sys.executable, __file__, "--make", name, "--lengths",
                        args.lengths, "--windows", str(args.windows)],
                       check=True)
        for length in lengths:
            peers = []
            ours = {metrics: [] for metrics in args.metrics.split(",")}
            for _ in range(args.runs):
                peers.append(json.loads(subprocess.run(
                    [sys.executable, __file__, "--torch", name, str(length),
                     "--threads", str(args.threads), "--calls",
                     str(args.calls), "--warm-up", str(args.warm_up),
                     "--windows", str(args.windows)],
                    check=True, stdout=subprocess.PIPE, text=True).stdout))
                for metrics, runs in ours.items():
                    runs.append(run_headwise(args, folder, length, metrics))
            for metrics, runs in ours.items():
                rows.append(row_of(length, metrics, args.threads, runs, peers))
                if not args.json:
                    print(line_of(rows[-1]), flush=True)
    if args.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
