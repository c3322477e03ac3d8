// Door: rank_bench.h.
#include "bench/rank_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "bench/measure.h"
#include "bench/random_model.h"
#include "headwise/base/rng.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/summary.h"

namespace headwise::bench {
namespace {

std::vector<TextExample> RandomTexts(const RankBenchOptions& options,
                                     int64_t vocabulary) {
  std::vector<TextExample> texts;
  for (int64_t n = 0; n < options.sequences; ++n) {
    Rng rng(13, static_cast<uint64_t>(n));
    TextExample& text = texts.emplace_back();
    for (int64_t i = 0; i < options.length; ++i) {
      text.ids.push_back(
          static_cast<int32_t>(rng.Below(static_cast<uint64_t>(vocabulary))));
    }
  }
  return texts;
}

// Of every head and every whole layer closed: the layers from it on, and the
// vocabulary.
double FlopsOf(const Model& model, const RankBenchOptions& options) {
  const RunCost cost = CostOf(model.config(), options.length);
  const auto layers = static_cast<double>(model.config().layers.size());
  const double body = cost.flops() - cost.head_flops;
  double flops = 0;
  int64_t last = -1;
  for (const HeadRef& head : AllHeads(model)) {
    const double one =
        body * (layers - static_cast<double>(head.layer)) / layers +
        cost.head_flops;
    flops += head.layer == last ? one : 2 * one;
    last = head.layer;
  }
  return flops * static_cast<double>(options.sequences);
}

double TimeOf(Context& context, const Model& model,
              std::span<const TextExample> texts) {
  using Clock = std::chrono::steady_clock;
  RankOptions rank;
  rank.job.by = {Criterion::kAblationMean};
  const Clock::time_point begin = Clock::now();
  RankHeads(context, model, texts, rank);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

RankBenchResult BenchRank(const ContextOptions& where,
                          const RankBenchOptions& options) {
  Context context(where);
  ModelConfig config = NamedShape(options.shape);
  config.context = std::max(config.context, options.length);
  const auto model = RandomModel(context, config, options.type);
  const std::vector<TextExample> texts =
      RandomTexts(options, config.vocabulary);
  // Warm-up: weights are prepared, memory is taken.
  TimeOf(context, *model,
         std::span(texts).first(std::min<size_t>(texts.size(), 8)));
  RankBenchResult result;
  result.model = options.shape;
  result.device = ToString(context.device());
  result.type = Name(options.type);
  result.heads = std::ssize(AllHeads(*model));
  result.tokens = options.sequences * options.length;
  result.flops = FlopsOf(*model, options);
  const Repeated timed = Repeat(options.seconds, 1,
                                [&] { return TimeOf(context, *model, texts); });
  result.rankings = timed.runs;
  result.seconds = timed.seconds;
  result.spread = timed.spread;
  return result;
}

std::string Table(const RankBenchResult& r) {
  return fmt::format(
      "rank: {}, {} heads by mean ablation over {} tokens, {} on {}\n"
      "  {:.2f} s, the median of {}, {:.1f} % spread; {:.1f} TFLOP/s\n",
      r.model, r.heads, r.tokens, r.type, r.device, r.seconds, r.rankings,
      100 * r.spread, r.flops / r.seconds / 1e12);
}

Json ToJson(const RankBenchResult& r) {
  return {
      {"op", "rank"},       {"impl", "headwise"},     {"model", r.model},
      {"device", r.device}, {"type", r.type},         {"heads", r.heads},
      {"tokens", r.tokens}, {"rankings", r.rankings}, {"ms", 1e3 * r.seconds},
      {"spread", r.spread}, {"flops", r.flops}};
}

}  // namespace headwise::bench
