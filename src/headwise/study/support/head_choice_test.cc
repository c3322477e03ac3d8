// What heads are worth, and numbers of trainings that are kept.
#include "headwise/study/support/head_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"
#include "headwise/model/head_ref.h"

namespace headwise::head_choice_test {
namespace {

class HeadChoiceTest : public ScratchFolderTest {
 protected:
  StudyRequest Request() const {
    StudyRequest request;
    request.effort = 0.02;
    request.keep = folder_ / "kept";
    return request;
  }
  // Steps that a study trained, and what it found.
  int64_t StepsOf(const Study& study, StudyResult* result = nullptr) {
    StudyRequest request = Request();
    int64_t steps = 0;
    request.progress = [&](std::string_view stage, double, double) {
      if (stage != "tokenize") ++steps;
    };
    StudyResult found = RunStudy(study, context_, request);
    if (result != nullptr) *result = std::move(found);
    return steps;
  }

  Context context_{{.threads = 1, .implementations = ""}};
};

TEST_F(HeadChoiceTest, HeadsThatWriteNothingAreWorthNothing) {
  const StudyRequest request = Request();
  const HeadChoice choice(context_, request, 1);
  const auto tiny = choice.NewModel(context_, {}, {}, choice.Training(1));
  // Rows of head 2 [heads · 16, d].
  for (auto& [name, entry] : tiny->store().entries()) {
    if (!name.ends_with("h.1.attn.c_proj.weight")) continue;
    std::fill_n(entry.value.As<float>() + 32 * 128, 16 * 128, 0.0f);
  }
  const HeadWorth worth = choice.WorthOf(context_, tiny->model());
  ASSERT_EQ(worth.single.size(), 16u);
  EXPECT_LT(std::abs(worth.single[8 + 2]),
            0.01 * std::abs(worth.single[8 + 1]));
  EXPECT_NE(worth.quarter, 0);
  EXPECT_NE(worth.all, 0);
}

// On two splits, and all that surely help on a third: what is kept says it
// again.
TEST_F(HeadChoiceTest, SignsOfHeadsAreOfSplitsAndAreKept) {
  const StudyRequest request = Request();
  const HeadChoice choice(context_, request, 1);
  StudyClock clock(request, "test", 1);
  const auto tiny = choice.Trained(context_, choice.Training(1), clock);
  const HeadSigns signs = choice.SignsOf(context_, tiny->model());
  const HeadSigns kept = choice.SignsAfter(context_, choice.Training(1), clock);
  ASSERT_EQ(signs.first.size(), 16u);
  ASSERT_EQ(kept.second.size(), 16u);
  bool negative = false;
  for (size_t h = 0; h < 16; ++h) {
    EXPECT_EQ(signs.first[h].high, kept.first[h].high);
    EXPECT_EQ(signs.second[h].low, kept.second[h].low);
    EXPECT_NE(signs.first[h].value, signs.second[h].value) << h;
    EXPECT_LE(signs.first[h].low, signs.first[h].value);
    negative |= signs.Negative(h);
  }
  EXPECT_EQ(signs.third, kept.third);
  EXPECT_EQ(negative, signs.third != 0);
}

TEST_F(HeadChoiceTest, DrawsDifferentHeadsOfWhichEachStandsOnce) {
  const StudyRequest request = Request();
  const HeadChoice choice(context_, request, 1);
  const auto tiny = choice.NewModel(context_, {}, {}, choice.Training(1));
  const HeadSet heads = DrawHeads(tiny->model(), 6, 1);
  EXPECT_EQ(std::set<HeadRef>(heads.begin(), heads.end()).size(), 6u);
  EXPECT_EQ(heads, DrawHeads(tiny->model(), 6, 1));
  EXPECT_NE(heads, DrawHeads(tiny->model(), 6, 2));
  EXPECT_TRUE(DrawHeads(tiny->model(), 0, 1).empty());
}

TEST_F(HeadChoiceTest, RecallsTheSameTrainingAlone) {
  const StudyRequest request = Request();
  const HeadChoice choice(context_, request, 1);
  int made = 0;
  const auto recall = [&](const char* what, const Json& heads, uint64_t seed) {
    return choice.Recall(what, {}, heads, choice.Training(seed), [&] {
      ++made;
      return std::vector<double>{0.1 * made, -1};
    });
  };
  const std::vector<double> first = recall("loss", {}, 1);
  EXPECT_EQ(recall("loss", {}, 1), first);
  EXPECT_EQ(made, 1);
  EXPECT_NE(recall("loss", {}, 2), first);
  EXPECT_NE(recall("loss", {{"gates", "hard_concrete"}}, 1), first);
  EXPECT_NE(recall("other", {}, 1), first);
  EXPECT_EQ(made, 4);
}

TEST_F(HeadChoiceTest, LossesOfClosedHeadsSayWhatStandsInTheirPlace) {
  const StudyRequest request = Request();
  const HeadChoice choice(context_, request, 1);
  const auto tiny = choice.NewModel(context_, {}, {}, choice.Training(1));
  const Model& model = tiny->model();
  const HeadSet all = DrawHeads(model, 16, 1);
  const std::vector<HeadSet> sets = {{}, all};
  const auto zero = choice.LossesOf(context_, model, sets, InPlace::kZero);
  const auto mean = choice.LossesOf(context_, model, sets, InPlace::kMean);
  const double whole = choice.LossOf(context_, model);
  EXPECT_NEAR(zero[0], whole, 1e-6);
  EXPECT_NEAR(mean[0], whole, 1e-6);
  EXPECT_NEAR(zero[1], choice.LossOf(context_, model, all), 1e-6);
  EXPECT_NE(mean[1], zero[1]);
}

// As the recipe ends, and closed heads stay closed while the rest learns.
TEST_F(HeadChoiceTest, TrainsOnWithoutHeads) {
  const StudyRequest request = Request();
  const HeadChoice choice(context_, request, 1);
  const TrainConfig how = choice.TrainingOn(1, 2);
  EXPECT_DOUBLE_EQ(how.rate, kTuningRate * choice.Training(1).rate);
  EXPECT_NE(how.seed, choice.Training(1).seed);
  const auto whole = choice.NewModel(context_, {}, {}, choice.Training(1));
  const HeadSet closed = {AllHeads(whole->model())[2]};
  StudyClock clock(request, "test", 2);
  const auto rest =
      choice.TrainedOnWithout(context_, *whole, closed, how, clock);
  const auto output = [](const TinyModel& tiny) {
    for (const auto& [name, entry] : tiny.store().entries()) {
      if (name.ends_with("h.0.attn.c_proj.weight")) return entry.value;
    }
    return TensorView();
  };
  // Rows of heads 1 and 2 [heads · 16, d], in steps of the rate: a closed head
  // learns nothing, and decay is far smaller.
  const auto moved = [&](int64_t head) {
    double most = 0;
    for (int64_t i = head * 16 * 128; i < (head + 1) * 16 * 128; ++i) {
      const double change =
          output(*rest).As<float>()[i] - output(*whole).As<float>()[i];
      most = std::max(most, std::abs(change) / how.rate);
    }
    return most;
  };
  EXPECT_GT(moved(1), 0.1);
  EXPECT_LT(moved(2), 0.1);
}

// An interrupted study goes on, and what two of them train is trained once.
TEST_F(HeadChoiceTest, StudiesTrainNothingTwice) {
  StudyResult first, again;
  EXPECT_EQ(StepsOf(kGatesStudy, &first), 5 * 4);
  EXPECT_EQ(StepsOf(kGatesStudy, &again), 0);
  ASSERT_EQ(first.figures.size(), again.figures.size());
  for (size_t i = 0; i < first.figures.size(); ++i) {
    EXPECT_EQ(first.figures[i].values, again.figures[i].values);
  }
  EXPECT_EQ(StepsOf(kHeadDropoutStudy), 4) << "the other arm alone";
  EXPECT_EQ(StepsOf(kNegativeStudy), 0) << "the same model";
  EXPECT_EQ(StepsOf(kMixtureStudy), 3 * 4);
  EXPECT_EQ(StepsOf(kMixtureStudy), 0);
}

TEST(HeadChoiceStudies, TakeTheSameSeeds) {
  for (const Study* study :
       {&kHeadDropoutStudy, &kGatesStudy, &kMixtureStudy, &kNegativeStudy}) {
    StudyRequest request;
    request.full = true;
    EXPECT_EQ(SeedsOf(*study, request),
              std::vector<uint64_t>(std::begin(kHeadChoiceSeeds),
                                    std::end(kHeadChoiceSeeds)));
    EXPECT_TRUE(study->changed_after_result());
  }
}

}  // namespace
}  // namespace headwise::head_choice_test
