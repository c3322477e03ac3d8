#!/usr/bin/env python3
"""PyTorch's scaled-dot-product flash attention on the CPU, as a peer.

Alone it prints JSON rows like those of `headwise bench attention --json`:

    bench/peers/torch_sdpa.py [--types f32,bf16] [--threads 1,16]

With --serve FOLDER it is the other end of apps/headwise/bench/peer_torch.cc:
it reads q, k and v from FOLDER (dense [batch, position, head, dim]), writes
out there, says "ready VERSION" or "refused REASON", and then answers each line
"CALLS" with the seconds that so many calls took.
"""
import argparse
import json
import os
import platform
import statistics
import sys
import time

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    torch = None

TYPES = {} if torch is None else {
    "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


class Problem:
    """Tensors [batch, head, position, dim] and the call to be timed."""

    def __init__(self, args, q, k, v):
        self.causal = args.mask == "causal"
        self.grouped = args.heads != args.kv_heads
        self.backward = args.pass_name == "backward"
        # Strided as a projection leaves them, or copied head by head: whichever
        # is faster for PyTorch is what is timed.
        strided = [t.transpose(1, 2) for t in (q, k, v)]
        copied = [t.contiguous() for t in strided]
        best = None
        for tensors in (strided, copied):
            self._take(tensors)
            self.seconds(1)
            seconds = min(self.seconds(1) for _ in range(3))
            if best is None or seconds < best[0]:
                best = (seconds, tensors)
        self._take(best[1])

    def _take(self, tensors):
        self.tensors = [t.detach().requires_grad_(self.backward)
                        for t in tensors]
        if self.backward:
            self.out = self._forward()
            self.dout = torch.randn_like(self.out)

    def _forward(self):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                *self.tensors, is_causal=self.causal, enable_gqa=self.grouped)

    def output(self):
        """[batch, position, head, dim], contiguous."""
        with torch.no_grad():
            return self._forward().transpose(1, 2).contiguous()

    def seconds(self, calls):
        if self.backward:
            begin = time.perf_counter()
            for _ in range(calls):
                torch.autograd.grad(self.out, self.tensors, self.dout,
                                    retain_graph=True)
            return time.perf_counter() - begin
        with torch.no_grad():
            begin = time.perf_counter()
            for _ in range(calls):
                self._forward()
            return time.perf_counter() - begin


def shapes(args):
    query = (args.batch, args.query_len, args.heads, args.head_dim)
    key = (args.batch, args.key_len, args.kv_heads, args.head_dim)
    return {"q": query, "k": key, "v": key}


def load(folder, name, shape, dtype):
    count = 1
    for size in shape:
        count *= size
    path = os.path.join(folder, name)
    return torch.from_file(path, size=count, dtype=dtype).reshape(shape).clone()


def serve(args):
    if torch is None:
        print("refused not installed; pip install torch", flush=True)
        return
    try:
        torch.set_num_threads(args.threads[0])
        dtype = TYPES[args.type]
        tensors = [load(args.serve, name, shape, dtype)
                   for name, shape in shapes(args).items()]
        problem = Problem(args, *tensors)
        raw = problem.output().view(torch.uint8).flatten()
        with open(os.path.join(args.serve, "out"), "wb") as file:
            file.write(bytes(raw.tolist()) if raw.numel() < 65536
                       else raw.numpy().tobytes())
    except (RuntimeError, KeyError, ValueError) as error:
        print("refused", str(error).splitlines()[0], flush=True)
        return
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        print(problem.seconds(int(line)), flush=True)


def visible_pairs(args):
    if args.mask == "causal":
        return args.query_len * (args.query_len + 1) / 2
    return args.query_len * args.key_len


def row(args, repeats):
    torch.manual_seed(0)
    tensors = [torch.randn(shape).to(TYPES[args.type])
               for shape in shapes(args).values()]
    problem = Problem(args, *tensors)
    samples = sorted(problem.seconds(1) for _ in range(repeats))
    median = statistics.median(samples)
    quartiles = statistics.quantiles(samples, n=4)
    flops = (4 * args.head_dim * visible_pairs(args) * args.heads * args.batch
             * (2.5 if problem.backward else 1))
    return {
        "op": "attention", "impl": "torch.sdpa_flash", "peer": True,
        "pass": args.pass_name, "type": args.type, "mask": args.mask,
        "batch": args.batch, "heads": args.heads, "kv_heads": args.kv_heads,
        "query_len": args.query_len, "key_len": args.key_len,
        "head_dim": args.head_dim, "threads": torch.get_num_threads(),
        "observe": "none", "ms": median * 1e3,
        "spread": (quartiles[2] - quartiles[0]) / median,
        "gflops": flops / median * 1e-9, "extra_bytes": None}


def table(args):
    if torch is None:
        sys.exit("torch_sdpa.py: PyTorch is not installed; pip install torch")
    rows = []
    for threads in args.threads:
        torch.set_num_threads(threads)
        for args.type in args.types:
            for args.mask in ("none", "causal"):
                for length in args.lengths:
                    args.query_len = args.key_len = length
                    rows.append(row(args, args.repeats))
    machine = {"arch": platform.machine(), "cores": os.cpu_count(),
               "os": platform.platform(), "torch": torch.__version__}
    json.dump({"machine": machine, "rows": rows}, sys.stdout, indent=1)
    print()


def integers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--serve", metavar="FOLDER")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--query-len", type=int, default=2048)
    parser.add_argument("--key-len", type=int)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--type", default="f32")
    parser.add_argument("--mask", default="none")
    parser.add_argument("--pass", dest="pass_name", default="forward")
    parser.add_argument("--threads", type=integers, default=[1, 16])
    parser.add_argument("--types", type=lambda t: t.split(","),
                        default=["f32", "bf16"])
    parser.add_argument("--lengths", type=integers, default=[2048, 4096])
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    args.kv_heads = args.kv_heads or args.heads
    args.key_len = args.key_len or args.query_len
    serve(args) if args.serve else table(args)


if __name__ == "__main__":
    main()
