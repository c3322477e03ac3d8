// Output matrices. Door: layer_output.h.
#include "headwise/heads/pruning/layer_output.h"

#include <algorithm>
#include <map>
#include <utility>

#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

LayerOutput OutputOf(Context& context, const AttentionLayer& layer,
                     const std::vector<int64_t>& removed) {
  const Linear& output = layer.output();
  LayerOutput result;
  result.site = layer.site().name;
  result.weight = Matrix(output.in(), output.out());
  result.bias.resize(output.out());
  result.has_bias = output.has_bias();
  result.weight_name = output.weight().name;
  result.bias_name = BiasName(output);
  result.out_first = output.layout() == WeightLayout::kOutIn;
  const Tensor weight = ToF32(context, output.weight());
  for (int64_t i = 0; i < output.in(); ++i) {
    for (int64_t o = 0; o < output.out(); ++o) {
      result.weight(i, o) =
          weight.As<float>()[result.out_first ? o * output.in() + i
                                              : i * output.out() + o];
    }
  }
  if (output.has_bias()) {
    const Tensor bias = ToF32(context, output.bias());
    std::copy_n(bias.As<float>(), output.out(), result.bias.begin());
  }
  const int64_t value = layer.value_dim();
  for (int64_t i = 0; i < output.in(); ++i) {
    const bool gone =
        std::find(removed.begin(), removed.end(), i / value) != removed.end();
    (gone ? result.removed : result.kept).push_back(i);
  }
  return result;
}

}  // namespace

std::string BiasName(const Linear& output) {
  return output.has_bias() ? output.bias().name : BiasNameOf(output.weight());
}

std::vector<LayerOutput> OutputsOf(Context& context, const Model& model,
                                   std::span<const HeadRef> removed) {
  std::map<std::pair<AttentionKind, int64_t>, std::vector<int64_t>> sites;
  for (const HeadRef& head : removed) {
    sites[{head.kind, head.layer}].push_back(head.head);
  }
  std::vector<LayerOutput> outputs;
  for (const auto& [site, heads] : sites) {
    const AttentionLayer& layer =
        *AttentionLayers(model, site.first)[site.second];
    const auto first = std::ranges::find(outputs, layer.output().weight().name,
                                         &LayerOutput::weight_name);
    if (first != outputs.end()) {
      first->others.push_back(layer.site().name);
    } else {
      outputs.push_back(OutputOf(context, layer, heads));
    }
  }
  return outputs;
}

void StoreOutput(const LayerOutput& layer, const Matrix& change,
                 const std::vector<double>& bias, ChangedTensors& changed) {
  Context context({.threads = 1, .implementations = ""});
  const int64_t in = std::ssize(layer.kept), out = layer.weight.columns;
  Tensor values(DType::kF32, layer.out_first ? Shape{out, in} : Shape{in, out});
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t o = 0; o < out; ++o) {
      values.As<float>()[layer.out_first ? o * in + i : i * out + o] =
          static_cast<float>(layer.weight(layer.kept[i], o) + change(i, o));
    }
  }
  Copy(context, values.view(), changed.at(layer.weight_name).view());
  const bool added = std::any_of(bias.begin(), bias.end(),
                                 [](double value) { return value != 0; });
  if (!layer.has_bias && !added) return;
  Tensor sum(DType::kF32, {out});
  for (int64_t o = 0; o < out; ++o) {
    sum.As<float>()[o] = static_cast<float>(layer.bias[o] + bias[o]);
  }
  changed[layer.bias_name] = std::move(sum);
}

}  // namespace headwise
