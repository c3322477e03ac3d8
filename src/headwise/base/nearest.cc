// Edit distance with swaps (optimal string alignment). Door: nearest.h.
#include "headwise/base/nearest.h"

#include <algorithm>
#include <vector>

namespace headwise {

int EditDistance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<int> cost((a.size() + 1) * width);
  auto at = [&](size_t i, size_t j) -> int& { return cost[i * width + j]; };
  for (size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      at(i, j) = std::min(
          {at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::string Nearest(std::string_view word,
                    std::span<const std::string> candidates) {
  const auto best =
      std::min_element(candidates.begin(), candidates.end(),
                       [&](const std::string& a, const std::string& b) {
                         return EditDistance(word, a) < EditDistance(word, b);
                       });
  return best == candidates.end() ? std::string() : *best;
}

}  // namespace headwise
