// Door: example_batches.h.
#include "headwise/heads/pruning/example_batches.h"

#include <utility>
#include <vector>

namespace headwise {

TrainBatch ExampleBatches::Make(int64_t first, int64_t count) const {
  std::vector<TextExample> some;
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t place = order_ == ExampleOrder::kPlain
                              ? i % size()
                              : ShuffledPlace(i, size(), seed_);
    some.push_back(examples_[place]);
  }
  // Masks go by the number: new ones every epoch.
  ExampleBatch batch = objective_.Prepare(some, first);
  TrainBatch result;
  result.targets = std::move(batch.targets);
  if (batch.decoder_ids.empty()) {
    result.batch = std::move(batch.sequences);
    result.ids = std::move(batch.ids);
  } else {
    result.batch = std::move(batch.decoder_sequences);
    result.ids = std::move(batch.decoder_ids);
    result.source = std::move(batch.sequences);
    result.source_ids = std::move(batch.ids);
  }
  return result;
}

}  // namespace headwise
