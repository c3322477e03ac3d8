// Which heads are alike and which feed which. Doors:
// include/headwise/similar.h, compose.h.
#include "headwise/api/relations.h"

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

namespace headwise {
namespace {

Tensor TensorOf(const Matrix& matrix) {
  Tensor tensor(DType::kF64, {matrix.rows, matrix.columns});
  std::copy(matrix.values.begin(), matrix.values.end(), tensor.As<double>());
  return tensor;
}

Matrix MatrixOf(const Tensor& tensor) {
  Matrix matrix(tensor.shape(0), tensor.shape(1));
  std::copy_n(tensor.As<double>(), matrix.values.size(), matrix.values.begin());
  return matrix;
}

}  // namespace

Similarity SimilarityOf(Transformer& model, const TextInput& text,
                        const SimilarityJob& job) {
  RequireWhole(model, "similar");
  CheckFields(job, "similar");
  Transformer::State& state = model.state();
  const std::vector<TokenWindow> windows =
      WindowsOf(model, text, text.context, kAnalysedTokens);
  return RunKept(model, "similar", job, TextKey(ExamplesOf(windows)), "",
                 [&](const PassOptions& pass) {
                   return CompareHeads(state.context, state.model(), windows,
                                       job, pass);
                 });
}

Similarity SimilarityOf(const HeadSimilarity& found) {
  Similarity result;
  result.heads = found.heads;
  result.jsd = MatrixOf(found.jsd);
  result.clusters = {found.group, found.order};
  result.map = MatrixOf(found.map);
  return result;
}

HeadSimilarity CompareHeads(Transformer& model, const TextInput& text,
                            const SimilarityJob& job) {
  const ModelUse use(model);
  const Similarity found = SimilarityOf(model, text, job);
  HeadSimilarity result;
  result.heads = found.heads;
  if (!model.state().is_first()) return result;
  result.tokens = found.tokens;
  result.rows = found.rows;
  result.sampled_rows = found.sampled_rows;
  result.samples = found.samples;
  result.bhattacharyya = TensorOf(found.bhattacharyya);
  result.jsd = TensorOf(found.jsd);
  result.cka = TensorOf(found.cka);
  result.ov_read = TensorOf(found.ov_read);
  result.ov_write = TensorOf(found.ov_write);
  result.group = found.clusters.group;
  result.order = found.clusters.order;
  result.map = TensorOf(found.map);
  result.closest = found.closest;
  result.twins = found.twins;
  result.json = ToJson(found).dump();
  return result;
}

Composition ComposeHeads(Transformer& model, const CompositionJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "compose");
  if (job.by == EdgeOrder::kEffect) {
    throw Error(ErrorCode::kInvalidArgument,
                {"by", "a text to measure effects on", "none", ""});
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
