// Text in terminal columns: UTF-8, counted as a terminal shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

// What text is printed on.
struct Console {
  int width = 80;      // columns
  bool color = false;  // ANSI colours
};

// Text of unknown origin (tokens, names of files, words of a treebank) as it
// may be printed: characters that a terminal would obey, those that turn the
// direction of writing and bytes that are no UTF-8 are written out, ⟨1b⟩. Line
// ends and tabs stay. All functions below print text so.
std::string Visible(std::string_view text);

// The same of a name, which stays on its line: line ends and tabs are written
// out too.
std::string VisibleName(std::string_view name);

// The same of what was drawn for a console: ANSI colours stay.
std::string VisibleDrawing(std::string_view drawing);

// JSON of the same value in which such characters are escaped, \u009b.
std::string VisibleJson(std::string_view json);

// Of the UTF-8 character that non-empty `text` begins with; 0: of none.
size_t CharacterBytes(std::string_view text);

// Columns that `text` takes: two for East Asian wide characters and emoji,
// none for combining marks.
int DisplayWidth(std::string_view text);

// The beginning of `text` in at most `width` columns, "…" where it was cut.
std::string Shorten(std::string_view text, int width);

// Shortened or filled with spaces to exactly `width` columns.
std::string PadRight(std::string_view text, int width);
std::string PadLeft(std::string_view text, int width);

// Words on lines of at most `width` columns, each after `indent` spaces.
std::string Wrap(std::string_view text, int width, int indent = 0);

// With its first letter, where it is an ASCII one, in upper case.
std::string Capital(std::string text);

// "1 head", "2 heads"
std::string Counted(int64_t count, std::string_view noun);

// "a, b and c"
std::string AndList(std::span<const std::string> items);

// ".24", "1.0"; "0" for exactly 0: a share in three columns.
std::string Share(double value);

// "3 s", "4 min", "2 h 10 min", "120 days", "1.5e+09 years": rounded up, and
// never less than nothing.
std::string Duration(double seconds);

// A bar of one column: '▁' … '█' for value / largest, ' ' for 0.
const char* Bar(double value, double largest);

// ANSI codes where the console takes them.
std::string Bold(const Console& console, std::string_view text);
std::string Dim(const Console& console, std::string_view text);
std::string Green(const Console& console, std::string_view text);
std::string Red(const Console& console, std::string_view text);

}  // namespace headwise
