// The words for every metric. Door: definitions.h.
#include "headwise/heads/profile/definitions.h"

#include <algorithm>
#include <array>

namespace headwise {
namespace {

constexpr std::array kDefinitions = {
    MetricDefinition{"previous", "mean mass on the token before, A[i, i−1]",
                     "uniform causal attention over few keys scores too"},
    MetricDefinition{"next", "mean mass on the token after, A[i, i+1]",
                     "impossible under a causal mask"},
    MetricDefinition{"self", "mean mass on the token itself, A[i, i]", ""},
    MetricDefinition{"offset.K", "mean mass K places away, A[i, i+K], |K| ≤ 8",
                     ""},
    MetricDefinition{"local", "mass within four places of the query",
                     "short sequences are all local"},
    MetricDefinition{"first", "mean mass on the first token, A[i, 0], i > 0",
                     "a head at rest looks there; see .content"},
    MetricDefinition{"last", "mean mass on the last token",
                     "only without a causal mask; in encoders it is often "
                     "[SEP]"},
    MetricDefinition{"sink",
                     "mean mass on the sinks: the first token, special tokens "
                     "and keys that receive more than .3 on average in this "
                     "head, from at least a quarter of the rows",
                     "in short sequences an often-read word can be a sink"},
    MetricDefinition{"content", "mean mass off the sinks, c", ""},
    MetricDefinition{"entropy", "mean of −Σ A ln A, in nats", "", kNotNegative},
    MetricDefinition{"entropy.normalised",
                     "entropy divided by the logarithm of the number of "
                     "visible keys",
                     ""},
    MetricDefinition{
        "gate",
        "mean gate of the head, where the model chooses its heads "
        "(hard concrete, mixture)",
        "other heads and W_O make up for a scale: compare within a layer",
        kNotNegative},
    MetricDefinition{"gate.open", "share of tokens whose gate is above 0", ""},
    MetricDefinition{"broad",
                     "share of rows whose normalised entropy is above .8",
                     "says nothing of which keys are read"},
    MetricDefinition{"max", "mean of the largest probability", ""},
    MetricDefinition{"confidence",
                     "mean of the largest probability, a special last token "
                     "left out",
                     ""},
    MetricDefinition{"distance", "mean of Σ A·|i − j|", "long tails weigh",
                     kNotNegative},
    MetricDefinition{"distance.argmax",
                     "mean distance of the most attended key", "",
                     kNotNegative},
    MetricDefinition{"delimiter",
                     "mass on punctuation and special tokens; the first token "
                     "only where it is [CLS]",
                     "three things in one: see its parts"},
    MetricDefinition{"delimiter.cls", "mass on [CLS]", ""},
    MetricDefinition{"delimiter.sep",
                     "mass on special tokens that are not the first", ""},
    MetricDefinition{"delimiter.punctuation", "mass on punctuation", ""},
    MetricDefinition{"duplicate",
                     "mass on earlier positions with the same token",
                     "in text, frequent words repeat everywhere; random "
                     "repeats do not have this fault"},
    MetricDefinition{"induction",
                     "mass on positions right after an earlier occurrence of "
                     "the current token; on random repeats the prefix-matching "
                     "score",
                     "in text, fixed phrases let other heads score"},
    MetricDefinition{"rare.argmax",
                     "share of rows whose most attended key is the rarest "
                     "token of their sentence, where that one is rare; causal "
                     "rows after it only",
                     "frequencies are those of the text given"},
    MetricDefinition{"rare.mass", "mass on rare tokens", ""},
    MetricDefinition{"semantic",
                     "rank correlation between attention and the cosine of "
                     "input embeddings over the visible keys; self, adjacent, "
                     "same-token, same-word and special keys left out; "
                     ".chance: the same with permuted embeddings",
                     "on sampled rows", kShareDifference},
    MetricDefinition{"copying.run",
                     "what the head's own output adds to the logit of the "
                     "token that it reads most, above the mean logit, in "
                     "logits; on 25 random tokens twice over, rows whose most "
                     "attended key is one of them, but not the sequence's "
                     "first. Above 0 it copies, below 0 "
                     "it suppresses",
                     "of the direct path alone; what later layers make of the "
                     "output is not in it",
                     Bounds{}},
    MetricDefinition{"copying",
                     "by weights: Σ Re λ / Σ |λ| of the eigenvalues of "
                     "W_V·W_O",
                     "weights alone: embeddings are not what a head reads "
                     "behind the first feed-forward; copying.run says what "
                     "the head does",
                     kShareDifference},
    MetricDefinition{"copying.vocabulary",
                     "by weights: the same of W_E·W_V·W_O·W_U, from tokens to "
                     "logits",
                     "misleads where embeddings are tied or rewritten by the "
                     "first feed-forward: −.67 was seen of an induction head "
                     "that copies",
                     kShareDifference},
    MetricDefinition{"retrieval",
                     "share of needle tokens about to be produced for which "
                     "the most attended key is that token in the needle; ten "
                     "random tokens in a haystack of 240",
                     "an induction head does this too"},
    MetricDefinition{"monotone", "cross-attention: mass with |j − i·M/N| ≤ 2",
                     "sources of "
                     "five tokens are all diagonal"},
    MetricDefinition{"source-end",
                     "cross-attention: mass on the last source token", ""},
    MetricDefinition{"syntactic.R.up",
                     "share of words whose most attended other word is their "
                     "governor by relation R (.down: a dependent)",
                     "compare with the best fixed offset"},
    MetricDefinition{"coreference",
                     "share of coreferent mentions whose head word attends "
                     "most, among mention heads, to an antecedent; mentions "
                     "whose candidates are all antecedents do not count",
                     "compare with the nearest mention and the same word"},
    MetricDefinition{"translation",
                     "share of target words whose most attended source word "
                     "is their IBM Model 1 link",
                     "compare with the diagonal"},
    MetricDefinition{"pattern.NAME",
                     "mass on the keys that the user's detector NAME gives",
                     ""},
};

constexpr std::array kForms = {
    MetricDefinition{".chance",
                     "what uniform attention over the visible keys would get",
                     ""},
    MetricDefinition{".content",
                     "with the sinks left out: mass / c, weighted by c", ""},
    MetricDefinition{".argmax",
                     "share of rows whose most attended key is a target; "
                     ".content.argmax: outside the sinks, weighted by c",
                     ""},
    MetricDefinition{"words.",
                     "between words, not tokens: attention to a split word is "
                     "the sum over its pieces, from it their mean",
                     ""},
    MetricDefinition{
        "repeats.",
        "on random tokens: 25 distinct ones four times over after "
        "the first token, drawn from the middle of the vocabulary; "
        "repeats-50x2: 50 distinct ones twice",
        ""},
};

constexpr std::array kRows = {
    MetricDefinition{"special tokens",
                     "rows of special tokens are left out: the model's <bos>, "
                     "<eos>, <pad> and decoder start, and what frames a "
                     "sequence ([CLS], [SEP])",
                     "as keys they are seen, and attention to them counts "
                     "(first, delimiter, sink)"},
    MetricDefinition{"the first token",
                     "the first row of a sequence is left out, but in "
                     "cross-attention",
                     ""},
    MetricDefinition{"few keys",
                     "rows that see fewer keys than the profile's "
                     "min_visible (8 unless told otherwise) are left out",
                     "over four keys uniform causal attention already puts a "
                     "third of its mass on the token before"},
    MetricDefinition{"no target",
                     "rows from which nothing that is asked for can be seen "
                     "do not count for that metric",
                     ""},
};

// "offset.-3" is one of "offset.K".
bool Covers(std::string_view name, std::string_view metric) {
  if (name == metric) return true;
  for (const std::string_view many : {"offset.", "pattern.", "syntactic."}) {
    if (name.starts_with(many)) return metric.starts_with(many);
  }
  return false;
}

}  // namespace

std::span<const MetricDefinition> MetricDefinitions() { return kDefinitions; }

std::span<const MetricDefinition> RowDefinitions() { return kRows; }

std::span<const MetricDefinition> MetricForms() { return kForms; }

const MetricDefinition* FindDefinition(std::string_view metric) {
  if (metric.starts_with("repeats") || metric.starts_with("words.")) {
    metric.remove_prefix(std::min(metric.find('.') + 1, metric.size()));
  }
  while (true) {
    for (const MetricDefinition& definition : kDefinitions) {
      if (Covers(definition.name, metric)) return &definition;
    }
    const size_t point = metric.rfind('.');
    if (point == metric.npos) return nullptr;
    metric = metric.substr(0, point);
  }
}

Bounds BoundsOf(std::string_view metric) {
  const MetricDefinition* definition = FindDefinition(metric);
  return definition != nullptr ? definition->bounds : kShare;
}

}  // namespace headwise
