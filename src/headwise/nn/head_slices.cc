// Slices of stored tensors. Door: head_slices.h.
#include "headwise/nn/head_slices.h"

namespace headwise {
namespace {

void Append(std::vector<StoredSlice> more, std::vector<StoredSlice>& slices) {
  slices.insert(slices.end(), more.begin(), more.end());
}

}  // namespace

int64_t CountOf(const AttentionLayer& layer, HeadMatrix matrix) {
  const bool of_group =
      matrix == HeadMatrix::kKey || matrix == HeadMatrix::kValue;
  return of_group ? layer.config().kv_heads : layer.config().heads;
}

std::vector<StoredSlice> SlicesOf(const AttentionLayer& layer,
                                  HeadMatrix matrix, int64_t begin,
                                  int64_t end) {
  const AttentionWeights& w = layer.weights();
  const int64_t dim = layer.config().head_dim, value = layer.value_dim();
  if (matrix == HeadMatrix::kOutput) {
    if (!w.output) return {};
    return w.output.InputSlices(begin * value, end * value);
  }
  if (matrix == HeadMatrix::kQuery) {
    const Linear& queries = layer.cross() ? w.q : w.qkv;
    return queries.OutputSlices(begin * dim, end * dim);
  }
  const Linear& sources = layer.cross() ? w.kv : w.qkv;
  const int64_t keys = layer.cross() ? 0 : layer.config().heads * dim;
  if (matrix == HeadMatrix::kKey) {
    return sources.OutputSlices(keys + begin * dim, keys + end * dim);
  }
  const int64_t values = keys + layer.config().kv_heads * dim;
  return sources.OutputSlices(values + begin * value, values + end * value);
}

std::vector<StoredSlice> SlicesOfHead(const AttentionLayer& layer,
                                      int64_t head) {
  std::vector<StoredSlice> slices =
      SlicesOf(layer, HeadMatrix::kQuery, head, head + 1);
  Append(SlicesOf(layer, HeadMatrix::kOutput, head, head + 1), slices);
  for (const Parameter* own : {&layer.weights().gates.weights().log_alpha,
                               &layer.weights().spans.spans()}) {
    if (*own) slices.push_back({own, 0, head, 1});
  }
  return slices;
}

std::vector<StoredSlice> SlicesOfGroup(const AttentionLayer& layer,
                                       int64_t group) {
  std::vector<StoredSlice> slices =
      SlicesOf(layer, HeadMatrix::kKey, group, group + 1);
  Append(SlicesOf(layer, HeadMatrix::kValue, group, group + 1), slices);
  return slices;
}

}  // namespace headwise
