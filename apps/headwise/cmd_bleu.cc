// headwise bleu: how near translations come to references.
#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "flags.h"
#include "headwise/base/json.h"
#include "headwise/bleu.h"
#include "headwise/drawing/text.h"
#include "headwise/text_input.h"

namespace headwise {
namespace bleu_command {
namespace {

struct Options {
  std::string hypotheses;
  std::string references;
  std::string baseline;
  BleuJob job;
  bool json = false;
};

Json ToJson(const BleuEstimate& estimate) {
  return {{"bleu", estimate.score.score},
          {"low", estimate.low},
          {"high", estimate.high},
          {"precisions", estimate.score.precisions},
          {"brevity_penalty", estimate.score.brevity},
          {"hypothesis_words", estimate.counts.hypothesis},
          {"reference_words", estimate.counts.reference}};
}

std::string ToText(const BleuEstimate& estimate, int width) {
  const auto& p = estimate.score.precisions;
  return Wrap(fmt::format("BLEU {:.2f} [{:.2f}, {:.2f}]", estimate.score.score,
                          estimate.low, estimate.high),
              width) +
         Wrap(fmt::format("precisions {:.1f}/{:.1f}/{:.1f}/{:.1f}, brevity "
                          "penalty {:.3f}",
                          p[0], p[1], p[2], p[3], estimate.score.brevity),
              width, 2) +
         Wrap(fmt::format("{} words, references {}", estimate.counts.hypothesis,
                          estimate.counts.reference),
              width, 2);
}

int Run(const Options& options) {
  const std::vector<std::string> references = ReadLines(options.references);
  const std::vector<BleuCounts> counts =
      CountBleu(ReadLines(options.hypotheses), references);
  const BleuEstimate estimate = EstimateBleu(counts, options.job);
  std::optional<BleuEstimate> other;
  BleuDifference gain;
  if (!options.baseline.empty()) {
    const std::vector<BleuCounts> base =
        CountBleu(ReadLines(options.baseline), references);
    other = EstimateBleu(base, options.job);
    gain = CompareBleu(counts, base, options.job);
  }
  if (options.json) {
    Json json = ToJson(estimate);
    json["segments"] = counts.size();
    json["signature"] = kBleuSignature;
    if (other) {
      json["baseline"] = ToJson(*other);
      json["gain"] = {
          {"bleu", gain.value}, {"low", gain.low}, {"high", gain.high}};
    }
    WriteJson(json.dump(2));
    return kSucceeded;
  }
  const int width = StdoutConsole().width;
  WriteStdout(
      "{}{}", ToText(estimate, width),
      Wrap(fmt::format("{} segments, {}", counts.size(), kBleuSignature), width,
           2));
  if (other) {
    WriteStdout("baseline: {}gain {:+.2f} [{:+.2f}, {:+.2f}]\n",
                ToText(*other, width), gain.value, gain.low, gain.high);
  }
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto options = std::make_shared<Options>();
  line.Option("HYPOTHESES", options->hypotheses, "Translations, one a line")
      .Required();
  line.Option("REFERENCES", options->references,
              "Reference translations, one a line")
      .Required();
  line.Option("--baseline", options->baseline,
              "Translations of another model, to compare with on the same "
              "resampled lines");
  AddFlags(line, options->job);
  line.Flag("--json", options->json, "Print JSON");
  return [options] { return Run(*options); };
}

}  // namespace
}  // namespace bleu_command

const Command kBleuCommand = {
    .name = "bleu",
    .group = Group::kTools,
    .summary = "BLEU of translations, as sacreBLEU computes it",
    .examples =
        "  headwise bleu translated.txt reference.txt\n"
        "  headwise bleu eight-heads.txt reference.txt --baseline one-head.txt",
    .setup = bleu_command::Setup};

}  // namespace headwise
