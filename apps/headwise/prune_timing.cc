// Door: prune_timing.h.
#include "prune_timing.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "bench/measure.h"
#include "headwise/base/rng.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr int64_t kPrompt = 512, kSteps = 32;

std::vector<int32_t> RandomIds(const Model& model, int64_t count) {
  Rng rng(1);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(
        rng.Below(static_cast<uint64_t>(model.config().vocabulary)));
  }
  return ids;
}

std::function<void()> Prefill(Context& context, const Model& model,
                              int64_t sequences, int64_t length) {
  const auto ids = std::make_shared<const std::vector<int32_t>>(
      RandomIds(model, sequences * length));
  const auto lengths =
      std::make_shared<const std::vector<int64_t>>(sequences, length);
  return [&context, &model, ids, lengths] {
    ForwardInput input = {.ids = *ids, .lengths = *lengths};
    if (model.config().encoder_decoder()) {
      input.decoder_ids = *ids;
      input.decoder_lengths = *lengths;
    }
    Forward(context, model, input);
    context.Synchronize();
  };
}

// One step at a time, kSteps of them, the cache growing from nothing.
std::function<void()> Decode(Context& context, const Model& model,
                             int64_t sequences) {
  const auto ids = std::make_shared<const std::vector<int32_t>>(
      RandomIds(model, kSteps * sequences));
  const auto session = std::make_shared<Session>(
      context, model,
      SessionOptions{.sequences = sequences, .capacity = kSteps});
  if (model.config().encoder_decoder()) {
    session->Encode(std::span(*ids).first(kSteps));
  }
  return [&context, session, ids, sequences] {
    session->Clear();
    for (int64_t step = 0; step < kSteps; ++step) {
      session->Feed(std::span(*ids).subspan(step * sequences, sequences));
    }
    context.Synchronize();
  };
}

struct Work {
  std::string what;
  double tokens;
  std::function<std::function<void()>(const Model&)> make;
};

std::vector<Work> AllWork(Context& context, const ModelConfig& config) {
  const int64_t length =
      config.context > 0 ? std::min(kPrompt, config.context) : kPrompt;
  std::vector<Work> all;
  for (const int64_t sequences : {1, 16}) {
    all.push_back({fmt::format("prefill, {} × {} tokens", sequences, length),
                   static_cast<double>(sequences * length),
                   [&context, sequences, length](const Model& model) {
                     return Prefill(context, model, sequences, length);
                   }});
  }
  if (!config.causal && !config.encoder_decoder()) return all;
  for (const int64_t sequences : {1, 16}) {
    all.push_back({fmt::format("decode, {} × {} steps", sequences, kSteps),
                   static_cast<double>(sequences * kSteps),
                   [&context, sequences](const Model& model) {
                     return Decode(context, model, sequences);
                   }});
  }
  return all;
}

// One thread of the CPU by its work; else by the clock.
PairTiming TimeWork(const Context& context, const Work& work,
                    const Model& before, const Model& after, double seconds) {
  const int threads = context.device().is_cpu() ? context.threads() : 2;
  std::vector<bench::Candidate> candidates(2);
  candidates[0].time = bench::TimedByWork(threads, work.make(before));
  candidates[1].time = bench::TimedByWork(threads, work.make(after));
  bench::MeasureOptions options;
  options.budget_seconds = seconds;
  bench::Measure(options, candidates);
  return {work.what, work.tokens, candidates[0].row.ms, candidates[1].row.ms};
}

}  // namespace

PairTiming TimePrefill(Context& context, const Model& before,
                       const Model& after) {
  return TimeWork(context, AllWork(context, before.config())[0], before, after,
                  2);
}

std::vector<PairTiming> TimeBoth(Context& context, const Model& before,
                                 const Model& after, std::string& note) {
  const bench::LoadWatch watch;
  std::vector<PairTiming> timings;
  for (const Work& work : AllWork(context, before.config())) {
    timings.push_back(TimeWork(context, work, before, after, 6));
  }
  note = bench::LoadNote(watch);
  return timings;
}

int64_t CacheBytesOf(const Model& model) {
  int64_t bytes = 0;
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder}) {
    if (!model.config().causal && kind == AttentionKind::kSelf) continue;
    for (const AttentionLayer* layer : AttentionLayers(model, kind)) {
      bytes += layer->config().kv_heads *
               (layer->config().head_dim + layer->value_dim()) *
               static_cast<int64_t>(SizeOf(model.type()));
    }
  }
  return bytes;
}

}  // namespace headwise
