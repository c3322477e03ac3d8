#!/usr/bin/env python3
"""Compares models of random configurations as transformers and Headwise run
them.

    tools/random_configs.py [--count 100] [--seed N] [--only FAMILY …]
                            [--program build/release/apps/headwise/headwise]
                            [--keep FOLDER]

Every configuration is drawn from the switches of one family: shapes,
activations, windows, rotary scalings, biases, output matrices of their own, and
settings that no family computes. The switches of a family are a function here,
or the file switches.json beside its golden (`by_file`). A small random model of it is saved
by transformers, run on padded random ids and compared with what `headwise dump` writes, where
the mask is 1: logits, |Δ| ≤ 2e-4·max(1, |logit|), and attention maps, 1e-4.
Prints a line
for each: right; refused, with the error, which must name a setting of the
configuration; left out, where transformers itself refuses; or wrong. Exit code
0: none is wrong; 1: some are; 77: transformers is not installed. A seed makes
the same configurations again. Needs torch and transformers 5; no part of
./check.
"""
import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE, MAP_TOLERANCE = 2e-4, 1e-4
GOLDENS = ROOT / "tests/conformance/goldens"
FAMILIES = ("gpt2", "bert", "roberta", "distilbert", "llama", "mistral",
            "qwen2", "qwen3", "marian") + tuple(sorted(
                path.parent.name for path in GOLDENS.glob("*/switches.json")))
# Those that Headwise computes come up more often than the others.
ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh",
               "gelu_fast", "swish", "tanh", "gelu_python") * 2 + (
                   "quick_gelu", "relu2", "mish", "gelu_10")
VOCABULARY, CONTEXT, TOKENS = 61, 48, 33
# Whose norms multiply by one more than their weights.
OFFSET_NORMS = ("gemma", "gemma2", "gemma3_text")
# Dynamic positions are to be run beyond it.
PAST_CONTEXT = "warning: [context] "


class Draw:
    """Choices of one configuration."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *values):
        return self.random.choice(values)

    def rarely(self):
        return self.random.random() < 0.06

    def heads(self, even=False):
        """heads, and a width that they divide."""
        heads = self.one(1, 2, 3, 4, 6)
        dim = self.one(4, 6, 8, 10) if even else self.one(3, 4, 5, 8)
        return heads, heads * dim


def common(draw):
    return {"vocab_size": VOCABULARY,
            "tie_word_embeddings": draw.one(True, False),
            "use_cache": draw.one(True, False)}


def encoder(draw, family):
    heads, width = draw.heads()
    more = {"add_cross_attention": True, "is_decoder": True} \
        if draw.rarely() else {}
    return {"hidden_size": width, "num_attention_heads": heads,
            "num_hidden_layers": draw.one(1, 2, 3),
            "intermediate_size": draw.one(7, 16, 40),
            "max_position_embeddings": CONTEXT,
            "hidden_act": draw.one(*ACTIVATIONS),
            "layer_norm_eps": draw.one(1e-12, 1e-5, 1e-3),
            "type_vocab_size": draw.one(1, 2, 3),
            "pad_token_id": draw.one(0, 1, 2),
            "chunk_size_feed_forward": draw.one(0, 0, 3),
            "is_decoder": family == "bert" and draw.rarely(), **more}


def distilbert(draw):
    heads, width = draw.heads()
    return {"dim": width, "n_heads": heads, "n_layers": draw.one(1, 2, 3),
            "hidden_dim": draw.one(7, 16, 40),
            "max_position_embeddings": CONTEXT,
            "activation": draw.one(*ACTIVATIONS),
            "sinusoidal_pos_embds": draw.one(True, False),
            "pad_token_id": draw.one(0, 1)}


def gpt2(draw):
    heads, width = draw.heads()
    return {"n_embd": width, "n_head": heads, "n_layer": draw.one(1, 2, 3),
            "n_positions": CONTEXT, "n_inner": draw.one(None, 7, 40),
            "activation_function": draw.one(*ACTIVATIONS),
            "layer_norm_epsilon": draw.one(1e-5, 1e-3),
            "scale_attn_weights": draw.one(True, True, False),
            "scale_attn_by_inverse_layer_idx": draw.one(False, True),
            "reorder_and_upcast_attn": draw.one(False, True),
            "add_cross_attention": draw.rarely(),
            **({"is_causal": False} if draw.rarely() else {})}


ROPE_TYPES = ("default", "default", "linear", "llama3", "yarn", "dynamic",
              "dynamic", "longrope", "longrope", "proportional")


def rope(draw, head_dim, types=ROPE_TYPES):
    kind = draw.one(*types)
    turn = {"rope_type": kind, "rope_theta": draw.one(100.0, 1e4, 1e6)}
    if kind not in ("default", "longrope"):
        turn["factor"] = draw.one(2.0, 4.0)
    if kind == "longrope":
        turn |= {"original_max_position_embeddings": draw.one(8, 16, 40),
                 **{f"{which}_factor": [
                     round(1 + draw.random.random() * most, 3)
                     for _ in range(head_dim // 2)]
                    for which, most in (("short", 1), ("long", 12))}}
        turn |= draw.one({}, {"factor": 4.0}, {"attention_factor": 1.3})
    if kind == "proportional":
        turn["partial_rotary_factor"] = draw.one(0.5, 0.75, 1.0)
    elif draw.rarely():
        turn["partial_rotary_factor"] = 0.5  # of whole heads here
    if kind == "llama3":
        turn |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": draw.one(8, 16)}
    if kind == "yarn":
        turn |= {"original_max_position_embeddings": draw.one(8, 16)}
        turn |= draw.one({}, {"beta_fast": 16.0, "beta_slow": 2.0},
                         {"attention_factor": 1.3}, {"truncate": False},
                         {"mscale": 0.7, "mscale_all_dim": 1.2})
    return turn


def windows(draw, family, layers):
    """Sliding windows, as each family says them."""
    if family == "mistral":
        return {"sliding_window": draw.one(None, 1, 5, 40)}
    if family == "llama":
        return draw.one({}, {}, {"sliding_window": 4})
    more = draw.one(
        {}, {"max_window_layers": draw.one(0, 1, 2)},
        {"layer_types": [draw.one("full_attention", "sliding_attention")
                         for _ in range(layers)]})
    uses = draw.one(True, True, False)
    if not uses and "sliding_attention" in more.get("layer_types", ()):
        more = {}  # transformers refuses it
    return {"use_sliding_window": uses, "sliding_window": draw.one(3, 7),
            **more}


def llama(draw, family):
    heads, width = draw.heads(even=True)
    groups = draw.one(*(n for n in range(1, heads + 1) if heads % n == 0))
    layers = draw.one(1, 2, 3)
    own = {}
    if family == "qwen3" or draw.one(True, False):
        own["head_dim"] = draw.one(4, 8, 12)
    turn = rope(draw, own.get("head_dim", width // heads))
    # Dynamic positions are stretched beyond it.
    context = draw.one(12, 24, CONTEXT) if turn["rope_type"] == "dynamic" \
        else CONTEXT
    settings = {"hidden_size": width, "num_attention_heads": heads,
                "num_key_value_heads": groups, "num_hidden_layers": layers,
                "intermediate_size": draw.one(7, 16, 40),
                "max_position_embeddings": context,
                "hidden_act": draw.one("silu", "silu", *ACTIVATIONS),
                "rms_norm_eps": draw.one(1e-6, 1e-5, 1e-3),
                "rope_parameters": turn, **own,
                **windows(draw, family, layers)}
    if family in ("llama", "qwen3"):
        settings["attention_bias"] = draw.one(True, False)
    if family == "llama":
        settings["mlp_bias"] = draw.one(True, False)
    if draw.rarely():
        settings["is_causal"] = False
    return settings


def marian(draw):
    heads = draw.one(1, 2, 3)
    width = heads * draw.one(4, 6, 8)
    shared = draw.one(True, False)
    other = not shared and draw.rarely()
    return {"d_model": width, "encoder_attention_heads": heads,
            "decoder_attention_heads": draw.one(1, heads),
            "encoder_layers": draw.one(1, 2), "decoder_layers": draw.one(1, 2),
            "encoder_ffn_dim": draw.one(7, 16),
            "decoder_ffn_dim": draw.one(7, 16),
            "max_position_embeddings": CONTEXT,
            "activation_function": draw.one(*ACTIVATIONS),
            "scale_embedding": draw.one(True, False),
            "share_encoder_decoder_embeddings": shared,
            "decoder_vocab_size": VOCABULARY - 3 if other else VOCABULARY,
            "pad_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0,
            "forced_eos_token_id": None}


def chosen(draw, choice, settings):
    """A choice of switches.json, with what stands in it filled in."""
    if isinstance(choice, dict) and "ROPE" in choice:
        dim = settings["ROTARY"] or settings.get("head_dim") or settings["DIM"]
        types = choice.get("TYPES", ROPE_TYPES)
        if not choice["ROPE"]:
            share = settings["partial_rotary_factor"]
            return rope(draw, int(share * dim), types)
        share = draw.one(*choice["ROPE"])
        return {"partial_rotary_factor": share,
                **rope(draw, int(share * dim), types)}
    if isinstance(choice, dict):
        return {key: chosen(draw, value, settings)
                for key, value in choice.items()}
    if choice == "GROUPS":
        heads = settings["HEADS"]
        return draw.one(*(n for n in range(1, heads + 1) if heads % n == 0))
    if isinstance(choice, str) and choice.startswith("KINDS "):
        words = [int(word) if word.isdigit() else word
                 for word in choice.split()[1:]]
        return [draw.one(*words) for _ in range(settings["num_hidden_layers"])]
    return choice


def by_file(draw, family):
    """The switches of a golden's switches.json: of each key the list of what
    may come up, or "ACTIVATION". {"ROPE": shares} are rotary positions that
    turn one of these shares of a head, or of the "rope" dimensions that "HEADS"
    says, "GROUPS" a divisor of the heads, "KINDS a b" one of these words, or
    numbers, a layer. "TYPES" beside "ROPE": its types; no shares:
    partial_rotary_factor of the model. "HEADS" names the keys of the heads and
    of the width, and under "divisors" those of other counts of heads; "RARELY"
    has settings that the family does not compute."""
    switches = json.loads(
        (GOLDENS / family / "switches.json").read_text(encoding="utf-8"))
    keys, rare = switches.pop("HEADS"), switches.pop("RARELY", {})
    heads, dim = draw.one(1, 2, 3, 4), draw.one(*keys["dims"])
    settings = {"HEADS": heads, "DIM": dim, "ROTARY": keys.get("rope"),
                keys["heads"]: heads, keys["width"]: heads * dim}
    for key in keys.get("divisors", ()):
        settings[key] = draw.one(1, heads)
    for key, choices in switches.items():
        settings[key] = chosen(draw, draw.one(
            *(ACTIVATIONS if choices == "ACTIVATION" else choices)), settings)
    for key in ("HEADS", "DIM", "ROTARY"):
        del settings[key]
    return settings | {key: value for key, value in rare.items()
                       if draw.rarely()}


def drawn(family, seed):
    """The settings of one configuration."""
    draw = Draw(f"{seed}/{family}")
    settings = common(draw)
    if (GOLDENS / family / "switches.json").exists():
        settings |= by_file(draw, family)
    elif family in ("bert", "roberta"):
        settings |= encoder(draw, family)
    elif family in ("distilbert", "gpt2", "marian"):
        settings |= globals()[family](draw)
    else:
        settings |= llama(draw, family)
    return settings


def randomise(torch, model):
    """Weights of which each would show: no ones, no zeros."""
    offset = model.config.model_type in OFFSET_NORMS
    for name, tensor in model.named_parameters():
        if not tensor.requires_grad:
            continue  # sinusoids
        if tensor.dim() > 1 and "norm" not in name:
            tensor.data = torch.randn_like(tensor) * (
                0.5 if "emb" in name or "wte" in name or "wpe" in name
                else 1.2 / tensor.shape[1] ** 0.5)
            continue
        base = 0.0 if name.endswith("bias") else 1.0
        base -= 1.0 if "norm" in name and offset else 0.0
        tensor.data = base + 0.2 * torch.randn_like(tensor)
    for name, tensor in model.named_buffers():
        if name.endswith("layer_scalar"):
            tensor.fill_(0.7 + 0.2 * float(torch.rand(())))
        if name.endswith("e_score_correction_bias"):
            tensor.data = 0.2 * torch.randn_like(tensor)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias = 0.2 * torch.randn_like(
            model.final_logits_bias)
    model.tie_weights()


def turns_by_length(config):
    """Whether rotary positions depend on the longest row, padding or not."""
    turn = getattr(config, "rope_parameters", None) or {}
    kinds = [turn, *(kind for kind in turn.values() if isinstance(kind, dict))]
    return any(kind.get("rope_type") in ("dynamic", "longrope")
               for kind in kinds)


def inputs(torch, model, draw):
    """Two rows, padded at their ends."""
    vocabulary = getattr(model.config, "decoder_vocab_size", None) \
        or VOCABULARY
    lengths = draw.one((TOKENS, 9), (9, 20), (28, 1), (TOKENS, TOKENS))
    width = max(lengths) if turns_by_length(model.config) else TOKENS
    given = {"input_ids": torch.randint(3, vocabulary, (2, width)),
             "attention_mask": torch.ones(2, width, dtype=torch.int64)}
    for row, length in enumerate(lengths):
        given["attention_mask"][row, length:] = 0
        given["input_ids"][row, length:] = model.config.pad_token_id or 0
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = torch.randint(3, vocabulary, (2, TOKENS))
    return given


def expected(torch, transformers, family, settings, folder, seed):
    """Saves a random model; what it was given, its logits, the attention maps of
    a model of one stack, and the rows that count."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **settings)
    config._attn_implementation = config._experts_implementation = "eager"
    golden = json.loads(
        (GOLDENS / family / "config.json").read_text(encoding="utf-8"))
    model = getattr(transformers, golden["architectures"][0])(config).eval()
    randomise(torch, model)
    model.save_pretrained(folder)
    # As it is read back: what a file does not hold is no part of it.
    model = type(model).from_pretrained(
        folder, attn_implementation="eager", experts_implementation="eager",
        dtype=torch.float32).eval()
    given = inputs(torch, model, Draw(seed))
    with torch.no_grad():
        out = model(**given, output_attentions=True)
    rows = torch.ones(out.logits.shape[:2], dtype=torch.bool)
    maps = {}
    if not model.config.is_encoder_decoder:
        rows = given["attention_mask"].bool()
        maps = {f"layer.{layer}.attention.probs": attention
                for layer, attention in enumerate(out.attentions)}
    return given, out.logits, maps, rows


def found(program, folder, given):
    """What `headwise dump` writes, or its error."""
    from safetensors.torch import load_file, save_file
    ids, out = folder / "ids.safetensors", folder / "out.safetensors"
    save_file(given, ids)
    done = subprocess.run(
        [program, "dump", folder, "--input", ids, "--names",
         "logits,*.attention.probs", "--out", out], capture_output=True, text=True, check=False, timeout=120)
    warnings = [line for line in done.stderr.splitlines()
                if "warning" in line and not line.startswith(PAST_CONTEXT)]
    if done.returncode not in (0, 1) or warnings:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr}")
    return (load_file(out), "") if done.returncode == 0 else \
        (None, " ".join(done.stderr.split()))


def named(error, folder):
    """Whether an error names a setting of the configuration."""
    left = [json.loads((folder / "config.json").read_text(encoding="utf-8"))]
    keys = set()
    while left:
        settings = left.pop()
        keys |= settings.keys()
        left += [one for one in settings.values() if isinstance(one, dict)]
    return any(f'"{key}"' in error for key in keys)


def compare(torch, transformers, program, family, seed, folder):
    """A verdict and a few words."""
    settings = drawn(family, seed)
    try:
        given, want, maps, rows = expected(torch, transformers, family,
                                           settings, folder, seed)
    except Exception as problem:  # whatever transformers throws
        return "left out", f"transformers: {problem}"
    got, error = found(program, folder, given)
    if got is None:
        return ("refused" if named(error, folder) else "wrong"), error
    logits = got["logits"]
    if logits.shape != want.shape:
        return "wrong", f"shape {tuple(logits.shape)} for {tuple(want.shape)}"
    difference = (logits - want).abs() / want.abs().clamp(min=1)
    worst = float(difference[rows].max())
    worst_map = max((float(
        (got[name] - one).abs().transpose(1, 2)[rows].max())
        for name, one in maps.items()), default=0.0)
    words = (f"largest difference {worst:.1e}, logits' deviation "
             f"{float(want[rows].std()):.2f}, of maps {worst_map:.1e}")
    right = worst <= TOLERANCE and worst_map <= MAP_TOLERANCE
    return ("right" if right else "wrong"), words


def check(torch, transformers, options, number, totals):
    family = options.only[number % len(options.only)]
    seed = options.seed * 100_003 + number
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(options.keep or scratch) / f"{number}-{family}"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            verdict, words = compare(torch, transformers, options.program,
                                     family, seed, folder)
        except (OSError, RuntimeError) as problem:
            verdict, words = "wrong", str(problem).strip()
    totals[family][verdict] += 1
    words = words.replace(f"{folder}/", "")
    print(f"{number:4} {family:10} {verdict:8} {words}", flush=True)
    if verdict == "wrong":
        print(f"     {json.dumps(drawn(family, seed))}")


def table(totals):
    words = ("right", "refused", "left out", "wrong")
    rows = [("", *words)] + [
        (family, *(str(counts[word]) for word in words))
        for family, counts in totals.items()]
    rows.append(("all", *(str(sum(c[word] for c in totals.values()))
                          for word in words)))
    return "\n".join(f"{name:12}" + "".join(f"{cell:>9}" for cell in cells)
                     for name, *cells in rows)


def main():
    parser = argparse.ArgumentParser(
        description="Compares models of random configurations as transformers "
                    "and Headwise run them.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int,
                        default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", nargs="+", default=FAMILIES,
                        choices=FAMILIES, metavar="FAMILY")
    parser.add_argument("--program", default=str(
        ROOT / "build/release/apps/headwise/headwise"))
    parser.add_argument("--keep", metavar="FOLDER",
                        help="leave the models there")
    options = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError:
        print("skip: transformers is not installed (pip install transformers)")
        return 77
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print(f"seed {options.seed}, {options.count} configurations, "
          f"transformers {transformers.__version__}")
    totals = {family: collections.Counter() for family in options.only}
    for number in range(options.count):
        check(torch, transformers, options, number, totals)
    print(table(totals))
    return 1 if any(counts["wrong"] for counts in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
