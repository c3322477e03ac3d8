// Whole runs over the planted model: merging, resuming, detectors, errors.
#include "headwise/heads/profile/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/heads/profile/copying.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/model/checkpoint.h"
#include "headwise/nn/head_weights.h"
#include "headwise/runtime/activations.h"
#include "headwise/runtime/kept_work.h"

namespace headwise::profiler_test {
namespace {

using testing::HasSubstr;

class ProfilerTest : public ScratchFolderTest {
 protected:
  ProfilerTest()
      : planted_(std::filesystem::path(HEADWISE_SOURCE) / "assets" / "planted"),
        model_(OpenModel(planted_)),
        tokenizer_(Tokenizer::Load(planted_)),
        context_({.threads = 2, .implementations = ""}) {}

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  // Sixteen pieces of text with words that repeat.
  std::vector<std::string> Shards() {
    const char* words[] = {"the",   "cat", "sat", "on",    "a",    "mat",
                           "and",   "Tom", "saw", "river", "near", "old",
                           "house", "he",  "was", "very"};
    Rng rng(4);
    std::vector<std::string> paths;
    for (int s = 0; s < 16; ++s) {
      std::string text;
      for (int w = 0; w < 150; ++w) {
        text += words[rng.Below(16)];
        text += w % 11 == 10 ? ". " : " ";
      }
      paths.push_back(Write("shard" + std::to_string(s), text));
    }
    return paths;
  }

  static ProfileOptions Settings(ProfileOptions options = {}) {
    options.context = 48;
    options.repeats = 4;
    return options;
  }

  Profile Run(const std::vector<std::string>& paths,
              const ProfileOptions& options = {}) {
    return RunOn(paths, Settings(options));
  }

  // The shards' profile, probes and text in one go, which is made once.
  const Profile& Whole() {
    static const Profile whole = [&] {
      Profiler profiler(context_, *model_, tokenizer_.get(), "planted", "hash",
                        Settings());
      profiler.AddProbes();
      TextSource source(Shards());
      profiler.AddText(source);
      return profiler.Take();
    }();
    return whole;
  }

  Profile RunOn(const std::vector<std::string>& paths,
                const ProfileOptions& options) {
    Profiler profiler(context_, *model_, tokenizer_.get(), "planted", "hash",
                      options);
    TextSource source(paths);
    profiler.AddText(source);
    Profile profile = profiler.Take();
    if (options.metrics != MetricSet::kCore) profile.Merge(Probes(options));
    return profile;
  }

  // Probes take longer than the text, and give the same each time.
  const Profile& Probes(const ProfileOptions& options) {
    static std::map<std::pair<int64_t, bool>, Profile> made;
    const auto [place, fresh] =
        made.try_emplace({options.min_visible, options.sentences});
    if (fresh) {
      Profiler probes(context_, *model_, tokenizer_.get(), "planted", "hash",
                      options);
      probes.AddProbes();
      place->second = probes.Take();
    }
    return place->second;
  }

  // Stops a run after so many tokens; what it has is kept.
  void Interrupt(const std::vector<std::string>& paths, ProfileOptions options,
                 double tokens) {
    KeptWork kept("profile", {.file = Kept()}, Key);
    std::stop_source stop;
    options.kept = &kept;
    options.stop = stop.get_token();
    options.on_progress = [&](std::string_view, double done, double) {
      if (done > tokens) stop.request_stop();
    };
    EXPECT_THAT(MessageOf([&] { RunOn(paths, options); }),
                HasSubstr("stopped before the end"));
    EXPECT_THAT(MessageOf([&] { kept.ThrowInterrupted(); }),
                HasSubstr("is kept in"));
  }
  Profile GoOn(const std::vector<std::string>& paths, ProfileOptions options) {
    KeptWork kept("profile", {.file = Kept(), .resume = true}, Key);
    options.kept = &kept;
    return RunOn(paths, options);
  }
  std::filesystem::path Kept() const { return folder_.string() + ".kept"; }
  static KeptKey Key() { return {"model", "", ""}; }

  std::string MessageOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path planted_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Context context_;
};

void ExpectSame(const Profile& a, const Profile& b) {
  EXPECT_EQ(a.counts, b.counts);
  ASSERT_EQ(a.metrics.size(), b.metrics.size());
  for (const auto& [name, tallies] : a.metrics) {
    for (size_t h = 0; h < tallies.size(); ++h) {
      const Estimate x = a.Get(name, h), y = b.Get(name, h);
      ASSERT_EQ(x.sequences, y.sequences) << name;
      if (x.sequences == 0) continue;
      EXPECT_NEAR(x.mean, y.mean, 1e-6 * std::max(1.0, std::abs(x.mean)))
          << name << " of head " << h;
      if (x.sequences > 1) {
        EXPECT_NEAR(x.low, y.low, 1e-5 * std::max(1.0, std::abs(x.low)))
            << name << " of head " << h;
      }
    }
  }
  for (size_t h = 0; h < a.heads.size(); ++h) {
    EXPECT_EQ(a.sinks[h], b.sinks[h]);
    ASSERT_EQ(a.examples[h].size(), b.examples[h].size());
    for (size_t e = 0; e < a.examples[h].size(); ++e) {
      if (a.examples[h][e].kind != "sample") continue;
      EXPECT_EQ(a.examples[h][e].hash, b.examples[h][e].hash);
    }
    for (size_t c = 0; c < a.histograms[h].size(); ++c) {
      EXPECT_NEAR(a.histograms[h][c], b.histograms[h][c],
                  1e-5 * std::max(1.0, a.histograms[h][c]));
    }
  }
}

TEST_F(ProfilerTest, SixteenShardsMergeToOneRunInAnyOrder) {
  std::vector<Profile> parts;
  for (const std::string& path : Shards()) parts.push_back(Run({path}));
  Profile forward = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) forward.Merge(parts[i]);
  Profile backward = parts.back();
  for (size_t i = parts.size() - 1; i-- > 0;) backward.Merge(parts[i]);
  ExpectSame(Whole(), forward);
  ExpectSame(Whole(), backward);
}

TEST_F(ProfilerTest, ResumesWhereItWasStopped) {
  const std::vector<std::string> paths = Shards();
  const ProfileOptions options = Settings();
  Interrupt(paths, options, 2500);
  ExpectSame(Whole(), GoOn(paths, options));
  const std::vector<std::string> reversed(paths.rbegin(), paths.rend());
  EXPECT_THAT(MessageOf([&] { GoOn(reversed, options); }),
              HasSubstr("another one"));
}

TEST_F(ProfilerTest, AShorterTextThanWhatIsKeptIsRefused) {
  ProfileOptions options = Settings();
  options.context = 24;
  Interrupt(Shards(), options, 2000);  // past the first part
  const std::vector<std::string> little = {
      Write("little.txt", "The cat sat on the mat again.")};
  // Be it enough by itself.
  for (const int64_t tokens : {0, 5}) {
    options.tokens = tokens;
    EXPECT_THAT(MessageOf([&] { GoOn(little, options); }),
                HasSubstr("a shorter one"));
  }
}

// Which tokens are rare is counted on the same text again.
TEST_F(ProfilerTest, ResumesWithALimitOfTokens) {
  // The second half of the files has other words.
  Shards();
  for (int s = 0; s < 16; ++s) {
    std::string text;
    for (int i = 0; i < 10; ++i) text += "zebra quickly jumps over lazy dogs. ";
    Write("zebra" + std::to_string(s), text);
  }
  const std::vector<std::string> paths = {folder_.string()};
  ProfileOptions options = Settings();
  const WindowCutter cutter(*tokenizer_, model_->config(),
                            {.context = options.context});
  options.tokens = -1000;
  for (const TokenWindow& window : ReadWindows(paths, cutter, 0)) {
    options.tokens += window.source.size();
  }
  const Profile whole = RunOn(paths, options);
  Interrupt(paths, options, static_cast<double>(options.tokens) / 2);
  ExpectSame(whole, GoOn(paths, options));
}

// A window may take minutes.
TEST_F(ProfilerTest, TellsHowFarAWindowHasCome) {
  Shards();
  ProfileOptions options;
  options.tokens = 100;
  options.context = 100;
  options.metrics = MetricSet::kCore;
  std::vector<double> told;
  options.on_progress = [&](std::string_view stage, double done, double) {
    if (stage == "profile") told.push_back(done);
  };
  Run({folder_.string()}, options);
  ASSERT_EQ(told.size(), 3u);  // two layers
  EXPECT_EQ(told[0], 0);
  EXPECT_EQ(2 * told[1], told[2]);
  EXPECT_GE(told[2], 100);
}

// Not at the end of the batch that the window runs in.
TEST_F(ProfilerTest, StopsAtTheEndOfTheWindowThatReachesTheLimit) {
  Shards();
  ProfileOptions options;
  options.tokens = 100;
  const int64_t read = Run({folder_.string()}, options).counts.tokens;
  EXPECT_GE(read, 100);
  EXPECT_LT(read, 100 + 48);  // Run's context
}

TEST_F(ProfilerTest, TheCoreIsPartOfTheWhole) {
  const Profile& whole = Whole();
  ProfileOptions options;
  options.metrics = MetricSet::kCore;
  const Profile core = Run(Shards(), options);
  EXPECT_EQ(core.metrics.size(), 15u);
  for (const auto& [name, tallies] : core.metrics) {
    for (size_t h = 0; h < tallies.size(); ++h) {
      EXPECT_NEAR(core.Get(name, h).mean, whole.Get(name, h).mean, 1e-6)
          << name << " of head " << h;
      EXPECT_EQ(core.Get(name, h).count, whole.Get(name, h).count) << name;
    }
  }
  Profile merged = whole;
  EXPECT_THAT(MessageOf([&] { merged.Merge(core); }), HasSubstr("`metrics`"));
  const auto file = folder_ / "core.heads";
  core.Save(file);
  EXPECT_EQ(Profile::Load(file).settings, core.settings);
}

// What is kept waits for the run that is on.
TEST_F(ProfilerTest, WordsAreKeptWithTheirWindows) {
  ProfileOptions options = Settings();
  options.words = true;
  Interrupt(Shards(), options, 2500);
  const Profile whole = RunOn(Shards(), options);
  const Profile resumed = GoOn(Shards(), options);
  EXPECT_EQ(resumed.metrics, whole.metrics);
  EXPECT_EQ(resumed.sinks, whole.sinks);
}

TEST_F(ProfilerTest, SentencesAreSequencesOfTheirOwn) {
  const std::string text = Write(
      "two.txt",
      "Tom sat near the old house and saw a river near the old house. "
      "He was very old and very near the river and the cat sat on a mat.");
  ProfileOptions options;
  options.min_visible = 2;
  EXPECT_EQ(Run({text}, options).counts.windows, 1);
  options.sentences = true;
  const Profile profile = Run({text}, options);
  EXPECT_EQ(profile.counts.windows, 2);
  EXPECT_TRUE(profile.settings.sentences);
  // A row of the second sentence sees no further than its own start.
  EXPECT_EQ(profile.Get("entropy", 0).sequences, 2);
  options.words = true;
  const Profile words = Run({text}, options);
  EXPECT_GT(words.Get("words.previous", 0).count, 10);
  EXPECT_LT(words.Get("words.self", 0).count, words.Get("self", 0).count + 1);
}

TEST_F(ProfilerTest, CopyingInTheRunTellsCopiersFromOthers) {
  const Profile& profile = Whole();
  // 1.0 predicts what it reads, 1.1 its own token; 0.0 writes for others.
  EXPECT_GT(profile.Get("copying.run", 8).low, 1);
  EXPECT_GT(profile.Get("copying.run", 9).low, 1);
  EXPECT_NEAR(profile.Get("copying.run", 0).mean, 0, .1);
  // 0.3 rests on the first token: of the others it reads none most.
  EXPECT_EQ(profile.Get("copying.run", 3).count, 0);
}

// By definition, through the model's own vocabulary head: the mean over rows
// that see enough of what one head's output adds to the logit of the token
// that it reads most, above the mean logit.
double DirectGain(Context& context, const Model& model,
                  const std::vector<int32_t>& ids, const HeadRef& head) {
  const std::vector<int64_t> lengths = {static_cast<int64_t>(ids.size())};
  const AttentionLayer& layer = *AttentionLayers(model, head.kind)[head.layer];
  const std::string site = layer.site().name;
  auto seen = RecordActivations(
      context, model, {.ids = ids, .lengths = lengths},
      {site + ".probs", site + ".head_output", "layer.1.output"});
  const Tensor o = WeightsOfHead(context, layer, head.head).o;
  const int64_t n = lengths[0], width = o.shape(1), dim = o.shape(0);
  const int64_t vocabulary = model.config().vocabulary;
  const float* probs = seen.at(site + ".probs").As<float>() + head.head * n * n;
  const Norm& norm = model.stack().final_norm;
  double sum = 0, rows = 0;
  for (int64_t i = 9; i < n; ++i) {
    const float* row = probs + i * n;
    const int64_t key = std::max_element(row, row + n) - row;
    if (key == 0) continue;
    rows += 1;
    const float* z = seen.at(site + ".head_output").As<float>() +
                     (i * layer.config().heads + head.head) * dim;
    std::vector<double> written(width, 0.0);
    for (int64_t e = 0; e < dim; ++e) {
      for (int64_t d = 0; d < width; ++d) {
        written[d] += z[e] * o.As<float>()[e * width + d];
      }
    }
    const auto mean_of = [&](auto get) {
      double total = 0;
      for (int64_t d = 0; d < width; ++d) total += get(d);
      return total / static_cast<double>(width);
    };
    const float* last = seen.at("layer.1.output").As<float>() + i * width;
    const double mean = mean_of([&](int64_t d) { return last[d]; });
    const double variance =
        mean_of([&](int64_t d) { return (last[d] - mean) * (last[d] - mean); });
    const double shift = mean_of([&](int64_t d) { return written[d]; });
    Tensor x(DType::kF32, {2, width}), logits(DType::kF32, {2, vocabulary});
    const Tensor factors = norm.Gain(context);
    for (int64_t d = 0; d < width; ++d) {
      x.As<float>()[width + d] = 0;
      x.As<float>()[d] = static_cast<float>(
          (written[d] - shift) / std::sqrt(variance + norm.epsilon()) *
          factors.As<float>()[d]);
    }
    model.Logits(context, x.view(), logits.view());
    const auto gain = [&](int64_t v) {
      return logits.As<float>()[v] - logits.As<float>()[vocabulary + v];
    };
    double all = 0;
    for (int64_t v = 0; v < vocabulary; ++v) all += gain(v);
    sum += gain(ids[key]) - all / static_cast<double>(vocabulary);
  }
  return sum / rows;
}

TEST_F(ProfilerTest, CopyingIsWhatTheOutputAddsToTheLogit) {
  std::vector<int32_t> ids;
  for (int copy = 0; copy < 2; ++copy) {
    for (int32_t id = 0; id < 25; ++id) ids.push_back(20 + 3 * id);
  }
  const TokenWindow window = WindowOfIds(ids);
  Profile profile(AllHeads(*model_));
  AddCopyingInRun(context_, *model_, {&window, 1}, profile);
  const HeadRef copier{AttentionKind::kSelf, 1, 0};
  EXPECT_NEAR(profile.Get("copying.run", 8).mean,
              DirectGain(context_, *model_, ids, copier), 1e-3);
}

TEST_F(ProfilerTest, PlantedHeadsScore) {
  const Profile& profile = Whole();
  double previous = 0, induction = 0, first = 0;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    previous = std::max(previous, profile.Get("previous", h).mean);
    induction = std::max(induction, profile.Get("repeats.induction", h).mean);
    first = std::max(first, profile.Get("first", h).mean);
    EXPECT_FALSE(profile.examples[h].empty());
    EXPECT_FALSE(profile.examples[h][0].keys.empty());
  }
  EXPECT_GT(previous, .9);
  EXPECT_GT(induction, .4);
  EXPECT_GT(first, .6);
}

TEST_F(ProfilerTest, EveryMetricIsDefined) {
  const Profile& profile = Whole();
  for (const auto& [name, tallies] : profile.metrics) {
    EXPECT_NE(FindDefinition(name), nullptr) << name;
  }
  EXPECT_EQ(FindDefinition("nonsense"), nullptr);
}

TEST_F(ProfilerTest, DetectorsCountTheirOwnKeys) {
  const std::string text = Write(
      "tom.txt",
      "Tom sat near the old house and Tom saw a river and he was very old.");
  // Every "Tom" should be read by every "he": both are one label.
  std::vector<Detector> detectors;
  detectors.push_back(
      Detector::Load(Write("tom.json", R"({"name": "tom", "rules": [
        {"match": "\\bhe\\b", "query": 1}, {"match": "Tom", "key": 1}]})")));
  ProfileOptions options;
  options.detectors = detectors;
  options.min_visible = 2;
  const Profile profile = Run({text}, options);
  const Estimate score = profile.Get("pattern.tom", 0);
  EXPECT_GE(score.count, 1);
  EXPECT_GT(profile.Get("pattern.tom.chance", 0).mean, 0);
  EXPECT_LT(profile.Get("pattern.tom.chance", 0).mean, .5);
}

TEST_F(ProfilerTest, ManyDetectorsCountAsEachWouldAlone) {
  std::vector<std::string> files;
  const char* words[] = {"cat", "mat", "Tom", "river", "old", "house"};
  for (const char* word : words) {
    std::string name = word;
    name[0] = static_cast<char>(std::tolower(name[0]));
    files.push_back(Write(name + ".json", R"({"name": ")" + name +
                                              R"(", "rules": [
        {"match": "\\bhe\\b", "query": 1}, {"match": ")" +
                                              word + R"(", "key": 1}]})"));
  }
  std::vector<Detector> all;
  for (const std::string& file : files) all.push_back(Detector::Load(file));
  ProfileOptions options;
  options.detectors = all;
  std::vector<std::string> paths = Shards();
  paths.resize(6);
  const Profile together = Run(paths, options);
  for (const std::string& file : files) {
    std::vector<Detector> one;
    one.push_back(Detector::Load(file));
    options.detectors = one;
    const std::string metric = "pattern." + one[0].name();
    const Profile alone = Run(paths, options);
    for (size_t h = 0; h < alone.heads.size(); ++h) {
      EXPECT_GT(alone.Get(metric, h).count, 10);
      EXPECT_EQ(*alone.Find(metric, h), *together.Find(metric, h)) << metric;
      EXPECT_EQ(*alone.Find(metric + ".chance", h),
                *together.Find(metric + ".chance", h));
    }
  }
  std::vector<Detector> twice;
  for (int i = 0; i < 2; ++i) twice.push_back(Detector::Load(files[0]));
  options.detectors = twice;
  EXPECT_THAT(MessageOf([&] { Run(paths, options); }),
              HasSubstr("\"cat\" twice"));
}

TEST_F(ProfilerTest, BadDetectorsAreNamed) {
  for (const char* json :
       {R"({"rules": []})", R"({"name": "x"})", R"({"name": "A b",
        "rules": [{"match": "a", "key": 1}]})",
        R"({"name": "x", "rules": [{"match": "a"}]})",
        R"({"name": "x", "rules": [{"match": "(", "key": 1}]})",
        R"({"name": "x", "pairs": [
          {"document": "d", "query": [4, 6], "key": [0, 2]},
          {"document": "d", "query": [7, 9], "key": [0, 2]}]})"}) {
    const std::string path = Write("bad.json", json);
    EXPECT_THAT(MessageOf([&] { Detector::Load(path); }), HasSubstr("bad.json"))
        << json;
  }
}

TEST_F(ProfilerTest, TextWithoutTwoTokensIsRefused) {
  const std::string path = Write("short.txt", "a");
  EXPECT_THAT(MessageOf([&] { Run({path}); }), HasSubstr("two tokens"));
}

}  // namespace
}  // namespace headwise::profiler_test
