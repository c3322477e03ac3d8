// Drawing roles. Door: roles_text.h.
#include "roles_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "console.h"
#include "headwise/drawing/terminal.h"
#include "headwise/heads/profile/words/materials.h"
#include "headwise/heads/roles/explain.h"
#include "headwise/heads/roles/syntactic.h"

namespace headwise {
namespace {

char InSmall(char letter) { return static_cast<char>(letter - 'A' + 'a'); }

// "syntactic(nsubj)" → 'Y'; lower case where it holds only off the sinks.
char LetterOf(const Role& role) {
  const RoleRule* rule = FindRule(role.name);
  if (rule == nullptr) return '?';
  return role.sink_excluded ? InSmall(rule->letter) : rule->letter;
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

// The head with the largest mean of a metric, or −1.
int64_t BestHead(const Profile& profile, const std::string& metric) {
  int64_t best = -1;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    if (profile.Find(metric, h) == nullptr) continue;
    if (best < 0 ||
        profile.Get(metric, h).mean > profile.Get(metric, best).mean) {
      best = static_cast<int64_t>(h);
    }
  }
  return best;
}

std::string DrawRelations(const Profile& profile, const Console& console) {
  std::vector<std::pair<double, std::vector<std::string>>> rows;
  for (const Relation& relation : ReadRelations(profile)) {
    for (const RelationWay& way : relation.ways) {
      const int64_t head = BestHead(profile, way.metric + ".a");
      if (head < 0) continue;
      const Estimate shown = profile.Get(way.metric + ".b", head);
      if (shown.count < FindRule("syntactic")->least_cases) continue;
      const double points = 100 * (shown.mean - way.second.share);
      rows.push_back({-points,
                      {relation.name + (way.up ? " up" : " down"),
                       ToString(profile.heads[head]),
                       fmt::format("{:.1f}", 100 * shown.mean),
                       fmt::format("{:.1f} ({:+})", 100 * way.second.share,
                                   way.second.offset),
                       fmt::format("{:+.1f}", points),
                       fmt::format("{:.0f}", shown.count)}});
    }
  }
  if (rows.empty()) return "";
  std::sort(rows.begin(), rows.end());
  StudyTable table;
  table.title =
      "Dependencies: heads chosen on one half of the sentences, % on the other";
  table.columns = {"relation", "head", "%", "best offset", "points", "cases"};
  for (auto& [points, row] : rows) table.rows.push_back(std::move(row));
  return Wrap(table.title, console.width) + DrawTable(table, console);
}

// The five best heads of a metric above what the baselines get.
std::string DrawBeside(const Profile& profile, const std::string& metric,
                       const std::vector<std::string>& baselines,
                       const std::string& title, const Console& console) {
  std::vector<std::pair<double, size_t>> heads;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    if (profile.Find(metric, h) == nullptr) continue;
    heads.push_back({-profile.Get(metric, h).mean, h});
  }
  if (heads.empty()) return "";
  std::sort(heads.begin(), heads.end());
  heads.resize(std::min<size_t>(heads.size(), 5));
  StudyTable table;
  table.title = fmt::format("{}, {:.0f} cases", title,
                            profile.Get(metric, heads[0].second).count);
  table.columns = {"head or baseline", "%", "95 %"};
  for (const auto& [mean, h] : heads) {
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

void WarnCertain(const Profile& profile) {
  const auto certain = profile.baselines.find(kCertainMentions);
  if (certain == profile.baselines.end() || certain->second.empty()) return;
  const auto cases = profile.baselines.find("coreference.nearest");
  WriteStderr(
      "warning: [coreference] expected mentions with other candidates "
      "than their antecedents; found {:.0f} without, which any head "
      "would get right; they do not count, {:.0f} others do\n",
      certain->second.w,
      cases == profile.baselines.end() ? 0.0 : cases->second.w);
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
  for (const RoleRule& rule : RoleRules()) {
    const char small = InSmall(rule.letter);
    lower |= used.contains(small);
    if (!used.contains(rule.letter) && !used.contains(small)) continue;
    legend += fmt::format(", {}: {}", rule.letter, rule.role);
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

std::string ExplainRoles(const RoleThresholds& thresholds,
                         const Console& console) {
  std::string out;
  for (const RoleRule& rule : RoleRules()) {
    out += Bold(console, rule.role) + '\n';
    out += Wrap(fmt::format("{}.", Capital(rule.means)), console.width, 2);
    out += Wrap(fmt::format("When: {} ({}).", Condition(rule, thresholds),
                            rule.material),
                console.width, 2);
    out += Wrap(fmt::format("Trap: {}.", rule.trap), console.width, 2);
  }
  out += Wrap(
      fmt::format("A role that holds only with the sinks left out (first and "
                  "special tokens, and keys that get more than .3 of a head's "
                  "mass) says so, and needs a mean mass of {:.2f} outside "
                  "them. A score passes where its whole 95 % interval is "
                  "past the threshold. Where nothing passes a head has no "
                  "role.",
                  thresholds.content_mass()),
      console.width);
  return out;
}

Json ExplainRolesJson(const RoleThresholds& thresholds) {
  Json list = Json::array();
  for (const RoleRule& rule : RoleRules()) {
    list.push_back({{"role", rule.role},
                    {"means", rule.means},
                    {"when", Condition(rule, thresholds)},
                    {"material", rule.material},
                    {"trap", rule.trap}});
  }
  return list;
}

}  // namespace headwise
