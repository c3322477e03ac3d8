// Times a whole model: tokens one by one (decode), a prompt (prefill), or
// sentences (encode), beside what the machine allows in the same run: memory's
// read bandwidth, and the matrix products alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/base/json.h"

namespace headwise::bench {

struct ModelOptions {
  std::string folder;
  std::string onnx;      // the same encoder for ONNX Runtime; empty: none
  int64_t prompt = 512;  // tokens of prefill
  int64_t batch = 32;    // sentences of encode
  int64_t length = 128;  // tokens of a sentence
  bool observe = false;  // only the prompt, with every head observed (core)
  std::vector<int> threads = {1};
  double seconds = 8;  // for each number of threads, about
};

struct ModelRow {
  std::string pass;  // decode, prefill, encode
  std::string impl = "headwise";
  int threads = 1;
  double ms = 0;
  double spread = 0;
  double tokens_per_second = 0;
  std::string unit;  // GB/s or GFLOP/s
  double rate = 0;
  double bound = 0;  // what the machine did in the same run; 0: none
  double ratio = 0;  // of ONNX Runtime's time to ours; 0: none
};

struct ModelResult {
  std::string title;
  std::vector<ModelRow> rows;
  std::vector<std::string> notes;
  std::vector<std::string> peer_versions;
};

// Throws Error as opening the model does.
ModelResult BenchModel(const ModelOptions& options);

std::string Table(const ModelResult& result);
Json ToJson(const ModelRow& row);

}  // namespace headwise::bench
