// headwise bleu: how near translations come to references.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "commands.h"
#include "console.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"
#include "headwise/train/bleu.h"

namespace headwise {
namespace bleu_command {
namespace {

// What sacreBLEU would print of the same settings.
constexpr const char* kSignature = "case:mixed|eff:no|tok:13a|smooth:exp";

struct Options {
  std::string hypotheses;
  std::string references;
  std::string baseline;
  int64_t replicates = 1000;
  uint64_t seed = 12345;
  bool json = false;
};

std::vector<std::string> ReadLines(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  if (const size_t bad = FindInvalidUtf8(text); bad != std::string_view::npos) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {path, "UTF-8 text", fmt::format("another byte at {}", bad), ""});
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<BleuCounts> Count(const std::string& path,
                              const std::vector<std::string>& references) {
  const std::vector<std::string> lines = ReadLines(path);
  if (lines.size() != references.size() || lines.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {path,
         references.empty() ? "at least one line"
                            : fmt::format("{} lines, as many as the references",
                                          references.size()),
         std::to_string(lines.size()), "one segment a line"});
  }
  std::vector<BleuCounts> counts;
  counts.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    counts.push_back(CountBleu(lines[i], references[i]));
  }
  return counts;
}

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
  const std::vector<BleuCounts> counts = Count(options.hypotheses, references);
  const BleuEstimate estimate =
      EstimateBleu(counts, options.replicates, options.seed);
  std::optional<BleuEstimate> other;
  BleuDifference gain;
  if (!options.baseline.empty()) {
    const std::vector<BleuCounts> base = Count(options.baseline, references);
    other = EstimateBleu(base, options.replicates, options.seed);
    gain = CompareBleu(counts, base, options.replicates, options.seed);
  }
  if (options.json) {
    Json json = ToJson(estimate);
    json["segments"] = counts.size();
    json["signature"] = kSignature;
    if (other) {
      json["baseline"] = ToJson(*other);
      json["gain"] = {
          {"bleu", gain.value}, {"low", gain.low}, {"high", gain.high}};
    }
    WriteJson(json.dump(2));
    return kSucceeded;
  }
  const int width = StdoutConsole().width;
  WriteStdout("{}{}", ToText(estimate, width),
              Wrap(fmt::format("{} segments, {}", counts.size(), kSignature),
                   width, 2));
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
              "What they should be, one a line")
      .Required();
  line.Option("--baseline", options->baseline,
              "Translations of another model, to compare with on the same "
              "resampled lines");
  line.Option("--replicates", options->replicates,
              "Resampled corpora of the 95 % intervals")
      .Between(1, 1000000)
      .ShowDefault();
  line.Option("--seed", options->seed, "Of the resampling").ShowDefault();
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
