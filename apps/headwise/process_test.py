#!/usr/bin/env python3
"""The program and the system around it: descriptors that are full or closed,
links and devices as outputs, limits of size and memory, files that are cut
short while they are read. Work is never lost for want of a message, and every
end is said.

    process_test.py path/to/headwise path/to/sources
"""

import itertools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
SOURCES = pathlib.Path(sys.argv[2])
MODEL = SOURCES / "assets/planted"
SANITIZED = b"__asan_init" in pathlib.Path(PROGRAM).read_bytes()
TEXT = "the cat sat on the mat and the dog ran to the cat . " * 40


def check(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def headwise(*words, **more):
    more.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([PROGRAM, *map(str, words)], text=True,
                          stdout=subprocess.PIPE, timeout=60, **more)


def prepare(folder):
    (folder / "text.txt").write_text(TEXT)
    made = headwise("vocab", "--text", folder / "text.txt", "--size", 280,
                    "--out", folder / "tokenizer.json")
    check(made.returncode == 0, made.stderr)
    config = folder / "run.json"
    config.write_text(json.dumps({
        "out": "set by --set", "data": [str(folder / "text.txt")],
        "tokenizer": str(folder / "tokenizer.json"),
        "model": {"model_type": "llama", "hidden_size": 16,
                  "intermediate_size": 16, "num_hidden_layers": 1,
                  "num_attention_heads": 2, "max_position_embeddings": 32},
        "steps": 4, "batch": 2, "micro_batch": 2, "sequence": 16,
        "evaluate_every": 2, "save_every": 2}))
    return config


def broken_stderrs():
    """Ways in which messages cannot be written, as arguments of a call."""
    yield "full", dict(stderr=open("/dev/full", "w"))
    yield "closed", dict(stderr=None, preexec_fn=lambda: os.close(2))
    reader, writer = os.pipe()
    os.close(reader)
    yield "left by its reader", dict(stderr=writer)


def messages(folder, config):
    for number, (name, how) in enumerate(broken_stderrs()):
        out = folder / f"run{number}"
        done = headwise("train", config, "--set", f"out={out}", "--json", **how)
        check(done.returncode == 0, f"train, stderr {name}: {done.returncode}")
        check(json.loads(done.stdout)["finished"], done.stdout)
        json.loads((out / "training.json").read_text())
        failed = headwise("info", folder / "none", **how)
        check(failed.returncode == 1, f"info, stderr {name}: "
              f"{failed.returncode}")
        wrong = headwise("train", "--no-such-flag", **how)
        check(wrong.returncode == 2, f"usage, stderr {name}: "
              f"{wrong.returncode}")


def outputs(folder):
    target, link = folder / "target.json", folder / "link.json"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to("target.json")
    vocab = ("vocab", "--text", folder / "text.txt", "--size", 270, "--out")
    check(headwise(*vocab, link).returncode == 0, "a link cannot be written")
    check(link.is_symlink(), "a link was replaced")
    whole = target.read_text()
    json.loads(whole)
    check(target.stat().st_mode & 0o777 == 0o600,
          f"mode {target.stat().st_mode:o}")
    piped = headwise(*vocab, "/dev/stdout")
    check(piped.returncode == 0 and piped.stdout.startswith(whole),
          f"/dev/stdout: {piped.stdout[:200]} {piped.stderr}")
    check(pathlib.Path("/dev/stdout").is_symlink(), "/dev/stdout was replaced")
    check(headwise(*vocab, "/dev/null").returncode == 0, "/dev/null")
    full = headwise(*vocab, "/dev/full")
    check(full.returncode == 1 and "No space left" in full.stderr, full.stderr)


def limits(folder, config):
    out = folder / "limited"
    small = headwise(
        "train", config, "--set", f"out={out}", preexec_fn=lambda:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    check(small.returncode == 1 and "File too large" in small.stderr,
          f"a limit of size: {small.returncode} {small.stderr}")
    left = [str(path) for path in out.rglob(".*.tmp")]
    check(not left, f"left behind: {left}")
    if SANITIZED:
        return  # whose own memory does not fit
    program = pathlib.Path(PROGRAM).read_bytes()
    # Kernels are a part of the program that a run on the CPU only maps.
    kernels = len(program) >> 20 if b"libcublas" in program else 0
    for size, threads in itertools.product((90, 100, 110, 150, 200, 400),
                                           (2, 16)):
        what = f"profile by {threads} threads within {size} MiB"
        try:
            tight = headwise(
                "profile", MODEL, "--text", folder / "text.txt", "--tokens",
                500, "--threads", threads, "--out", folder / "p.json",
                preexec_fn=lambda size=size:
                resource.setrlimit(resource.RLIMIT_AS,
                                   (size + kernels << 20,) * 2))
        except subprocess.TimeoutExpired:
            sys.exit(f"FAILED: {what} does not end")
        check(tight.returncode in (0, 1),
              f"{what}: {tight.returncode} {tight.stderr}")


def shortened(folder):
    """A model that is cut short once it is open, before it is read."""
    model = folder / "model"
    subprocess.run(["cp", "-r", SOURCES / "assets/novels", model], check=True)
    weights = model / "model.safetensors"
    process = subprocess.Popen(
        [PROGRAM, "profile", model, "--text", "-", "--out", folder / "p.json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True)
    deadline = time.time() + 60
    maps = pathlib.Path(f"/proc/{process.pid}/maps")
    while str(weights) not in maps.read_text():
        check(time.time() < deadline, "the model is never opened")
        time.sleep(0.01)
    time.sleep(0.5)
    os.truncate(weights, 4096)
    _, message = process.communicate(TEXT, timeout=60)
    check(process.returncode == 1 and str(weights) in message
          and "cut short" in message,
          f"a shortened model: {process.returncode} {message}")


def unreadable(folder):
    """Folders without permission, for those who are not root."""
    closed = folder / "closed"
    closed.mkdir(0o700)
    folder.chmod(0o755)
    become = (lambda: os.setuid(65534)) if os.getuid() == 0 else None
    closed.chmod(0)
    try:
        for words in (("info", closed), ("info", closed / "model"),
                      ("profile", closed / "m", "--text", closed,
                       "--out", "/dev/null"),
                      ("profile", MODEL, "--text", closed, "--out", "/dev/null"),
                      ("profile", MODEL, "--text", folder / "text.txt",
                       "--out", closed / "p.json")):
            try:
                done = headwise(*words, preexec_fn=become)
            except (PermissionError, subprocess.SubprocessError):
                print("process: another user cannot run the program; skipped")
                return
            check(done.returncode == 1 and str(closed) in done.stderr
                  and "fault of the program" not in done.stderr,
                  f"{words}: {done.returncode} {done.stderr}")
    finally:
        closed.chmod(0o700)


def names(folder, config):
    """Names of files are bytes."""
    out = os.fsencode(folder) + b"/n\xff\xfeme"
    words = [PROGRAM.encode(), b"train", os.fsencode(config), b"--set",
             b"out=" + out, b"--json"]
    done = subprocess.run(words, capture_output=True, timeout=60)
    message = done.stderr.decode(errors="replace")
    check(done.returncode in (0, 1) and "internal" not in message
          and "fault of the program" not in message,
          f"a name of bytes: {done.returncode} {message}")
    for words in ((b"info", out), (b"info", b"--json", out),
                  (b"vocab", b"--text", out, b"--out", out + b"2")):
        done = subprocess.run([PROGRAM.encode(), *words], capture_output=True,
                              timeout=60)
        message = done.stderr.decode(errors="replace")
        check(done.returncode in (0, 1) and "fault of the program"
              not in message, f"{words}: {done.returncode} {message}")


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = prepare(folder)
        messages(folder, config)
        outputs(folder)
        limits(folder, config)
        shortened(folder)
        unreadable(folder)
        names(folder, config)
    print("process: messages, outputs, limits, shortened files, names")


if __name__ == "__main__":
    main()
