// The page of a comparison: what it shows, the maps, one word at a time, what
// averaging loses. Words are chosen by radio buttons and CSS alone, so the page
// works without script and with the keyboard. Door: compare_page.h.
#include "headwise/drawing/compare_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "headwise/drawing/compare_report.h"
#include "headwise/drawing/svg.h"
#include "headwise/drawing/text.h"
#include "headwise/version.h"

namespace headwise {
namespace {

constexpr std::string_view kPageStyle = R"(
*{box-sizing:border-box}
html{color-scheme:light dark}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.5;
font-size:16px}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 4px}
h2{font-size:1.2rem;margin:44px 0 6px}
h3{font-size:1rem;margin:0 0 8px}
p{margin:6px 0 12px;max-width:68ch}
.lead{font-size:1.15rem;color:var(--soft)}
.note{border-left:4px solid var(--s1);background:var(--cell);padding:10px 14px;
border-radius:0 6px 6px 0;max-width:74ch}
.soft{color:var(--soft)}
.small{font-size:.875rem}
.cards{display:flex;flex-wrap:wrap;gap:14px;margin:18px 0}
.card{flex:1 1 260px;border:1px solid var(--rule);border-radius:10px;
padding:14px 16px}
.card b{display:block;font-size:1.9rem;line-height:1.1;
font-variant-numeric:tabular-nums}
.card p{margin:2px 0 10px}.card p:last-child{margin-bottom:0}
.pair{display:grid;grid-template-columns:minmax(280px,5fr) 8fr;gap:44px;
align-items:start}
.stack{display:grid;gap:26px}
.set{border-top:1px solid var(--rule);padding-top:14px;margin-top:14px}
.maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));
gap:18px}
.maps.many{grid-template-columns:repeat(auto-fill,minmax(104px,1fr));gap:12px}
figure{margin:0}
figcaption{font-size:.8125rem;color:var(--soft);margin-bottom:4px;
font-variant-numeric:tabular-nums}
figcaption strong{color:var(--ink)}
svg.map{display:block;width:100%;height:auto}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:5px 9px;text-align:right;font-weight:400;white-space:nowrap}
thead th{color:var(--soft);font-size:.8125rem;border-bottom:1px solid var(--rule)}
th:first-child,td.left{text-align:left}
td.left{white-space:normal}
tbody th{font-weight:600}
.grid td{padding:0}
.grid td span{display:block;position:relative;min-width:52px;margin:1px;
padding:5px 6px;border-radius:3px;text-align:center;background:var(--cell)}
.grid td span i{position:absolute;inset:0;background:var(--heat);border-radius:3px}
.grid td span em{position:relative;font-style:normal}
.grid td .on{color:var(--on)}.grid td .mid{color:var(--mid)}
.grid tr.average th,.grid tr.average td{border-top:1px solid var(--rule)}
.grid tr.first th,.grid tr.first td{padding-top:8px}
.lost-bar{display:inline-block;height:.65em;background:var(--s1);border-radius:2px;
margin-right:8px}
.pick input{position:absolute;opacity:0}
.pick label{display:inline-block;padding:6px 13px;margin:3px;border-radius:999px;
border:1px solid var(--rule);cursor:pointer}
.pick input:focus-visible+label{outline:3px solid var(--s1);outline-offset:2px}
.pick input:checked+label{background:var(--heat);border-color:var(--heat);
color:var(--on)}
.panel{display:none;margin-top:12px}
footer{margin-top:52px;border-top:1px solid var(--rule);padding-top:12px}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.9em;
background:var(--cell);padding:2px 5px;border-radius:4px;overflow-wrap:anywhere}
@media(max-width:820px){.pair{grid-template-columns:1fr;gap:24px}}
@media(max-width:480px){main{padding:20px 14px 40px}h1{font-size:1.45rem}
.maps{grid-template-columns:repeat(2,1fr);gap:12px}
.grid td span{min-width:40px;padding:5px 2px}th,td{padding:4px 6px}}
)";

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
  return fmt::format(
      "<figure><figcaption>{}</figcaption><svg class=\"map\" role=\"img\" "
      "aria-label=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\"{}>\n{}</svg></figure>\n",
      caption, Escape(label), map.width, map.height,
      large ? fmt::format(" style=\"max-width:{:.0f}px\"", map.width * 1.25)
            : "",
      map.body);
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
  std::string out = "<section class=\"set pair\"><div class=\"stack\">\n" +
                    beside + LargeMap(comparison, set) + "</div><div>\n";
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

std::string Cells(const Comparison& comparison, const Matrix& weights,
                  int64_t word) {
  std::string out;
  for (int64_t c = 0; c < weights.columns; ++c) {
    const double value = weights(word, c);
    const double strength = std::min(1.0, value / comparison.largest);
    out += fmt::format(
        "<td><span><i style=\"opacity:{:.3f}\"></i><em "
        "class=\"{}\">{}</em></span></td>",
        strength, OnHeat(strength), Share(value));
  }
  return out;
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
  const std::vector<std::string>& tokens = sets.front().tokens;
  std::string out = fmt::format(
      "<div class=\"panel p{}\"><div class=\"scroll\"><table class=\"grid\">"
      "<thead><tr><th scope=\"col\">“{}” looks at</th>",
      key, Escape(tokens[word]));
  for (const std::string& seen : tokens) {
    out += fmt::format("<th scope=\"col\">{}</th>", Escape(seen));
  }
  out += "</tr></thead><tbody>\n";
  for (const ComparedHeads& set : sets) {
    for (int64_t h = 0; h < set.heads; ++h) {
      out += fmt::format("<tr{}><th scope=\"row\">{}</th>{}</tr>\n",
                         h == 0 ? " class=\"first\"" : "",
                         Escape(RowName(comparison, set, h)),
                         Cells(comparison, set.maps[h].weights, word));
    }
    if (set.heads > 1) {
      out += fmt::format(
          "<tr class=\"average\"><th scope=\"row\">Average of {}</th>{}</tr>\n",
          set.model.empty() ? std::to_string(set.heads) : Escape(SetName(set)),
          Cells(comparison, set.average, word));
    }
  }
  return out + "</tbody></table></div></div>\n";
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
  // Browsers that do not know :has() show every word.
  rules += "@supports not selector(:has(a)){.panel{display:block}}</style>\n";
  return rules +
         "<div class=\"pick\"><fieldset style=\"border:0;padding:0;margin:0\">"
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

std::string LossTableHtml(const ComparedHeads& set) {
  double most = 1e-9;
  for (const WordMixture& word : set.words) most = std::max(most, word.lost);
  std::string out = fmt::format(
      "<div class=\"scroll\"><table><caption class=\"soft small\" "
      "style=\"text-align:left;padding:6px 0\">{}: what the average of each "
      "word loses</caption><thead><tr><th scope=\"col\">Word</th>"
      "<th scope=\"col\" style=\"text-align:left\">Heads’ favourites</th>"
      "<th scope=\"col\" style=\"text-align:left\">Average’s</th>"
      "<th scope=\"col\">Heads kept</th><th scope=\"col\">Distinct</th>"
      "<th scope=\"col\">Lost (nats)</th></tr></thead><tbody>\n",
      Escape(Capital(SetName(set))));
  for (size_t w = 0; w < set.words.size(); ++w) {
    const WordMixture& word = set.words[w];
    out += fmt::format(
        "<tr><th scope=\"row\">{}</th><td class=\"left\">{}</td><td "
        "class=\"left\">{}</td><td>{} of {}</td><td>{:.2f}</td><td><span "
        "class=\"lost-bar\" style=\"width:{:.0f}px\"></span>{:.3f}</td></tr>\n",
        Escape(set.tokens[w]), Favourites(set, word),
        Escape(set.tokens[word.average_favourite]), word.kept, set.heads,
        word.distinct, 60 * word.lost / most, word.lost);
  }
  return out + "</tbody></table></div>\n";
}

std::string Losses(const Comparison& comparison) {
  std::string out;
  for (const ComparedHeads& set : comparison.sets) {
    for (const std::string& line : KeptAndLost(comparison, set)) {
      out += "<p>" + Escape(Capital(line)) + "</p>\n";
    }
    if (set.heads > 1) out += LossTableHtml(set);
  }
  return out;
}

std::string Footer(const Comparison& comparison) {
  return fmt::format(
      "<footer class=\"soft small\"><p><strong>How to read it.</strong> A row "
      "of a map is one word’s distribution over the words it looks at; darker "
      "is more, full colour is {}. <em>Lost</em> is the mean of "
      "KL(head ‖ average) over heads, which is the Jensen–Shannon divergence "
      "of "
      "the heads; <em>distinct</em> is its exponential, between 1 and the "
      "number of heads.{}</p><p>Made by headwise {}: <code>headwise compare "
      "\"{}\" "
      "{} --out FILE</code></p></footer>\n",
      Share(comparison.largest),
      EqualWeights(comparison)
          ? " Every layer here has the same width and the same number of "
            "weights."
          : "",
      HEADWISE_VERSION_STRING, Escape(comparison.sentence),
      Escape(comparison.command));
}

}  // namespace

std::string ComparePage(const Comparison& comparison) {
  std::string title;
  for (const ComparedHeads& set : comparison.sets) {
    if (!title.empty()) title += " beside ";
    title += SetName(set);
  }
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\" class=\"hw\"><head><meta "
      "charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\"><title>{}</title>\n"
      "<style>{}{}</style></head><body><main>\n",
      Escape(Capital(title)), SvgStyle(), kPageStyle);
  out += fmt::format(
      "<h1>{}</h1><p class=\"lead\">“{}”</p>\n<p class=\"note\">{}</p>\n",
      Escape(Capital(title)), Escape(comparison.sentence),
      Escape(comparison.about));
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
  out += "</p>\n";
  out += AllMaps(comparison);
  out += "<h2>One word at a time</h2>\n" + WordPickers(comparison);
  out += "<h2>What is kept, what is lost</h2>\n" + Losses(comparison);
  return out + Footer(comparison) + "</main></body></html>\n";
}

}  // namespace headwise
