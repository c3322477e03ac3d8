// The data of a training step, and who makes it.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/nn/attention_layer.h"

namespace headwise {

// Some sequences end to end, without padding.
struct TrainBatch {
  SequenceBatch batch;           // of the stack that predicts
  std::vector<int32_t> ids;      // [T]
  std::vector<int32_t> targets;  // [T]; kIgnoreTarget: nothing to predict
  SequenceBatch source;          // encoder–decoders: what the encoder reads
  std::vector<int32_t> source_ids;

  int64_t CountTargets() const;
};

// Sequences by number. Number i is the same whenever it is asked for, so that
// a run can be cut into batches and resumed anywhere.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Sequences first … first + count − 1.
  virtual TrainBatch Make(int64_t first, int64_t count) const = 0;
  // Distinct sequences: an epoch. Training goes on beyond it.
  virtual int64_t size() const = 0;
};

// The place of item i of a sequence of epochs, each of which has every one of
// [0, size) once in a random order (a Feistel network: no table is kept).
int64_t ShuffledPlace(int64_t i, int64_t size, uint64_t seed);

}  // namespace headwise
