// Copies of what passes. Door: record.h.
#include "headwise/heads/similarity/record.h"

#include <algorithm>

#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/on_host.h"

namespace headwise {

int64_t CountedRows::count() const {
  int64_t count = 0;
  for (const float weight : weights) count += weight > 0 ? 1 : 0;
  return count;
}

WindowRecord::WindowRecord(Context& context,
                           std::map<AttentionKind, CountedRows> rows)
    : context_(&context), rows_(std::move(rows)) {}

void WindowRecord::AfterAttention(const AttentionSite& site,
                                  const AttentionProblem& problem,
                                  const AttentionArgs& args) {
  last_ = {site.kind, site.layer};
  Layer& layer = layers_[last_];
  layer.q = ToDevice(*context_, args.q);
  layer.k = ToDevice(*context_, args.k);
  layer.lse = ToDevice(*context_, args.lse);
  // One sequence end to end is one sequence.
  layer.source.problem = problem;
  layer.source.problem.packed = false;
  layer.source.args = {};
  layer.source.args.q = layer.q.view();
  layer.source.args.k = layer.k.view();
  layer.source.args.lse = layer.lse.view();
  if (args.relative_table) {
    layer.relative_table = ToDevice(*context_, args.relative_table);
    layer.source.args.relative_table = layer.relative_table.view();
  }
}

bool WindowRecord::Wants(std::string_view activation) const {
  return activation.ends_with(".head_output");
}

void WindowRecord::Take(std::string_view activation, ConstTensorView value) {
  const std::vector<int64_t>& tokens = rows_.at(last_.first).outputs;
  const HostFloats floats(*context_, value);
  const ConstTensorView& from = floats.view();
  const int64_t heads = from.shape[1], dim = from.shape[2];
  Tensor& outputs = layers_[last_].outputs;
  outputs =
      Tensor(DType::kF32, {static_cast<int64_t>(tokens.size()), heads, dim});
  float* to = outputs.As<float>();
  for (const int64_t token : tokens) {
    for (int64_t head = 0; head < heads; ++head) {
      to = std::copy_n(
          from.As<float>() + token * from.stride[0] + head * from.stride[1],
          dim, to);
    }
  }
}

}  // namespace headwise
