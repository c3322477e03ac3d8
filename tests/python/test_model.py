"""Loading, running, losses, generating, attention."""
import json
import shutil
import struct

import numpy as np
import pytest

import headwise as hw
from conftest import BOOK, MODEL, ROOT, TOKENS

LINE = "The captain looked at the sea."


def test_a_model_says_what_it_is(m):
    assert (m.name, m.layers, len(m.heads), m.device) == \
        ("novels", 6, 48, "cpu")
    assert m.info["width"] == 256 and m.info["causal"]
    assert m.heads[9] == hw.Head(1, 1) and str(m.heads[9]) == "1.1"
    assert "layer.3.attention.head_output" in m.activations
    assert len(m.hash) >= 16
    assert "novels" in repr(m)


def test_less_weight_memory_gives_the_same_numbers(m):
    less = hw.load(MODEL, weight_memory=1 << 20)
    np.testing.assert_array_equal(less.run(LINE)[0], m.run(LINE)[0])


def test_tensors_that_nothing_reads_are_warned_of(tmp_path):
    folder = shutil.copytree(MODEL.parent / "planted", tmp_path / "odd")
    file = folder / "model.safetensors"
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    end = len(data) - 8 - size
    header["odd"] = {"dtype": "F32", "shape": [1],
                     "data_offsets": [end, end + 4]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    file.chmod(0o644)
    file.write_bytes(struct.pack("<Q", len(head)) + head + data[8 + size:] +
                     bytes(4))
    with pytest.warns(UserWarning, match="found 1 that gpt2 does not read: "
                                         "odd;"):
        odd = hw.load(folder)
    assert odd.info["unread"] == ["odd"]


def test_texts_become_ids_and_back(m):
    ids = m.encode(LINE)
    assert len(m.tokens(LINE)) == len(ids)
    assert m.decode(np.array(ids)).strip() == LINE


def test_activations_are_those_of_dump(m, program):
    folder = program("dump", MODEL, LINE, "--names",
                     "layer.*.attention.*,final,logits", "--out",
                     "x.safetensors")
    out, cache = m.run(LINE, cache=["layer.*.attention.*", "final"])
    data = (folder / "x.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    assert len(cache) > 20
    for name, array in {**cache, "logits": out}.items():
        begin, end = header[name]["data_offsets"]
        theirs = data[8 + size + begin:8 + size + end]
        assert array.tobytes() == theirs, name
        assert list(array.shape) == header[name]["shape"]


def test_ids_run_as_the_text_does(m):
    ids = m.encode(LINE)
    text, _ = m.run(LINE)
    for given in (ids, np.array(ids), np.array([ids])):
        np.testing.assert_array_equal(m.run(given)[0], text)
    assert m.run(LINE, out=False) == (None, {})


def test_losses_are_those_of_evaluate(m, program):
    drop = [(0, 0), (1, 1)]
    whole = m.loss(BOOK, tokens=TOKENS)
    with m.edit(drop=drop):
        zero = m.loss(BOOK, tokens=TOKENS)
    with m.edit(drop=drop, mean=m.means(BOOK, tokens=TOKENS)):
        mean = m.loss(BOOK, tokens=TOKENS)
    assert isinstance(whole, float) and whole.low < whole < whole.high
    assert whole.kind == "next-token" and whole.tokens >= TOKENS
    for mine, flags in ((zero, []), (mean, ["--replace", "mean"])):
        printed = program("evaluate", MODEL, "--text", BOOK, "--tokens", TOKENS,
                          "--drop", "0.0,1.1", *flags, "--json")
        for one, theirs in ((whole, printed["loss"]),
                            (mine, printed["closed"])):
            assert [one, one.low, one.high] == \
                [theirs[end] for end in ("value", "low", "high")]


def test_vectors_of_texts_are_those_of_embed(m, program):
    texts = [LINE, "A dog barked."]
    vectors = m.embed(texts, pooling="last", normalize=True)
    found = program("embed", MODEL, *texts, "--pooling", "last",
                    "--normalize", "yes", "--json")
    np.testing.assert_allclose(
        vectors, [text["vector"] for text in found["texts"]], rtol=0, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    with pytest.warns(UserWarning, match="1 of 1 are cut, to 3 tokens"):
        assert m.embed(LINE, context=3).shape == (1, m.info["width"])


def test_a_str_is_text_and_a_path_is_a_file(m):
    text = BOOK.read_text()
    as_file = m.loss(BOOK, tokens=512)
    assert m.loss(text, tokens=512) == as_file
    assert m.loss([BOOK], tokens=512) == as_file
    assert m.loss(str(BOOK)) != as_file  # the words of its name


def test_gates_scale_and_means_of_a_profile_replace(m, p):
    whole = m.loss(BOOK, tokens=512)
    with m.edit(gate={(2, 3): 1.0}):
        assert m.loss(BOOK, tokens=512) == whole
    with m.edit(gate={"2.3": 0.5}):
        half = m.loss(BOOK, tokens=512)
    with m.edit(drop="2.3"):
        none = m.loss(BOOK, tokens=512)
    assert len({float(whole), float(half), float(none)}) == 3
    with m.edit(drop=[(2, 3)], mean=p):
        by_profile = m.loss(BOOK, tokens=512)
    with m.edit(drop=[(2, 3)], mean=m.means(BOOK, tokens=TOKENS)):
        assert m.loss(BOOK, tokens=512) == by_profile
    assert m.loss(BOOK, tokens=512) == whole


def test_an_edit_holds_until_it_is_removed(m):
    edit = m.edit(drop=[(0, 0)])
    assert m.edited
    edit.remove()
    edit.remove()
    assert not m.edited


def test_generating_is_the_programs(m, program):
    printed = program("generate", MODEL, "The captain", "--drop", "0.0,1.1",
                      "--max-tokens", 24, "--temperature", 0.8, "--top-k", 20,
                      "--seed", 3, "--json")
    seen = []
    with m.edit(drop="0.0,1.1"):
        said = m.generate("The captain", 24, temperature=0.8, top_k=20, seed=3,
                          on_token=seen.append)
    assert said.ids == printed["ids"] == seen
    assert said == m.decode(said.ids)
    assert said.prompt == m.encode("The captain")


def test_attention_is_the_matrix_and_its_parts(m):
    _, cache = m.run(LINE, cache="layer.3.attention.probs", out=False)
    whole = cache["layer.3.attention.probs"][0, 2]
    map_ = m.attention(LINE, layer=3, head=2)
    np.testing.assert_allclose(np.asarray(map_), whole, atol=2e-6)
    np.testing.assert_allclose(map_.weights.sum(1), 1, atol=1e-5)
    assert len(map_.key_tokens) == map_.keys == len(whole)
    part = m.attention(LINE, 3, 2, queries=(2, 5), keys=slice(1, 4))
    np.testing.assert_allclose(part.weights, map_[2:5, 1:4], rtol=1e-5)
    row = m.attention(LINE, 3, 2, queries=4, top=3, received=True)
    np.testing.assert_allclose(row.weights, map_[4:5], rtol=1e-5)
    order = np.argsort(-map_[4], kind="stable")[:3]
    np.testing.assert_array_equal(row.top_keys, [order])
    np.testing.assert_allclose(row.top_weights, [map_[4][order]], atol=1e-6)
    np.testing.assert_allclose(row.received, map_.weights.sum(0), atol=1e-5)


def test_attention_of_a_long_text_is_asked_for_in_parts(m):
    ids = np.tile(m.encode(LINE), 3000)[:16500]
    with pytest.raises(ValueError, match="2\\^28"):
        m.attention(ids, 0, 1)
    map_ = m.attention(ids, 0, 1, cells=8, top=4)
    assert map_.shape == (8, 8) and map_.top_keys.shape == (1, 4)
    assert map_.keys == 16500


def test_weights_of_a_head(m):
    w = m.head(2, 3)
    assert w.W_Q.shape == (256, 32) and w.W_O.shape == (32, 256)
    np.testing.assert_allclose(w.QK, w.W_Q @ w.W_K.T, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(w.OV, w.W_V @ w.W_O, rtol=1e-4, atol=1e-5)
    whole = m.weight("model.layers.2.self_attn.q_proj.weight")
    np.testing.assert_array_equal(w.W_Q.T, whole[96:128])
    assert "model.embed_tokens.weight" in m.weights


def test_pictures_stand_alone(m, tmp_path):
    picture = m.show(LINE, layer=3, head=2)
    assert picture.svg.startswith("<svg")
    assert "data:image/svg+xml;base64," in picture._repr_html_()
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == picture.svg
    assert len(m.show(LINE, layer=3).svg) > len(picture.svg)


def test_the_picture_is_the_programs(m, program):
    folder = program("show", MODEL, LINE, "--heads", "0.0,1.1", "--svg",
                     "x.svg")
    assert m.show(LINE, heads="0.0,1.1").svg == (folder / "x.svg").read_text()


def test_the_logit_lens_ends_at_the_models_own_logits(m):
    out, cache = m.run(LINE, cache=["layer.1.output"])
    lens = m.logit_lens(LINE)
    assert lens.shape == (7, out.shape[1], 4096)
    np.testing.assert_array_equal(lens[-1], out[0])
    np.testing.assert_array_equal(m.logit_lens(LINE, [1, -1]), lens[:, [1, -1]])
    x = cache["layer.1.output"][0].astype(np.float64)
    x /= np.sqrt((x ** 2).mean(-1, keepdims=True) + m_eps(m))
    x = x * m.weight("model.norm.weight") @ \
        m.weight("model.embed_tokens.weight").T
    np.testing.assert_allclose(lens[2], x, atol=2e-3)


def m_eps(m):
    return json.loads((MODEL / "config.json").read_text())["rms_norm_eps"]


def test_direct_logit_attribution_adds_up(m):
    found = m.attribution(LINE, (" the", " a"))
    assert found.sum == pytest.approx(found.difference.value, abs=1e-3)
    assert found.direct.shape == (6, 8) and found.mlps.shape == (6,)
    assert found.share is None
    logits = m.run(LINE)[0][0, -1]
    answer, other = (m.encode("x" + word)[-1] for word in (" the", " a"))
    assert found.difference.value == pytest.approx(
        logits[answer] - logits[other], abs=1e-4)


def test_models_are_compared(m, tmp_path):
    text = "The captain looked at the sea, and the sea looked at him. " * 8
    row, = m.compare(m, text, context=32)
    assert row["change"].value == 0 and row["same_token"].value == 1
    assert row["cosine"] is None
    other = hw.load(m.folder.replace("novels", "novels-one-head"))
    row, = other.compare(m, text, context=32)
    assert row["divergence"].value > 0.01 and row["same_token"].value < 1
    assert row["loss"].value == pytest.approx(
        float(other.loss(text, context=32)), abs=1e-5)
    with pytest.raises(ValueError, match="vocabulary"):
        hw.load(ROOT / "assets/planted").compare(m, text)
