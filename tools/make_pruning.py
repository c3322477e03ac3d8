#!/usr/bin/env python3
"""Writes the tables of docs/pruning.md, between its two marks, from runs of
`headwise prune`: the curve of every model, and every repair at 30 % removed.

    tools/make_pruning.py --program build/…/headwise [MODEL[=TEXT,…] …]

A MODEL is a folder; TEXT what it reads, else --text. Without models: what
ships, assets/novels, and where they are found
  minilm-l6, minimind2-small, stories15M   in --models, $HEADWISE_MODELS
  a translator of verses, trained here     from --shared, $HEADWISE_SHARED or
                                           ../shared: data/bible-en-de.tar.xz
The real models read wikitext-2 of the same place, else --text; one that comes
without a tokenizer what it tells itself, drawn at temperature 1.

Every run's result is kept in --work (build/pruning) under its own settings: a
run that was interrupted goes on where it stopped, and --page alone writes the
tables of what is there. What a run refuses is written down as well. Rows of
models that are not among MODELs stay as they are.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile
import tempfile

import id_words

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pruning.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
REPAIRS = ["none", "fold", "least-squares", "fold,least-squares", "finetune",
           "fold,least-squares,finetune"]
REAL = ["minilm-l6", "stories15M", "minimind2-small"]
WHOLE = "whole model, finetune"
# What would take hours on two cores reads less and is tuned for less; --whole
# reads --tokens everywhere.
FINETUNE_STEPS = 100
LESS = {"minilm-l6": {"tokens": 4096},
        "stories15M": {"tokens": 4096, "finetune": 20},
        "minimind2-small": {"tokens": 2048, "finetune": 20}}


class Runs:
    """Commands and what they printed, kept by their words."""

    def __init__(self, options):
        self.options = options
        self.folder = options.work / "runs"
        self.folder.mkdir(parents=True, exist_ok=True)

    def file(self, key):
        name = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
        return self.folder / f"{name}.json"

    def get(self, key, words):
        """What `headwise WORDS` printed, or {"refused": …}, kept under `key`:
        what the run is, without the places of passing files. None where it is
        not there and nothing is to be run."""
        file = self.file(key)
        if file.exists():
            return json.loads(file.read_text(encoding="utf-8"))["result"]
        if self.options.page:
            return None
        words = [str(word) for word in words]
        print("headwise", *words, file=sys.stderr, flush=True)
        done = subprocess.run([self.options.program, *words], check=False,
                              capture_output=True, text=True)
        if done.returncode == 0:
            result = json.loads(done.stdout)
        elif done.returncode == 1:
            result = {"refused": done.stderr.strip().splitlines()[-1]}
        else:  # killed, or called wrongly: not a result
            sys.exit(f"headwise {' '.join(words)}: {done.returncode}\n"
                     f"{done.stderr}")
        result["date"] = str(datetime.date.today())
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"key": key, "result": result}, indent=1),
                          encoding="utf-8")
        beside.replace(file)
        return result


def interval(value, sign=False):
    form = "{:+.4f}" if sign else "{:.4f}"
    return "{} [{}, {}]".format(*(form.format(value[k])
                                  for k in ("value", "low", "high")))


def size(options, model, what, otherwise):
    """How much of a model's work is done."""
    if options.whole:
        return otherwise
    return min(otherwise, LESS.get(model.name, {}).get(what, otherwise))


def common(options, model, texts):
    words = ["prune", str(model)]
    for text in texts:
        words += ["--text", str(text)]
    return words + ["--tokens",
                    str(size(options, model, "tokens", options.tokens)),
                    "--no-timing", "--json"]


def curve_of(runs, options, model, texts):
    key = common(options, model, texts) + ["--by", options.by, "--curve"]
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        return runs.get(key, [*key, pathlib.Path(folder) / "curve",
                              *options.engine])


def curve_row(model, made):
    if made is None:
        return f"| {model.name} | not measured yet | | | |"
    if "refused" in made:
        return f"| {model.name} | {made['refused']} | | | |"
    area = {order["order"]: order["area"] for order in made["orders"]}
    gain = made["importance_less_random"]
    word = ("beats it" if gain["high"] < 0 else
            "**does not**" if gain["value"] >= 0 else "within the band")
    return (f"| {model.name} | {area['importance']:.4f} | "
            f"{interval(made['random_area'])} | {area['reversed']:.4f} | "
            f"{interval(gain, True)}: {word} |")


def percent(share):
    """Of an error over the variance, as prune prints it."""
    return "more than 1000 %" if share > 10 else f"{100 * share:.2f} %"


def repair_row(model, repair, made):
    if made is None:
        return f"| {model.name} | {repair} | not measured yet | | |"
    if "refused" in made:
        return f"| {model.name} | {repair} | {made['refused']} | | |"
    error = made.get("output_error", {})
    left = (f"{percent(error['least_squares'])} (none "
            f"{percent(error['none'])}, fold {percent(error['fold'])})"
            if error else "")
    return (f"| {model.name} | {repair} | {interval(made['loss_after'])} | "
            f"{interval(made['change'], True)} | {left} |")


def repairs_of(runs, options, model, texts):
    """What each repair gave, by its name. The same heads for all: the first run
    writes their plan, which is kept beside the results."""
    base = common(options, model, texts)
    choice = ["--by", options.by, "--keep", "0.7"]
    plan = runs.file(base + choice).with_suffix(".plan")
    gave = {}
    steps = size(options, model, "finetune", FINETUNE_STEPS)
    fewer = ["--finetune-steps", str(steps)] if steps < FINETUNE_STEPS else []

    def add(name, repair, key, words):
        if "finetune" in repair:
            key, words = key + fewer, words + fewer
        with tempfile.TemporaryDirectory(dir=options.work) as folder:
            gave[name] = runs.get(
                base + key + ["--repair", repair],
                [*base, *words, "--repair", repair, *options.engine, "--out",
                 pathlib.Path(folder) / "out"])

    for repair in REPAIRS:
        if options.only and repair != options.only:
            continue
        add(repair, repair, choice, ["--plan", plan] if plan.exists() else
            [*choice, "--plan-out", plan])
    # What finetuning gives by itself.
    whole = ["--by", "weights-ov", "--keep", "1"]
    if options.only in ("", WHOLE):
        add(WHOLE, "finetune", whole, whole)
    return gave


def order_row(model, curve, gave):
    """Whether what is expected of orders and repairs holds."""
    def loss(repair):
        made = gave[repair]
        if made is None or "refused" in made:
            return None
        return made["loss_after"]["value"]

    def at_most(value, *others):
        others = [other for other in others if other is not None]
        if value is None or not others:
            return "not measured"
        return "yes" if value <= min(others) else "**no**"
    error = (gave["fold,least-squares"] or {}).get("output_error", {})
    gain = (curve or {}).get("importance_less_random")
    untuned = [loss(repair) for repair in REPAIRS if "finetune" not in repair]
    return " | ".join([
        f"| {model.name}", at_most(gain and gain["value"], 0),
        at_most(loss("fold"), loss("none")),
        at_most(error.get("least_squares"), error.get("fold")),
        at_most(loss("finetune"), *untuned),
        at_most(loss("fold,least-squares,finetune"), *untuned)]) + " |"


def unpacked(options, name):
    """The folder of a corpus, or None."""
    archive = options.shared / "data" / f"{name}.tar.xz"
    folder = options.work / name
    if not folder.exists():
        if not archive.exists():
            return None
        with tarfile.open(archive) as tar:
            tar.extractall(options.work, filter="data")
    return folder


def translator(options):
    """A small translator of verses, trained on all but 1000 of them: its folder
    and the held-out verses, or None. As examples/train/README.md does it."""
    corpus = unpacked(options, "bible-en-de")
    if corpus is None:
        return None
    folder = options.work / f"verses-{options.translator_steps}"
    folder.mkdir(exist_ok=True)
    model, held_out = folder / "translator", folder / "held-out.tsv"
    if (folder / "done").exists():
        return model, [held_out]
    if options.page:
        return None
    lines = {"train": [], "held-out": []}
    (pairs,) = corpus.glob("*.tsv")
    for number, line in enumerate(pairs.read_text("utf-8").splitlines(), 1):
        _, source, target = line.split("\t")[:3]
        held = number % 30 == 0 and number <= 30000
        lines["held-out" if held else "train"].append(f"{source}\t{target}\n")
    for name, some in lines.items():
        (folder / f"{name}.tsv").write_text("".join(some), encoding="utf-8")
    tokenizer = folder / "tokenizer.json"

    def headwise(*words):
        subprocess.run([options.program, *map(str, words)], check=True)
    if not tokenizer.exists():
        headwise("vocab", "--text", folder / "train.tsv", "--size", 4096,
                 "--bos", "", "--special-tokens", "<unk>,<eos>,<pad>", "--out",
                 tokenizer)
    begun = ["--resume"] if model.exists() else []
    headwise("train", ROOT / "examples/train/verses.json", *begun,
             *options.engine, *(word for setting in (
                 f"out={model}", f"tokenizer={tokenizer}",
                 f'data=["{folder / "train.tsv"}"]',
                 f'validation=["{held_out}"]',
                 f"steps={options.translator_steps}",
                 f"warmup={min(1000, options.translator_steps // 4)}")
                 for word in
                 ("--set", setting)))
    (folder / "done").touch()
    return model, [held_out]


def self_told(options, model):
    """A model without a tokenizer: a folder with one whose words are ids, and a
    text of such words, documents of 256 tokens that the model itself drew. None
    where they are not there and nothing is to be run."""
    folder = options.work / "told" / model.name
    text = folder.parent / f"{model.name}.jsonl"
    if text.exists():
        return folder, [text]
    if options.page:
        return None
    config = id_words.add_tokenizer(model, folder)
    lines = []
    for seed in range(max(2, options.tokens // 256)):
        told = json.loads(subprocess.run(
            [options.program, "generate", model, "--ids",
             str(config["bos_token_id"]), "--max-tokens", "255",
             "--temperature", "1", "--seed", str(seed), "--json"], check=True,
            capture_output=True, text=True).stdout)
        words = id_words.text_of(told["prompt_ids"] + told["ids"])
        lines.append(json.dumps({"text": words}) + "\n")
    beside = text.with_suffix(".new")
    beside.write_text("".join(lines), encoding="utf-8")
    beside.replace(text)
    return folder, [text]


def subjects(options):
    """Models, each with what it reads."""
    if options.named:
        for word in options.named:
            model, _, texts = word.partition("=")
            yield (ROOT / model).resolve(), (
                [pathlib.Path(text).resolve() for text in texts.split(",")]
                if texts else options.text)
        return
    yield ROOT / "assets" / "novels", options.text
    made = translator(options)
    if made is None:
        print("translator: no verses in --shared", file=sys.stderr)
    else:
        yield made
    for name in REAL:
        model = options.models and options.models / name
        if not model or not model.exists():
            print(f"{name}: not in --models", file=sys.stderr)
            continue
        if not any(model.glob("tokenizer*")):
            made = self_told(options, model)
            if made:
                yield made
            continue
        wiki = unpacked(options, "wikitext-2")
        yield model.resolve(), [wiki / "test.txt"] if wiki else options.text


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default=str(
        ROOT / "build/release/apps/headwise/headwise"))
    parser.add_argument("--text", nargs="+", default=["assets/text"])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--by", default="ablation-mean")
    parser.add_argument("--models", type=pathlib.Path, default=os.environ.get(
        "HEADWISE_MODELS"), help="where the real models are")
    parser.add_argument("--shared", type=pathlib.Path, default=os.environ.get(
        "HEADWISE_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--work", type=pathlib.Path,
                        default=ROOT / "build" / "pruning")
    parser.add_argument("--translator-steps", type=int, default=4000)
    parser.add_argument("--whole", action="store_true",
                        help="no model reads less than --tokens")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", default="")
    parser.add_argument("--only", default="", choices=["", *REPAIRS, WHOLE],
                        help="one repair, and no curve")
    parser.add_argument("--page", action="store_true",
                        help="run nothing: write what is there")
    parser.add_argument("named", nargs="*", metavar="MODEL[=TEXT,…]")
    options = parser.parse_intermixed_args()
    options.program = str(pathlib.Path(options.program).resolve())
    options.text = [(ROOT / path).resolve() for path in options.text]
    options.models = options.models and pathlib.Path(options.models)
    options.shared = pathlib.Path(options.shared)
    options.work.mkdir(parents=True, exist_ok=True)
    options.work = options.work.resolve()
    # Where and how it runs changes no figure beyond rounding.
    options.engine = (["--threads", options.threads] if options.threads else [])
    options.engine += ["--device", options.device] if options.device else []
    return options


CURVES = ("| model | importance | random, mean of 5 | reversed | importance "
          "against random |")
REPAIRED = ("| model | repair | loss | change from the whole model | error of "
            "attention outputs after least squares |")
ORDERS = ("| model | importance beats the mean random order | fold ≤ none, "
          "loss | least-squares ≤ fold, output error | finetune alone ≤ the "
          "others, loss | fold,least-squares,finetune ≤ the others, loss |")


def last_date(results):
    """When the last of them was measured."""
    return max((made["date"] for made in results if made), default="never")


def kept(old, new, name_of):
    """`new` in the places of what `old` says of the same models, the rest of
    it as it was."""
    names = [name_of(line) for line in new]
    at = next((i for i, line in enumerate(old) if name_of(line) in names),
              len(old))
    return ([line for line in old[:at] if name_of(line) not in names] + new +
            [line for line in old[at:] if name_of(line) not in names])


def table(measured, header, rows, names=1):
    """A table with these rows, and those of other models (names: and of other
    words in so many columns) that stand there."""
    there = measured.partition(header)[2].split("\n\n")[0]
    old = [line for line in there.splitlines() if line.startswith("| ")]
    return [header, "|---" * (header.count("|") - 1) + "|",
            *kept(old, rows, lambda line: line.split("|")[1:names + 1])]


def main():
    options = parse()
    runs = Runs(options)
    curves, repairs, orders, read = [], [], [], []
    for model, texts in subjects(options):
        curve = (None if options.only else
                 curve_of(runs, options, model, texts))
        gave = repairs_of(runs, options, model, texts)
        repairs += [repair_row(model, *one) for one in gave.items()]
        if options.only:
            continue
        curves.append(curve_row(model, curve))
        orders.append(order_row(model, curve, gave))
        names = ("documents that it drew itself, having no tokenizer"
                 if path.parent.name == "told" else
                 f"verses held out of a training of {options.translator_steps} "
                 "steps" if model.name == "translator" else
                 f"{path.parent.name}/{path.name}" for path in texts)
        steps = size(options, model, "finetune", FINETUNE_STEPS)
        read.append(
            f"{model.name}: {', '.join(names)}, at most "
            f"{size(options, model, 'tokens', options.tokens)} tokens, "
            f"finetune of {steps} steps, measured "
            f"{last_date([curve, *gave.values()])} on {platform.machine()}")
        print(curves[-1], *repairs[-len(gave):], orders[-1], sep="\n",
              file=sys.stderr, flush=True)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    measured, after = rest.split(END)
    was_read = re.search(r"What was read: (.*?)\.\n", measured)
    lines = [
        f"Heads ranked by {options.by} on three quarters of the text, losses "
        "of the last quarter. What was read: " + "; ".join(kept(
            was_read[1].split("; ") if was_read else [], read,
            lambda words: words.split(":")[0])) + ".",
        "", "Mean loss over the curve (area divided by its width):", "",
        *table(measured, CURVES, curves), "",
        "30 % of the heads removed, the same heads in every row of a model; "
        f"\"{WHOLE}\": none removed, trained alike:",
        "", *table(measured, REPAIRED, repairs, 2), "",
        "What was expected; exceptions stand as they came:", "",
        *table(measured, ORDERS, orders)]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END +
                    after, encoding="utf-8")


if __name__ == "__main__":
    main()
