// Attention in a terminal: the text with its tokens shaded, and the keys that
// tokens look at most.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/report/text.h"

namespace headwise {

// Tokens one after another, wrapped, each shaded by the root of its share of
// `largest`: by background colour where the console has colours, else by a bar
// below the token.
std::string DrawShadedTokens(std::span<const std::string> tokens,
                             std::span<const float> shares, float largest,
                             const Console& console);

// One line: "sat → cat .61, The .20".
struct KeyList {
  std::string query;
  std::vector<std::pair<std::string, double>> keys;
};
std::string DrawKeyLists(std::span<const KeyList> lists,
                         const Console& console);

}  // namespace headwise
