// What a forward call is asked to observe, as parameters: row results for the
// forward kernels, and the passes after them.
#pragma once

#include <vector>

#include "headwise/attention.h"
#include "headwise/backend/cuda/device.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// The passes that follow a forward pass, and the memory they share with it:
// O(rows), a few floats each.
struct ObservationCall {
  bool observes = false;   // beyond the core
  bool has_sides = false;  // features, labels or excluded keys
  bool sums = false;
  ObserveParams observe;
  SumParams sum;
  std::vector<DeviceBuffer> scratch;
};

// Fills the row results of `forward`, whose inputs are set, and what follows.
ObservationCall MakeObservation(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args,
                                ForwardParams& forward);

// After the forward pass. is_full: that pass has gathered the full statistics.
void RunObservation(Context& context, const ObservationCall& call,
                    bool is_full);

}  // namespace headwise::attention_cuda
