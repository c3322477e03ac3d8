// Models beside the ones that they were made of, through the public doors.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headwise/api/judge.h"
#include "headwise/api/test_model.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/prune.h"
#include "headwise/text_input.h"

namespace headwise::judge_test {
namespace {

using CompareModelsTest = ScratchFolderTest;

const std::filesystem::path kAssets =
    std::filesystem::path(HEADWISE_SOURCE) / "assets";

TextInput Lines() {
  TextInput text = ShortText(256);
  text.context = 32;
  return text;
}

// A third of the heads gone.
void Prune(Transformer& model, const std::filesystem::path& out) {
  PruneJob job;
  job.keep = 0.7;
  job.by = Criterion::kActivation;
  job.timing = false;
  HeadPruner pruner(model, Lines(), job);
  pruner.Write(pruner.Plan(), out);
}

TEST_F(CompareModelsTest, ModelsAgreeWithThemselvesAndLessWithSmallerOnes) {
  Transformer model = Planted();
  const std::vector<TextInput> texts = {Lines()};
  const ModelJudgement same = CompareModels(model, model, texts)[0];
  EXPECT_EQ(same.kind, LossKind::kNextToken);
  EXPECT_EQ(same.loss.change.value, 0);
  ASSERT_TRUE(same.agreement.divergence && same.agreement.same_token);
  EXPECT_NEAR(same.agreement.divergence->value, 0, 1e-9);
  EXPECT_EQ(same.agreement.same_token->value, 1);
  EXPECT_FALSE(same.agreement.cosine);
  Prune(model, folder_ / "smaller");
  Transformer smaller(folder_ / "smaller");
  const ModelJudgement other = CompareModels(model, smaller, texts)[0];
  EXPECT_EQ(other.loss.whole.value, same.loss.whole.value);
  EXPECT_NEAR(other.loss.other.value, smaller.Loss(texts[0]).loss.value, 1e-5);
  EXPECT_GT(other.agreement.divergence->value, 1e-3);
  EXPECT_LT(other.agreement.same_token->value, 1);
}

// Today's loss of such a model is its distance from itself.
TEST_F(CompareModelsTest, EncodersAreComparedWithTheWholeOne) {
  Transformer model(kAssets / "encoder");
  Prune(model, folder_ / "smaller");
  Transformer smaller(folder_ / "smaller");
  const std::vector<TextInput> texts = {Lines()};
  const ModelJudgement row = CompareModels(model, smaller, texts)[0];
  const Agreement& agreement = row.agreement;
  ASSERT_TRUE(agreement.cosine && agreement.same_neighbour);
  EXPECT_GT(agreement.sentences, 4);
  EXPECT_LT(agreement.cosine->value, 0.9999);
  EXPECT_GT(agreement.cosine->value, 0);
  EXPECT_LE(agreement.same_neighbour->value, 1);
  const Agreement same = CompareModels(model, model, texts)[0].agreement;
  // Ids have no sentences, and losses all the same.
  const std::vector<TextInput> ids = {
      TextInput::Ids(model.Encode("The captain looked at the sea.").ids)};
  EXPECT_FALSE(CompareModels(model, smaller, ids)[0].agreement.cosine);
  EXPECT_NEAR(same.cosine->value, 1, 1e-6);
  EXPECT_EQ(same.same_neighbour->value, 1);
}

TEST_F(CompareModelsTest, ModelsOfOtherKindsAreRefused) {
  Transformer model = Planted(), encoder(kAssets / "encoder");
  const std::vector<TextInput> texts = {Lines()};
  EXPECT_THROW(CompareModels(model, encoder, texts), Error);
  Transformer novels = Novels();
  EXPECT_THROW(CompareModels(model, novels, texts), Error);  // other tokens
}

TEST(DomainsOf, AreNamesThatTellTextsApart) {
  const std::vector<TextInput> texts = {TextInput::Files({"a/wiki.txt"}),
                                        TextInput::Files({"b/novel.txt"}),
                                        TextInput::Files({"b/wiki.txt"}),
                                        TextInput::Files({"c/", "d"}),
                                        TextInput::Of("one"),
                                        TextInput::Of("two")};
  EXPECT_EQ(DomainsOf(texts),
            (std::vector<std::string>{"a/wiki.txt", "novel.txt", "b/wiki.txt",
                                      "c and 1 more", "texts 5", "texts 6"}));
}

TEST_F(CompareModelsTest, JudgedTextsStandApart) {
  Transformer model = Planted();
  std::ofstream(folder_ / "other.txt")
      << "A sail rose in the west. The keeper looked at it for a long time, "
         "and then he went down to the boat and pushed it into the sea.\n";
  PruneJob job;
  job.keep = 0.7;
  job.by = Criterion::kActivation;
  job.timing = false;
  TextInput other = TextInput::Files({(folder_ / "other.txt").string()});
  other.context = 16;
  job.judge = {other};
  HeadPruner pruner(model, Lines(), job);
  const PruneOutcome outcome = pruner.Write(pruner.Plan(), folder_ / "out");
  ASSERT_EQ(outcome.judged.size(), 2);
  EXPECT_TRUE(outcome.judged[0].chose);
  EXPECT_EQ(outcome.judged[0].loss.other.value, outcome.loss.other.value);
  EXPECT_FALSE(outcome.judged[1].chose);
  EXPECT_EQ(outcome.judged[1].domain, "other.txt");
  Transformer smaller(folder_ / "out");
  EXPECT_NEAR(outcome.judged[1].loss.other.value,
              smaller.Loss(other).loss.value, 1e-5);
  // A text that chooses cannot judge as if it were another.
  EXPECT_THROW(HeadPruner(model, other, job), Error);
}

TEST(ShareOfHeads, IsWhatTheMatricesHold) {
  const Transformer model = Planted();
  const HeadShare share = ShareOfHeads(model);
  EXPECT_EQ(share.bytes, model.info().file_bytes);
  // Four matrices of width × width and their biases, in 2 layers.
  const int64_t width = model.info().width;
  const int64_t bytes = share.bytes / model.info().parameters;
  EXPECT_EQ(share.head_bytes, 2 * 4 * (width + 1) * width * bytes);
  EXPECT_GT(share.prefill, 0);
  EXPECT_LT(share.prefill, 1);
  EXPECT_GT(share.decode, 0);
  EXPECT_LT(share.decode, 1);
}

}  // namespace
}  // namespace headwise::judge_test
