// What standard output is: how wide, and whether it takes colour. And standard
// error, which takes what it can.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "headwise/report/text.h"

namespace headwise {

// The terminal's width, else $COLUMNS, else 80. Colour only on a terminal and
// never with NO_COLOR.
Console StdoutConsole();

// Writes a message at once. Standard error that is full or closed loses it,
// and the work goes on: fmt::print would throw, and so end it.
void WriteStderr(std::string_view text) noexcept;
template <typename... Arguments>
void WriteStderr(fmt::format_string<Arguments...> format,
                 Arguments&&... arguments) {
  WriteStderr(std::string_view(
      fmt::format(format, std::forward<Arguments>(arguments)...)));
}

// From now on messages are kept back, the last of them to be said by
void SilenceStderr();
// which begins with these words, and ends the silence.
void SpeakAs(std::string_view who);

}  // namespace headwise
