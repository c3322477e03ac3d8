// The planted model: its files are what the builder writes, and its heads do
// what the table says.
#include "headwise/model/planted.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/base/rng.h"
#include "headwise/model/checkpoint.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/activations.h"
#include "headwise/runtime/gates.h"
#include "headwise/tensor/slice.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise::planted_test {
namespace {

std::filesystem::path Planted() {
  return std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted";
}

class PlantedModel : public ::testing::Test {
 protected:
  // Mean over queries ≥ `first` of the mass on keys that `hit` accepts.
  double Mass(const std::vector<int32_t>& ids, HeadRef head, int64_t first,
              const std::function<bool(int64_t, int64_t)>& hit) {
    const std::string name =
        "layer." + std::to_string(head.layer) + ".attention.probs";
    const std::vector<int64_t> lengths = {static_cast<int64_t>(ids.size())};
    const auto taken = RecordActivations(
        context_, *model_, {.ids = ids, .lengths = lengths}, {name});
    const int64_t n = lengths[0];
    const float* probs = taken.at(name).As<float>() + head.head * n * n;
    double sum = 0;
    for (int64_t i = first; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        if (hit(i, j)) sum += probs[i * n + j];
      }
    }
    return sum / static_cast<double>(n - first);
  }

  // [tokens, vocabulary]
  Tensor Logits(const std::vector<int32_t>& ids, std::vector<HeadRef> closed) {
    ClosedHeads hooks(*model_, closed);
    const std::vector<int64_t> lengths = {static_cast<int64_t>(ids.size())};
    const Tensor x = Forward(context_, *model_,
                             {.ids = ids, .lengths = lengths, .hooks = &hooks});
    Tensor logits(DType::kF32, {x.shape(0), model_->config().vocabulary});
    model_->Logits(context_, x.view(), logits.view());
    return logits;
  }

  // Mean next-token loss, in nats, over targets ≥ `first`.
  double Loss(const std::vector<int32_t>& ids, std::vector<HeadRef> closed,
              size_t first = 1) {
    const Tensor logits = Logits(ids, std::move(closed));
    std::vector<int32_t> targets(ids.size(), kIgnoreTarget);
    for (size_t i = first; i < ids.size(); ++i) targets[i - 1] = ids[i];
    std::vector<float> losses(ids.size());
    CrossEntropy(context_, {},
                 {.logits = logits.view(),
                  .targets = ViewOf(targets),
                  .losses = View(losses.data(), {logits.shape(0)})});
    double sum = 0;
    for (const float loss : losses) sum += loss;
    return sum / static_cast<double>(ids.size() - first);
  }

  // <bos>, then 25 distinct random tokens four times.
  static std::vector<int32_t> Repeats() {
    Rng rng(7);
    std::vector<int32_t> block;
    while (block.size() < 25) {
      const auto id = static_cast<int32_t>(rng.Between(257, 511));
      if (std::find(block.begin(), block.end(), id) == block.end()) {
        block.push_back(id);
      }
    }
    std::vector<int32_t> ids = {0};
    for (int copy = 0; copy < 4; ++copy) {
      ids.insert(ids.end(), block.begin(), block.end());
    }
    return ids;
  }

  // <bos> and the first tokens of the vocabulary's text.
  std::vector<int32_t> Text(size_t tokens) const {
    const MappedFile file(Planted() / "vocabulary.txt");
    std::vector<int32_t> ids =
        Tokenizer::Load(Planted())->Encode(file.text()).ids;
    ids.resize(std::min(ids.size(), tokens));
    return ids;
  }

  Context context_;
  std::unique_ptr<Model> model_ = OpenModel(Planted());
};

TEST_F(PlantedModel, FilesAreWhatTheBuilderWrites) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() /
      ("headwise_planted_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  WritePlantedModel(Planted() / "vocabulary.txt", folder);
  for (const char* name :
       {"config.json", "tokenizer.json", "model.safetensors"}) {
    EXPECT_EQ(MappedFile(folder / name).text(),
              MappedFile(Planted() / name).text())
        << name << ": run make_planted assets/planted/vocabulary.txt "
        << "assets/planted";
  }
  std::filesystem::remove_all(folder);
}

TEST_F(PlantedModel, HeadsLookWhereTheyWereTold) {
  const std::vector<int32_t> ids = Repeats();
  auto offset = [](int64_t by) {
    return [by](int64_t i, int64_t j) { return i - j == by; };
  };
  auto first = [](int64_t, int64_t j) { return j == 0; };
  auto near = [](int64_t i, int64_t j) { return i - j <= 4; };
  auto successor = [&](int64_t i, int64_t j) {
    return j > 0 && ids[j - 1] == ids[i];
  };
  auto copy = [&](int64_t i, int64_t j) { return j < i && ids[j] == ids[i]; };
  EXPECT_GT(Mass(ids, {.layer = 0, .head = 0}, 8, offset(1)), .99);
  EXPECT_GT(Mass(ids, {.layer = 0, .head = 1}, 8, near), .8);
  EXPECT_LT(Mass(ids, {.layer = 0, .head = 1}, 8, offset(2)), .45);
  EXPECT_GT(Mass(ids, {.layer = 0, .head = 3}, 8, first), .99);
  EXPECT_GT(Mass(ids, {.layer = 0, .head = 5}, 26, copy), .55);
  EXPECT_GT(Mass(ids, {.layer = 0, .head = 6}, 8, offset(2)), .99);
  EXPECT_GT(Mass(ids, {.layer = 1, .head = 0}, 26, successor), .9);
  EXPECT_GT(Mass(ids, {.layer = 1, .head = 1}, 8, offset(0)), .99);
  const double weak = Mass(ids, {.layer = 1, .head = 4}, 26, successor);
  EXPECT_GT(weak, .4);
  EXPECT_LT(weak, .85);
  EXPECT_GT(Mass(ids, {.layer = 1, .head = 6}, 8, first), .99);
  const double sink = Mass(ids, {.layer = 1, .head = 3}, 8, first);
  const double previous = Mass(ids, {.layer = 1, .head = 3}, 8, offset(1));
  EXPECT_GT(sink, .5);
  EXPECT_GT(previous / (1 - sink), .8);
  for (const int64_t layer : {0, 1}) {
    for (int64_t by = 0; by < 4; ++by) {
      EXPECT_LT(Mass(ids, {.layer = layer, .head = 7}, 8, offset(by)), .2);
    }
  }
}

TEST_F(PlantedModel, PredictsRepeatedTokens) {
  const std::vector<int32_t> ids = Repeats();
  const Tensor logits = Logits(ids, {});
  const int64_t classes = logits.shape(1);
  int right = 0;
  for (size_t i = 26; i + 1 < ids.size(); ++i) {
    const float* row = logits.As<float>() + static_cast<int64_t>(i) * classes;
    right += std::max_element(row, row + classes) - row == ids[i + 1];
  }
  EXPECT_EQ(right, 74);
  const double whole = Loss(ids, {}, 27);
  EXPECT_GT(Loss(ids, {{.layer = 1, .head = 0}}, 27), whole + 1);
  EXPECT_GT(Loss(ids, {{.layer = 0, .head = 0}}, 27), whole + 2);
}

TEST_F(PlantedModel, RemovingAHeadDoesWhatTheTableSays) {
  const std::vector<int32_t> ids = Text(512);
  const double whole = Loss(ids, {});
  for (const PlantedHead& truth : PlantedTruth()) {
    const double change =
        Loss(ids, {{.layer = truth.layer, .head = truth.head}}) - whole;
    SCOPED_TRACE(std::to_string(truth.layer) + "." +
                 std::to_string(truth.head) + " " + std::to_string(change));
    switch (truth.effect) {
      case PlantedEffect::kNone:
        EXPECT_EQ(change, 0);
        break;
      case PlantedEffect::kSlight:
        EXPECT_LT(std::abs(change), .005);
        break;
      case PlantedEffect::kHelpful:
        EXPECT_GT(change, .01);
        break;
      case PlantedEffect::kHarmful:
        EXPECT_LT(change, -.01);
        break;
    }
  }
}

}  // namespace
}  // namespace headwise::planted_test
