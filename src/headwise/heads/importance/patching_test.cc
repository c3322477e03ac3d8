// Attributions add up to the logits; patches do what they say.
#include "headwise/heads/importance/patching.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/runtime/session.h"

namespace headwise::patching_test {
namespace {

std::vector<PatchCase> RandomCases(int64_t count) {
  const std::vector<TextExample> texts = RandomExamples(2 * count, 9, 64, 21);
  std::vector<PatchCase> cases;
  for (int64_t i = 0; i < count; ++i) {
    PatchCase one;
    one.prompt = texts[2 * i].ids;
    one.counterfactual = one.prompt;
    for (size_t t = 2; t < one.prompt.size(); ++t) {
      one.counterfactual[t] = (one.prompt[t] + 7) % 64;
    }
    one.answer = static_cast<int32_t>(i % 64);
    one.other = static_cast<int32_t>((i * 5 + 9) % 64);
    cases.push_back(std::move(one));
  }
  return cases;
}

// From the model's own logits.
double Difference(Context& context, const Model& model,
                  const std::vector<int32_t>& ids, const PatchCase& one) {
  const int64_t lengths[] = {static_cast<int64_t>(ids.size())};
  const Tensor x = Forward(context, model, {.ids = ids, .lengths = lengths});
  Tensor logits(DType::kF32, {x.shape(0), model.config().vocabulary});
  model.Logits(context, x.view(), logits.view());
  const float* last =
      logits.As<float>() + (x.shape(0) - 1) * model.config().vocabulary;
  return last[one.answer] - last[one.other];
}

// One prompt may take minutes.
TEST(Patch, TellsHowFarALonePromptHasCome) {
  Context context({2, ""});
  const auto model = GoldenModel("gpt2");
  for (const bool patched : {false, true}) {
    std::vector<PatchCase> cases = RandomCases(1);
    if (!patched) cases[0].counterfactual.clear();
    std::vector<double> told;
    PatchNeeds needs;
    needs.pass.progress = [&](std::string_view, double done, double total) {
      EXPECT_EQ(total, 1);
      told.push_back(done);
    };
    Patch(context, *model, cases, {}, needs);
    EXPECT_GE(std::ssize(told), 2 * std::ssize(model->stack().blocks));
    EXPECT_EQ(told.front(), 0) << "before the first layer";
    EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
    EXPECT_NEAR(told[told.size() - 2], 1, 1e-9) << patched;
    EXPECT_EQ(told.back(), 1);
  }
}

TEST(AttributeLogits, PartsAddUpToTheDifferenceOfLogits) {
  Context context({2, ""});
  for (const char* name : {"gpt2", "gpt_neox", "llama", "qwen3"}) {
    const auto model = GoldenModel(name, [](WeightMap& weights) {
      // Biases that initialisation leaves at 0 must count too.
      for (auto& [key, tensor] : weights) {
        if (!key.ends_with(".bias")) continue;
        for (int64_t i = 0; i < tensor.size(); ++i) {
          tensor.As<float>()[i] += 0.01f * static_cast<float>(i % 7 - 2);
        }
      }
    });
    const std::vector<PatchCase> cases = RandomCases(6);
    const auto parts = AttributeLogits(context, *model, cases);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_NEAR(parts[i].Sum(),
                  Difference(context, *model, cases[i].prompt, cases[i]), 1e-4)
          << name;
      EXPECT_EQ(parts[i].heads.size(), 8u);
      EXPECT_EQ(parts[i].mlps.size(), 2u);
    }
  }
}

TEST(Patch, MeansOverCasesAndBatchesDoNotMatter) {
  Context context({2, ""});
  const auto model = GoldenModel("gpt2");
  const std::vector<PatchCase> cases = RandomCases(7);
  PatchNeeds needs;
  needs.replicates = 100;
  const PatchResult whole = Patch(context, *model, cases, {}, needs);
  double clean = 0, counterfactual = 0;
  for (const PatchCase& one : cases) {
    clean += Difference(context, *model, one.prompt, one);
    counterfactual += Difference(context, *model, one.counterfactual, one);
  }
  EXPECT_NEAR(whole.difference.value, clean / 7, 1e-4);
  EXPECT_NEAR(whole.counterfactual.value, counterfactual / 7, 1e-4);
  needs.batch_tokens = 12;
  const PatchResult parts = Patch(context, *model, cases, {}, needs);
  for (size_t h = 0; h < whole.heads.size(); ++h) {
    EXPECT_NEAR(whole.patched[h].value, parts.patched[h].value, 1e-5);
    EXPECT_NEAR(whole.direct.heads[h], parts.direct.heads[h], 1e-5);
  }
}

TEST(Patch, TheSamePromptChangesNothing) {
  Context context({2, ""});
  const auto model = GoldenModel("llama");
  std::vector<PatchCase> cases = RandomCases(3);
  for (PatchCase& one : cases) one.counterfactual = one.prompt;
  for (const Interval& lost : Patch(context, *model, cases).patched) {
    EXPECT_NEAR(lost.value, 0, 1e-5);
  }
}

TEST(Patch, RefusesWhatItCannotDo) {
  Context context({1, ""});
  const auto model = GoldenModel("gpt2");
  std::vector<PatchCase> cases = RandomCases(2);
  cases[1].counterfactual.pop_back();
  try {
    Patch(context, *model, cases);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("as many tokens"));
  }
  cases = RandomCases(1);
  cases[0].answer = 64;
  EXPECT_THROW(Patch(context, *model, cases), Error);
  EXPECT_THROW(Patch(context, *model, {}), Error);
  for (const char* name : {"bert", "marian", "bert-headless"}) {
    const auto other = GoldenModel(name);
    try {
      Patch(context, *other, RandomCases(1));
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    }
  }
}

}  // namespace
}  // namespace headwise::patching_test
