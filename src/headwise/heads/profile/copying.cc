// Eigenvalues of heads' value circuits. Door: copying.h.
#include "headwise/heads/profile/copying.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/nn/head_weights.h"
#include "headwise/nn/release.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/tensor/eigenvalues.h"

namespace headwise {
namespace {

// [m, n] = a [m, k] · b [k, n], or aᵀ with a [k, m].
Tensor Product(Context& context, const Tensor& a, Operand a_kind,
               const Tensor& b) {
  MatmulProblem problem;
  const bool plain = a_kind == Operand::kPlain;
  problem.m = a.shape(plain ? 0 : 1);
  problem.k = a.shape(plain ? 1 : 0);
  problem.n = b.shape(1);
  problem.a = a_kind;
  Tensor c(DType::kF32, {problem.m, problem.n});
  MatmulArgs args;
  args.a = a.view();
  args.b = b.view();
  args.c = c.view();
  Matmul(context, problem, args);
  return c;
}

double CopyingScore(const Tensor& core) {
  Matrix matrix(core.shape(0), core.shape(1));
  std::copy_n(core.As<float>(), core.size(), matrix.values.begin());
  double real = 0, size = 0;
  for (const std::complex<double>& value : Eigenvalues(matrix)) {
    real += value.real();
    size += std::abs(value);
  }
  return size > 0 ? real / size : 0;
}

// W_U·W_E [d, d], summed over pieces of the vocabulary; empty where the model
// has no vocabulary head that is one matrix [vocabulary, d].
Tensor ThroughVocabulary(Context& context, const Model& model) {
  const VocabularyHead& head = model.head();
  if (model.decoder() != nullptr || !model.has_head() || head.transform ||
      head.vocabulary.parts().size() != 1 ||
      head.vocabulary.layout() != WeightLayout::kOutIn) {
    return {};
  }
  const ConstTensorView out = head.vocabulary.parts()[0].weight.value;
  const ConstTensorView in = model.stack().embeddings.tokens.value;
  const int64_t width = in.shape[1];
  const int64_t size = std::min(in.shape[0], out.shape[0]);
  constexpr int64_t kPiece = 4096;
  Tensor sum(DType::kF32, {width, width});
  for (int64_t begin = 0; begin < size; begin += kPiece) {
    const int64_t count = std::min(kPiece, size - begin);
    std::vector<int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(begin));
    Tensor u(DType::kF32, {count, width}), e(DType::kF32, {count, width});
    EmbeddingForward(context, out, ids, u.view());
    EmbeddingForward(context, in, ids, e.view());
    const Tensor piece = Product(context, u, Operand::kTransposed, e);
    for (int64_t i = 0; i < sum.size(); ++i) {
      sum.As<float>()[i] += piece.As<float>()[i];
    }
  }
  ReleaseWeight(out);
  ReleaseWeight(in);
  return sum;
}

}  // namespace

void AddCopying(Context& context, const Model& model, Profile& profile) {
  const Tensor vocabulary = ThroughVocabulary(context, model);
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    const HeadRef& ref = profile.heads[i];
    const HeadWeights weights =
        WeightsOfHead(*AttentionLayers(model, ref.kind)[ref.layer], ref.head);
    // The value matrix of cross-attention reads another stream: what it would
    // copy there has no place in this one.
    if (ref.kind == AttentionKind::kCross) continue;
    const Tensor core = Product(context, weights.o, Operand::kPlain, weights.v);
    profile.Tallies("copying")[i].Add(CopyingScore(core), 1);
    if (vocabulary.size() == 0) continue;
    const Tensor logits =
        Product(context, weights.o, Operand::kPlain, vocabulary);
    profile.Tallies("copying.vocabulary")[i].Add(
        CopyingScore(Product(context, logits, Operand::kPlain, weights.v)), 1);
  }
}

}  // namespace headwise
