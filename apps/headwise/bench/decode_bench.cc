// Door: decode_bench.h.
#include "bench/decode_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "bench/measure.h"
#include "bench/random_model.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/summary.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/sampler.h"
#include "headwise/runtime/session.h"

namespace headwise::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// GB/s, read and written, of copies that no cache holds.
double CopyRate(Context& context) {
  const bool on_host = context.device().is_cpu();
  const int64_t count = int64_t{1} << (on_host ? 25 : 28);
  const Tensor from(context, DType::kF32, {count});
  Tensor to(context, DType::kF32, {count});
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    context.Synchronize();
    const auto begin = SteadyClock::now();
    Copy(context, from.view(), to.view());
    context.Synchronize();
    if (i > 2) seconds.push_back(SecondsSince(begin));
  }
  return 1e-9 * 2 * sizeof(float) * static_cast<double>(count) /
         Median(seconds);
}

// The host reads weights as the file stores them, a device in its own type.
double WeightBytes(const Context& context, const Model& model, DType type) {
  if (context.device().is_cpu()) {
    return static_cast<double>(WeightBytesOfToken(model));
  }
  std::vector<const Linear*> linears = LinearsOf(model.predictor());
  linears.insert(linears.end(),
                 {&model.head().transform, &model.head().vocabulary});
  double numbers = 0;
  for (const Linear* linear : linears) {
    numbers += static_cast<double>(linear->in() * linear->out());
  }
  return numbers * static_cast<double>(ElementSize(type));
}

double CacheBytes(const ModelConfig& config, DType type, double rows) {
  double numbers = 0;
  for (const LayerShape& layer : config.layers) {
    numbers += static_cast<double>(2 * layer.kv_heads * config.HeadDim(layer));
  }
  return rows * numbers * static_cast<double>(ElementSize(type));
}

// The seconds of `tokens` tokens after a prompt.
double TimeText(Context& context, const Model& model,
                const DecodeOptions& options, Session& session) {
  std::vector<int32_t> prompt(options.context);
  const int64_t vocabulary = model.config().vocabulary;
  for (size_t i = 0; i < prompt.size(); ++i) {
    prompt[i] = static_cast<int32_t>(7919 * i % vocabulary);
  }
  session.Clear();
  Sampler sampler({});
  const auto choose = [&](const Tensor& logits) {
    return sampler.Next(ToVector<float>(context, logits.view()));
  };
  int32_t next = choose(session.Feed(prompt));
  const auto begin = SteadyClock::now();
  for (int64_t i = 0; i < options.tokens; ++i) {
    next = choose(session.Feed({&next, 1}));
  }
  return SecondsSince(begin);
}

}  // namespace

DecodeResult BenchDecode(const ContextOptions& where,
                         const DecodeOptions& options) {
  Context context(where);
  std::optional<Checkpoint> checkpoint;
  std::unique_ptr<Model> made;
  if (options.folder.empty()) {
    made = RandomModel(context, NamedShape(options.shape), options.type);
  } else {
    checkpoint.emplace(options.folder, TokenizerOptions{}, options.type);
  }
  const Model& model = made ? *made : checkpoint->model();
  DecodeResult result = {.model = made ? options.shape : options.folder,
                         .device = ToString(context.device()),
                         .type = Name(options.type),
                         .context = options.context,
                         .tokens = options.tokens,
                         .record = options.record};
  Session session(
      context, model,
      {.capacity = options.context + options.tokens, .record = options.record});
  TimeText(context, model, options, session);  // makes what is made once
  const Repeated timed = Repeat(options.seconds, 3, [&] {
    return TimeText(context, model, options, session);
  });
  result.spread = timed.spread;
  result.tokens_per_second =
      static_cast<double>(options.tokens) / timed.seconds;
  result.weight_bytes = WeightBytes(context, model, options.type);
  result.cache_bytes =
      CacheBytes(model.config(), options.type,
                 static_cast<double>(options.context) +
                     0.5 * static_cast<double>(options.tokens));
  result.copy_rate = CopyRate(context);
  return result;
}

std::string Table(const DecodeResult& r) {
  return fmt::format(
      "{}: {} on {}, {} tokens after {}{}\n"
      "  {:.0f} tokens/s, spread {:.0f}%; {:.1f} MB a token: {:.1f} GB/s, "
      "{:.1f} % of a copy's {:.1f}\n",
      r.model, r.type, r.device, r.tokens, r.context,
      r.record ? "" : ", not recorded", r.tokens_per_second, 100 * r.spread,
      1e-6 * (r.weight_bytes + r.cache_bytes), r.rate(), 100 * r.share(),
      r.copy_rate);
}

Json ToJson(const DecodeResult& r) {
  return {{"op", "decode"},
          {"model", r.model},
          {"device", r.device},
          {"type", r.type},
          {"context", r.context},
          {"tokens", r.tokens},
          {"recorded", r.record},
          {"tokens_per_second", r.tokens_per_second},
          {"spread", r.spread},
          {"bytes_per_token", r.weight_bytes + r.cache_bytes},
          {"rate", r.rate()},
          {"copy_rate", r.copy_rate},
          {"share", r.share()}};
}

}  // namespace headwise::bench
