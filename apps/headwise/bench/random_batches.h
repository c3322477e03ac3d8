// Sequences of random tokens to train on.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/train/batch.h"

namespace headwise::bench {

class RandomBatches : public BatchSource {
 public:
  RandomBatches(int64_t vocabulary, int64_t length)
      : vocabulary_(vocabulary), length_(length) {}

  TrainBatch Make(int64_t first, int64_t count) const override {
    TrainBatch made;
    made.batch = MakeBatch(std::vector<int64_t>(count, length_));
    for (int64_t sequence = first; sequence < first + count; ++sequence) {
      Rng rng(7, static_cast<uint64_t>(sequence));
      auto next = [&] { return static_cast<int32_t>(rng.Below(vocabulary_)); };
      int32_t id = next();
      for (int64_t i = 0; i < length_; ++i) {
        made.ids.push_back(id);
        made.targets.push_back(id = next());
      }
    }
    return made;
  }
  int64_t size() const override { return 1 << 20; }

 private:
  int64_t vocabulary_;
  int64_t length_;
};

}  // namespace headwise::bench
