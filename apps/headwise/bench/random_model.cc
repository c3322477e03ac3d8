// Door: random_model.h.
#include "bench/random_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::bench {
namespace {

constexpr int64_t kNoise = int64_t{1} << 20;  // random numbers that there are
constexpr double kDeviation = 0.02;

struct LlamaShape {
  const char* name;
  int64_t width, hidden, layers, heads, kv_heads, vocabulary;
};
constexpr LlamaShape kLlamas[] = {
    {"llama-7b", 4096, 11008, 32, 32, 32, 32000},
    {"llama-8b", 4096, 14336, 32, 32, 8, 128256},
    {"llama-1b", 2048, 8192, 16, 32, 8, 128256},
    {"minimind2-small", 512, 1408, 8, 8, 2, 6400},
};
constexpr const char* kGpt2 = "gpt2";

Json ConfigOf(const LlamaShape& shape) {
  return {{"model_type", "llama"},
          {"hidden_size", shape.width},
          {"intermediate_size", shape.hidden},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"vocab_size", shape.vocabulary},
          {"max_position_embeddings", 4096},
          {"tie_word_embeddings", shape.width < 4096}};
}

Json Gpt2Config() {
  return {{"model_type", "gpt2"}, {"n_embd", 768},  {"n_layer", 12},
          {"n_head", 12},         {"n_ctx", 1024},  {"n_positions", 1024},
          {"vocab_size", 50257},  {"n_inner", 3072}};
}

// Makes what a model asks for when it asks.
class RandomWeights : public WeightSource {
 public:
  RandomWeights(Context& context, DType type) : context_(context), type_(type) {
    Rng rng(3);
    std::vector<float> noise(kNoise);
    for (float& value : noise) {
      value = static_cast<float>(kDeviation * rng.Normal());
    }
    noise_ = Tensor(context, type, {kNoise});
    Copy(context, ViewOf(noise), noise_.view());
    context.Synchronize();  // `noise` goes
  }

  std::string Describe() const override { return "random weights"; }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? ConstTensorView()
                                   : std::as_const(found->second).view();
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  bool Makes(const std::string& name) const override {
    return !tensors_.contains(name);
  }
  ConstTensorView Provide(const std::string& name,
                          std::span<const int64_t> shape,
                          const Start& start) const override {
    if (Makes(name) && start.kind != Start::Kind::kAbsent) {
      Tensor tensor = Tensor::Undefined(context_, type_, Shape(shape));
      start.kind == Start::Kind::kValue
          ? Fill(context_, start.value, tensor.view())
          : FillWithNoise(tensor.view());
      tensors_.emplace(name, std::move(tensor));
    }
    return Find(name);
  }

 private:
  void FillWithNoise(const TensorView& to) const {
    const TensorView all = Reshaped(to, {to.size()});
    for (int64_t begin = 0; begin < to.size(); begin += kNoise) {
      const int64_t count = std::min(kNoise, to.size() - begin);
      Copy(context_, Slice(std::as_const(noise_).view(), 0, 0, count),
           Slice(all, 0, begin, begin + count));
    }
  }

  Context& context_;
  DType type_;
  Tensor noise_;
  mutable std::map<std::string, Tensor> tensors_;
};

}  // namespace

std::string ShapeNames() {
  std::string names;
  for (const LlamaShape& shape : kLlamas)
    names += shape.name + std::string(", ");
  return names + kGpt2;
}

ModelConfig NamedShape(const std::string& name) {
  for (const LlamaShape& shape : kLlamas) {
    if (name == shape.name) return ReadConfig(ConfigOf(shape), name);
  }
  if (name == kGpt2) return ReadConfig(Gpt2Config(), name);
  if (std::filesystem::is_directory(name)) return OpenConfig(name);
  throw Error(ErrorCode::kNotFound,
              {"shape", ShapeNames() + ", or a model's folder", name, ""});
}

std::unique_ptr<Model> RandomModel(Context& context, const ModelConfig& config,
                                   DType type) {
  auto model = BuildModel(
      config, std::make_shared<const RandomWeights>(context, type), type);
  context.Synchronize();
  return model;
}

}  // namespace headwise::bench
