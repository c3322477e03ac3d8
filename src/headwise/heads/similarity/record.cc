// Copies of what passes. Door: record.h.
#include "headwise/heads/similarity/record.h"

#include <cstring>

namespace headwise {
namespace {

// A dense copy of f32 [1, rows, heads, dim].
Tensor Copy(const ConstTensorView& view) {
  Tensor copy(DType::kF32, {1, view.shape[1], view.shape[2], view.shape[3]});
  float* to = copy.As<float>();
  for (int64_t row = 0; row < view.shape[1]; ++row) {
    for (int64_t head = 0; head < view.shape[2]; ++head) {
      std::memcpy(
          to, view.As<float>() + row * view.stride[1] + head * view.stride[2],
          view.shape[3] * sizeof(float));
      to += view.shape[3];
    }
  }
  return copy;
}

}  // namespace

int64_t CountedRows::count() const {
  int64_t count = 0;
  for (const float weight : weights) count += weight > 0 ? 1 : 0;
  return count;
}

WindowRecord::WindowRecord(std::map<AttentionKind, CountedRows> rows)
    : rows_(std::move(rows)) {}

void WindowRecord::AfterAttention(const AttentionSite& site,
                                  const AttentionProblem& problem,
                                  const AttentionArgs& args) {
  last_ = {site.kind, site.layer};
  Layer& layer = layers_[last_];
  layer.q = Copy(args.q);
  layer.k = Copy(args.k);
  const int64_t count = problem.heads * problem.query_len;
  layer.lse = Tensor(DType::kF32, {1, problem.heads, problem.query_len});
  std::memcpy(layer.lse.As<float>(), args.lse.data, count * sizeof(float));
  // One sequence end to end is one sequence.
  layer.source.problem = problem;
  layer.source.problem.packed = false;
  layer.source.args = {};
  layer.source.args.q = layer.q.view();
  layer.source.args.k = layer.k.view();
  layer.source.args.lse = layer.lse.view();
  if (const ConstTensorView& table = args.relative_table; table) {
    layer.relative_table =
        Tensor(DType::kF32, {table.shape[0], table.shape[1]});
    std::memcpy(layer.relative_table.As<float>(), table.data,
                layer.relative_table.bytes());
    layer.source.args.relative_table = layer.relative_table.view();
  }
}

bool WindowRecord::Wants(std::string_view activation) const {
  return activation.ends_with(".head_output");
}

void WindowRecord::Take(std::string_view activation, ConstTensorView value) {
  const std::vector<int64_t>& tokens = rows_.at(last_.first).outputs;
  const int64_t heads = value.shape[1], dim = value.shape[2];
  Tensor& outputs = layers_[last_].outputs;
  outputs =
      Tensor(DType::kF32, {static_cast<int64_t>(tokens.size()), heads, dim});
  float* to = outputs.As<float>();
  for (const int64_t token : tokens) {
    for (int64_t head = 0; head < heads; ++head) {
      std::memcpy(
          to,
          value.As<float>() + token * value.stride[0] + head * value.stride[1],
          dim * sizeof(float));
      to += dim;
    }
  }
}

}  // namespace headwise
