#!/usr/bin/env python3
"""headwise prune and evaluate as people call them: a smaller model that other
commands read, plans that are replayed, and what is refused before any work.

    apps/headwise/cmd_prune_test.py PROGRAM SOURCES
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1])
SOURCES = pathlib.Path(sys.argv[2])
MODEL = SOURCES / "assets/planted"
TEXT = SOURCES / "assets/text"


def headwise(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], check=False,
                          capture_output=True, text=True, timeout=300)


def check(good, what):
    if not good:
        sys.exit(f"FAILED: {what}")


def well(*arguments):
    done = headwise(*arguments)
    check(done.returncode == 0, f"{arguments}: {done.stderr}")
    return done.stdout


def refused(code, word, *arguments):
    done = headwise(*arguments)
    check(done.returncode == code and word in done.stderr,
          f"{arguments}: {done.returncode} {done.stderr}")


def smaller(folder):
    """Half of the heads leave; the plan gives the same model again."""
    plan, out = folder / "plan.json", folder / "half"
    result = json.loads(well(
        "prune", MODEL, "--text", TEXT, "--tokens", 1024, "--keep", 0.5,
        "--by", "activation", "--plan-out", plan, "--out", out, "--json"))
    removed = result["plan"]["remove"]
    heads = len(result["plan"]["scores"])
    check(0 < len(removed) <= heads // 2, f"{removed} of {heads}")
    check(result["weight_bytes"][1] < result["weight_bytes"][0], "weights")
    check(result["cache_bytes_a_token"][1] < result["cache_bytes_a_token"][0],
          "cache")
    well("prune", MODEL, "--text", TEXT, "--tokens", 1024, "--plan", plan,
         "--no-timing", "--out", folder / "again")
    check((folder / "again/model.safetensors").read_bytes() ==
          (out / "model.safetensors").read_bytes(), "a plan replayed")
    # The loss of the smaller model is that of the original with those closed.
    closed = json.loads(well("evaluate", MODEL, "--text", TEXT, "--tokens", 512,
                             "--plan", plan, "--json"))
    alone = json.loads(well("evaluate", out, "--text", TEXT, "--tokens", 512,
                            "--json"))
    check(abs(closed["closed"]["value"] - alone["loss"]["value"]) < 1e-4,
          f"{closed['closed']} {alone['loss']}")
    for command in (["info", out],
                    ["profile", out, "--text", TEXT, "--tokens", 300, "--out",
                     folder / "half.heads"],
                    ["generate", out, "--ids", "1,2,3", "--max-tokens", 2]):
        well(*command)
    refused(1, "a plan of this model", "evaluate", out, "--text", TEXT,
            "--plan", plan)
    return out


def nothing(folder):
    out = folder / "same"
    well("prune", MODEL, "--text", TEXT, "--tokens", 1024, "--keep", 1, "--by",
         "activation", "--no-timing", "--out", out)
    for name in ("config.json", "model.safetensors"):
        check((out / name).read_bytes() == (MODEL / name).read_bytes(), name)


def refusals(folder, out):
    start = ["prune", MODEL, "--text", TEXT, "--tokens", 1024]
    refused(2, "one of --keep, --drop, --plan", *start, "--out", folder / "x")
    refused(2, "expected --out", *start, "--keep", 0.5)
    refused(2, "a share from 0 to 1", *start, "--keep", 2, "--out",
            folder / "x")
    refused(2, "none or fold", *start, "--keep", 0.5, "--repair", "magic",
            "--out", folder / "x")
    refused(1, "not there yet", *start, "--keep", 0.5, "--out", out)
    refused(1, "at least", *start, "--keep", 0.001, "--out", folder / "x")
    refused(1, "99", *start, "--drop", "99.0", "--out", folder / "x")
    check(not (folder / "x").exists(), "half a model was left")
    # Before heads are ranked, which takes minutes.
    refused(1, "Not a directory", *start, "--keep", 0.5, "--out",
            MODEL / "config.json/x")
    precious = folder / "precious"
    precious.mkdir()
    (precious / "a.txt").write_text("mine", encoding="utf-8")
    refused(1, "config.json", *start, "--drop", "0.0", "--force", "--out",
            precious)
    check((precious / "a.txt").exists(), "what is no model was replaced")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = smaller(folder)
        nothing(folder)
        refusals(folder, out)


if __name__ == "__main__":
    main()
