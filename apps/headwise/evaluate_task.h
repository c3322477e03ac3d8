// What people judge a model by beside its loss: BLEU of translations, accuracy
// of classifiers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headwise/heads/importance/statistics.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/train/bleu.h"
#include "prune_material.h"

namespace headwise {

struct BleuPair {
  BleuEstimate whole, closed;
  BleuDifference change;
};
// Greedy translations of the material's sources against its references. means:
// what stands in for closed heads; null: 0.
BleuPair ScoreTranslations(Context& context, const PruneMaterial& material,
                           const HeadSet& closed, const HeadOutputs* means);

struct AccuracyPair {
  int64_t texts = 0;
  Interval loss, closed_loss;
  Interval right, closed_right;  // shares
  Interval change;               // of the share
};
bool IsClassifier(const std::string& folder);
// Lines "text<TAB>label" with labels that the model's config.json knows; closed
// heads give 0.
AccuracyPair ScoreLabels(Context& context, const RunFlags& run,
                         const TextFlags& text, const HeadSet& closed,
                         uint64_t seed);

}  // namespace headwise
