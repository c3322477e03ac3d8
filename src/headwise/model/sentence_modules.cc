// Door: sentence_modules.h.
#include "headwise/model/sentence_modules.h"

#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/ops/check_view.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

bool IsThere(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

// "sentence_transformers.models.Pooling" as "Pooling".
std::string LastWord(const std::string& dotted) {
  return dotted.substr(dotted.rfind('.') + 1);
}

[[noreturn]] void RefuseModule(const std::string& where,
                               const std::string& expected,
                               const std::string& found,
                               const std::string& hint = "") {
  throw Error(ErrorCode::kUnsupported, {where, expected, found, hint});
}

struct PoolingKey {
  const char* flag;
  const char* word;  // of "pooling_mode"
  Pooling pooling;
};
constexpr PoolingKey kPoolingKeys[] = {
    {"pooling_mode_cls_token", "cls", Pooling::kCls},
    {"pooling_mode_max_tokens", "max", Pooling::kMax},
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens",
     Pooling::kMeanSqrt},
    {"pooling_mode_weightedmean_tokens", "weightedmean",
     Pooling::kWeightedMean},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast}};

void ReadPooling(const fs::path& folder, int64_t width,
                 SentenceModules& modules) {
  const fs::path file = folder / "config.json";
  const Json json = ReadJson(file);
  const JsonCursor config(json, file.string());
  const int64_t said =
      config.Int("word_embedding_dimension", 1, int64_t{1} << 40, width);
  if (said != width) {
    config["word_embedding_dimension"].Fail("the model's width, " +
                                            std::to_string(width));
  }
  const std::string word = config.String("pooling_mode", "");
  modules.pooling.clear();
  for (const PoolingKey& key : kPoolingKeys) {
    if (config.Bool(key.flag, false) || word == key.word) {
      modules.pooling.push_back(key.pooling);
    }
  }
  if (modules.pooling.empty()) {
    config.Fail(
        "a pooling mode among cls, max, mean, mean_sqrt_len, "
        "weightedmean and lasttoken");
  }
  modules.pools_prompt = config.Bool("include_prompt", true);
}

// PyTorch's name of a module: "torch.nn.modules.activation.Tanh".
void ReadDenseActivation(const JsonCursor& config, SentenceStep& step) {
  const std::string name = LastWord(
      config.String("activation_function", "torch.nn.modules.activation.Tanh"));
  if (name == "Identity") return;
  step.activated = true;
  if (name == "Tanh") {
    step.activation = Activation::kTanh;
  } else if (name == "ReLU") {
    step.activation = Activation::kRelu;
  } else if (name == "GELU") {
    step.activation = Activation::kGelu;
  } else if (name == "SiLU") {
    step.activation = Activation::kSilu;
  } else {
    RefuseModule(config.where(),
                 "\"activation_function\" to be Identity, Tanh, ReLU, GELU or "
                 "SiLU",
                 name);
  }
}

SentenceStep ReadDense(const fs::path& folder, SentenceModules& modules) {
  const fs::path file = folder / "config.json";
  const Json json = ReadJson(file);
  const JsonCursor config(json, file.string());
  constexpr int64_t kMost = int64_t{1} << 24;
  const int64_t in = config["in_features"].Int(1, kMost);
  const int64_t out = config["out_features"].Int(1, kMost);
  SentenceStep step;
  ReadDenseActivation(config, step);
  const auto weights = std::make_shared<const Safetensors>(
      Safetensors::Open(folder / "model.safetensors"));
  modules.files.push_back(weights);
  const auto get = [&](const char* name, const Shape& shape) -> Parameter {
    const ConstTensorView view = weights->At(name);
    if (ShapeOf(view) == shape) return {.name = name, .value = view};
    throw Error(ErrorCode::kCorrupt,
                {weights->where(), std::string(name) + " " + ToString(shape),
                 ToString(view), ""});
  };
  Linear::Part part = {get("linear.weight", {out, in}), {}};
  if (config.Bool("bias", true)) part.bias = get("linear.bias", {out});
  step.dense = Linear({std::move(part)}, WeightLayout::kOutIn);
  return step;
}

// Tokens of a text and the prompt before it.
void ReadSettings(const fs::path& folder, SentenceModules& modules) {
  if (const fs::path file = folder / "sentence_bert_config.json";
      IsThere(file)) {
    const Json json = ReadJson(file);
    const JsonCursor config(json, file.string());
    modules.max_tokens = config.Int("max_seq_length", 1, int64_t{1} << 40, 0);
    if (config.Bool("do_lower_case", false)) {
      RefuseModule(file.string(), "\"do_lower_case\" to be false", "true",
                   "texts are read as they are written");
    }
  }
  const fs::path file = folder / "config_sentence_transformers.json";
  if (!IsThere(file)) return;
  const Json json = ReadJson(file);
  const JsonCursor config(json, file.string());
  const std::string name = config.String("default_prompt_name", "");
  if (!name.empty()) modules.prompt = config["prompts"][name].String();
}

void AddModule(const JsonCursor& module, const fs::path& folder, int64_t width,
               bool& pooled, SentenceModules& modules) {
  const std::string kind = LastWord(module["type"].String());
  const fs::path place = folder / module["path"].String();
  if (kind == "Transformer") {
    if (module["path"].String().empty()) return;
    module["path"].Fail("empty: the model lies beside modules.json");
  }
  if (kind == "Pooling" && !pooled) {
    pooled = true;
    return ReadPooling(place, width, modules);
  }
  if (kind == "Dense" && pooled) {
    modules.steps.push_back(ReadDense(place, modules));
  } else if (kind == "Normalize" && pooled) {
    modules.steps.emplace_back();
  } else if (kind != "Dropout") {
    RefuseModule(module.where(),
                 "a model, Pooling, and behind it Dense or Normalize", kind);
  }
}

void RequireWidths(const fs::path& file, int64_t width,
                   const SentenceModules& modules) {
  int64_t wide = width * std::ssize(modules.pooling);
  for (const SentenceStep& step : modules.steps) {
    if (!step.dense) continue;
    if (step.dense.in() != wide) {
      throw Error(ErrorCode::kCorrupt,
                  {file.string(),
                   "a Dense that reads " + std::to_string(wide) + " numbers",
                   std::to_string(step.dense.in()), ""});
    }
    wide = step.dense.out();
  }
}

}  // namespace

SentenceModules ReadSentenceModules(const fs::path& folder, int64_t width) {
  SentenceModules modules;
  const fs::path file = folder / "modules.json";
  if (!IsThere(file)) return modules;
  modules.said = true;
  const Json json = ReadJson(file);
  bool pooled = false;
  for (const JsonCursor& module : JsonCursor(json, file.string()).Items()) {
    AddModule(module, folder, width, pooled, modules);
  }
  if (!pooled) {
    RefuseModule(file.string(), "a module that pools", "none");
  }
  RequireWidths(file, width, modules);
  ReadSettings(folder, modules);
  return modules;
}

}  // namespace headwise
