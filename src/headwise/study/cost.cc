// Claim: the cost of multi-head attention does not depend on the number of
//   heads at fixed width.
// Expectation: 4d² parameters for any h, 3d² without W_O (so "a third more
//   parameters" is W_O, not the heads); projections and products cost the same
//   for any h; the bytes of the maps and the softmax work grow with h.
// Kind: law.
#include <fmt/core.h>

#include <cmath>

#include "headwise/multi_head_attention.h"
#include "headwise/study/study.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace cost_study {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kWidth = 512;
constexpr int64_t kLength = 32;

// Counted on the tensors that exist, not by formula.
int64_t CountParameters(const MultiHeadAttention& module) {
  int64_t count = 0;
  MultiHeadAttentionParameters::VisitFields(
      module.parameters(), [&](const char*, const Tensor& tensor, const char*) {
        if (tensor.rank() > 0) count += tensor.size();
      });
  return count;
}

int64_t MapBytes(Context& context, const MultiHeadAttention& module,
                 const Tensor& x) {
  int64_t bytes = 0;
  for (int64_t h = 0; h < module.config().heads; ++h) {
    bytes += static_cast<int64_t>(
        module.Weights(context, h, {.x = x.view()}).bytes());
  }
  return bytes;
}

struct Cost {
  double parameters = 0;          // with W_O
  double parameters_without = 0;  // without
  double product_flops = 0;       // QKᵀ and AV
  double map_bytes = 0;
};

Cost Measure(Context& context, int64_t heads, const Tensor& x) {
  const MultiHeadAttention with({.d_model = kWidth, .heads = heads}, kSeed);
  const MultiHeadAttention without(
      {.d_model = kWidth, .heads = heads, .output_projection = false}, kSeed);
  AttentionProblem problem;
  problem.heads = problem.kv_heads = heads;
  problem.query_len = problem.key_len = kLength;
  problem.head_dim = with.config().head_dim;
  return {static_cast<double>(CountParameters(with)),
          static_cast<double>(CountParameters(without)),
          AttentionFlops(problem),
          static_cast<double>(MapBytes(context, with, x))};
}

StudyResult Run(Context& context, const StudyRequest& /*request*/) {
  StudyResult result;
  result.seeds = {kSeed};
  Rng rng(kSeed, 1);
  const Tensor x = AsSequence(RandomNormal(kLength, kWidth, rng));
  const double d2 = static_cast<double>(kWidth * kWidth);
  const double n2 = static_cast<double>(kLength * kLength);

  StudyTable table{
      fmt::format("Width {}, {} words; f32", kWidth, kLength),
      {"heads", "head_dim", "parameters", "without W_O", "projection FLOPs",
       "product FLOPs", "map bytes", "exponentials"},
      {}};
  LinePlot plot{"What grows with the number of heads (relative to one head)",
                "heads",
                "times one head",
                true,
                true,
                {{"parameters", {}, {}},
                 {"product FLOPs", {}, {}},
                 {"map bytes, exponentials", {}, {}}}};
  Cost one;
  double parameters = 0, without = 0, flops = 0, bytes = 0;
  for (int64_t heads = 1; heads <= kWidth; heads *= 2) {
    const Cost cost = Measure(context, heads, x);
    if (heads == 1) one = cost;
    const double h = static_cast<double>(heads);
    parameters = Worst(parameters, std::abs(cost.parameters - 4 * d2));
    without = Worst(without, std::abs(cost.parameters_without - 3 * d2));
    flops = Worst(flops, std::abs(cost.product_flops -
                                  4 * n2 * static_cast<double>(kWidth)));
    bytes = Worst(bytes, std::abs(cost.map_bytes - 4 * n2 * h));
    table.rows.push_back(
        {fmt::format("{}", heads), fmt::format("{}", kWidth / heads),
         fmt::format("{:.0f}", cost.parameters),
         fmt::format("{:.0f}", cost.parameters_without),
         fmt::format("{:.3g}", 2 * cost.parameters * kLength),
         fmt::format("{:.3g}", cost.product_flops),
         fmt::format("{:.0f}", cost.map_bytes), fmt::format("{:.0f}", h * n2)});
    const double ratios[] = {cost.parameters / one.parameters,
                             cost.product_flops / one.product_flops,
                             cost.map_bytes / one.map_bytes};
    for (int i = 0; i < 3; ++i) {
      plot.series[i].x.push_back(h);
      plot.series[i].y.push_back(ratios[i]);
    }
  }
  result.Near("|parameters − 4d²|, worst of h = 1 … 512", parameters, 0, 0);
  result.Near("|parameters − 3d²| without W_O, worst", without, 0, 0);
  result.Near("share of parameters that W_O adds",
              one.parameters / one.parameters_without - 1, 1.0 / 3, 1e-12);
  result.Near("|product FLOPs − 4n²d|, worst", flops, 0, 0);
  result.Near("|map bytes − 4hn²|, worst", bytes, 0, 0);
  result.tables.push_back(std::move(table));
  result.pictures.push_back(std::move(plot));
  result.remark =
      "\"Many heads need a third more parameters\" compares a layer without "
      "W_O "
      "with one that has it; 1 × 512 and 8 × 64 with W_O both have 4d².";
  return result;
}

}  // namespace
}  // namespace cost_study

const Study kCostStudy = {
    .name = "cost",
    .claim =
        "At fixed width the number of heads changes neither parameters "
        "nor products.",
    .expectation =
        "4d² parameters for any h, 3d² without W_O; products equal; "
        "map bytes and softmax work ∝ h",
    .kind = StudyKind::kLaw,
    .run = cost_study::Run};

}  // namespace headwise
