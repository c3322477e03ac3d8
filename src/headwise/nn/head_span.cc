// Learned spans as a relative bias. Door: head_span.h.
#include "headwise/nn/head_span.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace headwise {
namespace {

// z of each head, in positions.
std::vector<double> Reaches(const SpanConfig& config, const Parameter& spans) {
  const Tensor values = ToF32(spans);
  std::vector<double> reaches;
  for (int64_t h = 0; h < values.size(); ++h) {
    reaches.push_back(static_cast<double>(config.limit) *
                      std::clamp(values.As<float>()[h], 0.0f, 1.0f));
  }
  return reaches;
}

}  // namespace

HeadSpans::HeadSpans(SpanConfig config, Parameter spans)
    : config_(config), spans_(std::move(spans)) {}

void HeadSpans::Forward(const GateDraw& draw, AttentionProblem& problem,
                        AttentionArgs& args, SpanSaved& saved) const {
  if (config_.ramp == 0) return;
  const double ramp = static_cast<double>(config_.ramp);
  const std::vector<double> z = Reaches(config_, spans_);
  const double widest = *std::max_element(z.begin(), z.end());
  // m is 0 from ramp + z on.
  const auto band = static_cast<int64_t>(std::ceil(ramp + widest)) - 1;
  const int64_t reach =
      std::min(band + 1, std::max(problem.query_len, problem.key_len));
  problem.mask.before = std::min(problem.mask.before, band);
  problem.mask.after = std::min(problem.mask.after, band);
  problem.bias = AttentionBias::kRelative;
  problem.relative_reach = reach;
  const int64_t width = 2 * reach + 1;
  saved.table.resize(z.size() * width);
  for (size_t h = 0; h < z.size(); ++h) {
    for (int64_t d = 0; d <= reach; ++d) {
      const double m = (ramp + z[h] - static_cast<double>(d)) / ramp;
      const float value = m > 0 ? static_cast<float>(std::log(std::min(m, 1.0)))
                                : -std::numeric_limits<float>::infinity();
      float* row = saved.table.data() + static_cast<int64_t>(h) * width;
      row[reach - d] = row[reach + d] = value;
    }
  }
  args.relative_table =
      View(saved.table.data(), {static_cast<int64_t>(z.size()), width});
  if (draw.training == nullptr || draw.training->loss == nullptr) return;
  for (const double one : z) {
    *draw.training->loss +=
        draw.training->span_penalty * one / static_cast<double>(config_.limit);
  }
}

void HeadSpans::Backward(const AttentionProblem& problem, const GateDraw& draw,
                         const float* dtable) const {
  const double ramp = static_cast<double>(config_.ramp);
  const double limit = static_cast<double>(config_.limit);
  const std::vector<double> z = Reaches(config_, spans_);
  const int64_t reach = problem.relative_reach, width = 2 * reach + 1;
  for (size_t h = 0; h < z.size(); ++h) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double left =
          ramp + z[h] - static_cast<double>(std::abs(i - reach));
      if (left <= 0 || left >= ramp) continue;
      sum += dtable[static_cast<int64_t>(h) * width + i] / left;
    }
    sum *= limit;
    if (draw.training != nullptr) sum += draw.training->span_penalty;
    spans_.gradient.As<float>()[h] += static_cast<float>(sum);
  }
}

}  // namespace headwise
