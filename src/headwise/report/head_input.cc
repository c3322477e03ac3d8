// Door: head_input.h.
#include "headwise/report/head_input.h"

#include <algorithm>
#include <utility>

#include "headwise/context.h"
#include "headwise/nn/block.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {

void NormRows(Context& context, const Norm& norm, Tensor& x) {
  if (context.device().is_cpu()) {
    norm.Forward(context, x.view(), x.view());
    return;
  }
  const Temp there = CopyOf(context, x.view());
  norm.Forward(context, there.view(), there.view());
  x = ToHost(context, there.view());
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
  if (const Linear& project = stack.embeddings.project; project) {
    Context host({1, ""});
    Tensor wide(DType::kF32, {x.shape(0), project.out()});
    project.Copied().Forward(host, x.view(), wide.view());
    x = std::move(wide);
  }
  if (stack.embeddings.norm) NormRows(context, stack.embeddings.norm, x);
  return x;
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
