#!/usr/bin/env python3
"""Writes docs/claims.md from docs/claims.json (the claims, one command each)
and docs/studies.json (what the studies measured).

    tools/make_claims.py                    write the page anew
    tools/make_claims.py --check            exit code 1 when it would change
    tools/make_claims.py --run              run every study of the program and
                                            keep what it measured, then write
    tools/make_claims.py --run NAME ...     run these only
    tools/make_claims.py --run --missing    run those without a result: goes on
                                            where a run was interrupted
    tools/make_claims.py --run --svg FOLDER keep their figures there too
    tools/make_claims.py --run --full       with as many seeds as a verdict needs

A row without a recorded study says "later"; a study whose result is recorded
must exist in the program (tests/docs checks that, and that commands run).
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLAIMS = ROOT / "docs" / "claims.json"
STUDIES = ROOT / "docs" / "studies.json"
PAGE = ROOT / "docs" / "claims.md"
SHOWN = 3  # figures of a row that names none

HEAD = """# What is claimed about multi-head attention, and what was measured

Written by `tools/make_claims.py`; change `docs/claims.json`, or run it with
`--run` to measure anew. Every row is a command. HELD and DID NOT HOLD are what
its figures say; *indicative* means one seed and a short training, which proves
nothing by itself (`--full` gives a verdict); CORRECTED means that the claim as
usually told is wrong or imprecise, and the last table says what is right;
*later* means that the command does not exist yet.
"""


def load(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def number(value):
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3g}"


def decides(figure, record):
    """Whether a study's verdict rests on a figure: something is expected of
    it, and no less surely than the study's kind says."""
    kinds = ["law", "literature", "hypothesis"]
    kind = figure.get("kind", record["kind"])
    return (figure["expected"] != ""
            and kinds.index(kind) <= kinds.index(record["kind"]))


def figures_of(row, record):
    """The figures a row shows: those it names, else the first few."""
    figures = record["figures"]
    told = [name for name in figures if decides(figures[name], record)]
    names = row.get("figures", told[:SHOWN])
    return "; ".join(f"{name}: {number(figures[name]['value'])}"
                     for name in names)


def verdict(record, names=()):
    """What the figures say: those named, where the study judges any of them,
    else all."""
    figures = record["figures"]
    judged = [name for name in figures if decides(figures[name], record)]
    chosen = [name for name in judged if name in names] or judged
    held = [figures[name]["held"] for name in chosen]
    if all(held):
        word = "HELD"
    else:
        word = f"DID NOT HOLD ({sum(held)} of {len(held)} figures)"
    if record["held"] == "indicative":
        word += ", indicative"
    return word


def outcome(row, studies):
    """Command, figures and status of a row."""
    if "study" not in row:
        return row["command"], row["figure"], row["status"]
    command = f"headwise study {row['study']}"
    record = studies.get(row["study"])
    if record is None:
        return command, "", "later"
    if record.get("full"):
        command += " --full"
    names = row.get("figures", [])
    missing = [name for name in names if name not in record["figures"]]
    if missing:
        sys.exit(f"claim {row['number']}: study {row['study']} has no figure "
                 f"{missing[0]!r}; it has {list(record['figures'])}")
    return command, figures_of(row, record), row.get(
        "status", verdict(record, names))


def cell(text):
    return text.replace("|", "\\|")


def page(claims, studies):
    lines = [HEAD]
    for row in claims["claims"]:
        if "section" in row:
            lines += [f"\n## {row['section']}\n",
                      "| | claim | command | measured | |",
                      "|---|---|---|---|---|"]
            continue
        command, measured, status = outcome(row, studies)
        measured = " ".join(filter(None, [
            measured and measured.rstrip(".") + ".", row.get("note", "")]))
        lines.append(f"| {row['number']} | {cell(row['claim'])} | "
                     f"`{cell(command)}` | {cell(measured)} | {status} |")
    lines += ["\n## What is told wrong, and what is right\n",
              "| | told | right | see |", "|---|---|---|---|"]
    for row in claims["corrections"]:
        command = f"`{row['command']}`" if "command" in row else "–"
        lines.append(f"| {row['number']} | {cell(row['said'])} | "
                     f"{cell(row['fact'])} | {command} |")
    return "\n".join(lines) + "\n"


def names_to_run(options, studies):
    listed = json.loads(subprocess.run(
        [options.program, "study", "--list", "--json"], check=True, text=True,
        capture_output=True).stdout)
    names = options.run or [study["study"] for study in listed]
    done = {name for name, record in studies.items()
            if record["full"] == options.full}
    return [name for name in names if not options.missing or name not in done]


def keep(studies):
    """Whole or not at all: what was measured must survive an interruption."""
    text = json.dumps(dict(sorted(studies.items())), indent=1,
                      ensure_ascii=False) + "\n"
    beside = STUDIES.with_suffix(".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(STUDIES)


def run_studies(options, studies):
    for name in names_to_run(options, studies):
        words = [options.program, "study", name, "--json"]
        words += ["--full"] * options.full
        if options.svg:
            folder = pathlib.Path(options.svg)
            folder.mkdir(parents=True, exist_ok=True)
            words += ["--svg", str(folder / f"{name}.svg")]
        done = subprocess.run(words, text=True, check=False,
                              stdout=subprocess.PIPE)
        if not done.stdout.startswith("{"):
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}")
        record = json.loads(done.stdout)
        record["full"] = options.full
        record["seconds"] = round(record["seconds"], 1)
        studies[name] = record
        print(f"{name}: {verdict(record)}, {record['seconds']} s", flush=True)
        keep(studies)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", nargs="*", metavar="NAME")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--svg", metavar="FOLDER")
    parser.add_argument("--program", default=str(
        ROOT / "build/release/apps/headwise/headwise"))
    options = parser.parse_args()
    claims, studies = load(CLAIMS), load(STUDIES)
    if options.run is not None:
        run_studies(options, studies)
    text = page(claims, studies)
    if options.check:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not same:
            print("docs/claims.md: run tools/make_claims.py")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
