// A changed model without a folder. Door: remove.h.
#include <memory>
#include <utility>

#include "headwise/format/safetensors.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/family.h"
#include "headwise/model/weights.h"

namespace headwise {
namespace {

class ChangedWeights : public WeightSource {
 public:
  ChangedWeights(Safetensors file, ChangedTensors changed)
      : file_(std::move(file)), changed_(std::move(changed)) {}

  std::string Describe() const override { return file_.where(); }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = changed_.find(name);
    return found == changed_.end() ? file_.Stored(name)
                                   : ConstTensorView(found->second.view());
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, view] : file_.tensors()) names.push_back(name);
    for (const auto& [name, tensor] : changed_) {
      if (!file_.Stored(name)) names.push_back(name);
    }
    return names;
  }

 private:
  Safetensors file_;
  ChangedTensors changed_;
};

}  // namespace

std::unique_ptr<Model> ChangedModel(const std::filesystem::path& from,
                                    ChangedTensors changed, const Json& config,
                                    DType type) {
  return BuildModel(ReadConfig(config, (from / "config.json").string()),
                    std::make_shared<ChangedWeights>(Safetensors::Open(from),
                                                     std::move(changed)),
                    type);
}

}  // namespace headwise
