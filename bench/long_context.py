#!/usr/bin/env python3
"""Profiles one long window of a random model and tells memory and speed.

    bench/long_context.py --headwise build/release/apps/headwise/headwise \\
        --tokens 131072

The model is a Llama of 6 layers x 8 heads, width 256 (random weights, made
here without any library). 131 072 tokens take about ten minutes on two cores.
"""
import argparse
import array
import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import time

LAYERS, HEADS, WIDTH, HIDDEN, VOCABULARY = 6, 8, 256, 688, 4096


def write_safetensors(path, tensors):
    """tensors: [(name, type, shape, bytes)]"""
    header, at = {}, 0
    for name, kind, shape, data in tensors:
        header[name] = {"dtype": kind, "shape": shape,
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor in tensors:
            file.write(tensor[3])


def make_model(folder):
    rng = random.Random(1)
    # One pool of normal numbers, read from random places: quick, and as good.
    pool = array.array("f", (rng.gauss(0, 1) for _ in range(1 << 17)))
    tensors = []

    def add(name, *shape, scale=0.06):
        count = 1
        for size in shape:
            count *= size
        values = array.array("f")
        while len(values) < count:
            start = rng.randrange(len(pool) // 2)
            values.extend(pool[start:start + count - len(values)])
        if scale is None:
            values = array.array("f", [1.0]) * count
        else:
            values = array.array("f", (scale * v for v in values))
        tensors.append((name, "F32", list(shape), values.tobytes()))

    add("model.embed_tokens.weight", VOCABULARY, WIDTH, scale=1.0)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for part in ("q", "k", "v", "o"):
            add(f"{prefix}self_attn.{part}_proj.weight", WIDTH, WIDTH)
        add(prefix + "mlp.gate_proj.weight", HIDDEN, WIDTH)
        add(prefix + "mlp.up_proj.weight", HIDDEN, WIDTH)
        add(prefix + "mlp.down_proj.weight", WIDTH, HIDDEN)
        add(prefix + "input_layernorm.weight", WIDTH, scale=None)
        add(prefix + "post_attention_layernorm.weight", WIDTH, scale=None)
    add("model.norm.weight", WIDTH, scale=None)
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS, "vocab_size": VOCABULARY,
        "max_position_embeddings": 1 << 17, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": True, "bos_token_id": 0}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--headwise", default="headwise")
    parser.add_argument("--tokens", type=int, default=1 << 17)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(folder)
        rng = random.Random(2)
        ids = array.array("i", [0] + [int(rng.random() ** 3 * VOCABULARY)
                                      for _ in range(args.tokens - 1)])
        write_safetensors(folder / "ids.safetensors",
                          [("input_ids", "I32", [1, args.tokens],
                            ids.tobytes())])
        command = [args.headwise, "profile", name, "--ids",
                   str(folder / "ids.safetensors"), "--context",
                   str(args.tokens), "--repeats", "0",
                   "--threads", str(args.threads),
                   "--out", str(folder / "long.heads")]
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        if status != 0:
            raise SystemExit("failed: " + " ".join(command))
        print(f"{args.tokens} tokens: {seconds:.1f} s, "
              f"{args.tokens / seconds:.0f} tokens/s, peak "
              f"{usage.ru_maxrss / 2**10:.0f} MiB")


if __name__ == "__main__":
    main()
