// Tokenizer::Load and the layouts without a tokenizer.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise::load_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGoldens = HEADWISE_TOKENIZER_GOLDENS;

class LoadTest : public ScratchFolderTest {
 protected:
  void Write(const char* name, std::string_view bytes) {
    WriteFileAtomically(folder_ / name, bytes);
  }

  // What loading the folder says, or "" where it succeeds.
  std::string Complaint(ErrorCode code) {
    try {
      Tokenizer::Load(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(folder_.string()));
      return error.what();
    }
    return "";
  }

  // The same encoding of all texts by two tokenizers.
  static void ExpectEqual(const Tokenizer& found, const Tokenizer& expected) {
    const auto texts =
        ReadJson(kGoldens / "texts.json").get<std::vector<std::string>>();
    for (const std::string& text : texts) {
      EXPECT_EQ(found.Encode(text).ids, expected.Encode(text).ids) << text;
      EXPECT_EQ(found.Encode(text).spans, expected.Encode(text).spans) << text;
    }
  }
};

TEST_F(LoadTest, AFolderWithoutAVocabularySaysWhatItLookedFor) {
  EXPECT_THAT(Complaint(ErrorCode::kNotFound), HasSubstr("tokenizer.json"));
  EXPECT_THROW(Tokenizer::Load(folder_ / "nowhere.json"), Error);
  EXPECT_THROW(Tokenizer::Load(folder_ / "weights.bin"), Error);
}

TEST_F(LoadTest, PiecesOfFairseqAreNotTakenForTheModelsIds) {
  Write("sentencepiece.bpe.model", "pieces");
  EXPECT_THAT(Complaint(ErrorCode::kNotFound),
              HasSubstr("whose ids are not the model's"));
}

TEST_F(LoadTest, VocabJsonAndMergesAreGpt2) {
  const Json file = ReadJson(kGoldens / "gpt2.json");
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : file["model"]["merges"]) {
    merges += merge.text() + "\n";
  }
  Write("vocab.json", file["model"]["vocab"].dump());
  Write("merges.txt", merges);
  ExpectEqual(*Tokenizer::Load(folder_),
              *Tokenizer::Load(kGoldens / "gpt2.json"));
  fs::rename(folder_ / "merges.txt", folder_ / "vocab.bpe");
  EXPECT_EQ(Tokenizer::Load(folder_)->Decode(std::vector<TokenId>{0}), "");
}

TEST_F(LoadTest, VocabTxtIsBert) {
  for (const char* kind : {"bert-uncased", "bert-cased"}) {
    const Json file = ReadJson(kGoldens / (std::string(kind) + ".json"));
    const Json& vocab = file["model"]["vocab"];
    std::vector<std::string> tokens(vocab.size());
    for (const auto& [token, id] : vocab.items()) {
      tokens[id.get<size_t>()] = token;
    }
    std::string lines;
    for (const std::string& token : tokens) lines += token + "\n";
    Write("vocab.txt", lines);
    const auto expected =
        Tokenizer::Load(kGoldens / (std::string(kind) + ".json"));
    ExpectEqual(*Tokenizer::Load(folder_), *expected);
  }
}

TEST_F(LoadTest, DoLowerCaseOfTheConfigDecides) {
  Write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\nA\n");
  EXPECT_THAT(Tokenizer::Load(folder_)->Encode("A").ids, ElementsAre(1, 4, 2));
  Write("tokenizer_config.json", R"({"do_lower_case": true})");
  EXPECT_THAT(Tokenizer::Load(folder_)->Encode("A").ids, ElementsAre(1, 3, 2));
}

TEST_F(LoadTest, BrokenMergesAreNamedByTheirLine) {
  Write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  Write("merges.txt", "a b\na c\n");
  EXPECT_THAT(Complaint(ErrorCode::kCorrupt), HasSubstr("line 2"));
  Write("merges.txt", "ab\n");
  EXPECT_THAT(Complaint(ErrorCode::kCorrupt), HasSubstr("two tokens"));
  Write("merges.txt", "a b\n\xff\n");
  EXPECT_THAT(Complaint(ErrorCode::kCorrupt), HasSubstr("byte 4"));
}

// A llama2.c vocabulary of tokens with scores.
std::string Llama2c(const std::vector<std::pair<std::string, float>>& tokens) {
  std::string bytes;
  const auto word = [&](const void* value) {
    bytes.append(static_cast<const char*>(value), 4);
  };
  const int32_t longest = 8;
  word(&longest);
  for (const auto& [text, score] : tokens) {
    const auto length = static_cast<int32_t>(text.size());
    word(&score);
    word(&length);
    bytes += text;
  }
  return bytes;
}

TEST_F(LoadTest, Llama2cJoinsByScoreAndFallsBackToBytes) {
  const std::string good = Llama2c({{"<unk>", 0},
                                    {"\n<s>\n", 0},
                                    {"\n</s>\n", 0},
                                    {"<0xC3>", 0},
                                    {"<0xA4>", 0},
                                    {" ", -4},
                                    {"a", -5},
                                    {"b", -6},
                                    {"ab", -2},
                                    {" a", -1}});
  Write("tok9.bin", good);
  const auto tokenizer = Tokenizer::Load(folder_);
  const Encoding found = tokenizer->Encode("ab\u00E4");
  EXPECT_THAT(found.ids, ElementsAre(1, 9, 7, 3, 4));
  EXPECT_EQ(found.spans[1], (TextSpan{0, 1}));
  EXPECT_EQ(found.spans[4], (TextSpan{2, 4}));
  EXPECT_EQ(tokenizer->Decode(found.ids), "ab\u00E4");
  for (size_t size = 0; size < good.size(); ++size) {
    Write("tok9.bin", good.substr(0, size));
    try {  // cut between two tokens it is a smaller vocabulary
      Tokenizer::Load(folder_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    }
  }
}

TEST_F(LoadTest, SentencePieceModelsAgreeWithTheirTokenizerJson) {
  fs::copy(kGoldens / "unigram.model", folder_ / "tokenizer.model");
  Write("tokenizer_config.json",
        R"({"add_bos_token": false, "add_eos_token": true})");
  const auto model = Tokenizer::Load(folder_);
  const auto json = Tokenizer::Load(kGoldens / "unigram.json");
  EXPECT_EQ(model->vocab_size(), json->vocab_size());
  EXPECT_EQ(model->Id("nothing of the kind"), std::nullopt);
  EXPECT_TRUE(model->IsSpecial(*model->Id("</s>")));
  for (const char* text :
       {"The quick brown fox jumps.", "über den faulen Hund", "naïve café",
        "Привет, мир!", "1999 was \uFF11\uFF12 years ago", "東京 x"}) {
    const Encoding found = model->Encode(text);
    const Encoding expected = json->Encode(text);
    EXPECT_EQ(found.ids, expected.ids) << text;
    EXPECT_EQ(found.spans.back(), (TextSpan{0, 0}));
    for (size_t i = 0; i + 1 < found.size(); ++i) {
      // A mark of its own, put before the text, is nowhere in it.
      if (found.spans[i] == TextSpan{}) continue;
      EXPECT_EQ(found.spans[i].end, expected.spans[i].end) << text << i;
    }
    EXPECT_EQ(model->Decode(found.ids), json->Decode(found.ids)) << text;
  }
}

TEST_F(LoadTest, MarianNumbersPiecesByItsVocabulary) {
  fs::copy(kGoldens / "unigram.model", folder_ / "source.spm");
  fs::copy(kGoldens / "unigram.model", folder_ / "target.spm");
  const auto pieces = Tokenizer::Load(folder_ / "source.spm");
  Json vocab = {{"</s>", 0}, {"<unk>", 1}, {"<pad>", 2}};
  TokenId next = 3;
  for (TokenId id : pieces->Encode("The fox").ids) {
    const std::string token = *pieces->Token(id);
    if (!vocab.contains(token)) vocab[token] = next++;
  }
  Write("vocab.json", vocab.dump());
  const auto marian = Tokenizer::Load(folder_);
  const Encoding found = marian->Encode("The fox");
  EXPECT_EQ(found.ids.front(),
            vocab[*pieces->Token(pieces->Encode("The fox").ids[1])]);
  EXPECT_EQ(found.ids.back(), 0);
  EXPECT_EQ(marian->Decode(found.ids), "The fox");
  EXPECT_THAT(marian->Encode("日").ids, testing::Contains(1));
}

TEST_F(LoadTest, ABrokenSentencePieceModelIsRefused) {
  Write("tokenizer.model", "not a model");
  EXPECT_THAT(Complaint(ErrorCode::kCorrupt), HasSubstr("SentencePiece"));
}

}  // namespace
}  // namespace headwise::load_test
