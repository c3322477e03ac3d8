// Nearest neighbours by one wide head and by many narrow ones: part (b) of the
// study rank. Door: rank_neighbour.h.
//
// Claim: some functions need one head of full rank; narrow heads, even many of
//   them, do not replace it (Amsel et al. 2024).
// Expectation: at equal parameters 1 × 64 misses least, 64 × 1 most.
// Kind: literature.
#include "headwise/study/rank_neighbour.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "headwise/study/support/toy.h"

namespace headwise {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kPoints = 16;
constexpr int64_t kQueries = 16;  // of one set of points
constexpr int64_t kBatch = 16;
constexpr int64_t kTested = 128;
constexpr int64_t kHeadCounts[] = {1, 8, 64};

// Rows of length √width: inputs of unit size in random directions.
void FillDirections(Tensor& tensor, Rng& rng) {
  for (int64_t r = 0; r < tensor.size() / kWidth; ++r) {
    float* row = tensor.As<float>() + r * kWidth;
    double squares = 0;
    for (int64_t c = 0; c < kWidth; ++c) {
      row[c] = static_cast<float>(rng.Normal());
      squares += static_cast<double>(row[c]) * row[c];
    }
    const double scale = std::sqrt(static_cast<double>(kWidth) / squares);
    for (int64_t c = 0; c < kWidth; ++c) {
      row[c] = static_cast<float>(row[c] * scale);
    }
  }
}

// The target of a query is the point nearest to it.
ToyBatch MakeNeighbours(int64_t count, Rng& rng) {
  ToyBatch batch{Tensor(DType::kF32, {count, kQueries, kWidth}),
                 Tensor(DType::kF32, {count, kPoints, kWidth}),
                 Tensor(DType::kF32, {count, kQueries, kWidth})};
  FillDirections(batch.x, rng);
  FillDirections(batch.source, rng);
  for (int64_t i = 0; i < count * kQueries; ++i) {
    const float* query = batch.x.As<float>() + i * kWidth;
    const float* points =
        batch.source.As<float>() + i / kQueries * kPoints * kWidth;
    const float* nearest = nullptr;
    float most = 0;
    for (int64_t j = 0; j < kPoints; ++j) {
      const float* point = points + j * kWidth;
      float product = 0;
      for (int64_t c = 0; c < kWidth; ++c) product += query[c] * point[c];
      if (nearest != nullptr && product <= most) continue;
      nearest = point;
      most = product;
    }
    std::copy_n(nearest, kWidth, batch.target.As<float>() + i * kWidth);
  }
  return batch;
}

// The share of the nearest points' squared length that is missed.
double Missed(Context& context, const MultiHeadAttention& module,
              const ToyBatch& test) {
  return ToyError(context, module, test);  // points are of unit size
}

struct Learned {
  double missed = 0;
  Series curve;
};

Learned Learn(Context& context, int64_t heads, uint64_t seed, int64_t steps,
              StudyClock& clock) {
  MultiHeadAttention module({.d_model = kWidth, .heads = heads}, seed);
  Rng fresh(seed, 7);
  const ToyBatch test = MakeNeighbours(kTested, fresh);
  Learned learned;
  learned.curve.name = fmt::format("{} × {}", heads, kWidth / heads);
  const int64_t every = std::max<int64_t>(1, steps / 25);
  ToyTraining how;
  how.steps = steps;
  how.rate = 0.003;
  how.seed = seed;
  how.on_step = [&](int64_t step, double) {
    if ((step + 1) % every != 0) return;
    learned.curve.x.push_back(static_cast<double>(step + 1));
    learned.curve.y.push_back(Missed(context, module, test));
  };
  TrainToy(
      context, module, [](Rng& rng) { return MakeNeighbours(kBatch, rng); },
      how, clock);
  learned.missed = Missed(context, module, test);
  return learned;
}

}  // namespace

void AddNearestNeighbour(Context& context, const StudyRequest& request,
                         StudyResult& result) {
  const std::vector<uint64_t> seeds = StudySeeds(request);
  const int64_t steps = StudySteps(request, 1500, 6000);
  StudyClock clock(request, "rank",
                   static_cast<int64_t>(3 * seeds.size()) * steps);
  LinePlot plot{
      "(b) The nearest of 16 points in 64 dimensions: share missed "
      "while learning, seed 1",
      "steps",
      "missed",
      false,
      false,
      {}};
  StudyTable table{"(b) Nearest neighbour: share of the point missed",
                   {"heads × width", "parameters", "missed"},
                   {}};
  const std::vector<std::vector<Learned>> runs =
      RunCases(context, std::size(kHeadCounts), seeds,
               [&](Context& own, size_t which, uint64_t seed) {
                 return Learn(own, kHeadCounts[which], seed, steps, clock);
               });
  std::vector<std::vector<double>> missed;
  for (size_t i = 0; i < std::size(kHeadCounts); ++i) {
    const int64_t heads = kHeadCounts[i];
    missed.emplace_back();
    for (const Learned& learned : runs[i]) {
      missed.back().push_back(learned.missed);
    }
    plot.series.push_back(runs[i][0].curve);
    const std::string name = fmt::format("{} × {}", heads, kWidth / heads);
    const SeedMean mean = OverSeeds(missed.back(), kNotNegative);
    table.rows.push_back(
        {name,
         fmt::format("{}", ParameterCount({.d_model = kWidth, .heads = heads})),
         ShowInterval(mean)});
    result.Report("(b) " + name + ": missed", mean);
  }
  result.Expect(StudyKind::kLiterature);
  auto less = [&](int wide, int narrow, const char* name) {
    std::vector<double> gains;
    for (size_t s = 0; s < seeds.size(); ++s) {
      gains.push_back(missed[narrow][s] - missed[wide][s]);
    }
    result.AtLeast(name, OverSeeds(gains), 0.05);
  };
  less(0, 1, "(b) 8 × 8 misses more than 1 × 64, by");
  less(0, 2, "(b) 64 × 1 misses more than 1 × 64, by");
  result.pictures.push_back(std::move(plot));
  result.tables.push_back(std::move(table));
}

}  // namespace headwise
