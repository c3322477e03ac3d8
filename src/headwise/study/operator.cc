// Claim: multi-head attention is Concat(H_1 … H_h) W_O, which is the sum over
//   heads Σ A_h X W_V^h W_O^h; every row of every A_h is a distribution;
//   without positions the order of the words does not matter.
// Expectation: both forms agree to 1e-5 for 256 → 4×64, 512/8, 1024/16 and
//   512/512; rows ≥ 0, sum to 1, masked entries exactly 0; permuting the input
//   permutes the output until positions enter. Without W_O the heads stand side
//   by side. A width that heads do not divide is refused, head_dim lifts that.
// Kind: law.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/error.h"
#include "headwise/multi_head_attention.h"
#include "headwise/study/study.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace operator_study {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kWords = 5;

// Σ_h A_h X (W_V^h W_O^{σ(h)}) in double from what each head shows of itself.
// `shift` pairs head h's distribution with the content of head h + shift.
Matrix SumForm(Context& context, const MultiHeadAttention& module,
               const Matrix& x, const Tensor& sequence, int64_t shift) {
  const int64_t heads = module.config().heads;
  Matrix sum(x.rows, module.config().d_model);
  for (int64_t h = 0; h < heads; ++h) {
    const Matrix a =
        FromTensor(module.Weights(context, h, {.x = sequence.view()}));
    const HeadContent content = module.Content(context, (h + shift) % heads);
    const Matrix part = a * x * FromTensor(content.output);
    for (size_t i = 0; i < sum.values.size(); ++i) {
      sum.values[i] += part.values[i];
    }
  }
  return sum;
}

void CompareForms(Context& context, int64_t d_model, int64_t heads,
                  StudyResult& result) {
  const MultiHeadAttention module({.d_model = d_model, .heads = heads}, kSeed);
  Rng rng(kSeed, 1);
  const Matrix x = RandomNormal(kWords, d_model, rng);
  const Tensor sequence = AsSequence(x);
  const Matrix concat =
      FromTensor(module.Forward(context, {.x = sequence.view()}));
  const Matrix exact = FromTensor(sequence);  // x after rounding to f32
  const std::string shape =
      fmt::format("{} = {} × {}", d_model, heads, module.config().head_dim);
  result.AtMost(
      "concat form − sum form, " + shape,
      MaxDifference(concat, SumForm(context, module, exact, sequence, 0)),
      1e-5);
  if (heads == 4) {  // the comparison must notice a wrong pairing
    result.AtLeast(
        "the same with contents given to the wrong heads",
        MaxDifference(concat, SumForm(context, module, exact, sequence, 1)),
        0.01);
  }
}

void CheckConcat(Context& context, StudyResult& result) {
  const MultiHeadAttention module(
      {.d_model = 256, .heads = 4, .output_projection = false}, kSeed);
  Rng rng(kSeed, 2);
  const Tensor x = AsSequence(RandomNormal(kWords, 256, rng));
  const Matrix out = FromTensor(module.Forward(context, {.x = x.view()}));
  double worst = 0;
  for (int64_t h = 0; h < 4; ++h) {
    const Matrix head = FromTensor(module.Output(context, h, {.x = x.view()}));
    for (int64_t r = 0; r < kWords; ++r) {
      for (int64_t c = 0; c < 64; ++c) {
        worst = Worst(worst, std::abs(out(r, h * 64 + c) - head(r, c)));
      }
    }
  }
  result.Near("output width without W_O, 4 × 64",
              static_cast<double>(out.columns), 256, 0);
  result.AtMost("heads side by side without W_O", worst, 1e-5);
}

void CheckSimplex(Context& context, StudyResult& result) {
  const MultiHeadAttention module({.d_model = 512, .heads = 8}, kSeed);
  Rng rng(kSeed, 3);
  const Tensor x = AsSequence(RandomNormal(32, 512, rng));
  double smallest = 1, sum_error = 0, masked = 0;
  for (int64_t h = 0; h < 8; ++h) {
    for (bool causal : {false, true}) {
      MultiHeadAttentionInput input{.x = x.view()};
      if (causal) input.mask = AttentionMask::Causal();
      const Matrix a = FromTensor(module.Weights(context, h, input));
      for (int64_t r = 0; r < a.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < a.columns; ++c) {
          sum += a(r, c);
          smallest = std::min(smallest, a(r, c));
          if (causal && c > r) masked = Worst(masked, std::abs(a(r, c)));
        }
        sum_error = Worst(sum_error, std::abs(sum - 1));
      }
    }
  }
  result.AtLeast("smallest weight of any row", smallest, 0);
  result.AtMost("largest |row sum − 1|", sum_error, 1e-5);
  result.Near("largest masked weight", masked, 0, 0);
}

void CheckPermutation(Context& context, StudyResult& result) {
  const MultiHeadAttention module({.d_model = 64, .heads = 4}, kSeed);
  Rng rng(kSeed, 4);
  const Matrix x = RandomNormal(kWords, 64, rng);
  std::vector<int64_t> order(kWords);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = kWords - 1; i > 0; --i) {
    std::swap(order[i], order[rng.Below(static_cast<uint64_t>(i) + 1)]);
  }
  auto permuted = [&](const Matrix& m) {
    Matrix out(m.rows, m.columns);
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.columns; ++c) out(r, c) = m(order[r], c);
    }
    return out;
  };
  auto with_positions = [](Matrix m) {
    for (int64_t r = 0; r < m.rows; ++r) {
      for (int64_t c = 0; c < m.columns; ++c) {
        const double angle =
            static_cast<double>(r) /
            std::pow(10000.0, static_cast<double>(c - c % 2) / 64);
        m(r, c) += c % 2 == 0 ? std::sin(angle) : std::cos(angle);
      }
    }
    return m;
  };
  auto run = [&](const Matrix& m) {
    const Tensor sequence = AsSequence(m);
    return FromTensor(module.Forward(context, {.x = sequence.view()}));
  };
  result.AtMost("MHA(permuted x) − permuted MHA(x), no positions",
                MaxDifference(run(permuted(x)), permuted(run(x))), 1e-5);
  result.AtLeast("the same with positions added",
                 MaxDifference(run(with_positions(permuted(x))),
                               permuted(run(with_positions(x)))),
                 0.01);
}

void CheckDivisibility(Context& context, StudyResult& result) {
  double refused = 0;
  try {
    Resolve({.d_model = 512, .heads = 7});
  } catch (const Error&) {
    refused = 1;
  }
  result.Near("512 / 7 refused (1 = yes)", refused, 1, 0);
  const MultiHeadAttention module({.d_model = 512, .heads = 7, .head_dim = 64},
                                  kSeed);
  Rng rng(kSeed, 5);
  const Tensor x = AsSequence(RandomNormal(kWords, 512, rng));
  const Tensor out = module.Forward(context, {.x = x.view()});
  result.Near("7 heads with head_dim 64 run; output width",
              static_cast<double>(out.shape(2)), 512, 0);
}

StudyResult Run(Context& context, const StudyRequest& /*request*/) {
  StudyResult result;
  result.seeds = {kSeed};
  CompareForms(context, 256, 4, result);
  CompareForms(context, 512, 8, result);
  CompareForms(context, 1024, 16, result);
  CompareForms(context, 512, 512, result);
  CheckConcat(context, result);
  CheckSimplex(context, result);
  CheckPermutation(context, result);
  CheckDivisibility(context, result);

  HeatMap map{"Two of the four heads of 256 = 4 × 64: rows are distributions",
              {},
              {},
              {}};
  const MultiHeadAttention module({.d_model = 256, .heads = 4}, kSeed);
  Rng rng(kSeed, 1);
  const Tensor x = AsSequence(RandomNormal(kWords, 256, rng));
  for (int64_t h = 0; h < 2; ++h) {
    const Matrix a = FromTensor(module.Weights(context, h, {.x = x.view()}));
    for (int64_t r = 0; r < a.rows; ++r) {
      map.rows.push_back(fmt::format("head {} · word {}", h, r));
    }
    map.values.insert(map.values.end(), a.values.begin(), a.values.end());
  }
  for (int64_t c = 0; c < kWords; ++c) {
    map.columns.push_back(fmt::format("{}", c));
  }
  result.pictures.push_back(std::move(map));
  return result;
}

}  // namespace
}  // namespace operator_study

const Study kOperatorStudy = {
    .name = "operator",
    .claim =
        "Concatenating heads and mixing them with W_O is the sum over "
        "heads; every head's rows are distributions; order does not "
        "matter without positions.",
    .expectation =
        "forms agree to 1e-5; rows ≥ 0, sum 1, masked exactly 0; "
        "permutation-equivariant until positions enter",
    .kind = StudyKind::kLaw,
    .run = operator_study::Run};

}  // namespace headwise
