// Walks a SentencePiece model, which is a protocol buffer: fields, each a key
// (number and kind) and a value. Door: sentencepiece_check.h.
#include "headwise/tokenizer/sentencepiece_check.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/error.h"
#include "headwise/tokenizer/precompiled.h"
#include "headwise/tokenizer/unicode.h"
#include "headwise/tokenizer/vocabulary.h"

namespace headwise {
namespace {

// Field numbers: of the model,
constexpr uint64_t kPiece = 1;
constexpr uint64_t kNormalizer = 3;
constexpr uint64_t kDenormalizer = 5;
// of a normaliser,
constexpr uint64_t kCharacterMap = 2;
// and of a piece.
constexpr uint64_t kPieceText = 1;
constexpr uint64_t kPieceScore = 2;
constexpr uint64_t kPieceType = 3;

constexpr uint64_t kUserDefined = 4;  // the types of pieces are 1 to 6
constexpr uint64_t kLastType = 6;
// The library keeps the symbols that a text begins with in an array of this
// size.
constexpr size_t kMostNestedSymbols = 64;

enum WireKind : uint64_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kFixed32 = 5
};

struct WireField {
  uint64_t number = 0;
  uint64_t kind = 0;
  uint64_t value = 0;      // of kinds other than kBytes
  std::string_view bytes;  // of kBytes

  bool Is(uint64_t wanted, WireKind wanted_kind) const {
    return number == wanted && kind == wanted_kind;
  }
};

class ModelCheck {
 public:
  ModelCheck(std::string_view file, const std::string& where)
      : file_(file), where_(where) {}

  void Run() {
    for (std::string_view rest = file_; !rest.empty();) {
      const WireField field = Take(rest);
      if (field.kind != kBytes) continue;
      if (field.number == kPiece) CheckPiece(field.bytes);
      if (field.number == kNormalizer || field.number == kDenormalizer) {
        CheckNormalizer(field.bytes);
      }
    }
    CheckSymbols();
  }

 private:
  void Require(bool met, std::string_view at, const char* expected) const {
    if (met) return;
    throw Error(ErrorCode::kCorrupt,
                {where_ + ": byte " + std::to_string(OffsetOf(at)),
                 std::string("a SentencePiece model with ") + expected,
                 "other bytes", ""});
  }
  size_t OffsetOf(std::string_view part) const {
    return part.data() - file_.data();
  }

  // Little-endian, of 4 or 8 bytes.
  uint64_t TakeFixed(std::string_view& rest, size_t size) const {
    Require(rest.size() >= size, rest, "whole fields");
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      value |= uint64_t{static_cast<unsigned char>(rest[i])} << (8 * i);
    }
    rest.remove_prefix(size);
    return value;
  }

  // Seven bits a byte, the last one below 128; of ten at most.
  uint64_t TakeVarint(std::string_view& rest) const {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      Require(!rest.empty(), rest, "whole fields");
      const uint64_t byte = static_cast<unsigned char>(rest[0]);
      rest.remove_prefix(1);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Require(false, rest, "numbers of at most 64 bits");
    return 0;
  }

  WireField Take(std::string_view& rest) const {
    const std::string_view begin = rest;
    const uint64_t key = TakeVarint(rest);
    WireField field{key >> 3, key & 7, 0, {}};
    switch (field.kind) {
      case kVarint:
        field.value = TakeVarint(rest);
        break;
      case kFixed64:
        field.value = TakeFixed(rest, 8);
        break;
      case kFixed32:
        field.value = TakeFixed(rest, 4);
        break;
      case kBytes: {
        const uint64_t length = TakeVarint(rest);
        Require(length <= rest.size(), begin, "fields that fit into it");
        field.bytes = rest.substr(0, length);
        rest.remove_prefix(length);
        break;
      }
      default:
        Require(false, begin, "fields of a known kind");
    }
    return field;
  }

  void CheckPiece(std::string_view message) {
    std::string_view text = message.substr(0, 0);
    uint64_t type = 1;
    for (std::string_view rest = message; !rest.empty();) {
      const WireField field = Take(rest);
      if (field.Is(kPieceText, kBytes)) text = field.bytes;
      if (field.Is(kPieceType, kVarint)) type = field.value;
      if (field.Is(kPieceScore, kFixed32)) {
        Require(std::isfinite(
                    std::bit_cast<float>(static_cast<uint32_t>(field.value))),
                message, "finite scores");
      }
    }
    Require(!text.empty() && text.find('\0') == std::string_view::npos &&
                FindInvalidUtf8(text) == std::string_view::npos,
            message, "pieces in UTF-8, none empty and none with a zero byte");
    Require(text.size() <= kMaxSoughtBytes, message,
            "pieces of at most 1024 bytes");
    Require(type >= 1 && type <= kLastType, message, "pieces of a known type");
    if (type == kUserDefined) symbols_.push_back(text);
  }

  void CheckNormalizer(std::string_view message) const {
    for (std::string_view rest = message; !rest.empty();) {
      const WireField field = Take(rest);
      if (field.Is(kCharacterMap, kBytes) && !field.bytes.empty()) {
        PrecompiledMap(field.bytes, where_, OffsetOf(field.bytes));
      }
    }
  }

  void CheckSymbols() {
    std::sort(symbols_.begin(), symbols_.end());
    std::vector<std::string_view> nested;  // each begins the next
    for (const std::string_view symbol : symbols_) {
      while (!nested.empty() && !symbol.starts_with(nested.back())) {
        nested.pop_back();
      }
      nested.push_back(symbol);
      Require(nested.size() <= kMostNestedSymbols, symbol,
              "at most 64 symbols that begin one another");
    }
  }

  std::string_view file_;
  const std::string& where_;
  std::vector<std::string_view> symbols_;  // that its user defined
};

}  // namespace

void CheckSentencePiece(std::string_view bytes, const std::string& where) {
  ModelCheck(bytes, where).Run();
}

}  // namespace headwise
