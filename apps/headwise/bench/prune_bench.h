// Times the attention sub-layer (projections, attention, output product; norm
// and residual left out) with fewer and fewer heads, and with heads that see or
// serve only a part: work must be spent only on heads that matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise::bench {

struct PruneBenchOptions {
  ContextOptions where;  // its threads are those below
  DType type = DType::kF32;
  int64_t sequences = 1;
  int64_t tokens = 512;  // of each
  std::vector<int> threads = {1};
  double seconds = 8;  // for each number of threads, about
};

struct PruneBenchRow {
  std::string what;  // "9 of 12 heads", …
  int threads = 1;
  double ms = 0;
  double spread = 0;
  double share = 0;       // of the time of all heads, of the same kind
  double proportion = 0;  // what the share should be; 0: nothing is expected
  // Where the time goes: the products alone, and what is left of the whole. Not
  // of mixtures, whose products are others.
  double projections_ms = 0, output_ms = 0;
  bool has_parts() const { return projections_ms > 0; }
  double attention_ms() const { return ms - projections_ms - output_ms; }
};

struct PruneBenchResult {
  std::string title;
  int64_t tokens = 0, sequences = 0;
  std::vector<PruneBenchRow> rows;
  std::vector<std::string> notes;
};

// GPT-2 small's width and heads, random numbers. One thread is timed by the
// processor time that it took, so that neighbours on the machine count little;
// several by the clock, as a GPU is.
PruneBenchResult BenchPrune(const PruneBenchOptions& options);

std::string Table(const PruneBenchResult& result);
Json ToJson(const PruneBenchResult& result, const PruneBenchRow& row);

}  // namespace headwise::bench
