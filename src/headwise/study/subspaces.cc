// Claim: each head may look at words in a subspace of its own: of points in
//   three dimensions one head compares x and y, another x and z; together they
//   serve what neither serves alone.
// Expectation: two heads return both what matches in XY and what matches in XZ
//   (R² ≥ .95) and each settles on one of the planes (≥ .9 of the difference
//   between y and z); one head of full width mixes or picks (R² ≤ .9).
// Kind: hypothesis.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <vector>

#include "headwise/base/distribution.h"
#include "headwise/study/support/toy.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace subspaces_study {
namespace {

constexpr int64_t kWidth = 8;  // x, y, z, content, the rest 0
constexpr int64_t kPoints = 8;
constexpr int64_t kBatch = 64;
constexpr int64_t kTested = 2048;
constexpr double kSharpness = 2;
constexpr int kContent = 3;
constexpr Bounds kRightAngle = {0, 90};  // degrees
enum Plane { kXY, kXZ };

// What a query finds when it compares points in one plane.
double Found(const float* query, const float* points, Plane plane) {
  const int second = plane == kXY ? 1 : 2;
  std::vector<double> logits;
  for (int64_t j = 0; j < kPoints; ++j) {
    const float* p = points + j * kWidth;
    logits.push_back(kSharpness *
                     (static_cast<double>(query[0]) * p[0] +
                      static_cast<double>(query[second]) * p[second]));
  }
  const std::vector<double> weights = Softmax(logits);
  double found = 0;
  for (int64_t j = 0; j < kPoints; ++j) {
    found += weights[j] * points[j * kWidth + kContent];
  }
  return found;
}

ToyBatch MakePoints(int64_t count, Rng& rng) {
  ToyBatch batch{Tensor(DType::kF32, {count, 1, kWidth}),
                 Tensor(DType::kF32, {count, kPoints, kWidth}),
                 Tensor(DType::kF32, {count, 1, 2})};
  for (int64_t b = 0; b < count; ++b) {
    float* query = batch.x.As<float>() + b * kWidth;
    float* points = batch.source.As<float>() + b * kPoints * kWidth;
    for (int c = 0; c < kContent; ++c) {
      query[c] = static_cast<float>(rng.Normal());
    }
    for (int64_t j = 0; j < kPoints; ++j) {
      for (int c = 0; c <= kContent; ++c) {
        points[j * kWidth + c] = static_cast<float>(rng.Normal());
      }
    }
    for (const Plane plane : {kXY, kXZ}) {
      batch.target.As<float>()[b * 2 + plane] =
          static_cast<float>(Found(query, points, plane));
    }
  }
  return batch;
}

struct Setting {
  const char* name;
  int64_t heads;
  int blind;  // the axis that keys may not read, or −1
};
constexpr Setting kSettings[] = {{"one head, XY only", 1, 2},
                                 {"one head, XZ only", 1, 1},
                                 {"one head", 1, -1},
                                 {"two heads", 2, -1}};

struct Learned {
  double xy = 0, xz = 0;  // R²
  std::vector<Matrix> metrics;

  double mean() const { return (xy + xz) / 2; }
};

Learned Learn(Context& context, const Setting& setting, uint64_t seed,
              int64_t steps, StudyClock& clock) {
  MultiHeadAttention module({.d_model = kWidth, .heads = setting.heads}, seed);
  ToyTraining how;
  how.steps = steps;
  how.rate = 0.02;
  how.seed = seed;
  if (setting.blind >= 0) {
    how.freeze = [&](MultiHeadAttentionParameters& parameters) {
      std::fill_n(parameters.w_k.As<float>() + setting.blind * kWidth, kWidth,
                  0.0f);
    };
    how.freeze(module.parameters());
  }
  TrainToy(
      context, module, [](Rng& rng) { return MakePoints(kBatch, rng); }, how,
      clock);
  Rng fresh(seed, 5);
  const std::vector<double> shares =
      ExplainedShares(context, module, MakePoints(kTested, fresh));
  Learned learned{shares[0], shares[1], {}};
  for (int64_t h = 0; h < setting.heads; ++h) {
    const Matrix whole = FromTensor(module.Metric(context, h));
    Matrix metric(3, 3);
    for (int r = 0; r < 3; ++r) {
      for (int c = 0; c < 3; ++c) metric(r, c) = whole(r, c);
    }
    learned.metrics.push_back(std::move(metric));
  }
  return learned;
}

// How much of a metric compares each axis with itself.
std::vector<double> AxisShares(const Matrix& metric) {
  std::vector<double> shares(3);
  double sum = 0;
  for (int a = 0; a < 3; ++a) {
    shares[a] = metric(a, a) * metric(a, a);
    sum += shares[a];
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// 1: only y, −1: only z, 0: both alike.
double Leaning(const Matrix& metric) {
  const std::vector<double> shares = AxisShares(metric);
  return (shares[1] - shares[2]) / (shares[1] + shares[2]);
}

// Angles between the planes that two heads compare queries in, in degrees.
std::vector<double> PrincipalAngles(const Matrix& a, const Matrix& b) {
  auto plane = [](const Matrix& metric) {
    const Svd svd = SingularValues(metric);
    Matrix basis(3, 2);
    for (int r = 0; r < 3; ++r) {
      for (int c = 0; c < 2; ++c) basis(r, c) = svd.u(r, c);
    }
    return basis;
  };
  std::vector<double> angles;
  for (const double s : SingularValues(Transpose(plane(a)) * plane(b)).s) {
    angles.push_back(std::acos(std::min(1.0, s)) * 180 / std::numbers::pi);
  }
  return angles;
}

HeatMap DrawAxes(const std::vector<std::pair<std::string, Matrix>>& heads) {
  HeatMap map{"What a head's metric compares (share of each axis), seed 1",
              {},
              {"x", "y", "z"},
              {}};
  for (const auto& [name, metric] : heads) {
    map.rows.push_back(name);
    for (const double share : AxisShares(metric)) map.values.push_back(share);
  }
  return map;
}

StudyResult Run(Context& context, const StudyRequest& request) {
  StudyResult result;
  result.seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 2000, 6000);
  StudyClock clock(request, "subspaces",
                   static_cast<int64_t>(4 * result.seeds.size()) * steps);
  StudyTable table{
      "R² of what matches in XY and in XZ", {"heads", "XY", "XZ", "mean"}, {}};
  std::vector<std::pair<std::string, Matrix>> drawn;
  std::vector<double> separation, small, large;
  const std::vector<std::vector<Learned>> runs =
      RunCases(context, std::size(kSettings), result.seeds,
               [&](Context& own, size_t which, uint64_t seed) {
                 return Learn(own, kSettings[which], seed, steps, clock);
               });
  for (size_t i = 0; i < std::size(kSettings); ++i) {
    const Setting& setting = kSettings[i];
    std::vector<double> xy, xz, mean;
    for (const Learned& learned : runs[i]) {
      xy.push_back(learned.xy);
      xz.push_back(learned.xz);
      mean.push_back(learned.mean());
      if (&learned == &runs[i][0] && setting.blind < 0) {
        for (const Matrix& metric : learned.metrics) {
          const size_t number = drawn.size();
          drawn.emplace_back(
              number == 0 ? "one head" : fmt::format("head {} of 2", number),
              metric);
        }
      }
      if (setting.heads == 1) continue;
      separation.push_back(
          std::abs(Leaning(learned.metrics[0]) - Leaning(learned.metrics[1])) /
          2);
      const std::vector<double> angles =
          PrincipalAngles(learned.metrics[0], learned.metrics[1]);
      small.push_back(angles[0]);
      large.push_back(angles[1]);
    }
    table.rows.push_back({setting.name, ShowInterval(OverSeeds(xy, kExplained)),
                          ShowInterval(OverSeeds(xz, kExplained)),
                          ShowInterval(OverSeeds(mean, kExplained))});
    const std::string name = fmt::format("{}: mean R²", setting.name);
    if (setting.heads == 2) {
      result.AtLeast(name, OverSeeds(mean, kExplained), 0.95);
    } else {
      result.AtMost(name, OverSeeds(mean, kExplained), 0.9);
    }
  }
  result.AtLeast("two heads: how far apart they lean (y against z)",
                 OverSeeds(separation, kShareDifference), 0.9);
  result.Report("two heads: smaller principal angle, degrees (XY, XZ: 0)",
                OverSeeds(small, kRightAngle));
  result.Report("two heads: larger principal angle, degrees (XY, XZ: 90)",
                OverSeeds(large, kRightAngle));
  result.pictures.push_back(DrawAxes(drawn));
  result.tables.push_back(std::move(table));
  return result;
}

}  // namespace
}  // namespace subspaces_study

const Study kSubspacesStudy = {
    .name = "subspaces",
    .claim =
        "Heads look at words in subspaces of their own, and together serve "
        "what none serves alone.",
    .expectation =
        "two heads learn the planes XY and XZ and return both; one "
        "head mixes them or picks one",
    .kind = StudyKind::kHypothesis,
    .run = subspaces_study::Run,
    .trained = true};

}  // namespace headwise
