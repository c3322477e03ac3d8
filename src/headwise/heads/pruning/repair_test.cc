// Repairs, searches and curves on small models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/pruning/choose.h"
#include "headwise/heads/pruning/curve.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/iterate.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/refit.h"
#include "headwise/heads/pruning/tune.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/planted.h"
#include "headwise/nn/hooks.h"
#include "headwise/nn/parameter.h"
#include "headwise/runtime/session.h"
#include "headwise/runtime/windows.h"

namespace headwise::repair_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path Golden(const std::string& name) {
  return fs::path(HEADWISE_GOLDENS) / name;
}

Context& OneThread() {
  static Context context({.threads = 1, .implementations = ""});
  return context;
}

CorpusOptions Options(const Model& model) {
  CorpusOptions options;
  if (LossOf(model) == LossKind::kMaskedToken) options.objective.mask_token = 4;
  return options;
}

std::vector<TextExample> Texts(const Model& model, int64_t count,
                               uint64_t seed) {
  auto texts = RandomExamples(count, 24, model.config().vocabulary, seed);
  if (model.config().encoder_decoder()) {
    for (TextExample& text : texts) text.target = text.ids;
  }
  return texts;
}

// One head of each group of each layer.
std::vector<HeadRef> Some(const Model& model) {
  const std::vector<double> scores(AllHeads(model).size());
  return ChooseHeads(model, scores, {.keep = 0.5, .uniform = true});
}

std::unique_ptr<Model> Smaller(const fs::path& from, const Model& model,
                               const std::vector<HeadRef>& removed,
                               ChangedTensors changed) {
  return ChangedModel(
      from, std::move(changed),
      ConfigWithout(ReadJson(from / "config.json"), model, removed));
}

class Refitted : public testing::TestWithParam<const char*> {};

TEST_P(Refitted, LeavesLessErrorThanFoldingDoes) {
  const fs::path from = Golden(GetParam());
  const auto model = OpenModel(from);
  const auto removed = Some(*model);
  ASSERT_FALSE(removed.empty());
  const auto fit = Texts(*model, 60, 1), judge = Texts(*model, 20, 2);
  ChangedTensors changed = RemoveHeads(*model, removed);
  const auto errors = RefitOutputs(OneThread(), *model, removed, {fit, judge},
                                   NewBias::kAllowed, Options(*model), changed);
  ASSERT_FALSE(errors.empty());
  for (const LayerError& error : errors) {
    EXPECT_LE(error.fold, error.none * 1.02) << error.site;
    EXPECT_LE(error.fitted, error.fold * 1.001) << error.site;
    EXPECT_GT(error.fitted, 0) << error.site;
  }
  // What is written is what was measured: a model that runs.
  const auto smaller = Smaller(from, *model, removed, std::move(changed));
  const JudgedText text(OneThread(), *model, judge, Options(*model));
  EXPECT_TRUE(std::isfinite(text.Of(*smaller).closed.value));
}

INSTANTIATE_TEST_SUITE_P(Pruning, Refitted,
                         testing::Values("albert", "bert", "gpt2", "gpt_neox",
                                         "llama", "marian", "modernbert",
                                         "qwen2"));

// Errors that short text does not tell apart leave the old weights as they are.
TEST(Refit, StaysNearerToTheOldWeightsWhereTextIsShort) {
  const std::vector<double> ridges = {1e-3, .1, 10};
  const std::vector<double> errors = {1.00, 1.01, 1.5};
  EXPECT_EQ(ChooseRidge(ridges, errors, 0), 1e-3);
  EXPECT_EQ(ChooseRidge(ridges, errors, 0.02), .1);
  EXPECT_EQ(ChooseRidge(ridges, errors, 1), 10);
  // Nothing is lost where heads tell of each other without error.
  const std::vector<double> exact = {0, 1e-3, 1};
  EXPECT_EQ(ChooseRidge(ridges, exact, 1), 1e-3);
}

TEST(Refit, CutsExamplesIntoFramedPieces) {
  std::vector<TextExample> whole(2);
  for (TextExample& example : whole) {
    for (int32_t id = 0; id < 64; ++id) {
      example.ids.push_back(id);
      example.added.push_back(id == 0 || id == 63 ? 1 : 0);
    }
  }
  const auto mixed = OfMixedLengths(whole);
  ASSERT_EQ(mixed.size(), 5);  // 62 tokens: 64, then 8 + 16 + 32 + 6
  EXPECT_EQ(mixed[0].ids, whole[0].ids);
  int32_t next = 1;
  for (size_t i = 1; i < mixed.size(); ++i) {
    const TextExample& piece = mixed[i];
    ASSERT_EQ(piece.ids.size(), piece.added.size());
    EXPECT_EQ(piece.ids.front(), 0);
    EXPECT_EQ(piece.ids.back(), 63);
    for (size_t t = 1; t + 1 < piece.ids.size(); ++t) {
      EXPECT_EQ(piece.ids[t], next++);
      EXPECT_EQ(piece.added[t], 0);
    }
  }
  EXPECT_EQ(next, 63);
  EXPECT_EQ(mixed[2].ids.size(), 18);
}

// The error that is told is that of the pruned model's own first layer, whose
// heads read what the original's do.
TEST(Refit, TellsTheErrorOfTheModelItMakes) {
  const auto model = OpenModel(Golden("gpt2"));
  const std::vector<HeadRef> removed = {{AttentionKind::kSelf, 0, 1},
                                        {AttentionKind::kSelf, 0, 2}};
  const auto fit = Texts(*model, 40, 1), judge = Texts(*model, 10, 2);
  ChangedTensors changed = RemoveHeads(*model, removed);
  const auto errors = RefitOutputs(OneThread(), *model, removed, {fit, judge},
                                   NewBias::kRefused, Options(*model), changed);
  ASSERT_EQ(errors.size(), 1u);
  const auto smaller =
      Smaller(Golden("gpt2"), *model, removed, std::move(changed));
  // Attention outputs of the first layer, by hand.
  struct Outputs {
    std::vector<float> rows;
    int64_t width = 0;
  } before, after;
  for (const auto& [runs, to] :
       {std::pair(model.get(), &before), std::pair(smaller.get(), &after)}) {
    ActivationTaker taker(
        [](std::string_view name) {
          return name == "layer.0.attention.output";
        },
        [to = to](std::string_view, ConstTensorView value) {
          to->rows.insert(to->rows.end(), value.As<float>(),
                          value.As<float>() + value.size());
          to->width = value.shape[1];
        });
    for (const TextExample& text : judge) {
      const std::vector<int64_t> lengths = {std::ssize(text.ids)};
      Forward(OneThread(), *runs,
              {.ids = text.ids, .lengths = lengths, .hooks = &taker});
    }
  }
  ASSERT_EQ(before.rows.size(), after.rows.size());
  ASSERT_GT(before.width, 0);
  const auto rows = static_cast<double>(before.rows.size()) /
                    static_cast<double>(before.width);
  std::vector<double> mean(before.width);
  for (size_t i = 0; i < before.rows.size(); ++i) {
    mean[i % before.width] += before.rows[i] / rows;
  }
  double left = 0, variance = 0;
  for (size_t i = 0; i < before.rows.size(); ++i) {
    left += std::pow(before.rows[i] - after.rows[i], 2);
    variance += std::pow(before.rows[i] - mean[i % before.width], 2);
  }
  EXPECT_NEAR(left / variance, errors[0].fitted,
              1e-4 * errors[0].fitted + 1e-6);
}

// Queries, keys and values of the first layer's head 2 become those of head 1;
// head 3 gives nothing, as a dead one does.
void WriteTwins(const fs::path& to) {
  constexpr int64_t kWidth = 32, kHead = 8;
  const fs::path golden = Golden("gpt2");
  const Safetensors file = Safetensors::Open(golden);
  ChangedTensors changed;
  for (const char* part : {"weight", "bias"}) {
    const std::string name = std::string("transformer.h.0.attn.c_attn.") + part;
    Tensor tensor = ToF32(OneThread(), {name, file.tensors().at(name)});
    float* const end = tensor.As<float>() + tensor.size();
    for (float* row = tensor.As<float>(); row < end; row += 3 * kWidth) {
      for (int64_t of = 0; of < 3 * kWidth; of += kWidth) {
        std::copy_n(row + of + kHead, kHead, row + of + 2 * kHead);
      }
      std::fill_n(row + 2 * kWidth + 3 * kHead, kHead, 0.0f);
    }
    changed[name] = std::move(tensor);
  }
  WriteChanged(golden, to, changed, ReadJson(golden / "config.json"));
}

// A head that is equal to another in every weight: what it gives is what the
// other gives, so that nothing is lost without it.
TEST(Refit, ADuplicateCostsNothing) {
  const TemporaryFolder folder;
  const fs::path from = folder.path() / "twins";
  WriteTwins(from);
  const auto model = OpenModel(from);
  const std::vector<HeadRef> removed = {{AttentionKind::kSelf, 0, 2}};
  const auto texts = Texts(*model, 24, 5);
  const std::span<const TextExample> all(texts);
  ChangedTensors changed = RemoveHeads(*model, removed);
  const auto errors =
      RefitOutputs(OneThread(), *model, removed, {all.first(16), all.last(8)},
                   NewBias::kRefused, Options(*model), changed);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_LT(errors[0].fitted, 1e-6);
  const JudgedText text(OneThread(), *model, all.last(8), Options(*model));
  const Evaluation fitted =
      text.Of(*Smaller(from, *model, removed, std::move(changed)));
  EXPECT_NEAR(fitted.change.value, 0, 1e-3);
}

TEST(Refit, NeedsTwoWindows) {
  const auto model = OpenModel(Golden("gpt2"));
  const auto texts = Texts(*model, 1, 1);
  const auto removed = Some(*model);
  ChangedTensors changed = RemoveHeads(*model, removed);
  EXPECT_THROW(RefitOutputs(OneThread(), *model, removed, {texts, texts},
                            NewBias::kRefused, Options(*model), changed),
               Error);
}

class Tuning : public ScratchFolderTest {};

TEST_F(Tuning, LowersTheLossOfModelsWhoseLayersDiffer) {
  for (const char* name : {"gpt2", "llama", "bert", "marian"}) {
    const auto model = OpenModel(Golden(name));
    // Another number of heads in each layer.
    const std::vector<HeadRef> removed = {{AttentionKind::kSelf, 0, 0},
                                          {AttentionKind::kSelf, 0, 2}};
    if (AttentionLayers(*model, AttentionKind::kSelf)[0]->config().kv_heads !=
        4) {
      continue;
    }
    ChangedTensors changed = RemoveHeads(*model, removed);
    const fs::path folder = folder_ / name;
    WriteChanged(
        Golden(name), folder, changed,
        ConfigWithout(ReadJson(Golden(name) / "config.json"), *model, removed));
    // Texts that can be learned: the same few tokens over and over.
    std::vector<TextExample> texts = Texts(*model, 16, 3);
    for (TextExample& text : texts) {
      for (size_t i = 0; i < text.ids.size(); ++i) {
        text.ids[i] = 5 + static_cast<int32_t>(i % 3);
      }
      if (!text.target.empty()) text.target = text.ids;
    }
    TuneOptions options;
    options.steps = 20;
    options.rate = 3e-3;
    options.objective = Options(*model).objective;
    const Tuned tuned = Tune(OneThread(), folder, texts, options);
    EXPECT_LT(tuned.after, tuned.before - 0.05) << name;
    EXPECT_GT(tuned.kept_step, 0) << name;
    EXPECT_FALSE(tuned.tensors.empty()) << name;
  }
}

TEST_F(Tuning, RefusesWhatPredictsNothing) {
  const auto model = OpenModel(Golden("bert-headless"));
  try {
    RequireTrainable(*model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("predicts tokens"));
  }
}

TEST(RemovalSetsTest, GrowToAllThatMayLeave) {
  for (const char* name : {"gpt2", "qwen2"}) {
    const auto model = OpenModel(Golden(name));
    std::vector<double> scores(AllHeads(*model).size());
    Rng rng(7);
    for (double& score : scores) score = rng.Uniform();
    for (const bool uniform : {false, true}) {
      ChooseOptions options;
      options.uniform = uniform;
      const auto sets = RemovalSets(*model, scores, options);
      ASSERT_GT(sets.size(), 1u);
      EXPECT_TRUE(sets[0].empty());
      for (size_t i = 1; i < sets.size(); ++i) {
        RequireRemovable(*model, sets[i]);
        EXPECT_TRUE(std::includes(sets[i].begin(), sets[i].end(),
                                  sets[i - 1].begin(), sets[i - 1].end()));
      }
      options.keep = LeastShare(*model, options);
      EXPECT_EQ(ChooseHeads(*model, scores, options), sets.back());
    }
  }
}

TEST(RemoveInSteps, RanksThoseThatAreLeft) {
  const fs::path from = Golden("gpt2");
  const auto model = OpenModel(from);  // 2 layers of 4 heads
  IterativeWork work;
  work.steps = 2;
  work.choose.keep = 0.5;
  work.without = [&](const Heads& gone) {
    return Smaller(from, *model, gone, RemoveHeads(*model, gone));
  };
  // The first ranking likes late heads, the second early ones.
  int calls = 0;
  work.score = [&](const Model& now) {
    std::vector<double> scores;
    for (size_t i = 0; i < AllHeads(now).size(); ++i) {
      scores.push_back(calls == 0 ? static_cast<double>(i)
                                  : -static_cast<double>(i));
    }
    ++calls;
    return scores;
  };
  const Removal removal = RemoveInSteps(*model, work);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(removal.sets.back(), ParseHeads("0.0,0.1,1.2,1.3", *model));
  EXPECT_EQ(removal.sets.size(), 5u);
}

// Heads that hurt go first, and the loss falls as they do.
TEST(Curve, PlantedHarmGoesFirstAndTheLossFalls) {
  const fs::path from = fs::path(HEADWISE_ASSETS) / "planted";
  const Checkpoint checkpoint(from);
  const Model& model = checkpoint.model();
  std::vector<HeadRef> harmful;
  for (const PlantedHead& head : PlantedTruth()) {
    if (head.effect == PlantedEffect::kHarmful) {
      harmful.push_back({AttentionKind::kSelf, head.layer, head.head});
    }
  }
  ASSERT_FALSE(harmful.empty());
  const WindowCutter cutter(checkpoint.tokenizer(), model.config(), {128});
  const auto texts = ExamplesOf(
      ReadWindows({std::string(HEADWISE_ASSETS) + "/text"}, cutter, 4096));
  const std::span<const TextExample> all(texts);
  const size_t half = all.size() / 2;
  RankOptions rank;
  rank.job.by = {Criterion::kAblationZero};
  const Ranking ranking = RankHeads(OneThread(), model, all.first(half), rank);
  std::vector<double> scores;
  for (const Interval& head : ranking.criteria[0].heads) {
    scores.push_back(head.value);
  }
  const auto sets = RemovalSets(model, scores, {});
  EXPECT_EQ(sets[harmful.size()], harmful);
  const JudgedText text(OneThread(), model, all.subspan(half), {});
  const auto smaller =
      Smaller(from, model, harmful, RemoveHeads(model, harmful));
  EXPECT_LT(text.Of(*smaller).change.high, 0);
  // Orders differ by far more than one head does: a quarter of the text tells.
  const JudgedText part(OneThread(), model, all.last(half / 4), {});
  CurveOptions options;
  options.points = 5;
  const PruningCurve curve = MakeCurve(model, scores, part, nullptr, options);
  ASSERT_EQ(curve.orders.size(), 7u);
  EXPECT_EQ(curve.orders[0].points[0].removed, 0);
  EXPECT_LT(curve.gain.high, 0);
  EXPECT_GT(curve.orders[1].area, curve.random_area.value);
}

TEST(JudgedTextTest, ClosedHeadsAreThoseThatAreNotThere) {
  for (const char* name : {"gpt2", "bert-headless"}) {
    const auto model = OpenModel(Golden(name));
    const auto removed = Some(*model);
    const auto texts = Texts(*model, 6, 4);
    const JudgedText text(OneThread(), *model, texts, Options(*model));
    const double closed =
        text.Mean(text.Closed(std::vector<HeadSet>{removed}, nullptr)[0]);
    const auto smaller =
        Smaller(Golden(name), *model, removed, RemoveHeads(*model, removed));
    EXPECT_NEAR(text.Of(*smaller).closed.value, closed, 1e-4) << name;
    EXPECT_NE(closed, text.loss()) << name;
  }
}

}  // namespace
}  // namespace headwise::repair_test
