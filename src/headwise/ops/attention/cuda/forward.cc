// Chooses between the pass and decoding, then observes. Door: forward.h.
#include "headwise/ops/attention/cuda/forward.h"

#include "headwise/ops/attention/cuda/decode.h"

namespace headwise::attention_cuda {

void RunForward(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args, int block, bool gathers_full,
                const std::function<void(const ForwardCall&)>& launch) {
  const bool decodes = IsDecoding(problem);
  const ForwardCall call =
      MakeForward(context, problem, args, block, gathers_full && !decodes);
  if (call.params.order.count() > 0) {
    if (decodes) {
      RunDecode(context, problem, args, call);
    } else {
      launch(call);
    }
  }
  RunObservation(context, call.observation, call.gathered == Statistics::kFull);
}

}  // namespace headwise::attention_cuda
