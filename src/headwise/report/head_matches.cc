// Door: head_matches.h.
#include "headwise/report/head_matches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/model/head_ref.h"
#include "headwise/nn/block.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/report/head_input.h"
#include "headwise/runtime/on_host.h"

namespace headwise {
namespace {

// scores [keys] of one query.
TokenWrites BestKeys(int32_t query, const float* scores,
                     std::span<const int32_t> keys, double scale, int64_t top) {
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(static_cast<size_t>(top), keys.size());
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const double mean = std::accumulate(scores, scores + keys.size(), 0.0) /
                      static_cast<double>(keys.size());
  TokenWrites best{query, {}};
  for (size_t i = 0; i < count; ++i) {
    best.top.push_back({keys[order[i]], scale * (scores[order[i]] - mean)});
  }
  return best;
}

}  // namespace

std::vector<std::vector<TokenWrites>> DescribeMatches(
    Context& context, const Model& model, std::span<const int32_t> queries,
    std::span<const int32_t> keys, int64_t top) {
  const HostContext host(context);
  const Stack& stack = model.stack();
  const Tensor table = ToF32(context, stack.embeddings.tokens);
  const Tensor query_rows = EmbeddingsOf(context, stack, table, queries);
  const Tensor key_rows = EmbeddingsOf(context, stack, table, keys);
  const auto layers = AttentionLayers(model, AttentionKind::kSelf);
  std::vector<std::vector<TokenWrites>> heads;
  for (size_t l = 0; l < layers.size(); ++l) {
    const AttentionLayer& layer = *layers[l];
    const Tensor x =
        NormedInput(context, stack.blocks[l], AttentionKind::kSelf, query_rows);
    const Tensor y =
        NormedInput(context, stack.blocks[l], AttentionKind::kSelf, key_rows);
    const float scale = layer.config().scale;
    for (int64_t h = 0; h < layer.config().heads; ++h) {
      const HeadWeights weights = WeightsOfHead(host, layer, h);
      const double by =
          scale != 0 ? scale
                     : 1 / std::sqrt(static_cast<double>(weights.q.shape(1)));
      const Tensor scores =
          MatrixProduct(host, MatrixProduct(host, x, weights.q),
                        MatrixProduct(host, y, weights.k), Operand::kPlain,
                        Operand::kTransposed);
      std::vector<TokenWrites>& head = heads.emplace_back();
      for (size_t q = 0; q < queries.size(); ++q) {
        head.push_back(BestKeys(
            queries[q], scores.As<float>() + q * keys.size(), keys, by, top));
      }
    }
  }
  return heads;
}

}  // namespace headwise
