#include "headwise/heads/similarity/similarity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numbers>

#include "headwise/base/distribution.h"
#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/heads/similarity/content.h"
#include "headwise/heads/similarity/output.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/model/planted.h"
#include "headwise/runtime/activations.h"
#include "headwise/tensor/matrix.h"

namespace headwise::similarity_test {
namespace {

std::filesystem::path Source() { return HEADWISE_SOURCE; }

std::vector<TokenWindow> PlantedWindows(const Model& model, int64_t context) {
  const std::filesystem::path folder = Source() / "assets" / "planted";
  const auto tokenizer = Tokenizer::Load(folder);
  const WindowCutter cutter(*tokenizer, model.config(), {.context = context});
  Document document;
  document.text = MappedFile(folder / "vocabulary.txt").text();
  return cutter.Cut(document);
}

TEST(LinearCka, EqualsAHandComputation) {
  // Centred: a = (−1, 0, 1), b = (−1, 1, 0) twice over: K_a·K_b = ⟨a, b⟩².
  Tensor a(DType::kF32, {3, 1}), b(DType::kF32, {3, 2}), c(DType::kF32, {3, 1});
  for (int i = 0; i < 3; ++i) {
    a.As<float>()[i] = std::vector<float>{4, 5, 6}[i];
    b.As<float>()[2 * i] = std::vector<float>{0, 2, 1}[i];
    b.As<float>()[2 * i + 1] = std::vector<float>{5, 11, 8}[i];
    c.As<float>()[i] = 3;
  }
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(a));
  outputs.push_back(std::move(b));
  outputs.push_back(std::move(c));
  Context context;
  const Matrix cka = LinearCka(context, outputs);
  EXPECT_NEAR(cka(0, 0), 1, 1e-6);
  EXPECT_NEAR(cka(1, 1), 1, 1e-6);
  EXPECT_NEAR(cka(0, 1), .25, 1e-6);   // (1 / √2√2)²
  EXPECT_TRUE(std::isnan(cka(0, 2)));  // a constant
}

TEST(PrincipalAngles, OfPlanesInSpace) {
  // The plane of x and y beside one turned by 30° about x.
  const double c = std::cos(std::numbers::pi / 6), s = .5;
  Matrix flat(3, 3), turned(2, 3);
  flat.values = {2, 0, 0, 1, 1, 0, 3, 1, 0};  // rank 2
  turned.values = {1, 0, 0, 0, c, s};
  const Matrix basis = RowBasis(flat);
  ASSERT_EQ(basis.rows, 2);
  const std::vector<double> angles = PrincipalAngles(basis, turned);
  ASSERT_EQ(angles.size(), 2u);
  EXPECT_NEAR(angles[0], 0, 1e-7);
  EXPECT_NEAR(angles[1], std::numbers::pi / 6, 1e-7);
  Context context;
  const std::vector<Matrix> spaces = {basis, turned, RowBasis(Matrix(2, 3))};
  const Matrix mean = MeanSquaredCosines(context, spaces);
  EXPECT_NEAR(mean(0, 1), (1 + c * c) / 2, 1e-6);
  EXPECT_NEAR(mean(1, 1), 1, 1e-6);
  EXPECT_TRUE(std::isnan(mean(0, 2)));
}

class PlantedSimilarity : public ::testing::Test {
 protected:
  Context context_;
  std::unique_ptr<Model> model_ = OpenModel(Source() / "assets" / "planted");
};

TEST_F(PlantedSimilarity, EqualsDenseMaps) {
  const auto windows = PlantedWindows(*model_, 48);
  const std::span<const TokenWindow> two = std::span(windows).first(2);
  SimilarityJob options;
  options.rows = 1000;  // all
  const HeadSimilarity found = CompareHeads(context_, *model_, two, options);
  const auto heads = static_cast<int64_t>(found.heads.size());
  Matrix bhattacharyya(heads, heads), jsd(heads, heads);
  double rows = 0;
  for (const TokenWindow& window : two) {
    const std::vector<int64_t> lengths = {window.source.size()};
    const int64_t n = lengths[0];
    const auto maps = RecordActivations(
        context_, *model_, {.ids = window.source.ids, .lengths = lengths},
        {"*.probs"});
    auto row = [&](int64_t head, int64_t query) {
      const Tensor& map =
          maps.at("layer." + std::to_string(head / 8) + ".attention.probs");
      const float* p = map.As<float>() + ((head % 8) * n + query) * n;
      return std::vector<double>(p, p + n);
    };
    for (int64_t i = 7; i < n; ++i) {
      for (int64_t a = 0; a < heads; ++a) {
        for (int64_t b = 0; b < heads; ++b) {
          const std::vector<double> p = row(a, i), q = row(b, i);
          for (int64_t j = 0; j < n; ++j) {
            bhattacharyya(a, b) += std::sqrt(p[j] * q[j]);
          }
          jsd(a, b) += JensenShannon(p, q);
        }
      }
      rows += 1;
    }
  }
  EXPECT_EQ(found.rows, rows);
  EXPECT_EQ(found.sampled_rows, rows);
  for (double& value : bhattacharyya.values) value /= rows;
  for (double& value : jsd.values) value /= rows;
  EXPECT_LE(MaxDifference(FromTensor(found.bhattacharyya), bhattacharyya),
            1e-5);
  EXPECT_LE(MaxDifference(FromTensor(found.jsd), jsd), 1e-5);
  for (size_t i = 0; i < jsd.values.size(); ++i) {
    const double below = 1 - bhattacharyya.values[i];
    EXPECT_LE(std::log(2) * below, jsd.values[i] + 1e-5);
    EXPECT_LE(jsd.values[i], below + 1e-5);
  }
}

// A small causal model that chooses its heads and how far they look.
struct ChoosingModel {
  explicit ChoosingModel(const Json& choice) {
    const ModelConfig config = ReadConfig({{"model_type", "llama"},
                                           {"hidden_size", 16},
                                           {"intermediate_size", 16},
                                           {"num_hidden_layers", 2},
                                           {"num_attention_heads", 2},
                                           {"vocab_size", 20},
                                           {"tie_word_embeddings", true},
                                           {"max_position_embeddings", 64},
                                           {"headwise", choice}},
                                          "config.json");
    store = ParameterStore::Fresh(config, {.deviation = 0.5f});
    model = BuildModel(config, store);
    Rng rng(2);
    std::vector<int32_t> ids(40);
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.Below(20));
    window = WindowOfIds(std::move(ids));
  }
  void Set(const std::string& name, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(),
              store->entries().at("headwise." + name).value.As<float>());
  }
  HeadSimilarity Compare() const {
    SimilarityJob options;
    options.rows = 1000;
    Context context;
    return CompareHeads(context, *model, {&window, 1}, options);
  }

  std::shared_ptr<ParameterStore> store;
  std::unique_ptr<Model> model;
  TokenWindow window;
};

// Gates of the last layer change no pattern.
TEST(ChoosingSimilarity, SeesHeadsThatAreClosed) {
  ChoosingModel choosing(Json{{"gates", "hard_concrete"}});
  const HeadSimilarity open = choosing.Compare();
  choosing.Set("layer.1.attention.log_alpha", {3, -9});
  const HeadSimilarity closed = choosing.Compare();
  EXPECT_LE(MaxDifference(FromTensor(open.bhattacharyya),
                          FromTensor(closed.bhattacharyya)),
            1e-6);
  EXPECT_LE(MaxDifference(FromTensor(open.jsd), FromTensor(closed.jsd)), 1e-6);
  Context context;
  const std::vector<int64_t> lengths = {choosing.window.source.size()};
  const auto maps = RecordActivations(
      context, *choosing.model,
      {.ids = choosing.window.source.ids, .lengths = lengths}, {"*.probs"});
  const Tensor& map = maps.at("layer.1.attention.probs");
  EXPECT_FLOAT_EQ(map.As<float>()[40 * 40], 1) << "the first row of head 1";
}

TEST(ChoosingSimilarity, FollowsSpans) {
  ChoosingModel choosing(Json{{"span_ramp", 4}});
  choosing.Set("layer.0.attention.span", {1, .1f});
  choosing.Set("layer.1.attention.span", {.2f, .05f});
  const HeadSimilarity found = choosing.Compare();
  Context context;
  const std::vector<int64_t> lengths = {choosing.window.source.size()};
  const int64_t n = lengths[0];
  const auto maps = RecordActivations(
      context, *choosing.model,
      {.ids = choosing.window.source.ids, .lengths = lengths}, {"*.probs"});
  const auto row = [&](int64_t head, int64_t query) {
    const Tensor& map =
        maps.at("layer." + std::to_string(head / 2) + ".attention.probs");
    const float* p = map.As<float>() + (head % 2 * n + query) * n;
    return std::vector<double>(p, p + n);
  };
  for (int64_t a = 0; a < 4; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      double bhattacharyya = 0, jsd = 0;
      for (int64_t i = 7; i < n; ++i) {
        const std::vector<double> p = row(a, i), q = row(b, i);
        for (int64_t j = 0; j < n; ++j) bhattacharyya += std::sqrt(p[j] * q[j]);
        jsd += JensenShannon(p, q);
      }
      const auto rows = static_cast<double>(n - 7);
      EXPECT_NEAR(FromTensor(found.bhattacharyya)(a, b), bhattacharyya / rows,
                  1e-5);
      EXPECT_NEAR(FromTensor(found.jsd)(a, b), jsd / rows, 1e-5);
    }
  }
}

TEST_F(PlantedSimilarity, FindsTheTwin) {
  const auto windows = PlantedWindows(*model_, 256);
  const HeadSimilarity found = CompareHeads(context_, *model_, windows);
  ASSERT_FALSE(found.twins.empty());
  const HeadPair& twin = found.twins[0];
  EXPECT_EQ(found.heads[twin.a],
            (HeadRef{AttentionKind::kSelf, kPlantedTwins.layer,
                     kPlantedTwins.first}));
  EXPECT_EQ(found.heads[twin.b],
            (HeadRef{AttentionKind::kSelf, kPlantedTwins.layer,
                     kPlantedTwins.second}));
  EXPECT_LT(twin.jsd, 1e-6);
  EXPECT_GT(twin.bhattacharyya, 1 - 1e-5);
  EXPECT_GT(twin.cka, 1 - 1e-5);
  EXPECT_GT(twin.ov_write, 1 - 1e-5);
  EXPECT_EQ(found.group[twin.a], found.group[twin.b]);
  // The sinks look alike; the previous-token head is like none but 1.3's rest.
  EXPECT_LT(FromTensor(found.jsd)(3, 14), .05);
  EXPECT_EQ(found.group[3], found.group[14]);
  EXPECT_NE(found.group[0], found.group[3]);
  // The dead head gives nothing to compare.
  EXPECT_TRUE(std::isnan(FromTensor(found.cka)(4, 0)));
  EXPECT_TRUE(std::isnan(FromTensor(found.ov_write)(4, 0)));
}

TEST_F(PlantedSimilarity, WantsRowsThatCount) {
  const std::vector<TokenWindow> windows = {WindowOfIds({0, 300, 301, 302}, 1)};
  EXPECT_THROW(CompareHeads(context_, *model_, windows), Error);
}

TEST(SimilarityJob, HasRanges) {
  for (const SimilarityJob& job :
       {SimilarityJob{.rows = -4}, SimilarityJob{.rows = 0},
        SimilarityJob{.samples = 0}, SimilarityJob{.min_visible = -1},
        SimilarityJob{.twin = -1}, SimilarityJob{.twin = NAN},
        SimilarityJob{.cut = 1.5}}) {
    EXPECT_THROW(CheckFields(job, "similar"), Error);
  }
}

TEST_F(PlantedSimilarity, TakesAsManyRowsAsThereAre) {
  // More rows and tokens than are taken by default.
  std::vector<TokenWindow> windows = PlantedWindows(*model_, 64);
  ASSERT_GT(windows.size(), 6u);
  windows.resize(6);
  const SimilarityJob all{.rows = INT64_MAX, .samples = INT64_MAX};
  EXPECT_EQ(CompareHeads(context_, *model_, windows, all).sampled_rows,
            CompareHeads(context_, *model_, windows).rows);
}

TEST_F(PlantedSimilarity, Stops) {
  std::stop_source stop;
  stop.request_stop();
  PassOptions options;
  options.stop = stop.get_token();
  const std::vector<TokenWindow> windows = PlantedWindows(*model_, 64);
  EXPECT_THROW(CompareHeads(context_, *model_, windows, {}, options), Error);
}

TEST(EncoderDecoderSimilarity, ComparesHeadsOfOneKind) {
  const auto model = OpenModel(Source() / "tests/conformance/goldens/marian");
  TokenWindow window = WindowOfIds({5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  window.target = WindowOfIds({3, 20, 21, 22, 23, 24, 25, 26, 27}).source;
  Context context;
  const HeadSimilarity found = CompareHeads(context, *model, {&window, 1});
  for (size_t a = 0; a < found.heads.size(); ++a) {
    for (size_t b = 0; b < found.heads.size(); ++b) {
      const bool same = found.heads[a].kind == found.heads[b].kind;
      const auto i = static_cast<int64_t>(a), j = static_cast<int64_t>(b);
      EXPECT_EQ(std::isnan(FromTensor(found.jsd)(i, j)), !same);
      EXPECT_EQ(std::isnan(FromTensor(found.cka)(i, j)), !same);
      EXPECT_EQ(std::isnan(FromTensor(found.ov_read)(i, j)), !same);
      if (!same) {
        EXPECT_NE(found.group[a], found.group[b]);
      }
    }
  }
  EXPECT_TRUE(ToJson(found)["jsd"][0].back().is_null());
}

}  // namespace
}  // namespace headwise::similarity_test
