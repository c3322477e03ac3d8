#!/usr/bin/env python3
"""A TransformerLens bridge whose heads run on this library's attention.

    PYTHONPATH=BUILD/python examples/in_place/transformer_lens_bridge.py FOLDER

The bridge of TransformerLens 4 computes attention of rotary models by itself, to
have a hook on every score. `native` lets the layer's own module compute it
again, by the name that the model was loaded with: hooks on queries, keys, values
and on what heads give (hook_z) stay, the two that need the whole matrix
(hook_attn_scores, hook_pattern) are silent, and texts may be long. Checked
by a run with TransformerLens 4.0.0b1 from its sources, transformers 5.12, on
assets/novels; its figures are those of the nnsight example.
"""
import functools
import sys

import headwise.torch as hwt
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.generalized_components.attention import \
    AttentionBridge
from transformers import AutoModelForCausalLM, AutoTokenizer


def native(bridge):
    for block in bridge.blocks:
        # Not by setattr, which the bridge hands on to the module it wraps.
        block.attn.__dict__["forward"] = functools.partial(
            AttentionBridge.forward, block.attn)


folder, *words = sys.argv[1:]
text = " ".join(words) or "The captain looked at the sea, and the sea at him."

hwt.register()
model = AutoModelForCausalLM.from_pretrained(folder,
                                             attn_implementation="headwise")
bridge = TransformerBridge.boot_transformers(
    folder, hf_model=model, tokenizer=AutoTokenizer.from_pretrained(folder))
native(bridge)
with hwt.observe(model) as seen:
    logits, cache = bridge.run_with_cache(
        text, output_attentions=False)
print("heads of layer 0", list(cache["blocks.0.attn.hook_z"].shape))
print(seen.profile().table())
