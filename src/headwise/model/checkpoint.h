// A model on disk: a folder with config.json and safetensors weights, as
// Hugging Face writes it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/model/weights.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// config.json of a model's folder. Throws Error: kNotFound when there is no
// such folder or file, kCorrupt naming the key, kUnsupported for an unknown
// model_type.
ModelConfig OpenConfig(const std::filesystem::path& folder);

// The model alone. Weights are mapped, not read: what a run does not touch is
// never loaded.
std::unique_ptr<Model> OpenModel(const std::filesystem::path& folder);

// All of a folder, opened once and handed around. The configuration and the
// headers of the weights are read at once, the rest when it is first asked for;
// one thread at a time may ask.
class Checkpoint {
 public:
  // type: what the model computes in. Throws as OpenConfig does, and for
  // weights that are absent or corrupt.
  explicit Checkpoint(std::filesystem::path folder,
                      TokenizerOptions reading = {}, DType type = DType::kF32);

  const std::filesystem::path& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const WeightSource& weights() const { return *weights_; }
  // Throws for weights that are not the configuration's.
  const Model& model() const;

  // Throws as Tokenizer::Load does.
  const Tokenizer& tokenizer() const;
  // Null for a folder that holds none.
  const Tokenizer* FindTokenizer() const;

  // The weights' ModelHash (model_hash.h).
  const std::string& hash() const;

 private:
  std::filesystem::path folder_;
  TokenizerOptions reading_;
  DType type_;
  ModelConfig config_;
  std::shared_ptr<const WeightSource> weights_;
  mutable std::unique_ptr<Model> model_;
  mutable std::unique_ptr<Tokenizer> tokenizer_;
  mutable std::string hash_;
};

}  // namespace headwise
