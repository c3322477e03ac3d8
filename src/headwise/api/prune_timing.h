// How fast a model is before and after heads left it: both in the same rounds.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/prune.h"

namespace headwise {

struct TimedModels {
  Context& context;
  const Model& before;
  const Model& after;
};

// Prefill (encoders: encoding) of one and of 16 sequences of 512 tokens, or of
// as many as the model knows, and, where tokens are generated one by one, of 32
// steps for one and for 16 sequences.
std::vector<PairTiming> TimeBoth(const TimedModels& models,
                                 const TimePair& time);

// The first of these alone, in about two seconds.
PairTiming TimePrefill(const TimedModels& models, const TimePair& time);

// Bytes that one token of a sequence takes in the key/value cache.
int64_t CacheBytesOf(const Model& model);

}  // namespace headwise
