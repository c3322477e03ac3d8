#!/usr/bin/env python3
"""headwise prune and evaluate as people call them: a smaller model that other
commands read, plans that are replayed, and what is refused before any work.

    apps/headwise/cmd_prune_test.py PROGRAM SOURCES
"""
import json
import pathlib
import tempfile

from command_testing import SOURCES, TEXT, check, refused, well

MODEL = SOURCES / "assets/planted"
# Short windows: what learns sees eight of them in a step.
SHORT = ("--text", TEXT, "--tokens", 512, "--context", 64)


def smaller(folder):
    """Half of the heads leave; the plan gives the same model again."""
    plan, out = folder / "plan.json", folder / "half"
    result = json.loads(well(
        "prune", MODEL, "--text", TEXT, "--tokens", 1024, "--keep", 0.5,
        "--by", "activation", "--no-timing", "--plan-out", plan, "--out", out,
        "--json"))
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


def pruned(folder, name, *arguments, text=SHORT):
    return json.loads(well(
        "prune", MODEL, *text, "--no-timing", "--out", folder / name, "--json",
        *arguments))


def repairs(folder):
    """Each repair leaves its traces, and all of them a model that runs."""
    heads = ("--by", "activation", "--keep", 0.7)
    result = pruned(folder, "all", *heads, "--repair",
                    "fold,least-squares,finetune", "--finetune-steps", 10)
    error = result["output_error"]
    check(error["least_squares"] <= error["fold"] * 1.001,
          f"least squares: {error}")
    tuned = result["finetune"]
    check(tuned["loss_after"] <= tuned["loss_before"], f"finetune: {tuned}")
    alone = json.loads(well("evaluate", folder / "all", "--text", TEXT,
                            "--tokens", 512, "--json"))
    check(alone["loss"]["value"] > 0, "a repaired model's loss")
    check(not list(folder.glob("all.*")), "something lies beside the model")


def targets(folder):
    """Heads are found by measured losses, and in steps."""
    # Enough windows that eight of them judge.
    enough = ("--text", TEXT, "--tokens", 1024, "--context", 32)
    result = pruned(folder, "within", "--by", "ablation-zero", "--max-loss",
                    "+1%", text=enough)
    before = result["loss_before"]["value"]
    check(result["loss_after"]["value"] <= 1.01 * before, "within +1 %")
    check(result["plan"]["remove"], "none may leave at +1 %")
    check("sequences of text" in result["search"], result["search"])
    more = pruned(folder, "more", "--by", "ablation-zero", "--max-loss",
                  "+30%", text=enough)
    check(set(result["plan"]["remove"]) <= set(more["plan"]["remove"]),
          "+30 % allows less than +1 %")
    steps = pruned(folder, "steps", "--by", "activation", "--keep", 0.5,
                   "--iterative", 3)
    heads = len(steps["plan"]["scores"])
    check(len(steps["plan"]["remove"]) == heads // 2, "half in three steps")


def judged(folder):
    """A smaller model beside the whole one, on text that chose nothing too."""
    other = folder / "letters.txt"
    other.write_text("Dear friend, I have been well since the spring came and "
                     "the roads are dry. Write to me when you can.\n" * 4,
                     encoding="utf-8")
    prompts = folder / "prompts.txt"
    prompts.write_text("The sea\nThe keeper\n", encoding="utf-8")
    heads = ("--drop", "0.1,1.0")
    alone = pruned(folder, "alone", *heads)
    check("text alone" in alone["warning"], f"{alone['warning']}")
    told = pruned(folder, "judged", *heads, "--judge", other, "--prompts",
                  prompts)
    check(told["warning"] == "", told["warning"])
    own, letters = told["judged"]
    check((own["domain"], own["chose"]) == ("text", True), f"{own}")
    check((letters["domain"], letters["chose"]) == ("letters.txt", False),
          f"{letters}")
    check(own["change"] == told["change"], "the text that chose, told twice")
    check(letters["divergence"]["value"] > 0 and
          0 <= letters["same_token"]["value"] <= 1, f"{letters}")
    check([one["prompt"] for one in told["answers"]] ==
          ["The sea", "The keeper"], f"{told['answers']}")
    share = told["heads_share"]
    check(0 < share["head_bytes"] < share["bytes"], f"{share}")
    # The same figures from the folder that was written.
    again = json.loads(well("evaluate", folder / "judged", "--text", other,
                            "--tokens", 128, "--context", 64, "--against",
                            MODEL, "--json"))
    row, = again["judged"]
    check(abs(row["change"]["value"] - letters["change"]["value"]) < 1e-5 and
          abs(row["divergence"]["value"] - letters["divergence"]["value"])
          < 1e-5, f"{row} {letters}")
    text = well("prune", MODEL, *SHORT, "--no-timing", *heads, "--judge", other,
                "--out", folder / "told")
    check("Heads hold" in text and "letters.txt" in text, text)
    check("text (also chose)" in text and "warning" not in text, text)
    refused(1, "does not choose heads", "prune", MODEL, *SHORT, *heads,
            "--judge", TEXT, "--out", folder / "never")
    refused(2, "expected --out", "prune", MODEL, *SHORT, "--curve",
            folder / "never", "--judge", other)
    refused(2, "expected --against", "evaluate", MODEL, *SHORT, "--prompts",
            prompts)
    refused(2, "--against compares", "evaluate", MODEL, *SHORT, "--against",
            MODEL, *heads)


def encoder(folder):
    """An encoder without a vocabulary is compared with the whole one, not with
    itself."""
    whole = folder / "encoder"
    whole.mkdir()
    source = SOURCES / "assets/encoder"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (whole / name).write_bytes((source / name).read_bytes())
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config["architectures"] = ["BertModel"]
    (whole / "config.json").write_text(json.dumps(config), encoding="utf-8")
    data = (source / "model.safetensors").read_bytes()
    (whole / "model.safetensors").write_bytes(without_head(data))
    start = ("--text", TEXT, "--tokens", 256, "--context", 32)
    well("prune", whole, *start, "--by", "activation", "--keep", 0.7,
         "--no-timing", "--out", folder / "encoder-half")
    alone = well("evaluate", folder / "encoder-half", *start)
    check("--against" in alone, alone)
    row, = json.loads(well("evaluate", folder / "encoder-half", *start,
                           "--against", whole, "--json"))["judged"]
    check(row["whole"]["value"] < 1e-6 < row["other"]["value"], f"{row}")
    check(0 < row["cosine"]["value"] < 1 and row["sentences"] > 4, f"{row}")


def without_head(data):
    """A safetensors file without the tensors of cls."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    kept, bytes_of, at = {}, b"", 0
    for name, entry in sorted(header.items(), key=lambda item: item[0]):
        if name == "__metadata__" or name.startswith("cls."):
            continue
        begin, end = entry["data_offsets"]
        bytes_of += data[8 + size + begin:8 + size + end]
        kept[name] = {**entry, "data_offsets": [at, at + end - begin]}
        at += end - begin
    text = json.dumps(kept).encode()
    return len(text).to_bytes(8, "little") + text + bytes_of


def curve(folder):
    file = folder / "curve"
    text = well("prune", MODEL, *SHORT, "--by", "ablation-zero", "--no-timing",
                "--curve", file)
    check("Area under the curve" in text, text)
    check("Loss on held-out parts of text" in text, text)
    made = json.loads((folder / "curve.json").read_text(encoding="utf-8"))
    orders = [order["order"] for order in made["orders"]]
    check(orders[:2] == ["importance", "reversed"] and len(orders) == 7,
          f"{orders}")
    check(made["importance_less_random"]["high"] < 0, "planted importance")
    check("<svg" in (folder / "curve.svg").read_text(encoding="utf-8"), "svg")
    page = (folder / "curve.html").read_text(encoding="utf-8")
    check("<svg" in page and "Area under the curve" in page, "page")
    check("http" not in page and "<script" not in page, "not self-contained")


def means(folder):
    """Means of a profile are those over its text."""
    profile, plain = folder / "means.heads", folder / "plain.heads"
    well("profile", MODEL, *SHORT, "--means", "--out", profile)
    well("profile", MODEL, *SHORT, "--repeats", 0, "--out", plain)

    def closed(*mean):
        return json.loads(well("evaluate", MODEL, *SHORT, "--drop", "0.1,1.0",
                               "--mean", *mean, "--json"))["closed"]["value"]
    check(abs(closed(profile) - closed(TEXT)) < 1e-5, "means of a profile")
    refused(1, "a profile with mean outputs", "evaluate", MODEL, *SHORT,
            "--drop", "0.1", "--mean", plain)
    heads = ("--drop", "0.1,1.0", "--repair", "fold")
    here = pruned(folder, "folded", *heads, "--mean", profile)
    check(here["loss_after"]["value"] > 0, "fold with a profile's means")
    refused(2, "--repair fold", "prune", MODEL, *SHORT, "--drop", "0.1",
            "--mean", profile, "--out", folder / "never")


def gates(folder):
    """Learned gates: heads that do much stay open."""
    result = pruned(folder, "gates", "--by", "gates", "--gate-steps", 5,
                    "--keep", 0.8)
    scores = result["plan"]["scores"]
    check(len(set(scores.values())) > 1, f"gates that did not move: {scores}")
    best = max(scores, key=scores.get)
    check(best not in result["plan"]["remove"], f"{best} left")


def tuned_gates(folder):
    """Weights that learn along with gates are what the heads leave."""
    plan = folder / "tuned.plan"
    result = pruned(folder, "tuned", "--by", "gates", "--tune", "--tune-steps",
                    5, "--keep", 0.8, "--seed", 3, "--plan-out", plan)
    told = result["plan"]
    check(told["criterion"] == "gates, tuned", f"{told['criterion']}")
    check(told["gates"] == {"steps": 5, "penalty": 0.2, "seed": 3,
                            "weights_rate": 1e-4}, f"{told['gates']}")
    check("closed in 5 steps" in result["search"], result["search"])
    weights = (folder / "tuned/model.safetensors").read_bytes()
    pruned(folder, "tuned-again", "--plan", plan)
    check((folder / "tuned-again/model.safetensors").read_bytes() == weights,
          "a plan of tuned gates replayed")
    start = ["prune", MODEL, "--text", TEXT, "--tokens", 1024, "--tune"]
    out = ["--out", folder / "x"]
    refused(2, "expected --by gates", *start, "--keep", 0.8, *out)
    refused(2, "neither --drop", *start, "--by", "gates", "--drop", "0.1", *out)
    refused(2, "no --curve", *start, "--by", "gates", "--curve", folder / "c")
    refused(2, "a rate above 0", *start, "--by", "gates", "--keep", 0.8,
            "--finetune-rate", 0, *out)


def trained(folder, name, lines, model, task):
    """A small model of a task, and the text it learned."""
    text = folder / f"{name}.tsv"
    text.write_text("".join(f"{a}\t{b}\n" for a, b in lines),
                    encoding="utf-8")
    tokenizer = folder / f"{name}.json"
    well("vocab", "--text", text, "--size", 300, "--special-tokens", "<eos>",
         "--out", tokenizer)
    config = folder / f"{name}-run.json"
    config.write_text(json.dumps({
        "task": task, "out": str(folder / name), "data": [str(text)],
        "tokenizer": str(tokenizer), "model": model, "steps": 20, "batch": 8,
        "micro_batch": 8, "sequence": 32, "warmup": 2, "rate": 0.003,
        "evaluate_every": 20, "save_every": 20}), encoding="utf-8")
    well("train", config)
    return folder / name, text


def accuracy(folder):
    lines = [("good fine good", "yes"), ("bad poor bad", "no")] * 30
    model, text = trained(
        folder, "classes", lines,
        {"model_type": "llama", "hidden_size": 32, "intermediate_size": 48,
         "num_hidden_layers": 2, "num_attention_heads": 2,
         "max_position_embeddings": 64}, "classification")
    told = json.loads(well("evaluate", model, "--text", text, "--drop", "0.1",
                           "--json"))
    check(told["accuracy"]["whole"]["value"] > 0.9, f"{told['accuracy']}")
    check(told["closed"]["value"] != told["loss"]["value"], "nothing closed")
    timed(folder, model, text)
    text.write_text("good\tyes\nbad\tmaybe\n", encoding="utf-8")
    refused(1, "maybe", "evaluate", model, "--text", text)


def timed(folder, model, text):
    """What was gained is measured, for which the smallest model will do: the
    clock takes seconds."""
    told = json.loads(well(
        "prune", model, "--text", text, "--keep", 0.5, "--by", "activation",
        "--plan-out", folder / "timed.plan", "--out", folder / "timed",
        "--json"))
    check([work["what"].split(",")[0] for work in told["timings"]] ==
          2 * ["prefill"] + 2 * ["decode"], f"{told['timings']}")
    check(all(work["before_ms"] > 0 and work["after_ms"] > 0
              for work in told["timings"]), f"{told['timings']}")


def bleu(folder):
    lines = [("a b c d", "d c b a"), ("b c d e", "e d c b")] * 10
    model, text = trained(
        folder, "marian", lines,
        {"model_type": "marian", "d_model": 32, "encoder_layers": 1,
         "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 48,
         "decoder_ffn_dim": 48, "max_position_embeddings": 64,
         "activation_function": "relu", "eos_token_id": 0, "pad_token_id": 1,
         "decoder_start_token_id": 1, "scale_embedding": True,
         "share_encoder_decoder_embeddings": True}, "translation")
    told = json.loads(well("evaluate", model, "--text", text, "--drop",
                           "cross:0.1", "--json"))
    check(0 <= told["bleu"]["whole"]["value"] <= 100, f"{told}")
    check("right" in told, "tokens told right")


def nothing(folder):
    out = folder / "same"
    well("prune", MODEL, "--text", TEXT, "--tokens", 1024, "--keep", 1, "--by",
         "activation", "--no-timing", "--out", out)
    for name in ("config.json", "model.safetensors"):
        check((out / name).read_bytes() == (MODEL / name).read_bytes(), name)


def refusals(folder, out):
    start = ["prune", MODEL, "--text", TEXT, "--tokens", 1024]
    refused(2, "one of --keep, --drop, --plan, --max-loss", *start, "--out", folder / "x")
    refused(2, "expected --out", *start, "--keep", 0.5)
    refused(2, "a number from 0 to 1", *start, "--keep", 2, "--out",
            folder / "x")
    refused(2, "finetune or none", *start, "--keep", 0.5, "--repair", "magic",
            "--out", folder / "x")
    refused(2, "the order fold", *start, "--keep", 0.5, "--repair",
            "finetune,fold", "--out", folder / "x")
    refused(2, "a rise as", *start, "--max-loss", "-1%", "--out", folder / "x")
    refused(2, "5% of the loss", *start, "--max-loss", "5", "--out",
            folder / "x")
    refused(1, "at least 8 sequences", *start, "--by", "activation",
            "--max-loss", "5nats", "--out", folder / "x")
    nothing_there = folder / "holds-weights"
    nothing_there.mkdir()
    (nothing_there / "weights.bin").write_bytes(b"")
    refused(1, "a folder of weights.bin, without it", "info", nothing_there)
    refused(2, "--iterative", *start, "--drop", "0.0", "--iterative", 3,
            "--out", folder / "x")
    refused(1, "measured with", *start, "--by", "activation",
            "--target-speedup", 1000, "--out", folder / "x")
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
    refused(1, "the model would be lost", *start, "--drop", "0.0", "--force",
            "--out", MODEL)
    # A head is closed once, however often it is named.
    plan = folder / "again.json"
    well(*start, "--drop", "0.0", "--plan-only", "--plan-out", plan)
    again = json.loads(plan.read_text(encoding="utf-8"))
    again["remove"] *= 9
    plan.write_text(json.dumps(again), encoding="utf-8")
    for command in (["prune", "--out", folder / "x", "--no-timing"],
                    ["evaluate"]):
        refused(1, "0.0 again", command[0], MODEL, "--text", TEXT, "--tokens",
                1024, "--plan", plan, *command[1:])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = smaller(folder)
        repairs(folder)
        targets(folder)
        judged(folder)
        encoder(folder)
        curve(folder)
        means(folder)
        gates(folder)
        tuned_gates(folder)
        accuracy(folder)
        bleu(folder)
        nothing(folder)
        refusals(folder, out)


if __name__ == "__main__":
    main()
