"""Attention of Hugging Face models (headwise.torch), where torch is."""
import random

import pytest

torch = pytest.importorskip(
    "torch", reason="NOTHING IS CHECKED OF headwise.torch: no torch")
transformers = pytest.importorskip(
    "transformers", minversion="5",
    reason="NOTHING IS CHECKED OF headwise.torch: no transformers 5")

import headwise.torch as hwt  # noqa: E402
from headwise._torch_plan import (Run, band_plan, plan_of,  # noqa: E402
                                  plan_of_dense)

CALLS = 100


@pytest.fixture(scope="module", autouse=True)
def registered():
    hwt.register()


def dense(seen, q, k, v, scale, cap=0.0, sinks=None):
    """[B, M, H, D] … → [B, M, H, E] by the definition; seen [B, M, N]."""
    group = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    z = torch.einsum("bmhd,bnhd->bhmn", q, k) * scale
    if cap:
        z = cap * torch.tanh(z / cap)
    none = ~seen.any(-1)[:, None, :, None]  # 0 there, of the gradient too
    z = z.masked_fill(~seen[:, None], -torch.inf).masked_fill(none, 0)
    if sinks is not None:
        z = torch.cat([z, sinks[None, :, None, None].expand(
            *z.shape[:3], 1)], -1)
    a = torch.softmax(z, -1).masked_fill(none, 0)[..., :v.shape[1]]
    return torch.einsum("bhmn,bnhe->bmhe", a, v)


def random_mask(rng, batch, queries):
    """(keys, bool [B, M, N]) of any kind that queries of a model have."""
    past = rng.choice([0, 0, rng.randint(1, 9)])
    keys = queries + past
    i = past + torch.arange(queries)[:, None]
    j = torch.arange(keys)
    seen = torch.ones(batch, queries, keys, dtype=torch.bool)
    kind = rng.choice(["causal", "window", "whole", "packed", "around"])
    if kind in ("causal", "window", "packed"):
        seen &= j <= i
    if kind == "window":
        seen &= j > i - rng.randint(1, keys)
    if kind == "around":
        seen &= (j - i).abs() <= rng.randint(0, 4)
    if kind == "packed":
        cut = torch.tensor([sorted(rng.choices(range(4), k=keys))
                            for _ in range(batch)])
        seen &= cut[:, past:, None] == cut[:, None, :]
    elif rng.random() < 0.6:
        for b in range(batch):
            pad = rng.randint(0, keys - 1)
            if rng.random() < 0.5:
                seen[b, :, :pad] = False
            else:
                seen[b, :, keys - pad:] = False
    return keys, seen


@pytest.mark.parametrize("seed", range(CALLS))
def test_values_and_gradients_are_those_of_float64(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    batch, queries = rng.randint(1, 3), rng.randint(1, 17)
    keys, seen = random_mask(rng, batch, queries)
    group, kv = rng.choice([1, 2, 4]), rng.choice([1, 2])
    width, value = rng.choice([4, 16, 20]), rng.choice([4, 16])
    cap = rng.choice([0.0, 5.0])
    made = [torch.randn(batch, heads, rows, size)
            for heads, rows, size in ((group * kv, queries, width),
                                      (kv, keys, width), (kv, keys, value))]
    sinks = torch.randn(group * kv) if rng.random() < 0.3 else None
    scale = width ** -0.5
    dout = torch.randn(batch, queries, group * kv, value)

    def run(function, kind):
        leaves = [x.to(kind, copy=True).requires_grad_() for x in made]
        more = None if sinks is None else sinks.to(
            kind, copy=True).requires_grad_()
        out = function(*(x.transpose(1, 2) for x in leaves), more)
        out.backward(dout.to(kind))
        grads = [x.grad for x in leaves] + (
            [] if more is None else [more.grad])
        return [out.detach(), *grads]

    plan = plan_of_dense(seen[:, None])
    ours = run(lambda q, k, v, s: hwt.attention(
        q, k, v, plan, scale=scale, soft_cap=cap, sink_logits=s),
        torch.float32)
    wanted = run(lambda q, k, v, s: dense(seen, q, k, v, scale, cap, s),
                 torch.float64)
    for one, want in zip(ours, wanted):
        torch.testing.assert_close(one.double(), want, rtol=2e-4, atol=2e-5)


def test_gates_and_their_gradient():
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 5, 3, 8, requires_grad=True) for _ in range(3))
    gate = torch.tensor([0.0, 1.0, 0.5], requires_grad=True)
    plan = band_plan(2, 5, 5, -1, 0, 0)
    out = hwt.attention(q, k, v, plan, gates=gate.expand(2, 5, 3))
    whole = hwt.attention(q, k, v, plan)
    torch.testing.assert_close(out, whole * gate[:, None])
    out.sum().backward()
    torch.testing.assert_close(gate.grad, whole.detach().sum((0, 1, 3)))


def test_a_plan_of_a_band_is_one_run():
    plan = plan_of_dense(torch.ones(1, 1, 6, 6, dtype=torch.bool).tril())
    assert Run(*plan[0].tolist()) == Run(0, 0, 6, 0, 6, -1, 0, 0, 0)
    assert len(plan) == 1
    assert plan_of([]).shape == (0, 9)


def test_masks_that_are_none_of_ours_are_named():
    seen = torch.ones(1, 1, 3, 5, dtype=torch.bool)
    seen[..., 2] = False
    with pytest.raises(hwt.Unsupported, match="gap"):
        plan_of_dense(seen)
    with pytest.raises(hwt.Unsupported, match="bias"):
        plan_of_dense(torch.full((1, 1, 3, 5), -0.5))
    with pytest.raises(hwt.Unsupported, match="between heads"):
        plan_of_dense(torch.rand(1, 2, 9, 9) > 0.5)


# ---- Models.

SMALL = dict(vocab_size=97, hidden_size=32, intermediate_size=48,
             num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
FAMILIES = {
    "Llama": dict(SMALL, num_key_value_heads=2),
    "Mistral": dict(SMALL, num_key_value_heads=2, sliding_window=5),
    "Qwen2": dict(SMALL, num_key_value_heads=2),
    "Qwen3": dict(SMALL, num_key_value_heads=2, head_dim=16),
    "Gemma": dict(SMALL, num_key_value_heads=1, head_dim=8),
    "Gemma2": dict(SMALL, num_key_value_heads=2, head_dim=8,
                   sliding_window=5, attn_logit_softcapping=5.0),
    "GPTNeoX": SMALL,
    "Phi": SMALL,
    "Olmo2": SMALL,
    "Starcoder2": dict(SMALL, num_key_value_heads=2, sliding_window=6,
                       attention_dropout=0.0),
    "GPT2": dict(vocab_size=97, n_embd=32, n_layer=2, n_head=4,
                 n_positions=64, bos_token_id=1, eos_token_id=2),
}


def models(family, **more):
    """The same weights by eager attention and by ours."""
    def make(name):
        torch.manual_seed(3)
        config = getattr(transformers, family + "Config")(
            **{**FAMILIES[family], **more}, attn_implementation=name)
        return getattr(transformers, family + (
            "LMHeadModel" if family == "GPT2" else "ForCausalLM"))(
                config).eval()
    return make("eager"), make("headwise")


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_gives_eagers_tokens(family):
    eager, ours = models(family)
    ids = torch.tensor([[0, 0, 5, 6, 7], [9, 8, 7, 6, 5]])
    keep = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ask = dict(attention_mask=keep, max_new_tokens=12, do_sample=False,
               pad_token_id=0, eos_token_id=None)
    assert torch.equal(eager.generate(ids, **ask), ours.generate(ids, **ask))


@pytest.mark.parametrize("side", ["left", "right", "packed", "none"])
def test_logits_are_eagers(side):
    eager, ours = models("Llama")
    ids = torch.randint(3, 97, (2, 9))
    keep, given = torch.ones(2, 9, dtype=torch.long), {}
    if side == "packed":
        given = dict(position_ids=torch.tensor(
            [[0, 1, 2, 0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4, 0, 1, 0, 1]]),
            use_cache=False)
    elif side != "none":
        keep[0, slice(0, 3) if side == "left" else slice(6, 9)] = 0
        given = dict(attention_mask=keep)
    with torch.no_grad():
        want, got = (model(ids, **given).logits for model in (eager, ours))
    torch.testing.assert_close(got[keep > 0], want[keep > 0], rtol=1e-4,
                               atol=1e-5)


def test_a_cache_is_filled_in_chunks():
    _, ours = models("Mistral")
    ids = torch.randint(3, 97, (1, 12))
    with torch.no_grad():
        whole = ours(ids).logits
        cache = transformers.DynamicCache(config=ours.config)
        parts = [ours(part, past_key_values=cache).logits
                 for part in ids.split([5, 4, 3], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4,
                               atol=1e-5)


def test_compiled_it_is_the_same():
    _, ours = models("Llama")
    ids = torch.randint(3, 97, (1, 9))
    with torch.no_grad():
        want = ours(ids).logits
        got = torch.compile(ours, backend="aot_eager")(ids).logits
    torch.testing.assert_close(got, want)


def test_heads_of_a_model_are_closed():
    _, ours = models("Llama")
    ids = torch.randint(3, 97, (1, 9))
    with torch.no_grad():
        whole = ours(ids).logits
        with hwt.gates(ours, [(1, 2)]):
            closed = ours(ids).logits
        assert torch.equal(ours(ids).logits, whole)
        ours.model.layers[1].self_attn.o_proj.weight[:, 16:24] = 0
        torch.testing.assert_close(closed, ours(ids).logits)
    with pytest.raises(ValueError, match="1.4"):
        with hwt.gates(ours, [(1, 4)]):
            pass


def test_dropout_is_named_and_falls_back_when_asked():
    _, ours = models("Llama", attention_dropout=0.5)
    ids = torch.randint(3, 97, (1, 9))
    ours.train()
    with pytest.raises(hwt.Unsupported, match="dropout"):
        ours(ids)
    hwt.register(fallback=True)
    try:
        with pytest.warns(UserWarning, match="sdpa runs instead"):
            ours(ids)
    finally:
        hwt.register()


def test_a_profile_is_what_eagers_weights_say():
    eager, ours = models("Llama")
    ids = torch.randint(3, 97, (2, 20))
    with torch.no_grad(), hwt.observe(ours) as seen:
        ours(ids)
        a = torch.stack(eager(ids, output_attentions=True).attentions)
    p = seen.profile()
    rows = slice(7, None)                 # that see eight keys
    entropy = -(a * a.clamp(min=1e-30).log()).sum(-1)[..., rows].mean((1, 3))
    previous = a.diagonal(-1, -2, -1)[..., 6:].mean((1, 3))
    first = a[..., rows, 0].mean((1, 3))
    for name, want in (("entropy", entropy), ("previous", previous),
                       ("first", first)):
        torch.testing.assert_close(torch.from_numpy(p[name]).float(), want,
                                   rtol=1e-3, atol=1e-4)
    assert p.estimate("entropy", (0, 0)).sequences == 2
    assert len(p.roles()) == 8
