// Door: prune_text.h.
#include "prune_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "console.h"
#include "evaluate_text.h"
#include "headwise/base/byte_size.h"
#include "headwise/base/fields.h"
#include "headwise/drawing/terminal.h"
#include "headwise/drawing/text.h"
#include "headwise/heads/importance/interval_json.h"
#include "judge_text.h"

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

// Format of an error over the variance: outputs that hardly vary have errors
// that are any number of times as large.
std::string ErrorText(double share) {
  return share > 10 ? "more than 1000 %" : fmt::format("{:.2f} %", 100 * share);
}

std::string RepairText(const PruneOutcome& outcome) {
  std::string text;
  if (!outcome.layers.empty()) {
    const Errors mean = MeanErrors(outcome.layers);
    text += fmt::format(
        "Least squares: on that text the attention outputs of {} layers are "
        "wrong by {} of their variance (nothing done: {}; means folded: {}).\n",
        outcome.layers.size(), ErrorText(mean.fitted), ErrorText(mean.none),
        ErrorText(mean.fold));
  }
  if (outcome.tuned_step) {
    text += fmt::format(
        "Finetune: {:.4f} → {:.4f} on text that it was not trained on; step "
        "{} is kept.\n",
        outcome.tuned_before, outcome.tuned_after, *outcome.tuned_step);
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
  if (outcome.tuned_step) {
    json["finetune"] = {{"loss_before", outcome.tuned_before},
                        {"loss_after", outcome.tuned_after},
                        {"kept_step", *outcome.tuned_step}};
  }
  return json;
}

}  // namespace

void PrintShare(const HeadShare& share, const PruneOptions& options) {
  std::string text = fmt::format(
      "Heads hold {:.1f} % of the weights ({} of {}, exact) and do {:.1f} % of "
      "the operations of a text of {} tokens (counted).",
      100 * share.of_bytes(), ByteSize(static_cast<uint64_t>(share.head_bytes)),
      ByteSize(static_cast<uint64_t>(share.bytes)), 100 * share.prefill,
      share.tokens);
  if (share.decode > 0) {
    text += fmt::format(
        " Generating goes by the bytes of weights that a token reads: {:.1f} % "
        "of them are heads'.",
        100 * share.decode);
  }
  if (options.job.keep) {
    const double gone = 1 - *options.job.keep;
    text += fmt::format(
        " Keeping {:g} of them saves at most {:.1f} % of the weights and "
        "{:.1f} % of the operations.",
        *options.job.keep, 100 * gone * share.of_bytes(),
        100 * gone * share.prefill);
  }
  text += " docs/pruning.md has other levers.";
  WriteStdout("{}\n", Wrap(text, StdoutConsole().width));
  std::fflush(stdout);
}

Json ToJson(const HeadShare& share) {
  return {{"head_bytes", share.head_bytes},
          {"bytes", share.bytes},
          {"prefill_tokens", share.tokens},
          {"prefill_operations", share.prefill},
          {"decode_bytes", share.decode}};
}

void PrintProof(const PruneOptions& options, const Proof& proof) {
  const PruneOutcome& outcome = proof.outcome;
  const size_t removed = proof.plan.removed.size(), heads = proof.heads;
  WriteStdout("{} of {} left {}; {} stay.\n\n", removed,
              Counted(static_cast<int64_t>(heads), "head"), options.run.model,
              heads - removed);
  StudyTable table;
  table.columns = {"", "before", "after", "ratio"};
  table.rows.push_back({fmt::format("{} loss on {}", Name(outcome.kind),
                                    Visible(outcome.judged[0].domain)),
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
  WriteStdout(
      "\nLoss on {} of {} that chose nothing, {} tokens; change {}.\n\n",
      Counted(outcome.sequences, "sequence"), Visible(outcome.judged[0].domain),
      outcome.tokens, ToText(outcome.loss.change, true));
  PrintJudged(outcome.judged, "before", "after");
  if (const std::string warning = WarnOneDomain(outcome.judged);
      !warning.empty()) {
    WriteStdout("\nwarning: {}", Wrap(warning, StdoutConsole().width));
  }
  WriteStdout("\n");
  WriteStdout("{}", RepairText(outcome));
  if (!proof.plan.search.empty()) WriteStdout("{}\n", proof.plan.search);
  if (options.job.timing && !AnyFaster(outcome))
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
      {"judged", ToJson(std::span(outcome.judged))},
      {"warning", WarnOneDomain(outcome.judged)},
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

std::string RepairText(const PruneJob& job) {
  std::string text;
  for (const Repair repair : job.repair) {
    text += (text.empty() ? "" : ",") + std::string(FieldWord(repair));
  }
  return text.empty() ? "none" : text;
}

}  // namespace headwise
