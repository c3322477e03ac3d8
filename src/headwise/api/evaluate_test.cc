// A model beside itself with heads closed, and work that is kept on the way,
// through the public doors.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/api/test_model.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/cache.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/head_edit.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/similar.h"
#include "headwise/text_input.h"
#include "headwise/train.h"

namespace headwise::evaluate_test {
namespace {

const std::vector<HeadRef> kTwoHeads = {{.layer = 1, .head = 2},
                                        {.layer = 4, .head = 0}};

TEST(EvaluateHeads, IsTheLossUnderAnEdit) {
  Transformer model = Novels();
  const TextInput text = ShortText();
  const HeadEvaluation whole = EvaluateHeads(model, text);
  EXPECT_EQ(whole.loss.whole.value, model.Loss(text).loss.value);
  EXPECT_EQ(whole.loss.change.value, 0);
  const HeadEvaluation closed =
      EvaluateHeads(model, text, {.closed = kTwoHeads});
  EXPECT_EQ(closed.loss.whole.value, whole.loss.whole.value);
  EXPECT_NEAR(closed.loss.change.value,
              closed.loss.other.value - closed.loss.whole.value, 1e-9);
  ASSERT_TRUE(closed.right.has_value());
  EXPECT_GT(closed.right->whole.value, 0);
  EXPECT_LT(closed.right->whole.value, 1);
  EXPECT_FALSE(closed.bleu.has_value());
  const Intervention edit = model.Edit({.drop = kTwoHeads});
  EXPECT_NEAR(closed.loss.other.value, model.Loss(text).loss.value, 1e-5);
  EXPECT_NE(closed.loss.other.value, closed.loss.whole.value);
  EXPECT_THROW(EvaluateHeads(model, text), Error);
}

TEST(EvaluateHeads, RefusesHeadsThatAreNotThere) {
  Transformer model = Novels();
  EXPECT_THROW(EvaluateHeads(model, ShortText(), {.closed = {{.layer = 99}}}),
               Error);
  EXPECT_THROW(EvaluateLabels(model, TextInput::Of("a")), Error);
}

TEST(MakeProfile, HoldsTheMeansOfItsText) {
  Transformer model = Novels();
  TextInput text = ShortText(256);
  text.context = 64;
  ProfileJob job;
  job.metrics = MetricSet::kCore;
  job.means = true;
  const Profile profile = MakeProfile(model, text, job);
  ASSERT_EQ(profile.mean_outputs.size(), profile.heads.size());
  const HeadMeans held = MeanOutputs(model, profile);
  const HeadMeans made = MeanOutputs(model, text);
  const auto loss = [&](const HeadMeans& means) {
    return EvaluateHeads(model, text, {.closed = kTwoHeads, .means = means})
        .loss.other.value;
  };
  EXPECT_EQ(loss(held), loss(made));
  EXPECT_NE(loss(held), loss({}));
  job.means = false;
  EXPECT_THROW(MeanOutputs(model, MakeProfile(model, text, job)), Error);
}

TEST(EvaluateCache, AWindowBeyondTheTextIsTheWholeCache) {
  Transformer model = Novels();
  TextInput text = ShortText(256);
  text.context = 64;
  KvPolicy policy;
  policy.window = 64;
  EXPECT_NEAR(EvaluateCache(model, text, policy).loss.change.value, 0, 1e-6);
  policy.window = 4;
  const CacheEvaluation cut = EvaluateCache(model, text, policy);
  EXPECT_GT(cut.loss.change.value, 0.01);
  EXPECT_LT(cut.bytes.kept, cut.bytes.whole);
}

using RankHeadsTest = ScratchFolderTest;

TEST_F(RankHeadsTest, GoesOnWhereItWasStopped) {
  Transformer model = Planted();
  TextInput text = ShortText(128);
  text.context = 16;
  RankJob job;
  job.by = {Criterion::kAblationZero};
  const std::string whole = JsonText(RankHeads(model, text, job));
  job.partial.file = folder_ / "kept";
  std::stop_source stop;
  job.stop = stop.get_token();
  job.on_progress = [&](std::string_view stage, double done, double total) {
    if (stage == "ablation-zero" && done > total / 2) stop.request_stop();
  };
  EXPECT_THROW(RankHeads(model, text, job), Error);
  ASSERT_TRUE(std::filesystem::exists(*job.partial.file));
  job.stop = {};
  job.on_progress = {};
  job.partial.resume = true;
  EXPECT_EQ(JsonText(RankHeads(model, text, job)), whole);
  EXPECT_FALSE(std::filesystem::exists(*job.partial.file));
  EXPECT_THROW(RankHeads(model, text, job), Error);  // nothing to go on with
  job.partial.file.reset();
  EXPECT_THROW(RankHeads(model, text, job), Error);
}

TEST(DrawSimilarity, DrawsAResultAsItDrawsAModel) {
  Transformer model = Planted();
  const TextInput text = ShortText(128);
  const HeadSimilarity found = CompareHeads(model, text);
  EXPECT_EQ(DrawSimilarity(found, "Like heads of planted"),
            DrawSimilarity(model, text));
}

using TrainTest = ScratchFolderTest;

TEST_F(TrainTest, WritesWhatHeadsDoWhereItIsAsked) {
  const std::string source = Novels().folder().parent_path().string();
  TrainJob job;
  job.json = R"({"steps": 2, "batch": 2, "micro_batch": 2, "sequence": 16,
      "observe_every": 2, "warmup": 1,
      "model": {"model_type": "llama", "hidden_size": 16,
                "intermediate_size": 16, "num_hidden_layers": 1,
                "num_attention_heads": 2, "max_position_embeddings": 32}})";
  job.settings = {"out=" + (folder_ / "run").string(),
                  "tokenizer=" + source + "/novels",
                  R"(data=[")" + source + R"(/text"])"};
  std::vector<int64_t> begun;
  job.on_start = [&](int64_t step) { begun.push_back(step); };
  Train(job);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run" / "heads.jsonl"));
  job.observe = job.force = true;
  const TrainOutcome run = Train(job);
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(begun, std::vector<int64_t>({0, 0}));
  for (const char* name :
       {"heads.jsonl", "heads.svg", "roles.jsonl", "roles.svg", "loss.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run" / name)) << name;
  }
  job.settings.emplace_back("observe_every=0");
  job.words.conllu = source + "/treebank";
  EXPECT_THROW(Train(job), Error);
}

}  // namespace
}  // namespace headwise::evaluate_test
