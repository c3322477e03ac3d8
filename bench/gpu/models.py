"""Whole models on the GPU beside PyTorch and Hugging Face: forward and profile,
ranking, decoding, training, fewer heads. Each side of a measurement is a
process of its own; one that fails is a row that says so. Profiles and the
forward beside them take turns; their rows are medians, with all runs."""
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

PEER = pathlib.Path(__file__).resolve().parent / "torch_models.py"
LENGTHS = (1024, 4096, 16384, 32768)
KINDS = ("profile", "rank", "report", "decode", "train", "prune")
REPORT_TOKENS = 65536
ROUNDS, ROUND_SECONDS = 5, 2


def printed(command, seconds):
    """What a command prints, and "" or why it failed."""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True,
                              text=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        return "", said[-1] if said else f"exit {done.returncode}"
    return done.stdout, ""


def last_json(command, seconds):
    """What a command prints as JSON, whole or in its last line; or why not."""
    said, failure = printed(command, seconds)
    if failure:
        return {"failed": failure}
    for text in (said, said.strip().split("\n")[-1]):
        try:
            return json.loads(text)
        except ValueError:
            continue
    return {"failed": "no JSON"}


@contextlib.contextmanager
def asked(command):
    """A function that gives the next row of a process that waits for a line
    before each."""
    with subprocess.Popen(list(map(str, command)), text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        def row():
            with contextlib.suppress(OSError, ValueError):
                process.stdin.write("\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())
            return {"failed": f"ended: {process.poll()}"}
        try:
            yield row
        finally:
            process.kill()


def median_row(rows):
    """The middle one by its rate, with the rates of all."""
    failed = [row for row in rows if "failed" in row]
    if failed:
        return failed[0]
    runs = [row["tokens_per_second"] for row in rows]
    middle = statistics.median_low(runs)
    return {**rows[runs.index(middle)], "runs": runs}


def random_gpt2(folder):
    """A folder of GPT-2 small's shape with words that are ids, and a text."""
    import id_words
    import transformers
    made = folder / "made"
    transformers.set_seed(1)
    config = transformers.GPT2Config()
    transformers.GPT2LMHeadModel(config).save_pretrained(made)
    id_words.add_tokenizer(made, folder / "model")
    draw = random.Random(1)
    text = folder / "text.txt"
    text.write_text(id_words.text_of(
        draw.randrange(config.vocab_size) for _ in range(REPORT_TOKENS)),
        encoding="utf-8")
    return folder / "model", text


class Runner:
    """Runs both sides and keeps the rows."""

    def __init__(self, program, peers=True, limit=900):
        self.program, self.peers, self.limit = program, peers, limit
        self.rows = []

    def bench(self, *words):
        """Rows of the program's own benchmark."""
        found = last_json([self.program, "bench", *words, "--device", "cuda",
                           "--json"], self.limit)
        return found.get("rows", [found])

    def ours(self, what, *words):
        for row in self.bench(*words):
            self.keep(what, "headwise", row)

    def peer(self, what, *words):
        if not self.peers:
            return
        self.keep(what, "torch", last_json([sys.executable, PEER, *words],
                                           self.limit))

    def keep(self, what, side, row):
        self.rows.append({"what": what, "side": side, **row})
        rate = row.get("tokens_per_second", row.get("seconds", ""))
        runs = row.get("runs", [])
        spread = f" [{min(runs):.0f}, {max(runs):.0f}]" if runs else ""
        print(f"{what:28} {side:10} {row.get('failed', rate)}{spread}",
              flush=True)

    def in_turns(self, sides):
        """sides: what, side and a function that gives a row."""
        rows = [[] for _ in sides]
        for _ in range(ROUNDS):
            for of_side, (_, _, row) in zip(rows, sides):
                of_side.append(row())
        for of_side, (what, side, _) in zip(rows, sides):
            self.keep(what, side, median_row(of_side))

    def profile(self):
        for length in LENGTHS:
            what = f"profile at {length}"
            sides = [(f"{what}, {metrics}", "headwise",
                      lambda metrics=metrics: self.bench(
                          "profile", "--length", length, "--metrics", metrics,
                          "--seconds", ROUND_SECONDS)[0])
                     for metrics in ("core", "all")]
            with contextlib.ExitStack() as peers:
                if self.peers:
                    row = peers.enter_context(asked(
                        [sys.executable, PEER, "forward", "--length", length,
                         "--rounds", ROUNDS, "--seconds", ROUND_SECONDS]))
                    sides.append((what, "torch", row))
                self.in_turns(sides)
            if length in (LENGTHS[0], LENGTHS[-1]):
                self.peer(what + ", eager", "statistics", "--length", length)

    def rank(self):
        self.ours("rank, 144 heads", "rank")

    def report(self):
        """Of a model from a folder, its start and its reading included."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model, text = random_gpt2(folder)
            begin = time.perf_counter()
            _, failure = printed(
                [self.program, "report", model, "--text", text, "--device",
                 "cuda", "--out", folder / "report.html"], self.limit)
            took = time.perf_counter() - begin
            self.keep("report, 144 heads", "headwise",
                      {"failed": failure} if failure else
                      {"seconds": took, "tokens": REPORT_TOKENS})

    def decode(self):
        for shape in ("llama-7b", "minimind2-small"):
            self.ours(f"decode {shape}", "decode", "--shape", shape,
                      "--context", 128, "--tokens", 128)
            self.peer(f"decode {shape}", "decode", "--shape", shape)

    def train(self):
        self.ours("train 64 x 1024", "train", "--shape", "gpt2", "--sentences",
                  64, "--length", 1024)
        self.peer("train 64 x 1024", "train", "--batch", 64, "--length", 1024)

    def prune(self):
        self.ours("prune 32 x 1024", "prune", "--sentences", 32, "--prompt",
                  1024)


def measure_models(program, kinds, peers=True):
    """The rows of all kinds, in order."""
    runner = Runner(program, peers)
    for kind in kinds:
        getattr(runner, kind)()
    return runner.rows
