// Names of criteria; norms of weights. Door: criterion.h.
#include "headwise/heads/importance/criterion.h"

#include "headwise/base/nearest.h"
#include "headwise/error.h"
#include "headwise/nn/head_weights.h"

namespace headwise {
namespace {

struct Entry {
  Criterion criterion;
  const char* name;
  const char* description;
};

constexpr Entry kEntries[] = {
    {Criterion::kAblationZero, "ablation-zero",
     "Δloss with the head's output replaced by 0"},
    {Criterion::kAblationMean, "ablation-mean",
     "Δloss with the head's output replaced by its mean over the text"},
    {Criterion::kAblationResample, "ablation-resample",
     "Δloss with the head's output replaced by another sequence's at the same "
     "positions"},
    {Criterion::kActivation, "activation",
     "L2 norm over channels of the mean |output of the head|"},
    {Criterion::kWeightsOv, "weights-ov", "Frobenius norm of W_V·W_O"},
    {Criterion::kWeightsQk, "weights-qk", "Frobenius norm of W_Q·W_Kᵀ"},
    {Criterion::kGradient, "gradient",
     "mean over sequences of |∂loss/∂gate| (Michel et al., the paper's form)"},
    {Criterion::kGradientToken, "gradient-token",
     "mean over sequences of the sum over tokens of |∂loss/∂gate| (their "
     "code's form)"},
    {Criterion::kGradientBatch, "gradient-batch",
     "|mean over all sequences of ∂loss/∂gate| (one batch)"},
};

const Entry& Find(Criterion criterion) {
  return kEntries[static_cast<size_t>(criterion)];
}

}  // namespace

const char* Name(Criterion criterion) { return Find(criterion).name; }
const char* Describe(Criterion criterion) {
  return Find(criterion).description;
}

bool IsAblation(Criterion criterion) {
  return criterion <= Criterion::kAblationResample;
}

bool IsGradient(Criterion criterion) {
  return criterion >= Criterion::kGradient;
}

std::vector<Criterion> ParseCriteria(std::span<const std::string> names) {
  std::vector<Criterion> criteria;
  std::vector<std::string> known = {"weights"};
  for (const Entry& entry : kEntries) known.emplace_back(entry.name);
  for (const std::string& name : names) {
    if (name == "weights") {
      criteria.push_back(Criterion::kWeightsOv);
      criteria.push_back(Criterion::kWeightsQk);
      continue;
    }
    bool found = false;
    for (const Entry& entry : kEntries) {
      if (name != entry.name) continue;
      criteria.push_back(entry.criterion);
      found = true;
    }
    if (!found) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {"rank",
           "ablation-zero, ablation-mean, ablation-resample, "
           "activation, weights or gradient",
           "\"" + name + "\"", "did you mean " + Nearest(name, known) + "?"});
    }
  }
  return criteria;
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
