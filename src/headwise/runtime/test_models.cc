// Door: test_models.h.
#include "headwise/runtime/test_models.h"

#include <string>
#include <utility>
#include <vector>

#include "headwise/model/family.h"
#include "headwise/model/parameters.h"

namespace headwise::runtime_test {
namespace {

// Weights of a store that are not trained.
class Frozen : public WeightSource {
 public:
  explicit Frozen(std::shared_ptr<ParameterStore> store)
      : store_(std::move(store)) {}
  std::string Describe() const override { return store_->Describe(); }
  ConstTensorView Find(const std::string& name) const override {
    return store_->Find(name);
  }
  std::vector<std::string> Names() const override { return store_->Names(); }

 private:
  std::shared_ptr<ParameterStore> store_;
};

}  // namespace

std::unique_ptr<Model> FrozenModel(const ModelConfig& config, DType type) {
  auto store = ParameterStore::Fresh(config, {.seed = 5, .deviation = 0.2f});
  BuildModel(config, store);  // which makes them
  return BuildModel(config, std::make_shared<Frozen>(store), type);
}

}  // namespace headwise::runtime_test
