// Door: prune_material.h.
#include "prune_material.h"

#include <fmt/core.h>

#include <cmath>

#include "headwise/heads/importance/examples.h"
#include "headwise/runtime/windows.h"
#include "interrupt.h"
#include "past_context.h"

namespace headwise {
PruneMaterial ReadPruneMaterial(const RunFlags& run, const TextFlags& text) {
  PruneMaterial material = {
      Checkpoint(run.model, text.reading.options(), run.engine.compute()),
      {},
      {},
      {}};
  const Tokenizer& tokenizer = material.checkpoint.tokenizer();
  const ModelConfig& config = material.checkpoint.config();
  const WindowCutter cutter(tokenizer, config,
                            {ShortContext(config, text.context)});
  const std::vector<TokenWindow> windows =
      ReadWindows(text.paths, cutter, text.tokens);
  WarnPastContext(config, Longest(windows));
  WarnUnknownScript(tokenizer, windows);
  material.examples = ExamplesOf(windows);
  material.objective = ObjectiveFor(tokenizer);
  if (!config.encoder_decoder()) return material;
  for (const TokenWindow& window : windows) {
    material.references.push_back(window.target.text ? *window.target.text
                                                     : "");
  }
  return material;
}

CorpusOptions CorpusOptionsFor(const PruneMaterial& material, ProgressBar& bar,
                               uint64_t seed) {
  CorpusOptions options;
  options.objective = material.objective;
  options.objective.seed = options.seed = seed;
  options.progress = bar.callback();
  options.stop = StopOnInterrupt();
  return options;
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
