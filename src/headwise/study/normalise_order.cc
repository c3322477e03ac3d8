// Claim: one wide head is not many heads put side by side: "concatenate, then
//   normalise once" differs from "normalise separately, then concatenate".
// Expectation: logits (2,0) and (0,2) normalised separately give (.881,.119)
//   and (.119,.881), added up (.5,.5), under one softmax (.440,.060,.060,.440);
//   random heads never agree; they agree only for uniform rows, or for equal
//   heads when the wide head is rescaled by √h.
// Kind: law.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/distribution.h"
#include "headwise/study/study.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace normalise_order_study {
namespace {

constexpr uint64_t kSeed = 1;
using Row = std::vector<double>;

// One query under heads whose logits are `logits[h]` (all of one length),
// through the operator: head_dim = `width` numbers per key and head, queries
// all ones, values the identity, so that the output is the distribution.
std::vector<Row> Attend(Context& context, const std::vector<Matrix>& keys,
                        double scale) {
  const int64_t heads = static_cast<int64_t>(keys.size());
  const int64_t count = keys[0].rows, width = keys[0].columns;
  Tensor q(DType::kF32, {1, 1, heads, width});
  Tensor k(DType::kF32, {1, count, heads, width});
  Tensor v(DType::kF32, {1, count, heads, count});
  Tensor out(DType::kF32, {1, 1, heads, count});
  std::fill_n(q.As<float>(), q.size(), 1.0f);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t e = 0; e < width; ++e) {
        k.As<float>()[(j * heads + h) * width + e] =
            static_cast<float>(keys[h](j, e));
      }
      v.As<float>()[(j * heads + h) * count + j] = 1;
    }
  }
  AttentionProblem problem;
  problem.heads = problem.kv_heads = heads;
  problem.query_len = 1;
  problem.key_len = count;
  problem.head_dim = width;
  problem.value_dim = count;
  problem.scale = static_cast<float>(scale);
  AttentionArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.out = out.view();
  AttentionForward(context, problem, args);
  std::vector<Row> rows;
  for (int64_t h = 0; h < heads; ++h) {
    const float* row = out.As<float>() + h * count;
    rows.emplace_back(row, row + count);
  }
  return rows;
}

// Each head's logits as a head of width 1.
std::vector<Row> Separately(Context& context, const std::vector<Row>& logits) {
  std::vector<Matrix> keys;
  for (const Row& row : logits) {
    Matrix key(static_cast<int64_t>(row.size()), 1);
    key.values = row;
    keys.push_back(std::move(key));
  }
  return Attend(context, keys, 1);
}

// All heads' coordinates as one head of width h: logits add up. `scale` is 1
// for plain sums and 1/√h for the usual scaling by the width.
Row AsOneWideHead(Context& context, const std::vector<Row>& logits,
                  double scale) {
  Matrix key(static_cast<int64_t>(logits[0].size()),
             static_cast<int64_t>(logits.size()));
  for (int64_t j = 0; j < key.rows; ++j) {
    for (int64_t h = 0; h < key.columns; ++h) key(j, h) = logits[h][j];
  }
  return Attend(context, {key}, scale)[0];
}

// All heads' keys behind one another under one softmax.
Row UnderOneSoftmax(Context& context, const std::vector<Row>& logits) {
  Row all;
  for (const Row& row : logits) all.insert(all.end(), row.begin(), row.end());
  return Separately(context, {all})[0];
}

double Largest(const Row& a, const Row& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = Worst(worst, std::abs(a[i] - b[i]));
  }
  return worst;
}

void Witness(Context& context, StudyResult& result) {
  const std::vector<Row> logits = {{2, 0}, {0, 2}};
  const std::vector<Row> separate = Separately(context, logits);
  const Row wide = AsOneWideHead(context, logits, 1);
  const Row joint = UnderOneSoftmax(context, logits);
  result.Near("separate, head 1, key 1", separate[0][0], 0.881, 5e-4);
  result.Near("separate, head 1, key 2", separate[0][1], 0.119, 5e-4);
  result.Near("separate, head 2, key 1", separate[1][0], 0.119, 5e-4);
  result.Near("separate, head 2, key 2", separate[1][1], 0.881, 5e-4);
  result.Near("summed logits, key 1", wide[0], 0.5, 1e-6);
  result.Near("summed logits, key 2", wide[1], 0.5, 1e-6);
  result.Near("one softmax, head 1, key 1", joint[0], 0.440, 5e-4);
  result.Near("one softmax, head 1, key 2", joint[1], 0.060, 5e-4);
  result.Near("one softmax, head 2, key 1", joint[2], 0.060, 5e-4);
  result.Near("one softmax, head 2, key 2", joint[3], 0.440, 5e-4);
  result.pictures.push_back(
      HeatMap{"Logits (2, 0) and (0, 2), normalised in three ways",
              {"head 1, separate", "head 2, separate", "one head, summed",
               "head 1, one softmax", "head 2, one softmax"},
              {"key 1", "key 2"},
              {separate[0][0], separate[0][1], separate[1][0], separate[1][1],
               wide[0], wide[1], joint[0], joint[1], joint[2], joint[3]}});
}

void RandomHeads(Context& context, StudyResult& result) {
  constexpr int kDraws = 1000;
  constexpr int kKeys = 8;
  Rng rng(kSeed);
  int agreements = 0;
  double distance = 0, uniform = 0, equal = 0, rescaled = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const int heads = 2 + draw % 3;
    const double root = std::sqrt(static_cast<double>(heads));
    std::vector<Row> logits(static_cast<size_t>(heads), Row(kKeys));
    for (Row& row : logits) {
      for (double& value : row) value = rng.Normal();
    }
    const std::vector<Row> separate = Separately(context, logits);
    const Row wide = AsOneWideHead(context, logits, 1 / root);
    double nearest = 1;
    for (const Row& row : separate) {
      nearest = std::min(nearest, TotalVariation(row, wide));
    }
    distance += nearest / kDraws;
    agreements += nearest < 1e-4 ? 1 : 0;

    const std::vector<Row> flat(static_cast<size_t>(heads),
                                Row(kKeys, logits[0][0]));
    uniform = Worst(uniform, Largest(Separately(context, flat)[0],
                                     AsOneWideHead(context, flat, 1 / root)));

    const std::vector<Row> same(static_cast<size_t>(heads), logits[0]);
    const Row one = Separately(context, same)[0];
    equal +=
        TotalVariation(one, AsOneWideHead(context, same, 1 / root)) / kDraws;
    rescaled = Worst(
        rescaled, Largest(one, AsOneWideHead(context, same, 1 / root / root)));
  }
  result.Near("random heads: agreements in 1000 draws", agreements, 0, 0);
  result.AtLeast("random heads: mean distance to the nearest head", distance,
                 0.05);
  result.AtMost("uniform rows: largest difference", uniform, 1e-5);
  result.AtLeast("equal heads: mean distance, not rescaled", equal, 0.05);
  result.AtMost("equal heads rescaled by √h: largest difference", rescaled,
                1e-5);
}

StudyResult Run(Context& context, const StudyRequest& /*request*/) {
  StudyResult result;
  result.seeds = {kSeed};
  Witness(context, result);
  RandomHeads(context, result);
  result.remark = "Distances are total variation, ½ Σ |p − q|.";
  return result;
}

}  // namespace
}  // namespace normalise_order_study

const Study kNormaliseOrderStudy = {
    .name = "normalise-order",
    .claim =
        "Normalising once over a wide head is not normalising each head "
        "and putting them side by side.",
    .expectation =
        "the witness (2,0),(0,2) to three digits; random heads "
        "never agree; uniform rows and equal heads rescaled by √h do",
    .kind = StudyKind::kLaw,
    .run = normalise_order_study::Run};

}  // namespace headwise
