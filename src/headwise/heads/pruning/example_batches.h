// Examples as training reads them: what predicts what is the objective's.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/heads/importance/objective.h"
#include "headwise/train/batch.h"

namespace headwise {

enum class ExampleOrder : uint8_t { kPlain, kShuffled };

// Borrows model and examples.
class ExampleBatches : public BatchSource {
 public:
  ExampleBatches(const Model& model, std::span<const TextExample> examples,
                 const ObjectiveOptions& objective, ExampleOrder order,
                 uint64_t seed)
      : objective_(model, objective),
        examples_(examples),
        order_(order),
        seed_(seed) {}

  TrainBatch Make(int64_t first, int64_t count) const override;
  int64_t size() const override { return std::ssize(examples_); }

 private:
  Objective objective_;
  std::span<const TextExample> examples_;
  ExampleOrder order_;
  uint64_t seed_;
};

}  // namespace headwise
