#!/usr/bin/env python3
"""PyTorch and Hugging Face on whole models: one kind of measurement a process.

    bench/gpu/torch_models.py forward --length 1024 [--seconds 10]
    bench/gpu/torch_models.py statistics --length 1024
    bench/gpu/torch_models.py train --batch 64 --length 1024
    bench/gpu/torch_models.py decode --shape llama-7b [--context 128]

Prints one line of JSON a measurement; with --asked it makes one for each line
that comes in. Shapes and weights are random, types bf16; forward, train: GPT-2
small's shape, compiled, scaled_dot_product_attention, forward without a
vocabulary head. statistics: Hugging Face eager attention with a hook for five
statistics of each head. decode: Hugging Face's Llama with a static cache, the
step compiled with CUDA graphs.
"""
import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

WIDTH, LAYERS, HEADS, VOCABULARY = 768, 12, 12, 50304
LLAMAS = {
    "llama-7b": dict(hidden_size=4096, intermediate_size=11008,
                     num_hidden_layers=32, num_attention_heads=32,
                     num_key_value_heads=32, vocab_size=32000),
    "minimind2-small": dict(hidden_size=512, intermediate_size=1408,
                            num_hidden_layers=8, num_attention_heads=8,
                            num_key_value_heads=2, vocab_size=6400,
                            tie_word_embeddings=True)}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH,
                                                                    WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH,
                                                                    WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x)),
                                             approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, length, head):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(length, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = head

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        if not self.head:
            return x
        logits = functional.linear(x, self.tokens.weight)
        return functional.cross_entropy(logits.view(-1, VOCABULARY).float(),
                                        targets.view(-1))


def rate_of_many(call, seconds):
    """Calls a second, of which none waits for the one before."""
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(3, round(seconds / (time.perf_counter() - begin)))
    begin = time.perf_counter()
    for _ in range(count):
        call()
    torch.cuda.synchronize()
    return count / (time.perf_counter() - begin)


def warmed_up(call, calls=5):
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return call


def timed(call, seconds):
    """The median of a call's seconds."""
    found, end = [], time.monotonic() + seconds
    while len(found) < 3 or time.monotonic() < end:
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def ids_of(batch, length, vocabulary=VOCABULARY):
    return torch.randint(0, vocabulary, (batch, length), device="cuda")


# Each kind makes its model ready and gives a function that measures it once.

def forward(args):
    batch = args.batch or max(1, 65536 // args.length)
    model = Gpt2(args.length, head=False).cuda().bfloat16().eval()
    model = torch.compile(model)
    ids = ids_of(batch, args.length)
    call = warmed_up(lambda: model(ids))
    return lambda: {"batch": batch, "tokens_per_second":
                    ids.numel() * rate_of_many(call, args.seconds)}


def hook_statistics(_module, _inputs, output):
    """Entropy, largest probability, its place, distance, mass of the first."""
    keys = torch.arange(output[1].shape[-1], device="cuda")
    # Head by head: all of them in f32 do not fit at 32 768 tokens.
    for head in output[1].unbind(1):
        weights = head.float()
        torch.special.entr(weights).sum(-1).mean(-1)
        weights.max(-1)
        (weights * keys).sum(-1)
        weights[..., 0].mean(-1)


def with_hooks(args):
    import transformers
    config = transformers.GPT2Config(n_positions=args.length)
    config._attn_implementation = "eager"
    model = transformers.GPT2Model(config).cuda().bfloat16().eval()
    for block in model.h:
        block.attn.register_forward_hook(hook_statistics)
    batch = args.batch or max(1, 8192 // args.length)
    ids = ids_of(batch, args.length, config.vocab_size)
    call = warmed_up(lambda: model(ids), 2)
    return lambda: {"batch": batch, "tokens_per_second":
                    ids.numel() / timed(call, args.seconds)}


def train(args):
    batch = args.batch or 64
    model = Gpt2(args.length, head=True).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids, targets = ids_of(batch, args.length), ids_of(batch, args.length)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    call = warmed_up(step)
    return lambda: {"batch": batch, "tokens_per_second":
                    ids.numel() / timed(call, args.seconds)}


def decode(args):
    import transformers
    torch.set_default_dtype(torch.bfloat16)
    config = transformers.LlamaConfig(**LLAMAS[args.shape],
                                      max_position_embeddings=4096)
    with torch.device("cuda"):
        model = transformers.LlamaForCausalLM(config).eval()
    step = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    room = args.context + args.tokens

    def text():
        cache = transformers.StaticCache(config=config, max_cache_len=room)
        ids = ids_of(1, args.context, config.vocab_size)
        logits = model(ids, past_key_values=cache, use_cache=True).logits
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(args.tokens):
            ids = logits[:, -1:].argmax(-1).clone()
            place = torch.tensor([args.context + i], device="cuda")
            logits = step(ids, past_key_values=cache, use_cache=True,
                          cache_position=place).logits
            int(ids)
        torch.cuda.synchronize()
        return time.perf_counter() - begin
    text()
    return lambda: {"tokens_per_second": args.tokens / statistics.median(
        text() for _ in range(3))}


KINDS = {"forward": forward, "statistics": with_hooks, "train": train,
         "decode": decode}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--shape", choices=LLAMAS, default="llama-7b")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--asked", action="store_true")
    args = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    with torch.set_grad_enabled(args.kind == "train"):
        measure = KINDS[args.kind](args)
        for _ in sys.stdin if args.asked else [""]:
            print(json.dumps({
                **measure(), "kind": args.kind, "torch": torch.__version__,
                "peak_bytes": torch.cuda.max_memory_allocated()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
