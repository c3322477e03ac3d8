"""What a cold build of the program costs in processor time, and whether that
grew: tools/build_cost.json keeps one figure for a processor and a compiler.

Only a build from nothing can be compared: one into an empty folder, of which
the compiler cache answered nothing.
"""
import json
import os
import re
import shutil
import subprocess

import house_files

TOLERATED = 1.10  # a tenth more gets a warning


def processor():
    """The processor's kind, as exact as the machine tells it."""
    said = dict(re.findall(r"^([^:\n]+): +(.*)$", subprocess.run(
        ["lscpu"], capture_output=True, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"}).stdout, re.M))
    return ", ".join(
        f"{name.lower()} {said[name]}" if name != "Model name" else said[name]
        for name in ("Model name", "CPU family", "Model", "Stepping")
        if name in said) or "unknown"


def cache_hits():
    """How often the compiler cache has answered so far; 0 without one."""
    if not shutil.which("ccache"):
        return 0
    said = subprocess.run(["ccache", "--print-stats"], capture_output=True,
                          text=True, check=False).stdout
    return sum(int(count) for count in re.findall(
        r"^(?:direct|preprocessed)_cache_hit\t(\d+)$", said, re.M))


def measure(stage, folder, target):
    """Builds a target in an empty folder; its cost, or None where the
    compiler cache answered, and a line that says so."""
    hits, before = cache_hits(), stage.processor_s
    _, output = stage.run("ninja", "-C", folder, target)
    hits = cache_hits() - hits
    steps = max((int(total) for total in
                 re.findall(r"^\[\d+/(\d+)\] ", output, re.M)), default=0)
    if hits:
        return None, f"not measured, the compiler cache answered {hits} of " \
                     f"{steps} steps"
    cost = {"processor": processor(),
            "compiler": house_files.run("g++", "--version").splitlines()[0],
            "processor_s": round(stage.processor_s - before), "steps": steps}
    return cost, f"{cost['processor_s']} s of processor time, {steps} steps"


def known_cost(path, cost):
    """The figure kept for this processor and compiler, or None."""
    for known in json.loads(path.read_text())["machines"]:
        if all(known[name] == cost[name] for name in ("processor",
                                                      "compiler")):
            return known
    return None


def judge(path, cost):
    """A line about a cost; it begins with "warning" where it grew."""
    known = known_cost(path, cost)
    if known is None:
        return "no figure is kept for this processor and compiler; " \
               "./check --record-cost keeps this one"
    ratio = cost["processor_s"] / known["processor_s"]
    said = f"{ratio:.2f} of the {known['processor_s']} s kept for this " \
           f"processor, which had {known['steps']} steps"
    return f"warning: the cold build has grown: {said}" \
        if ratio > TOLERATED else said


def record(path, cost):
    """Keeps a cost in place of what was known of its machine."""
    machines = json.loads(path.read_text())["machines"]
    known = known_cost(path, cost)
    machines = [machine for machine in machines if machine != known] + [cost]
    machines.sort(key=lambda machine: machine["processor"])
    path.write_text(json.dumps({"machines": machines}, indent=2) + "\n")
