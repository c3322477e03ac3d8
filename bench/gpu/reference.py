"""Attention, its statistics and gradients in float64, by the definition."""
import math

import torch


def visible(r):
    """[B, M, N]: who sees whom; and positions [B, M, 1]."""
    q, k = r["q"], r["k"]
    before, after, offset, sinks = r["mask"]
    i = torch.arange(q.shape[1], device="cuda")
    j = torch.arange(k.shape[1], device="cuda")[None, None]
    offsets = r.get("query_offsets")
    if offsets is None:
        offsets = torch.full((q.shape[0],), offset, device="cuda")
    p = (i[None] + offsets[:, None])[:, :, None]
    seen = (j - p <= after) & ((p - j <= before) | (j < sinks))
    if r.get("key_lengths") is not None:
        seen = seen & (j < r["key_lengths"][:, None, None])
    if r.get("query_lengths") is not None:
        seen = seen & (i[None, :, None] < r["query_lengths"][:, None, None])
    return seen, p


def shaped(r, z, p):
    """Scores through the soft cap and the bias; p: positions [B, M, 1]."""
    if r.get("soft_cap"):
        z = r["soft_cap"] * torch.tanh(z / r["soft_cap"])
    away = torch.arange(z.shape[-1], device="cuda") - p  # [B, M, N]
    if r.get("alibi_slopes") is not None:
        z = z - (r["alibi_slopes"].double()[None, :, None, None]
                 * away.abs()[:, None])
    if r.get("relative_table") is not None:
        table = r["relative_table"].double()
        reach = table.shape[1] // 2
        z = z + table[:, away.clamp(-reach, reach) + reach].transpose(0, 1)
    return z


def observe(r, a, p, logs):
    """Statistics beyond the core, of the rows of a [B, H, M, N]."""
    entropy = -(a * logs).sum(-1)
    found = {"varentropy": (a * logs**2).sum(-1) - entropy**2,
             "sum_squares": (a * a).sum(-1)}
    j = torch.arange(a.shape[-1], device="cuda")
    away = (p - j)[:, None].expand(a.shape)
    size = (away.abs().double() + 0.5).log2().floor().add(1).clamp(0, 21)
    bucket = 21 + torch.where(away < 0, -size, size).long()
    found["histogram"] = torch.zeros(
        *a.shape[:3], 43, device="cuda", dtype=torch.float64).scatter_add_(
            -1, bucket, a)
    kept = a
    if r.get("excluded_keys") is not None:
        kept = torch.where(r["excluded_keys"][:, None, None] != 0, 0.0, a)
    found["kept"] = kept
    found["kept_max"] = kept.amax(-1)
    if r.get("key_features") is not None:
        found["feature_mass"] = torch.einsum("bhmn,bnc->bhmc", a,
                                             r["key_features"].double())
    if r.get("query_labels") is not None:
        ours, theirs = r["query_labels"], r["key_labels"]
        match = ((ours[..., None] == theirs[:, :, None])
                 & (ours[..., None] != -1))  # [L, B, M, N]
        found["label_mass"] = torch.einsum("bhmn,lbmn->bhml", a,
                                           match.double())
    return found


def size_of(terms, summed):
    """What size the error of sums of terms is measured by: the terms', for
    sums may cancel."""
    least = max(0.05, 0.25 * terms.abs().max().item())
    return summed(terms**2).sqrt().clamp_min(least)


def table_gradient(r, dz, p):
    """Of each entry the sum of dz [B, H, M, N] over its pairs, and its size."""
    heads, width = r["relative_table"].shape
    reach = width // 2
    away = torch.arange(dz.shape[-1], device="cuda") - p  # [B, M, N]
    entry = (away.clamp(-reach, reach) + reach).reshape(1, -1)
    terms = dz.transpose(0, 1).reshape(heads, -1)

    def summed(x):
        zeros = torch.zeros(heads, width, device="cuda", dtype=torch.float64)
        return zeros.scatter_add_(1, entry.expand(x.shape), x)

    return {"drelative_table": summed(terms),
            "drelative_table_size": size_of(terms, summed)}


def sink_gradient(terms):
    """Of each head the sum of terms [B, H, M] over its rows, and its size."""
    def summed(x):
        return x.sum((0, 2))

    return {"dsink_logits": summed(terms),
            "dsink_logits_size": size_of(terms, summed)}


def sinks_of(r, sees):
    """The sink's logit in each row [B, H, M]; −inf where a row sees nothing."""
    sinks = r.get("sink_logits")
    if sinks is None:
        return torch.full_like(sees, -math.inf, dtype=torch.float64)
    sinks = sinks.double()[None, :, None].expand(sees.shape)
    return sinks.masked_fill(~sees, -math.inf)


def logs_of(a):
    """ln a, 0 where a is."""
    return torch.where(a > 0, a.clamp_min(1e-300).log(), 0.0)


def rounding_of_delta(q, k, a, o, dout, scale):
    """What the rounding of O in δ = ⟨dO, O⟩ leaves in dq and dk, divided by the
    type's eps. A sink makes it visible: a row that sees one key has a small
    gradient then, of terms that cancel."""
    rounding = scale * ((dout * o) ** 2).sum(-1).sqrt().permute(0, 2, 1)
    groups = k.shape[1]
    dq = rounding[..., None] * (
        a @ k.repeat_interleave(q.shape[1] // groups, 1)).abs()
    terms = (rounding[..., None] * a).transpose(-1, -2) ** 2 @ q ** 2
    dk = terms.unflatten(1, (groups, -1)).sum(2).sqrt()
    return {"dq_rounding": dq.permute(0, 2, 1, 3),
            "dk_rounding": dk.permute(0, 2, 1, 3)}


def attention(r):
    """Everything the operators return, as a dict of float64 tensors."""
    # Rows past the end of a sequence count for nothing, whatever they hold.
    q, k, v = (r[n].double().nan_to_num().permute(0, 2, 1, 3) for n in "qkv")
    group = q.shape[1] // k.shape[1]
    q.requires_grad_()
    k.requires_grad_()
    v.requires_grad_()
    scale = 1 / math.sqrt(q.shape[-1])
    z = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * scale
    seen, p = visible(r)
    shaped_z = z = shaped(r, z, p)
    seen = seen[:, None].expand_as(z)
    z = z.masked_fill(~seen, -math.inf)
    sinks = sinks_of(r, seen.any(-1)).requires_grad_()
    lse = torch.logsumexp(torch.cat([z, sinks[..., None]], -1), -1)
    a = torch.where(seen, torch.exp(z - lse.detach()[..., None]), 0.0)
    took = torch.exp(sinks - lse.detach().nan_to_num(neginf=0.0))
    norm = a.sum(-1) + took
    norm = torch.where(norm > 0, norm, 1.0)
    a, took = a / norm[..., None], took / norm
    o = (a @ v.repeat_interleave(group, 1)).permute(0, 2, 1, 3)
    gates = r.get("gates")
    gates = (torch.ones(o.shape[:3], device="cuda") if gates is None
             else gates).double().requires_grad_()
    mu = r.get("replacement")
    counts = torch.ones_like(gates)
    if r.get("query_lengths") is not None:
        i = torch.arange(o.shape[1], device="cuda")
        counts = (i[None] < r["query_lengths"][:, None]).double()[
            ..., None].expand_as(gates)
    out = gates[..., None] * o
    if mu is not None:
        out = out + (1 - gates[..., None]) * mu.double()
    out = out * counts[..., None]
    found = {"out": out, "ungated": o, "lse": lse,
             "seen": seen.any(-1), "a": a, "missing": took}
    with torch.no_grad():
        logs = logs_of(a)
        found["entropy"] = -(a * logs).sum(-1)
        found["max"] = a.amax(-1)
        j = torch.arange(a.shape[-1], device="cuda")
        found["distance"] = (a * (p - j).abs()[:, None]).sum(-1)
        found["received"] = a.sum(-2)
        found["visible"] = seen.sum(-1).double()
        found["position"] = p[:, None, :, 0].expand(a.shape[:3])
        found.update(observe(r, a, p, logs))
    if r.get("dout") is not None:
        keep = torch.ones(out.shape[2], device="cuda")
        if r.get("active") is not None:
            keep[:] = 0
            keep[r["active"]] = 1
        dout = r["dout"].double().nan_to_num()
        loss = (out * dout * keep[:, None]).sum()
        if r.get("dentropy") is not None:
            entropy = -(a * logs_of(a)).sum(-1)
            dentropy = r["dentropy"].double().nan_to_num()
            loss = loss + (entropy * dentropy * keep[:, None]).sum()
        dq, dk, dv, dg, dz, ds = torch.autograd.grad(
            loss, (q, k, v, gates, shaped_z, sinks))
        found.update(dq=dq.permute(0, 2, 1, 3), dk=dk.permute(0, 2, 1, 3),
                     dv=dv.permute(0, 2, 1, 3), dgates=dg,
                     gate_terms=(dout * o).abs().sum(-1))
        if r.get("drelative_table") is not None:
            found.update(table_gradient(r, dz, p))
        if r.get("sink_logits") is not None:
            found.update(sink_gradient(ds))
            with torch.no_grad():
                found.update(rounding_of_delta(
                    q, k, a, o, gates[..., None] * dout, scale))
    return {n: t.detach() for n, t in found.items()}
