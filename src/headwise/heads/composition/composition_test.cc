#include "headwise/heads/composition/composition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/nn/gated_sites.h"
#include "headwise/nn/head_weights.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/matrix.h"

namespace headwise::composition_test {
namespace {

std::filesystem::path Source() { return HEADWISE_SOURCE; }
std::filesystem::path Planted() { return Source() / "assets" / "planted"; }
std::unique_ptr<Model> Golden(const std::string& name) {
  return OpenModel(Source() / "tests/conformance/goldens" / name);
}

std::vector<TokenWindow> PlantedWindows(const Model& model, int64_t context) {
  const auto tokenizer = Tokenizer::Load(Planted());
  const WindowCutter cutter(*tokenizer, model.config(), {.context = context});
  Document document;
  document.text = MappedFile(Planted() / "vocabulary.txt").text();
  return cutter.Cut(document);
}

double Norm2(const Matrix& a) {
  double sum = 0;
  for (const double value : a.values) sum += value * value;
  return std::sqrt(sum);
}

// w as it acts before the layer's norm, by its definition.
Matrix ThroughNorm(Context& context, const Model& model, int64_t layer,
                   const Tensor& w) {
  const Tensor gain =
      model.stack().blocks[layer].steps()[0].before.Gain(context);
  const float* scale = gain.As<float>();
  const Matrix plain = FromTensor(w);
  Matrix norm(plain.rows, plain.rows);
  for (int64_t r = 0; r < norm.rows; ++r) {
    for (int64_t c = 0; c < norm.rows; ++c) {
      const bool centres = model.config().norm == NormKind::kLayer;
      norm(r, c) = ((r == c ? 1 : 0) -
                    (centres ? 1 / static_cast<double>(norm.rows) : 0)) *
                   scale[c];
    }
  }
  return norm * plain;
}

class DenseComposition : public ::testing::TestWithParam<const char*> {};

TEST_P(DenseComposition, EqualsProductsOfWholeMatrices) {
  const auto model = Golden(GetParam());
  Context context;
  const Composition found = MeasureComposition(context, *model);
  const int64_t layers = static_cast<int64_t>(model->config().layers.size());
  size_t pairs = 0;
  for (int64_t to = 1; to < layers; ++to) {
    pairs += to * model->config().layers[0].heads *
             model->config().layers[0].heads * 3;
  }
  EXPECT_EQ(found.edges.size(), pairs);
  for (const HeadEdge& edge : found.edges) {
    const HeadRef &from = found.heads[edge.sender],
                  &to = found.heads[edge.receiver];
    auto weights = [&](const HeadRef& head) {
      return WeightsOfHead(
          context, model->stack().blocks[head.layer].attention(), head.head);
    };
    const HeadWeights a = weights(from), b = weights(to);
    const Matrix sends =
        ThroughNorm(context, *model, from.layer, a.v) * FromTensor(a.o);
    const Matrix q = ThroughNorm(context, *model, to.layer, b.q);
    const Matrix k = ThroughNorm(context, *model, to.layer, b.k);
    const Matrix reads =
        edge.input == HeadInput::kQuery ? q * Transpose(k)
        : edge.input == HeadInput::kKey
            ? k * Transpose(q)
            : ThroughNorm(context, *model, to.layer, b.v) * FromTensor(b.o);
    EXPECT_NEAR(edge.score,
                Norm2(sends * reads) / (Norm2(sends) * Norm2(reads)), 1e-5)
        << ToString(from) << " → " << ToString(to) << " " << Name(edge.input);
  }
}

// LayerNorm; root mean square, rotary and grouped queries; normed queries; one
// norm for both halves; latents.
INSTANTIATE_TEST_SUITE_P(Families, DenseComposition,
                         testing::Values("gpt2", "gpt_neox", "gpt_neox-serial",
                                         "llama", "qwen3", "gptj",
                                         "deepseek_v3"));

TEST(Composition, SharedKeysAreNamedOnce) {
  const auto model = Golden("llama");  // 4 heads on 2 of keys and values
  Context context;
  const Composition found = MeasureComposition(context, *model);
  EXPECT_EQ(found.Sharing(6), (std::vector<size_t>{6, 7}));
  std::set<std::tuple<size_t, HeadInput, size_t>> fed;
  size_t shared = 0;
  for (const EdgeRow& row : found.Rows(found.edges.size())) {
    EXPECT_EQ(row.receivers.size(),
              row.edge.input == HeadInput::kQuery ? 1u : 2u);
    shared += row.receivers.size() == 2;
    for (const size_t receiver : row.receivers) {
      EXPECT_TRUE(
          fed.insert({row.edge.sender, row.edge.input, receiver}).second);
    }
  }
  EXPECT_GT(shared, 0u);
  const auto groups = ToJson(found)["key_groups"];
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].dump(), "[\"0.0\",\"0.1\"]");
  EXPECT_FALSE(found.query_norms);
}

TEST(Composition, SaysThatQueriesAreNormed) {
  Context context;
  const Composition found = MeasureComposition(context, *Golden("qwen3"));
  EXPECT_TRUE(found.query_norms);
  EXPECT_TRUE(ToJson(found)["query_norms"].get<bool>());
}

TEST(Composition, BaselineIsWhatRandomMatricesGive) {
  constexpr int64_t kWidth = 48, kDim = 6;
  Rng rng(11);
  double squares = 0;
  constexpr int kDraws = 200;
  for (int i = 0; i < kDraws; ++i) {
    const Matrix sends =
        RandomNormal(kWidth, kDim, rng) * RandomNormal(kDim, kWidth, rng);
    const Matrix reads =
        RandomNormal(kWidth, kDim, rng) * RandomNormal(kDim, kWidth, rng);
    squares +=
        std::pow(Norm2(sends * reads) / (Norm2(sends) * Norm2(reads)), 2);
  }
  EXPECT_NEAR(std::sqrt(squares / kDraws), 1 / std::sqrt(kWidth), .005);
}

TEST(Composition, FindsThePlantedPair) {
  const auto model = OpenModel(Planted());
  Context context;
  const Composition found = MeasureComposition(context, *model);
  const auto top = std::find_if(
      found.edges.begin(), found.edges.end(),
      [](const HeadEdge& e) { return e.input == HeadInput::kKey; });
  EXPECT_EQ(ToString(found.heads[top->sender]), "0.0");
  EXPECT_EQ(ToString(found.heads[top->receiver]), "1.0");
  EXPECT_GT(found.Over(*top), .1);
  EXPECT_EQ(top, found.edges.begin());
  for (const HeadEdge& edge : found.edges) {
    EXPECT_NE(ToString(found.heads[edge.sender]), "0.4") << "it is dead";
  }
}

// Keys of head 0 of the second layer, and outputs of head 0 of the first.
struct FirstHeads {
  std::vector<float> keys, outputs;
};

// Of a run in which the mean, if there is one, stands in for the first head.
FirstHeads RunFirstHeads(Context& context, const Model& model,
                         std::span<const int32_t> ids,
                         std::vector<float> mean) {
  FirstHeads heads;
  ActivationTaker taker(
      [](std::string_view name) {
        return name == "layer.1.attention.key" ||
               name == "layer.0.attention.head_output";
      },
      [&](std::string_view name, ConstTensorView value) {
        auto& to = name.ends_with("key") ? heads.keys : heads.outputs;
        for (int64_t r = 0; r < value.shape[0]; ++r) {
          const float* from = value.As<float>() + r * value.stride[0];
          to.insert(to.end(), from, from + value.shape[2]);
        }
      });
  GatedSites gates;
  if (!mean.empty()) {
    const int64_t count = model.stack().blocks[0].attention().config().heads;
    gates.Open("layer.0.attention", count)[0] = 0;
    mean.resize(count * 32);
    gates.sites["layer.0.attention"].replacement =
        View(std::as_const(mean).data(), {count, 32});
  }
  const std::vector<int64_t> lengths = {std::ssize(ids)};
  Forward(context, model,
          {.ids = ids, .lengths = lengths, .hooks = {&gates, &taker}});
  return heads;
}

TEST(Composition, EffectsEqualARunWithoutTheSender) {
  const auto model = OpenModel(Planted());
  Context context;
  Composition found = MeasureComposition(context, *model);
  const auto windows = PlantedWindows(*model, 64);
  MeasureEffects(context, *model, std::span(windows).first(1), {}, found);
  EXPECT_EQ(found.effect_tokens, 64);
  const auto run = [&](std::vector<float> mean) {
    return RunFirstHeads(context, *model, windows[0].source.ids,
                         std::move(mean));
  };
  const FirstHeads clean = run({});
  std::vector<float> mean(32);
  for (size_t i = 0; i < clean.outputs.size(); ++i) {
    mean[i % 32] += clean.outputs[i] / 64;
  }
  const FirstHeads without = run(mean);
  double change = 0, size = 0;
  for (size_t i = 0; i < clean.keys.size(); ++i) {
    change += std::pow(without.keys[i] - clean.keys[i], 2);
    size += std::pow(clean.keys[i], 2);
  }
  SortByEffect(found);
  const HeadEdge& top = found.edges[0];
  EXPECT_EQ(ToString(found.heads[top.sender]), "0.0");
  EXPECT_EQ(top.input, HeadInput::kKey);
  for (const HeadEdge& edge : found.edges) {
    if (found.heads[edge.sender] != HeadRef{} ||
        ToString(found.heads[edge.receiver]) != "1.0" ||
        edge.input != HeadInput::kKey) {
      continue;
    }
    EXPECT_NEAR(edge.effect, std::sqrt(change / size), 1e-5);
    EXPECT_GT(edge.effect, .5);
  }
}

TEST(Composition, DotParses) {
  const auto model = OpenModel(Planted());
  Context context;
  const Composition found = MeasureComposition(context, *model);
  const std::string dot = ToDot(found, 12);
  std::istringstream lines(dot);
  const std::regex statement(
      R"(digraph heads \{|  rankdir=LR;|  (node|edge) \[.*\];)"
      R"(|  \{ rank=same;( "\d+\.\d+";)+ \})"
      R"(|  "\d+\.\d+" -> "\d+\.\d+" \[label="[qkv] \d\.\d\d", )"
      R"(style=\w+, penwidth=\d\.\d\d\];|\})");
  std::string line;
  int edges = 0;
  while (std::getline(lines, line)) {
    EXPECT_TRUE(std::regex_match(line, statement)) << line;
    edges += line.find("->") != line.npos ? 1 : 0;
  }
  EXPECT_EQ(edges, 2) << "no more than chance is not drawn";
  EXPECT_TRUE(dot.ends_with("}\n"));
}

TEST(Composition, EncodersFeedCrossKeysAndDecodersCrossQueries) {
  const auto model = Golden("marian");
  Context context;
  Composition found = MeasureComposition(context, *model);
  std::map<std::string, int> kinds;
  for (const HeadEdge& edge : found.edges) {
    const HeadRef &from = found.heads[edge.sender],
                  &to = found.heads[edge.receiver];
    ++kinds[std::string(Name(from.kind)) + " " + Name(to.kind) + " " +
            Name(edge.input)];
    EXPECT_TRUE(from.kind != to.kind || from.layer < to.layer);
  }
  EXPECT_GT(kinds["self cross k"], 0);
  EXPECT_GT(kinds["self cross v"], 0);
  EXPECT_EQ(kinds["self cross q"], 0);
  EXPECT_GT(kinds["decoder cross q"], 0);
  EXPECT_EQ(kinds["decoder cross k"], 0);
  EXPECT_GT(kinds["cross decoder v"], 0);
  EXPECT_EQ(kinds["self decoder v"], 0);
  TokenWindow window = WindowOfIds({5, 6, 7});
  EXPECT_THROW(MeasureEffects(context, *model, {&window, 1}, {}, found), Error);
}

}  // namespace
}  // namespace headwise::composition_test
