// The page of a comparison: what it shows, the maps, one word at a time, what
// averaging loses. Words are chosen by radio buttons and CSS alone, so the page
// works without script and with the keyboard. Door:
// compare_report.h.
#include "headwise/drawing/compare_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "headwise/drawing/html.h"
#include "headwise/drawing/text.h"

namespace headwise {
namespace {

std::string MapFigure(const Comparison& comparison, const ComparedHeads& set,
                      const Matrix& weights, const std::string& caption,
                      const std::string& label, bool large) {
  const auto words = static_cast<double>(set.tokens.size());
  MapLayout layout;
  layout.cell = large ? std::clamp(440 / words, 9.0, 40.0) : 120 / words;
  layout.numbers = large && layout.cell >= 28;
  layout.labels = large && layout.cell >= 12;
  // A hint per cell is welcome until it makes the page heavy.
  layout.hints = words <= 24;
  layout.full_scale = comparison.largest;
  const Drawing map = DrawMapSvg(WordMap(set, weights), layout);
  return HtmlFigure(map, label, caption, large ? map.width * 1.25 : 0);
}

std::string Cards(const Comparison& comparison) {
  std::string out = "<div class=\"cards\">\n";
  for (const ComparedHeads& set : comparison.sets) {
    out += fmt::format(
        "<div class=\"card\"><h3>{}</h3>"
        "<b>{:.2f}</b><p class=\"soft small\">distinct distributions per word, "
        "of {}</p><b>{:.3f}</b><p class=\"soft small\">nats per word lost if "
        "the heads are averaged into one</p>"
        "<p class=\"soft small\">mean entropy {:.2f} nats · {} weights</p>"
        "</div>\n",
        Escape(Capital(LayerName(set))), set.distinct, set.heads, set.lost,
        set.entropy, set.parameters);
  }
  return out + "</div>\n";
}

// The only head, or the average of several, with labels and numbers.
std::string LargeMap(const Comparison& comparison, const ComparedHeads& set) {
  if (set.heads == 1) {
    return MapFigure(comparison, set, set.average,
                     fmt::format("<strong>{}</strong>: all it can hold",
                                 Escape(Capital(LayerName(set)))),
                     "Attention map of the only head", true);
  }
  return MapFigure(
      comparison, set, set.average,
      fmt::format("<strong>Average of the {} heads</strong>: one row in place "
                  "of {}",
                  set.heads, set.heads),
      fmt::format("Average of the {} attention maps", set.heads), true);
}

// The maps of several heads, with their average and `beside` (the single head,
// where there is one) to the left of them.
std::string SetMaps(const Comparison& comparison, const ComparedHeads& set,
                    const std::string& beside) {
  std::string out = "<section class=\"pair\"><div class=\"stack\">\n" + beside +
                    LargeMap(comparison, set) + "</div><div>\n";
  out += fmt::format("<h3>{}</h3><div class=\"maps{}\">\n",
                     Escape(Capital(LayerName(set))),
                     set.heads > 12 ? " many" : "");
  for (int64_t h = 0; h < set.heads; ++h) {
    const HeadMap& map = set.maps[h];
    const std::string name = HeadName(comparison, set, h);
    const std::string role = set.roles.empty() ? "" : set.roles[h];
    out += MapFigure(
        comparison, set, map.weights,
        fmt::format("<strong>Head {}</strong>{} · {:.2f} off", Escape(name),
                    role.empty() ? "" : " · " + Escape(role), map.lost),
        fmt::format("Attention map of head {}, {:.2f} nats from the average",
                    name, map.lost),
        false);
  }
  return out + "</div></div></section>\n";
}

std::string AllMaps(const Comparison& comparison) {
  std::string single, out;
  for (const ComparedHeads& set : comparison.sets) {
    if (set.heads == 1) single += LargeMap(comparison, set);
  }
  for (const ComparedHeads& set : comparison.sets) {
    if (set.heads == 1) continue;
    out += SetMaps(comparison, set, single);
    single.clear();
  }
  // A single head alone has nothing to stand beside.
  return out + single;
}

// A head's row of a table: how much the word looks at each.
std::vector<std::string> TableRow(const Comparison& comparison,
                                  std::string name, const Matrix& weights,
                                  int64_t word) {
  std::vector<std::string> row = {Escape(name)};
  for (int64_t c = 0; c < weights.columns; ++c) {
    const double value = weights(word, c);
    const double strength = std::min(1.0, value / comparison.largest);
    row.push_back(fmt::format(
        "<span><i style=\"opacity:{:.3f}\"></i><em class=\"{}\">{}</em></span>",
        strength, OnHeat(strength), Share(value)));
  }
  return row;
}

std::string RowName(const Comparison& comparison, const ComparedHeads& set,
                    int64_t head) {
  if (set.heads == 1 && set.model.empty()) return "One head";
  return fmt::format("Head {} of {}", HeadName(comparison, set, head),
                     set.model.empty() ? std::to_string(set.heads) : set.model);
}

// `key` tells the word from those of other groups.
std::string WordPanel(const Comparison& comparison,
                      std::span<const ComparedHeads> sets, int64_t word,
                      const std::string& key) {
  StudyTable table;
  const std::vector<std::string>& tokens = sets.front().tokens;
  table.columns = {fmt::format("“{}” looks at", Escape(tokens[word]))};
  for (const std::string& seen : tokens) table.columns.push_back(Escape(seen));
  for (const ComparedHeads& set : sets) {
    for (int64_t h = 0; h < set.heads; ++h) {
      table.rows.push_back(TableRow(comparison, RowName(comparison, set, h),
                                    set.maps[h].weights, word));
    }
    if (set.heads > 1) {
      table.rows.push_back(TableRow(
          comparison,
          "Average of " +
              (set.model.empty() ? std::to_string(set.heads) : SetName(set)),
          set.average, word));
    }
  }
  return fmt::format("<div class=\"panel p{}\">{}</div>\n", key,
                     HtmlTable(table, "numbers heads"));
}

// One group's words to choose from. `group` tells its words from others'.
std::string WordPicker(const Comparison& comparison,
                       std::span<const ComparedHeads> sets,
                       const std::string& group) {
  const std::vector<std::string>& tokens = sets.front().tokens;
  // The word whose heads disagree most is the one to begin with.
  const std::vector<WordMixture>& mixtures = sets.back().words;
  const int64_t first =
      std::max_element(mixtures.begin(), mixtures.end(),
                       [](const WordMixture& a, const WordMixture& b) {
                         return a.lost < b.lost;
                       }) -
      mixtures.begin();
  std::string rules = "<style>", buttons, panels;
  for (int64_t w = 0; w < std::ssize(tokens); ++w) {
    const std::string key = fmt::format("{}{}", group, w);
    rules +=
        fmt::format(".pick:has(#q{0}:checked) .p{0}{{display:block}}", key);
    buttons += fmt::format(
        "<input type=\"radio\" name=\"q{3}\" id=\"q{0}\"{1}><label "
        "for=\"q{0}\">{2}</label>\n",
        key, w == first ? " checked" : "", Escape(tokens[w]), group);
    panels += WordPanel(comparison, sets, w, key);
  }
  return rules +
         "</style>\n<div class=\"pick\"><fieldset>"
         "<legend class=\"soft small\">Choose the word that looks</legend>\n" +
         buttons + "</fieldset>\n" + panels + "</div>\n";
}

std::string WordPickers(const Comparison& comparison) {
  const auto groups = GroupsByTokens(comparison);
  if (groups.size() == 1) return WordPicker(comparison, groups[0], "");
  std::string out;
  for (size_t g = 0; g < groups.size(); ++g) {
    out += fmt::format("<h3>{}</h3>\n", Escape(groups[g].front().model)) +
           WordPicker(comparison, groups[g], fmt::format("g{}-", g));
  }
  return out;
}

// How often each word is a favourite, most frequent first: "mat ×3, cat ×2".
std::string Favourites(const ComparedHeads& set, const WordMixture& word) {
  std::vector<std::pair<int64_t, int64_t>> counts;  // count, key
  for (size_t key = 0; key < set.tokens.size(); ++key) {
    const auto count =
        std::count(word.favourites.begin(), word.favourites.end(),
                   static_cast<int64_t>(key));
    if (count > 0) counts.emplace_back(count, static_cast<int64_t>(key));
  }
  std::stable_sort(counts.begin(), counts.end(),
                   [](auto a, auto b) { return a.first > b.first; });
  std::string out;
  for (const auto& [count, key] : counts) {
    if (!out.empty()) out += ", ";
    out += Escape(set.tokens[key]);
    if (count > 1) out += fmt::format(" ×{}", count);
  }
  return out;
}

std::string LossTable(const ComparedHeads& set) {
  constexpr const char* kLeft = "<span class=\"left\">{}</span>";
  double most = 1e-9;
  for (const WordMixture& word : set.words) most = std::max(most, word.lost);
  StudyTable table;
  table.title =
      Escape(Capital(SetName(set))) + ": what the average of each word loses";
  table.columns = {"Word",
                   fmt::format(kLeft, "Heads’ favourites"),
                   fmt::format(kLeft, "Average’s"),
                   "Heads kept",
                   "Distinct",
                   "Lost (nats)"};
  for (size_t w = 0; w < set.words.size(); ++w) {
    const WordMixture& word = set.words[w];
    table.rows.push_back(
        {Escape(set.tokens[w]), fmt::format(kLeft, Favourites(set, word)),
         fmt::format(kLeft, Escape(set.tokens[word.average_favourite])),
         fmt::format("{} of {}", word.kept, set.heads),
         fmt::format("{:.2f}", word.distinct),
         fmt::format("<span class=\"bar\" style=\"width:{:.0f}px\"></span>"
                     "{:.3f}",
                     60 * word.lost / most, word.lost)});
  }
  return HtmlTable(table, "numbers");
}

std::string Losses(const Comparison& comparison) {
  std::string out;
  for (const ComparedHeads& set : comparison.sets) {
    for (const std::string& line : KeptAndLost(comparison, set)) {
      out += "<p>" + Escape(Capital(line)) + "</p>\n";
    }
    if (set.heads > 1) out += LossTable(set);
  }
  return out;
}

std::string HowToRead(const Comparison& comparison) {
  return fmt::format(
      "<h2>How to read it</h2><p class=\"soft small\">A row of a map is one "
      "word’s distribution over the words it looks at; darker is more, full "
      "colour is {}. <em>Lost</em> is the mean of KL(head ‖ average) over "
      "heads, which is the Jensen–Shannon divergence of the heads; "
      "<em>distinct</em> is its exponential, between 1 and the number of "
      "heads.{}</p>",
      Share(comparison.largest),
      EqualWeights(comparison)
          ? " Every layer here has the same width and the same number of "
            "weights."
          : "");
}

}  // namespace

std::string ComparePage(const Comparison& comparison) {
  std::string title;
  for (const ComparedHeads& set : comparison.sets) {
    if (!title.empty()) title += " beside ";
    title += SetName(set);
  }
  std::string out =
      fmt::format("<p class=\"lead\">“{}”</p>\n<p class=\"note\">{}</p>\n",
                  Escape(comparison.sentence), Escape(comparison.about));
  out += Cards(comparison);
  out +=
      "<h2>The maps</h2><p>Rows look at columns; each row sums to 1. The small "
      "maps have the same rows and columns, and say how many nats their head "
      "is off the average.";
  if (EqualWeights(comparison)) {
    out +=
        " The layers are equally wide and have equally many weights; only the "
        "number of heads differs.";
  }
  out += "</p>\n" + AllMaps(comparison);
  out += "<h2>One word at a time</h2>\n" + WordPickers(comparison);
  out += "<h2>What is kept, what is lost</h2>\n" + Losses(comparison);
  return StaticPage(Capital(title), out + HowToRead(comparison),
                    fmt::format("headwise compare \"{}\" {} --out FILE",
                                comparison.sentence, comparison.command));
}

}  // namespace headwise
