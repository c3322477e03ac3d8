#!/usr/bin/env python3
"""Compares `headwise bleu` with sacreBLEU, where that is installed.

    tools/check_bleu.py [--program build/release/apps/headwise/headwise]
                        [HYPOTHESES REFERENCES]

Without files, corpora are made up: sentences with every kind of punctuation,
numbers, entities, scripts and white space, translations that are perfect,
damaged, short, long, empty or of one word. Every corpus is scored by both;
score, precisions, brevity penalty and lengths must agree to 1e-6. Exit code 0:
all agree; 1: some do not; 77: sacreBLEU is not installed.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOLERANCE = 1e-6
PIECES = [
    "the", "The", "cat", "Straße", "naïve", "don't", "e-mail", "U.S.", "1,234",
    "3.14", "10-20", "A-1", "1-a", ".5", "5.", "a.b", "...", "--", "—", "„so“",
    "(x)", "[y]", "{z}", "<w>", "#1", "$5", "50%", "a/b", "a\\b", "`q`", "^", "_",
    "~", "|", "@me", "x=y", "1+1", "2*3", "&amp;", "&quot;", "&lt;b&gt;",
    "&amp;lt;", "&nbsp;", "<skipped>", "他说", "。", "，", "привет", "हिन्दी", "é,",
    ",é", "'", "''", "\"", "!", "?", ";", ":", "мир.", "…", "1.", "2,", "a,1",
    "1,a", "7-", "-7", "\u00ad", "\ufeff", "e\u0301", "🙂", "🙂.",
]
SPACES = [" "] * 20 + ["  ", "\t", "\u00a0", "\u2003", "\u3000", "\x1f",
                       "\u2028", "\x85", "\x0b", "\u200b"]


def sentence(rng, words):
    text = "".join(rng.choice(PIECES) + rng.choice(SPACES)
                   for _ in range(words))
    return rng.choice(["", " ", "\t"]) + text


def damage(rng, text):
    kind = rng.randrange(6)
    words = text.split(" ")
    if kind == 0:
        return text
    if kind == 1:
        return ""
    if kind == 2:
        return " ".join(words[:rng.randint(1, len(words))])
    if kind == 3:
        return text + " " + sentence(rng, 3)
    if kind == 4:
        rng.shuffle(words)
        return " ".join(words)
    return " ".join(rng.choice(PIECES) if rng.random() < .2 else word
                    for word in words)


def corpora(rng):
    """(name, hypotheses, references), among them those at the edges."""
    yield "identical", ["a b c d e"], ["a b c d e"]
    yield "nothing right", ["a b c d e"], ["f g h i j"]
    yield "three words", ["a b c"], ["a b c"]
    yield "empty hypothesis", [""], ["a b c d"]
    yield "empty reference", ["a b c d"], [""]
    yield "smoothed", ["a b x d y"], ["a b c d e"]
    for size in (1, 2, 5, 50, 400):
        for number in range(8):
            references = [sentence(rng, rng.randint(1, 25))
                          for _ in range(size)]
            hypotheses = [damage(rng, text) for text in references]
            yield f"{size} segments, {number}", hypotheses, references


def ours(program, hypotheses, references):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, lines in (("said", hypotheses), ("wanted", references)):
            path = pathlib.Path(folder, name)
            path.write_text("".join(line + "\n" for line in lines),
                            encoding="utf-8", newline="")
            paths.append(str(path))
        done = subprocess.run(
            [program, "bleu", *paths, "--json", "--replicates", "10"],
            capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def theirs(sacrebleu, hypotheses, references):
    score = sacrebleu.metrics.BLEU(tokenize="13a", force=True).corpus_score(
        hypotheses, [references])
    return {"bleu": score.score, "precisions": list(score.precisions),
            "brevity_penalty": score.bp, "hypothesis_words": score.sys_len,
            "reference_words": score.ref_len}


def differences(mine, other):
    for key, want in other.items():
        pairs = zip(mine[key], want) if isinstance(want, list) else [
            (mine[key], want)]
        for got, expected in pairs:
            if abs(got - expected) > TOLERANCE:
                yield f"{key}: {mine[key]}, sacreBLEU {want}"
                break


def first_difference(program, sacrebleu, hypotheses, references):
    """The first segment whose counts differ, to look at."""
    for said, wanted in zip(hypotheses, references):
        found = list(differences(ours(program, [said], [wanted]),
                                 theirs(sacrebleu, [said], [wanted])))
        if found:
            return f"{said!r} against {wanted!r}: {'; '.join(found)}"
    return "no single segment differs"


def read(path):
    text = pathlib.Path(path).read_bytes().decode("utf-8")
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE",
                        help="hypotheses and references, one a line")
    parser.add_argument("--program", default=str(
        ROOT / "build/release/apps/headwise/headwise"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if len(options.files) not in (0, 2):
        parser.error("expected HYPOTHESES and REFERENCES, or neither")
    try:
        import sacrebleu
        import sacrebleu.metrics
    except ImportError:
        print("skip: sacreBLEU is not installed (pip install sacrebleu)")
        return 77
    if options.files:
        cases = [("the files", *map(read, options.files))]
    else:
        cases = list(corpora(random.Random(options.seed)))
    wrong = 0
    for name, hypotheses, references in cases:
        mine = ours(options.program, hypotheses, references)
        other = theirs(sacrebleu, hypotheses, references)
        found = list(differences(mine, other))
        wrong += bool(found)
        print(f"{'not ok' if found else 'ok'} {name}: {mine['bleu']:.4f}")
        for line in found:
            print(f"  {line}")
        if found:
            print("  first: " + first_difference(
                options.program, sacrebleu, hypotheses, references))
    print(f"{len(cases) - wrong} of {len(cases)} corpora agree with sacreBLEU "
          f"{sacrebleu.__version__}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
