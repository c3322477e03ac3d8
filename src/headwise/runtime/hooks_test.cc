// Several hooks of one run: their order, what each sees, where a run stops.
#include "headwise/nn/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/nn/gated_sites.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/test_models.h"

namespace headwise::hooks_test {
namespace {

using testing::ElementsAre;

// Writes down which sites it comes to.
class Diary : public RunHooks {
 public:
  Diary(std::string name, std::vector<std::string>& lines)
      : name_(std::move(name)), lines_(lines) {}
  void AfterAttention(const AttentionSite& site, const AttentionProblem&,
                      const AttentionArgs& args) override {
    EXPECT_EQ(args.observation, nullptr);
    lines_.push_back(name_ + site.name);
  }

 private:
  std::string name_;
  std::vector<std::string>& lines_;
};

class Observer : public RunHooks {
 public:
  void BeforeAttention(const AttentionSite&, const AttentionProblem& problem,
                       AttentionArgs& args) override {
    sums_ = Tensor(DType::kF64, {problem.batch, problem.heads, kSumColumns});
    observation_.summed.sums = sums_.view();
    args.observation = &observation_;
  }

 private:
  Tensor sums_;
  Observation observation_;
};

// Turns every activation of one name around.
class Negator : public RunHooks {
 public:
  Negator(Context& context, std::string name)
      : context_(context), name_(std::move(name)) {}
  bool Wants(std::string_view name) const override { return name == name_; }
  void Change(std::string_view, TensorView value) override {
    Scale(context_, -1, value, value);
  }

 private:
  Context& context_;
  std::string name_;
};

class HooksTest : public testing::Test {
 protected:
  Tensor Run(const HookList& hooks, const AttentionSite* stop_after = nullptr) {
    const std::vector<int32_t> ids = {3, 1, 4, 1, 5, 9};
    const std::vector<int64_t> lengths = {4, 2};
    return Forward(context_, *model_,
                   {.ids = ids,
                    .lengths = lengths,
                    .decoder_ids = ids,
                    .decoder_lengths = lengths,
                    .hooks = hooks,
                    .stop_after = stop_after});
  }
  std::vector<float> Numbers(const HookList& hooks) {
    return ToVector<float>(context_, Run(hooks).view());
  }

  Context context_{{.threads = 1, .implementations = ""}};
  const std::unique_ptr<Model> model_ =
      runtime_test::FrozenModel(ReadConfig({{"model_type", "marian"},
                                            {"d_model", 32},
                                            {"encoder_layers", 2},
                                            {"decoder_layers", 2},
                                            {"encoder_attention_heads", 4},
                                            {"decoder_attention_heads", 4},
                                            {"encoder_ffn_dim", 64},
                                            {"decoder_ffn_dim", 64},
                                            {"vocab_size", 41},
                                            {"pad_token_id", 40},
                                            {"decoder_start_token_id", 40},
                                            {"max_position_embeddings", 64}},
                                           "marian"));
};

TEST_F(HooksTest, EachIsCalledAtEverySiteInOrder) {
  std::vector<std::string> lines;
  Diary a("a ", lines), b("b ", lines);
  Observer observer;
  Run({&a, nullptr, &observer, &b});
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_EQ(lines[0], "a encoder.layer.0.attention");
  EXPECT_EQ(lines[1], "b encoder.layer.0.attention");
  EXPECT_EQ(lines[11], "b decoder.layer.1.cross");
}

TEST_F(HooksTest, ARunStopsAfterASite) {
  std::vector<std::string> lines;
  Diary diary("", lines);
  const auto stop_after = [&](AttentionKind kind) {
    lines.clear();
    Run(&diary, &AttentionLayers(*model_, kind)[0]->site());
    return lines;
  };
  EXPECT_THAT(stop_after(AttentionKind::kSelf),
              ElementsAre("encoder.layer.0.attention"));
  EXPECT_THAT(
      stop_after(AttentionKind::kDecoder),
      ElementsAre("encoder.layer.0.attention", "encoder.layer.1.attention",
                  "decoder.layer.0.attention"));
  EXPECT_THAT(stop_after(AttentionKind::kCross).back(),
              "decoder.layer.0.cross");
}

TEST_F(HooksTest, TheRunGoesOnWithWhatAHookLeaves) {
  const std::vector<float> plain = Numbers({});
  for (const char* name :
       {"encoder.layer.0.attention.query", "encoder.layer.0.attention.value",
        "encoder.layer.1.attention.head_output", "decoder.layer.1.cross.key",
        "decoder.layer.0.mlp.output", "encoder.layer.1.input"}) {
    Negator once(context_, name), twice(context_, name);
    EXPECT_NE(Numbers(&once), plain) << name;
    EXPECT_EQ(Numbers({&once, &twice}), plain) << name;
  }
}

// A later hook takes what an earlier one left.
TEST_F(HooksTest, QueriesAndKeysTurnedTogetherAreTheSameScores) {
  const std::vector<float> plain = Numbers({});
  Negator queries(context_, "encoder.layer.0.attention.query");
  Negator keys(context_, "encoder.layer.0.attention.key");
  std::vector<float> taken;
  ActivationTaker taker(
      [](std::string_view name) {
        return name == "encoder.layer.0.attention.query";
      },
      [&](std::string_view, ConstTensorView value) {
        taken = ToVector<float>(context_, value);
      });
  EXPECT_EQ(Numbers({&queries, &keys, &taker}), plain);
  const std::vector<float> turned = taken;
  Run(&taker);
  ASSERT_EQ(turned.size(), taken.size());
  for (size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(turned[i], -taken[i]);
}

TEST_F(HooksTest, TheLastGatesCount) {
  ClosedHeads closed(*model_, std::vector<HeadRef>{{.layer = 1, .head = 2}});
  GatedSites open;
  open.Open("encoder.layer.1.attention", 4);
  const std::vector<float> plain = Numbers({});
  EXPECT_NE(Numbers({&open, &closed}), plain);
  EXPECT_EQ(Numbers({&closed, &open}), plain);
}

TEST_F(HooksTest, OnlyOneMayObserve) {
  Observer a, b;
  try {
    Run({&a, &b});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("[encoder.layer.0.attention]"));
  }
}

TEST_F(HooksTest, AListHasAnEnd) {
  Observer one;
  HookList list;
  for (int i = 0; i < 8; ++i) list.Add(&one);
  EXPECT_THROW(list.Add(&one), Error);
  list.Add(nullptr);
}

}  // namespace
}  // namespace headwise::hooks_test
