// Door: evaluate_text.h.
#include "evaluate_text.h"

#include <fmt/core.h>

#include <cmath>
#include <vector>

#include "console.h"
#include "headwise/base/json.h"
#include "headwise/drawing/text.h"
#include "headwise/heads/importance/interval_json.h"

namespace headwise {
namespace {

std::vector<std::string> NamesOf(std::span<const HeadRef> heads) {
  std::vector<std::string> names;
  for (const HeadRef& head : heads) names.push_back(ToString(head));
  return names;
}

// other: what it is called.
Json ToJson(const Compared& compared, const char* other) {
  return {{"whole", ToJson(compared.whole)},
          {other, ToJson(compared.other)},
          {"change", ToJson(compared.change)}};
}

// As scores are, of which none is unknown.
Json BleuJson(const Interval& bleu) {
  return {{"value", bleu.value}, {"low", bleu.low}, {"high", bleu.high}};
}

Json ToJson(const HeadEvaluation& result, std::span<const HeadRef> closed,
            const std::string& model) {
  Json json = {{"format", "headwise.evaluation/1"},
               {"model", model},
               {"loss_kind", Name(result.kind)},
               {"sequences", result.sequences},
               {"tokens", result.tokens},
               {"loss", ToJson(result.loss.whole)},
               {"closed_heads", NamesOf(closed)},
               {"closed", ToJson(result.loss.other)},
               {"change", ToJson(result.loss.change)}};
  if (result.right) json["right"] = ToJson(*result.right, "closed");
  if (result.bleu) {
    json["bleu"] = {{"whole", BleuJson(result.bleu->whole)},
                    {"closed", BleuJson(result.bleu->other)},
                    {"change", BleuJson(result.bleu->change)}};
  }
  return json;
}

std::string BleuText(const Interval& bleu, bool sign) {
  return sign ? fmt::format("  BLEU {:+.2f} [{:+.2f}, {:+.2f}]", bleu.value,
                            bleu.low, bleu.high)
              : fmt::format("  BLEU {:.2f} [{:.2f}, {:.2f}]", bleu.value,
                            bleu.low, bleu.high);
}

void PrintRow(const char* word, const HeadEvaluation& result,
              Interval Compared::*part) {
  const bool sign = part == &Compared::change;
  WriteStdout("{:<7} {}", word, ToText(result.loss.*part, sign));
  if (result.right) {
    WriteStdout("  right {}", ToText((*result.right).*part, sign));
  }
  WriteStdout("{}\n", result.bleu ? BleuText((*result.bleu).*part, sign) : "");
}

void PrintTitle(LossKind kind, int64_t sequences, int64_t tokens) {
  WriteStdout("{} loss on {} of {} tokens, 95 % intervals over the sequences\n",
              Name(kind), Counted(sequences, "sequence"), tokens);
}

}  // namespace

void PrintEvaluation(const HeadEvaluation& result,
                     std::span<const HeadRef> closed, const RunFlags& run) {
  if (run.json) {
    WriteJson(ToJson(result, closed, run.model).dump(2));
    return;
  }
  PrintTitle(result.kind, result.sequences, result.tokens);
  PrintRow("whole", result, &Compared::whole);
  if (closed.empty()) {
    if (result.kind != LossKind::kEmbeddingCosine) return;
    WriteStdout("{}", Wrap("The loss is the distance from the model's own "
                           "output, which is 0; --against MODEL compares it "
                           "with the model that it was made of.",
                           StdoutConsole().width));
    return;
  }
  PrintRow("closed", result, &Compared::other);
  PrintRow("change", result, &Compared::change);
  WriteStdout("{} closed.\n", Counted(std::ssize(closed), "head"));
}

void PrintEvaluation(const LabelEvaluation& result,
                     std::span<const HeadRef> closed, const RunFlags& run) {
  if (run.json) {
    const Json json = {{"format", "headwise.evaluation/1"},
                       {"model", run.model},
                       {"loss_kind", "class"},
                       {"sequences", result.texts},
                       {"loss", ToJson(result.loss.whole)},
                       {"closed_heads", NamesOf(closed)},
                       {"closed", ToJson(result.loss.other)},
                       {"accuracy", ToJson(result.accuracy, "closed")}};
    WriteJson(json.dump(2));
    return;
  }
  WriteStdout("class loss and accuracy on {}\n", Counted(result.texts, "text"));
  WriteStdout("whole   {}  accuracy {}\n", ToText(result.loss.whole),
              ToText(result.accuracy.whole));
  if (closed.empty()) return;
  WriteStdout("closed  {}  accuracy {}  ({})\n", ToText(result.loss.other),
              ToText(result.accuracy.other),
              Counted(std::ssize(closed), "head"));
  WriteStdout("change of the accuracy {}\n",
              ToText(result.accuracy.change, true));
}

void PrintEvaluation(const CacheEvaluation& result, const CacheChoice& choice,
                     const RunFlags& run, const std::string& model_hash) {
  if (run.json) {
    const Json json = {{"format", "headwise.evaluation/1"},
                       {"model", run.model},
                       {"loss_kind", Name(LossKind::kNextToken)},
                       {"sequences", result.sequences},
                       {"tokens", result.tokens},
                       {"loss", ToJson(result.loss.whole)},
                       {"cut", ToJson(result.loss.other)},
                       {"change", ToJson(result.loss.change)},
                       {"right", ToJson(result.right, "cut")},
                       {"cache", ToJson(choice, result.bytes, model_hash)}};
    WriteJson(json.dump(2));
    return;
  }
  PrintTitle(LossKind::kNextToken, result.sequences, result.tokens);
  WriteStdout("whole   {}  right {}\n", ToText(result.loss.whole),
              ToText(result.right.whole));
  WriteStdout("cut     {}  right {}\n", ToText(result.loss.other),
              ToText(result.right.other));
  WriteStdout("change  {}  right {}\n", ToText(result.loss.change, true),
              ToText(result.right.change, true));
  WriteStdout("{}", Wrap(Capital(ToText(choice, result.bytes)) + ".",
                         StdoutConsole().width));
}

std::string ToText(const Interval& interval, bool sign) {
  const auto number = [sign](double value) {
    if (!std::isfinite(value)) return std::string("?");
    return sign ? fmt::format("{:+.4f}", value) : fmt::format("{:.4f}", value);
  };
  return fmt::format("{} [{}, {}]", number(interval.value),
                     number(interval.low), number(interval.high));
}

}  // namespace headwise
