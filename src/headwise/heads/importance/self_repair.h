// Self-repair: how much of what a closed head added directly to the logits the
// heads behind it take over. The direct effect of a head is what it adds to
// the logit of the right token, above the mean logit, through the final norm
// with its scale as it was: ⟨z W_O / σ, W_U[token] − mean W_U⟩. What flows from
// the closed head through later layers in any other way is not repair.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/logit_direction.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/importance/variants.h"

namespace headwise {

// Sums over the predictions of each sequence, [heads][sequences].
struct DirectEffects {
  LossTable lost;  // the head's direct effect − what is left of it when closed
  LossTable taken;  // what the direct effects of later heads gain then
};

class RepairMeter {
 public:
  // `model` must outlive it.
  RepairMeter(Context& context, const Model& model,
              std::span<const HeadRef> heads);

  // Those of the heads that have a direct effect; none in post-norm stacks,
  // without a vocabulary, and in the encoders of encoder–decoders.
  const std::vector<size_t>& heads() const { return direct_; }

  // replacement: as in VariantJob. Heads without a direct effect: 0. Throws
  // Error(kCancelled) when stopped.
  DirectEffects Measure(const ExampleBatch& batch,
                        const HeadOutputs* replacement,
                        const std::stop_token& stop) const;

 private:
  class Batch;

  Context& context_;
  const Model& model_;
  std::vector<HeadRef> heads_;
  std::vector<size_t> direct_;
  std::vector<AboveMeanDirections> above_mean_;  // one, where it is needed
};

}  // namespace headwise
