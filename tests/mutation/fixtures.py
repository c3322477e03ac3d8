"""The unspoilt files of the mutation test, and the commands that read them.

make(program, folder) writes them, the larger ones with the program itself;
SUBJECTS says what is spoilt and who reads it.
"""
import dataclasses
import gzip
import json
import lzma
import math
import pathlib
import random
import shutil
import struct
import subprocess
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "conformance" / "goldens"
TOKENIZERS = ROOT / "tests" / "fuzz" / "corpus" / "tokenizer"
PIECES = ROOT / "tests" / "fuzz" / "corpus" / "sentencepiece" / "unigram"
SENTENCE = "the cat sat on a mat while two dogs ran after it"
CAUSAL = ("gpt2", "llama", "llama-3", "mistral", "qwen2", "qwen3")
FAMILIES = CAUSAL + ("bert", "distilbert", "roberta", "marian")


@dataclasses.dataclass
class Subject:
    """Files that are spoilt (relative to the fixtures) and the commands that
    read them; a folder named in `copies` is copied for every case. `well` is
    the exit code when nothing is spoilt, `turns` how often it is the
    format's turn while others have one."""
    format: str
    files: list
    commands: list
    copies: list
    well: int = 0
    turns: int = 1


def safetensors(path, tensors):
    """Writes {name: (type, shape, bytes)}."""
    header, payload = {}, b""
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape,
                        "data_offsets": [len(payload),
                                         len(payload) + len(data)]}
        payload += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (part["dtype"], part["shape"],
                   data[8 + size:][slice(*part["data_offsets"])])
            for name, part in header.items()}


def torch_file(path, tensors):
    """The same as torch.save writes it: a pickle of protocol 2 and the bytes,
    stored in an archive."""
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def numbers(values):
        return b"(" + b"".join(b"J" + struct.pack("<i", value)
                               for value in values) + b"t"

    kinds = {"F32": "FloatStorage", "BF16": "BFloat16Storage",
             "F16": "HalfStorage", "I64": "LongStorage"}
    made = b"\x80\x02}("
    with zipfile.ZipFile(path, "w") as archive:
        for key, (name, (kind, shape, data)) in enumerate(tensors.items()):
            strides = [math.prod(shape[i + 1:]) for i in range(len(shape))]
            made += text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + \
                text("storage") + f"ctorch\n{kinds[kind]}\n".encode() + \
                text(str(key)) + text("cpu") + b"J" + \
                struct.pack("<i", math.prod(shape)) + b"tQK\0" + \
                numbers(shape) + numbers(strides) + \
                b"\x89ccollections\nOrderedDict\n)RtR"
            archive.writestr(f"model/data/{key}", data)
        archive.writestr("model/data.pkl", made + b"u.")
        archive.writestr("model/version", "3\n")


def ids(rows, columns, name="input_ids"):
    rng = random.Random(3)
    values = [rng.randrange(3, 40) for _ in range(rows * columns)]
    return {name: ("I32", [rows, columns],
                   struct.pack(f"<{len(values)}i", *values))}


def write_texts(folder):
    rng = random.Random(1)
    words = SENTENCE.split()
    text = "\n".join(" ".join(rng.choice(words) for _ in range(40)) + "."
                     for _ in range(60))
    (folder / "text.txt").write_text(text)
    (folder / "short.txt").write_text(SENTENCE)
    (folder / "text.txt.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "text.txt.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "text.jsonl").write_text("\n".join(
        json.dumps({"text": line}) for line in text.split("\n")))
    (folder / "pairs.tsv").write_text("\n".join(
        f"{line[:30]}\t{line[30:60]}" for line in text.split("\n")))
    (folder / "prompts.jsonl").write_text("\n".join(json.dumps(
        {"prompt": "the cat sat on", "counterfactual": "the dogs sat on",
         "answers": [" a", " two"]}) for _ in range(2)))
    (folder / "hypotheses.txt").write_text(text)
    (folder / "references.txt").write_text(text.replace("cat", "dogs"))
    shutil.copyfile(ROOT / "bench" / "problems" / "attention.json",
                    folder / "problems.json")
    (folder / "pattern.json").write_text(json.dumps(
        {"name": "cats", "rules": [{"match": "\\b(cat|dogs)\\b", "query": 1},
                                   {"match": "\\bthe\\b", "key": 1}],
         "spans": [{"document": "text.txt", "begin": 0, "end": 6,
                    "query": 2}],
         "pairs": [{"document": "text.txt", "query": [10, 14],
                    "key": [0, 3]}]}))


def write_trees(folder):
    """Three words a sentence, the second their head; and who is meant."""
    sentence = "".join(
        f"{i}\t{word}\t{word}\tNOUN\t_\t_\t{head}\t{relation}\t_\t_\n"
        for i, (word, head, relation) in enumerate(
            (("the", 2, "det"), ("cat", 3, "nsubj"), ("sat", 0, "root")), 1))
    (folder / "bank.conllu").write_text((sentence + "\n") * 6)
    document = "#begin document (a); part 0\n"
    for i, (word, mention) in enumerate((("the", "(1"), ("cat", "1)"),
                                         ("sat", "_"), ("it", "(1)"),
                                         ("two", "(2"), ("dogs", "2)"),
                                         ("it", "(2)"))):
        document += f"a\t0\t{i}\t{word}\t{mention}\n"
    (folder / "coref.conll").write_text(document + "\n#end document\n")


def write_families(folder):
    for name in FAMILIES:
        (folder / name).mkdir()
        for part in ("config.json", "model.safetensors"):
            shutil.copyfile(GOLDENS / name / part, folder / name / part)
    for name, tokenizer in (("gpt2", "gpt2"), ("llama", "llama2"),
                            ("llama-3", "llama3"), ("qwen2", "qwen2"),
                            ("bert", "bert-uncased"), ("roberta", "roberta"),
                            ("distilbert", "bert-cased"), ("mistral", "parts"),
                            ("qwen3", "unigram")):
        shutil.copyfile(TOKENIZERS / tokenizer,
                        folder / name / "tokenizer.json")
    safetensors(folder / "ids.safetensors", {
        **ids(3, 24), **ids(3, 20, "decoder_input_ids")})


def write_other_tokenizers(folder):
    """A model in shards, and the older files of tokenizers."""
    source, shards = folder / "llama", folder / "shards"
    tensors = read_safetensors(source / "model.safetensors")
    names = sorted(tensors)
    shards.mkdir()
    where = {}
    for index, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-0000{index}-of-00002.safetensors"
        safetensors(shards / file, {name: tensors[name] for name in part})
        where.update(dict.fromkeys(part, file))
    (shards / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"total_size": 1}, "weight_map": where}))
    shutil.copyfile(source / "config.json", shards / "config.json")
    torch = folder / "torch"
    torch.mkdir()
    torch_file(torch / "pytorch_model.bin", tensors)
    shutil.copyfile(source / "config.json", torch / "config.json")
    model = json.loads((TOKENIZERS / "gpt2").read_text())["model"]
    (shards / "vocab.json").write_text(json.dumps(model["vocab"]))
    (shards / "merges.txt").write_text("#version: 0.2\n" + "\n".join(
        line if isinstance(line, str) else " ".join(line)
        for line in model["merges"]))
    (shards / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": False}))
    words = folder / "wordpieces"
    shutil.copytree(folder / "bert", words)
    vocabulary = json.loads((words / "tokenizer.json").read_text())["model"]
    (words / "tokenizer.json").unlink()
    (words / "vocab.txt").write_text("\n".join(sorted(
        vocabulary["vocab"], key=vocabulary["vocab"].get)))
    (words / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "BertTokenizer", "do_lower_case": True}))


def write_pieces(folder):
    """SentencePiece: of a model that has as many rows, and of Marian, whose
    ids are in a file of their own."""
    pieces = folder / "pieces"
    shutil.copytree(folder / "small", pieces)
    (pieces / "tokenizer.json").unlink()
    (pieces / "tokenizer_config.json").unlink()
    shutil.copyfile(PIECES, pieces / "tokenizer.model")
    marian = folder / "marian"
    for side in ("source", "target"):
        shutil.copyfile(PIECES, marian / f"{side}.spm")
    known = json.loads((TOKENIZERS / "unigram").read_text())["model"]["vocab"]
    names = ["</s>", "<unk>"] + [
        name for name, _ in known if name not in ("<unk>", "</s>", "<s>")]
    (marian / "vocab.json").write_text(json.dumps(
        {name: i for i, name in enumerate(names[:59] + ["<pad>"])}))


def write_half(folder):
    """A run as if it had been stopped before its end."""
    shutil.copytree(folder / "run", folder / "half")
    (folder / "longer.json").write_text(json.dumps(
        {**RUN, "out": "half", "steps": 6}))
    for path in (folder / "half").rglob("training.json"):
        record = json.loads(path.read_text())
        record["config"]["steps"] = 6
        path.write_text(json.dumps(record))
    for name in ("model.safetensors", "training.json"):
        (folder / "half" / name).unlink()


RUN = {"data": ["text.txt"], "tokenizer": "tokenizer.json", "out": "run",
       "model": {"model_type": "llama", "hidden_size": 16,
                 "intermediate_size": 24, "num_hidden_layers": 2,
                 "num_attention_heads": 2, "max_position_embeddings": 64,
                 "tie_word_embeddings": True},
       "steps": 4, "batch": 2, "micro_batch": 2, "sequence": 32, "warmup": 1,
       "evaluate_every": 2, "evaluate_sequences": 2, "save_every": 2,
       "observe_every": 2}


def make(program, folder):
    """Writes all fixtures."""
    def headwise(*words):
        done = subprocess.run([program, *words], cwd=folder, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            raise SystemExit(f"not ok fixtures: headwise {' '.join(words)}\n"
                             f"{done.stdout}{done.stderr}")

    write_texts(folder)
    write_trees(folder)
    write_families(folder)
    write_other_tokenizers(folder)
    headwise("vocab", "--text", "text.txt", "--size", "280", "--out",
             "tokenizer.json")
    (folder / "run.json").write_text(json.dumps(RUN))
    headwise("train", "run.json")
    write_half(folder)
    for text, profile in (("text.txt", "run.heads"),
                          ("references.txt", "other.heads")):
        headwise("profile", "run", "--text", text, "--tokens", "256", "--out",
                 profile)
    shutil.copytree(folder / "run", folder / "small",
                    ignore=shutil.ignore_patterns("checkpoints", "tokens*"))
    headwise("generate", "small", "the cat", "--max-tokens", "1",
             "--kv-policy", "roles", "--kv-out", "policy.json")
    write_pieces(folder)


TEXT = ["--text", "text.txt", "--tokens", "128"]


def reading(model):
    """Every command that opens a model, briefly."""
    return [["info", model, "--heads", "--json"],
            ["generate", model, "the cat", "--max-tokens", "4", "--json"],
            ["profile", model, *TEXT, "--out", "o.heads", "--json"],
            ["roles", model, *TEXT, "--json"],
            ["rank", model, *TEXT, "--json"],
            ["similar", model, *TEXT, "--json"],
            ["compose", model, "--json"],
            ["patch", model, "--prompts", "prompts.jsonl", "--json"],
            ["show", model, "--text", "short.txt", "--heads", "0.0,1.1",
             "--json"],
            ["dump", model, "--input", "ids.safetensors", "--out",
             "o.safetensors"],
            ["report", model, *TEXT, "--rank-tokens", "64", "--out",
             "o.html"]]


def briefly(model):
    return [["info", model, "--json"],
            ["dump", model, "--input", "ids.safetensors", "--out",
             "o.safetensors"],
            ["profile", model, "--ids", "ids.safetensors", "--out", "o.heads",
             "--json"],
            ["compose", model, "--json"]]


def subjects():
    """All of it, the formats in the order in which they are tried."""
    small = [f"small/{name}" for name in ("config.json", "tokenizer.json",
                                          "tokenizer_config.json")]
    found = [
        Subject("safetensors", ["small/model.safetensors"], reading("small"),
                ["small"], turns=5),
        Subject("model JSON", small, reading("small"), ["small"], turns=3),
        Subject("shards", ["shards/model.safetensors.index.json",
                           "shards/model-00001-of-00002.safetensors"],
                briefly("shards"), ["shards"]),
        Subject("torch", ["torch/pytorch_model.bin"], briefly("torch"),
                ["torch"], turns=2),
        Subject("vocab and merges", ["shards/vocab.json", "shards/merges.txt",
                                     "shards/tokenizer_config.json"],
                [["generate", "shards", "the cat", "--max-tokens", "2"]],
                ["shards"]),
        Subject("sentencepiece", ["pieces/tokenizer.model"],
                [["generate", "pieces", "the cat", "--max-tokens", "2"]],
                ["pieces"]),
        Subject("wordpieces", ["wordpieces/vocab.txt",
                               "wordpieces/tokenizer_config.json"],
                [["similar", "wordpieces", *TEXT, "--json"]], ["wordpieces"]),
        Subject("profile", ["run.heads"],
                [["roles", "run.heads", "--json"],
                 ["merge", "run.heads", "other.heads", "--out", "o.heads"],
                 ["report", "run", *TEXT, "--profile", "run.heads",
                  "--rank-tokens", "64", "--out", "o.html"],
                 ["rank", "run", *TEXT, "--profile", "run.heads", "--json"]],
                ["run"], turns=2),
        Subject("ids", ["ids.safetensors"],
                [["profile", "small", "--ids", "ids.safetensors", "--out",
                  "o.heads", "--json"],
                 ["dump", "small", "--input", "ids.safetensors", "--out",
                  "o.safetensors"],
                 ["dump", "marian", "--input", "ids.safetensors", "--out",
                  "o.safetensors"]], ["small", "marian"], turns=2),
        # An encoder–decoder is profiled on pairs.
        Subject("ids", ["ids.safetensors"],
                [["profile", "marian", "--ids", "ids.safetensors", "--out",
                  "o.heads", "--json"]], ["marian"], well=1),
        Subject("sentencepiece", ["marian/source.spm", "marian/vocab.json"],
                [["generate", "marian", "the cat", "--max-tokens", "2"]],
                ["marian"]),
        Subject("pairs", ["pairs.tsv"],
                [["profile", "marian", "--text", "pairs.tsv", "--pairs",
                  "pairs.tsv", "--out", "o.heads", "--json"]], ["marian"]),
        Subject("text", ["text.txt", "text.txt.gz", "text.txt.xz",
                         "text.jsonl"],
                [["profile", "small", "--text", "FILE", "--tokens", "128",
                  "--out", "o.heads", "--json"],
                 ["vocab", "--text", "FILE", "--size", "280", "--out",
                  "o.json"]], ["small"]),
        Subject("treebank", ["bank.conllu"],
                [["roles", "small", "--conllu", "bank.conllu", "--json"]],
                ["small"]),
        Subject("coreference", ["coref.conll"],
                [["roles", "small", "--coref", "coref.conll", "--json"]],
                ["small"]),
        Subject("prompts", ["prompts.jsonl"],
                [["patch", "small", "--prompts", "prompts.jsonl", "--json"]],
                ["small"]),
        Subject("translations", ["hypotheses.txt", "references.txt"],
                [["bleu", "hypotheses.txt", "references.txt", "--json"]], []),
        Subject("run", ["run.json"], [["train", "run.json", "--set",
                                       "out=fresh", "--json"]], []),
        Subject("checkpoint", [], [["train", "longer.json", "--resume",
                                    "--json"]], ["half"], turns=2),
        Subject("pattern", ["pattern.json"],
                [["profile", "small", *TEXT, "--patterns", "pattern.json",
                  "--out", "o.heads", "--json"]], ["small"]),
        Subject("cache policy", ["policy.json"],
                [["generate", "small", "the cat", "--max-tokens", "4",
                  "--kv-policy", "policy.json", "--json"]], ["small"]),
        Subject("problems", ["problems.json"],
                [["explain", "attention", "--problems", "problems.json",
                  "--json"]], []),
    ]
    for family in FAMILIES:
        files = [f"{family}/config.json", f"{family}/model.safetensors"]
        commands = [command for command in briefly(family)
                    if family != "marian" or command[0] != "profile"]
        found.append(Subject("families", files, commands, [family], turns=2))
    for family in ("gpt2", "llama", "llama-3", "qwen2", "mistral", "qwen3"):
        found.append(Subject(
            "tokenizer.json", [f"{family}/tokenizer.json"],
            [["generate", family, "the cat", "--max-tokens", "2"]], [family],
            turns=3))
    return found


def with_checkpoints(found, folder):
    """The files of a stopped run have names that only it knows."""
    for subject in found:
        if subject.format == "checkpoint":
            subject.files = sorted(
                str(path.relative_to(folder))
                for path in (folder / "half").rglob("*")
                if path.suffix in (".json", ".safetensors", ".jsonl"))
            # What a run goes on from is read first, and believed.
            subject.files += 3 * [name for name in subject.files
                                  if name.endswith("/training.json")]
    return found
