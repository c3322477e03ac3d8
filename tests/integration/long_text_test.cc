// A text far beyond what a model was trained on, every head observed: memory
// grows with the text's length, not with its square. The same at 65 536 tokens:
//   headwise bench model MODEL --prompt 65536 --observe core
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "headwise/model/checkpoint.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/runtime/session.h"

namespace headwise::long_text_test {
namespace {

const std::filesystem::path kLlama =
    std::filesystem::path(HEADWISE_SOURCE) / "tests/conformance/goldens/llama";

// Entropies of every head, summed over the text by the operator.
class EntropySums : public RunHooks {
 public:
  void BeforeAttention(const AttentionSite&, const AttentionProblem& problem,
                       AttentionArgs& args) override {
    call_ = Tensor(DType::kF64, {1, problem.heads, kSumColumns});
    observation_.summed.sums = call_.view();
    args.observation = &observation_;
  }
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs&) override {
    sums.resize(std::max<size_t>(sums.size(), site.layer + 1));
    std::vector<double>& layer = sums[site.layer];
    layer.resize(call_.size());
    for (int64_t i = 0; i < problem.heads * kSumColumns; ++i) {
      layer[i] += call_.As<double>()[i];
    }
  }

  std::vector<std::vector<double>> sums;  // by layer, [heads, kSumColumns]

 private:
  Tensor call_;
  Observation observation_;
};

TEST(LongText, EveryHeadIsObservedBeyondTheContext) {
  const auto model = OpenModel(kLlama);
  constexpr int64_t kTokens = 6000;
  ASSERT_GT(kTokens, model->config().context);
  std::vector<int32_t> ids(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) {
    ids[i] = static_cast<int32_t>(i * 7 % model->config().vocabulary);
  }
  Context context({2, ""});
  EntropySums observer;
  Session session(context, *model, {.capacity = kTokens, .hooks = &observer});
  session.Feed(ids);
  ASSERT_EQ(observer.sums.size(), 2u);
  const auto heads = static_cast<size_t>(model->config().layers[0].heads);
  for (const std::vector<double>& layer : observer.sums) {
    ASSERT_EQ(layer.size(), heads * kSumColumns);
    for (size_t h = 0; h < heads; ++h) {
      const double* head = layer.data() + h * kSumColumns;
      EXPECT_EQ(head[kSumCount], kTokens);
      EXPECT_EQ(head[kSumNonFinite], 0);
      EXPECT_GT(head[kSumEntropy], 0);
    }
  }
  // One map of one head would be 144 MB.
  EXPECT_LT(context.PeakScratchBytes(), 40 << 20);
}

}  // namespace
}  // namespace headwise::long_text_test
