// Drawing roles. Door: roles_text.h.
#include "roles_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/drawing/terminal.h"
#include "headwise/explain.h"

namespace headwise {
namespace {

char InSmall(char letter) { return static_cast<char>(letter - 'A' + 'a'); }

// A small letter where the role holds only off the sinks.
char LetterOf(const Role& role) {
  return role.sink_excluded ? InSmall(role.letter) : role.letter;
}

std::string IntervalText(const Role& role) {
  if (std::isnan(role.low)) return "";
  const auto share = [](double value) {
    return Share(std::min(1.0, std::max(0.0, value)));
  };
  return fmt::format("[{}, {}]", share(role.low), share(role.high));
}

// One role over at most `width` columns, its first line after `head`.
std::string DrawRole(const std::string& head, const Role& role,
                     const Console& console) {
  constexpr int kHead = 7, kName = 18, kScore = 16;
  const std::string score =
      fmt::format("{:.2f} {}", role.score, IntervalText(role));
  std::string evidence = role.material;
  if (role.sink_excluded) {
    evidence +=
        fmt::format("; when not at the sink, c = {:.2f}", role.content_mass);
  }
  if (!role.evidence.empty()) evidence += "; " + role.evidence;
  if (role.check) evidence += "; without the head: " + role.check->text;
  const std::string start =
      PadRight(head, std::max(kHead, DisplayWidth(head) + 1));
  const int left = DisplayWidth(start) + kName + kScore + 1;
  if (console.width >= left + 24 && DisplayWidth(role.name) < kName) {
    std::string text = Wrap(evidence, console.width, left);
    return Bold(console, start) + PadRight(role.name, kName) +
           PadRight(score, kScore) + " " + text.substr(left);
  }
  return Bold(console, start) +
         Wrap(fmt::format("{} {}", role.name, score), console.width,
              DisplayWidth(start))
             .substr(DisplayWidth(start)) +
         Wrap(evidence, console.width, kHead + 2);
}

std::string DrawRelations(const Profile& profile, const Console& console) {
  StudyTable table;
  table.title =
      "Dependencies: heads chosen on one half of the sentences, % on the other";
  table.columns = {"relation", "head", "%", "best offset", "points", "cases"};
  for (const RelationHead& best : BestOfRelations(profile)) {
    table.rows.push_back(
        {best.relation + (best.up ? " up" : " down"), ToString(best.head),
         fmt::format("{:.1f}", 100 * best.share),
         fmt::format("{:.1f} ({:+})", 100 * best.fixed, best.offset),
         fmt::format("{:+.1f}", best.points()),
         fmt::format("{:.0f}", best.cases)});
  }
  if (table.rows.empty()) return "";
  return Wrap(table.title, console.width) + DrawTable(table, console);
}

// The heads that have a metric, largest mean first.
std::vector<size_t> HeadsBy(const Profile& profile, const std::string& metric) {
  std::vector<std::pair<double, size_t>> heads;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    if (profile.Find(metric, h) == nullptr) continue;
    heads.push_back({-profile.Get(metric, h).mean, h});
  }
  std::ranges::sort(heads);
  std::vector<size_t> order;
  for (const auto& [mean, head] : heads) order.push_back(head);
  return order;
}

constexpr size_t kShown = 5;
constexpr std::string_view kPattern = "pattern.";

std::string DrawPattern(const Profile& profile, const std::string& metric,
                        const Console& console) {
  std::vector<size_t> heads = HeadsBy(profile, metric);
  if (heads.empty()) return "";
  const size_t all = heads.size();
  heads.resize(std::min(all, kShown));
  StudyTable table;
  table.columns = {"head", "mass", "95 %", "chance", "rows"};
  for (const size_t h : heads) {
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
      metric.substr(kPattern.size()), heads.size(), all);
  return Wrap(title, console.width) + DrawTable(table, console);
}

// The five best heads of a metric above what the baselines get.
std::string DrawBeside(const Profile& profile, const std::string& metric,
                       const std::vector<std::string>& baselines,
                       const std::string& title, const Console& console) {
  std::vector<size_t> heads = HeadsBy(profile, metric);
  if (heads.empty()) return "";
  heads.resize(std::min(heads.size(), kShown));
  StudyTable table;
  table.title = fmt::format("{}, {:.0f} cases", title,
                            profile.Get(metric, heads[0]).count);
  table.columns = {"head or baseline", "%", "95 %"};
  for (const size_t h : heads) {
    const Estimate score = profile.Get(metric, h);
    table.rows.push_back(
        {ToString(profile.heads[h]), fmt::format("{:.1f}", 100 * score.mean),
         fmt::format("{:.1f}…{:.1f}", 100 * score.low, 100 * score.high)});
  }
  for (const std::string& name : baselines) {
    table.rows.push_back(
        {name.substr(metric.size() + 1),
         fmt::format("{:.1f}", 100 * BaselineShare(profile, name)), ""});
  }
  return Wrap(table.title, console.width) + DrawTable(table, console);
}

}  // namespace

std::string DrawWords(const Profile& profile, const Console& console) {
  return DrawRelations(profile, console) +
         DrawBeside(profile, "coreference",
                    {"coreference.nearest", "coreference.same-word"},
                    "Coreference", console) +
         DrawBeside(profile, "translation", {"translation.diagonal"},
                    "Translation", console);
}

std::string DrawRoleMap(std::span<const HeadRoles> heads,
                        const Console& console) {
  // Rows by kind and layer; a head's letter, "·" for none.
  std::map<std::pair<AttentionKind, int64_t>, std::map<int64_t, char>> rows;
  std::set<char> used;
  int64_t most = 0;
  for (const HeadRoles& head : heads) {
    const char letter = head.roles.empty() ? ' ' : LetterOf(head.roles[0]);
    rows[{head.head.kind, head.head.layer}][head.head.head] = letter;
    most = std::max(most, head.head.head + 1);
    used.insert(letter);
  }
  constexpr int kLabel = 12;
  const int cell = kLabel + 3 * static_cast<int>(most) <= console.width ? 3 : 2;
  const auto fits = static_cast<int64_t>((console.width - kLabel) / cell);
  std::string out = PadLeft("head", kLabel);
  for (int64_t h = 0; h < std::min(most, fits); ++h) {
    out += PadLeft(std::to_string(h % 100), cell);
  }
  out += '\n';
  for (const auto& [site, letters] : rows) {
    const std::string kind =
        site.first == AttentionKind::kSelf ? "" : Name(site.first);
    out += PadLeft(fmt::format("{} layer {}", kind, site.second), kLabel);
    for (const auto& [head, letter] : letters) {
      if (head >= fits) continue;
      const std::string mark = letter == ' ' ? "·" : std::string(1, letter);
      out += std::string(cell - 1, ' ') + mark;
    }
    out += '\n';
  }
  std::string legend = "·: no role";
  bool lower = false;
  for (const RoleWords& role : ExplainRoles().roles) {
    const char small = InSmall(role.letter);
    lower |= used.contains(small);
    if (!used.contains(role.letter) && !used.contains(small)) continue;
    legend += fmt::format(", {}: {}", role.letter, role.role);
  }
  if (lower) legend += "; small letters: when not at the sink";
  if (most > fits) legend += fmt::format("; heads from {} are cut off", fits);
  return out + Wrap(legend, console.width);
}

std::string DrawRoles(std::span<const HeadRoles> heads, bool all,
                      const Console& console) {
  std::string out;
  for (const HeadRoles& head : heads) {
    const std::string name = ToString(head.head);
    for (size_t r = 0; r < head.roles.size(); ++r) {
      out += DrawRole(r == 0 ? name : "", head.roles[r], console);
    }
    if (!head.roles.empty() || !all) continue;
    const std::string why =
        head.closest.empty()
            ? kNoRole
            : fmt::format("{}; closest: {}", kNoRole, head.closest);
    const std::string start =
        PadRight(name, std::max(7, DisplayWidth(name) + 1));
    out += Bold(console, start) + Wrap(why, console.width, DisplayWidth(start))
                                      .substr(DisplayWidth(start));
  }
  return out;
}

std::string DrawPatterns(const Profile& profile, const Console& console) {
  std::string out;
  for (const auto& [name, tallies] : profile.metrics) {
    if (!name.starts_with(kPattern) || name.ends_with(".chance")) continue;
    out += DrawPattern(profile, name, console);
  }
  return out;
}

}  // namespace headwise
