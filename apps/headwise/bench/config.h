// What `bench` and `explain` are asked about: one list of fields that the
// flags, the problem files and the help all come from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/json.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise::bench {

struct Config {
  // Attention.
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t kv_heads = 0;
  int64_t query_len = 2048;
  int64_t key_len = 0;
  int64_t head_dim = 64;
  std::string type = "f32";
  std::vector<std::string> mask = {"none", "causal"};
  int64_t window = 256;
  std::vector<std::string> pass = {"forward"};
  std::vector<std::string> observe = {"none", "core", "full"};
  int64_t features = 0;
  int64_t labels = 0;
  // Matrix products.
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  // Both.
  std::vector<int> threads = {1};

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("batch", self.batch, "sequences");
    visit("heads", self.heads, "query heads");
    visit("kv_heads", self.kv_heads, "key/value heads (0: as many as heads)");
    visit("query_len", self.query_len, "queries of a sequence");
    visit("key_len", self.key_len,
          "keys of a sequence (0: as many as queries)");
    visit("head_dim", self.head_dim, "width of a head");
    visit("type", self.type, "f32, bf16 or f16");
    visit("mask", self.mask, "none, causal, window; several: one table each");
    visit("window", self.window, "keys that mask window lets a query see");
    visit("pass", self.pass, "forward, backward");
    visit("observe", self.observe,
          "statistics to gather in the forward: none, core, full");
    visit("features", self.features, "key features besides core and full");
    visit("labels", self.labels, "label channels besides core and full");
    visit("m", self.m, "matmul: rows of A and C (0: a set of shapes)");
    visit("n", self.n, "matmul: columns of B and C");
    visit("k", self.k, "matmul: columns of A, rows of B");
    visit("threads", self.threads, "threads; several are timed side by side");
  }
};

// Whether a field says something about `op` ("attention" or "matmul").
bool FieldBelongs(const std::string& field, const std::string& op);

// Throws Error(kInvalidArgument) for words that are not in the help above and
// numbers below their least.
void Validate(const Config& config, const std::string& op);

// One mask of the configuration as a problem.
AttentionProblem MakeProblem(const Config& config, const std::string& mask);

// The shape of the configuration or, where it has none, linear layers of small
// models: attention projection, feed-forward, a wider model on a longer text.
std::vector<MatmulProblem> MatmulShapes(const Config& config);

// A problem file: {"op": "attention", "problems": [{"heads": 8, …}, …]}, each
// problem laid over the defaults. Throws Error(kNotFound), Error(kCorrupt) or
// Error(kInvalidArgument).
std::vector<Json> ReadProblems(const std::filesystem::path& file,
                               const std::string& op);

}  // namespace headwise::bench
