// One who knows the grammar of stories. Door: best_reader.h.
#include "headwise/study/support/best_reader.h"

#include <cmath>
#include <string>

#include "headwise/ops/loss/loss.h"

namespace headwise {

// A story has three pairs of an adjective, of 12, and a noun, of 24; each of
// its phrases is one of them. Half of the subjects have another near them; 6
// verbs agree with a subject.
double BestReader::Cost(int32_t before, int32_t token) {
  const std::string word = StoryWord(token);
  if (word == ".") near_ = false;
  if (word == "near") {
    near_ = true;
    return std::log(2);
  }
  if (IsStoryVerb(token)) return std::log(near_ ? 6 : 12);
  if (IsStoryAdjective(token)) {
    const auto known = static_cast<double>(adjectives_.size());
    new_ = adjectives_.insert(token).second;
    return std::log(new_ ? 3 * (12 - known) / (3 - known) : 3);
  }
  return IsStoryAdjective(before) && new_ ? std::log(24) : 0;
}

double BestLoss(const StudyText& text, const TrainBatch& batch) {
  if (!text.story) return 0;
  double sum = 0;
  for (int64_t b = 0; b < batch.batch.sequences(); ++b) {
    BestReader reader;
    for (int64_t t = batch.batch.starts[b]; t < batch.batch.starts[b + 1];
         ++t) {
      if (batch.targets[t] == kIgnoreTarget) continue;
      sum += reader.Cost(batch.ids[t], batch.targets[t]);
    }
  }
  return sum / static_cast<double>(batch.CountTargets());
}

}  // namespace headwise
