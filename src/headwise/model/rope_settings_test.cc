// Settings of rotary positions against what transformers makes of them
// (tools/make_goldens.py --rope), and those that are refused.
#include "headwise/model/rope_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"

namespace headwise::rope_settings_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHeadDim = 16;
constexpr RopeKeys kLlama = {.shares = false};
constexpr RopeKeys kNeoX = {
    .base = "rotary_emb_base", .share = "rotary_pct", .other_share = 0.25};
// Gemma 3's.
const RopeKind kKinds[] = {
    {"full_attention", kHeadDim, {.other_base = 1e6}},
    {"sliding_attention",
     kHeadDim,
     {.base = "rope_local_base_freq", .old_scaling = false}}};

std::vector<RopeConfig> Read(const Json& config) {
  const ConfigReader reader(config, "c");
  const std::string type = reader.Text("model_type", "");
  if (type == "gemma3_text") return ReadRopes(reader, kKinds);
  return {ReadRope(reader, kHeadDim, type == "gpt_neox" ? kNeoX : kLlama)};
}

TEST(RopeSettings, GiveTheFrequenciesOfTransformers) {
  const std::filesystem::path golden = std::filesystem::path(HEADWISE_SOURCE) /
                                       "tests/conformance/goldens/rope.json";
  int compared = 0;
  for (const Json& one : ReadJson(golden)) {
    SCOPED_TRACE(one["config"].dump());
    const std::vector<RopeConfig> ropes = Read(one["config"]);
    for (const Json& call : one["calls"]) {
      const auto length = call["length"].get<int64_t>();
      SCOPED_TRACE(length);
      const RopeConfig& rope = ropes.at(call["kind"].get<size_t>());
      EXPECT_NEAR(rope.scale, call["scale"].get<double>(), 1e-6);
      const std::vector<float> found = RopeFrequencies(rope, length);
      const auto expected = call["frequencies"].get<std::vector<float>>();
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_NEAR(found[i], expected[i], 2e-6 * expected[i]) << i;
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 25);
}

TEST(RopeSettings, OfASharePutTheRestAside) {
  RopeConfig rope = Read({{"model_type", "gpt_neox"}})[0];
  EXPECT_EQ(rope.head_dim, kHeadDim);
  EXPECT_EQ(rope.dims(), 4);
  rope = ReadRope(ConfigReader({{"rotary_dim", 6}}, "c"), kHeadDim,
                  {.dims = "rotary_dim",
                   .other_dims = 64,
                   .pairs = RopePairs::kNeighbours});
  EXPECT_EQ(rope.dims(), 6);
  EXPECT_EQ(rope.pairs, RopePairs::kNeighbours);
  rope = ReadRope(ConfigReader({{"partial_rotary_factor", 0.5}}, "c"), 20);
  EXPECT_EQ(rope.dims(), 10);
}

std::string Refusal(const Json& config) {
  try {
    Read(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "read";
}

Json Parameters(Json values) { return {{"rope_parameters", values}}; }

TEST(RopeSettings, ThatAreNotComputedAreRefusedByName) {
  const Json pairs = {1, 1, 1, 1, 1, 1, 1, 1};
  struct Setting {
    const char* name;
    Json config;
  };
  const Setting refused[] = {
      {"partial_rotary_factor", {{"partial_rotary_factor", 0.5}}},
      {"partial_rotary_factor", Parameters({{"partial_rotary_factor", 0.5}})},
      {"rope_type", Parameters({{"rope_type", "spiral"}})},
      {"mrope_section", Parameters({{"mrope_section", {1, 1, 2}}})},
      {"full_attention",
       Parameters({{"full_attention", {{"rope_type", "default"}}}})},
      {"factor", Parameters({{"rope_type", "linear"}, {"factor", -1}})},
      {"rope_theta", Parameters({{"rope_theta", 0}})},
      {"rope_scaling",
       {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
        {"rope_parameters", {{"rope_theta", 7}}}}},
      {"original_max_position_embeddings",
       Parameters({{"rope_type", "dynamic"},
                   {"factor", 2},
                   {"original_max_position_embeddings", 7}})},
      {"long_factor",
       Parameters({{"rope_type", "longrope"}, {"short_factor", pairs}})},
      {"short_factor",
       Parameters({{"rope_type", "longrope"}, {"short_factor", {1, 2}}})},
      {"attention_factor", Parameters({{"rope_type", "longrope"},
                                       {"short_factor", pairs},
                                       {"long_factor", pairs},
                                       {"attention_factor", 0}})},
      {"partial_rotary_factor", Parameters({{"rope_type", "proportional"},
                                            {"partial_rotary_factor", 0.01}})},
      {"rotary_pct", {{"model_type", "gpt_neox"}, {"rotary_pct", 0.2}}},
      {"rotary_pct", {{"model_type", "gpt_neox"}, {"rotary_pct", 1.5}}},
      {"rotary_pct",
       {{"model_type", "gpt_neox"},
        {"rotary_pct", 0.5},
        {"rope_parameters", {{"partial_rotary_factor", 0.25}}}}},
      {"rope_type",
       {{"model_type", "gpt_neox"},
        {"rotary_pct", 0.125},
        {"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}},
      {"rope_type",
       {{"model_type", "gemma3_text"},
        {"rope_parameters", {{"rope_type", "linear"}, {"factor", 2}}}}},
      {"chunked_attention",
       {{"model_type", "gemma3_text"},
        {"rope_parameters", {{"chunked_attention", Json::object()}}}}}};
  for (const Setting& one : refused) {
    EXPECT_THAT(Refusal(one.config),
                HasSubstr("\"" + std::string(one.name) + "\" to be "))
        << one.config;
  }
}

TEST(RopeSettings, ThatSayWhatIsDoneAnywayAreRead) {
  for (const Json& config :
       {Json{{"partial_rotary_factor", 1.0}},
        Parameters({{"rope_type", "linear"},
                    {"factor", 2},
                    {"attention_factor", 3},
                    {"finetuned", true},
                    {"mrope_section", nullptr}}),
        Json{{"max_position_embeddings", 9},
             {"rope_scaling",
              {{"type", "dynamic"},
               {"factor", 2},
               {"original_max_position_embeddings", 9}}}}}) {
    EXPECT_EQ(Refusal(config), "read") << config;
  }
}

// Layers of one model that turn by the first way, by another, and not at all.
TEST(RopesOfAModel, AreThoseThatItsLayersName) {
  ModelConfig config = ReadConfig({{"model_type", "llama"},
                                   {"hidden_size", 8},
                                   {"intermediate_size", 8},
                                   {"num_hidden_layers", 4},
                                   {"num_attention_heads", 2},
                                   {"vocab_size", 9}},
                                  "c");
  ASSERT_EQ(config.ropes.size(), 1);
  config.ropes.push_back(config.ropes[0]);
  config.ropes[1].base = 7;
  config.layers[1].rope = 1;
  config.layers[2].rope = kNoRope;
  const auto store = ParameterStore::Fresh(config, {});
  const auto model = BuildModel(config, store);
  std::vector<const RopeTable*> tables;
  for (const Block& block : model->stack().blocks) {
    tables.push_back(block.attention().weights().rope.get());
  }
  EXPECT_NE(tables[0], tables[1]);
  EXPECT_THAT(tables, ElementsAre(tables[3], tables[1], nullptr, tables[0]));
  Context context({1, ""});
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{1});
  EXPECT_EQ(tables[1]->frequencies(context, batch).As<float>()[1],
            RopeFrequencies(config.ropes[1])[1]);
}

}  // namespace
}  // namespace headwise::rope_settings_test
