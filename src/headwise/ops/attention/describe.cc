// An attention problem in words. Door: include/headwise/attention.h.
#include <fmt/format.h>

#include "headwise/attention.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/precision.h"

namespace headwise {
namespace {

std::string Describe(const AttentionMask& mask) {
  std::string text;
  if (mask.before == kUnlimited && mask.after == kUnlimited) {
    text = "no mask";
  } else if (mask.after == 0) {
    text = mask.before == kUnlimited
               ? "causal"
               : fmt::format("window {}", mask.before + 1);
  } else {
    auto side = [](int64_t reach) {
      return reach == kUnlimited ? std::string("∞") : fmt::to_string(reach);
    };
    text = fmt::format("band −{}…+{}", side(mask.before), side(mask.after));
  }
  if (mask.query_offset != 0) {
    text += fmt::format(", offset {}", mask.query_offset);
  }
  if (mask.sinks != 0) text += fmt::format(", {} sinks", mask.sinks);
  return text;
}

}  // namespace

std::string ToString(const AttentionProblem& problem) {
  std::string text;
  if (problem.batch != 1) text += fmt::format("{} sequences, ", problem.batch);
  text += fmt::format("{} {}", problem.heads,
                      problem.heads == 1 ? "head" : "heads");
  if (problem.kv_heads != problem.heads) {
    text += fmt::format(" on {}", problem.kv_heads);
  }
  text += fmt::format(" × {}", problem.head_dim);
  if (ValueDim(problem) != problem.head_dim) {
    text += fmt::format(" → {}", ValueDim(problem));
  }
  text += fmt::format(", {} × {}, {}", problem.query_len, problem.key_len,
                      Describe(problem.mask));
  if (problem.bias == AttentionBias::kAlibi) text += ", ALiBi";
  if (problem.bias == AttentionBias::kRelative) {
    text += fmt::format(", relative bias ±{}", problem.relative_reach);
  }
  if (problem.scale != 0) text += fmt::format(", scale {}", problem.scale);
  if (problem.soft_cap != 0) {
    text += fmt::format(", soft-cap {}", problem.soft_cap);
  }
  if (problem.packed) text += ", packed";
  text += fmt::format(", {}", Name(problem.type));
  if (problem.precision != Precision::kStored) {
    text += fmt::format(", in {}", Name(problem.precision));
  }
  if (problem.device.is_cuda()) text += ", CUDA";
  return text;
}

}  // namespace headwise
