// How fast a model is before and after heads left it: both in the same rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"

namespace headwise {

struct PairTiming {
  std::string what;      // "prefill, 16 × 512 tokens"
  double tokens = 0;     // of one call
  double before_ms = 0;  // medians
  double after_ms = 0;
};

// Prefill (encoders: encoding) of one and of 16 sequences of 512 tokens, or of
// as many as the model knows, and, where tokens are generated one by one, of 32
// steps for one and for 16 sequences. One thread is timed by its processor
// time, several by the clock. `note`: of a machine that was busy.
std::vector<PairTiming> TimeBoth(Context& context, const Model& before,
                                 const Model& after, std::string& note);

// The first of these alone, in about two seconds.
PairTiming TimePrefill(Context& context, const Model& before,
                       const Model& after);

// Bytes that one token of a sequence takes in the key/value cache.
int64_t CacheBytesOf(const Model& model);

}  // namespace headwise
