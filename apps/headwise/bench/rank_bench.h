// Times a ranking of every head by mean ablation, whole, on any device: random
// ids in memory, random weights made where they run.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise::bench {

struct RankBenchOptions {
  std::string shape = "gpt2";  // as random_model.h has it
  int64_t sequences = 64;
  int64_t length = 1024;  // tokens of a sequence
  double seconds = 10;    // about, after warm-up; one ranking at least
  DType type = DType::kF32;
};

struct RankBenchResult {
  std::string model;
  std::string device;
  std::string type;
  int64_t heads = 0;
  int64_t tokens = 0;  // of the text
  int64_t rankings = 0;
  double seconds = 0;  // of one, the median
  double spread = 0;
  double flops = 0;  // that one cannot do without
};

// Throws Error as the shape does.
RankBenchResult BenchRank(const ContextOptions& context,
                          const RankBenchOptions& options);

std::string Table(const RankBenchResult& result);
Json ToJson(const RankBenchResult& result);

}  // namespace headwise::bench
