"""Models that come without a tokenizer, read as words that are ids: "w17"."""
import json


def text_of(ids):
    return " ".join(f"w{i}" for i in ids)


def add_tokenizer(model, folder, mask=None):
    """Makes `folder`: the model's configuration and weights by links, and a
    tokenizer of such words, `mask` being the id of the mask token."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in [model / "config.json", *model.glob("model*.safetensors*")]:
        link = folder / file.name
        if not link.exists():
            link.symlink_to(file.resolve())
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    vocabulary = {f"w{i}": i for i in range(config["vocab_size"])}
    if mask is not None:
        del vocabulary[f"w{mask}"]
        vocabulary["[MASK]"] = mask
    (folder / "tokenizer.json").write_text(json.dumps({
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordPiece", "unk_token": "w0",
                  "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary}}),
        encoding="utf-8")
    return config
