// Gates that choose heads, with the weights frozen and learning along.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/pruning/choose.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/learned_gates.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/planted.h"
#include "headwise/nn/head_gates.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/windows.h"

namespace headwise::learned_gates_test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

fs::path Golden(const std::string& name) {
  return fs::path(HEADWISE_GOLDENS) / name;
}

Context& OneThread() {
  static Context context({.threads = 1, .implementations = ""});
  return context;
}

// Texts of one length, so that a mean over windows is one over tokens; half of
// every text is the other half again, which can be learned.
std::vector<TextExample> Texts(const Model& model, int64_t count,
                               uint64_t seed) {
  auto texts = RandomExamples(count, 24, model.config().vocabulary, seed);
  for (TextExample& text : texts) {
    text.ids.resize(24, 5);
    for (size_t i = 12; i < 24; ++i) text.ids[i] = text.ids[i - 12];
    if (model.config().encoder_decoder()) text.target = text.ids;
  }
  return texts;
}

GateOptions Options(int64_t steps, double rate) {
  GateOptions options;
  options.learning = {.steps = steps, .penalty = 0.2, .seed = 3, .rate = rate};
  options.batch = 4;
  return options;
}

ChangedTensors CopiesOf(const ChangedTensors& tensors) {
  ChangedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies[name] = ToHost(OneThread(), tensor.view());
  }
  return copies;
}

std::unique_ptr<Model> Tuned(const fs::path& folder,
                             const ChangedTensors& tensors) {
  return ChangedModel(folder, CopiesOf(tensors),
                      ReadJson(folder / "config.json"));
}

double LossOf(const Model& model, std::span<const TextExample> texts) {
  return JudgedText(OneThread(), model, texts, {}).loss();
}

// Logits of the first text.
std::vector<float> Logits(const Model& model, const TextExample& text,
                          RunHooks* hooks = nullptr) {
  const std::vector<int64_t> lengths = {std::ssize(text.ids)};
  ForwardInput input = {.ids = text.ids, .lengths = lengths, .hooks = hooks};
  if (model.config().encoder_decoder()) {
    input.decoder_ids = text.target;
    input.decoder_lengths = lengths;
  }
  const Tensor x = Forward(OneThread(), model, input);
  Tensor logits(DType::kF32, {x.shape(0), model.config().vocabulary});
  model.Logits(OneThread(), x.view(), logits.view());
  return ToVector<float>(OneThread(), logits.view());
}

class TunedGates : public testing::TestWithParam<const char*> {};

// Half-open gates of every head, and the loss with them: what is written has no
// gates and the same loss.
TEST_P(TunedGates, ArePartOfTheWeightsAfterwards) {
  const fs::path folder = Golden(GetParam());
  const auto model = OpenModel(folder);
  const auto texts = Texts(*model, 12, 1);
  GateOptions options = Options(60, 1e-3);
  options.learning.penalty = 20;  // all gates close, and are on their way
  const LearnedGates learned = LearnGates(OneThread(), folder, texts, options);
  ASSERT_EQ(learned.scores.size(), AllHeads(*model).size());
  for (const double log_alpha : learned.scores) {
    EXPECT_GT(ConcreteGate(log_alpha), 0.1);
    EXPECT_LT(ConcreteGate(log_alpha), 0.95);
  }
  for (const auto& [name, tensor] : learned.tensors) {
    EXPECT_THAT(name, Not(HasSubstr("log_alpha")));
  }
  const auto tuned = Tuned(folder, learned.tensors);
  const std::span<const TextExample> first =
      std::span(texts).first(kGateWindows);
  EXPECT_NEAR(LossOf(*tuned, first), learned.loss, 1e-4);
  EXPECT_GT(std::abs(LossOf(*model, first) - learned.loss), 1e-3);
}

// What is left of the tuned model is the tuned model with heads masked.
TEST_P(TunedGates, LeaveAModelThatIsTheMaskedOne) {
  const fs::path folder = Golden(GetParam());
  const auto model = OpenModel(folder);
  const auto texts = Texts(*model, 12, 2);
  const LearnedGates learned =
      LearnGates(OneThread(), folder, texts, Options(10, 1e-3));
  const auto tuned = Tuned(folder, learned.tensors);
  const auto removed = ChooseHeads(*tuned, learned.scores, {.keep = 0.5});
  ASSERT_FALSE(removed.empty());
  ChangedTensors changed = RemoveHeads(*tuned, removed);
  changed.merge(CopiesOf(learned.tensors));
  const auto smaller = ChangedModel(
      folder, std::move(changed),
      ConfigWithout(ReadJson(folder / "config.json"), *model, removed));
  ClosedHeads closed(*tuned, removed);
  const auto masked = Logits(*tuned, texts[0], &closed);
  const auto found = Logits(*smaller, texts[0]);
  ASSERT_EQ(masked.size(), found.size());
  for (size_t i = 0; i < masked.size(); ++i) {
    ASSERT_NEAR(masked[i], found[i], 1e-4) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Pruning, TunedGates,
                         testing::Values("gpt2", "gpt_neox", "llama", "qwen2",
                                         "marian"));

TEST(LearnedGates, FrozenWeightsAreNotChanged) {
  const auto model = OpenModel(Golden("gpt2"));
  const LearnedGates learned = LearnGates(OneThread(), Golden("gpt2"),
                                          Texts(*model, 12, 1), Options(5, 0));
  EXPECT_TRUE(learned.tensors.empty());
  EXPECT_EQ(learned.closed, 0);
}

TEST(LearnedGates, RepeatBitForBitAndFollowTheSeed) {
  const auto model = OpenModel(Golden("llama"));
  const auto texts = Texts(*model, 12, 1);
  const auto learn = [&](uint64_t seed) {
    GateOptions options = Options(5, 1e-3);
    options.learning.seed = seed;
    return LearnGates(OneThread(), Golden("llama"), texts, options).scores;
  };
  EXPECT_EQ(learn(3), learn(3));
  EXPECT_NE(learn(3), learn(4));
}

// A model that has gates of its own keeps them, as they became.
TEST(LearnedGates, OfTheModelStayGates) {
  const TemporaryFolder folder;
  const auto model = OpenModel(Golden("gpt2"));
  ChangedTensors gates;
  for (const AttentionLayer* layer :
       AttentionLayers(*model, AttentionKind::kSelf)) {
    Tensor log_alpha(DType::kF32, {layer->config().heads});
    Fill(OneThread(), 1.0, log_alpha.view());
    gates["headwise." + layer->site().name + ".log_alpha"] =
        std::move(log_alpha);
  }
  Json config = ReadJson(Golden("gpt2") / "config.json");
  config["headwise"] = {{"gates", "hard_concrete"}};
  const fs::path gated = folder.path() / "gated";
  WriteChanged(Golden("gpt2"), gated, gates, config);
  const auto texts = Texts(*model, 12, 1);
  const LearnedGates learned =
      LearnGates(OneThread(), gated, texts, Options(10, 1e-3));
  for (const auto& [name, tensor] : gates) {
    EXPECT_THAT(learned.tensors, Contains(testing::Key(name)));
  }
  const auto tuned = Tuned(gated, learned.tensors);
  EXPECT_NEAR(LossOf(*tuned, std::span(texts).first(kGateWindows)),
              learned.loss, 1e-4);
}

TEST(LearnedGates, RefuseWhatMakesNoSense) {
  const auto model = OpenModel(Golden("gpt2"));
  const auto texts = Texts(*model, 4, 1);
  const auto refused = [&](const GateLearning& learning) {
    GateOptions options;
    options.learning = learning;
    try {
      LearnGates(OneThread(), Golden("gpt2"), texts, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const int64_t steps : {int64_t{0}, int64_t{1} << 62}) {
    EXPECT_THAT(refused({.steps = steps}),
                HasSubstr("steps from 1 to 1000000"));
  }
  EXPECT_THAT(refused({.penalty = -1}), HasSubstr("penalty of at least 0"));
  EXPECT_THAT(refused({.rate = -1}), HasSubstr("weights_rate of at least 0"));
  EXPECT_THROW(LearnGates(OneThread(), Golden("gpt2"), {}, {}), Error);
}

// The planted model: heads that help survive, and weights that learned along
// lose no more than frozen ones with as many heads.
TEST(LearnedGates, PlantedHeadsSurviveTuning) {
  const fs::path folder = fs::path(HEADWISE_ASSETS) / "planted";
  const Checkpoint checkpoint(folder);
  const Model& model = checkpoint.model();
  const WindowCutter cutter(checkpoint.tokenizer(), model.config(), {64});
  const auto texts = ExamplesOf(
      ReadWindows({std::string(HEADWISE_ASSETS) + "/text"}, cutter, 1024));
  const std::span<const TextExample> all(texts);
  const auto choose = all.first(3 * all.size() / 4);
  const auto judge = all.subspan(choose.size());
  constexpr double kKeep = 0.25;
  const auto learn = [&](double rate) {
    return LearnGates(OneThread(), folder, choose, Options(25, rate));
  };
  const LearnedGates frozen = learn(0), along = learn(1e-4);
  const auto tuned = Tuned(folder, along.tensors);
  const auto left = [&](const Model& of, const std::vector<double>& scores) {
    const auto removed = ChooseHeads(of, scores, {.keep = kKeep});
    EXPECT_EQ(removed.size(), 12u);
    for (const PlantedHead& head : PlantedTruth()) {
      if (head.effect != PlantedEffect::kHelpful) continue;
      const HeadRef helpful = {AttentionKind::kSelf, head.layer, head.head};
      EXPECT_THAT(removed, Not(Contains(helpful))) << ToString(helpful);
    }
    const JudgedText text(OneThread(), of, judge, {});
    return text.Mean(text.Closed(std::vector<HeadSet>{removed}, nullptr)[0]);
  };
  EXPECT_LE(left(*tuned, along.scores), left(model, frozen.scores));
}

}  // namespace
}  // namespace headwise::learned_gates_test
