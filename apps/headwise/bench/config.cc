// Door: config.h.
#include "bench/config.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "headwise/base/nearest.h"
#include "headwise/error.h"

namespace headwise::bench {
namespace {

const std::vector<std::string> kMasks = {"none", "causal", "window"};
const std::vector<std::string> kPasses = {"forward", "backward"};
const std::vector<std::string> kLevels = {"none", "core", "full"};
const std::vector<std::string> kTypes = {"f32", "bf16", "f16"};

void CheckWord(const std::string& field, const std::string& word,
               const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {field, fmt::format("one of {}", fmt::join(known, ", ")),
       "\"" + word + "\"", "did you mean " + Nearest(word, known) + "?"});
}

void CheckWords(const std::string& field, const std::vector<std::string>& words,
                const std::vector<std::string>& known) {
  if (words.empty()) CheckWord(field, "", known);
  for (const std::string& word : words) CheckWord(field, word, known);
}

void CheckAtLeast(const std::string& field, int64_t value, int64_t least) {
  if (value >= least) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {field, fmt::format("at least {}", least), std::to_string(value), ""});
}

DType ParseType(const std::string& name) {
  if (name == "bf16") return DType::kBF16;
  if (name == "f16") return DType::kF16;
  return DType::kF32;
}

AttentionMask ParseMask(const Config& config, const std::string& name) {
  if (name == "causal") return AttentionMask::Causal();
  if (name == "window") return AttentionMask::SlidingWindow(config.window);
  return AttentionMask::None();
}

}  // namespace

bool FieldBelongs(const std::string& field, const std::string& op) {
  static const std::set<std::string> matmul = {"m", "n", "k"};
  if (field == "threads") return true;
  return (matmul.count(field) != 0) == (op == "matmul");
}

void Validate(const Config& config, const std::string& op) {
  if (config.threads.empty()) CheckAtLeast("threads", 0, 1);
  for (int threads : config.threads) CheckAtLeast("threads", threads, 1);
  if (op == "matmul") {
    const bool any = config.m != 0 || config.n != 0 || config.k != 0;
    CheckAtLeast("m", config.m, any ? 1 : 0);
    CheckAtLeast("n", config.n, any ? 1 : 0);
    CheckAtLeast("k", config.k, any ? 1 : 0);
    return;
  }
  CheckWord("type", config.type, kTypes);
  CheckWords("mask", config.mask, kMasks);
  CheckWords("pass", config.pass, kPasses);
  CheckWords("observe", config.observe, kLevels);
  CheckAtLeast("batch", config.batch, 1);
  CheckAtLeast("heads", config.heads, 1);
  CheckAtLeast("kv_heads", config.kv_heads, 0);
  CheckAtLeast("query_len", config.query_len, 1);
  CheckAtLeast("key_len", config.key_len, 0);
  CheckAtLeast("head_dim", config.head_dim, 1);
  CheckAtLeast("window", config.window, 1);
  CheckAtLeast("features", config.features, 0);
  CheckAtLeast("labels", config.labels, 0);
  if (config.kv_heads != 0 && config.heads % config.kv_heads != 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"heads", "a multiple of kv_heads",
         fmt::format("heads {}, kv_heads {}", config.heads, config.kv_heads),
         ""});
  }
}

AttentionProblem MakeProblem(const Config& config, const std::string& mask) {
  AttentionProblem problem;
  problem.batch = config.batch;
  problem.heads = config.heads;
  problem.kv_heads = config.kv_heads != 0 ? config.kv_heads : config.heads;
  problem.query_len = config.query_len;
  problem.key_len = config.key_len != 0 ? config.key_len : config.query_len;
  problem.head_dim = config.head_dim;
  problem.type = ParseType(config.type);
  problem.mask = ParseMask(config, mask);
  return problem;
}

std::vector<MatmulProblem> MatmulShapes(const Config& config) {
  if (config.m != 0) return {{.m = config.m, .n = config.n, .k = config.k}};
  return {{.m = 128, .n = 384, .k = 384},
          {.m = 128, .n = 1536, .k = 384},
          {.m = 1024, .n = 768, .k = 768}};
}

std::vector<Json> ReadProblems(const std::filesystem::path& file,
                               const std::string& op) {
  if (!std::filesystem::is_regular_file(file)) {
    throw Error(ErrorCode::kNotFound, {"bench", "a problem file", file.string(),
                                       "bench/problems holds ours"});
  }
  Json json = ReadJson(file);
  const bool object = json.is_object() && json.contains("problems") &&
                      json["problems"].is_array() && json.contains("op");
  if (!object) {
    throw Error(ErrorCode::kInvalidArgument,
                {file.string(), "{\"op\": …, \"problems\": […]}",
                 Describe(json), "bench/problems holds ours"});
  }
  if (json["op"] != op) {
    throw Error(ErrorCode::kInvalidArgument,
                {file.string(), "problems of " + op, json["op"].dump(),
                 "name the operator that the file is of"});
  }
  return json["problems"].get<std::vector<Json>>();
}

}  // namespace headwise::bench
