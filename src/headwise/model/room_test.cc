// What work is said to take of a device's memory, against sums by hand, and
// what is said where it is not there.
#include "headwise/model/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/tensor/slice.h"

namespace headwise::room_test {
namespace {

using testing::HasSubstr;

// Width 8; layers of 2 and of 1 heads of 4; feed-forward 32.
ModelConfig Small() {
  ModelConfig config;
  config.width = 8;
  config.head_dim = 4;
  config.hidden = 32;
  config.layers.resize(2);
  config.layers[0].heads = config.layers[0].kv_heads = 2;
  config.layers[1].heads = config.layers[1].kv_heads = 1;
  return config;
}

TEST(Room, APassTakesTheStreamItsNormAndTheWidestHalf) {
  ModelConfig config = Small();
  // 2 · 8, and 32 + 32 of the feed-forward half.
  EXPECT_EQ(PassNumbers(config, 10), 10 * (16 + 64));
  config.gated = true;
  EXPECT_EQ(PassNumbers(config, 10), 10 * (16 + 96));
  // Heads now: (2 + 2 · 1 · 2) · 4 projected, 2 · 4 mixed.
  config.hidden = 2;
  EXPECT_EQ(PassNumbers(config, 10), 10 * (16 + 32));
}

TEST(Room, ACallKeepsItsProjections) {
  ModelConfig config = Small();
  EXPECT_EQ(CallNumbers(config, 10), 10 * 6 * 4);
  config.decoder.resize(1);
  config.decoder[0].cross_heads = 5;
  EXPECT_EQ(CallNumbers(config, 10), 10 * 15 * 4);
}

TEST(Room, ABackwardKeepsEveryLayerOrOne) {
  const ModelConfig config = Small();
  const double first = 4 * 8 + 32 + 32, second = 4 * 8 + 16 + 32;
  EXPECT_EQ(KeptNumbers(config, 3, false), 3 * (first + second));
  EXPECT_EQ(KeptNumbers(config, 3, true), 3 * (2 * 8 + first));
}

TEST(Room, AnEncoderDecoderCountsBothStacks) {
  ModelConfig config = Small();
  config.decoder.resize(1);
  config.decoder[0].heads = config.decoder[0].kv_heads = 2;
  config.decoder[0].cross_heads = 40;
  config.decoder_hidden = 1;
  EXPECT_EQ(PassNumbers(config, 1), 16 + 4 * 40 * 4);
}

TEST(Room, TrainingTakesWhatParametersLackAndTwoPasses) {
  const ModelConfig config = Small();
  const TrainingSize size = {.tokens = 5, .parameters = 100, .missing = 2};
  const RoomNeeds needs = TrainingNeeds(config, DType::kBF16, size);
  EXPECT_EQ(needs.weights, 100 * 2 * 4);
  EXPECT_EQ(needs.run,
            2 * (KeptNumbers(config, 5, false) + 2 * PassNumbers(config, 5)));
  EXPECT_EQ(TrainingNeeds(config, DType::kF32, size).run, 2 * needs.run);
}

TEST(Room, WeightsOfTheHostAreMissingOnADeviceOnly) {
  const std::vector<float> values(6 * 4);
  const auto weights =
      Prepare({Reshaped(ViewOf(values), {6, 4})}, Operand::kTransposed, {});
  EXPECT_EQ(MissingBytes(*weights, Device::Cpu(), DType::kF32), 0);
  EXPECT_EQ(MissingBytes(*weights, Device::Cuda(), DType::kF32), 6 * 4 * 4);
  EXPECT_EQ(MissingBytes(*weights, Device::Cuda(), DType::kBF16), 6 * 4 * 2);
  ConstTensorView there = Reshaped(ViewOf(values), {6, 4});
  there.device = Device::Cuda();
  const auto moved = Prepare({there}, Operand::kTransposed, {});
  EXPECT_EQ(MissingBytes(*moved, Device::Cuda(), DType::kF32), 0);
  EXPECT_EQ(MissingBytes(*moved, Device::Cuda(), DType::kF16), 6 * 4 * 2);
  // Multiplied as lines along the depth: a copy.
  const auto across = Prepare({there}, Operand::kPlain, {});
  EXPECT_EQ(MissingBytes(*across, Device::Cuda(), DType::kF32), 6 * 4 * 4);
}

TEST(Room, WhatFitsPassesAndWhatDoesNotIsSaid) {
  const RoomNeeds needs = {.weights = 3.0 * (1 << 30), .run = 1 << 30};
  RequireRoom(Device::Cuda(), needs, needs.all());
  try {
    RequireRoom(Device::Cuda(), needs, needs.all() - 1);
    FAIL() << "was let through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("4.0 GiB on cuda:0"));
    EXPECT_THAT(text, HasSubstr("3.0 GiB for the weights"));
    EXPECT_THAT(text, HasSubstr("1.0 GiB for a run"));
    EXPECT_THAT(text, HasSubstr("free"));
    EXPECT_THAT(text, HasSubstr("--type bf16"));
  }
}

TEST(Room, TheHostIsNotAskedForADevicesNeeds) {
  Context context({.threads = 1, .implementations = ""});
  RequireRoom(context, RoomNeeds{.weights = 1e30, .run = 1e30});
}

}  // namespace
}  // namespace headwise::room_test
