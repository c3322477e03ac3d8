// Door: profile_means.h.
#include "headwise/heads/pruning/profile_means.h"

#include <algorithm>
#include <string>

#include "headwise/error.h"
#include "headwise/model/head_ref.h"

namespace headwise {
namespace {

const AttentionLayer& LayerOf(const Model& model, const HeadRef& head) {
  return *AttentionLayers(model, head.kind)[head.layer];
}

}  // namespace

std::vector<std::vector<double>> ListMeans(const HeadOutputs& means,
                                           const Model& model) {
  std::vector<std::vector<double>> list;
  for (const HeadRef& head : AllHeads(model)) {
    const Tensor& site = means.at(LayerOf(model, head).site().name);
    const int64_t width = site.shape(2);
    const float* from = site.As<float>() + head.head * width;
    list.emplace_back(from, from + width);
  }
  return list;
}

HeadOutputs MeansOf(const Profile& profile, const Model& model,
                    const std::string& model_hash) {
  const std::vector<HeadRef> heads = AllHeads(model);
  if (profile.model_hash != model_hash || profile.heads != heads) {
    throw Error(ErrorCode::kInvalidArgument,
                {"means", "a profile of this model", "one of " + profile.model,
                 "headwise profile --means makes one"});
  }
  if (profile.mean_outputs.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"means", "a profile with mean outputs", "one without",
                 "headwise profile --means writes them"});
  }
  HeadOutputs means;
  for (size_t i = 0; i < heads.size(); ++i) {
    const AttentionLayer& layer = LayerOf(model, heads[i]);
    const std::vector<double>& from = profile.mean_outputs[i];
    if (std::ssize(from) != layer.value_dim()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"means", std::to_string(layer.value_dim()) + " numbers",
                   std::to_string(from.size()), "of " + ToString(heads[i])});
    }
    Tensor& site = means[layer.site().name];
    if (site.size() == 0) {
      site = Tensor(DType::kF32, {1, layer.config().heads, layer.value_dim()});
    }
    std::transform(from.begin(), from.end(),
                   site.As<float>() + heads[i].head * layer.value_dim(),
                   [](double value) { return static_cast<float>(value); });
  }
  return means;
}

}  // namespace headwise
