// Models of attention alone, as one studies circuits: embeddings, attention
// layers around a residual stream, an output matrix. And keys that carry a
// part of the key before, with which one layer does what else takes two.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "headwise/nn/hooks.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise {

// How such a model knows places. Of others (alibi.h) the hooks know.
enum class PlaceKind : uint8_t { kNone, kSinusoid, kLearned, kRotary };

// Llama's layout (root-mean-square norms) without its feed-forward halves, the
// output matrix not tied; shape.hidden and shape.tied are not used. how.seed
// seeds the weights.
std::unique_ptr<TinyModel> MakeAttentionOnly(
    Context& context, const TinyShape& shape, const TrainConfig& how,
    PlaceKind places = PlaceKind::kRotary);

// k_t := σ·k_t + (1 − σ)·k_{t−1} with a learned σ = 1/(1 + e^−a) of each head
// (Olsson et al. 2022). Give it to every run of a model of one layer, whose
// heads have keys of their own; the first key of a sequence stays.
class SmearedKeys : public RunHooks {
 public:
  explicit SmearedKeys(int64_t heads);

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttentionBackward(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args,
                              const AttentionGrads& grads) override;

  // One step of AdamW with the gradients since the last.
  void Step(Context& context, double rate);
  double sigma(int64_t head) const;

 private:
  std::vector<float> logits_, gradient_, first_, second_;  // [heads]
  int64_t steps_ = 0;
  std::vector<float> smeared_;  // [T, H, D]
  ConstTensorView keys_;        // as they came, [1, T, H, D]
};

}  // namespace headwise
