// What a model says of texts before they are run, and runs of several texts.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "headwise/api/test_model.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/cache.h"
#include "headwise/error.h"
#include "headwise/generate.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/patch.h"
#include "headwise/profile.h"
#include "headwise/progress.h"
#include "headwise/show.h"
#include "headwise/text_input.h"

namespace headwise::notices_test {
namespace {

const std::string kRussian = "Привет, мир! Как дела сегодня, друзья?";

class Noticing {
 public:
  Transformer Open() {
    OpenOptions options;
    options.on_notice = [this](std::string_view notice) {
      notices.emplace_back(notice);
    };
    return Novels(options);
  }
  std::vector<std::string> notices;
};

TEST(OnNotice, TellsOfALetterThatTheTokenizerDoesNotKnow) {
  Noticing seen;
  Transformer model = seen.Open();
  model.Run(kSentence);
  EXPECT_TRUE(seen.notices.empty()) << seen.notices[0];
  model.Run(kRussian);
  ASSERT_EQ(seen.notices.size(), 1);
  EXPECT_TRUE(seen.notices[0].starts_with("[text] expected letters"))
      << seen.notices[0];
}

class OddWeights : public ScratchFolderTest {};

TEST_F(OddWeights, AreNamedWhenTheModelIsOpened) {
  const Transformer whole = Novels();
  std::filesystem::copy(whole.folder() / "config.json", folder_);
  Transformer source(whole.folder());
  std::map<std::string, Tensor> kept;
  for (const std::string& name : source.WeightNames()) {
    kept[name] = source.Weight(name);
  }
  std::vector<std::pair<std::string, ConstTensorView>> tensors;
  for (const auto& [name, tensor] : kept) {
    tensors.emplace_back(name, tensor.view());
  }
  const Tensor odd(DType::kF32, {2});
  for (const char* name : {"a", "b", "c", "d"}) {
    tensors.emplace_back(name, odd.view());
  }
  SaveTensors(folder_ / "model.safetensors", {tensors.begin(), tensors.end()});
  std::vector<std::string> notices;
  OpenOptions options;
  options.on_notice = [&](std::string_view notice) {
    notices.emplace_back(notice);
  };
  const Transformer model(folder_, options);
  ASSERT_EQ(notices.size(), 1);
  EXPECT_NE(notices[0].find("found 4 that llama does not read: a, b, c, …"),
            std::string::npos)
      << notices[0];
  const std::vector<std::string> all = {"a", "b", "c", "d"};
  EXPECT_EQ(model.info().unread, all);
  EXPECT_EQ(ReadModelInfo(folder_).unread, all);
  EXPECT_TRUE(whole.info().unread.empty());
}

TEST(OnNotice, TellsOnceOfATextThatIsLongerThanTheContext) {
  Noticing seen;
  Transformer model = seen.Open();
  TextInput text = ShortText(2 * model.info().context);
  model.Loss(text);
  EXPECT_TRUE(seen.notices.empty());
  text.context = 2 * model.info().context;
  model.Loss(text);
  ASSERT_EQ(seen.notices.size(), 1);
  EXPECT_TRUE(seen.notices[0].starts_with("[context] expected at most"))
      << seen.notices[0];
}

TEST(OnNotice, TellsOfTextsOfProfilesAndPrompts) {
  Noticing seen;
  Transformer model = seen.Open();
  ProfileJob job;
  job.metrics = MetricSet::kCore;
  MakeProfile(model, TextInput::Of(kRussian), job);
  EXPECT_EQ(seen.notices.size(), 1);
  PatchHeads(model,
             std::vector<PatchText>{
                 {.prompt = kRussian, .answer = " sea", .other = " man"}});
  EXPECT_EQ(seen.notices.size(), 2);
  Generate(model, kRussian, {.max_tokens = 1});
  EXPECT_EQ(seen.notices.size(), 3);
}

TEST(ShowAttention, CutsALongTextAndSaysSo) {
  Noticing seen;
  Transformer model = seen.Open();
  std::string text;
  for (int i = 0; i < 20; ++i) text += kSentence + " ";
  TextInput input = TextInput::Of(text);
  input.context = 32;
  ShowJob job;
  job.cells = 8;
  job.queries = 4;
  job.top = 3;
  const std::vector<HeadRef> heads = {{.layer = 1, .head = 2},
                                      {.layer = 0, .head = 0}};
  const ShownAttention shown = ShowAttention(model, input, heads, job);
  ASSERT_EQ(seen.notices.size(), 1);
  EXPECT_TRUE(seen.notices[0].starts_with("[show] the first 32 tokens"))
      << seen.notices[0];
  ASSERT_EQ(shown.heads.size(), 2);
  EXPECT_EQ(shown.heads[0].head, heads[0]);
  EXPECT_EQ(shown.tokens.size(), 32);
  EXPECT_EQ(shown.heads[0].queries, 32);
  EXPECT_TRUE(shown.heads[0].pooled());
  EXPECT_EQ(shown.heads[0].values.size(), 64);
  EXPECT_EQ(shown.heads[0].top_keys.size(), 12);
  EXPECT_FALSE(shown.heads[0].Sees(0, 7));
  EXPECT_NE(DrawAttention(shown, "A title").find("A title"), std::string::npos);
  EXPECT_THROW(ShowAttention(model, input, {}, job), Error);
  job.query = 99;
  EXPECT_THROW(ShowAttention(model, input, heads, job), Error);
}

TEST(ShowAttention, GivesWhatMapGives) {
  Transformer model = Novels();
  const HeadRef head = {.layer = 1, .head = 2};
  const ShownAttention shown =
      ShowAttention(model, TextInput::Of(kSentence), {&head, 1});
  const MappedAttention map = model.Map(kSentence, {.head = head});
  ASSERT_EQ(shown.heads[0].values.size(),
            static_cast<size_t>(map.queries * map.keys));
  for (int64_t i = 0; i < map.queries * map.keys; ++i) {
    ASSERT_EQ(shown.heads[0].values[i], map.weights.As<float>()[i]) << i;
  }
  EXPECT_EQ(shown.tokens, map.key_tokens);
}

TEST(PatchHeads, LeavesOutWhatCannotBeCompared) {
  Transformer model = Novels();
  const std::string prompt = "The captain looked at the";
  const PatchText good = {.prompt = prompt,
                          .counterfactual = "The woman looked at the",
                          .answer = " sea",
                          .other = " man"};
  PatchText unequal = good, alike = good;
  unequal.counterfactual = "The very old woman looked at the";
  alike.other = good.answer;
  const PatchResult result =
      PatchHeads(model, std::vector<PatchText>{good, unequal, alike});
  EXPECT_EQ(result.cases, 1);
  EXPECT_EQ(result.unequal, 1);
  EXPECT_EQ(result.ambiguous, 1);
  EXPECT_THROW(PatchHeads(model, std::vector<PatchText>{unequal}), Error);
  EXPECT_THROW(PatchHeads(model, std::vector<PatchText>{alike, alike}), Error);
}

TEST(GenerateEach, GivesWhatEachPromptGivesAlone) {
  Transformer model = Novels({.threads = 2});
  const Intervention closed = model.Edit({.drop = {{.layer = 0, .head = 1}}});
  const std::vector<std::string> prompts = {"The captain", "She said", "Once"};
  GenerateJob job;
  job.max_tokens = 6;
  double told = 0;
  job.on_progress = [&](std::string_view, double done, double) { told = done; };
  const std::vector<Generated> all = GenerateEach(model, prompts, job);
  ASSERT_EQ(all.size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Generated alone = Generate(model, prompts[i], job);
    EXPECT_EQ(all[i].ids, alone.ids) << prompts[i];
    EXPECT_EQ(all[i].text, alone.text);
  }
  EXPECT_EQ(told, 3);
}

TEST(GenerateEach, CallsHooksFromOneThread) {
  Transformer model = Novels({.threads = 2});
  int calls = 0;
  const Intervention hook =
      model.Hook("layer.0.attention.query",
                 [&](std::string_view, TensorView) { ++calls; });
  const std::vector<std::string> prompts = {"The captain", "She said"};
  GenerateEach(model, prompts, {.max_tokens = 2});
  EXPECT_GT(calls, 2);
}

TEST(Generate, KeepsAWindowWherePolicySaysSo) {
  Transformer model = Novels();
  KvPolicy policy;
  policy.sinks = 1;
  policy.window = 4;
  CacheBytes bytes;
  GenerateJob job;
  job.max_tokens = 40;
  job.policy = &policy;
  job.on_cache = [&](const CacheBytes& taken) { bytes = taken; };
  Generate(model, kSentence, job);
  EXPECT_GT(bytes.kept, 0);
  EXPECT_LT(bytes.kept, bytes.whole);
  policy.whole = {{.layer = 99}};
  EXPECT_THROW(Generate(model, kSentence, job), Error);
}

// The sum of prompt and answer does not fit 64 bits.
TEST(Generate, TakesAnyNumberOfTokensAsALimit) {
  Noticing seen;
  Transformer model = seen.Open();
  std::stop_source stop;
  stop.request_stop();
  GenerateJob job;
  job.max_tokens = std::numeric_limits<int64_t>::max();
  job.context = model.info().context + 1;
  job.stop = stop.get_token();
  EXPECT_TRUE(Generate(model, kSentence, job).ids.empty());
  EXPECT_EQ(seen.notices.size(), 1);  // of the longer context
}

TEST(RunRows, PadsWhatIsShorter) {
  Transformer model = Novels();
  const std::vector<std::vector<int32_t>> rows = {
      model.Encode(kSentence).ids, model.Encode("The captain").ids};
  const auto both = model.RunRows(rows, {"final"});
  const auto alone = model.RunRows({&rows[1], 1}, {"final"});
  const Tensor& padded = both.at("final");
  const Tensor& one = alone.at("final");
  const int64_t width = model.info().width;
  ASSERT_EQ(padded.shape(0), 2);
  ASSERT_EQ(padded.shape(1), std::ssize(rows[0]));
  const float* second = padded.As<float>() + padded.shape(1) * width;
  for (int64_t i = 0; i < one.size(); ++i) {
    ASSERT_NEAR(second[i], one.As<float>()[i], 1e-4) << i;
  }
  EXPECT_EQ(second[one.size()], 0);
  EXPECT_THROW(model.RunRows({}, {"final"}), Error);
  EXPECT_THROW(model.RunRows(rows, {"nonesuch"}), Error);
  const std::vector<std::vector<int32_t>> outside = {{1, 1 << 30}};
  EXPECT_THROW(model.RunRows(outside, {"final"}), Error);
}

TEST(RunRows, LieWhereTheyAreToLie) {
  Transformer model = Novels();
  const std::vector<std::vector<int32_t>> rows = {{5, 6, 7, 8}, {9, 5, 6}};
  const std::vector<std::string> names = {"logits", "layer.0.attention.probs"};
  const auto plain = model.RunRows(rows, names);
  SequencePlaces places = {.width = 9, .first = {0, 4}};
  const auto wide = model.RunRows(rows, names, {}, places);
  const Tensor& logits = wide.at("logits");
  const Tensor& probs = wide.at("layer.0.attention.probs");
  ASSERT_EQ(logits.shape(1), 9);
  ASSERT_EQ(probs.shape(2), 9);
  ASSERT_EQ(probs.shape(3), 9);
  const int64_t classes = model.info().vocabulary;
  const int64_t heads = model.info().layers[0].heads;
  const float* from = plain.at("logits").As<float>();
  const float* map = plain.at("layer.0.attention.probs").As<float>();
  for (int64_t i = 0; i < 9; ++i) {
    const bool inside = i >= 4 && i < 7;  // of the second row
    EXPECT_EQ(logits.As<float>()[(9 + i) * classes],
              inside ? from[i * classes] : 0)
        << i;
    for (int64_t k = 0; k < 9; ++k) {
      const float expected = inside && k >= 4 && k < 7
                                 ? map[heads * 4 * 4 + (i - 4) * 4 + k - 4]
                                 : 0;
      EXPECT_EQ(probs.As<float>()[heads * 9 * 9 + i * 9 + k], expected);
    }
  }
  places.width = 6;
  EXPECT_THROW(model.RunRows(rows, names, {}, places), Error);
  places.first = {0};
  EXPECT_THROW(model.RunRows(rows, names, {}, places), Error);
}

}  // namespace
}  // namespace headwise::notices_test
