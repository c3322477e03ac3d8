// Finding and naming metrics. Door: metrics.h.
#include "headwise/heads/profile/metrics.h"

#include <algorithm>
#include <array>

#include "headwise/heads/profile/profile.h"

namespace headwise {
namespace {

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

std::span<const MetricDefinition> MetricDefinitions() { return kHeadMetrics; }

std::span<const MetricDefinition> RowDefinitions() { return kRows; }

std::span<const MetricDefinition> MetricForms() { return kForms; }

const MetricDefinition* FindDefinition(std::string_view metric) {
  if (metric.starts_with("repeats") || metric.starts_with("words.")) {
    metric.remove_prefix(std::min(metric.find('.') + 1, metric.size()));
  }
  while (true) {
    for (const MetricDefinition& definition : kHeadMetrics) {
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

const std::vector<std::string>& SlotNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made(kHeadSlots);
    for (int m = 0; m < kHeadMetricCount; ++m) {
      const MetricDefinition& metric = kHeadMetrics[m];
      const int first = kFirstSlots.of[m];
      if (IsNumber(metric.rows.sum)) made[first] = metric.name;
      const TargetSlots slots = SlotsFrom(first, metric.rows.forms);
      const auto name = [&](int slot, const char* form) {
        if (slot >= 0) made[slot] = std::string(metric.name) + form;
      };
      name(slots.score, "");
      name(slots.chance, ".chance");
      name(slots.content, ".content");
      name(slots.content_chance, ".content.chance");
      name(slots.argmax, ".argmax");
      name(slots.content_argmax, ".content.argmax");
    }
    static constexpr const char* kSuffixes[kOffsetForms] = {
        "",         ".chance",         ".argmax",
        ".content", ".content.chance", ".content.argmax"};
    for (int form = 0; form < kOffsetForms; ++form) {
      for (int k = -kFarthestOffset; k <= kFarthestOffset; ++k) {
        made[OffsetSlot(form, k)] = OffsetMetric(k) + kSuffixes[form];
      }
    }
    return made;
  }();
  return names;
}

}  // namespace headwise
