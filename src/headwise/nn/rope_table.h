// Rotary positions of layers: frequencies where a device reads them, of the
// length of a call where they depend on it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/parameter.h"
#include "headwise/ops/rope/rope.h"

namespace headwise {

struct SequenceBatch;  // attention_layer.h

// How layers of a model turn queries and keys. May be asked from several
// threads, each with its own Context of one device.
class RopeTable {
 public:
  explicit RopeTable(const RopeConfig& config);
  RopeTable(const RopeTable&) = delete;
  RopeTable& operator=(const RopeTable&) = delete;

  RopeProblem Problem(RopeDirection direction) const {
    return {direction, config_.pairs, static_cast<float>(config_.scale)};
  }
  // f32 [F] on the context's device, for the call that `batch` is of. Valid
  // while this lives.
  ConstTensorView frequencies(Context& context,
                              const SequenceBatch& batch) const;

 private:
  struct Made {
    explicit Made(std::vector<float> of);
    std::vector<float> numbers;
    Values values;
  };

  RopeConfig config_;
  int64_t first_length_;  // RopeLength of calls within the original context
  Made first_;
  // By RopeLength. Never dropped, since a device may still read them: of
  // kDynamic there is one for each length beyond the original context.
  mutable std::mutex mutex_;
  mutable std::map<int64_t, Made> others_;
};

}  // namespace headwise
