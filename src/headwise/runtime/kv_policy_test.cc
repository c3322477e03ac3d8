// A cache by role gives what a whole cache under a mask gives, in less memory.
#include "headwise/runtime/kv_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/gates.h"
#include "headwise/runtime/generate.h"
#include "headwise/runtime/session.h"

namespace headwise::kv_policy_test {
namespace {

constexpr double kTolerance = 1e-5;
constexpr int64_t kLayers = 2, kVocabulary = 40, kWidth = 16;

std::unique_ptr<Model> MakeModel(int64_t heads, int64_t kv_heads,
                                 int64_t own_window = 0) {
  Json json = {{"model_type", own_window > 0 ? "mistral" : "llama"},
               {"hidden_size", kWidth},
               {"num_attention_heads", heads},
               {"num_key_value_heads", kv_heads},
               {"head_dim", 4},
               {"num_hidden_layers", kLayers},
               {"intermediate_size", 24},
               {"vocab_size", kVocabulary},
               {"max_position_embeddings", 256},
               {"tie_word_embeddings", false}};
  if (own_window > 0) json["sliding_window"] = own_window;
  const ModelConfig config = ReadConfig(json, "test");
  return BuildModel(config, ParameterStore::Fresh(config, {.deviation = 0.2f}));
}

std::vector<int32_t> SomeIds(int64_t count, uint64_t seed = 1) {
  Rng rng(seed, 0);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>(rng.Below(kVocabulary)));
  }
  return ids;
}

// Heads outside whole groups see sinks and a window of the whole keys: their
// outputs are calculated again after each call.
class MaskedHeads : public RunHooks {
 public:
  MaskedHeads(Context& context, const Model& model, const KvPolicy& policy)
      : context_(context), model_(model), policy_(policy) {}

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    const auto layers = AttentionLayers(model_, site.kind);
    const std::vector<bool> whole = WholeGroups(policy_, *layers[site.layer]);
    std::vector<int32_t> heads;
    for (int32_t h = 0; h < problem.heads; ++h) {
      if (!whole[h / (problem.heads / problem.kv_heads)]) heads.push_back(h);
    }
    if (heads.empty()) return;
    AttentionProblem narrow = problem;
    if (narrow.mask.before == kUnlimited) narrow.mask.sinks = policy_.sinks;
    narrow.mask.before = std::min(narrow.mask.before, policy_.window - 1);
    AttentionArgs again = args;
    again.lse = {};
    again.active_heads = heads;
    AttentionForward(context_, narrow, again);
  }

 private:
  Context& context_;
  const Model& model_;
  const KvPolicy& policy_;
};

class KvPolicyTest : public ScratchFolderTest {
 protected:
  // Final states of all rows, fed in pieces of these sizes and then one by one.
  std::vector<float> Fed(const Model& model, const std::vector<int32_t>& ids,
                         const KvPolicy* policy, std::vector<int64_t> pieces) {
    Session session(context_, model, {.policy = policy});
    std::vector<float> all;
    for (size_t at = 0, i = 0; at < ids.size(); ++i) {
      const size_t count =
          i < pieces.size() ? static_cast<size_t>(pieces[i]) : 1;
      const size_t end = std::min(ids.size(), at + count);
      const Tensor states =
          session.FeedStates(std::span(ids).subspan(at, end - at));
      const std::vector<float> some = ToVector<float>(context_, states.view());
      all.insert(all.end(), some.begin(), some.end());
      at = end;
    }
    bytes_ = session.cache_bytes();
    return all;
  }

  std::vector<float> Masked(const Model& model, const std::vector<int32_t>& ids,
                            const KvPolicy& policy) {
    MaskedHeads hooks(context_, model, policy);
    const int64_t lengths[] = {std::ssize(ids)};
    const Tensor x = Forward(context_, model,
                             {.ids = ids, .lengths = lengths, .hooks = &hooks});
    return ToVector<float>(context_, x.view());
  }

  static void ExpectNear(const std::vector<float>& a,
                         const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(a[i]) - b[i]) /
                                  std::max(1.0, std::abs(double{b[i]})));
    }
    EXPECT_LE(worst, kTolerance);
  }

  Context context_{{.threads = 2, .implementations = ""}};
  CacheBytes bytes_;
};

TEST_F(KvPolicyTest, EqualsAWholeCacheUnderAMask) {
  const std::vector<int32_t> ids = SomeIds(150);
  for (const int64_t kv_heads : {4, 2}) {
    const auto model = MakeModel(4, kv_heads);
    for (const KvPolicy& policy :
         {KvPolicy{2, 5, {{AttentionKind::kSelf, 1, 2}}},
          KvPolicy{0, 9, {{AttentionKind::kSelf, 0, 0}}}, KvPolicy{4, 1, {}},
          KvPolicy{
              3,
              40,
              {{AttentionKind::kSelf, 0, 1}, {AttentionKind::kSelf, 0, 3}}}}) {
      const std::vector<float> want = Masked(*model, ids, policy);
      ExpectNear(Fed(*model, ids, &policy, {150}), want);
      ExpectNear(Fed(*model, ids, &policy, {1, 2, 30, 3, 16, 17, 18}), want);
      ExpectNear(Fed(*model, ids, &policy, {}), want);
    }
  }
}

TEST_F(KvPolicyTest, AModelsOwnWindowStays) {
  const std::vector<int32_t> ids = SomeIds(90);
  const auto model = MakeModel(4, 2, 20);
  for (const int64_t window : {6, 50}) {
    const KvPolicy policy{3, window, {{AttentionKind::kSelf, 1, 0}}};
    ExpectNear(Fed(*model, ids, &policy, {40, 7}), Masked(*model, ids, policy));
  }
}

TEST_F(KvPolicyTest, WithAllHeadsWholeNothingChanges) {
  const std::vector<int32_t> ids = SomeIds(60);
  const auto model = MakeModel(4, 2);
  KvPolicy policy{2, 512, AllHeads(*model)};
  EXPECT_EQ(Fed(*model, ids, &policy, {30}), Fed(*model, ids, nullptr, {30}));
  EXPECT_EQ(bytes_.kept, bytes_.whole);
}

TEST_F(KvPolicyTest, MemoryFallsByWhatIsNotKept) {
  const auto model = MakeModel(4, 4);
  const KvPolicy policy{4, 13, {{AttentionKind::kSelf, 1, 3}}};
  Fed(*model, SomeIds(250), &policy, {64});
  // Rows double as they are needed, up to the context.
  const size_t row = 2 * 4 * sizeof(float);  // keys and values of a head
  EXPECT_EQ(bytes_.whole, 8 * 256 * row);
  EXPECT_EQ(bytes_.kept, 256 * row + 7 * (4 + 12 + 16) * row);
  EXPECT_NEAR(bytes_.saved(), 1 - (256. + 7 * 32) / (8 * 256), 1e-12);
}

TEST_F(KvPolicyTest, SequencesAreReorderedAndForgotten) {
  const auto model = MakeModel(4, 2);
  const KvPolicy policy{2, 5, {{AttentionKind::kSelf, 1, 2}}};
  const std::vector<int32_t> a = SomeIds(60, 1), b = SomeIds(60, 2);
  const std::vector<int32_t> next = SomeIds(30, 3);
  Session both(context_, *model, {.sequences = 2, .policy = &policy});
  std::vector<int32_t> ids = a;
  ids.insert(ids.end(), b.begin(), b.end());
  both.Feed(ids);
  both.Reorder(std::vector<int32_t>{1, 0});
  Session one(context_, *model, {.policy = &policy});
  one.Feed(a);
  one.Clear();
  one.Feed(b);
  for (const int32_t id : next) {
    const std::vector<float> got = ToVector<float>(
        context_, both.Feed(std::vector<int32_t>{id, id}).view());
    const std::vector<float> want =
        ToVector<float>(context_, one.Feed(std::span(&id, 1)).view());
    ExpectNear({got.begin(), got.begin() + kVocabulary}, want);
  }
}

TEST_F(KvPolicyTest, ClosedHeadsStayClosed) {
  const std::vector<int32_t> ids = SomeIds(40);
  const auto model = MakeModel(4, 2);
  const KvPolicy whole{0, 200, {{AttentionKind::kSelf, 0, 0}}};
  const std::vector<HeadRef> closed = {{AttentionKind::kSelf, 0, 3},
                                       {AttentionKind::kSelf, 1, 1}};
  ClosedHeads hooks(*model, closed);
  Session split(context_, *model, {.hooks = &hooks, .policy = &whole});
  Session plain(context_, *model, {.hooks = &hooks});
  ExpectNear(ToVector<float>(context_, split.Feed(ids).view()),
             ToVector<float>(context_, plain.Feed(ids).view()));
}

TEST_F(KvPolicyTest, GenerateTellsWhatTheCacheTook) {
  const auto model = MakeModel(4, 2);
  const KvPolicy policy{2, 5, {}};
  GenerateJob job;
  job.max_tokens = 60;
  job.policy = &policy;
  CacheBytes told;
  job.on_cache = [&](const CacheBytes& bytes) { told = bytes; };
  Generate(context_, *model, SomeIds(40), job);
  EXPECT_GT(told.kept, 0u);
  EXPECT_GT(told.saved(), 0.5);
}

TEST_F(KvPolicyTest, FilesAreReadAndJudged) {
  const auto model = MakeModel(4, 2);
  const auto path = folder_ / "policy.json";
  const auto write = [&](const std::string& text) {
    WriteFileAtomically(path, text);
  };
  const auto refuses = [&](const std::string& text, const char* word) {
    write(text);
    try {
      ReadKvPolicy(path, *model, "abc");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(word)) << text;
    }
  };
  const KvPolicy policy{3, 17, {{AttentionKind::kSelf, 1, 2}}};
  write(ToJson(policy, "abc").dump());
  const KvPolicy again = ReadKvPolicy(path, *model, "abc");
  EXPECT_EQ(again.sinks, 3);
  EXPECT_EQ(again.window, 17);
  EXPECT_EQ(again.whole, policy.whole);
  refuses(ToJson(policy, "other").dump(), "abc");
  refuses("[]", "object");
  refuses("{}", "headwise.kv-policy/1");
  const std::string format = "{\"format\": \"headwise.kv-policy/1\"";
  refuses(format + "}", "whole");
  refuses(format + ", \"whole\": [\"9.0\"]}", "9.0");
  refuses(format + ", \"whole\": [], \"window\": 0}", "window");
  const KvPolicy cross{4, 64, {{AttentionKind::kCross, 0, 0}}};
  EXPECT_THROW(RequireKvPolicy(cross, *model), Error);
}

}  // namespace
}  // namespace headwise::kv_policy_test
