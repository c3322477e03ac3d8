// Door: prune_text.h.
#include "prune_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "console.h"
#include "headwise/base/byte_size.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/report/terminal.h"
#include "interval_text.h"

namespace headwise {
namespace {

bool AnyFaster(const PruneOutcome& outcome) {
  return std::any_of(outcome.timings.begin(), outcome.timings.end(),
                     [](const PairTiming& timing) {
                       return timing.after_ms < 0.98 * timing.before_ms;
                     });
}

struct Errors {
  double none = 0, fold = 0, fitted = 0;
};
// Over layers, each counting alike.
Errors MeanErrors(const std::vector<LayerError>& layers) {
  Errors mean;
  const auto n = static_cast<double>(layers.size());
  for (const LayerError& layer : layers) {
    mean.none += layer.none / n;
    mean.fold += layer.fold / n;
    mean.fitted += layer.fitted / n;
  }
  return mean;
}

std::string RepairText(const PruneOutcome& outcome) {
  std::string text;
  if (!outcome.layers.empty()) {
    const Errors mean = MeanErrors(outcome.layers);
    text += fmt::format(
        "Least squares: on that text the attention outputs of {} layers are "
        "wrong by {:.2f} % of their variance (nothing done: {:.2f} %; means "
        "folded: {:.2f} %).\n",
        outcome.layers.size(), 100 * mean.fitted, 100 * mean.none,
        100 * mean.fold);
  }
  if (outcome.tuned_step >= 0) {
    text += fmt::format(
        "Finetune: {:.4f} → {:.4f} on text that it was not trained on; step "
        "{} is kept.\n",
        outcome.tuned_before, outcome.tuned_after, outcome.tuned_step);
  }
  return text;
}

Json RepairJson(const PruneOutcome& outcome) {
  Json json = Json::object();
  if (!outcome.layers.empty()) {
    const Errors mean = MeanErrors(outcome.layers);
    Json layers = Json::array();
    for (const LayerError& layer : outcome.layers) {
      layers.push_back({{"site", layer.site},
                        {"none", layer.none},
                        {"fold", layer.fold},
                        {"least_squares", layer.fitted},
                        {"ridge", layer.ridge}});
    }
    json["output_error"] = {{"none", mean.none},
                            {"fold", mean.fold},
                            {"least_squares", mean.fitted},
                            {"layers", std::move(layers)}};
  }
  if (outcome.tuned_step >= 0) {
    json["finetune"] = {{"loss_before", outcome.tuned_before},
                        {"loss_after", outcome.tuned_after},
                        {"kept_step", outcome.tuned_step}};
  }
  return json;
}

}  // namespace

void PrintProof(const PruneOptions& options, const Proof& proof) {
  const PruneOutcome& outcome = proof.outcome;
  const size_t removed = proof.plan.removed.size(), heads = proof.heads;
  WriteStdout("{} of {} left {}; {} stay.\n\n", removed,
              Counted(static_cast<int64_t>(heads), "head"), options.run.model,
              heads - removed);
  StudyTable table;
  table.columns = {"", "before", "after", "ratio"};
  table.rows.push_back({fmt::format("{} loss", Name(outcome.kind)),
                        ToText(outcome.loss.whole), ToText(outcome.loss.other),
                        ""});
  for (const PairTiming& timing : outcome.timings) {
    table.rows.push_back(
        {timing.what + ", tokens/s",
         fmt::format("{:.0f}", 1e3 * timing.tokens / timing.before_ms),
         fmt::format("{:.0f}", 1e3 * timing.tokens / timing.after_ms),
         fmt::format("{:.2f}×", timing.before_ms / timing.after_ms)});
  }
  const auto bytes = [&](const char* what, const int64_t(&both)[2]) {
    if (both[0] == 0) return;
    table.rows.push_back(
        {what, ByteSize(static_cast<uint64_t>(both[0])),
         ByteSize(static_cast<uint64_t>(both[1])),
         fmt::format("{:.2f}", static_cast<double>(both[1]) /
                                   static_cast<double>(both[0]))});
  };
  bytes("weights", outcome.weight_bytes);
  bytes("cache a token", outcome.cache_bytes);
  WriteDrawn("{}", DrawTable(table, StdoutConsole()));
  WriteStdout("\nLoss on {} that chose nothing, {} tokens; change {}.\n",
              Counted(outcome.sequences, "sequence"), outcome.tokens,
              ToText(outcome.loss.change, true));
  WriteStdout("{}", RepairText(outcome));
  if (!proof.plan.search.empty()) WriteStdout("{}\n", proof.plan.search);
  if (!options.no_timing && !AnyFaster(outcome))
    WriteStdout("Nothing became faster by 2 %.\n");
  if (!proof.note.empty()) WriteStdout("{}\n", proof.note);
  WriteStdout("Written to {}.\n", options.out);
}

Json ToJson(const Proof& proof) {
  const PruneOutcome& outcome = proof.outcome;
  Json timings = Json::array();
  for (const PairTiming& timing : outcome.timings) {
    timings.push_back({{"what", timing.what},
                       {"tokens", timing.tokens},
                       {"before_ms", timing.before_ms},
                       {"after_ms", timing.after_ms}});
  }
  Json json = {
      {"loss_kind", Name(outcome.kind)},
      {"sequences", outcome.sequences},
      {"tokens", outcome.tokens},
      {"loss_before", ToJson(outcome.loss.whole)},
      {"loss_after", ToJson(outcome.loss.other)},
      {"change", ToJson(outcome.loss.change)},
      {"timings", timings},
      {"faster", AnyFaster(outcome)},
      {"note", proof.note},
      {"weight_bytes", {outcome.weight_bytes[0], outcome.weight_bytes[1]}},
      {"cache_bytes_a_token",
       {outcome.cache_bytes[0], outcome.cache_bytes[1]}}};
  json.update(RepairJson(outcome));
  if (!proof.plan.search.empty()) json["search"] = proof.plan.search;
  return json;
}

}  // namespace headwise
