// Words for a report. Door: report_json.h.
#include "headwise/report/report_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/heads/roles/rules.h"

namespace headwise {
namespace {

// "syntactic(nsubj)", "offset -2" → "syntactic", "offset".
std::string Stem(const std::string& role) {
  if (role == kNoRole) return role;
  return role.substr(0, role.find_first_of("( "));
}

// Whether a role says what the head does: a mere shape does not.
bool HasFunction(const Json& head) {
  const Json& roles = head["roles"];
  return std::any_of(roles.begin(), roles.end(), [](const Json& role) {
    return !role.value("shape", false);
  });
}

std::string FirstRole(const Json& head) {
  const Json& roles = head["roles"];
  return roles.empty() ? kNoRole : roles[0]["name"].get<std::string>();
}

// A role in six letters, for cells that are narrow.
std::string Short(const std::string& role) {
  if (role == kNoRole) return "·";
  const RoleRule* rule = FindRule(role);
  return rule == nullptr ? Stem(role) : rule->word;
}

std::string Plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// "5 previous-token, 3 induction and 2 local"
std::string CountedRoles(const Json& report) {
  std::map<std::string, int64_t> counts;
  for (const Json& head : report["heads"]) {
    if (HasFunction(head)) ++counts[Stem(FirstRole(head))];
  }
  std::vector<std::pair<std::string, int64_t>> order(counts.begin(),
                                                     counts.end());
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> counted;
  for (const auto& [role, count] : order) {
    counted.push_back(fmt::format("{} {}", count, role));
  }
  return AndList(counted);
}

std::string RolesSentence(const Json& report) {
  const Json& all = report["heads"];
  const auto heads = static_cast<int64_t>(all.size());
  const int64_t with = std::count_if(all.begin(), all.end(), HasFunction);
  const int64_t broad =
      std::count_if(all.begin(), all.end(), [](const Json& head) {
        return !head["roles"].empty() && !HasFunction(head);
      });
  const std::string shape =
      broad == 0 ? ""
                 : fmt::format(
                       " {} {} only broad: attention spread out, a "
                       "shape and not a function.",
                       broad, broad == 1 ? "is" : "are");
  if (with == 0) {
    return fmt::format(
               "None of the {} heads has a role that surely passed its "
               "threshold.",
               heads) +
           shape;
  }
  return fmt::format("{} of {} heads {} a role: {}.", with, heads,
                     with == 1 ? "has" : "have", CountedRoles(report)) +
         shape;
}

// The head with the highest score of a role, or "".
std::string BestSentence(const Json& report, const std::string& role) {
  std::string best;
  double most = 0;
  for (const Json& head : report["heads"]) {
    for (const Json& one : head["roles"]) {
      if (one["name"] != role || one.value("sink_excluded", false) ||
          one["score"].get<double>() <= most) {
        continue;
      }
      most = one["score"].get<double>();
      best = head["id"].get<std::string>();
    }
  }
  if (best.empty()) return "";
  const RoleRule& rule = *FindRule(role);
  const std::string material = rule.material;
  return fmt::format("Head {} {}{}: {:.2f} of its attention.", best, rule.says,
                     material == "text" ? "" : ", on " + material, most);
}

std::string LayerRow(const Json& heads, size_t begin, size_t end, int width) {
  std::string line;
  for (size_t i = begin; i < end; ++i) {
    const Json& roles = heads[i]["roles"];
    std::string cell = Short(FirstRole(heads[i]));
    if (roles.size() > 1 && width > 9) {
      cell += fmt::format("+{}", roles.size() - 1);
    }
    line += ' ';
    line += i + 1 < end ? PadRight(cell, width - 1) : cell;
  }
  return line;
}

// One line a layer, or a list where the terminal is too narrow for that.
std::string RoleGrid(const Json& heads, const Console& console) {
  constexpr int kLabel = 12;
  std::string out, list;
  for (size_t begin = 0; begin < heads.size();) {
    size_t end = begin;
    while (end < heads.size() && heads[end]["layer"] == heads[begin]["layer"] &&
           heads[end]["kind"] == heads[begin]["kind"]) {
      ++end;
    }
    const int cell = (console.width - kLabel) / static_cast<int>(end - begin);
    const std::string& kind = heads[begin]["kind"].text();
    const std::string label =
        fmt::format("{}{}", kind == "self" ? "layer " : kind + " ",
                    heads[begin]["layer"].get<int64_t>());
    if (cell >= 7) {
      out += PadRight(label, kLabel) +
             LayerRow(heads, begin, end, std::min(cell, 12)) + "\n";
    } else {
      std::string named;
      for (size_t i = begin; i < end; ++i) {
        if (heads[i]["roles"].empty()) continue;
        named += fmt::format("{}{} {}", named.empty() ? "" : ", ",
                             heads[i]["id"].get<std::string>(),
                             Stem(FirstRole(heads[i])));
      }
      out += label + "\n" +
             Wrap(named.empty() ? "no role" : named, console.width, 2);
    }
    begin = end;
  }
  return out;
}

// The words of every role.
Json KindsJson() {
  Json kinds = Json::object();
  for (const RoleRule& rule : RoleRules()) {
    kinds[rule.role] = {{"word", rule.word},
                        {"sign", rule.sign},
                        {"family", rule.family},
                        {"says", rule.says}};
  }
  return kinds;
}

}  // namespace

Json ThirdsJson(const std::vector<HeadRoles>& roles) {
  int64_t layers = 0;
  for (const HeadRoles& head : roles) {
    layers = std::max(layers, head.head.layer + 1);
  }
  constexpr std::array kNames = {"Early", "Middle", "Late"};
  Json thirds = Json::array();
  for (int64_t third = 0; third < 3; ++third) {
    Json of_layers = Json::array();
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (3 * layer / layers == third) of_layers.push_back(layer);
    }
    if (of_layers.empty()) continue;
    std::map<std::string, int64_t> counts;
    std::set<std::string> functions;
    int64_t heads = 0;
    for (const HeadRoles& head : roles) {
      if (3 * head.head.layer / layers != third) continue;
      ++heads;
      if (head.HasFunction()) functions.insert(Stem(head.roles[0].name));
      ++counts[head.roles.empty() ? kNoRole : Stem(head.roles[0].name)];
    }
    // By size; shapes after functions, heads without a role last.
    std::vector<std::pair<std::string, int64_t>> order(counts.begin(),
                                                       counts.end());
    const auto place = [&](const auto& one) {
      return std::tuple(functions.contains(one.first), one.first != kNoRole,
                        one.second);
    };
    std::stable_sort(
        order.begin(), order.end(),
        [&](const auto& a, const auto& b) { return place(a) > place(b); });
    Json counted = Json::object();
    for (const auto& [name, count] : order) counted[name] = count;
    // Two layers are the first and the last.
    const char* name = kNames[layers == 2 && third == 1 ? 2 : third];
    thirds.push_back({{"name", name},
                      {"layers", std::move(of_layers)},
                      {"heads", heads},
                      {"counts", std::move(counted)}});
  }
  const RoleCounts counts = CountRoles(roles);
  return {{"with_role", counts.with_function},
          {"only_shape", counts.shape_only},
          {"thirds", std::move(thirds)},
          {"kinds", KindsJson()}};
}

std::vector<std::string> SummarySentences(const Json& report) {
  std::vector<std::string> sentences;
  if (report.contains("importance") &&
      report["importance"].contains("sentence")) {
    sentences.push_back(report["importance"]["sentence"].text());
  }
  sentences.push_back(RolesSentence(report));
  for (const char* role : {"previous-token", "induction"}) {
    if (std::string best = BestSentence(report, role); !best.empty()) {
      sentences.push_back(std::move(best));
    }
  }
  const int64_t sinks = std::count_if(
      report["heads"].begin(), report["heads"].end(),
      [](const Json& head) { return FirstRole(head) == "first-token"; });
  if (sinks > 0) {
    sentences.push_back(fmt::format("{} on the first token, as at a sink.",
                                    Plural(sinks, "head rests", "heads rest")));
  }
  return sentences;
}

std::string SummaryText(const Json& report, const Console& console) {
  std::string out =
      Bold(console, report["model"]["name"].get<std::string>()) + "\n\n";
  for (const Json& sentence : report["summary"]["sentences"]) {
    out += Wrap(sentence.get<std::string>(), console.width);
  }
  return out + "\n" + RoleGrid(report["heads"], console);
}

}  // namespace headwise
