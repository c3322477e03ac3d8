// Profiles of real models and of recorded attention: heads that are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "ctranslate2_model.h"
#include "headwise/base/json.h"
#include "headwise/heads/profile/dense.h"
#include "headwise/heads/profile/naive_metrics.h"
#include "headwise/heads/profile/profiler.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/generate.h"
#include "headwise/text_input.h"
#include "shared_files.h"

namespace headwise::profile_test {
namespace {

Profile ProfileOf(const std::filesystem::path& folder, const std::string& text,
                  int64_t tokens) {
  const auto model = OpenModel(folder);
  const auto tokenizer = Tokenizer::Load(folder);
  Context context({.threads = 2, .implementations = ""});
  ProfileOptions options;
  options.tokens = tokens;
  Profiler profiler(context, *model, tokenizer.get(), "model", "hash", options);
  profiler.AddProbes();
  TextSource source({text});
  profiler.AddText(source);
  return profiler.Take();
}

double Mean(const Profile& profile, const char* metric, int64_t layer,
            int64_t head) {
  const int64_t index = profile.IndexOf({AttentionKind::kSelf, layer, head});
  return profile.Get(metric, index).mean;
}

// The recorded shares are rounded: their rows sum to 1 only within 1e-4.
void AppendRow(const Json& row, std::vector<float>& probabilities) {
  double sum = 0;
  for (const Json& value : row) sum += value.get<double>();
  for (const Json& value : row) {
    probabilities.push_back(static_cast<float>(value.get<double>() / sum));
  }
}

TEST(RealProfile, RecordedAttentionOfGpt2) {
  HEADWISE_REQUIRE_DATA("gpt2-golden-attention");
  Context context({.threads = 2, .implementations = ""});
  double previous = 0;
  for (int example = 0; example < 5; ++example) {
    const Json json = ReadJson(UnpackedData("gpt2-golden-attention") /
                               "gpt2-golden-attention" /
                               ("ex" + std::to_string(example) + ".json"));
    SequenceNotes sequence;
    sequence.source.ids = json["tokenIds"].get<std::vector<int32_t>>();
    const int64_t n = sequence.source.size();
    for (auto* flags : {&sequence.source.special, &sequence.source.punctuation,
                        &sequence.source.rare}) {
      flags->assign(n, 0);
    }
    sequence.source.word.assign(n, 0);
    sequence.source.rarest.assign(n, -1);
    for (int64_t layer = 0; layer < 12; ++layer) {
      DenseAttention dense{12, n, n, true, {}};
      for (int64_t head = 0; head < 12; ++head) {
        const std::string name = "block_" + std::to_string(layer) +
                                 "_attn_head_" + std::to_string(head) +
                                 "_attn_softmax";
        for (const Json& row : json["outputs"][name]["data"]) {
          AppendRow(row, dense.probabilities);
        }
      }
      std::vector<HeadRef> heads;
      for (int64_t h = 0; h < 12; ++h) {
        heads.push_back({AttentionKind::kSelf, layer, h});
      }
      Profile profile(heads);
      ObserverOptions options;
      options.min_visible = 2;
      RowSums sums(context, profile, options);
      sums.Begin(sums.Prepare(context, {sequence}));
      ObserveDense(context, sums, {AttentionKind::kSelf, layer, "layer"},
                   dense);
      sums.Finish();
      for (int64_t h = 0; h < 12; ++h) {
        const DenseRow row = [&](int64_t i) {
          const auto from = dense.probabilities.begin() + (h * n + i) * n;
          return std::vector<double>(from, from + n);
        };
        // Content forms divide by what stays outside the sinks, which f32
        // shares give to 1e-7.
        const double content = profile.Get("content", h).mean;
        for (const auto& [name, mean] :
             NaiveMetrics(row, sequence.source, true, 2)) {
          const bool divided = name.find(".content") != name.npos;
          const double tolerance =
              divided ? std::max(1e-5, 1e-7 / content) : 1e-5;
          EXPECT_NEAR(profile.Get(name, h).mean, mean,
                      tolerance * std::max(1.0, std::abs(mean)))
              << name << " of " << layer << "." << h;
        }
      }
      if (layer == 4) previous += profile.Get("previous", 11).mean / 5;
    }
  }
  EXPECT_GE(previous, .95);
}

TEST(RealProfile, MiniLmHasAPreviousTokenHead) {
  const auto folder = ModelsFolder() / "minilm-l6";
  HEADWISE_REQUIRE(folder);
  HEADWISE_REQUIRE_DATA("tinyshakespeare");
  const Profile profile =
      ProfileOf(folder, UnpackedData("tinyshakespeare").string(), 1024);
  EXPECT_GE(Mean(profile, "previous", 0, 2), .95);
  EXPECT_GE(Mean(profile, "previous.argmax", 0, 2), .95);
}

TEST(RealProfile, MiniMindHasInductionHeadsAndSinks) {
  const auto folder = ModelsFolder() / "minimind2-small";
  HEADWISE_REQUIRE(folder);
  HEADWISE_REQUIRE_DATA("tinyshakespeare");
  const Profile profile =
      ProfileOf(folder, UnpackedData("tinyshakespeare").string(), 2048);
  EXPECT_NEAR(Mean(profile, "repeats-50x2.induction", 5, 1), .68, .05);
  EXPECT_NEAR(Mean(profile, "repeats-50x2.induction", 5, 0), .53, .05);
  EXPECT_NEAR(Mean(profile, "repeats-50x2.induction", 5, 3), .44, .05);
  const double first = Mean(profile, "repeats.induction", 5, 1);
  EXPECT_NEAR(first, .75, .05);
  EXPECT_GT(first, Mean(profile, "repeats.induction", 5, 0));
  EXPECT_GE(Mean(profile, "repeats.previous", 4, 0), .7);
  double most = 0;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    most = std::max(most, profile.Get("first", h).mean);
  }
  EXPECT_NEAR(most, .85, .12);
}

TEST(RealProfile, Stories260KHasPreviousTokenHeadsAndNoInduction) {
  const auto folder = SharedFolder() / "models" / "stories260K";
  HEADWISE_REQUIRE(folder);
  HEADWISE_REQUIRE_DATA("tinyshakespeare");
  const Profile profile =
      ProfileOf(folder, UnpackedData("tinyshakespeare").string(), 2048);
  EXPECT_GE(Mean(profile, "previous", 3, 6), .5);
  EXPECT_GE(Mean(profile, "previous", 1, 3), .5);
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    EXPECT_LT(profile.Get("repeats.induction", h).mean, .4);
  }
}

TEST(RealProfile, TransliterationReadsItsSourceInOrder) {
  const auto folder = SharedFolder() / "models" / "transliterate-ar-en";
  HEADWISE_REQUIRE(folder);
  const auto letters = ReadLines(folder / "source_vocabulary.txt");
  const auto model = OpenCTranslate2(folder);
  Context context({.threads = 2, .implementations = ""});
  const auto id_of = [&](const std::string& letter) {
    return static_cast<int32_t>(
        std::find(letters.begin(), letters.end(), letter) - letters.begin());
  };
  const std::vector<std::vector<std::string>> names = {
      {"آ", "ت", "ز", "م", "و", "ن"},
      {"ن", "ي", "ك", "و", "ل", "ا", "س"},
      {"ا", "ل", "ك", "س", "ن", "د", "ر"},
      {"م", "ا", "ر", "ت", "ي", "ن"},
      {"ف", "ي", "ك", "ت", "و", "ر", "ي", "ا"}};
  std::vector<TokenWindow> windows;
  for (const auto& first : names) {
    for (const auto& second : names) {
      std::vector<int32_t> source;
      for (const auto* name : {&first, &second}) {
        for (const std::string& letter : *name) source.push_back(id_of(letter));
      }
      GenerateJob job;
      job.max_tokens = 30;
      std::vector<int32_t> target = {
          static_cast<int32_t>(model->config().decoder_start)};
      for (const int32_t id : Generate(context, *model, source, job)) {
        target.push_back(id);
      }
      TokenWindow window = WindowOfIds(source);
      window.target = WindowOfIds(target, 1).source;
      SetKey(window);
      windows.push_back(window);
    }
  }
  Profiler profiler(context, *model, nullptr, "model", "hash", {});
  profiler.AddWindows(windows);
  const Profile profile = profiler.Take();
  double best = 0, chance = 1;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    if (profile.heads[h].kind != AttentionKind::kCross) continue;
    if (profile.Get("monotone", h).mean > best) {
      best = profile.Get("monotone", h).mean;
      chance = profile.Get("monotone.chance", h).mean;
    }
  }
  EXPECT_GE(best, .8);
  EXPECT_LE(chance, .5);
}

}  // namespace
}  // namespace headwise::profile_test
