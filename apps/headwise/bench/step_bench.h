// Times whole training steps of a model of a well-known shape on any device:
// random ids, new weights, forward, backward, clipping and AdamW.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise::bench {

struct StepBenchOptions {
  std::string shape = "gpt2";  // as random_model.h has it
  int64_t sequences = 64;
  int64_t length = 1024;  // tokens of a sequence
  bool gates = true;      // of every head a gate, whose gradient is taken too
  double seconds = 10;    // about, after warm-up
  DType type = DType::kF32;
};

struct StepBenchResult {
  std::string model;
  std::string device;
  std::string type;
  int64_t parameters = 0;
  int64_t sequences = 0, length = 0;
  bool gates = false;
  int64_t steps = 0;
  double seconds = 0;  // of one step, the median
  double spread = 0;
  double tokens_per_second() const {
    return static_cast<double>(sequences * length) / seconds;
  }
};

// Throws Error as the shape does, and Error(kUnsupported) for a model that is
// not a causal language model.
StepBenchResult BenchStep(const ContextOptions& context,
                          const StepBenchOptions& options);

std::string Table(const StepBenchResult& result);
Json ToJson(const StepBenchResult& result);

}  // namespace headwise::bench
