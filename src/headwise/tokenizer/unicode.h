// UTF-8 and the character classes that tokenisers are defined by.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headwise {

struct CodePoint {
  char32_t value;
  size_t bytes;  // how many the text spends on it
};

// The character at `at`. The text must be valid UTF-8.
CodePoint CharacterAt(std::string_view text, size_t at);
// The character that ends at `end` > 0. The text must be valid UTF-8.
CodePoint CharacterBefore(std::string_view text, size_t end);
void AppendUtf8(std::string& text, char32_t character);
std::string Utf8(char32_t character);
size_t CountCharacters(std::string_view text);

// The offset of the first byte that is not UTF-8, or npos.
size_t FindInvalidUtf8(std::string_view text);
// Puts U+FFFD for each longest broken beginning of a character.
std::string ReplaceInvalidUtf8(std::string_view bytes);

bool IsWhitespace(char32_t c);      // property White_Space
bool IsNumeric(char32_t c);         // category N
bool IsPunctuation(char32_t c);     // category P and all ASCII symbols
bool IsControl(char32_t c);         // category C, unassigned ones left out
bool IsMark(char32_t c);            // category M
bool IsNonspacingMark(char32_t c);  // category Mn
bool IsWordCharacter(char32_t c);   // \w: letters, marks, digits, connectors
char32_t SimpleLowercase(char32_t c);

// The printable character that byte-level vocabularies write for a byte.
char32_t ByteToCharacter(unsigned char byte);
// The byte a character stands for, or -1.
int CharacterToByte(char32_t character);

}  // namespace headwise
