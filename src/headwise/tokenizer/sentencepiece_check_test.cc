// SentencePiece models that lie: each ends in an Error that names the file and
// the byte, before the library sees it.
#include "headwise/tokenizer/sentencepiece_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "headwise/base/mapped_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/tokenizer/sentencepiece.h"

namespace headwise::sentencepiece_check_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Word(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  return bytes + static_cast<char>(value);
}

std::string Message(int number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}

std::string Piece(const std::string& text, int type, float score = -1) {
  uint32_t bits = 0;
  std::memcpy(&bits, &score, sizeof(bits));
  return Message(1, Message(1, text) + Varint(2 << 3 | 5) + Word(bits) +
                        Varint(3 << 3) + Varint(type));
}

// A character map that puts "a" for "A".
struct Map {
  std::vector<uint32_t> trie = std::vector<uint32_t>(256);
  std::string strings = std::string("a\0", 2);

  Map() {
    trie[0] = 128 << 10;
    trie[128 ^ 'A'] = Node(128 ^ 'A', 1);
    trie[1] = uint32_t{1} << 31;
  }
  // The unit at `at` of an entry that ends with "A" and goes on at `children`.
  static uint32_t Node(uint32_t at, uint32_t children) {
    return (at ^ children) << 10 | 1 << 8 | 'A';
  }
  std::string Bytes() const {
    std::string bytes = Word(static_cast<uint32_t>(4 * trie.size()));
    for (const uint32_t unit : trie) bytes += Word(unit);
    return bytes + strings;
  }
};

std::string Model(const std::string& more, const Map& map = {}) {
  return Piece("<unk>", 2) + Piece("\u2581", 1) + Piece("a", 1) + more +
         Message(3, Message(2, map.Bytes()));
}

class SentencePieceCheck : public ScratchFolderTest {
 protected:
  std::string Complaint(const std::string& model) {
    const auto path = folder_ / "tokenizer.model";
    std::ofstream(path, std::ios::binary) << model;
    try {
      ReadSentencePiece(path)->Encode("AAa A\u00E9");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
      return error.what();
    }
    return "";
  }
};

TEST_F(SentencePieceCheck, AGoodModelReplacesCharacters) {
  EXPECT_EQ(Complaint(Model("")), "");
  const auto tokenizer = ReadSentencePiece(folder_ / "tokenizer.model");
  EXPECT_THAT(tokenizer->Encode("Aa").ids, testing::ElementsAre(1, 2, 2));
}

TEST_F(SentencePieceCheck, PiecesThatAreNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string& piece :
       {Piece("", 1), Piece(std::string("a\0b", 3), 1), Piece("\xE2\x96", 1),
        Piece("b", 9), Piece("b", 0), Piece("b", 1, nan)}) {
    EXPECT_THAT(Complaint(Model(piece)), HasSubstr(": byte ")) << piece;
  }
  std::string symbols;
  for (int i = 1; i <= 65; ++i) symbols += Piece(std::string(i, 'b'), 4);
  EXPECT_THAT(Complaint(Model(symbols)), HasSubstr("at most 64 symbols"));
}

TEST_F(SentencePieceCheck, CharacterMapsThatLeadOutOfThemselves) {
  std::vector<Map> maps(8);
  maps[0].trie[1] += 2;                                 // behind the strings
  maps[1].strings = "a";                                // never ends
  maps[2].strings.clear();                              // nowhere to point
  maps[3].trie[0] = 256 << 10;                          // behind the trie
  maps[4].trie[128 ^ 'A'] = Map::Node(128 ^ 'A', 256);  // the same, below
  maps[5].trie[128 ^ 'A'] = Map::Node(128 ^ 'A', 128);  // in circles
  maps[6].strings = std::string("\u00E9\0", 3);         // in the middle
  maps[6].trie[1] += 1;                                 //   of a character
  maps[7].trie.resize(100);                             // no whole block
  for (size_t i = 0; i < maps.size(); ++i) {
    EXPECT_THAT(Complaint(Model("", maps[i])),
                AllOf(HasSubstr(": byte "), HasSubstr("character map")))
        << i;
  }
}

TEST_F(SentencePieceCheck, EveryCutAndEveryFlippedByteEndsWell) {
  const std::string model = Model("");
  for (size_t size = 0; size < model.size(); size += size < 60 ? 1 : 41) {
    Complaint(model.substr(0, size));
  }
  // Real bytes, damaged within the character map: the library read freed
  // memory on such a file.
  const MappedFile file(std::filesystem::path(HEADWISE_TOKENIZER_GOLDENS) /
                        "unigram.model");
  std::string real(file.text());
  for (size_t at = 3363; at < real.size(); at += 7) {
    const char before = real[at];
    real[at] = static_cast<char>(before ^ 0x80);
    Complaint(real);
    real[at] = before;
  }
}

}  // namespace
}  // namespace headwise::sentencepiece_check_test
