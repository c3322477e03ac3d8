#include "headwise/train/gradient_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/dist/thread_group.h"
#include "headwise/error.h"
#include "headwise/model/family.h"

namespace headwise::gradient_sum_test {
namespace {

// Two layers and tied embeddings.
struct TinyModel {
  TinyModel() {
    const Json json = {
        {"model_type", "llama"},      {"hidden_size", 16},
        {"intermediate_size", 24},    {"num_hidden_layers", 2},
        {"num_attention_heads", 2},   {"num_key_value_heads", 1},
        {"vocab_size", 40},           {"max_position_embeddings", 64},
        {"tie_word_embeddings", true}};
    store = ParameterStore::Fresh(ReadConfig(json, "test"), {});
    model = BuildModel(ReadConfig(json, "test"), store);
  }

  void AddToGradients(float value) const {
    for (const auto& [name, entry] : store->entries()) {
      for (int64_t i = 0; i < entry.gradient.size(); ++i) {
        entry.gradient.As<float>()[i] += value;
      }
    }
  }
  void ExpectGradients(float value) const {
    for (const auto& [name, entry] : store->entries()) {
      for (int64_t i = 0; i < entry.gradient.size(); ++i) {
        ASSERT_EQ(entry.gradient.As<float>()[i], value) << name;
      }
    }
  }

  std::shared_ptr<ParameterStore> store;
  std::shared_ptr<const Model> model;
};

TEST(GradientBuckets, HoldEveryGradientOnce) {
  const TinyModel tiny;
  for (const int64_t size : {1, 7, 16, 100, 1000, 100000}) {
    const GradientBuckets buckets(*tiny.model, *tiny.store, size);
    Tensor& all = tiny.store->buffers()[0].gradient;
    std::fill_n(all.As<float>(), all.size(), 0.0f);
    for (size_t i = 0; i < buckets.size(); ++i) {
      EXPECT_LE(buckets[i].size(), size + ParameterStore::kAlignment);
      for (const GradientBucket::Piece& piece : buckets[i].pieces) {
        ASSERT_EQ(piece.buffer, 0u);
        for (int64_t at = piece.begin; at < piece.end; ++at) {
          all.As<float>()[at] += 1;
        }
      }
    }
    tiny.ExpectGradients(1);
  }
}

TEST(GradientBuckets, AreCompleteFromTheLastLayerToTheFirst) {
  const TinyModel tiny;
  const GradientBuckets buckets(*tiny.model, *tiny.store, 200);
  size_t before = 0;
  for (const char* part : {"head", "final", "layer.1", "layer.0"}) {
    EXPECT_GE(buckets.CompleteAfter(part), before) << part;
    before = buckets.CompleteAfter(part);
  }
  // The vocabulary's matrix, which is the embedding, is not.
  EXPECT_EQ(buckets.CompleteAfter("head"), 0u);
  EXPECT_GT(buckets.CompleteAfter("layer.1"), 0u);
  EXPECT_GT(buckets.CompleteAfter("layer.0"), buckets.CompleteAfter("layer.1"));
  EXPECT_LT(before, buckets.size());
  EXPECT_EQ(buckets.CompleteAfter("embedding"), buckets.size());
  // None of layer 0's is among those of layer 1.
  const auto& entries = tiny.store->entries();
  const auto& entry = entries.at("model.layers.0.mlp.down_proj.weight");
  for (size_t i = 0; i < buckets.CompleteAfter("layer.1"); ++i) {
    for (const GradientBucket::Piece& piece : buckets[i].pieces) {
      EXPECT_TRUE(piece.end <= entry.offset ||
                  piece.begin >= entry.offset + entry.value.size());
    }
  }
}

// Each part adds its number to every gradient; the tree's depth shows in none.
TEST(GradientSum, AddsEveryPartOnce) {
  for (const int64_t parts : {1, 2, 3, 5, 8}) {
    for (const int64_t most : {1, 2, 3, 5}) {
      const auto ranks = static_cast<int>(std::min(parts, most));
      dist::RunRanks(ranks, [&](dist::Group& group) {
        Context context({1, ""});
        const TinyModel tiny;
        GradientSum sum(context, *tiny.model, *tiny.store,
                        {.group = &group, .parts = parts, .bucket = 300});
        std::vector<int64_t> called;
        sum.Sum([&](int64_t part, const PartDone*) {
          called.push_back(part);
          tiny.AddToGradients(static_cast<float>(part + 1));
        });
        EXPECT_EQ(std::ssize(called), sum.tree().end() - sum.tree().begin());
        tiny.ExpectGradients(static_cast<float>(parts * (parts + 1) / 2));
        group.Leave();
      });
    }
  }
}

// Counts what this rank sends.
class CountingGroup : public dist::Group {
 public:
  explicit CountingGroup(dist::Group& real) : real_(real) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  void Post(int to, dist::Channel channel, std::string bytes) override {
    ++posts;
    real_.Post(to, channel, std::move(bytes));
  }
  std::string Take(int from, dist::Channel channel) override {
    return real_.Take(from, channel);
  }
  std::optional<dist::Message> Poll(dist::Channel channel,
                                    double seconds) override {
    return real_.Poll(channel, seconds);
  }
  void Leave() override { real_.Leave(); }
  void Abort(int code) noexcept override { real_.Abort(code); }

  std::atomic<int> posts = 0;

 private:
  dist::Group& real_;
};

// Rank 1 sends the last layer's gradients, and rank 0 sends their sum back,
// before either has ended its backward.
TEST(GradientSum, IsUnderWayBeforeTheBackwardHasEnded) {
  dist::RunRanks(2, [](dist::Group& real) {
    CountingGroup group(real);
    Context context({1, ""});
    const TinyModel tiny;
    GradientSum sum(context, *tiny.model, *tiny.store,
                    {.group = &group, .parts = 2, .bucket = 200});
    sum.Sum([&](int64_t, const PartDone* done) {
      ASSERT_NE(done, nullptr);
      tiny.AddToGradients(1);
      EXPECT_EQ(group.posts, 0);
      (*done)("layer.1");
      const auto begun = std::chrono::steady_clock::now();
      while (group.posts == 0 && std::chrono::steady_clock::now() - begun <
                                     std::chrono::seconds(30)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_GT(group.posts, 0);
    });
    tiny.ExpectGradients(2);
    group.Leave();
  });
}

TEST(GradientSum, EndsWhenABackwardFails) {
  const auto run = [] {
    dist::RunRanks(3, [](dist::Group& group) {
      Context context({1, ""});
      const TinyModel tiny;
      GradientSum sum(context, *tiny.model, *tiny.store,
                      {.group = &group, .parts = 4, .bucket = 200});
      sum.Sum([&](int64_t part, const PartDone* done) {
        if (done != nullptr) (*done)("layer.1");
        if (part != 3) return;
        throw Error(ErrorCode::kCorrupt, {"test", "", "", ""});
      });
    });
  };
  EXPECT_THROW(run(), Error);
}

TEST(GradientSum, NeedsGpusForNccl) {
  Context context({1, ""});
  const TinyModel tiny;
  try {
    const GradientSum sum(context, *tiny.model, *tiny.store,
                          {.reduce = GradientReduction::kNccl});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
  }
}

using TimelineTest = ScratchFolderTest;

TEST_F(TimelineTest, HoldsTheSpansOfEveryRank) {
  const auto file = folder_ / "timeline.json";
  dist::RunRanks(3, [&](dist::Group& group) {
    Timeline timeline(group);
    timeline.BeginStep();
    Laps laps(&timeline, Timeline::Row::kReduce);
    laps.End("own " + std::to_string(group.rank()));
    for (int64_t i = 0; i < Timeline::kMostSteps; ++i) timeline.BeginStep();
    laps.End("too late");
    timeline.Write(group, file);
    group.Leave();
  });
  const Json trace = ReadJson(file);
  std::vector<std::string> names;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph").get<std::string>() != "X") continue;
    names.push_back(event.at("name").get<std::string>());
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_EQ("own " + std::to_string(event.at("pid").get<int64_t>()),
              names.back());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"own 0", "own 1", "own 2"}));
}

}  // namespace
}  // namespace headwise::gradient_sum_test
