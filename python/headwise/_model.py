"""A model from its folder, ready to run."""
from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from . import _headwise
from ._headwise import Intervention, Means
from ._inputs import (BYTES, Head, HeadLike, Progress, Text, head_name,
                      head_names, id_row, is_ids, one_text, text_input, utf8)
from ._jobs import call, keywords
from ._profile import HeadRoles, Profile, find_roles
from ._results import (Atlas, Attention, Composition, HeadWeights, Interval,
                       Patching, Picture, Ranking, Report, Similarity, Table)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _jobs

#: A range of tokens: (begin, end), a slice, or one position; None: all.
Range = Union[None, int, "tuple[int, int]", slice]
HookFunction = Callable[[str, Any], Any]


class Loss(float):
    """Nats a prediction, with its 95 % interval and what it is of."""
    low: float
    high: float
    kind: str
    sequences: int
    tokens: int

    def __repr__(self) -> str:
        return (f"{float(self):.4f} [{self.low:.4f}, {self.high:.4f}] "
                f"({self.kind}, {self.tokens} tokens)")


class Generated(str):
    """What follows a prompt, with its token ids."""
    ids: list[int]
    prompt: list[int]


def _range(part: Range, what: str) -> tuple[int, int]:
    if part is None:
        return (0, 0)
    if isinstance(part, (int, np.integer)):
        return (int(part), int(part) + 1)
    if isinstance(part, slice):
        if part.step not in (None, 1):
            raise ValueError(f"[{what}] expected a slice without a step; found "
                             f"{part}")
        return (part.start or 0, part.stop or 0)
    begin, end = part
    return (int(begin), int(end))


def _checked(function: HookFunction) -> HookFunction:
    """What the engine calls: an array that is returned replaces x."""
    def call(site: str, x: Any) -> None:
        result = function(site, x)
        if isinstance(x, np.ndarray):
            if result is None or result is x:
                return
            try:
                np.copyto(x, np.asarray(result), casting="same_kind")
            except (TypeError, ValueError):
                found = getattr(result, "shape", type(result).__name__)
                raise ValueError(
                    f"[hook {site}] expected an array that fits {x.shape} or "
                    f"None; found {found}") from None
            return
        if result is not None and result is not x:
            x.assign(_headwise.Tensor(result, x.stream))
    return call


def _unread(names: list[str], kind: str) -> str:
    named = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return (f"[weights] expected nothing but the model's tensors; found "
            f"{len(names)} that {kind} does not read: {named}; results are as "
            "if they were absent")


class Model:
    """A model with its tokenizer; load makes it.

    Edits and hooks count for every call until they are removed, whichever
    thread makes it; analyses of heads (profile, rank, …) refuse to run under
    them. Weights are never changed.
    """

    def __init__(self, made: _headwise.Model) -> None:
        self._model = made
        #: Name, family, width, layers, … as a dict.
        self.info: dict[str, Any] = made.info
        if unread := self.info["unread"]:
            warnings.warn(_unread(unread, self.info["model_type"]),
                          stacklevel=3)
        #: Every head: self, then decoder, then cross.
        self.heads = [Head(layer, head, kind)
                      for kind, layer, head in made.heads]

    # ---- What it is.

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.info["name"]

    @property
    def folder(self) -> str:
        return self._model.folder

    @property
    def hash(self) -> str:
        """Over names, types, shapes and bytes of the weights."""
        return self._model.hash

    @property
    def device(self) -> str:
        """"cpu" or "cuda:0"."""
        return self._model.device

    @property
    def layers(self) -> int:
        """How many layers; of the encoder, where there are two stacks."""
        return len(self.info["layers"])

    @property
    def edited(self) -> bool:
        """Whether an edit or a hook is in place."""
        return self._model.edited

    @property
    def activations(self) -> list[str]:
        """Every name that run(cache=…) knows."""
        return self._model.activations

    @property
    def weights(self) -> list[str]:
        """Names of weights in the checkpoint."""
        return self._model.weights

    def weight(self, name: str) -> np.ndarray:
        """A copy of one of them, f32."""
        return self._model.weight(name)

    def head(self, layer: int, head: int, kind: str = "self") -> HeadWeights:
        """W_Q, W_K, W_V, W_O, QK and OV of one head."""
        return HeadWeights(*_headwise.head_weights(
            self._model, head_name((layer, head, kind))))

    def encode(self, text: str) -> list[int]:
        """The text as ids, with what the model wants around it."""
        return self._model.encode(utf8(text))["ids"]

    def tokens(self, text: str) -> list[str]:
        """The text's tokens as the vocabulary writes them."""
        return self._model.encode(utf8(text))["tokens"]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Ids as text; special tokens are left out. ValueError for an id that
        stands for no token."""
        return self._model.decode(
            id_row(ids if isinstance(ids, BYTES) else np.ravel(ids)))

    def __repr__(self) -> str:
        return (f"Model({self.name}: {self.info['model_type']}, {self.layers} "
                f"layers, {len(self.heads)} heads, "
                f"{self.info['parameters']} parameters, on {self.device})")

    # ---- Running.

    @keywords
    def run(self, text: Text, cache: Iterable[str] | str | None = None,
            **options: Unpack[_jobs.RunKeywords]
            ) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
        """Runs one text; the logits [1, tokens, vocabulary] and activations.

        Models without a vocabulary head give their final states. out=False
        gives None. See activations for names.
        """
        _, result, kept = call(_headwise.run, self._model, one_text(text),
                               cache=cache, **options)
        return result, kept

    @keywords
    def loss(self, text: Text,
             **options: Unpack[_jobs.LossKeywords]) -> Loss:
        """The loss that the model is judged by, a float with .low and .high."""
        value, low, high, kind, sequences, count = call(
            _headwise.loss, self._model, text_input(text), **options)
        loss = Loss(value)
        loss.low, loss.high, loss.kind = low, high, kind
        loss.sequences, loss.tokens = sequences, count
        return loss

    @keywords
    def embed(self, texts: str | Iterable[str],
              **options: Unpack[_jobs.EmbedKeywords]) -> np.ndarray:
        """One vector a text, [texts, width], pooled as sentence-transformers
        does it.

        modules.json in the model's folder says how; without it the states of a
        text's tokens are averaged.
        """
        rows = [texts] if isinstance(texts, str) else list(texts)
        vectors, _, longest, cut = call(
            _headwise.embed, self._model,
            [utf8(text, "texts") for text in rows], **options)
        if cut:
            warnings.warn(f"[texts] {cut} of {len(rows)} are cut, to "
                          f"{max(longest)} tokens", stacklevel=2)
        return vectors

    @keywords
    def compare(self, whole: "Model", *texts: Text,
                **options: Unpack[_jobs.CompareKeywords]) -> Table:
        """This model beside the whole one that it was made of: a Table with a
        row for each text.

        Losses of both (whole, loss, change); of models that predict tokens the
        mean KL of their predictions (divergence) and the share with the same
        likeliest token (same_token); of encoders, over sentences, the cosine
        of their embeddings and the share with the same nearest other one
        (same_neighbour). Each is an Interval. texts: as of loss.
        """
        rows = call(_headwise.compare, self._model, whole._model,
                    [text_input(text) for text in texts], **options)
        return Table({name: Interval(*value) if isinstance(value, tuple)
                      else value for name, value in row.items()}
                     for row in rows)

    @keywords
    def generate(self, prompt: Text, max_tokens: int | None = None, *,
                 on_token: Callable[[int], Any] | None = None,
                 **options: Unpack[_jobs.GenerateKeywords]) -> Generated:
        """What follows a prompt, or its translation: a str with .ids.

        on_token is called with each id as it comes.
        """
        fed, ids, text = call(
            _headwise.generate, self._model, one_text(prompt, "prompt"),
            on_token, max_tokens=max_tokens, **options)
        said = Generated(text)
        said.ids, said.prompt = ids, fed
        return said

    @keywords
    def attention(self, text: Text, layer: int, head: int, kind: str = "self",
                  *, queries: Range = None, keys: Range = None,
                  cells: int | tuple[int, int] = 0, top: int | None = None,
                  top_queries: Sequence[int] | None = None,
                  **options: Unpack[_jobs.AttentionKeywords]) -> Attention:
        """Where a head looks: the matrix, or any part of it.

        queries, keys: a position, (begin, end) or a slice. cells: at most so
        many rows and columns, each the largest weight that falls into it.
        Without top_queries top is of the queries asked for, or the last one.
        A text of 100 000 tokens takes memory for what is asked alone: ask for
        a part or for cells.
        """
        rows = _range(queries, "queries")
        shown = (cells, cells) if isinstance(cells, int) else tuple(cells)
        given = one_text(text)
        if top and top_queries is None:
            if queries is None:
                count = len(self.encode(given) if isinstance(given, str)
                            else given)
                top_queries = [count - 1]
            else:
                top_queries = range(*rows)
        name = head_name((layer, head, kind))
        return Attention(call(
            _headwise.attention, self._model, given, name, rows,
            _range(keys, "keys"), shown, top=top, top_queries=top_queries,
            **options), name)

    # ---- Edits and hooks.

    def edit(self, drop: Iterable[HeadLike] | str = (),
             gate: Mapping[HeadLike, float] = {},
             mean: Profile | Means | Text | None = None) -> Intervention:
        """Heads switched off (drop) or turned down (gate), until removed:

            with m.edit(drop=[(5, 1)], gate={(3, 2): 0.5}): m.loss(text)

        mean: a text, the profile of one, or means(): what is taken away is
        replaced by the head's mean output there, and not by zero.
        """
        if isinstance(mean, Profile):
            if mean._text is None:
                raise ValueError("[mean] expected a profile made by "
                                 "Model.profile on a text; found one that was "
                                 "loaded, merged or made without; pass the "
                                 "text or means(text)")
            mean = _headwise.means(self._model, mean._text)
        elif mean is not None and not isinstance(mean, Means):
            mean = self.means(mean)
        return self._model.edit(
            head_names(drop),
            {head_name(head): float(value) for head, value in gate.items()},
            mean)

    def hook(self, site: str, function: HookFunction) -> Intervention:
        """Calls function(site, x) with what flows past a place of the model.

        site: a name of activations, * and ? match ("layer.*.attention.query");
        logits and .probs have no hook. x is an array [tokens, heads, width] of
        query, key, value and head_output, else [tokens, width]: change it in
        place, or return what replaces it. It may be kept. What function raises
        ends the run. It must not run the model.
        """
        if not callable(function):
            raise ValueError(f"[hook] expected a function of (site, x); found "
                             f"{type(function).__name__}")
        return self._model.hook(site, _checked(function))

    @keywords
    def means(self, text: Text,
              **options: Unpack[_jobs.MeansKeywords]) -> Means:
        """Mean outputs of all heads over a text, for edit(mean=…)."""
        return call(_headwise.means, self._model, text_input(text), **options)

    # ---- Analyses.

    @keywords
    def profile(self, text: Text | None = None, metrics: str | None = None,
                **options: Unpack[_jobs.ProfileKeywords]) -> Profile:
        """What every head does on a text; without one, on random repeats."""
        given = text_input(text)
        made = call(_headwise.profile, self._model, given, metrics=metrics,
                    **options)
        return Profile(made, None if text is None else given)

    @keywords
    def roles(self, profile: Profile | Text | None = None,
              thresholds: Mapping[str, float] | None = None, *,
              confirm: bool = False, progress: Progress = False,
              **options: Unpack[_jobs.RolesKeywords]) -> list[HeadRoles]:
        """What each head does, by a profile or a text.

        confirm: also switch every such head off, and see what becomes of the
        behaviour that its role would explain (Role.check).
        """
        if not isinstance(profile, Profile):
            profile = self.profile(profile, progress=progress)
        return find_roles(profile._profile, self._model if confirm else None,
                          progress=progress, thresholds=thresholds, **options)

    @keywords
    def rank(self, text: Text, by: Iterable[str] | str | None = None, *,
             profile: Profile | None = None,
             **options: Unpack[_jobs.RankKeywords]) -> Ranking:
        """How much every head matters on a text. profile: tells heads without a
        role."""
        return Ranking(call(_headwise.rank, self._model, text_input(text),
                            profile and profile._profile, by=by, **options))

    @keywords
    def patch(self, prompt: Any, counterfactual: Text = "",
              answers: tuple[Any, Any] | None = None,
              **options: Unpack[_jobs.PatchKeywords]) -> Patching:
        """Which heads a prediction comes from.

        The logit of answers[0] less that of answers[1] after the prompt, cut
        into what each part adds (.direct), and how much of it goes when a
        head's output is that of the counterfactual's run (.share), a text of
        as many tokens. Many at once: a list of (prompt, counterfactual,
        (answer, other)) as prompt.
        """
        if answers is None and not isinstance(prompt, str):
            cases = [(p, c, *two) for p, c, two in prompt]
        elif answers is None or len(answers) != 2:
            raise ValueError("[answers] expected two, whose logits are "
                             f"compared; found {answers!r}")
        else:
            if is_ids(prompt) and not counterfactual:
                counterfactual = []
            cases = [(prompt, counterfactual, *answers)]
        cases = [tuple(
            utf8(one, "patch") if isinstance(one, str) else
            id_row([one])[0] if isinstance(one, (int, np.integer)) else
            id_row(one) for one in case) for case in cases]
        if len({isinstance(one, str) for case in cases for one in case}) > 1:
            raise ValueError("[patch] expected texts alone or ids alone; found "
                             "both")
        found = call(_headwise.patch, self._model, cases, **options)
        kind = "decoder" if self.info["encoder_decoder"] else "self"
        return Patching(found, [head for head in self.heads
                                if head.kind == kind])

    def attribution(self, prompt: Text, answers: tuple[Any, Any]) -> Patching:
        """Direct logit attribution: what each head (.direct), feed-forward
        (.mlps) and the embedding add to the logit of answers[0] less that of
        answers[1] after the prompt. patch without a counterfactual."""
        return self.patch(prompt, answers=answers)

    @keywords
    def similar(self, text: Text,
                **options: Unpack[_jobs.SimilarKeywords]) -> Similarity:
        """Which heads are alike on a text."""
        return Similarity(call(_headwise.similar, self._model, text_input(text),
                               **options), self.heads)

    @keywords
    def compose(self, text: Text | None = None, *, top: int = 40,
                **options: Unpack[_jobs.ComposeKeywords]) -> Composition:
        """Which heads feed which, from the weights; with a text also how much
        the receiver's input changes without the sender. top: edges that its
        picture shows."""
        given = None if text is None else text_input(text)
        return Composition(*call(_headwise.compose, self._model, given, top,
                                 **options))

    @keywords
    def report(self, text: Text | None = None,
               **options: Unpack[_jobs.ReportKeywords]) -> Report:
        """Everything that is known of the heads, as one page; text: files."""
        return Report(*call(_headwise.report, self._model, text_input(text),
                            **options))

    @keywords
    def atlas(self, text: Text, folder: str | os.PathLike[str],
              **options: Unpack[_jobs.AtlasKeywords]) -> Atlas:
        """A page for every head, written into a folder: index.html, which opens
        from disk, and data/ for HeadVis' viewer."""
        return Atlas(os.fspath(folder),
                     call(_headwise.atlas, self._model, text_input(text),
                          os.fspath(folder), **options), self.heads)

    @keywords
    def show(self, text: str, layer: int | None = None,
             head: int | None = None, *,
             heads: Iterable[HeadLike] | str | None = None,
             **options: Unpack[_jobs.ShowKeywords]) -> Picture:
        """A picture of where heads look: of one, of a layer, or of `heads`."""
        if heads is None:
            heads = [one for one in self.heads
                     if layer in (None, one.layer) and head in (None, one.head)]
        return Picture(call(_headwise.show, self._model, one_text(text),
                            head_names(heads), **options))

    # ---- What is asked for daily.

    def induction_scores(self, sequences: int = 32) -> np.ndarray:
        """[layers, heads]: mean attention, on random tokens that repeat, to
        the token after the last time that the present one was there."""
        return self.profile(None, repeats=sequences)["repeats.induction"]

    def logit_lens(self, text: Text,
                   positions: Sequence[int] | int | None = None
                   ) -> np.ndarray:
        """What the model would say if it ended after each layer.

        f32 [layers + 1, positions, vocabulary]: row 0 is the embedding's, the
        last the model's own. positions: of tokens, from the end where
        negative; None: all.
        """
        if not self.info["causal"] or self.info["encoder_decoder"]:
            raise ValueError("[logit_lens] expected a decoder-only model; "
                             f"found {self.info['model_type']}")
        given = one_text(text)
        ids = self.encode(given) if isinstance(given, str) else given
        count = len(ids)
        chosen = np.arange(count)[
            slice(None) if positions is None else np.atleast_1d(positions)]
        last = f"layer.{self.layers - 1}.output"
        _, cache = self.run(ids, ["layer.0.input", "layer.*.output"], out=False)
        names = ["layer.0.input"] + [f"layer.{i}.output"
                                     for i in range(self.layers)]
        states = np.concatenate([cache[name][0, chosen] for name in names])
        # The last norm and the vocabulary see one position at a time, so a run
        # of the text takes as many states as it has tokens.
        logits = []
        for begin in range(0, len(states), count):
            part = states[begin:begin + count]

            def put(site: str, x: np.ndarray, part: np.ndarray = part) -> None:
                x[:len(part)] = part
            with self.hook(last, put):
                logits.append(self.run(ids)[0][0, :len(part)])
        return np.concatenate(logits).reshape(self.layers + 1, len(chosen), -1)


@keywords
def load(folder: str | os.PathLike[str], device: str | None = None,
         **options: Unpack[_jobs.LoadKeywords]) -> Model:
    """Opens a model's folder: config.json, safetensors and a tokenizer.

    Weights are mapped: two models of one folder share them. Warns of tensors
    that the model does not read: info["unread"] names them.
    """
    return Model(call(_headwise.load, os.fspath(folder), device=device,
                      **options))
