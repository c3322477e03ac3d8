// Characters over utf8proc. Door: unicode.h.
#include "headwise/tokenizer/unicode.h"

#include <utf8proc.h>

#include <array>

namespace headwise {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Letters that are symbols by category but alphabetic by property.
bool IsCircledLetter(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

// The length of the valid character at the start of `text`, or minus the
// length of its longest broken beginning.
int Measure(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return -1;
  const int length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte excludes overlong forms, surrogates and > U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return -1;
  for (int i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return -i;
  }
  return length;
}

// GPT-2's table: printable Latin-1 bytes stand for themselves, the others are
// numbered from U+0100 on.
constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

constexpr std::array<char32_t, 256> MakeByteTable() {
  std::array<char32_t, 256> table{};
  char32_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    table[byte] = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return table;
}
constexpr std::array<char32_t, 256> kByteTable = MakeByteTable();
constexpr char32_t kByteTableEnd = 0x144;  // one past the largest entry

constexpr std::array<int, kByteTableEnd> MakeInverseTable() {
  std::array<int, kByteTableEnd> table{};
  for (int& entry : table) entry = -1;
  for (int byte = 0; byte < 256; ++byte) table[kByteTable[byte]] = byte;
  return table;
}
constexpr std::array<int, kByteTableEnd> kInverseTable = MakeInverseTable();

}  // namespace

CodePoint CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) {
    return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  }
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 |
              (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

CodePoint CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return CharacterAt(text, begin);
}

void AppendUtf8(std::string& text, char32_t c) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  }
}

std::string Utf8(char32_t character) {
  std::string text;
  AppendUtf8(text, character);
  return text;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (char byte : text) {
    count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }
  return count;
}

size_t FindInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const int length = Measure(text.substr(at, 4));
    if (length < 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const int length = Measure(bytes.substr(at, 4));
    if (length > 0) {
      text.append(bytes, at, length);
      at += length;
    } else {
      AppendUtf8(text, kReplacement);
      at -= length;
    }
  }
  return text;
}

bool IsWhitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsNumeric(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  }
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool IsControl(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

bool IsMark(char32_t c) {
  const auto category = Category(c);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool IsNonspacingMark(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_MN;
}

bool IsWordCharacter(char32_t c) {
  const auto category = Category(c);
  return (category >= UTF8PROC_CATEGORY_LU &&
          category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D ||
         IsCircledLetter(c);
}

char32_t SimpleLowercase(char32_t c) {
  return static_cast<char32_t>(
      utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

char32_t ByteToCharacter(unsigned char byte) { return kByteTable[byte]; }

int CharacterToByte(char32_t character) {
  return character < kByteTableEnd ? kInverseTable[character] : -1;
}

}  // namespace headwise
