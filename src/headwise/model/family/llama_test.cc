// Which layers of Mistral and Qwen have a window, as transformers reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/error.h"
#include "headwise/model/family.h"

namespace headwise::llama_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json Config(const char* type, const Json& more) {
  Json config = {{"model_type", type},       {"hidden_size", 16},
                 {"intermediate_size", 24},  {"num_hidden_layers", 3},
                 {"num_attention_heads", 2}, {"vocab_size", 9}};
  config.update(more);
  return config;
}

std::vector<int64_t> Windows(const char* type, const Json& more) {
  std::vector<int64_t> windows;
  for (const LayerShape& layer : ReadConfig(Config(type, more), "c").layers) {
    windows.push_back(layer.window);
  }
  return windows;
}

std::string Refusal(const char* type, const Json& more) {
  try {
    ReadConfig(Config(type, more), "c");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WindowedLayers, QwenHasThemFromMaxWindowLayersOn) {
  Json config = {{"use_sliding_window", true}, {"sliding_window", 5}};
  for (const auto& [first, windows] : std::map<int, std::vector<int64_t>>{
           {0, {5, 5, 5}}, {2, {0, 0, 5}}, {9, {0, 0, 0}}}) {
    config["max_window_layers"] = first;
    EXPECT_EQ(Windows("qwen2", config), windows) << first;
  }
  config["max_window_layers"] = -1;
  EXPECT_THAT(Refusal("qwen2", config), HasSubstr("from 0 to"));
  // Left out, it is 28, and the window 4096.
  EXPECT_THAT(
      Windows("qwen3", {{"use_sliding_window", true}, {"sliding_window", 5}}),
      ElementsAre(0, 0, 0));
  EXPECT_THAT(Windows("qwen3",
                      {{"use_sliding_window", true}, {"max_window_layers", 2}}),
              ElementsAre(0, 0, 4096));
}

TEST(WindowedLayers, QwenHasNoneUnlessItUsesThem) {
  for (const Json& config :
       {Json{{"use_sliding_window", false},
             {"sliding_window", 5},
             {"max_window_layers", 0}},
        Json{{"sliding_window", 5}, {"max_window_layers", 0}},
        Json{{"use_sliding_window", false}, {"sliding_window", 0}},
        Json{{"use_sliding_window", true}, {"sliding_window", nullptr}}}) {
    EXPECT_THAT(Windows("qwen2", config), ElementsAre(0, 0, 0)) << config;
  }
}

TEST(WindowedLayers, MistralHasThemInEveryLayer) {
  EXPECT_THAT(Windows("mistral", {{"sliding_window", 5}}),
              ElementsAre(5, 5, 5));
  EXPECT_THAT(Windows("mistral", {{"sliding_window", nullptr}}),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(Windows("mistral", Json::object()),
              ElementsAre(4096, 4096, 4096));
}

TEST(WindowedLayers, LlamaHasNone) {
  EXPECT_THAT(Windows("llama", Json::object()), ElementsAre(0, 0, 0));
  EXPECT_THAT(Windows("llama", {{"sliding_window", 5}}), ElementsAre(0, 0, 0));
}

TEST(WindowedLayers, TypesOfLayersAreTakenAtTheirWordOrRefused) {
  const Json mixed = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_THAT(Windows("qwen2", {{"use_sliding_window", true},
                                {"sliding_window", 5},
                                {"layer_types", mixed}}),
              ElementsAre(0, 5, 0));
  EXPECT_THAT(Refusal("qwen2", {{"use_sliding_window", false},
                                {"sliding_window", 5},
                                {"layer_types", mixed}}),
              HasSubstr("needs sliding_window and, in Qwen, use_sliding"));
  EXPECT_THAT(Refusal("qwen2", {{"layer_types",
                                 {"full_attention", "linear_attention", "x"}}}),
              HasSubstr("full_attention or sliding_attention for each layer"));
  EXPECT_THAT(Refusal("qwen2", {{"layer_types", {"full_attention"}}}),
              HasSubstr("one type a layer"));
}

}  // namespace
}  // namespace headwise::llama_test
