#!/usr/bin/env python3
"""A run of lm-evaluation-harness on this library's attention, while what every
head does on the task's texts is added up.

    PYTHONPATH=BUILD/python examples/in_place/lm_eval_run.py FOLDER [TASK]

HFLM hands what it does not know of its arguments on to from_pretrained. The
command line needs register() before it:
`python3 -c "import headwise.torch as h; h.register(); from lm_eval.__main__
import cli_evaluate as run; run()" --model hf --model_args
pretrained=FOLDER,attn_implementation=headwise --tasks …`

One text at a time: the harness pads batches without telling the model, and
padding would count as text.
Checked with lm-evaluation-harness 0.5.0 from its sources: HFLM's loglikelihoods
of assets/novels are those of eager attention; simple_evaluate was only read, as
tasks come from the network.
"""
import sys

import headwise.torch as hwt
import lm_eval
from lm_eval.models.huggingface import HFLM

folder, *tasks = sys.argv[1:]

hwt.register()
model = HFLM(pretrained=folder, attn_implementation="headwise", batch_size=1)
with hwt.observe(model.model) as seen:
    done = lm_eval.simple_evaluate(model, tasks=tasks or ["lambada_openai"],
                                   limit=100)
print(done["results"])
print(seen.profile().table())
