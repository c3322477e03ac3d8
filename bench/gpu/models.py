"""Whole models on the GPU beside PyTorch and Hugging Face: forward and profile,
ranking, decoding, training, fewer heads. Each side of a measurement is a
process of its own; one that fails is a row that says so. The sides take turns;
rows are the middle ones of five, with what all five gave."""
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


def rate_of(row):
    """What rows are compared by, and its name."""
    for name in ("tokens_per_second", "share", "ms", "seconds"):
        if name in row:
            return row[name], name
    raise ValueError(f"expected a rate or a time in {row}")


def middle_row(rows):
    """The one in the middle, with the figures of all."""
    failed = [row for row in rows if "failed" in row]
    if failed:
        return failed[0]
    runs = [rate_of(row)[0] for row in rows]
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

    def keep(self, what, side, row):
        what = ", ".join(filter(None, [what, row.get("what")]))
        self.rows.append({**row, "what": what, "side": side})
        if "failed" in row:
            print(f"{what:28} {side:10} {row['failed']}", flush=True)
            return
        rate, unit = rate_of(row)
        runs = row["runs"]
        print(f"{what:28} {side:10} {rate:.7g} [{min(runs):.7g}, "
              f"{max(runs):.7g}] {unit}", flush=True)

    def in_turns(self, sides):
        """sides: what, side and a function that gives rows."""
        rounds = [[rows() for _, _, rows in sides] for _ in range(ROUNDS)]
        for (what, side, _), found in zip(sides, zip(*rounds)):
            for rows in zip(*found):
                self.keep(what, side, middle_row(rows))

    def beside(self, ours, theirs=()):
        """Both: names, with words for the program's benchmark or the peer."""
        sides = [(name, "headwise", lambda words=words: self.bench(*words))
                 for name, words in ours]
        with contextlib.ExitStack() as peers:
            for name, words in (theirs if self.peers else ()):
                row = peers.enter_context(asked(
                    [sys.executable, PEER, *words, "--asked", "--seconds",
                     ROUND_SECONDS]))
                row()  # it is ready, and nothing works beside the first turn
                sides.append((name, "torch", lambda row=row: [row()]))
            self.in_turns(sides)

    def profile(self):
        for length in LENGTHS:
            what = f"profile at {length}"
            theirs = [(what, ("forward", "--length", length))]
            if length in (LENGTHS[0], LENGTHS[-1]):
                theirs.append((f"{what}, eager",
                               ("statistics", "--length", length)))
            self.beside([(f"{what}, {metrics}",
                          ("profile", "--length", length, "--metrics", metrics,
                           "--seconds", ROUND_SECONDS))
                         for metrics in ("core", "all")], theirs)

    def rank(self):
        self.beside([("rank, 144 heads", ("rank",))])

    def report(self):
        """Of a model from a folder, its start and its reading included."""
        def made(model, text, out):
            begin = time.perf_counter()
            _, failure = printed([self.program, "report", model, "--text", text,
                                  "--device", "cuda", "--out", out], self.limit)
            took = time.perf_counter() - begin
            return [{"failed": failure} if failure else
                    {"seconds": took, "tokens": REPORT_TOKENS}]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model, text = random_gpt2(folder)
            self.in_turns([("report, 144 heads", "headwise", lambda: made(
                model, text, folder / "report.html"))])

    def decode(self):
        for shape in ("llama-7b", "minimind2-small"):
            what = f"decode {shape}"
            self.beside([(what, ("decode", "--shape", shape, "--context", 128,
                                 "--tokens", 128))],
                        [(what, ("decode", "--shape", shape))])

    def train(self):
        what = "train 64 x 1024"
        self.beside([(what, ("train", "--shape", "gpt2", "--sentences", 64,
                             "--length", 1024, "--seconds", ROUND_SECONDS))],
                    [(what, ("train", "--batch", 64, "--length", 1024))])

    def prune(self):
        for sentences in (32, 128):
            self.beside([(f"prune {sentences} x 1024",
                          ("prune", "--sentences", sentences, "--prompt", 1024,
                           "--seconds", ROUND_SECONDS))])


def measure_models(program, kinds, peers=True):
    """After each kind the rows of all so far."""
    runner = Runner(program, peers)
    for kind in kinds:
        getattr(runner, kind)()
        yield runner.rows
