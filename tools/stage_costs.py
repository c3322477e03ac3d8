"""What the stages of ./check cost when they last passed: from an empty folder
and in one that was there."""
import json
import threading

KINDS = ("cold", "warm")
LOCK = threading.Lock()


def load(folder):
    path = folder / "costs.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(folder, name, is_cold, seconds, processor_s, count):
    """Notes a stage that passed."""
    with LOCK:
        costs = load(folder)
        costs.setdefault(name, {})[KINDS[not is_cold]] = {
            "seconds": round(seconds, 1),
            "processor_s": round(processor_s, 1),
            "passed": count.passed, "skipped": count.skipped}
        (folder / "costs.json").write_text(json.dumps(costs, indent=1))


def table(folder, stages):
    """The costs of stages {name: what it is} as Markdown."""
    costs = load(folder)
    rows = ["| Stage | What | Tests | From nothing | Again |",
            "|---|---|---:|---:|---:|"]
    for name, what in stages.items():
        known = costs.get(name, {})
        tests = max((cost["passed"] for cost in known.values()), default="–")
        cells = [f"{known[kind]['seconds']:.0f} s "
                 f"({known[kind]['processor_s']:.0f})" if kind in known
                 else "–" for kind in KINDS]
        rows.append(f"| {name} | {what} | {tests} | {' | '.join(cells)} |")
    return "\n".join(rows)
