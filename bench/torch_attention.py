#!/usr/bin/env python3
"""Hugging Face models on headwise.torch, beside sdpa and eager attention.

    PYTHONPATH=BUILD/python bench/torch_attention.py layer [--lengths 1024,4096]
        [--threads 2] [--rounds 21]
    PYTHONPATH=BUILD/python bench/torch_attention.py llama [--lengths 8192,32768]
        [--layers 2] [--rounds 9] [--eager]
    PYTHONPATH=BUILD/python bench/torch_attention.py train [--batch 64]
        [--length 1024] [--rounds 9]
    bench/torch_attention.py build FOLDER

layer   one layer's attention function on the CPU in f32, GPT-2 small's shape
        (12 heads of 64, causal), by the functions that transformers calls:
        sdpa, ours, ours with core statistics.
llama   on a GPU: random weights in bf16 of Llama 8B's widths and so many of its
        layers, one text, the last row's logits; sdpa, ours and ours with core
        statistics, all three compiled; with --eager also eager attention with
        hooks for five statistics, not compiled, where its matrices fit.
train   on a GPU: whole steps (forward, backward, AdamW) of GPT-2 small's shape
        in bf16, compiled, sdpa and ours.
build   the package with CUDA for this Python, into FOLDER; prints PYTHONPATH.

All sides are warmed up, then take turns; medians, and of the rounds' ratios
the median with its range (`faster`). Results are compared before anything is
timed. Prints one line of JSON for each length.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LLAMA = dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
             num_key_value_heads=8, vocab_size=128256)
#: Logits of bf16 are compared by this share of the largest.
NEAR = 2e-2


def build(folder):
    """The whole library and the module, for this Python and this GPU."""
    sys.path.insert(0, str(ROOT / "tools"))
    import find_cuda
    import torch
    cuda = find_cuda.cuda_options()
    if cuda is None:
        sys.exit("nvcc: not in PATH, nor in /usr/local/cuda/bin")
    include = pathlib.Path(torch.__file__).parent / "include"
    leave = ["PROGRAM", "TESTS", "BENCHMARKS", "EXAMPLES"]
    generator = ["-G", "Ninja"] if shutil.which("ninja") else [
        "-G", "Unix Makefiles"]
    for command in (
            ["cmake", "-S", ROOT, "-B", folder, "--preset", "release",
             *generator, "-DHEADWISE_CUDA=ON", "-DHEADWISE_PYTHON=ON",
             "-DHEADWISE_ONE_TARGET=ON", "-DHEADWISE_INSTALL=OFF",
             "-DHEADWISE_WEB_PAGE=OFF",
             f"-DPython3_EXECUTABLE={sys.executable}",
             f"-DHEADWISE_PYBIND11={include}",
             *(f"-DHEADWISE_BUILD_{name}=OFF" for name in leave), *cuda],
            ["cmake", "--build", folder, "--target", "headwise_python",
             "--parallel", str(os.cpu_count() or 2)]):
        done = subprocess.run(list(map(str, command)), cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(done.stdout[-6000:])
    print(pathlib.Path(folder).resolve() / "python")


class Clock:
    """Milliseconds of a call, on the device that it runs on."""

    def __init__(self, device):
        import torch
        self.wait = torch.cuda.synchronize if device == "cuda" else lambda: 0

    def ms(self, call):
        self.wait()
        begin = time.perf_counter()
        call()
        self.wait()
        return (time.perf_counter() - begin) * 1e3

    def asking_ms(self, call):
        """How long the host is busy with a call: more than `ms`, it is what
        the device waits for."""
        found = []
        for _ in range(5):
            self.wait()
            begin = time.perf_counter()
            call()
            found.append((time.perf_counter() - begin) * 1e3)
        return statistics.median(found)


def take_turns(calls, rounds, clock, warm_up=2):
    """{name: median ms}, and the ratio of the first over each, as its median,
    least and most."""
    for call in calls.values():
        for _ in range(warm_up):
            call()
    found = {name: [] for name in calls}
    order = list(calls)
    for r in range(rounds):
        for name in order[r % len(order):] + order[:r % len(order)]:
            found[name].append(clock.ms(calls[name]))
    first = found[order[0]]
    return ({name: round(statistics.median(ms), 3)
             for name, ms in found.items()},
            {name: median_with_range([a / b for a, b in zip(first, ms)])
             for name, ms in found.items() if name != order[0]})


def median_with_range(ratios):
    return [round(pick(ratios), 4)
            for pick in (statistics.median, min, max)]


def say(**facts):
    print(json.dumps(facts), flush=True)


# ---- One layer on the CPU.

def layer(args):
    import torch
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import \
        sdpa_attention_forward
    import headwise.torch as hwt
    from headwise._torch_observe import Sums
    from headwise import _torch_op
    torch.set_num_threads(args.threads)
    hwt.register()
    ours = AttentionInterface()["headwise"]
    module = torch.nn.Module()
    module.is_causal = True
    for length in args.lengths:
        torch.manual_seed(1)
        # As a model's projections lie: [B, M, H, D], seen as [B, H, M, D].
        q, k, v = (torch.randn(1, length, 12, 64).transpose(1, 2)
                   for _ in range(3))
        sums = Sums(8)
        _torch_op.watchers[1] = sums

        def call(function, tag=0):
            module.headwise_tag = tag
            with torch.no_grad():
                return function(module, q, k, v, None, scaling=0.125)[0]
        calls = {"sdpa": lambda: call(sdpa_attention_forward),
                 "headwise": lambda: call(ours),
                 "headwise.core": lambda: call(ours, 1)}
        want = calls["sdpa"]()
        for one in list(calls.values())[1:]:
            torch.testing.assert_close(one(), want, rtol=1e-4, atol=1e-5)
        ms, ratio = take_turns(calls, args.rounds, Clock("cpu"))
        say(what="layer", length=length, threads=args.threads, ms=ms,
            faster=ratio)


# ---- Llama 8B's shape on a GPU.

def llama_model(args, length):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(**LLAMA, num_hidden_layers=args.layers,
                         max_position_embeddings=length, use_cache=False)
    torch.manual_seed(1)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
    return model


class EagerHooks:
    """Entropy, previous, first, distance and maximum of each head, from what
    eager attention returns."""

    def __init__(self, model):
        self.handles = [layer.self_attn.register_forward_hook(self.look)
                        for layer in model.model.layers]
        self.sums = []

    def look(self, module, inputs, output):
        import torch
        p = output[1]
        n = p.shape[-1]
        place = torch.arange(n, device=p.device, dtype=torch.float32)
        for h in range(p.shape[1]):
            one = p[:, h].float()
            distance = (one * (place[:, None] - place).abs()).sum(-1)
            self.sums.append(torch.stack([
                -torch.special.xlogy(one, one).sum(-1).mean(),
                one.diagonal(-1, -2, -1).mean(), one[..., 0].mean(),
                distance.mean(), one.amax(-1).mean()]))

    def remove(self):
        for handle in self.handles:
            handle.remove()


def peak_of(call):
    """GiB that a call takes of the whole GPU beyond what is held before."""
    import torch
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    call()
    torch.cuda.synchronize()
    return round((free - torch.cuda.mem_get_info()[0]) / 2 ** 30, 3)


def compiled(model, name):
    """A call of the model under an attention of that name, compiled apart. Its
    layers are told of no mask: within a graph transformers makes a dense one,
    which would keep sdpa from its fastest kernel."""
    import torch
    inner = model.model

    def run(ids):
        x = inner.embed_tokens(ids)
        places = torch.arange(ids.shape[1], device=ids.device)[None]
        turns = inner.rotary_emb(x, places)
        for one in inner.layers:
            x = one(x, attention_mask=None, position_ids=places,
                    position_embeddings=turns)
            x = x[0] if isinstance(x, tuple) else x
        return model.lm_head(inner.norm(x)[:, -1:])
    made = torch.compile(run, dynamic=False, fullgraph=True)

    def call(ids):
        model.config._attn_implementation = name
        with torch.no_grad():
            return made(ids)
    return call


def llama(args):
    import torch
    import headwise.torch as hwt
    hwt.register()
    clock = Clock("cuda")
    for length in args.lengths:
        torch._dynamo.reset()
        model = llama_model(args, length)
        ids = torch.randint(0, LLAMA["vocab_size"], (1, length), device="cuda")
        sdpa, ours, watched = (compiled(model, name) for name in
                               ("sdpa", "headwise", "headwise"))
        with contextlib.ExitStack() as stack:
            seen = stack.enter_context(hwt.observe(model))
            sites = hwt.attention_modules(model)
            tags = {site: module.headwise_tag
                    for site, module in sites.items()}

            def tagged(call, on):
                def run():
                    for site, module in sites.items():
                        module.headwise_tag = tags[site] if on else 0
                    return call(ids)
                return run
            calls = {"sdpa": tagged(sdpa, False),
                     "headwise": tagged(ours, False),
                     "headwise.core": tagged(watched, True)}
            begin = time.perf_counter()
            want = calls["sdpa"]().float()
            differs = {name: round(((calls[name]().float() - want).abs().max()
                                    / want.abs().max()).item(), 5)
                       for name in list(calls)[1:]}
            compile_s = round(time.perf_counter() - begin, 1)
            gib = {name: peak_of(call) for name, call in calls.items()}
            ms, ratio = take_turns(calls, args.rounds, clock)
        say(what="llama", length=length, layers=args.layers, ms=ms,
            faster=ratio, differs=differs, agrees=max(differs.values()) < NEAR,
            gib=gib, compile_s=compile_s,
            entropy=round(float(seen.profile()["entropy"].mean()), 4))
        if args.eager:
            say(**eager(model, ids, clock, ms))
        del model
        torch.cuda.empty_cache()


def eager(model, ids, clock, ours):
    import torch
    model.config._attn_implementation = "eager"
    hooks = EagerHooks(model)

    def call():
        with torch.no_grad():
            model(ids, use_cache=False, logits_to_keep=1)
    try:
        call()
        ms = statistics.median(clock.ms(call) for _ in range(3))
    except torch.OutOfMemoryError:
        return dict(what="eager", length=ids.shape[1], ms=None,
                    why="its matrices do not fit")
    finally:
        hooks.remove()
    return dict(what="eager", length=ids.shape[1], ms=round(ms, 3),
                slower=round(ms / ours["headwise.core"], 2))


# ---- Training steps of GPT-2 small's shape.

def gpt2_loss(model, ids):
    """Next tokens of each row; blocks are told of no mask, as in `compiled`."""
    import torch
    inner = model.transformer
    x = inner.wte(ids) + inner.wpe(torch.arange(ids.shape[1],
                                                device=ids.device))
    for one in inner.h:
        x = one(x, attention_mask=None)
        x = x[0] if isinstance(x, tuple) else x
    logits = model.lm_head(inner.ln_f(x))[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def train(args):
    import torch
    import headwise.torch as hwt
    from transformers import GPT2Config, GPT2LMHeadModel
    hwt.register()
    calls, losses = {}, {}
    ids = torch.randint(0, 50257, (args.batch, args.length), device="cuda")
    for name in ("sdpa", "headwise"):
        torch.manual_seed(1)
        model = GPT2LMHeadModel(GPT2Config(
            attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0,
            n_positions=args.length, use_cache=False,
            attn_implementation=name)).to("cuda", torch.bfloat16).train()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
        forward = torch.compile(gpt2_loss, dynamic=False, fullgraph=True)

        def step(model=model, forward=forward, optimizer=optimizer):
            loss = forward(model, ids)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()
        calls[name] = step
        losses[name] = [round(step().item(), 4) for _ in range(3)]
    clock = Clock("cuda")
    ms, ratio = take_turns(calls, args.rounds, clock)
    say(what="train", batch=args.batch, length=args.length, ms=ms,
        faster=ratio, losses=losses,
        asking_ms={name: round(clock.asking_ms(call), 3)
                   for name, call in calls.items()})


def numbers(text):
    return [int(one) for one in text.split(",")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["layer", "llama", "train", "build"])
    parser.add_argument("folder", nargs="?", default="build/torch_attention")
    parser.add_argument("--lengths", type=numbers)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    args.lengths = args.lengths or ([1024, 4096] if args.what == "layer"
                                    else [8192, 32768])
    args.rounds = args.rounds or (21 if args.what == "layer" else 9)
    if args.what == "build":
        build(args.folder)
    else:
        {"layer": layer, "llama": llama, "train": train}[args.what](args)


if __name__ == "__main__":
    main()
