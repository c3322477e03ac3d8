// Opening checkpoints. Door: checkpoint.h.
#include "headwise/model/checkpoint.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/memory_budget.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/shared_weights.h"

namespace headwise {
namespace {

// Describes a folder without config.json to whoever took it for a model.
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

// config.json of a folder. Throws as OpenConfig does.
Json OpenJson(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (std::string found = WhatIsInstead(folder, file); !found.empty()) {
    throw Error(ErrorCode::kNotFound,
                {folder.string(), "a folder with config.json", std::move(found),
                 "a model is a folder with config.json (its family and sizes, "
                 "as transformers writes it), model.safetensors and "
                 "tokenizer.json"});
  }
  return ReadJson(file);
}

ModelConfig ConfigOf(const std::filesystem::path& folder, const Json& json) {
  return ReadConfig(json, (folder / "config.json").string());
}

// The difference between models of the same weights.
std::string KeyOf(const Json& config, DType type, Device device,
                  const std::optional<uint64_t>& weight_memory) {
  const std::string limit =
      weight_memory ? std::to_string(*weight_memory) + " B " : "";
  return ToString(device) + " " + Name(type) + " " + limit + config.dump();
}

}  // namespace

ModelConfig OpenConfig(const std::filesystem::path& folder) {
  return ConfigOf(folder, OpenJson(folder));
}

std::unique_ptr<Model> OpenModel(const std::filesystem::path& folder) {
  return BuildModel(OpenConfig(folder), SharedWeights::Open(folder));
}

// Made when they are first asked for, whichever thread asks.
struct Checkpoint::Parts {
  std::mutex model_mutex, tokenizer_mutex;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Tokenizer> tokenizer;
};

Checkpoint::Checkpoint(std::filesystem::path folder, TokenizerOptions reading,
                       DType type, std::optional<Device> shared_on,
                       std::optional<uint64_t> weight_memory)
    : folder_(std::move(folder)),
      reading_(reading),
      type_(type),
      parts_(std::make_unique<Parts>()),
      weight_memory_(weight_memory) {
  const Json json = OpenJson(folder_);
  config_ = ConfigOf(folder_, json);
  if (shared_on) shared_ = KeyOf(json, type, *shared_on, weight_memory);
  weights_ = SharedWeights::Open(folder_);
}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;

const WeightSource& Checkpoint::weights() const { return *weights_; }

std::shared_ptr<const Model> Checkpoint::Build() const {
  std::unique_ptr<Model> model = BuildModel(config_, weights_, type_);
  if (weight_memory_) {
    model->LimitPreparedWeights(
        std::make_shared<MemoryBudget>(*weight_memory_));
  }
  return model;
}

const Model& Checkpoint::model() const {
  const std::lock_guard lock(parts_->model_mutex);
  std::shared_ptr<const Model>& model = parts_->model;
  if (model == nullptr) {
    model = shared_.empty()
                ? Build()
                : weights_->ModelFor(shared_, [&] { return Build(); });
  }
  return *model;
}

const Tokenizer& Checkpoint::tokenizer() const {
  const std::lock_guard lock(parts_->tokenizer_mutex);
  std::unique_ptr<Tokenizer>& tokenizer = parts_->tokenizer;
  if (tokenizer == nullptr) tokenizer = Tokenizer::Load(folder_, reading_);
  return *tokenizer;
}

const Tokenizer* Checkpoint::FindTokenizer() const {
  const std::lock_guard lock(parts_->tokenizer_mutex);
  std::unique_ptr<Tokenizer>& tokenizer = parts_->tokenizer;
  if (tokenizer == nullptr) tokenizer = Tokenizer::Find(folder_, reading_);
  return tokenizer.get();
}

const std::string& Checkpoint::hash() const { return weights_->hash(); }

}  // namespace headwise
