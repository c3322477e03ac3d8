#!/usr/bin/env python3
"""Writes the tables of docs/pruning.md, between its two marks, from runs of
`headwise prune`: the curve of every model, and every repair at 30 % removed.

    tools/make_pruning.py --program build/…/headwise [--text PATH …] [MODEL …]

Without models: assets/novels. What a run refuses is written down as well.
"""
import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pruning.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
REPAIRS = ["none", "fold", "least-squares", "fold,least-squares", "finetune",
           "fold,least-squares,finetune"]


def headwise(options, *arguments):
    """What a command printed as JSON, or its complaint."""
    done = subprocess.run([options.program, *map(str, arguments)], check=False,
                          capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout), ""
    return None, done.stderr.strip().splitlines()[-1]


def interval(value, sign=False):
    form = "{:+.4f}" if sign else "{:.4f}"
    return "{} [{}, {}]".format(*(form.format(value[k])
                                  for k in ("value", "low", "high")))


def texts(options):
    return [word for path in options.text for word in ("--text", path)]


def curve_rows(options, model, folder):
    made, complaint = headwise(
        options, "prune", model, *texts(options), "--tokens", options.tokens,
        "--by", options.by, "--no-timing", "--curve", folder / "curve",
        "--json")
    if made is None:
        return [f"| {model.name} | {complaint} | | | |"]
    area = {order["order"]: order["area"] for order in made["orders"]}
    gain = made["importance_less_random"]
    word = ("beats it" if gain["high"] < 0 else
            "**does not**" if gain["value"] >= 0 else "within the band")
    return [f"| {model.name} | {area['importance']:.4f} | "
            f"{interval(made['random_area'])} | {area['reversed']:.4f} | "
            f"{interval(gain, True)}: {word} |"]


def repair_rows(options, model, folder):
    plan = folder / "plan.json"
    rows, choice = [], ["--by", options.by, "--keep", "0.7", "--plan-out", plan]
    for number, repair in enumerate(REPAIRS):
        made, complaint = headwise(
            options, "prune", model, *texts(options), "--tokens",
            options.tokens, *choice, "--repair", repair, "--no-timing",
            "--out", folder / str(number), "--json")
        if made is None:
            rows.append(f"| {model.name} | {repair} | {complaint} | | |")
            continue
        choice = ["--plan", plan]  # the same heads for every repair
        error = made.get("output_error", {})
        left = (f"{100 * error['least_squares']:.2f} % (none "
                f"{100 * error['none']:.2f} %, fold {100 * error['fold']:.2f} %)"
                if error else "")
        rows.append(f"| {model.name} | {repair} | "
                    f"{interval(made['loss_after'])} | "
                    f"{interval(made['change'], True)} | {left} |")
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--text", nargs="+", default=["assets/text"])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--by", default="ablation-mean")
    parser.add_argument("models", nargs="*", default=["assets/novels"])
    options = parser.parse_intermixed_args()
    options.program = pathlib.Path(options.program).resolve()
    options.text = [(ROOT / path).resolve() for path in options.text]
    curves, repairs = [], []
    for name in options.models:
        model = (ROOT / name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            curves += curve_rows(options, model, pathlib.Path(folder))
            repairs += repair_rows(options, model, pathlib.Path(folder))
        print(curves[-1], *repairs[-len(REPAIRS):], sep="\n", file=sys.stderr)
    named = ", ".join(path.name for path in options.text)
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    lines = [
        f"Measured {datetime.date.today()} on {platform.machine()}, at most "
        f"{options.tokens} tokens of {named}, heads ranked by {options.by} on "
        "three quarters of it; losses are of the last quarter.", "",
        "Mean loss over the curve (area divided by its width):", "",
        "| model | importance | random, mean of 5 | reversed | importance "
        "against random |", "|---|---|---|---|---|", *curves, "",
        "30 % of the heads removed, the same heads in every row of a model:",
        "",
        "| model | repair | loss | change from the whole model | error of "
        "attention outputs after least squares |", "|---|---|---|---|---|",
        *repairs]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END +
                    after, encoding="utf-8")


if __name__ == "__main__":
    main()
