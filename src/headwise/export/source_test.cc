// What other programs do not compute is refused by the layer's name.
#include "headwise/export/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/layer_kinds_for_test.h"

namespace headwise::source_test {
namespace {

// A model of one layer.
Model ModelWith(const nn_test::Case& c, nn_test::TestValues& values) {
  Model::Parts parts = model_tests::PartsOfLayerKinds(values);
  parts.stack.blocks.clear();
  parts.stack.blocks.emplace_back(
      "layer.0", std::vector{AttentionStep(
                     NormPlace::kPost, {},
                     nn_test::MakeLayer(values, c, "layer.0.attention"))});
  return Model(std::move(parts));
}

template <typename Check>
std::string Refused(const nn_test::Case& c, Check&& check) {
  nn_test::TestValues values;
  const Model model = ModelWith(c, values);
  try {
    check(model, "folder");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ExportSource, WhatLayersHaveBeyondIsRefusedByName) {
  nn_test::Case c;
  EXPECT_EQ(Refused(c, RequirePlain), "");
  c.sinks = true;
  EXPECT_THAT(Refused(c, RequirePlain),
              testing::HasSubstr("layer.0.attention with sink logits"));
  c = {};
  c.gate = nn_test::Gate::kHead;
  EXPECT_THAT(Refused(c, RequirePlain), testing::HasSubstr("an output gate"));
  c = {};
  c.keys_are_values = true;
  EXPECT_THAT(Refused(c, RequirePlain), testing::HasSubstr("keys as values"));
}

TEST(ExportSource, AFormatOfOneWidthRefusesOthers) {
  nn_test::Case c;
  EXPECT_EQ(Refused(c, RequireOneWidth), "");
  c.value = 6;
  EXPECT_EQ(Refused(c, RequirePlain), "");
  EXPECT_THAT(Refused(c, RequireOneWidth),
              testing::HasSubstr("keys of 4 and values of 6"));
  c.dim = 6;
  EXPECT_THAT(Refused(c, RequireOneWidth),
              testing::HasSubstr("keys of 6 and values of 6"));
}

}  // namespace
}  // namespace headwise::source_test
