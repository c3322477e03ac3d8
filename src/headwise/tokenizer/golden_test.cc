// Every kind of tokenizer against what Hugging Face's library made of the same
// texts (tools/make_tokenizer_goldens.mjs). Real vocabularies, where they are
// at hand, are compared through one number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "headwise/base/json.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise::golden_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = HEADWISE_TOKENIZER_GOLDENS;

std::vector<std::string> Texts() {
  return ReadJson(kFolder / "texts.json").get<std::vector<std::string>>();
}

std::vector<uint32_t> Flat(const std::vector<TextSpan>& spans) {
  std::vector<uint32_t> flat;
  for (const TextSpan& span : spans) {
    flat.push_back(span.begin);
    flat.push_back(span.end);
  }
  return flat;
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, IdsSpansAndDecodedTextAreEqual) {
  const std::string kind = GetParam();
  const auto tokenizer = Tokenizer::Load(kFolder / (kind + ".json"));
  const Json golden = ReadJson(kFolder / (kind + ".golden.json"));
  const std::vector<std::string> texts = Texts();
  ASSERT_GE(texts.size(), 200u);
  ASSERT_EQ(golden["cases"].size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE("text " + std::to_string(i) + ": " + texts[i].substr(0, 80));
    const Json& expected = golden["cases"][i];
    const Encoding found = tokenizer->Encode(texts[i]);
    EXPECT_EQ(found.ids, expected[0].get<std::vector<TokenId>>());
    EXPECT_EQ(Flat(found.spans), expected[1].get<std::vector<uint32_t>>());
    EXPECT_EQ(tokenizer->Decode(found.ids), expected[2].get<std::string>());
    EXPECT_EQ(tokenizer->Decode(found.ids, {.skip_special_tokens = false}),
              expected[3].get<std::string>());
  }
}

TEST_P(GoldenTest, PairsAreJoinedTheSameWay) {
  const std::string kind = GetParam();
  const auto tokenizer = Tokenizer::Load(kFolder / (kind + ".json"));
  const Json golden = ReadJson(kFolder / (kind + ".golden.json"));
  const Encoding pair = tokenizer->EncodePair("The fox", "at 12.");
  EXPECT_EQ(pair.ids, golden["pair"][0].get<std::vector<TokenId>>());
  EXPECT_EQ(pair.segments, golden["pair"][1].get<std::vector<int32_t>>());
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTest,
                         testing::Values("gpt2", "llama3", "qwen2", "roberta",
                                         "bert-uncased", "bert-cased", "llama2",
                                         "unigram", "parts"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// FNV-1a over the ids and spans of all texts, as the script computes it.
std::string Hash(const Tokenizer& tokenizer) {
  uint64_t value = 0xcbf29ce484222325;
  const auto add = [&](uint32_t number) {
    for (int i = 0; i < 4; ++i) {
      value = (value ^ (number >> (8 * i) & 0xFF)) * 0x100000001b3;
    }
  };
  for (const std::string& text : Texts()) {
    const Encoding found = tokenizer.Encode(text);
    for (TokenId id : found.ids) add(static_cast<uint32_t>(id));
    for (uint32_t bound : Flat(found.spans)) add(bound);
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(value));
  return digits;
}

// Where models that are not ours lie, or skips the test.
fs::path SharedModels() {
  const char* given = std::getenv("HEADWISE_SHARED");
  const fs::path shared = given != nullptr
                              ? fs::path(given)
                              : fs::path(HEADWISE_SOURCE_FOLDER) / "../shared";
  return shared / "models";
}

struct RealVocabulary {
  const char* path;  // under the shared models
  const char* hash;
};

class RealVocabularyTest : public testing::TestWithParam<RealVocabulary> {};

TEST_P(RealVocabularyTest, IdsAndSpansAreEqual) {
  const fs::path path = SharedModels() / GetParam().path;
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not here";
  EXPECT_EQ(Hash(*Tokenizer::Load(path)), GetParam().hash);
}

INSTANTIATE_TEST_SUITE_P(
    Shared, RealVocabularyTest,
    testing::Values(RealVocabulary{"tokenizers/gpt2", "f2fd017f5a7661ef"},
                    RealVocabulary{
                        "tokenizers/bert-base-uncased/tokenizer.json",
                        "b1f4b0cd5ea3eb86"},
                    RealVocabulary{"tokenizers/bert-base-uncased/vocab.txt",
                                   "b1f4b0cd5ea3eb86"},
                    RealVocabulary{"minilm-l6", "b1f4b0cd5ea3eb86"},
                    RealVocabulary{"minimind2-small", "c181e1e088c869ee"}),
    [](const auto& test) { return "Vocabulary" + std::to_string(test.index); });

}  // namespace
}  // namespace headwise::golden_test
