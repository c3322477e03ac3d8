// Door: patterns_text.h.
#include "patterns_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/drawing/terminal.h"

namespace headwise {
namespace {

constexpr std::string_view kPrefix = "pattern.";
constexpr size_t kShown = 5;

std::string DrawPattern(const Profile& profile, const std::string& metric,
                        const Console& console) {
  std::vector<std::pair<double, size_t>> heads;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    if (profile.Find(metric, h) == nullptr) continue;
    heads.push_back({-profile.Get(metric, h).mean, h});
  }
  if (heads.empty()) return "";
  std::sort(heads.begin(), heads.end());
  const size_t all = heads.size();
  heads.resize(std::min(all, kShown));
  StudyTable table;
  table.columns = {"head", "mass", "95 %", "chance", "rows"};
  for (const auto& [mean, h] : heads) {
    const Estimate score = profile.Get(metric, h);
    table.rows.push_back(
        {ToString(profile.heads[h]), fmt::format("{:.2f}", score.mean),
         std::isfinite(score.low)
             ? fmt::format("{:.2f}…{:.2f}", score.low, score.high)
             : "–",
         fmt::format("{:.2f}", profile.Get(metric + ".chance", h).mean),
         fmt::format("{:.0f}", score.count)});
  }
  const std::string title = fmt::format(
      "Pattern {}: mass on the keys it gives, the {} of {} heads "
      "with most",
      metric.substr(kPrefix.size()), heads.size(), all);
  return Wrap(title, console.width) + DrawTable(table, console);
}

}  // namespace

std::string DrawPatterns(const Profile& profile, const Console& console) {
  std::string out;
  for (const auto& [name, tallies] : profile.metrics) {
    if (!name.starts_with(kPrefix) || name.ends_with(".chance")) continue;
    out += DrawPattern(profile, name, console);
  }
  return out;
}

}  // namespace headwise
