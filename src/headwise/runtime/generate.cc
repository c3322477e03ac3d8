// Generation. Door: generate.h.
#include "headwise/runtime/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/sampler.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

bool IsEnd(const ModelConfig& config, int32_t id) {
  return std::find(config.eos.begin(), config.eos.end(), id) !=
         config.eos.end();
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Takes padding, which fills batches and is no part of any text, out of a row
// of logits: encoder–decoders begin with it and were never taught not to say
// it.
void KeepSayable(const ModelConfig& config, std::span<float> logits) {
  const int64_t pad = config.pad;
  if (pad >= 0 && pad < std::ssize(logits) &&
      !IsEnd(config, static_cast<int32_t>(pad))) {
    logits[pad] = kNever;
  }
}

std::vector<int32_t> StartOf(const Model& model,
                             std::span<const int32_t> prompt) {
  if (model.config().encoder_decoder()) {
    return {static_cast<int32_t>(model.config().decoder_start)};
  }
  return {prompt.begin(), prompt.end()};
}

std::vector<int32_t> Sample(Context& context, const Model& model,
                            std::span<const int32_t> prompt,
                            const GenerateJob& job, const HookList& hooks) {
  Session session(context, model,
                  {.sequences = 1,
                   .capacity = job.context,
                   .hooks = hooks,
                   .policy = job.policy});
  if (model.config().encoder_decoder()) session.Encode(prompt);
  Sampler sampler(job);
  std::vector<int32_t> feed = StartOf(model, prompt);
  std::vector<int32_t> tokens;
  while (static_cast<int64_t>(tokens.size()) < job.max_tokens &&
         !job.stop.stop_requested() &&
         (tokens.empty() || session.position() < session.capacity())) {
    std::vector<float> logits =
        ToVector<float>(context, session.Feed(feed).view());
    KeepSayable(model.config(), logits);
    const int32_t next = sampler.Next(logits);
    if (IsEnd(model.config(), next)) break;
    tokens.push_back(next);
    if (job.on_token) job.on_token(next);
    feed = {next};
  }
  if (job.on_cache) job.on_cache(session.cache_bytes());
  return tokens;
}

struct Candidate {
  double score;  // Σ log p
  int32_t parent;
  int32_t token;
};

// The `count` best continuations of all beams, by their logits [beams,
// classes].
std::vector<Candidate> Best(const ModelConfig& config, std::span<float> logits,
                            const std::vector<double>& scores, size_t count) {
  const int64_t classes = std::ssize(logits) / std::ssize(scores);
  std::vector<Candidate> all;
  for (size_t b = 0; b < scores.size(); ++b) {
    if (scores[b] == -std::numeric_limits<double>::infinity()) continue;
    const std::span<float> z = logits.subspan(b * classes, classes);
    KeepSayable(config, z);
    const float top = *std::max_element(z.begin(), z.end());
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(z[c] - top);
    const double lse = top + std::log(sum);
    RequireFiniteLogits(lse);
    for (int64_t c = 0; c < classes; ++c) {
      if (z[c] == kNever) continue;
      all.push_back({scores[b] + z[c] - lse, static_cast<int32_t>(b),
                     static_cast<int32_t>(c)});
    }
  }
  const size_t kept = std::min(count, all.size());
  std::partial_sort(
      all.begin(), all.begin() + kept, all.end(),
      [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  all.resize(kept);
  return all;
}

std::vector<int32_t> Beam(Context& context, const Model& model,
                          std::span<const int32_t> prompt,
                          const GenerateJob& job, const HookList& hooks) {
  const size_t width = static_cast<size_t>(job.beam);
  Session session(context, model,
                  {.sequences = job.beam,
                   .capacity = job.context,
                   .hooks = hooks,
                   .policy = job.policy});
  session.Encode(prompt);
  std::vector<int32_t> feed(width, StartOf(model, prompt)[0]);
  std::vector<std::vector<int32_t>> texts(width);
  // Beams are equal at first: only one of them counts.
  std::vector<double> scores(width, -std::numeric_limits<double>::infinity());
  scores[0] = 0;
  std::vector<int32_t> best;
  double best_score = -std::numeric_limits<double>::infinity();
  auto finish = [&](const std::vector<int32_t>& text, double score) {
    const double length = static_cast<double>(text.size() + 1);
    const double value = score / std::pow(length, job.length_penalty);
    if (value <= best_score) return;
    best_score = value;
    best = text;
  };
  const int64_t steps = std::min(job.max_tokens, session.capacity());
  for (int64_t step = 0; step < steps; ++step) {
    if (job.stop.stop_requested()) break;
    std::vector<float> logits =
        ToVector<float>(context, session.Feed(feed).view());
    std::vector<std::vector<int32_t>> grown;
    std::vector<double> grown_scores;
    std::vector<int32_t> order;
    feed.clear();
    for (const Candidate& c : Best(model.config(), logits, scores, 2 * width)) {
      if (IsEnd(model.config(), c.token)) {
        finish(texts[c.parent], c.score);
      } else if (grown.size() < width) {
        grown.push_back(texts[c.parent]);
        grown.back().push_back(c.token);
        grown_scores.push_back(c.score);
        order.push_back(c.parent);
        feed.push_back(c.token);
      }
    }
    // A longer text can at best keep its log p: stop once none can win.
    const double length = static_cast<double>(job.max_tokens);
    if (grown.empty() ||
        grown_scores[0] / std::pow(length, job.length_penalty) < best_score) {
      break;
    }
    while (grown.size() < width) {  // fewer continuations than beams
      grown.push_back(grown[0]);
      grown_scores.push_back(-std::numeric_limits<double>::infinity());
      order.push_back(order[0]);
      feed.push_back(feed[0]);
    }
    texts = std::move(grown);
    scores = std::move(grown_scores);
    session.Reorder(order);
  }
  if (job.on_cache) job.on_cache(session.cache_bytes());
  if (best_score == -std::numeric_limits<double>::infinity()) best = texts[0];
  return best;
}

struct Translation {
  const std::vector<int32_t>* source = nullptr;
  std::vector<int32_t> said;  // with the decoder's start
  bool ended = false;
};

// One token more of each of these, which have said equally much.
void SayNext(Context& context, const Model& model,
             std::span<Translation* const> open) {
  const ModelConfig& config = model.config();
  const auto count = std::ssize(open);
  const auto said = std::ssize(open[0]->said);
  std::vector<int32_t> ids, decoder_ids;
  std::vector<int64_t> lengths;
  for (const Translation* one : open) {
    ids.insert(ids.end(), one->source->begin(), one->source->end());
    lengths.push_back(std::ssize(*one->source));
    decoder_ids.insert(decoder_ids.end(), one->said.begin(), one->said.end());
  }
  const std::vector<int64_t> decoder_lengths(count, said);
  const Tensor states = Forward(context, model,
                                {.ids = ids,
                                 .lengths = lengths,
                                 .decoder_ids = decoder_ids,
                                 .decoder_lengths = decoder_lengths});
  const Temp last = CopyOf(
      context,
      At(Reshaped(states.view(), {count, said, config.width}), 1, said - 1));
  Tensor there(context, model.type(), {count, config.vocabulary});
  model.Logits(context, last.view(), there.view());
  std::vector<float> logits = ToVector<float>(context, there.view());
  for (int64_t i = 0; i < count; ++i) {
    const auto row =
        std::span(logits).subspan(i * config.vocabulary, config.vocabulary);
    KeepSayable(config, row);
    const auto next =
        static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    open[i]->ended = IsEnd(config, next);
    if (!open[i]->ended) open[i]->said.push_back(next);
  }
}

}  // namespace

std::vector<std::vector<int32_t>> TranslateTogether(
    Context& context, const Model& model,
    std::span<const std::vector<int32_t>> sources, int64_t max_tokens) {
  if (!model.config().encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"translate", "an encoder–decoder", model.config().model_type,
                 "generate continues a text"});
  }
  std::vector<Translation> all;
  for (const std::vector<int32_t>& source : sources) {
    all.push_back({&source, StartOf(model, source)});
  }
  for (int64_t step = 0; step < max_tokens; ++step) {
    std::vector<Translation*> open;
    for (Translation& one : all) {
      if (!one.ended) open.push_back(&one);
    }
    if (open.empty()) break;
    SayNext(context, model, open);
  }
  std::vector<std::vector<int32_t>> said;
  for (const Translation& one : all) {
    said.emplace_back(one.said.begin() + 1, one.said.end());
  }
  return said;
}

std::vector<int32_t> Generate(Context& context, const Model& model,
                              std::span<const int32_t> prompt,
                              const GenerateJob& job, const HookList& hooks) {
  if (prompt.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"generate", "a prompt of at least one token", "none",
                 "models with a <bos> token may start from it alone"});
  }
  if (job.beam > 1 && !model.config().encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"generate", "an encoder–decoder for beam search",
                 model.config().model_type, "use temperature, top-k or top-p"});
  }
  return job.beam > 1 ? Beam(context, model, prompt, job, hooks)
                      : Sample(context, model, prompt, job, hooks);
}

}  // namespace headwise
