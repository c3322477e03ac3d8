// The one table of head metrics: a row has a metric's name, its words, how it
// misleads, what it can be, and what is summed for it over the rows of
// attention. Serves the sums of host and device (rows/), --explain, the
// documentation and the report.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/base/intervals.h"

#ifdef __CUDACC__
#define HEADWISE_ROW_HD __host__ __device__ __forceinline__
#else
#define HEADWISE_ROW_HD inline
#endif

namespace headwise {

// A row of attention adds this to a metric. It counts with weight 1 for a
// number of its own, and for mass on targets where it sees one of them; off the
// sinks with the mass that it has there.
enum class RowSum : uint8_t {
  kNone,  // nothing: the metric is not summed over rows
  // Numbers of a row.
  kEntropy,
  kEntropyShare,  // by the logarithm of the number of visible keys
  kLargest,       // share
  kLargestBeforeEnd,
  kDistance,
  kLargestDistance,  // of the largest key
  kContent,          // mass off the sinks
  // Mass on targets.
  kNear,     // from `first` to `last` places away
  kTargets,  // row.h finds them
  kOffset,   // one place away: all offsets are kept, in all forms
};
HEADWISE_ROW_HD constexpr bool IsNumber(RowSum sum) {
  return sum >= RowSum::kEntropy && sum <= RowSum::kContent;
}
// Whether queries and keys have to be places of one sequence.
HEADWISE_ROW_HD constexpr bool IsOfSelfAttention(RowSum sum) {
  return sum == RowSum::kDistance || sum == RowSum::kLargestDistance ||
         sum == RowSum::kNear || sum == RowSum::kOffset;
}

// The forms that are kept of mass on targets.
enum TargetForm : int {
  kFormScore = 1,    // mean mass on the targets, and of uniform attention
  kFormContent = 2,  // the same off the sinks
  kFormArgmax = 4,   // share of rows whose largest key is a target
  kFormContentArgmax = 8,
  kFormsMass = kFormScore | kFormContent,
  kFormsAll = kFormsMass | kFormArgmax | kFormContentArgmax,
};

struct MetricRows {
  RowSum sum = RowSum::kNone;
  int forms = 0;      // of mass; TargetForm
  bool core = false;  // among those that cost next to nothing
  // A number becomes the share of rows where it is above this.
  double above = Bounds::kInfinity;
  int first = 0, last = 0;  // kNear
};

struct MetricDefinition {
  const char* name = "";  // "offset.K" and "syntactic.R.up" stand for many
  const char* sentence = "";
  const char* trap = "";   // "": none
  Bounds bounds = kShare;  // what it can be
  MetricRows rows = {};
};

inline constexpr MetricDefinition kHeadMetrics[] = {
    {.name = "previous",
     .sentence = "mean mass on the token before, A[i, i−1]",
     .trap = "uniform causal attention over few keys scores too",
     .rows = {.sum = RowSum::kOffset, .core = true}},
    {.name = "next",
     .sentence = "mean mass on the token after, A[i, i+1]",
     .trap = "impossible under a causal mask",
     .rows = {.sum = RowSum::kOffset, .core = true}},
    {.name = "self",
     .sentence = "mean mass on the token itself, A[i, i]",
     .rows = {.sum = RowSum::kOffset, .core = true}},
    {.name = "offset.K",
     .sentence = "mean mass K places away, A[i, i+K], |K| ≤ 8",
     .rows = {.sum = RowSum::kOffset}},
    {.name = "local",
     .sentence = "mass within four places of the query",
     .trap = "short sequences are all local",
     .rows =
         {.sum = RowSum::kNear, .forms = kFormsMass, .first = -4, .last = 4}},
    {.name = "first",
     .sentence = "mean mass on the first token, A[i, 0], i > 0",
     .trap = "a head at rest looks there; see .content",
     .rows = {.sum = RowSum::kTargets,
              .forms = kFormScore | kFormArgmax,
              .core = true}},
    {.name = "last",
     .sentence = "mean mass on the last token",
     .trap = "only without a causal mask; in encoders it is often "
             "[SEP]",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsAll}},
    {.name = "sink",
     .sentence = "mean mass on the sinks: the first token, special tokens "
                 "and keys that receive more than .3 on average in this "
                 "head, from at least a quarter of the rows",
     .trap = "in short sequences an often-read word can be a sink",
     .rows = {.sum = RowSum::kTargets, .forms = kFormScore | kFormArgmax}},
    {.name = "content",
     .sentence = "mean mass off the sinks, c",
     .rows = {.sum = RowSum::kContent}},
    {.name = "entropy",
     .sentence = "mean of −Σ A ln A, in nats",
     .bounds = kNotNegative,
     .rows = {.sum = RowSum::kEntropy, .core = true}},
    {.name = "entropy.normalised",
     .sentence = "entropy divided by the logarithm of the number of "
                 "visible keys",
     .rows = {.sum = RowSum::kEntropyShare, .core = true}},
    {.name = "gate",
     .sentence = "mean gate of the head, where the model chooses its heads "
                 "(hard concrete, mixture)",
     .trap = "other heads and W_O make up for a scale: compare within a layer",
     .bounds = kNotNegative},
    {.name = "gate.open", .sentence = "share of tokens whose gate is above 0"},
    {.name = "broad",
     .sentence = "share of rows whose normalised entropy is above .8",
     .trap = "says nothing of which keys are read",
     .rows = {.sum = RowSum::kEntropyShare, .core = true, .above = 0.8}},
    {.name = "max",
     .sentence = "mean of the largest probability",
     .rows = {.sum = RowSum::kLargest, .core = true}},
    {.name = "confidence",
     .sentence = "mean of the largest probability, a special last token "
                 "left out",
     .rows = {.sum = RowSum::kLargestBeforeEnd}},
    {.name = "distance",
     .sentence = "mean of Σ A·|i − j|",
     .trap = "long tails weigh",
     .bounds = kNotNegative,
     .rows = {.sum = RowSum::kDistance, .core = true}},
    {.name = "distance.argmax",
     .sentence = "mean distance of the most attended key",
     .bounds = kNotNegative,
     .rows = {.sum = RowSum::kLargestDistance, .core = true}},
    {.name = "delimiter",
     .sentence = "mass on punctuation and special tokens; the first token "
                 "only where it is [CLS]",
     .trap = "three things in one: see its parts",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "delimiter.cls",
     .sentence = "mass on [CLS]",
     .rows = {.sum = RowSum::kTargets, .forms = kFormScore}},
    {.name = "delimiter.sep",
     .sentence = "mass on special tokens that are not the first",
     .rows = {.sum = RowSum::kTargets, .forms = kFormScore}},
    {.name = "delimiter.punctuation",
     .sentence = "mass on punctuation",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "duplicate",
     .sentence = "mass on earlier positions with the same token",
     .trap = "in text, frequent words repeat everywhere; random "
             "repeats do not have this fault",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "induction",
     .sentence = "mass on positions right after an earlier occurrence of "
                 "the current token; on random repeats the prefix-matching "
                 "score",
     .trap = "in text, fixed phrases let other heads score",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "rare.argmax",
     .sentence = "share of rows whose most attended key is the rarest "
                 "token of their sentence, where that one is rare; causal "
                 "rows after it only",
     .trap = "frequencies are those of the text given",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "rare.mass",
     .sentence = "mass on rare tokens",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "semantic",
     .sentence = "rank correlation between attention and the cosine of "
                 "input embeddings over the visible keys; self, adjacent, "
                 "same-token, same-word and special keys left out; "
                 ".chance: the same with permuted embeddings",
     .trap = "on sampled rows",
     .bounds = kShareDifference},
    {.name = "copying.run",
     .sentence = "what the head's own output adds to the logit of the "
                 "token that it reads most, above the mean logit, in "
                 "logits; on 25 random tokens twice over, rows whose most "
                 "attended key is one of them, but not the sequence's "
                 "first. Above 0 it copies, below 0 "
                 "it suppresses",
     .trap = "of the direct path alone; what later layers make of the "
             "output is not in it",
     .bounds = Bounds{}},
    {.name = "copying",
     .sentence = "by weights: Σ Re λ / Σ |λ| of the eigenvalues of "
                 "W_V·W_O",
     .trap = "weights alone: embeddings are not what a head reads "
             "behind the first feed-forward; copying.run says what "
             "the head does",
     .bounds = kShareDifference},
    {.name = "copying.vocabulary",
     .sentence = "by weights: the same of W_E·W_V·W_O·W_U, from tokens to "
                 "logits",
     .trap = "misleads where embeddings are tied or rewritten by the "
             "first feed-forward: −.67 was seen of an induction head "
             "that copies",
     .bounds = kShareDifference},
    {.name = "retrieval",
     .sentence = "share of needle tokens about to be produced for which "
                 "the most attended key is that token in the needle; ten "
                 "random tokens in a haystack of 240",
     .trap = "an induction head does this too"},
    {.name = "monotone",
     .sentence = "cross-attention: mass with |j − i·M/N| ≤ 2",
     .trap = "sources of "
             "five tokens are all diagonal",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsMass}},
    {.name = "source-end",
     .sentence = "cross-attention: mass on the last source token",
     .rows = {.sum = RowSum::kTargets, .forms = kFormsAll}},
    {.name = "syntactic.R.up",
     .sentence = "share of words whose most attended other word is their "
                 "governor by relation R (.down: a dependent)",
     .trap = "compare with the best fixed offset"},
    {.name = "coreference",
     .sentence = "share of coreferent mentions whose head word attends "
                 "most, among mention heads, to an antecedent; mentions "
                 "whose candidates are all antecedents do not count",
     .trap = "compare with the nearest mention and the same word"},
    {.name = "translation",
     .sentence = "share of target words whose most attended source word "
                 "is their IBM Model 1 link",
     .trap = "compare with the diagonal"},
    {.name = "pattern.NAME",
     .sentence = "mass on the keys that the user's detector NAME gives"},
};
inline constexpr int kHeadMetricCount =
    sizeof(kHeadMetrics) / sizeof(kHeadMetrics[0]);

// ---- Slots: where the sums of each metric and form lie.

// The slots of a metric about targets; −1: this form is not kept. They lie one
// behind the other, in this order.
struct TargetSlots {
  int score = -1;
  int chance = -1;
  int content = -1;         // mass / c, weight c; c is the mass off the sinks
  int content_chance = -1;  // of uniform attention off the sinks
  int argmax = -1;
  int content_argmax = -1;
};
HEADWISE_ROW_HD constexpr TargetSlots SlotsFrom(int first, int forms) {
  TargetSlots slots;
  if ((forms & kFormScore) != 0) {
    slots.score = first++;
    slots.chance = first++;
  }
  if ((forms & kFormContent) != 0) {
    slots.content = first++;
    slots.content_chance = first++;
  }
  if ((forms & kFormArgmax) != 0) slots.argmax = first++;
  if ((forms & kFormContentArgmax) != 0) slots.content_argmax = first++;
  return slots;
}

// Forms of the metrics about offsets.
enum OffsetForm : int {
  kOffsetMass,
  kOffsetChance,
  kOffsetArgmax,
  kOffsetContent,
  kOffsetContentChance,
  kOffsetContentArgmax,
  kOffsetForms,
};
inline constexpr int kFarthestOffset = 8;
inline constexpr int kOffsetWidth = 2 * kFarthestOffset + 1;

struct FirstSlots {
  int of[kHeadMetricCount + 1] = {};
};
inline constexpr FirstSlots kFirstSlots = [] {
  FirstSlots first;
  for (int m = 0; m < kHeadMetricCount; ++m) {
    const MetricRows& rows = kHeadMetrics[m].rows;
    int count = IsNumber(rows.sum) ? 1 : 0;
    if (rows.sum == RowSum::kNear || rows.sum == RowSum::kTargets) {
      for (int form = kFormScore; form <= kFormContentArgmax; form *= 2) {
        if ((rows.forms & form) != 0) count += form <= kFormContent ? 2 : 1;
      }
    }
    first.of[m + 1] = first.of[m] + count;
  }
  return first;
}();

// Form by form, from −kFarthestOffset to kFarthestOffset.
inline constexpr int kSlotOffsets = kFirstSlots.of[kHeadMetricCount];
inline constexpr int kHeadSlots = kSlotOffsets + kOffsetForms * kOffsetWidth;
HEADWISE_ROW_HD constexpr int OffsetSlot(int form, int64_t k) {
  return kSlotOffsets + form * kOffsetWidth + static_cast<int>(k) +
         kFarthestOffset;
}

// The place of a metric in the table; a name that is not there does not
// compile.
consteval int MetricAt(std::string_view name) {
  for (int m = 0; m < kHeadMetricCount; ++m) {
    if (name == kHeadMetrics[m].name) return m;
  }
  throw "no such metric";
}
template <int kMetric>
HEADWISE_ROW_HD constexpr TargetSlots SlotsOf() {
  constexpr int kFirst = kFirstSlots.of[kMetric];
  constexpr int kForms = kHeadMetrics[kMetric].rows.forms;
  return SlotsFrom(kFirst, kForms);
}

// ---- The table for the host.

std::span<const MetricDefinition> MetricDefinitions();

// The definition of a metric in any of its forms ("previous.content",
// "repeats.duplicate", "offset.-3.chance"), or null.
const MetricDefinition* FindDefinition(std::string_view metric);

// The bounds of a metric in any of its forms; a share where nothing is known.
Bounds BoundsOf(std::string_view metric);

// Which rows do not count, for --explain.
std::span<const MetricDefinition> RowDefinitions();

// The meaning of suffixes and prefixes of names, for --explain.
std::span<const MetricDefinition> MetricForms();

// The full name of what each slot sums ("previous.content.chance").
const std::vector<std::string>& SlotNames();

}  // namespace headwise
