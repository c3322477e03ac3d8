// Times whole training steps, beside what the machine allows in the same run:
// the step's matrix products alone, packed, and its attention alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/base/json.h"

namespace headwise::bench {

struct TrainOptions {
  // A folder whose config.json gives the model's shape; empty: 6 layers × 8
  // heads × 256, feed-forward 688, vocabulary 4096.
  std::string folder;
  int64_t batch = 8;     // sequences of a step
  int64_t length = 256;  // tokens of a sequence
  std::vector<int> threads = {1};
  double seconds = 8;  // for each number of threads, about
};

struct TrainRow {
  int threads = 1;
  double ms = 0;  // of one step: forward, backward, update
  double spread = 0;
  double tokens_per_second = 0;
  double gflops = 0;         // the step's products over its whole time
  double matmul_gflops = 0;  // the products alone, packed, in the same run
  double attention_ms = 0;   // attention alone, forward and backward
  double attention_gflops = 0;

  // What the products take alone, as a share of the step's time.
  double share() const { return gflops / matmul_gflops; }
  // The same, of what attention leaves of that time.
  double share_without_attention() const {
    return share() * ms / (ms - attention_ms);
  }
};

struct TrainResult {
  std::string title;
  int64_t batch = 0;
  int64_t length = 0;
  std::vector<TrainRow> rows;
  std::vector<std::string> notes;
};

// New weights, random tokens. Throws Error as opening the configuration does,
// and Error(kUnsupported) for a model that is not a causal language model.
TrainResult BenchTrain(const TrainOptions& options);

std::string Table(const TrainResult& result);
Json ToJson(const TrainResult& result, const TrainRow& row);

}  // namespace headwise::bench
