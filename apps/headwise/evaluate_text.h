// The results of evaluate, as text or JSON.
#pragma once

#include <span>
#include <string>

#include "cache_flags.h"
#include "headwise/evaluate.h"
#include "headwise/head_ref.h"
#include "headwise/loss.h"
#include "run_flags.h"

namespace headwise {

void PrintEvaluation(const HeadEvaluation& result,
                     std::span<const HeadRef> closed, const RunFlags& run);
void PrintEvaluation(const LabelEvaluation& result,
                     std::span<const HeadRef> closed, const RunFlags& run);
void PrintEvaluation(const CacheEvaluation& result, const CacheChoice& choice,
                     const RunFlags& run, const std::string& model_hash);

// "2.3410 [2.2977, 2.3844]"
std::string ToText(const Interval& interval, bool sign = false);

}  // namespace headwise
