#!/usr/bin/env python3
"""headwise train through its command line: a run that is killed at random
moments and resumed ends like one that was left alone; Ctrl-C saves; mistakes
are named.

    cmd_train_test.py path/to/headwise [kills]
"""

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[2]
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 3


def headwise(*words, **more):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True,
                          text=True, **more)


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def prepare(folder):
    rng = random.Random(1)
    words = "the cat sat on a mat while two dogs ran after it".split()
    text = " ".join(rng.choice(words) for _ in range(20000))
    (folder / "text.txt").write_text(text)
    made = headwise("vocab", "--text", folder / "text.txt", "--size", 300,
                    "--out", folder / "tokenizer.json")
    check(made.returncode == 0, made.stderr)
    config = folder / "run.json"
    config.write_text(json.dumps({
        "out": str(folder / "whole"), "data": [str(folder / "text.txt")],
        "tokenizer": str(folder / "tokenizer.json"),
        "model": {"model_type": "llama", "hidden_size": 32,
                  "intermediate_size": 48, "num_hidden_layers": 2,
                  "num_attention_heads": 2, "max_position_embeddings": 64,
                  "tie_word_embeddings": True},
        "steps": 60, "batch": 4, "micro_batch": 4, "sequence": 64,
        "dropout": 0.1, "warmup": 5, "evaluate_every": 20, "save_every": 5}))
    return config


def train(config, *more):
    return headwise("train", config, "--json", *more)


def start(config, out):
    return subprocess.Popen(
        [PROGRAM, "train", config, "--resume", "--set", f"out={out}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def losses(folder):
    return json.loads((folder / "training.json").read_text())["losses"]


def kill_and_resume(config, folder, whole, seconds):
    rng = random.Random(2)
    out = folder / "killed"
    for _ in range(KILLS):
        process = start(config, out)
        time.sleep(rng.uniform(0.02, seconds))
        process.kill()
        process.wait()
        for checkpoint in (out / "checkpoints").glob("step-????????"):
            opened = headwise("info", checkpoint)
            check(opened.returncode == 0, opened.stderr)
    last = train(config, "--resume", "--set", f"out={out}")
    check(last.returncode == 0, last.stderr)
    check(losses(out) == losses(folder / "whole"),
          "a killed and resumed run has other losses")
    check((out / "model.safetensors").read_bytes()
          == (folder / "whole/model.safetensors").read_bytes(),
          "a killed and resumed run has other weights")


def interrupt(config, folder):
    out = folder / "interrupted"
    process = start(config, out)
    deadline = time.time() + 60
    while not list(out.glob("checkpoints/step-????????")):
        check(time.time() < deadline, "no checkpoint within a minute")
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    check(process.wait(60) in (0, 1), "Ctrl-C does not end in order")
    check(list(out.glob("checkpoints/step-????????")), "Ctrl-C left nothing")


def observe(config, folder):
    """Heads that are chosen and observed, in two pieces."""
    out = folder / "observed"
    gates = '{"gates": "hard_concrete", "span_ramp": 8}'
    words = ["--set", f"out={out}", "--set", f"heads={gates}", "--set",
             "observe_every=4", "--set", "steps=10", "--set",
             "gate_penalty=0.01", "--set", "head_dropout=0.2"]
    check(train(config, *words).returncode == 0, "a gated run fails")
    lines = [json.loads(line) for line in
             (out / "heads.jsonl").read_text().splitlines()]
    check([line["step"] for line in lines] == [0, 4, 8, 10], str(lines))
    for line in lines:
        check(line["heads"] == ["0.0", "0.1", "1.0", "1.1"], str(line))
        for series in ("entropy", "previous", "induction", "importance"):
            check(len(line[series]) == 4 and min(line[series]) >= 0,
                  f"{series}: {line[series]}")
    roles = [json.loads(line) for line in
             (out / "roles.jsonl").read_text().splitlines()]
    check([moment["step"] for moment in roles] == [0, 4, 8, 10], str(roles))
    for moment in roles:
        for role in ("previous-token", "induction", "local", "broad"):
            check(len(moment["scores"][role]) == 4, f"{role}: {moment}")
    check("Heads that have each role" in (out / "roles.svg").read_text(),
          "no picture of roles")
    picture = (out / "heads.svg").read_text()
    for part in ("A head's life", ">Induction<", ">Previous token<", ">step<",
                 "on random repeats, attention on", "nats, |∂loss / ∂gate|"):
        check(part in picture, f"no {part} in the picture of heads")
    # Each map is on a scale of its own: its strongest cell is at full strength.
    full = picture.count('fill-opacity="1.000"')
    check(full >= 2 * 4 - 1, f"{full} cells at full strength")
    told = headwise("info", out, "--heads").stdout
    check("hard concrete" in told and "spans" in told, told)
    text = headwise("generate", out, "the cat", "--max-tokens", 5)
    check(text.returncode == 0, text.stderr)


def examples(folder):
    """The runs that need nothing but the repository begin."""
    for name in ("story", "induction"):
        out = folder / name
        result = headwise("train", f"examples/train/{name}.json", "--set",
                          f"out={out}", "--set", "steps=1", cwd=ROOT)
        check(result.returncode == 0, f"{name}: {result.stderr}")
        check((out / "heads.svg").exists(), f"{name} draws no heads")


def best_and_last(config, folder):
    """A run that gets worse keeps what it had, and says which is which."""
    out = folder / "worse"
    words = ["--set", f"out={out}", "--set", "steps=24", "--set",
             "evaluate_every=4", "--set", "save_every=8", "--set", "rate=30",
             "--set", "warmup=300", "--set", "schedule=constant"]
    result = json.loads(train(config, *words).stdout)
    best, last = result["best"], result["last"]
    check(last == {"folder": str(out), "step": 24,
                   "validation": result["validation"]}, str(last))
    check(best["step"] < 24 and best["validation"] < last["validation"],
          str(result))
    kept = sorted(path.name for path in (out / "checkpoints").iterdir())
    check(kept == [pathlib.Path(best["folder"]).name, "step-00000024"],
          str(kept))
    opened = headwise("info", best["folder"])
    check(opened.returncode == 0, opened.stderr)
    # A folder that holds a model is not begun over by accident.
    before = (out / "model.safetensors").read_bytes()
    subprocess.run(["rm", "-r", out / "checkpoints"], check=True)
    for more in ((), ("--resume",)):
        refused = train(config, *words, *more)
        check(refused.returncode == 1 and "of a model" in refused.stderr,
              refused.stderr)
    check((out / "model.safetensors").read_bytes() == before, "overwritten")
    again = headwise("train", config, *words, "--set", "seed=2", "--force")
    check(again.returncode == 0 and f"last: {out}, step 24" in again.stdout
          and f"best: {out}/checkpoints/step-" in again.stdout, again.stdout)
    check((out / "model.safetensors").read_bytes() != before, "not replaced")


def mistakes(config, folder):
    for words, wanted in (
            (("--set", "warmpu=3"), "warmup"),
            (("--set", "model.model_type=lama", "--set",
              f"out={folder}/new"), "llama"),
            ((), "resume it"),
            (("--force", "--set", f"start={folder}/whole/checkpoints/x"),
             "a start outside"),
            (("--resume", "--set", "seed=9"), "seed: 1, now 9")):
        result = train(config, *words)
        check(result.returncode == 1 and wanted in result.stderr,
              f"{words}: {result.returncode} {result.stderr}")
    check(headwise("train").returncode == 2, "no config is no usage error")
    both = train(config, "--resume", "--force")
    check(both.returncode == 1 and "either" in both.stderr, both.stderr)
    helped = headwise("train", "--help").stdout
    check("repeat_share" in helped and "--resume" in helped, helped)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = prepare(folder)
        begun = time.time()
        whole = train(config)
        seconds = time.time() - begun
        check(whole.returncode == 0, whole.stderr)
        result = json.loads(whole.stdout)
        check(result["finished"] and result["loss"] < 5, whole.stdout)
        check((folder / "whole/loss.svg").exists(), "no loss curve")
        kill_and_resume(config, folder, whole, seconds)
        interrupt(config, folder)
        observe(config, folder)
        examples(folder)


        best_and_last(config, folder)
        mistakes(config, folder)
    print(f"train: killed {KILLS} times, resumed bit for bit")


if __name__ == "__main__":
    main()
