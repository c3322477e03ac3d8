// Losses with heads closed. Door: evaluate.h.
#include "headwise/heads/pruning/evaluate.h"

#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kReplicates = 2000;

Evaluation Compared(const CorpusRuns& runs, const std::vector<double>& closed,
                    uint64_t seed) {
  Evaluation result;
  result.loss_kind = runs.loss_kind();
  result.sequences = std::ssize(runs.weights());
  result.tokens = runs.tokens();
  const PairedBootstrap bootstrap(runs.weights(), kReplicates, seed);
  std::vector<double> change(closed.size());
  for (size_t i = 0; i < closed.size(); ++i) {
    change[i] = closed[i] - runs.base()[i];
  }
  result.loss = bootstrap.Ratio(runs.base());
  result.closed = bootstrap.Ratio(closed);
  result.change = bootstrap.Ratio(change);
  return result;
}

}  // namespace

Evaluation Evaluate(Context& context, const Model& model,
                    std::span<const TextExample> examples,
                    const HeadSet& closed, Criterion ablation,
                    const CorpusOptions& options) {
  CorpusRuns runs(context, model, examples, options);
  if (closed.empty()) return Compared(runs, runs.base(), options.seed);
  const LossTable table = runs.Ablate({&closed, 1}, ablation, "evaluate");
  return Compared(runs, table[0], options.seed);
}

Evaluation EvaluateBoth(Context& context, const Model& whole,
                        const Model& smaller,
                        std::span<const TextExample> examples,
                        const CorpusOptions& options) {
  if (LossOf(whole) == LossKind::kEmbeddingCosine) {
    throw Error(ErrorCode::kUnsupported,
                {"evaluate", "a model that predicts tokens",
                 "one judged by the distance from its own output", ""});
  }
  const CorpusRuns runs(context, whole, examples, options);
  const CorpusRuns other(context, smaller, examples, options);
  return Compared(runs, other.base(), options.seed);
}

}  // namespace headwise
