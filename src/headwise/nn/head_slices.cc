// Slices of stored tensors. Door: head_slices.h.
#include "headwise/nn/head_slices.h"

#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

void Append(std::vector<StoredSlice> more, std::vector<StoredSlice>& slices) {
  slices.insert(slices.end(), more.begin(), more.end());
}

// Outputs [begin, end) of a layer.
struct Outputs {
  const Linear& of;
  int64_t begin, end;
};

// Of keys all but the numbers that heads share.
Outputs LatentOutputs(const AttentionLayer& layer, HeadMatrix matrix,
                      int64_t begin, int64_t end) {
  const LatentWeights& weights = layer.weights().latent.weights();
  const auto outputs = [&](const Linear& of, int64_t dim) {
    return Outputs{of, begin * dim, end * dim};
  };
  switch (matrix) {
    case HeadMatrix::kQuery:
      return outputs(weights.query, layer.config().head_dim);
    case HeadMatrix::kKey:
      return outputs(weights.keys, layer.first_turned());
    default:
      return outputs(weights.values, layer.value_dim());
  }
}

Outputs OutputsOf(const AttentionLayer& layer, HeadMatrix matrix, int64_t begin,
                  int64_t end) {
  const AttentionLayerConfig& config = layer.config();
  if (layer.weights().latent) return LatentOutputs(layer, matrix, begin, end);
  const Linear& queries = *layer.inputs().front();
  const Linear& sources = *layer.inputs().back();
  const int64_t dim = config.head_dim, value = layer.value_dim();
  if (matrix == HeadMatrix::kQuery) return {queries, begin * dim, end * dim};
  if (!layer.has_own_keys()) {
    throw Error(ErrorCode::kUnsupported,
                {layer.site().name, "a layer with keys and values of its own",
                 "those of layer " + std::to_string(config.keys_of), ""});
  }
  const int64_t keys = layer.cross() ? 0 : config.heads * dim;
  if (matrix == HeadMatrix::kKey || config.keys_are_values) {
    return {sources, keys + begin * dim, keys + end * dim};
  }
  const int64_t values = keys + config.kv_heads * dim;
  return {sources, values + begin * value, values + end * value};
}

}  // namespace

std::vector<Linear::Part> EachOf(const Parameter& weight, const Parameter& bias,
                                 int64_t blocks, BlockRows rows) {
  const int64_t block = blocks == 0 ? 0 : weight.value.shape[0] / blocks;
  if (weight.value.rank != 2 || weight.value.shape[0] != blocks * block ||
      rows.end > block) {
    throw Error(ErrorCode::kCorrupt,
                {weight.name,
                 std::to_string(blocks) + " blocks of at least " +
                     std::to_string(rows.end) + " rows",
                 ToString(weight.value), ""});
  }
  std::vector<Linear::Part> parts;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = i * block + rows.begin, end = i * block + rows.end;
    parts.push_back(
        {SliceOf(weight, 0, begin, end), SliceOf(bias, 0, begin, end)});
  }
  return parts;
}

Linear ByGroups(const Parameter& weight, const Parameter& bias, int64_t heads,
                int64_t groups, int64_t head_dim) {
  const int64_t in_group = groups == 0 ? 0 : heads / groups;
  const int64_t rows = (in_group + 2) * head_dim;  // of a group
  if (weight.value.rank != 2 || weight.value.shape[0] != groups * rows) {
    throw Error(ErrorCode::kCorrupt,
                {weight.name, std::to_string(groups * rows) + " rows",
                 ToString(weight.value), ""});
  }
  // A layer without heads has its empty tensors still.
  if (groups == 0) return {{{weight, bias}}, WeightLayout::kOutIn};
  std::vector<Linear::Part> parts;
  for (const auto& [first, count] :
       {std::pair(int64_t{0}, in_group), {in_group, 1}, {in_group + 1, 1}}) {
    const auto own = EachOf(weight, bias, groups,
                            {first * head_dim, (first + count) * head_dim});
    parts.insert(parts.end(), own.begin(), own.end());
  }
  return {std::move(parts), WeightLayout::kOutIn};
}

int64_t CountOf(const AttentionLayer& layer, HeadMatrix matrix) {
  const bool of_group =
      matrix == HeadMatrix::kKey || matrix == HeadMatrix::kValue;
  return of_group ? layer.config().kv_heads : layer.config().heads;
}

std::vector<StoredSlice> SlicesOf(const AttentionLayer& layer,
                                  HeadMatrix matrix, int64_t begin,
                                  int64_t end) {
  if (matrix == HeadMatrix::kOutput) {
    if (!layer.output()) return {};
    const int64_t value = layer.value_dim();
    return layer.output().InputSlices(begin * value, end * value);
  }
  const Outputs outputs = OutputsOf(layer, matrix, begin, end);
  return outputs.of.OutputSlices(outputs.begin, outputs.end);
}

Linear LinearOf(const AttentionLayer& layer, HeadMatrix matrix, int64_t index) {
  if (matrix == HeadMatrix::kOutput) {
    const int64_t value = layer.value_dim();
    return layer.output().InputRange(index * value, (index + 1) * value);
  }
  const Outputs outputs = OutputsOf(layer, matrix, index, index + 1);
  return outputs.of.OutputRange(outputs.begin, outputs.end);
}

StoredMatrix StoredOf(const AttentionLayer& layer, HeadMatrix matrix) {
  const Outputs outputs = OutputsOf(layer, matrix, 0, CountOf(layer, matrix));
  return outputs.of.Stored(outputs.begin, outputs.end);
}

std::vector<StoredSlice> SlicesOfHead(const AttentionLayer& layer,
                                      int64_t head) {
  std::vector<StoredSlice> slices =
      SlicesOf(layer, HeadMatrix::kQuery, head, head + 1);
  Append(SlicesOf(layer, HeadMatrix::kOutput, head, head + 1), slices);
  const AttentionWeights& weights = layer.weights();
  for (const Parameter* own :
       {&weights.gates.weights().log_alpha, &weights.spans.spans(),
        &weights.sinks.parameter()}) {
    if (*own) slices.push_back({own, 0, head, 1});
  }
  if (weights.output_gate) {
    const int64_t width = layer.gates_channels() ? layer.value_dim() : 1;
    Append(weights.output_gate.projection().OutputSlices(head * width,
                                                         (head + 1) * width),
           slices);
  }
  return slices;
}

std::vector<StoredSlice> SlicesOfGroup(const AttentionLayer& layer,
                                       int64_t group) {
  std::vector<StoredSlice> slices =
      SlicesOf(layer, HeadMatrix::kKey, group, group + 1);
  if (layer.config().keys_are_values) return slices;
  Append(SlicesOf(layer, HeadMatrix::kValue, group, group + 1), slices);
  return slices;
}

}  // namespace headwise
