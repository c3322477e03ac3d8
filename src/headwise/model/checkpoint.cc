// Opening checkpoints. Door: checkpoint.h.
#include "headwise/model/checkpoint.h"

#include <utility>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/family.h"

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

}  // namespace

ModelConfig OpenConfig(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (!std::filesystem::is_directory(folder) ||
      !std::filesystem::exists(file)) {
    throw Error(ErrorCode::kNotFound,
                {folder.string(), "a folder with config.json",
                 !std::filesystem::exists(folder)        ? "nothing"
                 : std::filesystem::is_directory(folder) ? "a folder without it"
                                                         : "a file",
                 "a model is a folder with config.json, model.safetensors and "
                 "tokenizer.json"});
  }
  return ReadConfig(ReadJson(file), file.string());
}

std::unique_ptr<Model> OpenModel(const std::filesystem::path& folder) {
  const ModelConfig config = OpenConfig(folder);
  return BuildModel(
      config, std::make_shared<SafetensorsWeights>(Safetensors::Open(folder)));
}

}  // namespace headwise
