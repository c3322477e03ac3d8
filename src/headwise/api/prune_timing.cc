// Door: prune_timing.h.
#include "headwise/api/prune_timing.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "headwise/base/rng.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr int64_t kPrompt = 512, kMostSteps = 32;

int64_t StepsOf(const ModelConfig& config) {
  return config.context > 0 ? std::min(kMostSteps, config.context) : kMostSteps;
}

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

// One step at a time, the cache growing from nothing.
std::function<void()> Decode(Context& context, const Model& model,
                             int64_t sequences) {
  const int64_t steps = StepsOf(model.config());
  const auto ids = std::make_shared<const std::vector<int32_t>>(
      RandomIds(model, steps * sequences));
  const auto session = std::make_shared<Session>(
      context, model,
      SessionOptions{.sequences = sequences, .capacity = steps});
  if (model.config().encoder_decoder()) {
    session->Encode(std::span(*ids).first(steps));
  }
  return [&context, session, ids, sequences, steps] {
    session->Clear();
    for (int64_t step = 0; step < steps; ++step) {
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
  const int64_t steps = StepsOf(config);
  for (const int64_t sequences : {1, 16}) {
    all.push_back({fmt::format("decode, {} × {} steps", sequences, steps),
                   static_cast<double>(sequences * steps),
                   [&context, sequences](const Model& model) {
                     return Decode(context, model, sequences);
                   }});
  }
  return all;
}

PairTiming TimeWork(const TimedModels& models, const Work& work,
                    const TimePair& time, double seconds) {
  const auto [before, after] =
      time(work.make(models.before), work.make(models.after), seconds);
  return {work.what, work.tokens, before, after};
}

}  // namespace

PairTiming TimePrefill(const TimedModels& models, const TimePair& time) {
  const auto work = AllWork(models.context, models.before.config());
  return TimeWork(models, work[0], time, 2);
}

std::vector<PairTiming> TimeBoth(const TimedModels& models,
                                 const TimePair& time) {
  std::vector<PairTiming> timings;
  for (const Work& work : AllWork(models.context, models.before.config())) {
    timings.push_back(TimeWork(models, work, time, 6));
  }
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
               ElementSize(model.type());
    }
  }
  return bytes;
}

}  // namespace headwise
