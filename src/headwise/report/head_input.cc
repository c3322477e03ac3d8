// Door: head_input.h.
#include "headwise/report/head_input.h"

#include <algorithm>

#include "headwise/context.h"
#include "headwise/nn/block.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

// x on the host, projected where the model runs.
Tensor Projected(Context& context, const Linear& projection, const Tensor& x) {
  const Temp there = CopyOf(context, x.view());
  const Temp wide(context, DType::kF32, {x.shape(0), projection.out()});
  projection.Forward(context, there.view(), wide.view());
  return ToHost(context, wide.view());
}

}  // namespace

void NormRows(Context& context, const Norm& norm, Tensor& x) {
  if (context.device().is_cpu()) {
    norm.Forward(context, x.view(), x.view());
    return;
  }
  const Temp there = CopyOf(context, x.view());
  norm.Forward(context, there.view(), there.view());
  x = ToHost(context, there.view());
}

Tensor ProjectedRows(Context& context, const Stack& stack, const Tensor& x) {
  const Linear& projection = stack.embeddings.projection;
  return projection ? Projected(context, projection, x)
                    : ToHost(context, x.view());
}

Tensor EmbeddingsOf(Context& context, const Stack& stack, const Tensor& table,
                    std::span<const int32_t> tokens) {
  const int64_t width = table.shape(1);
  Tensor x(DType::kF32, {static_cast<int64_t>(tokens.size()), width});
  for (size_t t = 0; t < tokens.size(); ++t) {
    const float* row = table.As<float>() + tokens[t] * width;
    std::transform(row, row + width, x.As<float>() + t * width,
                   [&](float v) { return v * stack.embeddings.scale; });
  }
  if (stack.embeddings.token_projection) {
    x = Projected(context, stack.embeddings.token_projection, x);
  }
  if (stack.embeddings.norm) NormRows(context, stack.embeddings.norm, x);
  return ProjectedRows(context, stack, x);
}

Tensor NormedInput(Context& context, const Block& block, AttentionKind kind,
                   const Tensor& embedded) {
  Tensor x(DType::kF32, {embedded.shape(0), embedded.shape(1)});
  std::copy_n(embedded.As<float>(), embedded.size(), x.As<float>());
  const BlockStep* step = block.Find(StepKind::kAttention);
  if (kind != AttentionKind::kCross && step != nullptr && step->before) {
    NormRows(context, step->before, x);
  }
  return x;
}

}  // namespace headwise
