// What is never said: an encoder–decoder's padding, however likely.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/runtime/generate.h"

namespace headwise::padding_test {
namespace {

const std::filesystem::path kMarian =
    std::filesystem::path(HEADWISE_GOLDENS) / "marian";

// The golden's weights, with padding far likelier than all else.
class LikelyPadding : public WeightSource {
 public:
  explicit LikelyPadding(int64_t pad)
      : file_(Safetensors::Open(kMarian)), bias_(DType::kF32, {1, 64}) {
    bias_.As<float>()[pad] = 50;
  }
  std::string Describe() const override { return "likely padding"; }
  std::vector<std::string> Names() const override { return {}; }
  ConstTensorView Find(const std::string& name) const override {
    return name == "final_logits_bias" ? bias_.view() : file_.Find(name);
  }

 private:
  Safetensors file_;
  Tensor bias_;
};

TEST(Padding, IsNeverSaid) {
  const ModelConfig config = OpenConfig(kMarian);
  ASSERT_EQ(config.pad, 0);
  const auto model =
      BuildModel(config, std::make_shared<LikelyPadding>(config.pad));
  Context context({1, ""});
  const std::vector<int32_t> source = {5, 9, 33, 2};
  for (const int64_t beam : {1, 3}) {
    for (const double temperature : {0.0, 1.0}) {
      GenerateJob job;
      job.max_tokens = 12;
      job.beam = beam;
      job.temperature = temperature;
      const std::vector<int32_t> said = Generate(context, *model, source, job);
      EXPECT_FALSE(said.empty());
      EXPECT_EQ(std::count(said.begin(), said.end(), config.pad), 0)
          << "beam " << beam << ", temperature " << temperature;
    }
  }
}

}  // namespace
}  // namespace headwise::padding_test
