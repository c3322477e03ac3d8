"""Threads, two models at once, and Ctrl-C."""
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import headwise as hw
from conftest import BOOK, MODEL, ROOT

LINES = ["The captain looked at the sea.", "A lamp stood on the table.",
         "He said nothing at all.", "There was a light in the window."]


def test_threads_share_a_model(m):
    want = [m.run(line)[0] for line in LINES]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            for mine, alone in zip(pool.map(lambda x: m.run(x)[0], LINES),
                                   want):
                np.testing.assert_array_equal(mine, alone)


def test_hooks_and_threads_do_not_lock_each_other(m):
    count = []
    with m.hook("layer.*.attention.head_output",
                lambda site, x: count.append(site)):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(m.run, LINES * 5))
    assert len(count) == 6 * 20


def test_two_models_are_independent(m):
    other = hw.load(ROOT / "assets" / "novels-one-head", threads=1)
    again = hw.load(MODEL, threads=1)
    with again.edit(drop=[(0, 0)]):
        assert again.edited and not m.edited
        with ThreadPoolExecutor(3) as pool:
            runs = [pool.submit(model.loss, BOOK, tokens=512)
                    for model in (m, other, again)]
            losses = [float(run.result()) for run in runs]
    assert losses[0] == m.loss(BOOK, tokens=512)
    assert losses[1] == other.loss(BOOK, tokens=512)
    assert losses[2] != again.loss(BOOK, tokens=512) == losses[0]


def test_python_goes_on_while_a_model_works(m):
    """The GIL is let go: this thread counts meanwhile."""
    done = threading.Event()

    def work():
        m.loss(BOOK, tokens=4096)
        done.set()
    thread = threading.Thread(target=work)
    thread.start()
    count = 0
    while not done.wait(0.001):
        count += 1
    thread.join()
    assert count > 10


def test_a_model_goes_while_its_edit_is_held():
    model = hw.load(MODEL, threads=1)
    edit = model.edit(drop=[(0, 0)])
    del model
    edit.remove()


INTERRUPTED = """
import sys
import headwise as hw
from pathlib import Path
m = hw.load(sys.argv[1], threads=1)
book = Path(sys.argv[2])
def told(*what):
    print("working", flush=True)
try:
    exec(sys.argv[3])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    assert not m.edited
    print(m.run("The sea")[0].shape, flush=True)
    sys.exit(0)
sys.exit("it was not interrupted")
"""


@pytest.mark.parametrize("work", [
    "m.profile(book, tokens=0, repeats=2000, progress=told)",
    "m.rank(book, tokens=0, progress=told)",
    "while True: m.loss(book, tokens=0, progress=told)",
    "while True: m.generate('A', 250, on_token=told)",
    "with m.hook('layer.0.output', told):\n"
    "    while True: m.loss(book, tokens=0)",
], ids=["profile", "rank", "loss", "generate", "hook"])
def test_ctrl_c_ends_work_cleanly(work):
    with subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, str(MODEL), str(BOOK), work],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True) as process:
        assert process.stdout.readline() == "working\n", process.stderr.read()
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert time.monotonic() - start < 10
    assert "interrupted\n(1, " in out


WORKS_AT_THE_END = """
import sys, threading, time
import headwise as hw
from pathlib import Path
m = hw.load(sys.argv[1], threads=1)
other = hw.load(sys.argv[1], threads=1)
book = Path(sys.argv[2])
began = threading.Event()
def told(*what):
    began.set()
def work():
    while True:
        exec(sys.argv[3])
threading.Thread(target=work, daemon=True).start()
began.wait(30)
time.sleep(0.1)
"""


@pytest.mark.parametrize("work", [
    "m.loss(book, tokens=0, progress=told)",
    "told(); m.run('The captain looked at the sea.')",
    "m.generate('A', 250, on_token=told)",
    "with m.hook('layer.*', told): m.run('The captain')",
    "m.generate('A', 9, on_token=lambda x: other.generate('B', 9, "
    "on_token=told))",
    "m.generate('A', 9, on_token=lambda x: (told(), time.sleep(9)))",
], ids=["loss", "run", "generate", "hook", "inner", "sleeping"])
def test_python_ends_while_a_daemon_thread_works(work):
    done = subprocess.run(
        [sys.executable, "-c", WORKS_AT_THE_END, str(MODEL), str(BOOK), work],
        capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
