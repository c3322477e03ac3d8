// Claim: two heads that look at the same positions can return different
//   content.
// Expectation: with equal W_Q, W_K and different W_V the distributions are the
//   same and the outputs differ; yet one head of full value width returns both,
//   so a different content map alone is no advantage of several heads.
//   Different distributions are: then the one head no longer suffices.
// Kind: law.
#include <algorithm>
#include <cmath>

#include "headwise/base/distribution.h"
#include "headwise/multi_head_attention.h"
#include "headwise/study/study.h"
#include "headwise/tensor/matrix.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace content_study {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kWidth = 64;
constexpr int64_t kHeadDim = 32;
constexpr int64_t kWords = 8;

// Two heads of 32 whose second queries and keys are the first's, or not.
MultiHeadAttention TwoHeads(bool same_distribution) {
  MultiHeadAttention module(
      {.d_model = kWidth, .heads = 2, .output_projection = false}, kSeed);
  if (!same_distribution) return module;
  for (Tensor* w : {&module.parameters().w_q, &module.parameters().w_k}) {
    for (int64_t r = 0; r < kWidth; ++r) {
      float* row = w->As<float>() + r * kWidth;
      std::copy_n(row, kHeadDim, row + kHeadDim);
    }
  }
  return module;
}

// Head 0's distribution with values as wide as both heads together.
Matrix OneWideValueHead(Context& context, const MultiHeadAttention& module,
                        const Tensor& x) {
  MultiHeadAttentionActivations kept;
  Tensor unused(DType::kF32, {1, kWords, module.output_dim()});
  module.Forward(context, {.x = x.view()}, unused.view(), &kept);
  Tensor out(DType::kF32, {1, kWords, 1, kWidth});
  AttentionProblem problem;
  problem.query_len = problem.key_len = kWords;
  problem.head_dim = kHeadDim;
  problem.value_dim = kWidth;
  AttentionArgs args;
  args.q = kept.q();
  args.k = kept.k();
  args.q.shape[2] = args.k.shape[2] = 1;  // head 0 of both
  args.v = Reshaped(kept.v(), {1, kWords, 1, kWidth});
  args.out = out.view();
  AttentionForward(context, problem, args);
  return FromTensor(out);
}

double Cosine(const Matrix& a, const Matrix& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    ab += a.values[i] * b.values[i];
    aa += a.values[i] * a.values[i];
    bb += b.values[i] * b.values[i];
  }
  return ab / std::sqrt(aa * bb);
}

StudyResult Run(Context& context, const StudyRequest& /*request*/) {
  StudyResult result;
  result.seeds = {kSeed};
  Rng rng(kSeed, 9);
  const Tensor x = AsSequence(RandomNormal(kWords, kWidth, rng));
  const MultiHeadAttentionInput input{.x = x.view()};

  const MultiHeadAttention same = TwoHeads(true);
  const Matrix a0 = FromTensor(same.Weights(context, 0, input));
  const Matrix a1 = FromTensor(same.Weights(context, 1, input));
  result.Near("same W_Q, W_K: largest difference of the distributions",
              MaxDifference(a0, a1), 0, 0);
  result.AtMost("similarity of the two W_V (|cosine|)",
                std::abs(Cosine(FromTensor(same.Content(context, 0).value),
                                FromTensor(same.Content(context, 1).value))),
                0.1);
  result.AtLeast("largest difference of the two outputs",
                 MaxDifference(FromTensor(same.Output(context, 0, input)),
                               FromTensor(same.Output(context, 1, input))),
                 0.1);
  result.AtMost("both heads − one head of full value width",
                MaxDifference(FromTensor(same.Forward(context, input)),
                              OneWideValueHead(context, same, x)),
                1e-5);
  const MultiHeadAttention different = TwoHeads(false);
  result.AtLeast("the same where the distributions differ",
                 MaxDifference(FromTensor(different.Forward(context, input)),
                               OneWideValueHead(context, different, x)),
                 0.1);

  HeatMap map{
      "One distribution, read twice: where both heads look", {}, {}, a0.values};
  for (int64_t i = 0; i < kWords; ++i) {
    map.rows.push_back("word " + std::to_string(i));
    map.columns.push_back(std::to_string(i));
  }
  result.pictures.push_back(std::move(map));
  return result;
}

}  // namespace
}  // namespace content_study

const Study kContentStudy = {
    .name = "content",
    .claim =
        "Two heads that look at the same positions can return different "
        "content.",
    .expectation =
        "outputs differ, yet one head of full value width equals "
        "them; with different distributions it does not",
    .kind = StudyKind::kLaw,
    .run = content_study::Run};

}  // namespace headwise
