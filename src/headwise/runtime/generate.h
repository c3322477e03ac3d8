// Text that continues a prompt, token by token, or a translation by beam.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/runtime/kv_policy.h"
#include "headwise/runtime/sampler.h"

namespace headwise {

struct GenerateOptions {
  int64_t max_tokens = 100;
  int64_t capacity = 0;       // 0: the model's context
  int64_t beam = 1;           // encoder–decoders; 1: the sampler chooses
  double length_penalty = 1;  // beams are compared by log p / length^penalty
  SamplerOptions sampler;
  HookList hooks = {};
  bool record = true;  // as of a Session
  // Which heads keep what of the text; null: all keep everything.
  const KvPolicy* policy = nullptr;
  // Called at the end with what the cache took.
  std::function<void(const CacheBytes&)> on_cache = {};
  std::stop_token stop;
  // Called with each new token as it comes (not with beams).
  std::function<void(int32_t)> on_token;
};

// New tokens after the prompt (decoder-only) or of the target (encoder–
// decoder, prompt being the source), without the end token. A full context
// ends the text too. An encoder–decoder's padding is never chosen, as in
// transformers.
std::vector<int32_t> Generate(Context& context, const Model& model,
                              std::span<const int32_t> prompt,
                              const GenerateOptions& options);

}  // namespace headwise
