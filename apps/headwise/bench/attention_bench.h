// Times the attention operator beside its peers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/config.h"
#include "bench/measure.h"

namespace headwise::bench {

struct Options {
  bool peers = false;
  bool all = false;    // every implementation that takes the problem
  double seconds = 8;  // for one table, about
};

struct Result {
  std::string title;
  std::vector<Row> rows;
  std::vector<std::string> notes;
  std::vector<std::string> peer_versions;
};

// One result for each mask and pass. Throws Error(kInvalidArgument) for
// impossible problems and Error(kUnsupported) where nothing takes one.
std::vector<Result> BenchAttention(const Config& config,
                                   const Options& options);

// matmul_bench.cc. One result for each shape.
std::vector<Result> BenchMatmul(const Config& config, const Options& options);

// The pause between samples that lets other libraries' threads fall asleep.
double SettleSeconds(const Config& config);

}  // namespace headwise::bench
