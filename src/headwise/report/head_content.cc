// Embeddings through W_V W_O, a layer's heads in one product. Door:
// head_evidence.h.
#include "headwise/report/head_evidence.h"

#include <algorithm>
#include <numeric>

#include "headwise/model/head_ref.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/report/head_input.h"
#include "headwise/runtime/on_host.h"

namespace headwise {
namespace {

// The context that the model runs in, and one for weights as they are stored.
struct Where {
  Context& model;
  Context& host;
};

// Rows [r, d] to scores [r, vocabulary]; the last row is nothing at all.
Tensor ReadOut(const Where& where, const Model& model, const Tensor& table,
               Tensor rows) {
  if (!model.has_head()) {
    return MatrixProduct(where.host, rows, table, Operand::kPlain,
                         Operand::kTransposed);
  }
  Context& context = where.model;
  const Norm& norm = model.predictor().final_norm;
  if (norm) NormRows(context, norm, rows);
  Tensor logits(context, model.type(),
                {rows.shape(0), model.config().vocabulary});
  if (context.device().is_cpu()) {
    model.Logits(context, rows.view(), logits.view());
    return logits;
  }
  const Temp there(context, model.type(), {rows.shape(0), rows.shape(1)});
  Copy(context, rows.view(), there.view());
  model.Logits(context, there.view(), logits.view());
  Tensor scores(DType::kF32, {logits.shape(0), logits.shape(1)});
  const Tensor near = ToHost(context, logits.view());
  Copy(context, near.view(), scores.view());
  return scores;
}

std::vector<WrittenToken> Strongest(const float* scores, const float* nothing,
                                    int64_t vocabulary, int64_t top) {
  std::vector<int32_t> order(vocabulary);
  std::iota(order.begin(), order.end(), 0);
  const auto gain = [&](int32_t id) { return scores[id] - nothing[id]; };
  const int64_t count = std::min(top, vocabulary);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](int32_t a, int32_t b) { return gain(a) > gain(b); });
  std::vector<WrittenToken> strongest;
  for (int64_t i = 0; i < count; ++i) {
    strongest.push_back({order[i], gain(order[i])});
  }
  return strongest;
}

// The heads of one layer; `table`: the embeddings [vocabulary, d] that were
// read, for models without a head.
void AddLayer(const Where& where, const Model& model,
              const AttentionLayer& layer, const Tensor& x, const Tensor& table,
              std::span<const int32_t> tokens, int64_t top,
              HeadContents& contents) {
  const auto count = static_cast<int64_t>(tokens.size());
  const int64_t heads = layer.config().heads, width = x.shape(1);
  Tensor rows(DType::kF32, {heads * count + 1, width});
  std::fill_n(rows.As<float>() + heads * count * width, width, 0.0f);
  for (int64_t h = 0; h < heads; ++h) {
    const HeadWeights weights = WeightsOfHead(where.host, layer, h);
    const Tensor written = MatrixProduct(
        where.host, MatrixProduct(where.host, x, weights.v), weights.o);
    std::copy_n(written.As<float>(), written.size(),
                rows.As<float>() + h * count * width);
  }
  const Tensor scores = ReadOut(where, model, table, std::move(rows));
  const int64_t vocabulary = scores.shape(1);
  const float* nothing = scores.As<float>() + heads * count * vocabulary;
  for (int64_t h = 0; h < heads; ++h) {
    std::vector<TokenWrites>& head = contents.heads.emplace_back();
    for (int64_t t = 0; t < count; ++t) {
      const float* row = scores.As<float>() + (h * count + t) * vocabulary;
      head.push_back({tokens[t], Strongest(row, nothing, vocabulary, top)});
    }
  }
}

}  // namespace

HeadContents DescribeContents(Context& context, const Model& model,
                              std::span<const int32_t> tokens, int64_t top) {
  const HostContext host(context);
  HeadContents contents;
  contents.readout = model.has_head()
                         ? "through the final norm and the vocabulary"
                         : "by input embeddings: the model has no vocabulary "
                           "head";
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    const auto layers = AttentionLayers(model, kind);
    if (layers.empty()) continue;
    const Stack& stack =
        kind == AttentionKind::kSelf ? model.stack() : *model.decoder();
    // What cross-attention reads comes from the encoder.
    const Stack& source =
        kind == AttentionKind::kDecoder ? *model.decoder() : model.stack();
    const Tensor table = ToF32(context, source.embeddings.tokens);
    const Tensor embedded = EmbeddingsOf(context, source, table, tokens);
    const bool by_table = !model.has_head() && source.embeddings.projection;
    const Tensor readout =
        by_table ? ProjectedRows(context, source, table) : Tensor();
    for (size_t l = 0; l < layers.size(); ++l) {
      AddLayer({context, host}, model, *layers[l],
               NormedInput(context, stack.blocks[l], kind, embedded),
               by_table ? readout : table, tokens, top, contents);
    }
  }
  return contents;
}

}  // namespace headwise
