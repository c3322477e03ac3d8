// Door: prune_material.h.
#include "prune_material.h"

#include "headwise/heads/importance/examples.h"
#include "headwise/runtime/windows.h"
#include "interrupt.h"
#include "past_context.h"

namespace headwise {
PruneMaterial ReadPruneMaterial(const RunFlags& run, const TextFlags& text) {
  PruneMaterial material = {
      Checkpoint(run.model, text.reading.options(), run.engine.compute()),
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

}  // namespace headwise
