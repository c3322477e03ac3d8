// Text and JSON of a comparison. Door: compare_report.h. The figure:
// compare_svg.cc.
#include "headwise/drawing/compare_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <span>

#include "headwise/drawing/terminal.h"

namespace headwise {
namespace {

std::span<const double> RowOf(const Matrix& a, int64_t row) {
  return {&a.values[static_cast<size_t>(row * a.columns)],
          static_cast<size_t>(a.columns)};
}

// The strongest weight of any head that the average does not share, as
// (head, word, key); nothing where every favourite is the average's.
struct Link {
  int64_t head = -1, word = 0, key = 0;
  double weight = 0, average = 0;
};

Link LargestLoss(const ComparedHeads& set) {
  Link link;
  for (int64_t w = 0; w < set.average.rows; ++w) {
    for (int64_t h = 0; h < set.heads; ++h) {
      const int64_t key = set.words[w].favourites[h];
      const double weight = set.maps[h].weights(w, key);
      const double average = set.average(w, key);
      if (weight - average > link.weight - link.average) {
        link = {h, w, key, weight, average};
      }
    }
  }
  return link;
}

StudyTable SummaryTable(const Comparison& comparison) {
  StudyTable table{
      "", {"", "per word", "worth", "entropy", "lost", "weights"}, {}};
  for (const ComparedHeads& set : comparison.sets) {
    table.rows.push_back(
        {fmt::format("{}{} × {}",
                     set.model.empty()
                         ? ""
                         : fmt::format("{}, layer {}: ", set.model, set.layer),
                     set.heads, set.head_dim),
         fmt::format("{}", set.heads), fmt::format("{:.2f}", set.distinct),
         fmt::format("{:.2f}", set.entropy), fmt::format("{:.3f}", set.lost),
         fmt::format("{}", set.parameters)});
  }
  return table;
}

// Sets of several sizes may stand below each other.
std::string HeadOf(const Comparison& comparison, const ComparedHeads& set,
                   int64_t head) {
  const std::string name = HeadName(comparison, set, head);
  return comparison.trained ? name : fmt::format("{} of {}", name, set.heads);
}

std::string DrawWord(const Comparison& comparison,
                     std::span<const ComparedHeads> sets, int64_t word,
                     const CellRows& cells, const Console& console) {
  const std::vector<std::string>& tokens = sets.front().tokens;
  std::string out = Bold(console, "\"" + tokens[word] + "\"") + " looks at\n";
  out += cells.Labels(tokens);
  for (const ComparedHeads& set : sets) {
    const bool named = !set.model.empty();
    if (named) {
      out +=
          Dim(console, Wrap(fmt::format("{}, layer {}", set.model, set.layer),
                            console.width, 1));
    }
    for (int64_t h = 0; h < set.heads; ++h) {
      const std::string name =
          set.heads == 1 && !named ? "one head" : HeadOf(comparison, set, h);
      out += cells.Row("  " + name, RowOf(set.maps[h].weights, word));
    }
    if (set.heads > 1) {
      out += cells.Row("  average", RowOf(set.average, word));
    }
  }
  return out;
}

// Every word of sets that share their words.
std::string DrawGroup(const Comparison& comparison,
                      std::span<const ComparedHeads> sets,
                      const Console& console) {
  const int label = console.width >= 60 ? 14 : 11;
  const size_t words = sets.front().tokens.size();
  const CellRows cells(console, label, words, comparison.largest);
  std::string out;
  if (cells.left_out() > 0) {
    out += Dim(console,
               Wrap(fmt::format("{} more words do not fit; widen the terminal "
                                "or use --out.",
                                cells.left_out()),
                    console.width));
  }
  for (size_t w = 0; w < words; ++w) {
    out += '\n' +
           DrawWord(comparison, sets, static_cast<int64_t>(w), cells, console);
  }
  return out;
}

// "Roles of 8 heads on random repeats: 3.0 previous-token, 3.2 induction;
// none: 3.1." "" where nobody asked.
std::string RolesLine(const Comparison& comparison, const ComparedHeads& set) {
  if (set.roles.empty()) return "";
  std::vector<std::string> with, without;
  for (int64_t h = 0; h < set.heads; ++h) {
    const std::string name = HeadName(comparison, set, h);
    if (set.roles[h].empty()) {
      without.push_back(name);
    } else {
      with.push_back(name + " " + set.roles[h]);
    }
  }
  return fmt::format("{} of {} on random repeats: {}{}{}.",
                     set.heads == 1 ? "Role" : "Roles", SetName(set),
                     with.empty() ? "none" : fmt::format("{}", AndList(with)),
                     with.empty() || without.empty() ? "" : "; no role: ",
                     with.empty() ? "" : AndList(without));
}

}  // namespace

std::string HeadsName(int64_t heads) {
  return heads == 1 ? "one head" : fmt::format("{} heads", heads);
}

std::string HeadName(const Comparison& comparison, const ComparedHeads& set,
                     int64_t head) {
  return comparison.trained ? fmt::format("{}.{}", set.layer, head)
                            : fmt::format("{}", head);
}

std::string LayerName(const ComparedHeads& set) {
  const std::string name =
      fmt::format("{} of width {}", HeadsName(set.heads), set.head_dim);
  if (set.model.empty()) return name;
  return fmt::format("{}, layer {}: {}", set.model, set.layer, name);
}

std::string SetName(const ComparedHeads& set) {
  return HeadsName(set.heads) + (set.model.empty() ? "" : " of " + set.model);
}

HeatMap WordMap(const ComparedHeads& set, const Matrix& weights) {
  return {"", set.tokens, set.tokens, weights.values};
}

std::vector<std::span<const ComparedHeads>> GroupsByTokens(
    const Comparison& comparison) {
  const std::span<const ComparedHeads> sets = comparison.sets;
  std::vector<std::span<const ComparedHeads>> groups;
  for (size_t first = 0, end = 0; first < sets.size(); first = end) {
    while (end < sets.size() && sets[end].tokens == sets[first].tokens) ++end;
    groups.push_back(sets.subspan(first, end - first));
  }
  return groups;
}

std::vector<std::string> KeptAndLost(const Comparison& comparison,
                                     const ComparedHeads& set) {
  const std::string name = SetName(set);
  if (set.heads == 1) {
    return {fmt::format(
        "Kept by {}: one distribution per word; whatever relations matter "
        "share one row that sums to 1.",
        name)};
  }
  const auto words = static_cast<int64_t>(set.tokens.size());
  int64_t kept = 0, different = 0;
  for (const WordMixture& word : set.words) {
    kept += word.kept;
    different += static_cast<int64_t>(
        std::set<int64_t>(word.favourites.begin(), word.favourites.end())
            .size());
  }
  std::vector<std::string> lines = {
      fmt::format(
          "Kept by {}: {} distributions per word, worth {:.2f} distinct "
          "ones; they favour {:.1f} different words on average.",
          name, set.heads, set.distinct,
          static_cast<double>(different) / static_cast<double>(words)),
      fmt::format("Lost by averaging them into one: {:.3f} nats per word; of "
                  "{} favourites, {} are no longer the favourite.",
                  set.lost, words * set.heads, words * set.heads - kept)};
  const Link link = LargestLoss(set);
  if (link.head >= 0) {
    lines.push_back(fmt::format(
        "Largest loss: head {} has \"{}\" look at \"{}\" with {}; the average "
        "leaves {}.",
        HeadName(comparison, set, link.head), set.tokens[link.word],
        set.tokens[link.key], Share(link.weight), Share(link.average)));
  }
  return lines;
}

std::string CompareText(const Comparison& comparison, const Console& console) {
  std::string out = Wrap(comparison.sentence, console.width);
  out += Dim(console, Wrap(comparison.about, console.width));
  out += Dim(console,
             Wrap(fmt::format("A full bar is {}.", Share(comparison.largest)),
                  console.width));
  for (const std::span<const ComparedHeads> sets : GroupsByTokens(comparison)) {
    out += DrawGroup(comparison, sets, console);
  }
  out += '\n' + Bold(console, "What is kept, what is lost") + '\n';
  out += DrawTable(SummaryTable(comparison), console);
  out += Dim(
      console,
      Wrap(fmt::format(
               "per word: distributions each word gets; worth: how many "
               "distinct ones, exp(lost); entropy: mean of a row, nats; "
               "lost: nats per word when the heads are averaged; "
               "weights: parameters{}.",
               EqualWeights(comparison) ? ", the same for any number of heads"
                                        : ""),
           console.width, 2));
  for (const ComparedHeads& set : comparison.sets) {
    for (const std::string& line : KeptAndLost(comparison, set)) {
      out += Wrap(line, console.width);
    }
    if (const std::string roles = RolesLine(comparison, set); !roles.empty()) {
      out += Wrap(roles, console.width);
    }
  }
  return out;
}

Json CompareJson(const Comparison& comparison) {
  Json sets = Json::array();
  auto rows = [](const Matrix& a) {
    Json list = Json::array();
    for (int64_t r = 0; r < a.rows; ++r) {
      const std::span<const double> row = RowOf(a, r);
      list.push_back(std::vector<double>(row.begin(), row.end()));
    }
    return list;
  };
  for (const ComparedHeads& set : comparison.sets) {
    Json maps = Json::array();
    for (size_t h = 0; h < set.maps.size(); ++h) {
      const HeadMap& map = set.maps[h];
      maps.push_back({{"weights", rows(map.weights)},
                      {"entropy", map.entropy},
                      {"lost", map.lost}});
      if (!set.roles.empty()) maps.back()["role"] = set.roles[h];
    }
    Json words = Json::array();
    for (const WordMixture& word : set.words) {
      words.push_back({{"lost", word.lost},
                       {"distinct", word.distinct},
                       {"favourites", word.favourites},
                       {"average_favourite", word.average_favourite},
                       {"kept", word.kept}});
    }
    sets.push_back({{"heads", set.heads},
                    {"head_dim", set.head_dim},
                    {"parameters", set.parameters},
                    {"entropy", set.entropy},
                    {"average_entropy", set.average_entropy},
                    {"lost", set.lost},
                    {"distinct", set.distinct},
                    {"maps", maps},
                    {"average", rows(set.average)},
                    {"words", words},
                    {"tokens", set.tokens}});
    if (comparison.trained) sets.back()["layer"] = set.layer;
    if (!set.model.empty()) sets.back()["model"] = set.model;
  }
  Json json = {{"sentence", comparison.sentence}};
  if (SameTokens(comparison)) json["words"] = comparison.sets.front().tokens;
  json["trained"] = comparison.trained;
  json["about"] = comparison.about;
  json["command"] = comparison.command;
  json["sets"] = std::move(sets);
  return json;
}

}  // namespace headwise
