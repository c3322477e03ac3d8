// Which experts each token of a mixture of experts uses, and with which
// weights: host arithmetic on a router's logits, forward and backward. Sums are
// made in f64 and in one order.
//
// Letters in shapes: T tokens, E experts, K experts that a token uses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headwise {

enum class RouterScore : uint8_t {
  kSoftmax,  // over all experts
  kSigmoid,  // of each expert by itself
};

// How a group of experts is compared with others.
enum class GroupScore : uint8_t {
  kBest,     // by its best expert (DeepSeek V2)
  kBestTwo,  // by the sum of its two best (DeepSeek V3)
};

// A token uses the K experts of the highest score, of equal ones the first. The
// weight of expert e among them is scale · s_e, or scale · s_e / Σ s over the K
// where normalized.
struct ExpertRouterConfig {
  RouterScore score = RouterScore::kSoftmax;
  int64_t active = 1;  // K
  // With kSoftmax this is the softmax over the K logits alone (gpt-oss).
  bool normalized = false;
  float scale = 1;
  // The experts are cut into `groups` equal runs. A token chooses among the
  // experts of its best `active_groups` groups.
  int64_t groups = 1;
  int64_t active_groups = 1;
  GroupScore group_score = GroupScore::kBest;

  friend bool operator==(const ExpertRouterConfig&,
                         const ExpertRouterConfig&) = default;
};

// Throws Error(kInvalidArgument) for numbers that E experts cannot serve.
void CheckExpertRouter(const ExpertRouterConfig& config, int64_t experts);

struct ExpertChoice {
  int64_t tokens = 0;
  int64_t experts = 0;
  std::vector<float> logits;    // [T, E]
  std::vector<int32_t> chosen;  // [T, K], ascending in each token
  std::vector<float> weights;   // [T, K]
};

// logits [T, E]; correction [E] is added to the scores for the choice and not
// for the weights (DeepSeek V3), empty: 0.
ExpertChoice ChooseExperts(const ExpertRouterConfig& config, int64_t experts,
                           std::vector<float> logits,
                           std::span<const float> correction);

// E · Σ_e f_e · P_e (Switch Transformer, Mixtral): f the share of tokens that
// chose an expert, so that Σ f = K, and P its mean score where each token's
// scores are divided by their sum. K where all are used alike.
double BalanceLoss(const ExpertRouterConfig& config,
                   const ExpertChoice& choice);

// dlogits [T, E] by dweights [T, K], and of balance · BalanceLoss, whose f
// counts as constant. The choice has no gradient.
std::vector<float> ChoiceBackward(const ExpertRouterConfig& config,
                                  const ExpertChoice& choice,
                                  std::span<const float> dweights,
                                  double balance);

// By expert.
struct ExpertUse {
  std::vector<int64_t> tokens;  // that chose it
  std::vector<double> weight;   // its mean over these; 0 without any
};
ExpertUse UseOf(const ExpertChoice& choice);

}  // namespace headwise
