// Whole sequences as a run reads them, made ahead of it: while another run is
// on, by another context of the same device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/tensor.h"

namespace headwise {

// It lives, where it is, until the device is done with the run.
struct PreparedInput {
  std::vector<int32_t> ids;  // the sequences end to end
  SequenceBatch batch;
  Tensor ids_there;  // i32 on the device; none: as on the host

  PreparedInput() = default;
  PreparedInput(std::vector<int32_t> all, std::span<const int64_t> lengths);

  // All that a run reads to the context's device, where it is when this
  // returns.
  void MoveTo(Context& context);
};

}  // namespace headwise
