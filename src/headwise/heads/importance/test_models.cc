// Models for tests. Door: test_models.h.
#include "headwise/heads/importance/test_models.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/base/rng.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"

namespace headwise {
namespace {

class HeldWeights : public WeightSource {
 public:
  explicit HeldWeights(WeightMap weights) : weights_(std::move(weights)) {}

  std::string Describe() const override { return "test weights"; }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = weights_.find(name);
    return found == weights_.end() ? ConstTensorView() : found->second.view();
  }
  std::vector<std::string> Names() const override { return {}; }

 private:
  WeightMap weights_;
};

Tensor Normal(std::initializer_list<int64_t> shape, double scale, Rng& rng) {
  Tensor tensor(DType::kF32, shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(scale * rng.Normal());
  }
  return tensor;
}

Tensor Ones(int64_t size) {
  Tensor tensor(DType::kF32, {size});
  std::fill_n(tensor.As<float>(), size, 1.0f);
  return tensor;
}

// The files of a golden, read once.
struct Golden {
  explicit Golden(const std::filesystem::path& folder)
      : file(Safetensors::Open(folder)), config(OpenConfig(folder)) {}

  Safetensors file;
  ModelConfig config;
};

const Golden& GoldenNamed(const std::string& name) {
  static std::map<std::string, Golden> goldens;
  return goldens
      .try_emplace(name, std::filesystem::path(HEADWISE_GOLDENS) / name)
      .first->second;
}

}  // namespace

std::unique_ptr<Model> GoldenModel(
    const std::string& name, const std::function<void(WeightMap&)>& change) {
  const Golden& golden = GoldenNamed(name);
  WeightMap weights;
  Context context({.threads = 1});
  for (const auto& [key, view] : golden.file.tensors()) {
    if (view.rank == 0 || view.rank > 2) continue;
    weights[key] = ToF32(context, {key, view});
  }
  change(weights);
  return BuildModel(golden.config,
                    std::make_shared<HeldWeights>(std::move(weights)));
}

std::unique_ptr<Model> MakeRandomLlama(const RandomLlama& s) {
  const Json json = {
      {"model_type", "llama"},          {"hidden_size", s.width},
      {"num_attention_heads", s.heads}, {"num_hidden_layers", s.layers},
      {"intermediate_size", s.hidden},  {"vocab_size", s.vocabulary},
      {"max_position_embeddings", 4096}};
  Rng rng(3);
  const double in = 1 / std::sqrt(static_cast<double>(s.width));
  WeightMap weights;
  weights["model.embed_tokens.weight"] =
      Normal({s.vocabulary, s.width}, 1, rng);
  weights["lm_head.weight"] = Normal({s.vocabulary, s.width}, 2 * in, rng);
  weights["model.norm.weight"] = Ones(s.width);
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      weights[name + "self_attn." + part + ".weight"] =
          Normal({s.width, s.width}, in, rng);
    }
    weights[name + "mlp.gate_proj.weight"] =
        Normal({s.hidden, s.width}, in, rng);
    weights[name + "mlp.up_proj.weight"] = Normal({s.hidden, s.width}, in, rng);
    weights[name + "mlp.down_proj.weight"] =
        Normal({s.width, s.hidden}, in / 2, rng);
    weights[name + "input_layernorm.weight"] = Ones(s.width);
    weights[name + "post_attention_layernorm.weight"] = Ones(s.width);
  }
  return BuildModel(ReadConfig(json, "config.json"),
                    std::make_shared<HeldWeights>(std::move(weights)));
}

std::vector<TextExample> RandomExamples(int64_t count, int64_t length,
                                        int64_t vocabulary, uint64_t seed) {
  Rng rng(seed);
  auto text = [&](int64_t tokens) {
    std::vector<int32_t> ids(tokens);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(vocabulary));
    return ids;
  };
  std::vector<TextExample> examples(count);
  for (int64_t i = 0; i < count; ++i) {
    examples[i].ids = text(length - i % 3);
    examples[i].target = text(length - i % 2);
  }
  return examples;
}

}  // namespace headwise
