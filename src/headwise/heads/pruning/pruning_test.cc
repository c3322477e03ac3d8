#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/heads/pruning/choose.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model_hash.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"

namespace headwise::pruning_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path Golden(const std::string& name) {
  return fs::path(HEADWISE_GOLDENS) / name;
}

// A folder of the test's own, removed at its end.
class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("headwise_pruning_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

std::string Bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Logits (final states of a model without a head) of two short texts.
std::vector<float> Output(const Model& model, RunHooks* hooks = nullptr) {
  Context context({.threads = 1, .implementations = ""});
  const std::vector<int32_t> ids = {5, 9, 3, 17, 40, 2, 8, 8, 21, 33, 6};
  const std::vector<int64_t> lengths = {6, 5};
  ForwardInput input = {.ids = ids, .lengths = lengths, .hooks = hooks};
  if (model.config().encoder_decoder()) {
    input.decoder_ids = ids;
    input.decoder_lengths = lengths;
  }
  const Tensor x = Forward(context, model, input);
  if (!model.has_head()) return ToVector<float>(context, x.view());
  Tensor logits(DType::kF32, {x.shape(0), model.config().vocabulary});
  model.Logits(context, x.view(), logits.view());
  return ToVector<float>(context, logits.view());
}

double LargestDifference(const std::vector<float>& a,
                         const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  }
  return largest;
}

// The model without the heads, through a folder on the disk.
std::unique_ptr<Model> Pruned(const fs::path& from, const fs::path& to,
                              const std::vector<HeadRef>& removed,
                              const HeadOutputs& means = {}) {
  const auto model = OpenModel(from);
  ChangedTensors changed = RemoveHeads(*model, removed);
  FoldMeans(*model, removed, means, changed);
  WriteChanged(from, to, changed,
               ConfigWithout(ReadJson(from / "config.json"), *model, removed));
  return OpenModel(to);
}

class PrunedFamily : public testing::TestWithParam<std::string> {};

// Some of every layer, so that every group keeps as many, and of heads that
// layers share every use.
std::vector<HeadRef> SomeHeads(const Model& model) {
  std::vector<HeadRef> some;
  for (const HeadRef& head : AllHeads(model)) {
    const AttentionLayerConfig& config =
        AttentionLayers(model, head.kind)[head.layer]->config();
    const int64_t size = config.heads / config.kv_heads;
    const int64_t layer = UsesOf(model.config(), head).front().layer;
    if (size > 1 ? head.head % size == (layer + head.head / size) % size
                 : head.head % 4 == layer % 4) {
      some.push_back(head);
    }
  }
  return some;
}

TEST_P(PrunedFamily, IsAsTheMaskedOriginal) {
  const Folder folder;
  const auto model = OpenModel(Golden(GetParam()));
  const std::vector<HeadRef> removed = SomeHeads(*model);
  ASSERT_FALSE(removed.empty());
  RequireRemovable(*model, removed);
  ClosedHeads closed(*model, removed);
  const auto smaller = Pruned(Golden(GetParam()), folder / "a", removed);
  EXPECT_EQ(AllHeads(*smaller).size(),
            AllHeads(*model).size() - removed.size());
  const std::vector<float> masked = Output(*model, &closed);
  EXPECT_LT(LargestDifference(masked, Output(*smaller)), 1e-4);
  EXPECT_GT(LargestDifference(masked, Output(*model)), 1e-3);
  EXPECT_LT(fs::file_size(folder / "a/model.safetensors"),
            fs::file_size(Golden(GetParam()) / "model.safetensors"));
}

TEST_P(PrunedFamily, WithoutALayersHeadsIsAsTheMaskedOriginal) {
  const Folder folder;
  const auto model = OpenModel(Golden(GetParam()));
  std::vector<HeadRef> removed;
  for (const HeadRef& head : AllHeads(*model)) {
    if (head.layer == 0) removed.push_back(head);
  }
  removed = WithAllUses(model->config(), removed);
  RequireRemovable(*model, removed, EmptyLayers::kAllowed);
  ClosedHeads closed(*model, removed);
  const auto smaller = Pruned(Golden(GetParam()), folder / "a", removed);
  EXPECT_LT(LargestDifference(Output(*model, &closed), Output(*smaller)), 1e-4);
}

TEST_P(PrunedFamily, WithNothingRemovedIsTheSameByteForByte) {
  const Folder folder;
  const fs::path from = Golden(GetParam());
  Pruned(from, folder / "a", {});
  for (const char* file : {"config.json", "model.safetensors"}) {
    EXPECT_EQ(Bytes(from / file), Bytes(folder / "a" / file)) << file;
  }
}

TEST_P(PrunedFamily, FoldingPutsMeansIntoTheBias) {
  const Folder folder;
  const auto model = OpenModel(Golden(GetParam()));
  const std::vector<HeadRef> removed = SomeHeads(*model);
  // Means that are easy to tell from none.
  HeadOutputs means;
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    for (const AttentionLayer* layer : AttentionLayers(*model, kind)) {
      Tensor mean(DType::kF32, {1, layer->config().heads, layer->value_dim()});
      Context context({.threads = 1, .implementations = ""});
      Fill(context, 0.5, mean.view());
      means[layer->site().name] = std::move(mean);
    }
  }
  const auto smaller = Pruned(Golden(GetParam()), folder / "a", removed, means);
  const auto plain = Pruned(Golden(GetParam()), folder / "b", removed);
  // The same by gates: g = 0 with the mean in the head's place.
  class Replaced : public ClosedHeads {
   public:
    Replaced(const Model& model, std::span<const HeadRef> closed,
             const HeadOutputs& means)
        : ClosedHeads(model, closed), means_(means) {}
    void BeforeAttention(const AttentionSite& site,
                         const AttentionProblem& problem,
                         AttentionArgs& args) override {
      ClosedHeads::BeforeAttention(site, problem, args);
      if (!args.gates) return;
      const ConstTensorView mean = means_.at(site.name).view();
      args.replacement =
          Broadcast(mean, {1, args.q.shape[1], mean.shape[1], mean.shape[2]});
    }

   private:
    const HeadOutputs& means_;
  } replaced(*model, removed, means);
  const std::vector<float> expected = Output(*model, &replaced);
  EXPECT_LT(LargestDifference(expected, Output(*smaller)), 1e-4);
  EXPECT_GT(LargestDifference(expected, Output(*plain)), 1e-3);
}

// Families whose heads cannot be taken apart, and what is in the way.
const std::map<std::string, std::string> kNotPruned = {
    {"cohere", "a norm for each head"},
    {"gemma4_text", "a norm of values"},
    {"olmo2", "one norm of all heads"},
    {"olmo3", "one norm of all heads"},
    {"stablelm", "a norm for each head"}};

TEST(Pruning, RefusesByNameWhatHeadsShare) {
  const Folder folder;
  for (const auto& [family, why] : kNotPruned) {
    const auto model = OpenModel(Golden(family));
    EXPECT_THAT(ErrorOf([&] {
                  Pruned(Golden(family), folder / "a", SomeHeads(*model));
                }),
                HasSubstr(why))
        << family;
  }
}

// The first of every other family, and some that store heads in other ways.
std::vector<std::string> Goldens() {
  std::vector<std::string> names = {"bert-headless", "bert-untied",
                                    "gpt_neox-serial", "marian-odd",
                                    "marian-untied"};
  for (const auto& entry : fs::directory_iterator(HEADWISE_GOLDENS)) {
    const std::string name = entry.path().filename().string();
    if (name.find('-') != name.npos || kNotPruned.contains(name)) continue;
    if (fs::exists(entry.path() / "model.safetensors")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Pruning, PrunedFamily, testing::ValuesIn(Goldens()),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Pruning, WholeGroupsTakeTheirKeysAlong) {
  const Folder folder;
  const auto model = OpenModel(Golden("qwen2"));
  const AttentionLayerConfig& config =
      AttentionLayers(*model, AttentionKind::kSelf)[1]->config();
  ASSERT_GT(config.kv_heads, 1);
  const int64_t size = config.heads / config.kv_heads;
  ASSERT_GT(size, 1);
  std::vector<HeadRef> removed;
  for (int64_t head = 0; head < size; ++head) {
    removed.push_back({AttentionKind::kSelf, 1, head});
  }
  RequireRemovable(*model, removed);
  ClosedHeads closed(*model, removed);
  const auto smaller = Pruned(Golden("qwen2"), folder / "a", removed);
  EXPECT_EQ(
      AttentionLayers(*smaller, AttentionKind::kSelf)[1]->config().kv_heads,
      config.kv_heads - 1);
  EXPECT_LT(LargestDifference(Output(*model, &closed), Output(*smaller)), 1e-4);
}

TEST(Pruning, WhatCannotLeaveIsNamed) {
  const auto model = OpenModel(Golden("qwen2"));
  const auto refused = [&](std::string_view heads) {
    return ErrorOf(
        [&] { RequireRemovable(*model, ParseHeads(heads, *model)); });
  };
  EXPECT_THAT(refused("0.1"), HasSubstr("in each group of layer 0"));
  EXPECT_THAT(refused("0.1,0.1"), HasSubstr("0.1 again"));
  EXPECT_THAT(refused("1.0,1.1,1.2,1.3"), HasSubstr("stays in layer 1"));
  EXPECT_THAT(ErrorOf([&] {
                RequireRemovable(
                    *model, std::vector<HeadRef>{{AttentionKind::kSelf, 7, 0}});
              }),
              HasSubstr("found 7.0"));
}

TEST(Pruning, PlansAreReadAsTheyWereWritten) {
  const Folder folder;
  const auto model = OpenModel(Golden("gpt2"));
  const std::string hash = ModelHash(Golden("gpt2"));
  PruningPlan plan = {.model = "gpt2",
                      .model_hash = hash,
                      .criterion = "ablation-mean",
                      .removed = ParseHeads("0.1,1.3", *model),
                      .scores = {}};
  for (size_t i = 0; i < AllHeads(*model).size(); ++i) {
    plan.scores.push_back(0.1 * static_cast<double>(i));
  }
  plan.gates = {.steps = 7, .penalty = 0.5, .seed = ~uint64_t{0}, .rate = 1e-5};
  std::ofstream(folder / "plan.json") << ToJson(plan, *model).dump(2);
  const PruningPlan read = ReadPlan(folder / "plan.json", *model, hash);
  EXPECT_EQ(read.removed, plan.removed);
  EXPECT_EQ(read.scores, plan.scores);
  EXPECT_EQ(read.criterion, plan.criterion);
  EXPECT_EQ(read.gates, plan.gates);
  Json spoiled = ToJson(plan, *model);
  spoiled["gates"]["steps"] = 0;
  std::ofstream(folder / "steps.json") << spoiled.dump(2);
  EXPECT_THAT(ErrorOf([&] { ReadPlan(folder / "steps.json", *model, hash); }),
              HasSubstr("steps"));
  spoiled["gates"]["steps"] = int64_t{1} << 62;
  std::ofstream(folder / "steps.json") << spoiled.dump(2);
  EXPECT_THAT(ErrorOf([&] { ReadPlan(folder / "steps.json", *model, hash); }),
              HasSubstr("from 1 to 1000000"));
  Json again = ToJson(plan, *model);
  again["remove"] = {"0.1", "1.3", "0.1", "0.1"};
  std::ofstream(folder / "again.json") << again.dump(2);
  EXPECT_THAT(ErrorOf([&] { ReadPlan(folder / "again.json", *model, hash); }),
              HasSubstr("expected every head once; found 0.1 again"));
  EXPECT_THAT(ErrorOf([&] { ReadPlan(folder / "plan.json", *model, "other"); }),
              HasSubstr("a plan of this model"));
  std::ofstream(folder / "bad.json") << "{\"format\": \"other/1\"}";
  EXPECT_THAT(ErrorOf([&] { ReadPlan(folder / "bad.json", *model, hash); }),
              HasSubstr("headwise.plan/1"));
}

TEST(Pruning, FoldersThatAreThereStay) {
  const Folder folder;
  const auto model = OpenModel(Golden("gpt2"));
  fs::create_directories(folder / "a");
  std::ofstream(folder / "a/precious.txt") << "mine";
  const Json config = ReadJson(Golden("gpt2") / "config.json");
  EXPECT_THAT(
      ErrorOf([&] { WriteChanged(Golden("gpt2"), folder / "a", {}, config); }),
      HasSubstr("not there yet"));
  EXPECT_THAT(ErrorOf([&] {
                WriteChanged(Golden("gpt2"), folder / "a", {}, config,
                             Replace::kAllowed);
              }),
              HasSubstr("without config.json"));
  EXPECT_EQ(Bytes(folder / "a/precious.txt"), "mine");
}

TEST(Pruning, AModelIsReplacedWholeAndNothingLiesBesideIt) {
  const Folder folder;
  const auto model = OpenModel(Golden("gpt2"));
  const Json config = ReadJson(Golden("gpt2") / "config.json");
  WriteChanged(Golden("gpt2"), folder / "a/", {}, config);
  std::ofstream(folder / "a/vocab.txt") << "of the model before";
  WriteChanged(Golden("gpt2"), folder / "a/", {}, config, Replace::kAllowed);
  EXPECT_FALSE(fs::exists(folder / "a/vocab.txt"));
  EXPECT_EQ(Bytes(folder / "a/model.safetensors"),
            Bytes(Golden("gpt2") / "model.safetensors"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / ""), {}), 1);
}

// A model whose files lie under their hashes, as Hugging Face keeps them.
fs::path CachedModel(const Folder& folder) {
  const fs::path blobs = folder / "models--a--b/blobs";
  const fs::path snapshot = folder / "models--a--b/snapshots/1";
  fs::create_directories(blobs);
  fs::create_directories(snapshot);
  char digit = 'a';
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string hash(64, digit++);
    fs::copy_file(Golden("gpt2") / name, blobs / hash);
    fs::create_symlink("../../blobs/" + hash, snapshot / name);
  }
  std::ofstream(blobs / std::string(40, 'c')) << "{}";
  fs::create_symlink("../../blobs/" + std::string(40, 'c'),
                     snapshot / "special_tokens_map.json");
  return snapshot;
}

TEST(Pruning, ACopyHasFilesOfAModelAndNothingThatLinksLeadTo) {
  const Folder folder;
  const fs::path model = CachedModel(folder);
  const Json config = ReadJson(model / "config.json");
  std::ofstream(folder / "key") << "secret";
  fs::create_symlink(folder / "key", model / "notes.txt");
  WriteChanged(model, folder / "a", {}, config);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "a"), {}), 3);
  EXPECT_EQ(Bytes(folder / "a/special_tokens_map.json"), "{}");
  for (const char* name : {"config.json", "model.safetensors"}) {
    EXPECT_FALSE(fs::is_symlink(folder / "a" / name));
    EXPECT_EQ(Bytes(folder / "a" / name), Bytes(Golden("gpt2") / name));
  }
  fs::create_symlink(folder / "key", model / "README.md");
  EXPECT_THAT(ErrorOf([&] { WriteChanged(model, folder / "b", {}, config); }),
              HasSubstr("a link to"));
  EXPECT_THAT(ErrorOf([&] {
                RequireNewFolder(folder / "b", Replace::kRefused, model);
              }),
              HasSubstr("a link to"));
  EXPECT_FALSE(fs::exists(folder / "b"));
}

TEST(Pruning, TheModelThatIsReadIsNotReplaced) {
  const Folder folder;
  fs::create_directories(folder / "a/model");
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(Golden("gpt2") / name, folder / "a/model" / name);
    fs::copy_file(Golden("gpt2") / name, folder / "a" / name);
  }
  fs::create_directory_symlink("a/model", folder / "link");
  fs::create_directories(folder / "links");
  fs::copy_file(Golden("gpt2") / "config.json", folder / "links/config.json");
  fs::create_symlink("../a/model.safetensors",
                     folder / "links/model.safetensors");
  const Json config = ReadJson(Golden("gpt2") / "config.json");
  const auto error = [&](const char* from, const char* to) {
    return ErrorOf([&] {
      WriteChanged(folder / from, folder / to, {}, config, Replace::kAllowed);
    });
  };
  EXPECT_THAT(error("a/model", "a/model"), HasSubstr("found the same"));
  EXPECT_THAT(error("a/model", "link"), HasSubstr("found the same"));
  EXPECT_THAT(error("a/model", "a"), HasSubstr("found one that holds it"));
  EXPECT_THAT(error("links", "a"), HasSubstr("which the model links to"));
  EXPECT_EQ(Bytes(folder / "a/model/model.safetensors"),
            Bytes(folder / "a/model.safetensors"));
}

TEST(Pruning, WhatPeopleWroteBesideAModelIsNotReplaced) {
  const Folder folder;
  const Json config = ReadJson(Golden("gpt2") / "config.json");
  fs::create_directories(folder / "model");
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(Golden("gpt2") / name, folder / "model" / name);
  }
  std::ofstream(folder / "model/README.md") << "of the model";
  const auto write = [&] {
    WriteChanged(folder / "model", folder / "a", {}, config, Replace::kAllowed);
  };
  write();
  EXPECT_EQ(ErrorOf(write), "no error");
  for (const char* name : {"README.md", "notes.txt"}) {
    std::ofstream(folder / "a" / name) << "mine";
    EXPECT_THAT(ErrorOf(write), HasSubstr(std::string("found ") + name));
    EXPECT_EQ(Bytes(folder / "a" / name), "mine");
    fs::remove(folder / "a" / name);
  }
}

TEST(ChooseHeads, TakesWhatMattersLeastAndLeavesAHeadALayer) {
  const auto model = OpenModel(Golden("gpt2"));  // 2 layers of 4 heads
  const std::vector<double> scores = {.1, .2, .3, .4, 5, 6, 7, 8};
  const auto chosen = [&](ChooseOptions options) {
    std::vector<std::string> names;
    for (const HeadRef& head : ChooseHeads(*model, scores, options)) {
      names.push_back(ToString(head));
    }
    return names;
  };
  EXPECT_THAT(chosen({.keep = 0.75}), ElementsAre("0.0", "0.1"));
  EXPECT_THAT(chosen({.keep = 0.5}), ElementsAre("0.0", "0.1", "0.2", "1.0"));
  EXPECT_THAT(chosen({.keep = 0.5, .empty = EmptyLayers::kAllowed}),
              ElementsAre("0.0", "0.1", "0.2", "0.3"));
  EXPECT_THAT(chosen({.keep = 0.5, .uniform = true}),
              ElementsAre("0.0", "0.1", "1.0", "1.1"));
  EXPECT_THAT(ErrorOf([&] { chosen({.keep = 0.1}); }),
              HasSubstr("at least 0.2500"));
  EXPECT_THAT(ErrorOf([&] { chosen({.keep = 1.5}); }),
              HasSubstr("a share from 0 to 1"));
}

TEST(Pruning, AHeadThatLayersShareLeavesWithAllItsUses) {
  const auto model = OpenModel(Golden("albert"));  // 3 layers of the same heads
  const std::vector<HeadRef> one = {{AttentionKind::kSelf, 1, 2}};
  EXPECT_THAT(ErrorOf([&] { RequireRemovable(*model, one); }),
              HasSubstr("every use of a head whose weights layers share, 0.2"));
  const auto uses = WithAllUses(model->config(), one);
  EXPECT_EQ(uses.size(), 3u);
  RequireRemovable(*model, uses);
  // Head 1 is the least by the mean of its uses, not by its least one.
  const std::vector<double> scores = {0, 1, 3, 9, 1, 3, 9, 1, 3};
  const std::vector<HeadRef> chosen =
      ChooseHeads(*model, scores, {.keep = 0.6});
  EXPECT_THAT(chosen, ElementsAre(HeadRef{AttentionKind::kSelf, 0, 1},
                                  HeadRef{AttentionKind::kSelf, 1, 1},
                                  HeadRef{AttentionKind::kSelf, 2, 1}));
}

TEST(Pruning, ABiasThatLayersShareGetsTheMeanOfWhatEachWants) {
  const auto model = OpenModel(Golden("albert"));
  const auto removed = WithAllUses(
      model->config(), std::vector<HeadRef>{{AttentionKind::kSelf, 0, 0}});
  Context context({.threads = 1, .implementations = ""});
  const auto bias_of = [&](const std::vector<float>& values) {
    HeadOutputs means;
    for (size_t i = 0; i < values.size(); ++i) {
      Tensor mean(DType::kF32, {1, 3, 8});
      Fill(context, values[i], mean.view());
      means["layer." + std::to_string(i) + ".attention"] = std::move(mean);
    }
    ChangedTensors changed;
    FoldMeans(*model, removed, means, changed);
    EXPECT_EQ(changed.size(), 1u);
    return ToVector<float>(context, changed.begin()->second.view());
  };
  EXPECT_LT(LargestDifference(bias_of({1, 2, 6}), bias_of({3, 3, 3})), 1e-5);
}

TEST(ChooseHeads, KeepsGroupsEqual) {
  const auto model = OpenModel(Golden("qwen2"));
  const size_t heads = AllHeads(*model).size();
  std::vector<double> scores(heads);
  for (size_t i = 0; i < heads; ++i) scores[i] = static_cast<double>(i * 7 % 5);
  for (const GroupUnit unit : {GroupUnit::kHeads, GroupUnit::kGroups}) {
    const auto removed =
        ChooseHeads(*model, scores, {.keep = 0.7, .unit = unit});
    EXPECT_FALSE(removed.empty());
    RequireRemovable(*model, removed);
  }
}

}  // namespace
}  // namespace headwise::pruning_test
