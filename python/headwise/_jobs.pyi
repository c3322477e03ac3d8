"""Keywords of functions. Made by tools/make_python_stubs.py."""
import os
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypedDict, TypeVar

from ._inputs import Progress

F = TypeVar("F", bound=Callable[..., Any])

def keywords(function: F) -> F: ...
def call(function: Callable[..., Any], *given: Any, progress: Progress = False,
         **options: Any) -> Any: ...

class LoadKeywords(TypedDict, total=False):
    type: str | None
    """what it computes in, f32, bf16 or f16; without it f32 on the CPU and bf16
    on a GPU; default: None"""
    threads: int
    """0: every core; results do not depend on it (of at least 0); default: 0"""
    bos: Literal["auto", "yes", "no"]
    """whether texts begin with the begin token; auto: as its files say (auto,
    yes or no); default: 'auto'"""
    implementations: str
    """implementations of operators to take: operator=name,…; default: ''"""
    weight_memory: int | None
    """bytes for weights that are packed for products, on the CPU; without it no
    limit; weights beyond it are packed at each product anew: the same results,
    slower (of at least 0); default: None"""

class TrainKeywords(TypedDict, total=False):
    resume: bool
    """continue the run in its folder, bit for bit; default: False"""
    force: bool
    """begin anew in a folder that holds a run or a model, and replace it;
    default: False"""
    conllu: str | os.PathLike[str] | None
    """treebank in CoNLL-U, a file or a folder, for syntactic roles; default:
    None"""
    coref: str | os.PathLike[str] | None
    """coreference in CoNLL, a file or a folder; default: None"""
    pairs: str | os.PathLike[str] | None
    """lines source<TAB>target, for translation heads of encoder–decoders: links
    between words are learnt from them; default: None"""
    timeline: str | os.PathLike[str] | None
    """write when each rank computed and when gradients were added up, of the
    first 20 steps, as a trace for ui.perfetto.dev; default: None"""
    settings: str | Iterable[str]
    """more fields over the configuration: {"model.hidden_size": 128}; default:
    ()"""
    device: str
    """cpu, cuda, cuda:1, or auto: a GPU where there is one; default: 'cpu'"""
    type: str | None
    """what it computes in, f32, bf16 or f16; without it f32 on the CPU and bf16
    on a GPU; default: None"""
    threads: int
    """0: every core; results do not depend on it (of at least 0); default: 0"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class ExportKeywords(TypedDict, total=False):
    twin: bool
    """write the shapes of the original, with zeros for heads that were removed
    (huggingface); default: False"""
    tokenizer: bool
    """write the tokenizer too; gguf can do without, for ids; default: True"""
    force: bool
    """replace what is at out: a file, or a folder with a model and nothing
    else; default: False"""
    type: str | None
    """of weights, f32, bf16 or f16; None: as stored; default: None"""

class RunKeywords(TypedDict, total=False):
    out: bool
    """the logits, which are large for long texts; default: True"""
    target: str | None
    """encoder–decoders: what the decoder reads; default: None"""

class LossKeywords(TypedDict, total=False):
    seed: int
    """of masks and intervals; default: 0"""
    partial: str | os.PathLike[str] | None
    """file in which work that is stopped or killed keeps what it has; default:
    None"""
    checkpoint_seconds: float
    """seconds between copies of what it has; 0: only when stopped (of at least
    0); default: 60.0"""
    resume: bool
    """go on with interrupted work of the same model, text and settings;
    default: False"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class EmbedKeywords(TypedDict, total=False):
    pooling: Literal["auto", "cls", "max", "mean", "mean-sqrt", "weighted-mean", "last"]
    """what is made of the states of a text's tokens; auto: as modules.json
    beside the model says, or the mean (auto, cls, max, mean, mean-sqrt,
    weighted-mean or last); default: 'auto'"""
    normalize: Literal["auto", "yes", "no"]
    """make vectors as long as 1; auto: as modules.json says (auto, yes or no);
    default: 'auto'"""
    prompt: str | None
    """put before each text; without it the model's default prompt; default:
    None"""
    context: int
    """tokens of a text, beyond which it is cut; 0: as the model's files say (of
    at least 0); default: 0"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

CompareKeywords = LossKeywords

class GenerateKeywords(TypedDict, total=False):
    context: int
    """most positions; 0: as many as the model knows (of at least 0); default:
    0"""
    truncate: bool
    """keep the last tokens of a prompt that is too long; default: False"""
    beam: int
    """beams of an encoder–decoder (of at least 1); default: 1"""
    length_penalty: float
    """beams are compared by log p / length^penalty; default: 1.0"""
    temperature: float
    """0: the likeliest token; higher: more varied (of at least 0); default:
    0.0"""
    top_k: int
    """sample among the k likeliest; 0: all (of at least 0); default: 0"""
    top_p: float
    """sample among the likeliest that hold this much probability (above 0 and
    up to 1); default: 1.0"""
    seed: int
    """same seed, same text; default: 0"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class AttentionKeywords(TypedDict, total=False):
    received: bool
    """also what each key gets of all queries; default: False"""
    target: str | None
    """encoder–decoders: what the decoder reads; default: None"""

MeansKeywords = LossKeywords

class ProfileKeywords(TypedDict, total=False):
    min_visible: int
    """leave out queries that see fewer keys (of at least 0); default: 8"""
    repeats: int
    """sequences of the random-repeat test; 0: none (from 0 to 10000); default:
    32"""
    sentences: bool
    """make each sentence a sequence of its own, as rare-token heads are
    defined; default: False"""
    words: bool
    """also position metrics between words (words.previous …); looks at every
    row again; default: False"""
    means: bool
    """also what every head gives on average, for evaluate and prune; reads the
    text a second time; default: False"""
    conllu: str | os.PathLike[str] | None
    """treebank in CoNLL-U, a file or a folder, for syntactic roles; default:
    None"""
    coref: str | os.PathLike[str] | None
    """coreference in CoNLL, a file or a folder; default: None"""
    pairs: str | os.PathLike[str] | None
    """lines source<TAB>target, for translation heads of encoder–decoders: links
    between words are learnt from them; default: None"""
    first_piece: bool
    """a split word attends as its first piece does, not as their mean; default:
    False"""
    patterns: str | Iterable[str | os.PathLike[str]]
    """detectors of your own (docs/patterns.md); default: ()"""
    partial: str | os.PathLike[str] | None
    """file in which work that is stopped or killed keeps what it has; default:
    None"""
    checkpoint_seconds: float
    """seconds between copies of what it has; 0: only when stopped (of at least
    0); default: 60.0"""
    resume: bool
    """go on with interrupted work of the same model, text and settings;
    default: False"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class RolesKeywords(TypedDict, total=False):
    repeat_form: Literal["25x4", "50x2"]
    """form of the random-repeat test, 25 tokens four times or 50 twice, in
    which older figures are given (25x4 or 50x2); default: '25x4'"""
    words: bool
    """positions count words instead of tokens; default: False"""
    sequences: int
    """random repeats that each role is confirmed on (of at least 1); default:
    8"""

class RankKeywords(TypedDict, total=False):
    least_negative: float
    """a head hurts when closing it lowers the loss by more than this share of
    it, on both halves of the text; 0: by anything that is no accident (from 0
    to 1); default: 0.001"""
    pairs: bool
    """also close the top 24 heads in pairs: backup heads; default: False"""
    self_repair: bool
    """also measure the part of a head's direct effect on the right token's
    logit that later heads take over when it is closed; default: False"""
    per_layer: bool
    """divide gradients by the L2 norm of their layer's; default: False"""
    seed: int
    """of masks, resampling, intervals; default: 0"""
    partial: str | os.PathLike[str] | None
    """file in which work that is stopped or killed keeps what it has; default:
    None"""
    checkpoint_seconds: float
    """seconds between copies of what it has; 0: only when stopped (of at least
    0); default: 60.0"""
    resume: bool
    """go on with interrupted work of the same model, text and settings;
    default: False"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class PatchKeywords(TypedDict, total=False):
    seed: int
    """of intervals; default: 0"""
    partial: str | os.PathLike[str] | None
    """file in which work that is stopped or killed keeps what it has; default:
    None"""
    checkpoint_seconds: float
    """seconds between copies of what it has; 0: only when stopped (of at least
    0); default: 60.0"""
    resume: bool
    """go on with interrupted work of the same model, text and settings;
    default: False"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class SimilarKeywords(TypedDict, total=False):
    rows: int
    """queries sampled for the exact divergence (of at least 1); default: 128"""
    samples: int
    """tokens sampled for comparing outputs (of at least 1); default: 256"""
    min_visible: int
    """leave out queries that see fewer keys (of at least 0); default: 8"""
    twin: float
    """heads with a divergence below this are twins (from 0 to 1); default:
    0.05"""
    cut: float
    """heads are grouped up to this mean distance (Hellinger) (from 0 to 1);
    default: 0.3"""
    partial: str | os.PathLike[str] | None
    """file in which work that is stopped or killed keeps what it has; default:
    None"""
    checkpoint_seconds: float
    """seconds between copies of what it has; 0: only when stopped (of at least
    0); default: 60.0"""
    resume: bool
    """go on with interrupted work of the same model, text and settings;
    default: False"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class ComposeKeywords(TypedDict, total=False):
    by: Literal["weights", "effect"]
    """order of edges (weights or effect); default: 'weights'"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class ReportKeywords(TypedDict, total=False):
    profile: str | os.PathLike[str] | None
    """use this profile instead of making one; default: None"""
    rank_tokens: int
    """most tokens for importance, similarity and path effects, which run the
    model once a head; 0: all (of at least 0); default: 2048"""
    skip: str | Iterable[str]
    """parts to leave out (importance, similarity, composition, content or
    samples); default: ()"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class AtlasKeywords(TypedDict, total=False):
    profile: str | os.PathLike[str] | None
    """use this profile instead of making one; default: None"""
    strongest: int
    """sequences that are kept where a head is strongest (from 1 to 1000);
    default: 10"""
    samples: int
    """sequences that are kept of each lower interval, at most (from 0 to 1000);
    default: 2"""
    intervals: int
    """intervals of a head's largest attention in a sequence, of equally many
    sequences each (from 1 to 100); default: 10"""
    drawn: int
    """sequences drawn at random, which give the intervals and their samples
    (from 1 to 100000); default: 512"""
    keys: int
    """keys of a query that are kept of a map, at most (from 1 to 1024);
    default: 8"""
    least: float
    """attention below this is not kept of a map (from 0 to 1); default:
    0.005"""
    profile_tokens: int
    """most tokens for roles and for the metrics with intervals, the first of
    the text; 0: all (of at least 0); default: 131072"""
    rank_tokens: int
    """most tokens for importance, which runs the model once a head; 0: all (of
    at least 0); default: 2048"""
    skip: str | Iterable[str]
    """parts to leave out (importance or content); default: ()"""
    partial: str | os.PathLike[str] | None
    """file in which work that is stopped or killed keeps what it has; default:
    None"""
    checkpoint_seconds: float
    """seconds between copies of what it has; 0: only when stopped (of at least
    0); default: 60.0"""
    resume: bool
    """go on with interrupted work of the same model, text and settings;
    default: False"""
    context: int
    """tokens of a window; 0: what suits the work (losses and rankings 256,
    profiles of encoders 128, else 512), or what the model knows (of at least
    0); default: 0"""
    tokens: int | None
    """stop after so many tokens, at the end of a window; 0: read everything (of
    at least 0); default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""

class ShowKeywords(TypedDict, total=False):
    cells: int
    """rows and columns of the map; longer texts are pooled (from 1 to 512);
    default: 96"""
    target: str | None
    """encoder–decoders: what the decoder reads; default: None"""
    progress: Progress
    """True: a line on stderr; or a function of (stage, done, total); default:
    False"""
