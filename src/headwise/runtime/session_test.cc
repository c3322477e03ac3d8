// Sessions: a step that is recorded and run again gives what it gives by
// itself. On the host nothing is recorded, and the test holds all the same.
#include "headwise/runtime/session.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/generate.h"
#include "headwise/runtime/sampler.h"
#include "headwise/runtime/test_models.h"

namespace headwise::session_test {
namespace {

using runtime_test::FrozenModel;

ModelConfig Llama(const Json& more = Json::object()) {
  Json config = {{"model_type", "llama"},    {"hidden_size", 64},
                 {"intermediate_size", 96},  {"num_hidden_layers", 2},
                 {"num_attention_heads", 4}, {"num_key_value_heads", 2},
                 {"vocab_size", 97},         {"max_position_embeddings", 700}};
  config.update(more);
  return ReadConfig(config, "llama");
}

// Positions turn otherwise from 300 on.
ModelConfig Longrope() {
  return Llama({{"rope_parameters",
                 {{"rope_type", "longrope"},
                  {"original_max_position_embeddings", 300},
                  {"short_factor", {1, 1, 1.2, 1.3, 1.5, 2, 2, 2}},
                  {"long_factor", {1, 2, 3, 5, 8, 9, 12, 30}}}}});
}

ModelConfig Gpt2() {
  return ReadConfig({{"model_type", "gpt2"},
                     {"n_embd", 48},
                     {"n_layer", 2},
                     {"n_head", 3},
                     {"n_positions", 700},
                     {"n_ctx", 700},
                     {"vocab_size", 97}},
                    "gpt2");
}

std::unique_ptr<Context> On(Device device) {
  try {
    return std::make_unique<Context>(
        ContextOptions{.threads = 2, .device = device});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return nullptr;
  }
}

// What a text of likeliest tokens leaves: they, and the last logits.
struct Text {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  friend bool operator==(const Text&, const Text&) = default;
};

Text Write(Context& context, Session& session, int64_t count) {
  const std::vector<int32_t> prompt = {3, 1, 4, 1, 5};
  session.Clear();
  Sampler sampler({});
  Text text;
  std::vector<int32_t> feed = prompt;
  while (std::ssize(text.tokens) < count) {
    text.logits = ToVector<float>(context, session.Feed(feed).view());
    feed = {sampler.Next(text.logits)};
    // Random models repeat themselves: other tokens in between.
    if (text.tokens.size() % 5 == 0) {
      feed[0] = static_cast<int32_t>(text.tokens.size() % 90);
    }
    text.tokens.push_back(feed[0]);
  }
  return text;
}

class SessionSteps : public testing::TestWithParam<Device> {};

TEST_P(SessionSteps, AreTheSameRecorded) {
  const auto context = On(GetParam());
  if (context == nullptr) GTEST_SKIP() << "no GPU, or a build without CUDA";
  const std::vector<DType> types =
      context->device().is_cpu()
          ? std::vector{DType::kF32}
          : std::vector{DType::kF32, DType::kBF16, DType::kF16};
  for (const ModelConfig& config : {Llama(), Gpt2(), Longrope()}) {
    for (const DType type : types) {
      SCOPED_TRACE(config.model_type + " " + Name(type));
      const auto model = FrozenModel(config, type);
      Session plain(*context, *model, {.record = false});
      Session recorded(*context, *model, {});
      // Beyond 256 and 512 rows the cache grows.
      const Text expected = Write(*context, plain, 600);
      EXPECT_EQ(Write(*context, recorded, 600), expected);
      EXPECT_EQ(Write(*context, recorded, 40).tokens,
                Write(*context, plain, 40).tokens);
    }
  }
}

TEST_P(SessionSteps, AreThoseOfAWholeText) {
  const auto context = On(GetParam());
  if (context == nullptr) GTEST_SKIP() << "no GPU, or a build without CUDA";
  const auto model = FrozenModel(Llama(), DType::kF32);
  Session session(*context, *model, {});
  const Text text = Write(*context, session, 50);
  std::vector<int32_t> ids = {3, 1, 4, 1, 5};
  ids.insert(ids.end(), text.tokens.begin(), text.tokens.end() - 1);
  session.Clear();
  const auto whole = ToVector<float>(*context, session.Feed(ids).view());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_NEAR(whole[i], text.logits[i], 1e-3f) << i;
  }
}

// A prompt of several chunks is one call: the length of all of it counts.
TEST_P(SessionSteps, TurnAPromptByItsWholeLength) {
  const auto context = On(GetParam());
  if (context == nullptr) GTEST_SKIP() << "no GPU, or a build without CUDA";
  const Json dynamic = {{"rope_type", "dynamic"}, {"factor", 8}};
  for (const ModelConfig& config :
       {Longrope(), Llama({{"max_position_embeddings", 530},
                           {"rope_parameters", dynamic}})}) {
    const auto model = FrozenModel(config, DType::kF32);
    std::vector<int32_t> ids(560);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(i * i % 91);
    }
    const int64_t lengths[] = {std::ssize(ids)};
    const auto whole = ToVector<float>(
        *context,
        Forward(*context, *model, {.ids = ids, .lengths = lengths}).view());
    Session session(*context, *model, {.capacity = 600});
    const auto states =
        ToVector<float>(*context, session.FeedStates(ids).view());
    for (size_t i = 0; i < whole.size(); ++i) {
      ASSERT_NEAR(whole[i], states[i], 1e-3f) << i;
    }
  }
}

TEST_P(SessionSteps, EndWithTheContext) {
  const auto context = On(GetParam());
  if (context == nullptr) GTEST_SKIP() << "no GPU, or a build without CUDA";
  const auto model = FrozenModel(Gpt2(), DType::kF32);
  Session session(*context, *model, {.capacity = 20});
  Write(*context, session, 16);
  EXPECT_EQ(session.position(), 20);
  const std::vector<int32_t> one = {1};
  EXPECT_THROW(session.Feed(one), Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionSteps,
                         testing::Values(Device::Cpu(), Device::Cuda()),
                         [](const auto& device) {
                           return std::string(device.param.is_cpu() ? "cpu"
                                                                    : "cuda");
                         });

TEST(Record, IsNothingOnTheHost) {
  Context context;
  bool ran = false;
  EXPECT_EQ(context.backend()->Record([&] { ran = true; }), nullptr);
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace headwise::session_test
