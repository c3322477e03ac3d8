// The folder of an atlas, held to the contracts of HeadVis' data pipeline.
#include "headwise/report/atlas_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>

#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/model.h"
#include "headwise/text_input.h"

namespace headwise::atlas_files_test {
namespace {

std::filesystem::path Source() { return HEADWISE_SOURCE; }

TextInput Lamp() {
  TextInput text = TextInput::Files(
      {(Source() / "assets/text/the-lamp-at-sorrel-point.txt").string()});
  text.tokens = 1600;
  text.context = 64;
  return text;
}

AtlasJob SmallJob() {
  AtlasJob job;
  job.strongest = 2;
  job.samples = 1;
  job.intervals = 3;
  job.drawn = 12;
  job.rank_tokens = 200;
  return job;
}

// Made once for all tests.
class AtlasFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() /
              ("headwise-atlas-" + std::to_string(::getpid()));
    Transformer model(Source() / "assets/planted");
    atlas_ = MakeAtlas(model, Lamp(), folder_, SmallJob());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static Json Data(const std::string& name) {
    return ReadJson(folder_ / "data" / name);
  }

  static std::filesystem::path folder_;
  static Atlas atlas_;
};
std::filesystem::path AtlasFiles::folder_;
Atlas AtlasFiles::atlas_;

TEST_F(AtlasFiles, ConfigNamesEveryHeadAndMetric) {
  const Json config = Data("config.json");
  EXPECT_EQ(config["heads"].size(), atlas_.heads.size());
  EXPECT_EQ(config["n_intervals"], 3);
  EXPECT_EQ(config["has_umap"], false);
  for (const Json& name : config["metrics"]) {
    EXPECT_TRUE(config["metric_descriptions"].contains(name.text()));
  }
  EXPECT_EQ(Data("server_config.json"), Json::object());
  EXPECT_EQ(Data("attributions/manifest.json"), Json::object());
}

TEST_F(AtlasFiles, ScatterHoldsTheMetricsOfTheResult) {
  const Json rows = Data("scatter_data.json");
  ASSERT_EQ(rows.size(), atlas_.heads.size());
  for (size_t h = 0; h < rows.size(); ++h) {
    EXPECT_EQ(rows[h]["layer"], atlas_.heads[h].head.layer);
    EXPECT_EQ(rows[h]["head"], atlas_.heads[h].head.head);
    const auto words = FieldWords(HeadVisMetric{});
    for (size_t m = 0; m < kHeadVisMetrics; ++m) {
      EXPECT_NEAR(rows[h][words[m]].get<double>(), atlas_.heads[h].metrics[m],
                  1e-6);
    }
    for (const auto& [name, value] : rows[h].items()) {
      EXPECT_TRUE(value.is_number()) << name;
    }
  }
}

TEST_F(AtlasFiles, SequencesAreSparseMapsByInterval) {
  for (const AtlasHead& head : atlas_.heads) {
    const Json file = Data("heads/" + FileNameOf(head.head) + ".json");
    std::map<int, int> of_interval;
    for (const Json& sequence : file["sequences"]) {
      ++of_interval[sequence["interval"].get<int>()];
      const auto n = sequence["seq_len"].get<int64_t>();
      ASSERT_EQ(sequence["tokens"].size(), static_cast<size_t>(n));
      const auto& places = sequence["attention_indices"];
      ASSERT_EQ(places.size(), sequence["attention_values"].size());
      double most = 0;
      std::map<int64_t, int> of_row;
      for (size_t i = 0; i < places.size(); ++i) {
        const auto place = places[i].get<int64_t>();
        ASSERT_LT(place, n * n);
        ++of_row[place / n];
        if (place / n > 0 && place % n > 0) {
          most = std::max(most, sequence["attention_values"][i].get<double>());
        }
      }
      for (const auto& [row, keys] : of_row) EXPECT_LE(keys, 8);
      const auto strength = sequence["max_activation"].get<double>();
      if (strength >= 0.006) {  // else it may be too small to be kept
        EXPECT_NEAR(strength, most, 2e-4);
      }
    }
    EXPECT_EQ(of_interval[3], 2);
    EXPECT_LE(of_interval[1], 1);
    EXPECT_LE(of_interval[2], 1);
  }
}

TEST_F(AtlasFiles, HistogramsAreOfAllRowsAndSequences) {
  for (const AtlasHead& head : atlas_.heads) {
    const Json file = Data("heads/" + FileNameOf(head.head) + ".json");
    for (const char* key : {"qk_distance_histogram", "histogram"}) {
      EXPECT_EQ(file[key]["bin_edges"].size(),
                file[key]["bin_values"].size() + 1);
    }
    double mass = 0, sequences = 0;
    for (const Json& one : file["qk_distance_histogram"]["bin_values"]) {
      mass += one.get<double>();
    }
    for (const Json& one : file["histogram"]["bin_values"]) {
      sequences += one.get<double>();
    }
    EXPECT_NEAR(mass, 1, 1e-4);
    EXPECT_EQ(sequences, static_cast<double>(atlas_.sequences));
  }
}

TEST_F(AtlasFiles, ThePageHasAScriptForEachHead) {
  const auto text = [](const std::string& name) {
    return std::string(MappedFile(folder_ / name).text());
  };
  EXPECT_THAT(text("index.html"), testing::HasSubstr("<h1>planted</h1>"));
  EXPECT_THAT(text("atlas.js"), testing::StartsWith("headwiseAtlas({"));
  for (const AtlasHead& head : atlas_.heads) {
    const std::string script = text("heads/" + FileNameOf(head.head) + ".js");
    EXPECT_THAT(script, testing::StartsWith("headwiseHead({"));
    EXPECT_THAT(script, testing::Not(testing::HasSubstr("<")));
    EXPECT_THAT(script, testing::EndsWith("});\n"));
  }
}

TEST(Atlas, RefusesWhatItCannotShow) {
  Transformer model(Source() / "assets/planted");
  EXPECT_THROW(MakeAtlas(model, TextInput::Ids({1, 2, 3}), "nowhere"), Error);
  EXPECT_THROW(MakeAtlas(model, TextInput::Files({"-"}), "nowhere"), Error);
  AtlasJob job;
  job.intervals = 0;
  EXPECT_THROW(MakeAtlas(model, Lamp(), "nowhere", job), Error);
  EXPECT_FALSE(std::filesystem::exists("nowhere"));
}

}  // namespace
}  // namespace headwise::atlas_files_test
