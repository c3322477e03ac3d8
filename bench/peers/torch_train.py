#!/usr/bin/env python3
"""Training steps by PyTorch eager, beside `headwise bench train`.

    bench/peers/torch_train.py --headwise build/release/apps/headwise/headwise

A causal language model of 6 layers x 8 heads x 256 (Llama: feed-forward 688,
vocabulary 4096, tied embeddings), 8 sequences of 256 random tokens a step, in
f32: forward, cross-entropy, backward, clipping by the gradient's norm, AdamW
with decay on matrices only. Needs torch and transformers; no network. Prints
tokens/s of both sides and their ratio for each number of threads, and JSON
with --json. Without --headwise (and none in PATH) PyTorch's side alone.

How it is measured: each side and number of threads runs in a process of its
own, one after the other. PyTorch takes its warm-up steps, then the median of
the timed ones; ours is the median that `headwise bench train` reports. Both
kinds of PyTorch's attention (eager, sdpa) are timed and the faster one counts;
its AdamW runs in the fused form where this build has one for the CPU. The two
sides take turns for --runs runs; medians are printed, and the least and the
largest ratio.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

SHAPE = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 6,
         "num_attention_heads": 8, "num_key_value_heads": 8,
         "vocab_size": 4096, "max_position_embeddings": 512,
         "rms_norm_eps": 1e-6, "hidden_act": "silu",
         "tie_word_embeddings": True, "attention_bias": False,
         "mlp_bias": False}
BATCH, LENGTH = 8, 256
ATTENTION = ("eager", "sdpa")


def optimizer_of(torch, model):
    """AdamW as ours, fused where there is such a kernel."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1],
               "weight_decay": 0.1},
              {"params": [p for p in trained if p.dim() <= 1],
               "weight_decay": 0.0}]
    options = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **options), "fused"
    except (RuntimeError, TypeError, ValueError):
        return torch.optim.AdamW(groups, **options), "plain"


def run_torch(attention, threads, warm_up, steps):
    import torch
    import transformers
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.LlamaConfig(**SHAPE), attn_implementation=attention)
    model = model.float().train()
    optimizer, kind = optimizer_of(torch, model)
    # One more than a sequence: inputs and what follows them.
    ids = torch.randint(0, SHAPE["vocab_size"],
                        (warm_up + steps, BATCH, LENGTH + 1))
    seconds, loss = [], None
    for step in range(warm_up + steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        logits = model(input_ids=ids[step, :, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            ids[step, :, 1:].reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= warm_up:
            seconds.append(time.perf_counter() - begin)
    if not torch.isfinite(loss):
        raise SystemExit("PyTorch's loss is not finite")
    median = statistics.median(seconds)
    return {"attention": attention, "adamw": kind, "threads": threads,
            "ms": 1e3 * median,
            "tokens_per_second": BATCH * LENGTH / median,
            "parameters": sum(p.numel() for p in model.parameters()),
            "loss": float(loss.detach()), "torch": torch.__version__,
            "transformers": transformers.__version__}


def best_of_torch(args, threads):
    """The faster kind of attention, each in its own process."""
    best = None
    for attention in ATTENTION:
        command = [sys.executable, os.path.abspath(__file__),
                   "--torch", attention, "--threads", str(threads),
                   "--warm-up", str(args.warm_up), "--steps", str(args.steps)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads),
                       "MKL_NUM_THREADS": str(threads)}
        done = subprocess.run(command, text=True, check=False,
                              stdout=subprocess.PIPE, env=environment)
        if done.returncode != 0:
            print(f"note: PyTorch with {attention} attention failed",
                  file=sys.stderr)
            continue
        # Libraries may print before the result, which is the last line.
        found = json.loads(done.stdout.strip().splitlines()[-1])
        if best is None or found["ms"] < best["ms"]:
            best = found
    if best is None:
        raise SystemExit("PyTorch ran with no kind of attention")
    return best


def run_headwise(binary, threads, seconds):
    done = subprocess.run(
        [binary, "bench", "train", "--threads", str(threads), "--sentences",
         str(BATCH), "--length", str(LENGTH), "--seconds", str(seconds),
         "--json"], text=True, check=False, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"failed: {binary} bench train")
    return json.loads(done.stdout)["rows"][0]


def middle(runs):
    """The run of median speed."""
    return sorted(runs, key=lambda run: run["tokens_per_second"])[
        len(runs) // 2]


def row_of(threads, ours, peers):
    row = {"threads": threads, "torch": middle(peers)}
    if ours:
        row["headwise"] = middle(ours)
        row["ratios"] = [our["tokens_per_second"] / peer["tokens_per_second"]
                         for our, peer in zip(ours, peers)]
        row["ratio"] = statistics.median(row["ratios"])
    return row


def line_of(row):
    ours = row.get("headwise", {}).get("tokens_per_second", 0)
    peer, ratios = row["torch"], row.get("ratios", [0])
    return (f"{row['threads']:>7} {ours:>10.0f} "
            f"{peer['tokens_per_second']:>10.0f} "
            f"{row.get('ratio', float('nan')):>6.2f} "
            f"({min(ratios):.2f}–{max(ratios):.2f})  {peer['attention']}, "
            f"AdamW {peer['adamw']}, torch {peer['torch']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headwise", default=shutil.which("headwise"))
    parser.add_argument("--threads", default="2,16")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10,
                        help="of our side, for each number of threads, about")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--torch", choices=ATTENTION,
                        help="internal: run PyTorch's side and print JSON")
    args = parser.parse_args()
    counts = [int(count) for count in args.threads.split(",")]
    if args.torch:
        print(json.dumps(run_torch(args.torch, counts[0], args.warm_up,
                                   args.steps)))
        return
    rows = []
    if not args.json:
        print(f"{'threads':>7} {'headwise':>10} {'PyTorch':>10} "
              f"{'ratio (range)':>19}  (tokens/s)", flush=True)
    for threads in counts:
        peers, ours = [], []
        for _ in range(args.runs):
            peers.append(best_of_torch(args, threads))
            if args.headwise:
                ours.append(run_headwise(args.headwise, threads,
                                         args.seconds))
        rows.append(row_of(threads, ours, peers))
        if not args.json:
            print(line_of(rows[-1]), flush=True)
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
