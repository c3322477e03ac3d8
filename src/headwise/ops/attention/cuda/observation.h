// What a forward call is asked to observe, as parameters: row results for the
// forward kernels, and the passes after them.
#pragma once

#include <vector>

#include "headwise/attention.h"
#include "headwise/backend/cuda/backend.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// The passes that follow a forward pass, and the memory they share with it:
// O(rows), a few floats each.
struct ObservationCall {
  bool numbers = false;  // beyond the core: variance, squares, histogram, …
  bool sides = false;    // features, labels, maxima beside excluded keys
  bool sums = false;
  RowResult missing;  // may be null
  ObserveParams observe;
  SumParams sum;
  std::vector<DeviceBuffer> scratch;
};

// Fills the row results of `forward`, whose inputs are set, and what follows.
// block: queries of the forward kernel's; kPlainRows tells the plain one, which
// observes by itself.
ObservationCall MakeObservation(Context& context,
                                const AttentionProblem& problem,
                                const AttentionArgs& args, int block,
                                ForwardParams& forward);

// After the forward pass. has_numbers: that pass has gathered those.
void RunObservation(Context& context, const ObservationCall& call,
                    bool has_numbers);
// Its last part: what follows from the rows' results alone.
void RunSums(Context& context, const ObservationCall& call);

}  // namespace headwise::attention_cuda
