#include "headwise/ops/norm/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/base/rng.h"

namespace headwise {
namespace {

std::vector<float> Random(int64_t count, Rng& rng) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(rng.Normal());
  return values;
}

// The formula in double; the truth of both tests.
std::vector<double> Formula(const NormProblem& p, const std::vector<double>& x,
                            const std::vector<double>& w,
                            const std::vector<double>& b) {
  std::vector<double> y(x.size());
  for (int64_t row = 0; row < p.rows; ++row) {
    const double* in = x.data() + row * p.width;
    double mean = 0, squares = 0;
    if (p.kind == NormKind::kLayer) {
      for (int64_t i = 0; i < p.width; ++i) mean += in[i] / p.width;
    }
    for (int64_t i = 0; i < p.width; ++i) {
      squares += (in[i] - mean) * (in[i] - mean) / p.width;
    }
    for (int64_t i = 0; i < p.width; ++i) {
      y[row * p.width + i] =
          (in[i] - mean) / std::sqrt(squares + p.epsilon) * w[i] + b[i];
    }
  }
  return y;
}

struct Case {
  NormKind kind;
  int64_t rows, width;
};

class NormShapes : public testing::TestWithParam<Case> {};

TEST_P(NormShapes, ForwardAndBackwardFollowTheFormula) {
  const auto [kind, rows, width] = GetParam();
  const NormProblem p{kind, rows, width, 1e-5f};
  Rng rng(11);
  const auto x = Random(rows * width, rng), w = Random(width, rng),
             b = Random(width, rng), dy = Random(rows * width, rng);
  std::vector<float> y(rows * width), mean(rows), scale(rows);
  Context context({2, ""});
  const NormArgs args{x.data(), w.data(),    b.data(),
                      y.data(), mean.data(), scale.data()};
  NormForward(context, p, args);
  const std::vector<double> xd(x.begin(), x.end()), wd(w.begin(), w.end()),
      bd(b.begin(), b.end());
  const auto truth = Formula(p, xd, wd, bd);
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], truth[i], 2e-5 * std::max(1.0, std::abs(truth[i]))) << i;
  }

  std::vector<float> dx(rows * width), dw(width, 1.0f), db(width, 2.0f);
  NormBackward(context, p, args, {dy.data(), dx.data(), dw.data(), db.data()});
  auto loss = [&](const std::vector<double>& xs, const std::vector<double>& ws,
                  const std::vector<double>& bs) {
    const auto ys = Formula(p, xs, ws, bs);
    double sum = 0;
    for (size_t i = 0; i < ys.size(); ++i) sum += ys[i] * dy[i];
    return sum;
  };
  auto slope = [&](std::vector<double> v, size_t i, auto at) {
    const double h = 1e-5, middle = v[i];
    v[i] = middle + h;
    const double up = at(v);
    v[i] = middle - h;
    return (up - at(v)) / (2 * h);
  };
  for (size_t i = 0; i < dx.size(); i += 7) {
    const double truth_dx =
        slope(xd, i, [&](const auto& v) { return loss(v, wd, bd); });
    ASSERT_NEAR(dx[i], truth_dx, 1e-4 * std::max(1.0, std::abs(truth_dx)));
  }
  for (int64_t i = 0; i < width; i += 3) {
    const double truth_dw =
        slope(wd, i, [&](const auto& v) { return loss(xd, v, bd); });
    const double truth_db =
        slope(bd, i, [&](const auto& v) { return loss(xd, wd, v); });
    ASSERT_NEAR(dw[i] - 1, truth_dw, 1e-4 * std::max(1.0, std::abs(truth_dw)));
    ASSERT_NEAR(db[i] - 2, truth_db, 1e-4 * std::max(1.0, std::abs(truth_db)));
  }
}

TEST(Norm, SegmentsOfAStridedRowAreNormalisedEachOnItsOwn) {
  Rng rng(4);
  const int64_t rows = 5, segments = 3, width = 8, stride = 40;
  const auto x = Random(rows * stride, rng), w = Random(width, rng);
  std::vector<float> y = x;
  Context context({2, ""});
  const NormProblem p{NormKind::kRms, rows, width, 1e-6f, segments, stride};
  NormForward(context, p, {.x = x.data(), .weight = w.data(), .y = y.data()});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t s = 0; s < segments; ++s) {
      std::vector<float> one(width);
      const int64_t at = row * stride + s * width;
      NormForward(context, {NormKind::kRms, 1, width, 1e-6f},
                  {.x = x.data() + at, .weight = w.data(), .y = one.data()});
      for (int64_t i = 0; i < width; ++i) EXPECT_EQ(y[at + i], one[i]);
    }
    for (int64_t i = segments * width; i < stride; ++i) {
      EXPECT_EQ(y[row * stride + i], x[row * stride + i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NormShapes,
                         testing::Values(Case{NormKind::kLayer, 1, 1},
                                         Case{NormKind::kLayer, 3, 5},
                                         Case{NormKind::kLayer, 70, 48},
                                         Case{NormKind::kRms, 2, 3},
                                         Case{NormKind::kRms, 65, 33}));

}  // namespace
}  // namespace headwise
