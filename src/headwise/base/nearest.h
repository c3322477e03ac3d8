// The known word nearest to a mistyped one: "did you mean …".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace headwise {

// Insertions, deletions, substitutions and swaps of neighbours from a to b.
int EditDistance(std::string_view a, std::string_view b);

// The candidate with the least edit distance (first of equals); "" when there
// are no candidates.
std::string Nearest(std::string_view word,
                    std::span<const std::string> candidates);

}  // namespace headwise
