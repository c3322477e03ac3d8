// Any bytes as a config.json beside real weights (the tiny checkpoints of
// tests/conformance): either an Error, or a model that runs.
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/runtime/session.h"

namespace {

using headwise::Safetensors;

class Weights : public headwise::WeightSource {
 public:
  explicit Weights(const std::string& folder)
      : file_(Safetensors::Open(std::filesystem::path(HEADWISE_GOLDENS) /
                                folder)) {}
  std::string Describe() const override { return file_.where(); }
  headwise::ConstTensorView Find(const std::string& name) const override {
    return file_.Find(name);
  }
  std::vector<std::string> Names() const override { return {}; }

 private:
  Safetensors file_;
};

std::shared_ptr<const Weights> WeightsOf(const std::string& type) {
  static std::map<std::string, std::shared_ptr<const Weights>> known;
  auto& weights = known[type];
  if (weights == nullptr) {
    weights = std::make_shared<Weights>(type == "gpt-nano" ? "gpt2" : type);
  }
  return weights;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const headwise::ModelConfig config =
        headwise::ReadConfig(headwise::ParseJson(text, "fuzz"), "fuzz");
    const auto model =
        headwise::BuildModel(config, WeightsOf(config.model_type));
    const int32_t ids[] = {1, 2, 3};
    const int64_t lengths[] = {3};
    headwise::ForwardInput input{.ids = ids, .lengths = lengths};
    if (model->decoder() != nullptr) {
      input.decoder_ids = ids;
      input.decoder_lengths = lengths;
    }
    static headwise::Context context({1, ""});
    headwise::Forward(context, *model, input);
  } catch (const headwise::Error&) {
  }
  return 0;
}
