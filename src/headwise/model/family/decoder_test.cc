// Layers and defaults of the decoders that share a skeleton, as transformers
// reads them, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/error.h"
#include "headwise/model/family.h"

namespace headwise::decoder_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json Config(const char* type, int layers, const Json& more = Json::object()) {
  Json config = {{"model_type", type},
                 {"hidden_size", 16},
                 {"intermediate_size", 24},
                 {"num_hidden_layers", layers},
                 {"num_attention_heads", 32},
                 {"vocab_size", 9},
                 {"head_dim", 8},
                 {"num_key_value_heads", 2}};
  config.update(more);
  return config;
}

ModelConfig Read(const char* type, int layers,
                 const Json& more = Json::object()) {
  return ReadConfig(Config(type, layers, more), "c");
}

std::vector<int64_t> Windows(const ModelConfig& config) {
  std::vector<int64_t> windows;
  for (const LayerShape& layer : config.layers) {
    windows.push_back(layer.window);
  }
  return windows;
}

std::vector<int64_t> Ropes(const ModelConfig& config) {
  std::vector<int64_t> ropes;
  for (const LayerShape& layer : config.layers) ropes.push_back(layer.rope);
  return ropes;
}

std::string Refusal(const char* type, const Json& more) {
  try {
    Read(type, 2, more);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DecoderLayers, HaveWindowsWhereTransformersHasThem) {
  EXPECT_THAT(Windows(Read("gemma2", 4)), ElementsAre(4096, 0, 4096, 0));
  EXPECT_THAT(Windows(Read("gemma3_text", 4, {{"sliding_window_pattern", 3}})),
              ElementsAre(4096, 4096, 0, 4096));
  EXPECT_THAT(Windows(Read("olmo3", 4)), ElementsAre(4096, 4096, 4096, 0));
  EXPECT_THAT(Windows(Read("gpt_oss", 3)), ElementsAre(128, 0, 128));
  EXPECT_THAT(Windows(Read("ministral", 2, {{"sliding_window", 5}})),
              ElementsAre(5, 5));
  const Json sliding = {{"use_sliding_window", true}, {"sliding_window", 7}};
  EXPECT_THAT(Windows(Read("qwen3_moe", 2, sliding)), ElementsAre(7, 7));
  EXPECT_THAT(Windows(Read("qwen3_moe", 2)), ElementsAre(0, 0));
  Json first = sliding;
  first["max_window_layers"] = 2;
  EXPECT_THAT(Windows(Read("qwen2_moe", 4, first)), ElementsAre(7, 0, 0, 0));
  // The last layer sees all.
  EXPECT_THAT(Windows(Read(
                  "gemma4_text", 2,
                  {{"hidden_size_per_layer_input", 0}, {"sliding_window", 5}})),
              ElementsAre(5, 0));
}

TEST(DecoderLayers, TurnWhereTransformersTurnsThem) {
  EXPECT_THAT(Ropes(Read("smollm3", 5)), ElementsAre(0, 0, 0, kNoRope, 0));
  EXPECT_THAT(Ropes(Read("smollm3", 2, {{"no_rope_layers", {0, 1}}})),
              ElementsAre(kNoRope, 0));
  // Cohere2: with a window alone; Gemma 3: such layers by positions of theirs.
  EXPECT_THAT(Ropes(Read("cohere2", 4,
                         {{"head_dim", nullptr}, {"num_attention_heads", 2}})),
              ElementsAre(0, 0, 0, kNoRope));
  const ModelConfig gemma = Read("gemma3_text", 6);
  EXPECT_THAT(Ropes(gemma), ElementsAre(1, 1, 1, 1, 1, 0));
  EXPECT_EQ(gemma.ropes[0].base, 1e6);
  EXPECT_EQ(gemma.ropes[1].base, 1e4);
}

TEST(DecoderLayers, AreMixturesWhereTransformersMakesThem) {
  const auto mixtures = [](const ModelConfig& config) {
    std::vector<bool> layers;
    for (const LayerShape& layer : config.layers) {
      layers.push_back(layer.mixture);
    }
    return layers;
  };
  EXPECT_THAT(mixtures(Read("mixtral", 2)), ElementsAre(true, true));
  EXPECT_THAT(mixtures(Read("qwen3_moe", 4, {{"decoder_sparse_step", 2}})),
              ElementsAre(false, true, false, true));
  EXPECT_THAT(mixtures(Read("qwen2_moe", 3, {{"mlp_only_layers", {0, 2}}})),
              ElementsAre(false, true, false));
  // Columns that serve a token.
  EXPECT_EQ(Read("qwen2_moe", 1,
                 {{"num_experts_per_tok", 3},
                  {"moe_intermediate_size", 5},
                  {"shared_expert_intermediate_size", 7}})
                .layers[0]
                .hidden,
            3 * 5 + 7);
}

TEST(DecoderLayers, ShareKeysOfTheLastOfTheirKind) {
  const ModelConfig config =
      Read("gemma4_text", 6,
           {{"hidden_size_per_layer_input", 0},
            {"num_kv_shared_layers", 2},
            {"use_double_wide_mlp", true},
            {"layer_types",
             {"sliding_attention", "full_attention", "sliding_attention",
              "sliding_attention", "sliding_attention", "full_attention"}}});
  EXPECT_EQ(config.layers[4].keys_of, 3);
  EXPECT_EQ(config.layers[5].keys_of, 1);
  EXPECT_EQ(config.layers[3].keys_of, -1);
  EXPECT_EQ(config.layers[4].hidden, 48);
  EXPECT_EQ(config.HeadDim(config.layers[5]), 512);
}

TEST(DecoderRefusals, NameTheKey) {
  EXPECT_THAT(Refusal("gemma", {{"use_bidirectional_attention", true}}),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(Refusal("gemma4_text", Json::object()),
              HasSubstr("hidden_size_per_layer_input"));
  EXPECT_THAT(Refusal("gemma4_text", {{"hidden_size_per_layer_input", 0},
                                      {"enable_moe_block", true}}),
              HasSubstr("enable_moe_block"));
  EXPECT_THAT(Refusal("mixtral", {{"num_experts_per_tok", 9}}),
              HasSubstr("num_experts_per_tok"));
  EXPECT_THAT(Refusal("smollm3", {{"layer_types",
                                   {"sliding_attention", "full_attention"}}}),
              HasSubstr("use_sliding_window"));
  EXPECT_THAT(Refusal("gpt_oss", {{"hidden_act", "gelu"}}),
              HasSubstr("hidden_act"));
  EXPECT_THAT(Refusal("phi3", {{"rope_scaling",
                                {{"type", "linear"}, {"factor", 2.0}}}}),
              HasSubstr("rope_type"));
  EXPECT_THAT(Refusal("cohere2", {{"head_dim", 5}}), HasSubstr("head_dim"));
  // Only gpt-oss, and of its quantizations one.
  const Json mxfp4 = {{"quantization_config", {{"quant_method", "mxfp4"}}}};
  EXPECT_EQ(Refusal("gpt_oss", mxfp4), "");
  EXPECT_THAT(Refusal("llama", mxfp4), HasSubstr("quantization_config"));
  EXPECT_THAT(
      Refusal("gpt_oss", {{"quantization_config", {{"quant_method", 4}}}}),
      HasSubstr("quantization_config"));
}

}  // namespace
}  // namespace headwise::decoder_test
