// Other people's attention and matrix products, to be timed in the same run.
// None of them is needed to build: each is loaded when it is there
// (bench/peers/setup brings what Debian does not have) and leaves a note when
// it is not.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/attention_data.h"
#include "bench/measure.h"

namespace headwise::bench {

struct Peers {
  std::vector<Candidate> candidates;
  std::vector<std::string> notes;     // why one is missing
  std::vector<std::string> versions;  // "onnxruntime 1.30.0"
};

// What peers are asked to do. `row` is the prototype of their rows; `data`
// outlives the candidates.
struct AttentionRequest {
  const AttentionData& data;
  Row row;
  double flops = 0;
};

// Each appends its candidates (whose outputs were compared with the truth
// first) or a note.
void AddOnnxRuntimeAttention(const AttentionRequest& request, Peers& peers);
void AddOpenBlasAttention(const AttentionRequest& request, Peers& peers);
void AddTorchAttention(const AttentionRequest& request, Peers& peers);

// c = a · b: a [m, k], b [k, n], c [m, n], dense f32.
struct MatmulData {
  int64_t m = 0, n = 0, k = 0;
  Tensor a, b;
};
void AddOpenBlasMatmul(const MatmulData& data, const Row& row, Peers& peers);

// ---- For the peers' own files.

// The folder bench/peers: $HEADWISE_PEERS, else found upwards from the working
// directory or from the program. Empty: not found.
std::filesystem::path PeersFolder();

// The native library that bench/peers/setup brings, or an empty path.
std::filesystem::path OnnxRuntimeLibrary();

// Calls once, measuring memory (`held_bytes` the peer had before that call),
// compares `out` [B, M, H, D] with the truth, and appends a candidate, or a
// note when it differs.
void AddIfCorrect(const AttentionRequest& request, const std::string& impl,
                  const std::function<void()>& call, const Tensor& out,
                  Peers& peers, int64_t held_bytes = 0);

}  // namespace headwise::bench
