// Vectors of texts through their public door.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/api/test_model.h"
#include "headwise/embed.h"
#include "headwise/error.h"
#include "headwise/model.h"

namespace headwise::embed_test {
namespace {

std::vector<float> Row(const EmbeddedTexts& of, int64_t row) {
  const int64_t width = of.vectors.shape(1);
  const float* begin = of.vectors.As<float>() + row * width;
  return {begin, begin + width};
}

void ExpectNear(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-4 * std::max(1.0f, std::abs(b[i]))) << i;
  }
}

TEST(EmbedTexts, AveragesTheLastStates) {
  Transformer model = Novels();
  const RunOutput run = model.Run(kSentence, {.cache = {"final"}});
  const Tensor& states = run.cache.at("final");  // [1, tokens, width]
  std::vector<float> mean(static_cast<size_t>(states.shape(2)));
  for (int64_t i = 0; i < states.size(); ++i) {
    mean[i % states.shape(2)] +=
        states.As<float>()[i] / static_cast<float>(states.shape(1));
  }
  const std::vector<std::string> texts = {"Another one, of more tokens.",
                                          kSentence};
  const EmbeddedTexts vectors = EmbedTexts(model, texts);
  EXPECT_EQ(vectors.how, "mean");
  EXPECT_EQ(vectors.tokens[1], states.shape(1));
  ExpectNear(Row(vectors, 1), mean);
}

TEST(EmbedTexts, DoesNotDependOnWhatRunsBesides) {
  Transformer model = Novels();
  const std::vector<std::string> both = {"The sea.", kSentence};
  const std::vector<std::string> one = {kSentence};
  const EmbedJob job = {.pooling = Pooling::kLast,
                        .normalize = Normalizing::kYes};
  const EmbeddedTexts together = EmbedTexts(model, both, job);
  ExpectNear(Row(together, 1), Row(EmbedTexts(model, one, job), 0));
  double squares = 0;
  for (const float value : Row(together, 0)) squares += double{value} * value;
  EXPECT_NEAR(squares, 1, 1e-5);
}

TEST(EmbedTexts, CutsTextsAndTellsHowMany) {
  Transformer model = Novels();
  const std::vector<std::string> texts = {kSentence, "The"};
  const EmbeddedTexts vectors = EmbedTexts(model, texts, {.context = 4});
  EXPECT_EQ(vectors.cut, 1);
  EXPECT_EQ(vectors.tokens[0], 4);
}

TEST(EmbedTexts, PutsThePromptBeforeEachText) {
  Transformer model = Novels();
  const std::vector<std::string> bare = {"The captain"}, rest = {"captain"};
  ExpectNear(Row(EmbedTexts(model, rest, {.prompt = "The "}), 0),
             Row(EmbedTexts(model, bare), 0));
}

}  // namespace
}  // namespace headwise::embed_test
