// What is known of real models' heads: which look alike, which feed which.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "headwise/heads/composition/composition.h"
#include "headwise/heads/similarity/similarity.h"
#include "headwise/model/checkpoint.h"
#include "headwise/tensor/matrix.h"
#include "shared_files.h"

namespace headwise::relations_test {
namespace {

TEST(Relations, MinimindsInductionHeadsReadItsPreviousTokenHead) {
  const std::filesystem::path folder = ModelsFolder() / "minimind2-small";
  HEADWISE_REQUIRE(folder);
  const auto model = OpenModel(folder);
  Context context;
  const Composition found = MeasureComposition(context, *model);
  std::vector<std::string> top;
  for (size_t i = 0; i < 3; ++i) {
    const HeadEdge& edge = found.edges[i];
    EXPECT_EQ(edge.input, HeadInput::kKey);
    EXPECT_GT(found.Over(edge), .1);
    top.push_back(ToString(found.heads[edge.sender]) + " → " +
                  ToString(found.heads[edge.receiver]));
  }
  EXPECT_EQ(top,
            (std::vector<std::string>{"4.0 → 5.1", "4.0 → 5.0", "4.0 → 5.3"}));
}

TEST(Relations, MinilmsPreviousTokenHeadIsLikeNoOther) {
  const std::filesystem::path folder = ModelsFolder() / "minilm-l6";
  HEADWISE_REQUIRE(folder);
  const auto model = OpenModel(folder);
  const auto tokenizer = Tokenizer::Load(folder);
  const WindowCutter cutter(*tokenizer, model->config(), {.context = 128});
  const auto windows = ReadWindows(
      {std::string(HEADWISE_SOURCE) + "/assets/planted/vocabulary.txt"}, cutter,
      512);
  Context context;
  const HeadSimilarity found = CompareHeads(context, *model, windows);
  ASSERT_EQ(found.heads.size(), 72u);
  for (int64_t other = 0; other < 72; ++other) {
    EXPECT_TRUE(other == 2 || FromTensor(found.jsd)(2, other) > .25) << other;
  }
}

}  // namespace
}  // namespace headwise::relations_test
