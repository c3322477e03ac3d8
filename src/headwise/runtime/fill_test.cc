#include "headwise/runtime/fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/model/sequence_pass.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/gates.h"

namespace headwise::fill_test {
namespace {

constexpr int32_t kMask = 4;

std::unique_ptr<Model> Encoder() {
  const ModelConfig config = ReadConfig({{"model_type", "bert"},
                                         {"hidden_size", 32},
                                         {"intermediate_size", 48},
                                         {"num_hidden_layers", 2},
                                         {"num_attention_heads", 4},
                                         {"vocab_size", 23},
                                         {"max_position_embeddings", 16}},
                                        "bert");
  return BuildModel(
      config, ParameterStore::Fresh(config, {.seed = 3, .deviation = 0.3f}));
}

// Logits of one row, straight from the model.
std::vector<float> LogitsAt(Context& context, const Model& model,
                            const std::vector<int32_t>& ids, int64_t row) {
  const std::vector<int64_t> lengths = {static_cast<int64_t>(ids.size())};
  const SequenceBatch batch = MakeBatch(lengths);
  const Temp x(context, DType::kF32, {lengths[0], model.config().width});
  SequencePass(model, {.ids = ids, .batch = &batch}).Forward(context, x.view());
  const Temp logits(context, DType::kF32, {lengths[0], 23});
  model.Logits(context, x.view(), logits.view());
  const std::vector<float> all = ToVector<float>(context, logits.view());
  return {all.begin() + row * 23, all.begin() + (row + 1) * 23};
}

TEST(FillMasks, RanksTheVocabularyAtEveryMask) {
  Context context({2, ""});
  const auto model = Encoder();
  const std::vector<int32_t> ids = {2, 9, kMask, 11, kMask, 3};
  const auto filled = FillMasks(context, *model, ids, kMask, 23);
  ASSERT_EQ(filled.size(), 2);
  EXPECT_EQ(filled[0].position, 2);
  EXPECT_EQ(filled[1].position, 4);
  for (const FilledMask& mask : filled) {
    const std::vector<float> logits =
        LogitsAt(context, *model, ids, mask.position);
    ASSERT_EQ(mask.guesses.size(), 23);
    double sum = 0, all = 0;
    for (const float z : logits) all += std::exp(double{z});
    for (size_t i = 0; i < 23; ++i) {
      const MaskGuess& guess = mask.guesses[i];
      EXPECT_NEAR(guess.probability, std::exp(double{logits[guess.id]}) / all,
                  1e-6);
      if (i > 0) {
        EXPECT_LE(guess.probability, mask.guesses[i - 1].probability);
      }
      sum += guess.probability;
    }
    EXPECT_NEAR(sum, 1, 1e-9);
  }
  EXPECT_EQ(FillMasks(context, *model, ids, kMask, 3)[0].guesses.size(), 3);
}

TEST(FillMasks, GuessesOtherwiseWithHeadsClosed) {
  Context context({1, ""});
  const auto model = Encoder();
  const std::vector<int32_t> ids = {2, 9, kMask, 11, 3};
  ClosedHeads closed(*model, AllHeads(*model));
  const auto open = FillMasks(context, *model, ids, kMask, 1);
  const auto shut = FillMasks(context, *model, ids, kMask, 1, &closed);
  EXPECT_NE(open[0].guesses[0].probability, shut[0].guesses[0].probability);
}

TEST(FillMasks, RefusesWhatHasNoMask) {
  Context context({1, ""});
  const std::vector<int32_t> none = {2, 9, 3}, one = {2, kMask, 3};
  EXPECT_THROW(FillMasks(context, *Encoder(), none, kMask, 5), Error);
  const ModelConfig llama = ReadConfig({{"model_type", "llama"},
                                        {"hidden_size", 16},
                                        {"intermediate_size", 16},
                                        {"num_hidden_layers", 1},
                                        {"num_attention_heads", 2},
                                        {"vocab_size", 23},
                                        {"max_position_embeddings", 16}},
                                       "llama");
  const auto causal = BuildModel(llama, ParameterStore::Fresh(llama, {}));
  EXPECT_THROW(FillMasks(context, *causal, one, kMask, 5), Error);
}

}  // namespace
}  // namespace headwise::fill_test
