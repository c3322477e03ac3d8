"""Hooks: arrays in place, what is returned, what is raised."""
import numpy as np
import pytest

SITE = "layer.3.attention.head_output"
LINE = "The captain looked at the sea."


def test_a_hook_sees_what_the_cache_keeps(m):
    seen = {}
    with m.hook("layer.*.attention.*", lambda site, x: seen.update({site: x})):
        out, _ = m.run(LINE)
    plain, cache = m.run(LINE, cache=["layer.*.attention.*"])
    np.testing.assert_array_equal(out, plain)
    assert len(seen) == 6 * 5  # query, key, value, head_output, output
    for site, x in seen.items():
        np.testing.assert_array_equal(x, cache[site][0], err_msg=site)


def test_zero_at_a_head_is_dropping_it(m):
    def close(site, x):
        x[:, 2] = 0
    with m.hook(SITE, close):
        hooked, _ = m.run(LINE)
    with m.edit(drop=[(3, 2)]):
        dropped, _ = m.run(LINE)
    np.testing.assert_allclose(hooked, dropped, atol=1e-5)
    assert not np.array_equal(hooked, m.run(LINE)[0])


def test_what_is_returned_replaces(m):
    with m.hook(SITE, lambda site, x: x * 0):
        returned, _ = m.run(LINE)
    with m.edit(drop=[(3, head) for head in range(8)]):
        dropped, _ = m.run(LINE)
    np.testing.assert_allclose(returned, dropped, atol=1e-5)
    with m.hook(SITE, lambda site, x: x), m.hook(SITE, lambda site, x: None):
        np.testing.assert_array_equal(m.run(LINE)[0], m.run(LINE)[0])


def test_hooks_run_in_order_and_end(m):
    with m.hook(SITE, lambda site, x: x * 0 + 1):
        with m.hook(SITE, lambda site, x: x * 0):
            inner = m.run(LINE)[0]
        outer = m.run(LINE)[0]
    with m.hook(SITE, lambda site, x: x * 0):
        np.testing.assert_array_equal(m.run(LINE)[0], inner)
    assert not np.array_equal(inner, outer)


def test_path_patching_by_hand(m):
    """The head's output of one run put into another is Patching's number."""
    clean, other = LINE, "The captain looked at the man."
    assert len(m.encode(clean)) == len(m.encode(other))
    _, cache = m.run(other, cache=SITE, out=False)

    def put(site, x):
        x[:, 2] = cache[SITE][0, :, 2]
    with m.hook(SITE, put):
        patched = m.run(clean)[0][0, -1]
    found = m.patch(clean, other, (" the", " a"))
    a, b = (m._model.encode("x" + word)["ids"][-1] for word in (" the", " a"))
    plain = m.run(clean)[0][0, -1]
    lost = (plain[a] - plain[b]) - (patched[a] - patched[b])
    assert found.patched[3, 2] == pytest.approx(lost, abs=1e-4)


def test_a_hook_counts_while_generating_and_in_losses(m):
    calls = []
    with m.hook(SITE, lambda site, x: calls.append(x.shape)):
        m.generate("The captain", 3)
        m.loss(LINE)
    assert len(calls) >= 4 and calls[1][0] == 1


def test_what_a_hook_raises_reaches_the_caller(m):
    def fail(site, x):
        raise KeyError(site)
    with m.hook(SITE, fail):
        with pytest.raises(KeyError, match="layer.3"):
            m.run(LINE)
    m.run(LINE)


@pytest.mark.parametrize("result", [np.zeros(7), "words", object()])
def test_what_does_not_fit_is_told(m, result):
    with m.hook(SITE, lambda site, x: result):
        with pytest.raises(ValueError, match="expected an array that fits"):
            m.run(LINE)


def test_a_hook_may_not_run_the_model(m):
    with m.hook(SITE, lambda site, x: m.run(LINE)):
        with pytest.raises(ValueError, match="its own hooks"):
            m.run(LINE)


def test_a_hook_may_lose_itself_while_it_runs(m):
    held, calls = [], []

    def once(site, x):
        calls.append(m.edited)
        held.clear()
    held.append(m.hook(SITE, once))
    m.run(LINE)
    m.run(LINE)
    assert calls == [True]


def test_places_without_a_hook_are_told(m):
    for site in ("logits", "layer.3.attention.probs", "layer.9.output", "x"):
        with pytest.raises(ValueError, match="expected a place"):
            m.hook(site, print)
    with pytest.raises(ValueError, match="expected a function"):
        m.hook(SITE, None)


def test_analyses_refuse_to_run_under_hooks(m):
    with m.hook(SITE, print):
        with pytest.raises(ValueError, match="without edits and hooks"):
            m.profile(LINE)
