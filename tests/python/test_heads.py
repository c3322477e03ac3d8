"""Rankings, patching, likeness, composition, reports."""
import numpy as np
import pytest

from conftest import BOOK, MODEL, TOKENS


def without_model(value):
    value.pop("model", None)
    return value


def test_a_ranking_is_the_programs(m, program):
    ranking = m.rank(BOOK, by="ablation-mean,weights", tokens=512)
    assert ranking.json == without_model(program(
        "rank", MODEL, "--text", BOOK, "--tokens", 512, "--by",
        "ablation-mean,weights", "--json"))
    assert ranking["ablation-mean"].shape == (6, 8)
    top = ranking.top(3)
    assert len(top) == 3 and ranking["ablation-mean"].max() == \
        ranking["ablation-mean"][top[0].layer, top[0].head]
    assert set(ranking.classes()) == set(m.heads)
    assert ranking.table().columns()[:3] == ["head", "class", "ablation-mean"]
    assert (ranking.array("ablation-mean", end="low")
            <= ranking["ablation-mean"]).all()
    with pytest.raises(ValueError, match="expected one of ablation-mean"):
        ranking["nonsense"]


def test_patching_is_the_programs(m, program):
    prompt = "The captain looked at the sea."
    other = "The captain looked at the man."
    printed = program("patch", MODEL, "--prompt", prompt, "--counterfactual",
                      other, "--answers", " the", " a", "--json")
    found = m.patch(prompt, other, (" the", " a"))
    assert found.difference.value == printed["difference"]["value"]
    np.testing.assert_array_equal(
        [head["direct"] for head in printed["heads"]], found.direct.ravel())
    np.testing.assert_array_equal(
        [head["share"] for head in printed["heads"]], found.share.ravel())
    case = (prompt, other, (" the", " a"))
    many = m.patch([case, case])
    assert many.cases == 2
    np.testing.assert_allclose(many.direct, found.direct, atol=1e-6)
    ids = m.patch(m.encode(prompt), m.encode(other),
                  (m.encode("x the")[-1], m.encode("x a")[-1]))
    np.testing.assert_array_equal(ids.share, found.share)


def test_likeness_is_the_programs(m, program):
    found = m.similar(BOOK, tokens=TOKENS)
    assert found.json == without_model(program(
        "similar", MODEL, "--text", BOOK, "--tokens", TOKENS, "--json"))
    assert found.jsd.shape == (48, 48) and found.map.shape == (48, 2)
    near = found.closest((0, 0), 3)
    assert len(near) == 3
    row = found.jsd[found.index((0, 0))]
    assert row[found.index(near[0])] == np.nanmin(
        np.delete(row, found.index((0, 0))))
    assert found.picture().svg.startswith("<svg")


def test_composition_is_the_programs(m, program):
    found = m.compose()
    assert found.json == without_model(program(
        "compose", MODEL, "--top", 1000000, "--json"))
    assert len(found) == len(found.edges) > 100
    assert found.picture().svg.startswith("<svg")
    effects = m.compose(BOOK, tokens=64, by="effect")
    assert effects.json["edges"][0]["effect"] is not None


def test_an_atlas_is_the_programs(m, program, tmp_path):
    options = dict(tokens=512, context=64, strongest=2, samples=1,
                   rank_tokens=64, profile_tokens=256)
    atlas = m.atlas(BOOK, tmp_path / "a", **options)
    flags = [word for name, value in options.items()
             for word in ("--" + name.replace("_", "-"), value)]
    assert atlas.json == without_model(program(
        "atlas", MODEL, "--text", BOOK, "--out", tmp_path / "b", *flags,
        "--json"))
    files = sorted(path.relative_to(tmp_path / "a")
                   for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 2 * 48 + 6
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == \
            (tmp_path / "b" / path).read_bytes(), path
    assert atlas["induction_score"].shape == (6, 8)
    assert len(atlas.roles) == 48
    with pytest.raises(ValueError, match="expected one of self_attention"):
        atlas["nonsense"]


def test_a_report_is_a_page(m, tmp_path):
    report = m.report(BOOK, tokens=512,
                      skip=["importance", "similarity", "composition"])
    report.save(tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text().lstrip().lower().startswith(
        "<!doctype html>")
    assert report.json["format"].startswith("headwise.report/")
    assert "srcdoc" in report._repr_html_()
