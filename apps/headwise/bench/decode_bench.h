// Times tokens one by one on any device, beside what its memory does: the bytes
// that a token has to read over its time, as a share of the rate of a copy.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise::bench {

struct DecodeOptions {
  std::string shape = "minimind2-small";  // random_model.h
  std::string folder;                     // a model's, instead of a shape
  int64_t context = 128;                  // tokens before the first timed one
  int64_t tokens = 128;
  double seconds = 8;  // about; at least three texts
  bool record = true;  // as of a Session
  DType type = DType::kF32;
};

struct DecodeResult {
  std::string model;
  std::string device;
  std::string type;
  int64_t context = 0;
  int64_t tokens = 0;
  bool record = true;
  double tokens_per_second = 0;  // the median of the texts
  double spread = 0;             // of the texts' times
  double weight_bytes = 0;       // read for a token
  double cache_bytes = 0;        // in the middle of the text
  double copy_rate = 0;          // GB/s of a device's copy, read and written

  double rate() const {  // GB/s
    return 1e-9 * (weight_bytes + cache_bytes) * tokens_per_second;
  }
  double share() const { return rate() / copy_rate; }
};

// The likeliest token each time, its choice included. Throws Error as the shape
// does.
DecodeResult BenchDecode(const ContextOptions& context,
                         const DecodeOptions& options);

std::string Table(const DecodeResult& result);
Json ToJson(const DecodeResult& result);

}  // namespace headwise::bench
