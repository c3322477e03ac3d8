// Opening checkpoints. Door: checkpoint.h.
#include "headwise/model/checkpoint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/family.h"
#include "headwise/model/model_hash.h"

namespace headwise {
namespace {

class SafetensorsWeights : public WeightSource {
 public:
  explicit SafetensorsWeights(Safetensors file) : file_(std::move(file)) {}

  std::string Describe() const override { return file_.where(); }
  ConstTensorView Find(const std::string& name) const override {
    return file_.Stored(name);
  }
  bool Mapped() const override { return true; }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, view] : file_.tensors()) names.push_back(name);
    return names;
  }

 private:
  Safetensors file_;
};

// What a folder without config.json holds, for whoever took it for a model.
std::string Contents(const std::filesystem::path& folder) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string text = names.empty() ? "an empty folder" : "a folder of ";
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > kMost) {
    text += " and " + std::to_string(names.size() - kMost) + " more";
  }
  return text;
}

// Of a folder with the file; "" where they are there.
std::string WhatIsInstead(const std::filesystem::path& folder,
                          const std::filesystem::path& file) {
  using std::filesystem::file_type;
  std::error_code code;
  const file_type there = std::filesystem::status(folder, code).type();
  if (there == file_type::none) return code.message();  // no permission
  if (there == file_type::not_found) return "nothing";
  if (there != file_type::directory) return "a file";
  const file_type config = std::filesystem::status(file, code).type();
  if (config == file_type::none) return code.message();
  return config == file_type::not_found ? Contents(folder) + ", without it"
                                        : "";
}

}  // namespace

ModelConfig OpenConfig(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (std::string found = WhatIsInstead(folder, file); !found.empty()) {
    throw Error(ErrorCode::kNotFound,
                {folder.string(), "a folder with config.json", std::move(found),
                 "a model is a folder with config.json (its family and sizes, "
                 "as transformers writes it), model.safetensors and "
                 "tokenizer.json"});
  }
  return ReadConfig(ReadJson(file), file.string());
}

std::unique_ptr<Model> OpenModel(const std::filesystem::path& folder) {
  const ModelConfig config = OpenConfig(folder);
  return BuildModel(
      config, std::make_shared<SafetensorsWeights>(Safetensors::Open(folder)));
}

Checkpoint::Checkpoint(std::filesystem::path folder, TokenizerOptions reading,
                       DType type)
    : folder_(std::move(folder)),
      reading_(reading),
      type_(type),
      config_(OpenConfig(folder_)),
      weights_(
          std::make_shared<SafetensorsWeights>(Safetensors::Open(folder_))) {}

const Model& Checkpoint::model() const {
  if (model_ == nullptr) model_ = BuildModel(config_, weights_, type_);
  return *model_;
}

const Tokenizer& Checkpoint::tokenizer() const {
  if (tokenizer_ == nullptr) tokenizer_ = Tokenizer::Load(folder_, reading_);
  return *tokenizer_;
}

const Tokenizer* Checkpoint::FindTokenizer() const {
  if (tokenizer_ == nullptr) tokenizer_ = Tokenizer::Find(folder_, reading_);
  return tokenizer_.get();
}

const std::string& Checkpoint::hash() const {
  if (hash_.empty()) hash_ = ModelHash(*weights_);
  return hash_;
}

}  // namespace headwise
