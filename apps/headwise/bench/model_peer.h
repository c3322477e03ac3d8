// ONNX Runtime running a whole encoder, for the model benchmark.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/model_bench.h"
#include "headwise/tensor.h"

namespace headwise::bench {

struct EncoderRequest {
  const std::string& file;          // model.onnx
  const std::vector<int32_t>& ids;  // [batch, length]
  int64_t batch = 0;
  int64_t length = 0;
  int threads = 1;
  const Tensor& truth;  // [batch · length, d]: what ours gave
};

// A call of the model with inputs input_ids, attention_mask, token_type_ids and
// the output last_hidden_state, f32; or nothing, with a note of why (absent, or
// its output is not ours).
std::function<void()> MakeOnnxEncoder(const EncoderRequest& request,
                                      ModelResult& result);

}  // namespace headwise::bench
