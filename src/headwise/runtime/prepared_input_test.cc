// A run of what was prepared is that of the ids; and what a hook keeps of its
// calls can be looked into when it is over, by another context.
#include "headwise/runtime/prepared_input.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/test_models.h"

namespace headwise::prepared_input_test {
namespace {

ModelConfig Gpt2() {
  return ReadConfig({{"model_type", "gpt2"},
                     {"n_embd", 48},
                     {"n_layer", 3},
                     {"n_head", 3},
                     {"n_positions", 60},
                     {"n_ctx", 60},
                     {"vocab_size", 97}},
                    "gpt2");
}

ModelConfig Llama() {
  return ReadConfig({{"model_type", "llama"},
                     {"hidden_size", 32},
                     {"intermediate_size", 48},
                     {"num_hidden_layers", 3},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"vocab_size", 97},
                     {"max_position_embeddings", 60}},
                    "llama");
}

std::vector<float> BandOf(Context& context, const HeadSource& call) {
  const ConstTensorView& q = call.args.q;
  const Temp band(context, DType::kF32,
                  {q.shape[0], call.problem.heads, q.shape[1], 4});
  AttentionBand(context, call.problem, call.args, 3, 0, band.view());
  return ToVector<float>(context, band.view());
}

// Bands of all calls, taken at once and when all is over.
class Keeper : public RunHooks {
 public:
  explicit Keeper(Context& context) : context_(context) {}

  void AfterAttention(const AttentionSite& /*site*/,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    calls_.push_back({problem, args});
    bands_.push_back(BandOf(context_, calls_.back()));
  }
  void KeepCall(std::shared_ptr<const void> memory) override {
    memory_.push_back(std::move(memory));
    EXPECT_EQ(memory_.size(), calls_.size());
  }

  const std::vector<std::vector<float>>& bands() const { return bands_; }
  std::vector<std::vector<float>> BandsNow(Context& beside) const {
    std::vector<std::vector<float>> bands;
    for (const HeadSource& call : calls_) {
      bands.push_back(BandOf(beside, call));
    }
    return bands;
  }

 private:
  Context& context_;
  std::vector<HeadSource> calls_;
  std::vector<std::shared_ptr<const void>> memory_;
  std::vector<std::vector<float>> bands_;
};

class PreparedRun : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    try {
      context_ = std::make_unique<Context>(
          ContextOptions{.threads = 2, .device = GetParam()});
      beside_ = std::make_unique<Context>(
          ContextOptions{.threads = 1, .device = GetParam()});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnsupported);
      GTEST_SKIP() << "no GPU";
    }
  }

  std::unique_ptr<Context> context_, beside_;
};

TEST_P(PreparedRun, IsThatOfItsIdsAndCanBeLookedIntoLater) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 61; ++i) ids.push_back(i * i % 97);
  const std::vector<int64_t> lengths = {30, 9, 22};
  for (const ModelConfig& config : {Gpt2(), Llama()}) {
    const auto model = runtime_test::FrozenModel(config);
    Keeper plain(*context_), prepared(*context_);
    ForwardToLastAttention(*context_, *model,
                           {.ids = ids, .lengths = lengths, .hooks = &plain});
    PreparedInput input(ids, lengths);
    input.MoveTo(*beside_);
    ForwardToLastAttention(*context_, *model, input, {}, &prepared);
    EXPECT_EQ(prepared.bands().size(), 3);
    EXPECT_EQ(prepared.bands(), plain.bands());
    if (!GetParam().is_cpu()) beside_->WaitFor(context_->stream());
    EXPECT_EQ(prepared.BandsNow(*beside_), prepared.bands());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PreparedRun,
                         testing::Values(Device(), Device::Cuda()),
                         [](const auto& test) {
                           return test.param.is_cpu() ? "cpu" : "cuda";
                         });

}  // namespace
}  // namespace headwise::prepared_input_test
