// Tables of a ranking. Door: rank_text.h.
#include "rank_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "console.h"
#include "headwise/drawing/terminal.h"

namespace headwise {
namespace {

std::string Signed(double value) {
  return std::isfinite(value) ? fmt::format("{:+.4f}", value) : "?";
}

// ".0593", "-.0021", "1.2340": as many digits as the value beside it.
std::string Bare(double value) {
  if (!std::isfinite(value)) return "?";
  std::string text = fmt::format("{:.4f}", value);
  const size_t digit = text[0] == '-' ? 1 : 0;
  if (text[digit] == '0') text.erase(digit, 1);
  return text;
}

std::string Range(const Interval& interval) {
  return Bare(interval.low) + "…" + Bare(interval.high);
}

// Names for columns: the criterion's own are in --help and the JSON.
const char* Column(Criterion criterion) {
  switch (criterion) {
    case Criterion::kAblationZero:
      return "Δ zero";
    case Criterion::kAblationMean:
      return "Δ mean";
    case Criterion::kAblationResample:
      return "Δ other";
    case Criterion::kActivation:
      return "activ.";
    case Criterion::kWeightsOv:
      return "‖OV‖";
    case Criterion::kWeightsQk:
      return "‖QK‖";
    case Criterion::kGradient:
      return "grad";
    case Criterion::kGradientToken:
      return "grad/tok";
    case Criterion::kGradientBatch:
      return "grad/all";
    case Criterion::kGates:
      return "gate";
  }
  return "?";
}

// Heads by the primary criterion, or by the first one.
std::vector<size_t> Order(const Ranking& ranking) {
  const size_t by = ranking.primary.value_or(0);
  std::vector<size_t> order(ranking.heads.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto& heads = ranking.criteria[by].heads;
    return heads[a].value > heads[b].value;
  });
  return order;
}

StudyTable HeadTable(const Ranking& ranking, size_t top) {
  StudyTable table;
  table.columns = {"head"};
  if (!ranking.classes.empty()) table.columns.emplace_back("class");
  for (size_t c = 0; c < ranking.criteria.size(); ++c) {
    table.columns.emplace_back(Column(ranking.criteria[c].criterion));
    if (ranking.primary == c) table.columns.emplace_back("95 %");
  }
  if (!ranking.self_repair.empty()) table.columns.emplace_back("repair");
  const std::vector<size_t> order = Order(ranking);
  for (size_t place = 0; place < std::min(top, order.size()); ++place) {
    const size_t head = order[place];
    std::vector<std::string> row = {ToString(ranking.heads[head])};
    if (!ranking.classes.empty()) {
      row.emplace_back(Name(ranking.classes[head]));
    }
    for (size_t c = 0; c < ranking.criteria.size(); ++c) {
      const CriterionResult& result = ranking.criteria[c];
      const Interval& value = result.heads[head];
      row.push_back(IsAblation(result.criterion)
                        ? Signed(value.value)
                        : fmt::format("{:.3g}", value.value));
      if (ranking.primary == c) row.push_back(Range(value));
    }
    if (!ranking.self_repair.empty()) {
      const std::optional<Interval>& repair = ranking.self_repair[head];
      row.push_back(repair ? fmt::format("{:+.2f}", repair->value) : "–");
    }
    table.rows.push_back(std::move(row));
  }
  const size_t shown = table.rows.size();
  table.title = shown < order.size()
                    ? fmt::format("The {} most important of {} heads", shown,
                                  order.size())
                    : "Heads by importance";
  return table;
}

StudyTable NegativeTable(const Ranking& ranking) {
  StudyTable table;
  table.title = fmt::format(
      "Heads that hurt: closing them lowers the loss by more than {:.4f}; "
      "chosen on one half of the text, confirmed on the other",
      ranking.least_negative);
  table.columns = {"head", "Δloss, chosen", "Δloss, confirmed", "95 %"};
  for (const NegativeHead& head : ranking.hurting.heads) {
    table.rows.push_back(
        {ToString(ranking.heads[head.head]), Signed(head.selection.value),
         Signed(head.confirmation.value), Range(head.confirmation)});
  }
  return table;
}

StudyTable LayerTable(const Ranking& ranking) {
  StudyTable table;
  table.title = "Whole layers closed";
  table.columns = {"layer", "Δloss", "95 %"};
  for (const LayerImportance& layer : ranking.layers) {
    const std::string name =
        layer.kind == AttentionKind::kSelf
            ? std::to_string(layer.layer)
            : fmt::format("{}:{}", Name(layer.kind), layer.layer);
    table.rows.push_back({name, Signed(layer.delta.value), Range(layer.delta)});
  }
  return table;
}

StudyTable CriterionTable(const Ranking& ranking) {
  StudyTable table;
  table.title = "Criteria: how uneven, and how their ranks agree (Spearman)";
  table.columns = {"criterion", "Gini", "effective"};
  for (const CriterionResult& result : ranking.criteria) {
    table.columns.emplace_back(Column(result.criterion));
  }
  for (size_t a = 0; a < ranking.criteria.size(); ++a) {
    const CriterionResult& result = ranking.criteria[a];
    std::vector<std::string> row = {Column(result.criterion),
                                    fmt::format("{:.2f}", result.gini),
                                    fmt::format("{:.1f}", result.effective)};
    for (size_t b = 0; b < ranking.criteria.size(); ++b) {
      std::string cell = "1";
      for (const RankCorrelation& pair : ranking.correlations) {
        if (std::minmax(a, b) == std::minmax(pair.a, pair.b)) {
          cell = fmt::format("{:.2f}", pair.spearman);
        }
      }
      row.push_back(std::move(cell));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

// The pairs that cost most beyond what their heads cost alone.
StudyTable PairTable(const Ranking& ranking, size_t top) {
  StudyTable table;
  table.title = "Pairs that cost more together than apart";
  table.columns = {"pair", "Δloss", "beyond the sum", "95 %"};
  std::vector<PairEffect> pairs;
  for (const PairEffect& pair : ranking.pairs) {
    if (pair.interaction.low > 0) pairs.push_back(pair);
  }
  std::sort(pairs.begin(), pairs.end(),
            [](const PairEffect& a, const PairEffect& b) {
              return a.interaction.value > b.interaction.value;
            });
  pairs.resize(std::min(pairs.size(), top));
  for (const PairEffect& pair : pairs) {
    table.rows.push_back({ToString(ranking.heads[pair.a]) + " + " +
                              ToString(ranking.heads[pair.b]),
                          Signed(pair.delta.value),
                          Signed(pair.interaction.value),
                          Range(pair.interaction)});
  }
  return table;
}

void Print(const StudyTable& table, const Console& console) {
  WriteDrawn("\n{}{}", Wrap(table.title, console.width),
             DrawTable(table, console));
}

}  // namespace

void PrintRanking(const Ranking& ranking, size_t most, bool pairs) {
  const Console console = StdoutConsole();
  WriteStdout("{}", Wrap(fmt::format("Loss: {} ({}), {:.4f} over {} in {}.",
                                     Name(ranking.loss_kind),
                                     Describe(ranking.loss_kind), ranking.loss,
                                     Counted(ranking.tokens, "token"),
                                     Counted(ranking.sequences, "sequence")),
                         console.width));
  if (ranking.gradient_loss && *ranking.gradient_loss != ranking.loss_kind) {
    WriteStdout("{}",
                Wrap(fmt::format("Gradients are of another loss: {} ({}).",
                                 Name(*ranking.gradient_loss),
                                 Describe(*ranking.gradient_loss)),
                     console.width));
  }
  const size_t top = most > 0 ? most : ranking.heads.size();
  Print(HeadTable(ranking, top), console);
  if (!ranking.hurting.heads.empty()) Print(NegativeTable(ranking), console);
  if (pairs) Print(PairTable(ranking, top), console);
  if (!ranking.layers.empty()) Print(LayerTable(ranking), console);
  Print(CriterionTable(ranking), console);
  WriteStdout("\n");
  if (ranking.primary) {
    WriteStdout("{}", Wrap(Summary(ranking), console.width));
  }
  for (const std::string& note : ranking.notes) {
    WriteStdout("{}", Wrap(fmt::format("Missing: {}.", note), console.width));
  }
}

}  // namespace headwise
