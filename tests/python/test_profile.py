"""Profiles, roles and what is made of them, beside the program's numbers."""
import json

import numpy as np
import pytest

import headwise as hw
from conftest import BOOK, MODEL, TOKENS


def test_a_profile_is_the_programs(p, program):
    printed = program("profile", MODEL, "--text", BOOK, "--tokens", TOKENS,
                      "--json")
    assert p.json() == printed
    for i, head in enumerate(p.heads):
        theirs = printed["heads"][i]["metrics"]["entropy"]
        assert p["entropy"][head.layer, head.head] == theirs["mean"]
        mine = p.estimate("entropy", head)
        assert [mine.mean, mine.low, mine.high, mine.count] == \
            [theirs[end] for end in ("mean", "low", "high", "count")]


def test_a_profile_shows_itself(p):
    assert p["entropy"].shape == (6, 8)
    assert "entropy" in p and "nonsense" not in p
    assert p.counts["tokens"] >= TOKENS
    assert p.histogram((0, 0)).shape == (43,)
    assert isinstance(p.sinks("0.0"), dict)
    assert p.examples((0, 0))[0]["tokens"]
    table = p.table(["entropy", "distance"])
    assert table.columns() == ["head", "entropy", "distance"]
    assert len(table) == 48 and str(table).count("\n") == 48
    assert "<table>" in p._repr_html_() and "novels" in repr(p)


def test_profiles_are_kept_and_merged(m, p, tmp_path):
    p.save(tmp_path / "x.heads")
    again = hw.load_profile(tmp_path / "x.heads")
    assert again.json() == p.json()
    text = BOOK.read_text()
    parts = [m.profile(part, "core") for part in (text[:3000], text[3000:6000])]
    both, turned = hw.merge(*parts), hw.merge(reversed(parts))
    assert both.counts["tokens"] == sum(x.counts["tokens"] for x in parts)
    np.testing.assert_allclose(both["entropy"], turned["entropy"])
    with pytest.raises(ValueError, match="different texts"):
        hw.merge(parts[0], parts[0])


def test_tokens_end_a_profile_of_ids(m):
    ids = m.encode(BOOK.read_text()[:4000])
    rows = [ids[:40], ids[40:300]]
    assert m.profile(ids, "core").counts["tokens"] == len(ids) > 300
    assert m.profile(ids, "core", tokens=64).counts["tokens"] == 64
    assert m.profile(rows, "core", tokens=64).counts["tokens"] == 64
    assert m.loss(rows, tokens=64).tokens == 64
    np.testing.assert_array_equal(
        m.profile(rows, "core", tokens=64)["entropy"],
        m.profile([rows[0], rows[1][:24]], "core")["entropy"])


def test_core_metrics_are_among_all(m, p):
    core = m.profile(BOOK, "core", tokens=TOKENS)
    assert set(core.metrics) < set(p.metrics)
    np.testing.assert_array_equal(core["entropy"], p["entropy"])


def test_a_stopped_profile_goes_on(m, tmp_path):
    kept = {"partial": tmp_path / "kept", "tokens": 4096}

    def stop(stage, done, total):
        if done > 300:
            raise RuntimeError("enough")
    with pytest.raises(RuntimeError, match="enough"):
        m.profile(BOOK, "core", progress=stop, **kept)
    assert kept["partial"].exists()
    again = m.profile(BOOK, "core", resume=True, **kept)
    assert not kept["partial"].exists()
    assert again.json() == m.profile(BOOK, "core", tokens=4096).json()


def test_the_keyword_before_names_the_one_now(m):
    with pytest.raises(TypeError, match="expected partial; found on_check"):
        m.profile(BOOK, on_checkpoint=print)


def test_roles_are_the_programs(m, p, program):
    printed = program("roles", MODEL, "--text", BOOK, "--tokens", TOKENS,
                      "--json")["heads"]
    roles = m.roles(p)
    assert [[role.name for role in head.roles] for head in roles] == \
        [[role["name"] for role in head["roles"]] for head in printed]
    assert [[role.score for role in head.roles] for head in roles] == \
        [[role["score"] for role in head["roles"]] for head in printed]
    assert p.roles() == roles
    assert any(head.roles for head in roles)


def test_thresholds_move_roles(p):
    def heads(**thresholds):
        return {head.head for head in p.roles(thresholds)
                if any(role.name == "induction" for role in head.roles)}
    assert not heads(induction=1)
    assert set() < heads(induction=0.97) < heads()


def test_confirmed_roles_have_a_check(m, p):
    roles = m.roles(p, confirm=True)
    checks = [role.check for head in roles for role in head.roles if role.check]
    assert checks and {"behaviour", "before", "after"} == set(checks[0])


def test_induction_is_that_of_the_profile(m, p):
    scores = m.induction_scores()
    assert scores.shape == (6, 8)
    np.testing.assert_array_equal(scores, p["repeats.induction"])
    assert scores.max() > 0.3


def test_progress_is_told_and_may_end_the_work(m):
    told = []
    m.profile(BOOK, "core", tokens=2048,
              progress=lambda *what: told.append(what))
    assert told and all(done <= total or not total
                        for _, done, total in told)


def test_the_bar_is_on_stderr(m, capsys):
    m.loss(BOOK, tokens=512, progress=True)
    out, err = capsys.readouterr()
    assert out == "" and "loss" in err


def test_json_is_json(p):
    assert json.loads(json.dumps(p.json()))["format"] == "headwise.profile/1"


def test_broad_alone_is_no_function():
    broad = hw.Role("broad", 0.85, 0.83, 0.87, shape=True)
    induction = hw.Role("induction", 0.9, 0.8, 1.0)
    only = hw.HeadRoles(hw.Head(0, 1), [broad])
    assert not only.has_function and str(only) == "0.1 only broad 0.85"
    both = hw.HeadRoles(hw.Head(0, 1), [induction, broad])
    assert both.has_function and "only" not in str(both)
    assert not hw.HeadRoles(hw.Head(0, 1)).has_function
