#!/usr/bin/env python3
"""An nnsight trace of a model that runs on this library's attention, while what
every head does is added up.

    PYTHONPATH=BUILD/python examples/in_place/nnsight_trace.py FOLDER [TEXT]

nnsight hands keywords of LanguageModel on to from_pretrained, so that nothing
but the name of the attention changes. What a trace reads is the tensors of the
model's modules; there is no matrix of weights to read, `seen` has what it would
have been read for. Checked by a run with nnsight 0.7.0 from its
sources, transformers 5.12, on assets/novels.
"""
import sys

import headwise.torch as hwt
from nnsight import LanguageModel
from transformers import AutoTokenizer

folder, *words = sys.argv[1:]
text = " ".join(words) or "The captain looked at the sea, and the sea at him."

hwt.register()
tokenizer = AutoTokenizer.from_pretrained(folder)
tokenizer.pad_token = tokenizer.pad_token or tokenizer.bos_token
model = LanguageModel(folder, attn_implementation="headwise", dispatch=True,
                      tokenizer=tokenizer)
layers = model.model.layers
with hwt.observe(model._module) as seen:
    with model.trace(text):
        output = layers[-1].self_attn.o_proj.input.save()
print("heads before the last output product", list(output.shape))
print(seen.profile().table())
