// A text far beyond what a model was trained on, every head observed: memory
// grows with the text's length, not with its square. The same at 65 536 tokens:
//   headwise bench model MODEL --prompt 65536 --observe core
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "headwise/model/checkpoint.h"
#include "headwise/observation.h"
#include "headwise/runtime/core_observer.h"
#include "headwise/runtime/session.h"

namespace headwise::long_text_test {
namespace {

const std::filesystem::path kLlama =
    std::filesystem::path(HEADWISE_SOURCE) / "tests/conformance/goldens/llama";

TEST(LongText, EveryHeadIsObservedBeyondTheContext) {
  const auto model = OpenModel(kLlama);
  constexpr int64_t kTokens = 6000;
  ASSERT_GT(kTokens, model->config().context);
  std::vector<int32_t> ids(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) {
    ids[i] = static_cast<int32_t>(i * 7 % model->config().vocabulary);
  }
  Context context({2, ""});
  CoreObserver observer(context);
  Session session(context, *model, {.capacity = kTokens, .hooks = &observer});
  session.Feed(ids);
  size_t heads = 0;
  for (const auto& [site, sums] : observer.sums()) {
    for (const HeadSums& head : sums) {
      ++heads;
      EXPECT_EQ(head[kSumCount], kTokens) << site;
      EXPECT_EQ(head[kSumNonFinite], 0) << site;
      EXPECT_GT(head[kSumEntropy], 0) << site;
    }
  }
  EXPECT_EQ(heads, 2 * static_cast<size_t>(model->config().layers[0].heads));
  // One map of one head would be 144 MB.
  EXPECT_LT(context.PeakScratchBytes(), 40 << 20);
}

}  // namespace
}  // namespace headwise::long_text_test
