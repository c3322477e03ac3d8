// Real checkpoints: what they are known to say. Skipped where the files are
// absent (see shared_files.h).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "ctranslate2_model.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/runtime/activations.h"
#include "headwise/runtime/generate.h"
#include "headwise/text_input.h"
#include "shared_files.h"

namespace headwise::real_models_test {
namespace {

// {"shape": […], "data": base64 of little-endian f32}
struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<float> data;
};

GoldenTensor Decode(const Json& json) {
  GoldenTensor tensor;
  tensor.shape = json.at("shape").get<std::vector<int64_t>>();
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : json.at("data").text()) {
    static constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = kAlphabet.find(c);
    if (digit == kAlphabet.npos) break;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> have));
  }
  tensor.data.resize(bytes.size() / 4);
  std::memcpy(tensor.data.data(), bytes.data(), tensor.data.size() * 4);
  return tensor;
}

void ExpectNear(const Tensor& ours, const GoldenTensor& golden,
                const char* name) {
  ASSERT_EQ(ours.size(), static_cast<int64_t>(golden.data.size())) << name;
  for (size_t i = 0; i < golden.data.size(); ++i) {
    ASSERT_NEAR(ours.As<float>()[i], golden.data[i],
                1e-4 * std::max(1.0f, std::abs(golden.data[i])))
        << name << " " << i;
  }
}

TEST(RealModels, GptNanoMatchesItsGoldenActivations) {
  const auto folder = SharedFolder() / "models" / "gpt-nano-sort";
  HEADWISE_REQUIRE(folder);
  const Json golden = ReadJson(folder / "golden-activations.json");
  const GoldenTensor idx = Decode(golden.at("idx"));
  const std::vector<int32_t> ids(idx.data.begin(), idx.data.end());
  const std::vector<int64_t> lengths(idx.shape[0], idx.shape[1]);
  const auto model = OpenModel(folder);
  Context context({2, ""});
  auto taken = RecordActivations(
      context, *model, {.ids = ids, .lengths = lengths},
      {"layer.0.attention.probs", "layer.*.output", "final", "logits"});
  ExpectNear(taken["layer.0.attention.probs"], Decode(golden.at("attSm")),
             "attSm");
  ExpectNear(taken["layer.0.output"], Decode(golden.at("block0")), "block0");
  ExpectNear(taken["layer.1.output"], Decode(golden.at("block1")), "block1");
  ExpectNear(taken["layer.2.output"], Decode(golden.at("block2")), "block2");
  ExpectNear(taken["final"], Decode(golden.at("ln_f")), "ln_f");
  ExpectNear(taken["logits"], Decode(golden.at("lm_head")), "lm_head");
}

TEST(RealModels, GptNanoSorts) {
  const auto folder = SharedFolder() / "models" / "gpt-nano-sort";
  HEADWISE_REQUIRE(folder);
  const auto model = OpenModel(folder);
  Context context({1, ""});
  const std::vector<int32_t> digits = {0, 2, 1, 0, 1, 2};
  GenerateJob job;
  job.max_tokens = 6;
  EXPECT_EQ(Generate(context, *model, digits, job),
            (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
}

// llama2.c's tokeniser: for each token a score, a length and its bytes.
std::vector<std::string> ReadTok512(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> tokens;
  for (size_t at = 4; at + 8 <= bytes.size();) {
    int32_t length = 0;
    std::memcpy(&length, bytes.data() + at + 4, 4);
    tokens.push_back(bytes.substr(at + 8, length));
    at += 8 + length;
  }
  return tokens;
}

TEST(RealModels, Stories260KContinuesItsStory) {
  const auto folder = SharedFolder() / "models" / "stories260K";
  HEADWISE_REQUIRE(folder);
  const auto model = OpenModel(folder);
  const auto tokens = ReadTok512(folder / "tok512.bin");
  Context context({2, ""});
  const std::vector<int32_t> prompt = {1};
  GenerateJob job;
  job.max_tokens = 40;
  std::string text;
  for (const int32_t id : Generate(context, *model, prompt, job)) {
    text += tokens.at(id);
  }
  EXPECT_TRUE(text.starts_with(
      " Once upon a time, there was a little girl named Lily. She loved to "
      "play outside in the park."))
      << text;
}

class Transliteration : public testing::TestWithParam<int64_t> {};

TEST_P(Transliteration, SaysAtzmonAndNicolas) {
  const auto folder = SharedFolder() / "models" / "transliterate-ar-en";
  HEADWISE_REQUIRE(folder);
  const auto sources = ReadLines(folder / "source_vocabulary.txt");
  const auto targets = ReadLines(folder / "target_vocabulary.txt");
  auto parts = OpenCTranslate2(folder);
  Context context({2, ""});
  auto id_of = [&](const std::string& token) {
    for (size_t i = 0; i < sources.size(); ++i) {
      if (sources[i] == token) return static_cast<int32_t>(i);
    }
    ADD_FAILURE() << token;
    return 0;
  };
  auto transliterate = [&](const std::vector<std::string>& letters) {
    std::vector<int32_t> source;
    for (const std::string& letter : letters) source.push_back(id_of(letter));
    GenerateJob job;
    job.max_tokens = 30;
    job.beam = GetParam();
    std::string text;
    for (const int32_t id : Generate(context, *parts, source, job)) {
      text += targets.at(id);
    }
    return text;
  };
  EXPECT_EQ(transliterate({"آ", "ت", "ز", "م", "و", "ن"}), "atzmon");
  EXPECT_EQ(transliterate({"ن", "ي", "ك", "و", "ل", "ا", "س"}), "nicolas");
}

INSTANTIATE_TEST_SUITE_P(Beams, Transliteration, testing::Values(1, 4));

}  // namespace
}  // namespace headwise::real_models_test
