// The doors of all that the program prints, and what standard output is: how
// wide, and whether it takes colour.
//
// Names of files, tokens, words and models come from anywhere. What is printed
// for people has nothing in it that a terminal would obey: ⟨1b⟩ stands for such
// a character, on a terminal and in a pipe, which may end at one. JSON writes
// it \u001b; it and files that are written (--out) hold the text itself.
#pragma once

#include <fmt/core.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "headwise/drawing/text.h"

namespace headwise {

// The terminal's width, else $COLUMNS, else 80. Colour only on a terminal and
// never with NO_COLOR.
Console StdoutConsole();

// Text, as Visible (report/text.h) shows it.
void WriteText(std::string_view text);
template <typename... Arguments>
void WriteStdout(fmt::format_string<Arguments...> format,
                 Arguments&&... arguments) {
  WriteText(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// A drawing for a console, whose colours stay.
void WriteColored(std::string_view text);
template <typename... Arguments>
void WriteDrawn(fmt::format_string<Arguments...> format,
                Arguments&&... arguments) {
  WriteColored(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// One JSON text and the end of its line.
void WriteJson(std::string_view json);

// Writes a message at once, as Visible shows it. Standard error that is full or
// closed loses it, and the work goes on: fmt::print would throw, and so end it.
void WriteStderr(std::string_view text) noexcept;
template <typename... Arguments>
void WriteStderr(fmt::format_string<Arguments...> format,
                 Arguments&&... arguments) {
  WriteStderr(std::string_view(
      fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// "warning: …", a line each.
void Warn(std::span<const std::string> notices);

// Puts `text` in the place of the terminal's line that standard error is on; ""
// wipes it.
void WriteStatus(std::string_view text) noexcept;

// From now on messages are kept back, the last of them to be said by
void SilenceStderr();
// which begins with these words, and ends the silence.
void SpeakAs(std::string_view who);

}  // namespace headwise
