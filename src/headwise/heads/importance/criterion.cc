// Names of criteria; norms of weights. Door: criterion.h.
#include "headwise/heads/importance/criterion.h"

#include <algorithm>
#include <iterator>

#include "headwise/error.h"
#include "headwise/nn/head_weights.h"

namespace headwise {
namespace {

constexpr const char* kDescriptions[] = {
    "Δloss with the head's output replaced by 0",
    "Δloss with the head's output replaced by its mean over the text",
    ("Δloss with the head's output replaced by another sequence's at the same "
     "positions"),
    "L2 norm over channels of the mean |output of the head|",
    "Frobenius norm of W_V·W_O",
    "Frobenius norm of W_Q·W_Kᵀ",
    "mean over sequences of |∂loss/∂gate| (Michel et al., the paper's form)",
    ("mean over sequences of the sum over tokens of |∂loss/∂gate| (their "
     "code's form)"),
    "|mean over all sequences of ∂loss/∂gate| (one batch)",
    "gate of the head, learned to be closed where it costs little loss",
};
static_assert(std::size(kDescriptions) == FieldWords(Criterion{}).size());

}  // namespace

const char* Name(Criterion criterion) {
  return FieldWords(criterion)[static_cast<size_t>(criterion)];
}
const char* Describe(Criterion criterion) {
  return kDescriptions[static_cast<size_t>(criterion)];
}

bool IsAblation(Criterion criterion) {
  return criterion <= Criterion::kAblationResample;
}

bool IsGradient(Criterion criterion) {
  return criterion >= Criterion::kGradient &&
         criterion <= Criterion::kGradientBatch;
}

void RequireRanking(std::span<const Criterion> criteria) {
  if (criteria.empty() ||
      std::ranges::find(criteria, Criterion::kGates) != criteria.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"rank", "criteria that score a model's heads as they are",
                 criteria.empty() ? "none" : "gates, which prune learns",
                 "headwise prune --by gates ranks by them"});
  }
}

std::vector<double> WeightNorms(Context& context, const Model& model,
                                std::span<const HeadRef> heads,
                                Criterion criterion) {
  std::vector<double> norms;
  // Products of a head's weights, which come as the host's, are small.
  Context host({.threads = context.threads(), .implementations = ""});
  for (const HeadRef& head : heads) {
    const HeadWeights weights = WeightsOfHead(
        context, *AttentionLayers(model, head.kind)[head.layer], head.head);
    norms.push_back(criterion == Criterion::kWeightsOv ? OvNorm(host, weights)
                                                       : QkNorm(host, weights));
  }
  return norms;
}

}  // namespace headwise
