// A model on disk: a folder with config.json and safetensors weights, as
// Hugging Face writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "headwise/device.h"
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

class SharedWeights;  // shared_weights.h

// All of a folder, opened once and handed around. The configuration and the
// headers of the weights are read at once, the rest when it is first asked for,
// which any number of threads may do. Weights are mapped once for all
// Checkpoints of the same files.
class Checkpoint {
 public:
  // type: what the model computes in. shared_on: where it runs, and nowhere
  // else; all Checkpoints of the same files, configuration, type, device and
  // weight_memory then have one model. weight_memory: bytes for
  // Model::LimitPreparedWeights. Throws as OpenConfig does, and for weights
  // that are absent or corrupt.
  explicit Checkpoint(std::filesystem::path folder,
                      TokenizerOptions reading = {}, DType type = DType::kF32,
                      std::optional<Device> shared_on = {},
                      std::optional<uint64_t> weight_memory = {});
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;

  const std::filesystem::path& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const WeightSource& weights() const;
  // Throws for weights that are not the configuration's.
  const Model& model() const;

  // Throws as Tokenizer::Load does.
  const Tokenizer& tokenizer() const;
  // Null for a folder that holds none.
  const Tokenizer* FindTokenizer() const;

  // The weights' ModelHash (model_hash.h).
  const std::string& hash() const;

 private:
  std::shared_ptr<const Model> Build() const;

  std::filesystem::path folder_;
  TokenizerOptions reading_;
  DType type_;
  ModelConfig config_;
  std::string shared_;  // what the model is shared by; "": it is not
  std::shared_ptr<const SharedWeights> weights_;
  struct Parts;
  std::unique_ptr<Parts> parts_;
  std::optional<uint64_t> weight_memory_;
};

}  // namespace headwise
