#!/usr/bin/env python3
"""Writes docs/claims.md from docs/claims.json (the claims, one command each),
docs/studies.json (what the studies measured) and docs/commands.json (what the
other commands printed). No figure of the page is typed.

    tools/make_claims.py                    write the page anew
    tools/make_claims.py --check            exit code 1 when it would change
    tools/make_claims.py --run              run every study and every row's
                                            command, keep what came out, write
    tools/make_claims.py --run NAME ...     run these studies, or the commands
                                            of these rows (numbers), only
    tools/make_claims.py --run --missing    those without a result: goes on
                                            where a run was interrupted
    tools/make_claims.py --run --full       with as many seeds as a verdict
                                            needs; --seeds, --device, --text
                                            as of `headwise study`
    tools/make_claims.py --run --svg FOLDER keep the studies' figures there too
    tools/make_claims.py --from FOLDER      take what `study --all` kept there,
                                            or records of one study on several
                                            seeds, which pool; --commit HASH of
                                            the build that ran
    tools/make_claims.py --hashes FILE      mark rows as stale by the output of
                                            `headwise study --all --hash`; with
                                            --check they fail

A row is stale when the hash of its study's claim, expectations, steps, seeds
and revision is not the one it was measured with.
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from claims_figures import (BASES, COUNTED, header, measure, row_hash, show,
                            weakest)

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SHOWN = 3  # figures of a row that names none
UNMEASURED = "not yet measured under these rules"
STALE = "stale"

HEAD = """# What is claimed about multi-head attention, and what was measured

Written by `tools/make_claims.py` from runs; no figure of the tables is typed.
Every row is a command. **HELD**: the whole 95 % interval (Student's t over
paired seeds; of what has bounds a score interval that stays within them, at a
bound Clopper and Pearson's) is as expected; mathematics, and what the program
itself does, has no interval. **REFUTED**: no value of the interval is.
**UNDECIDED**: neither, or fewer than five seeds (three where one run takes more
than ten GPU minutes), or one trained model, or a quick run, or a figure within
5 % of chance or of the best possible. **NOT MEASURED**: what the figure is
about did not form in the models, by a floor stated beforehand. **EXPLORATORY**:
decided, but a threshold, the task or a hyper-parameter was changed after a
result, which fresh seeds must confirm; `headwise study NAME --explain` tells
the history. A claim takes the weakest word among its figures: one REFUTED, else
one NOT MEASURED, else one UNDECIDED, else one EXPLORATORY, else HELD.
"""


def load(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep(path, records):
    """Whole or not at all: what was measured must survive an interruption."""
    text = json.dumps(dict(sorted(records.items())), indent=1,
                      ensure_ascii=False) + "\n"
    beside = path.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def verdict(record, names=()):
    """What the figures say: those named, where the verdict rests on any of
    them, else all. The word, and why where intervals alone do not say it."""
    figures = record["figures"]
    judged = [name for name in figures if figures[name]["decides"]]
    if names:
        told = [name for name in names if figures[name]["expected"]]
        judged = [name for name in judged if name in names]
        if not judged and told:
            return "UNDECIDED", ["one given model"]
    word = weakest([figures[name]["verdict"] for name in judged])
    whys = [figures[name]["why"] for name in judged
            if figures[name]["verdict"] == word and "why" in figures[name]]
    return word, list(dict.fromkeys(whys))


def study_row(row, studies, hashes):
    """Command, figures, record and word of a row that a study judges."""
    name = row["study"]
    command = f"headwise study {name}"
    record = studies.get(name)
    if record is None or "hash" not in record:
        return command, [], {}, UNMEASURED, []
    if record["full"]:
        command += " --full"
    figures, names = record["figures"], row.get("figures", [])
    missing = [each for each in names if each not in figures]
    if missing:
        sys.exit(f"claim {row['number']}: study {name} has no figure "
                 f"{missing[0]!r}; it has {list(figures)}")
    shown = names or [each for each in figures
                      if figures[each]["decides"]][:SHOWN]
    told = [show(each, figures[each]) for each in shown]
    if hashes and hashes.get(name) != record["hash"]:
        return command, told, record, STALE, []
    return command, told, record, *verdict(record, names)


def command_row(row, commands):
    """The same of a row that another command judges."""
    record = commands.get(str(row["number"]))
    if record is None:
        return row["command"], [], {}, UNMEASURED, []
    told = [show(each["name"], record["figures"][each["name"]],
                 each.get("format", ".3g"))
            for each in row["take"] if each["name"] in record["figures"]]
    if record["hash"] != row_hash(row):
        return row["command"], told, record, STALE, []
    word, whys = verdict(record)
    if row["basis"] == "detectors":
        whys = [BASES["detectors"]]
    if "exploratory" in row:
        word = weakest([word, "EXPLORATORY"])
        whys = whys + [row["exploratory"]]
    return row["command"], told, record, word, whys


def outcome(row, studies, commands, hashes):
    if "study" in row:
        return study_row(row, studies, hashes)
    if "take" not in row:
        return row["command"], [], {}, "", [row["no_verdict"]]
    result = command_row(row, commands)
    if "no_verdict" in row and result[3] not in (UNMEASURED, STALE):
        return *result[:3], "", [row["no_verdict"]]
    return result


def cell(text):
    return text.replace("|", "\\|")


def line_of(row, result):
    command, told, record, word, whys = result
    measured = " ".join(filter(None, [
        "; ".join(told) + "." if told else "", row.get("note", "")]))
    seeds = len(record["seeds"]) if record.get("seeds") else "–"
    where = (f"{record['machine']}, {record['date']}" if record else "–")
    last = f"**{word}**" if word in COUNTED else word
    if whys:
        last += (": " if word else "") + "; ".join(whys)
    if "corrected" in row:
        last += f"; corrected, {row['corrected']}"
    return (f"| {row['number']} | {cell(row['claim'])} | `{cell(command)}` | "
            f"{cell(measured)} | {seeds} | {cell(where)} | {cell(last)} |")


def counts(words):
    told = [f"{words.count(word)} {word}" for word in COUNTED]
    rest = [f"{words.count(word)} {word}" for word in (UNMEASURED, STALE)
            if word in words]
    if "" in words:
        rest.append(f"{words.count('')} without a verdict, and why")
    return (f"\nOf {len(words)} claims: " + ", ".join(told)
            + "".join(f"; {each}" for each in rest) + ".\n")


def page(claims, studies, commands, hashes=None):
    lines, words = [], []
    for row in claims["claims"]:
        if "section" in row:
            lines += [f"\n## {row['section']}\n",
                      "| | claim | command | measured | seeds | on | |",
                      "|---|---|---|---|---|---|---|"]
            continue
        result = outcome(row, studies, commands, hashes)
        words.append(result[3])
        lines.append(line_of(row, result))
    lines += ["\n## What is told wrong, and what is right\n",
              "What the papers say; of what we measured ourselves, the rows "
              "above.\n",
              "| | told | right | see |", "|---|---|---|---|"]
    for row in claims["corrections"]:
        command = f"`{row['command']}`" if "command" in row else "–"
        lines.append(f"| {row['number']} | {cell(row['said'])} | "
                     f"{cell(row['fact'])} | {command} |")
    return HEAD + counts(words) + "\n".join(lines) + "\n", words


def machine_of(program):
    """The processor's name, as the program gives it."""
    return json.loads(subprocess.run(
        [program, "study", "averaging", "--json"], check=True, text=True,
        capture_output=True).stdout)["machine"]


def run_study(options, name, studies):
    words = [options.program, "study", name, "--json",
             "--device", options.device]
    words += ["--full"] * options.full
    words += ["--seeds", options.seeds] if options.seeds else []
    for text in options.text:
        words += ["--text", text]
    if options.svg:
        folder = pathlib.Path(options.svg)
        folder.mkdir(parents=True, exist_ok=True)
        words += ["--svg", str(folder / f"{name}.svg")]
    done = subprocess.run(words, text=True, check=False, cwd=ROOT,
                          stdout=subprocess.PIPE)
    if not done.stdout.startswith("{"):
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}")
    record = json.loads(done.stdout)
    record["seconds"] = round(record["seconds"], 1)
    record["commit"] = options.commit or revision()
    studies[name] = record
    print(f"{name}: {verdict(record)[0]}, {record['seconds']} s", flush=True)
    keep(DOCS / "studies.json", studies)


def outputs(options, row, printed):
    """What the figures of a row are taken from, by command and file; `printed`
    has what earlier rows ran, which is not run again. In a folder that what the
    commands write stays in."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "assets", pathlib.Path(folder, "assets"))
        for each in row["take"]:
            command = each.get("command", row["command"])
            file = each.get("file")
            if (command, file) in printed:
                continue
            words = [options.program] + shlex.split(command)[1:]
            done = subprocess.run(words, text=True, check=True, cwd=folder,
                                  capture_output=True)
            printed[command, file] = (header(pathlib.Path(folder, file))
                                      if file else json.loads(done.stdout))
    return printed


def run_row(options, row, commands, machine, printed):
    """Measures the figures of a row."""
    found = outputs(options, row, printed)
    figures = {each["name"]: measure(
        each, found[each.get("command", row["command"]), each.get("file")],
        row["basis"]) for each in row["take"]}
    record = {"command": row["command"], "hash": row_hash(row),
              "figures": figures, "machine": machine,
              "date": datetime.datetime.now(
                  datetime.timezone.utc).date().isoformat()}
    commands[str(row["number"])] = record
    print(f"row {row['number']}: {verdict(record)[0]}", flush=True)
    keep(DOCS / "commands.json", commands)


def run(options, claims, studies, commands):
    listed = [study["study"] for study in json.loads(subprocess.run(
        [options.program, "study", "--list", "--json"], check=True, text=True,
        capture_output=True).stdout)]
    wanted = options.run
    for name in listed:
        record = studies.get(name, {})
        done = "hash" in record and record["full"] == options.full
        if (not wanted or name in wanted) and not (options.missing and done):
            run_study(options, name, studies)
    machine, printed = machine_of(options.program), {}
    for row in claims["claims"]:
        if "take" not in row:
            continue
        record = commands.get(str(row["number"]), {})
        done = record.get("hash") == row_hash(row)
        if (not wanted or str(row["number"]) in wanted) and not (
                options.missing and done):
            run_row(options, row, commands, machine, printed)


def revision():
    """The commit of this checkout, or nothing outside of one."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True,
                          capture_output=True, check=False)
    return done.stdout.strip()


def pool(program, name, records):
    """One record of them all, by the program, which judges anew."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, record in enumerate(records):
            paths.append(pathlib.Path(folder, f"{number}.json"))
            paths[-1].write_text(json.dumps(record), encoding="utf-8")
        done = subprocess.run([program, "study", name, "--pool", *paths],
                              check=True, text=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def poolable(old, new):
    """Whether the new record's seeds add to those of the old."""
    return ("values" in json.dumps(old) and old.get("hash") == new["hash"]
            and old.get("text") == new.get("text")
            and old["full"] == new["full"]
            and not set(old["seeds"]) & set(new["seeds"]))


def read_folder(folder, studies, program, commit):
    """What `headwise study --all --out FOLDER` kept, or records of one study
    on different seeds: those pool, and with what is kept already."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        record = load(path)
        record.setdefault("commit", commit)
        found.setdefault(record["study"], []).append(record)
    for name, records in found.items():
        old = studies.get(name, {})
        if old and all(poolable(old, record) for record in records):
            records = [old, *records]
        record = (records[0] if len(records) == 1
                  else pool(program, name, records))
        record["seconds"] = round(record["seconds"], 1)
        studies[name] = record
    keep(DOCS / "studies.json", studies)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", nargs="*", metavar="NAME")
    parser.add_argument("--from", dest="folder", metavar="FOLDER")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seeds")
    parser.add_argument("--commit", help="of the build that ran")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--svg", metavar="FOLDER")
    parser.add_argument("--hashes", metavar="FILE")
    parser.add_argument("--program", default=str(
        ROOT / "build/release/apps/headwise/headwise"))
    return parser.parse_args()


def main():
    options = parse()
    claims = load(DOCS / "claims.json")
    studies = load(DOCS / "studies.json")
    commands = load(DOCS / "commands.json")
    if options.folder:
        read_folder(options.folder, studies, options.program,
                    options.commit or revision())
    if options.run is not None:
        run(options, claims, studies, commands)
    hashes = load(pathlib.Path(options.hashes)) if options.hashes else None
    text, words = page(claims, studies, commands, hashes)
    stale = words.count(STALE)
    path = DOCS / "claims.md"
    if options.check:
        same = path.exists() and path.read_text(encoding="utf-8") == text
        if stale:
            print(f"docs/claims.md: {stale} rows are stale")
        elif not same:
            print("docs/claims.md: run tools/make_claims.py")
        return 0 if same and not stale else 1
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
