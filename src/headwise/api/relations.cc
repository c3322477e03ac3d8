// Which heads are alike and which feed which. Doors:
// include/headwise/similar.h, compose.h.
#include <algorithm>
#include <string>

#include "headwise/api/keep.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/fields.h"
#include "headwise/error.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/heads/importance/examples.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/similarity/similarity.h"

namespace headwise {

HeadSimilarity CompareHeads(Transformer& model, const TextInput& text,
                            const SimilarityJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "similar");
  CheckFields(job, "similar");
  Transformer::State& state = model.state();
  const std::vector<TokenWindow> windows =
      WindowsOf(model, text, text.context, kAnalysedTokens);
  HeadSimilarity found = RunKept(
      model, "similar", job, TextKey(ExamplesOf(windows)), "",
      [&](const PassOptions& pass) {
        return CompareHeads(state.context, state.model(), windows, job, pass);
      });
  if (state.is_first()) found.json = ToJson(found).dump();
  return found;
}

Composition ComposeHeads(Transformer& model, const CompositionJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "compose");
  if (job.by == EdgeOrder::kEffect) {
    throw Error(ErrorCode::kInvalidArgument,
                {"`by`", "a text to measure effects on", "none",
                 "give a text, or compose by weights"});
  }
  Transformer::State& state = model.state();
  return MeasureComposition(state.context, state.model(), job);
}

Composition ComposeHeads(Transformer& model, const TextInput& text,
                         const CompositionJob& job) {
  const ModelUse use(model);
  CompositionJob weights = job;
  weights.by = EdgeOrder::kWeights;
  Transformer::State& state = model.state();
  const int64_t tokens = text.tokens.value_or(kEffectTokens);
  int64_t context = ContextOf(state.checkpoint.config(), text.context);
  if (tokens > 0) context = std::min(context, std::max<int64_t>(8, tokens));
  std::vector<TokenWindow> windows;
  if (state.model().decoder() == nullptr) {  // else MeasureEffects refuses
    windows = WindowsOf(model, text, context, tokens);
  }
  Composition composition = ComposeHeads(model, weights);
  MeasureEffects(state.context, state.model(), windows, job, composition);
  if (job.by == EdgeOrder::kEffect) SortByEffect(composition);
  return composition;
}

std::string JsonText(const Composition& composition, size_t top) {
  return ToJson(composition, top).dump();
}

}  // namespace headwise
