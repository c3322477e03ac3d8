"""Makes the conformance checkpoints: for every model family a tiny random
checkpoint and what Hugging Face transformers computes with it.

    python3 tools/make_goldens.py tests/conformance/goldens
    python3 tools/make_goldens.py tests/conformance/goldens --gradients
    python3 tools/make_goldens.py tests/conformance/goldens --halves
    python3 tools/make_goldens.py tests/conformance/goldens --rope
    python3 tools/make_goldens.py tests/conformance/goldens --experts
    python3 tools/make_goldens.py tests/conformance/goldens --tasks

--only NAME ... makes these and leaves the others as they are.

Needs torch and transformers 5. A golden begins as a folder with a config.json,
whose "architectures" names the class; what that file leaves out is the class's
own. The other files are made: model.safetensors and expected.safetensors, which
holds for the inputs 0 and 1 the token ids, logits, hidden states (after the embeddings and after every layer) and
every layer's attention [heads, queries, keys].

--gradients leaves these as they are and adds gradients.safetensors: the
targets of both inputs, the loss (a mean over all targets; encoder-decoders
with a smoothing of 0.1; for a model without a head, the given dfinal times the
last hidden states) and its gradient by every tensor of the checkpoint, in f16
as a multiple of the tensor's largest gradient, which NAME.scale holds.

--halves writes bf16.json: how far PyTorch itself is from these in bf16, the
worst of all activations over the larger of 1 and the tensor's largest, and the
worst of all gradients over the tensor's largest (at least 0.02). What
computes in bf16 is held to that.

--rope writes rope.json: settings of rotary positions as files have them, and
the frequencies and scales that transformers makes of them in calls of some
lengths.

Where rotary positions depend on the length of the call, both inputs are one
call, of the longer one's length.

--experts writes experts/NAME.safetensors for feed-forward layers that are
mixtures of experts: x, y and their gradients dx and dy, the weights, the
gradient of each as NAME.gradient, and the router's balance where transformers
has one.

--tasks writes tasks/GOLDEN.CLASS.safetensors: what a class of transformers with
a head of another task has besides the golden's weights, and its logits for both
inputs.
"""

import argparse
import json
import pathlib
import re

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

VOCAB = 64
LENGTHS = (7, 19)
EAGER = dict(attn_implementation="eager", experts_implementation="eager")
HEAD_NORMS = ("q_norm", "k_norm", "q_layernorm", "k_layernorm")


def names_of(folder):
    return sorted(path.parent.name for path in folder.glob("*/config.json"))


def class_of(folder):
    settings = json.loads((folder / "config.json").read_text())
    return getattr(hf, settings["architectures"][0])


def has_decoder(model):
    return model.config.is_encoder_decoder


def is_query_or_key(name):
    keys = ("q_proj", "k_proj", "q_b_proj", "kv_a_proj", "kv_b_proj",
            "qkv_proj", "q_lin", "k_lin", "query", "key", "c_attn", "Wqkv",
            "ttention.q.", "ttention.k.", "attn.q.", "attn.k.")
    return any(key in name for key in keys)


def is_table(name):
    return any(part in name for part in ("embeddings.", "embed_", "wte", "wpe")
               )


def is_projection(name):
    """Of embeddings, which no norm follows."""
    return "embeddings_project" in name or "mapping_in" in name


# Whose norms multiply by one more than their weights.
OFFSET_NORMS = ("gemma", "gemma2", "gemma3_text")


def randomise(model, wide, rows):
    """Normal weights; queries and keys wide enough for logits of std >= 1."""
    offset = model.config.model_type in OFFSET_NORMS
    for name, tensor in model.named_parameters():
        if not tensor.requires_grad:
            continue  # sinusoids
        if tensor.dim() == 1 or "norm" in name:
            base = 1.0 if "norm" in name.lower() or "ln_" in name else 0.0
            if any(norm in name for norm in HEAD_NORMS):
                # Gemma 4 divides nothing.
                base = 0.9 if model.config.model_type == "gemma4_text" else 1.6
            base = 0.0 if name.endswith("bias") else base
            base -= 1 if offset and "norm" in name else 0
            tensor.data = base + 0.1 * torch.randn_like(tensor)
        elif is_table(name):
            tensor.data = rows * torch.randn_like(tensor)
        elif "relative_attention_bias" in name:
            tensor.data = torch.randn_like(tensor)
        else:
            std = wide if is_query_or_key(name) else \
                0.4 if is_projection(name) else 0.12
            tensor.data = std * torch.randn_like(tensor)
    for name, tensor in model.named_buffers():
        if name.endswith("layer_scalar"):
            tensor.fill_(0.8 + 0.1 * float(torch.rand(())))
        if name.endswith("e_score_correction_bias"):
            tensor.data = 0.1 * torch.randn_like(tensor)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias = 0.1 * torch.randn_like(
            model.final_logits_bias)
    model.tie_weights()


def logit_std(attention):
    """Of the logits behind a probability row: its log, centred."""
    stds = []
    for row in attention.reshape(-1, attention.shape[-1]):
        seen = row[row > 0]
        if len(seen) > 2:
            stds.append(torch.log(seen).std())
    return float(torch.stack(stds).mean())


def record(expected, index, prefix, states, attentions):
    for layer, state in enumerate(states):
        if state.shape[-1] != states[0].shape[-1]:
            continue  # projected to the width of the output matrix
        expected[f"{index}.{prefix}hidden.{layer}"] = state[0]
    for layer, attention in enumerate(attentions):
        expected[f"{index}.{prefix}attention.{layer}"] = attention[0]


def whole_call(model, ids):
    """ids [1, length], made as long as the call that they are of, where rotary
    positions depend on its length. No row sees what follows it."""
    turn = getattr(model.config, "rope_parameters", None) or {}
    by_length = turn.get("rope_type") in ("dynamic", "longrope")
    more = max(LENGTHS) - ids.shape[1] if by_length else 0
    return torch.nn.functional.pad(ids, (0, more), value=3)


def cut(out, length):
    """The first rows of what came out."""
    out.hidden_states = [x[:, :length] for x in out.hidden_states]
    out.attentions = [x[:, :, :length, :length] for x in out.attentions]
    if hasattr(out, "logits"):
        out.logits = out.logits[:, :length]
    return out


def run(model, name, index, length, generator):
    ids = torch.randint(3, VOCAB, (1, length), generator=generator)
    wanted = dict(output_hidden_states=True, output_attentions=True)
    expected = {f"{index}.input_ids": ids[0].to(torch.int32)}
    with torch.no_grad():
        if has_decoder(model):
            target = torch.randint(3, VOCAB, (1, length - 2),
                                   generator=generator)
            target[0, 0] = 0
            expected[f"{index}.decoder_input_ids"] = target[0].to(torch.int32)
            out = model(input_ids=ids, decoder_input_ids=target, **wanted)
            record(expected, index, "encoder.", out.encoder_hidden_states,
                   out.encoder_attentions)
            record(expected, index, "decoder.", out.decoder_hidden_states,
                   out.decoder_attentions)
            for layer, attention in enumerate(out.cross_attentions):
                expected[f"{index}.cross.attention.{layer}"] = attention[0]
            attentions = out.encoder_attentions + out.decoder_attentions
        else:
            out = cut(model(input_ids=whole_call(model, ids), **wanted),
                      length)
            record(expected, index, "", out.hidden_states, out.attentions)
            attentions = out.attentions
    if hasattr(out, "logits"):
        expected[f"{index}.logits"] = out.logits[0]
    return expected, [logit_std(attention) for attention in attentions]


def pack_experts(model):
    """Gives the experts random numbers in mxfp4: the checkpoint's tensors."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    tensors = dict(model.state_dict())
    for name in [n for n in tensors if re.search(r"experts\.\w+_proj$", n)]:
        experts, columns, rows = tensors.pop(name).shape
        blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16),
                               dtype=torch.uint8)
        scales = torch.randint(121, 123, blocks.shape[:3], dtype=torch.uint8)
        tensors |= {name + "_blocks": blocks, name + "_scales": scales}
        model.get_parameter(name).data = convert_moe_packed_tensors(
            blocks, scales, dtype=torch.float32)
    return tensors


def save_packed(model, settings, folder):
    """A checkpoint whose experts are in mxfp4."""
    save_file({key: value.contiguous() for key, value in
               pack_experts(model).items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")


def make(name, folder):
    settings = json.loads((folder / "config.json").read_text())
    packed = "quantization_config" in settings
    config = hf.AutoConfig.from_pretrained(folder)
    if packed:
        del config.quantization_config
    torch.manual_seed(sum(map(ord, name)))
    config._attn_implementation = config._experts_implementation = "eager"
    model = class_of(folder)(config).eval()
    # Scores that are divided by the layer's number, or of narrow heads, begin
    # larger.
    wide = {"gpt2-scaled": 0.45, "marian-odd": 0.45, "marian-untied": 0.45,
            "qwen2-yarn": 0.2, "opt": 0.4, "opt-projected": 0.4,
            "bloom": 0.4, "phi": 0.4, "deepseek_v3": 0.4, "deepseek_v2": 0.4,
            "gemma": 0.25, "gemma2": 0.4, "gemma3_text": 0.25,
            "camembert": 0.45, "albert-groups": 0.9, "bart": 0.45,
            "mbart": 0.45, "pegasus": 0.45, "m2m_100": 0.45}
    # Rows of embeddings that no norm stands behind.
    rows = {"opt-projected": 1.0}
    randomise(model, wide.get(name, 0.3), rows.get(name, 0.05))
    if packed:
        save_packed(model, settings, folder)
    else:
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        settings = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps(settings, indent=1) + "\n")
    generator = torch.Generator().manual_seed(5)
    expected, spread = {}, []
    for index, length in enumerate(LENGTHS):
        tensors, stds = run(model, name, index, length, generator)
        expected |= tensors
        spread += stds
    save_file({k: v.contiguous().float() if v.is_floating_point() else v
               for k, v in expected.items()}, folder / "expected.safetensors")
    size = (folder / "model.safetensors").stat().st_size
    print(f"{name:14} {size:7} bytes, std of attention logits "
          f"{min(spread):.2f} to {max(spread):.2f}")
    assert min(spread) >= 1, name
    assert size <= 200_000, name


def targets_of(model, name, ids):
    """What each position is to predict; -100: nothing."""
    if has_decoder(model):
        return (ids * 7 + 3) % VOCAB
    if "bert" in name or "electra" in name:
        masked = torch.arange(len(ids)) % 3 == 1
        return torch.where(masked, (ids * 7 + 3) % VOCAB, -100)
    return torch.cat([ids[1:], torch.tensor([-100])])


def losses(model, name, kept, recorded):
    """The sum of the losses of one input, given as index -> tensor."""
    ids = kept["input_ids"].long()[None]
    if type(model).__name__.endswith("Model"):
        final = model(input_ids=ids).last_hidden_state[0]
        dfinal = torch.sin(0.37 * torch.arange(final.numel()))
        recorded["dfinal"] = dfinal.reshape(final.shape)
        return (final * recorded["dfinal"]).sum(), len(final)
    predicted, more, smoothing = ids[0], {}, 0.0
    if has_decoder(model):
        predicted, smoothing = kept["decoder_input_ids"].long(), 0.1
        more = dict(decoder_input_ids=predicted[None])
    targets = targets_of(model, name, predicted)
    recorded["targets"] = targets.to(torch.int32)
    logits = model(input_ids=whole_call(model, ids), **more).logits[0]
    loss = torch.nn.functional.cross_entropy(
        logits[:len(targets)], targets, reduction="sum",
        label_smoothing=smoothing)
    return loss, int((targets >= 0).sum())


def gradient_of(named, key):
    """By a tensor of the checkpoint; None: it has none. Experts that the
    checkpoint names one by one are stacks in the model."""
    key = key.replace(".block_sparse_moe.", ".mlp.")
    if key in named:
        return named[key].grad
    found = re.fullmatch(r"(.*\.experts\.)(\d+)\.(\w+)\.weight", key)
    if not found:
        return None
    prefix, number, which = found.groups()
    if which in ("down_proj", "w2"):
        return named[prefix + "down_proj"].grad[int(number)]
    both = named[prefix + "gate_up_proj"].grad[int(number)]
    return both.chunk(2)[0 if which in ("gate_proj", "w1") else 1]


def make_gradients(name, folder):
    model = class_of(folder).from_pretrained(
        folder, **EAGER).eval()
    expected = load_file(folder / "expected.safetensors")
    out, total, count = {}, 0.0, 0
    for index in "01":
        kept = {key[2:]: value for key, value in expected.items()
                if key.startswith(index)}
        recorded = {}
        loss, rows = losses(model, name, kept, recorded)
        total, count = total + loss, count + rows
        out |= {f"{index}.{key}": value for key, value in recorded.items()}
    loss = total / count
    loss.backward()
    out["loss"] = loss.detach().reshape(1)
    named = dict(model.named_parameters(remove_duplicate=False))
    absent = []
    for key in load_file(folder / "model.safetensors"):
        gradient = gradient_of(named, key)
        if gradient is None:
            absent.append(key)
            continue
        scale = gradient.abs().max().clamp(min=1e-30)
        out[key] = (gradient / scale).to(torch.float16)
        out[key + ".scale"] = scale.reshape(1)
    save_file({key: value.contiguous() for key, value in out.items()},
              folder / "gradients.safetensors")
    print(f"{name:14} loss {float(loss):.4f}, no gradient: {absent}")


def worst(found, truth, least):
    scale = max(least, float(truth.abs().max()))
    return float((found.float() - truth.float()).abs().max()) / scale


def half_activations(model, name, expected):
    generator = torch.Generator().manual_seed(5)
    most = 0.0
    for index, length in enumerate(LENGTHS):
        tensors, _ = run(model, name, index, length, generator)
        for key, value in tensors.items():
            if value.is_floating_point():
                most = max(most, worst(value, expected[key], 1.0))
    return most


def half_gradients(model, name, expected, gradients):
    total, count = 0.0, 0
    for index in "01":
        kept = {key[2:]: value for key, value in expected.items()
                if key.startswith(index)}
        loss, rows = losses(model, name, kept, {})
        total, count = total + loss, count + rows
    (total / count).backward()
    most = 0.0
    named = dict(model.named_parameters(remove_duplicate=False))
    for key in gradients:
        value = gradient_of(named, key)
        if value is not None:
            truth = gradients[key].float() * gradients[key + ".scale"]
            most = max(most, worst(value, truth, 0.02))
    return most


def open_packed(folder, dtype):
    """A checkpoint whose experts are in mxfp4, as plain numbers."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    config = hf.AutoConfig.from_pretrained(folder)
    del config.quantization_config
    tensors = load_file(folder / "model.safetensors")
    for name in [n for n in tensors if n.endswith("_blocks")]:
        plain = name.removesuffix("_blocks")
        tensors[plain] = convert_moe_packed_tensors(
            tensors.pop(name), tensors.pop(plain + "_scales"), dtype=dtype)
    config._attn_implementation = "eager"
    model = class_of(folder)(config)
    model.load_state_dict(tensors)
    return model.to(dtype)


def open_half(folder):
    settings = json.loads((folder / "config.json").read_text())
    if "quantization_config" in settings:
        return open_packed(folder, torch.bfloat16).eval()
    return class_of(folder).from_pretrained(
        folder, attn_implementation="eager", dtype=torch.bfloat16).eval()


def measure_halves(names, folder):
    path = folder / "bf16.json"
    distances = json.loads(path.read_text())
    for name in names:
        model = open_half(folder / name)
        # The grouped product wants rows of 16 bytes.
        model.config._experts_implementation = "eager"
        expected = load_file(folder / name / "expected.safetensors")
        distances[name] = {
            "activations": half_activations(model, name, expected)}
        trained = folder / name / "gradients.safetensors"
        if trained.exists():
            distances[name]["gradients"] = half_gradients(
                model, name, expected, load_file(trained))
        print(name, distances[name])
    path.write_text(json.dumps(distances, indent=1) + "\n")


ROPE = dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=2,
            max_position_embeddings=40)
PAIRS = dict(short_factor=[1.0, 1.1, 1.3, 1.7, 2.0, 2.2, 2.9, 3.0],
             long_factor=[1.2, 2.0, 5.0, 11.0, 12.0, 15.5, 31.0, 64.0])
KINDS = ["full_attention", "sliding_attention"]


def scaled(kind, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 500.0,
                                **more}}


# As config.json says them, besides ROPE.
ROPE_SETTINGS = [
    dict(model_type="llama"),
    dict(model_type="llama", rope_theta=3e5,
         rope_scaling={"type": "linear", "factor": 2.5}),
    dict(model_type="llama", **scaled("dynamic", factor=3.0)),
    dict(model_type="llama", rope_scaling={"type": "dynamic", "factor": 8.0}),
    dict(model_type="llama", **scaled(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16)),
    dict(model_type="llama", **scaled(
        "yarn", factor=4.0, original_max_position_embeddings=32)),
    dict(model_type="llama", **scaled(
        "yarn", factor=4.0, original_max_position_embeddings=32,
        beta_fast=8.0, beta_slow=0.5, truncate=False, mscale=0.7,
        mscale_all_dim=1.3)),
    dict(model_type="llama", **scaled(
        "longrope", original_max_position_embeddings=24, **PAIRS)),
    dict(model_type="llama", **scaled(
        "longrope", original_max_position_embeddings=24, factor=16.0,
        **PAIRS)),
    dict(model_type="llama", original_max_position_embeddings=20, **scaled(
        "longrope", attention_factor=1.4, **PAIRS)),
    dict(model_type="llama", **scaled(
        "proportional", partial_rotary_factor=0.25)),
    dict(model_type="llama", **scaled(
        "proportional", partial_rotary_factor=0.7, factor=2.0)),
    dict(model_type="gpt_neox"),
    dict(model_type="gpt_neox", rotary_pct=0.5, rotary_emb_base=2000),
    dict(model_type="gpt_neox", rotary_pct=1.0,
         rope_scaling={"type": "dynamic", "factor": 2.0}),
    dict(model_type="gpt_neox", **scaled(
        "yarn", partial_rotary_factor=0.5, factor=4.0,
        original_max_position_embeddings=32)),
    dict(model_type="gemma3_text", head_dim=16, layer_types=KINDS),
    dict(model_type="gemma3_text", head_dim=16, layer_types=KINDS,
         rope_theta=7e5, rope_local_base_freq=900.0,
         rope_scaling={"rope_type": "linear", "factor": 8.0}),
    dict(model_type="gemma3_text", head_dim=16, layer_types=KINDS,
         rope_parameters={
             "full_attention": {"rope_type": "proportional",
                                "rope_theta": 1e6,
                                "partial_rotary_factor": 0.5},
             "sliding_attention": {"rope_type": "dynamic", "factor": 2.0,
                                   "rope_theta": 1e4}}),
]


def rotary(config):
    """A fresh module that turns: it remembers the calls before."""
    modeling = {"llama": hf.models.llama.modeling_llama.LlamaRotaryEmbedding,
                "gpt_neox": hf.models.gpt_neox.modeling_gpt_neox.
                GPTNeoXRotaryEmbedding,
                "gemma3_text": hf.models.gemma3.modeling_gemma3.
                Gemma3RotaryEmbedding}
    return modeling[config.model_type](config)


def make_rope(folder):
    cases = []
    for settings in ROPE_SETTINGS:
        given = json.loads(json.dumps({**ROPE, **settings}))
        kinds = KINDS if "layer_types" in given else [None]
        calls = []
        for length in (1, 24, 25, 41, 100):
            for kind in kinds:
                more = {k: v for k, v in given.items() if k != "model_type"}
                config = hf.AutoConfig.for_model(
                    given["model_type"], **json.loads(json.dumps(more)))
                module = rotary(config)
                named = dict(layer_type=kind) if kind else {}
                module(torch.zeros(1), torch.arange(length)[None], **named)
                prefix = f"{kind}_" if kind else ""
                calls.append({
                    "length": length, "kind": kinds.index(kind),
                    "scale": float(getattr(module,
                                           f"{prefix}attention_scaling")),
                    "frequencies": getattr(
                        module, f"{prefix}inv_freq").tolist()})
        cases.append({"config": given, "calls": [
            call for n, call in enumerate(calls) if n < len(kinds) or
            call["frequencies"] != calls[n - len(kinds)]["frequencies"]]})
    (folder / "rope.json").write_text(
        "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def expert_layers():
    """NAME: (layer, experts of a token, whether it has a balance)."""
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
        DeepseekV3MoE)
    from transformers.models.mixtral.modeling_mixtral import (
        MixtralSparseMoeBlock)
    from transformers.models.qwen2_moe.modeling_qwen2_moe import (
        Qwen2MoeSparseMoeBlock)
    width, eager = 8, dict(experts_implementation="eager")
    return {
        "mixtral": (MixtralSparseMoeBlock(hf.MixtralConfig(
            hidden_size=width, intermediate_size=6, num_local_experts=8,
            num_experts_per_tok=2, **eager)), 2, True),
        "qwen2_moe": (Qwen2MoeSparseMoeBlock(hf.Qwen2MoeConfig(
            hidden_size=width, moe_intermediate_size=5, num_experts=6,
            shared_expert_intermediate_size=7, num_experts_per_tok=3,
            norm_topk_prob=False, **eager)), 3, True),
        "deepseek_v3": (DeepseekV3MoE(hf.DeepseekV3Config(
            hidden_size=width, moe_intermediate_size=4, n_routed_experts=12,
            num_local_experts=12, num_experts_per_tok=4, n_group=4,
            topk_group=2, n_shared_experts=2, norm_topk_prob=True,
            routed_scaling_factor=2.5, **eager)), 4, False),
    }


def make_experts(folder):
    from transformers.models.mixtral.modeling_mixtral import (
        load_balancing_loss_func)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (layer, active, has_balance) in expert_layers().items():
        torch.manual_seed(sum(map(ord, name)))
        for weight in layer.parameters():
            weight.data = 0.4 * torch.randn_like(weight)
        if "gate.e_score_correction_bias" in layer.state_dict():
            layer.gate.e_score_correction_bias.normal_(std=0.3)
        x = torch.randn(1, 24, 8, requires_grad=True)
        y, dy = layer(x), torch.randn(1, 24, 8)
        (y * dy).sum().backward()
        out = dict(x=x[0], y=y[0], dy=dy[0], dx=x.grad[0],
                   **layer.state_dict())
        for key, value in layer.named_parameters():
            out[key + ".gradient"] = value.grad
        if has_balance:
            logits = torch.nn.functional.linear(x[0], layer.gate.weight)
            out["balance"] = load_balancing_loss_func(
                (logits,), logits.shape[1], active).reshape(1)
        save_file({key: value.detach().contiguous().float()
                   for key, value in out.items()},
                  folder / f"{name}.safetensors")


# Of a golden the classes of transformers that read its weights with a head of
# another task.
TASKS = {
    "bert": ("Bert", True), "roberta": ("Roberta", True),
    "distilbert": ("DistilBert", True), "xlm-roberta": ("XLMRoberta", True),
    "electra": ("Electra", True), "modernbert": ("ModernBert", True),
    "modernbert-biased": ("ModernBert", False), "albert": ("Albert", True),
    "mpnet": ("MPNet", True)}


def make_tasks(folder):
    (folder / "tasks").mkdir(exist_ok=True)
    for base, (family, both) in TASKS.items():
        kinds = [f"{family}ForSequenceClassification"]
        kinds += [f"{family}ForTokenClassification"] * both
        kinds += ["ElectraForPreTraining"] * (base == "electra")
        for kind in kinds:
            make_task(folder, base, kind)


def make_task(folder, base, kind):
    torch.manual_seed(sum(map(ord, base + kind)))
    config = hf.AutoConfig.from_pretrained(folder / base)
    # A text by its first state, and once by the mean of all.
    pooling = "mean" if base == "modernbert-biased" else "cls"
    config.classifier_pooling, config.num_labels = pooling, 3
    model = getattr(hf, kind).from_pretrained(
        folder / base, config=config, attn_implementation="eager").eval()
    known = load_file(folder / base / "model.safetensors")
    out = {}
    for name, tensor in model.named_parameters():
        if name not in known:
            tensor.data = 0.4 * torch.randn_like(tensor)
            out[name] = tensor.detach()
    expected = load_file(folder / base / "expected.safetensors")
    with torch.no_grad():
        for index in "01":
            ids = expected[f"{index}.input_ids"].long()[None]
            out[f"{index}.logits"] = model(input_ids=ids).logits[0]
    save_file({key: value.contiguous().float() for key, value in out.items()},
              folder / "tasks" / f"{base}.{kind}.safetensors",
              metadata={"classifier_pooling": pooling})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--halves", action="store_true")
    parser.add_argument("--rope", action="store_true")
    parser.add_argument("--experts", action="store_true")
    parser.add_argument("--tasks", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    names = options.only or names_of(options.folder)
    if options.rope:
        make_rope(options.folder)
        return
    if options.experts:
        make_experts(options.folder / "experts")
        return
    if options.tasks:
        make_tasks(options.folder)
        return
    if options.halves:
        measure_halves(names, options.folder)
        return
    for name in names:
        (make_gradients if options.gradients else make)(
            name, options.folder / name)


if __name__ == "__main__":
    main()
