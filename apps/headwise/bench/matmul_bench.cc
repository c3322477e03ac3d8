// Times matrix products beside OpenBLAS. Door: attention_bench.h.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <utility>

#include "bench/attention_bench.h"
#include "bench/peers.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/implementation.h"

namespace headwise::bench {
namespace {

constexpr double kProductTolerance = 1e-3;  // of sums of k products of order 1

// Largest |c − truth| over sampled numbers. c [m, n].
double LargestError(const MatmulData& data, const Tensor& c) {
  double worst = 0;
  constexpr int64_t kStep = 997;  // prime, so rows and columns vary
  for (int64_t at = 0; at < c.size(); at += kStep) {
    const int64_t i = at / data.n, j = at % data.n;
    double sum = 0;
    for (int64_t p = 0; p < data.k; ++p) {
      sum += 1.0 * data.a.As<float>()[i * data.k + p] *
             data.b.As<float>()[p * data.n + j];
    }
    worst = std::max(worst, std::abs(sum - c.As<float>()[at]));
  }
  return worst;
}

struct OurProduct {
  Context context;
  MatmulProblem problem;
  std::shared_ptr<PreparedWeights> weights;
  Tensor c;  // [m, n]
  MatmulArgs args;

  OurProduct(const MatmulData& data, int threads, const std::string& name,
             bool prepared)
      : context({.threads = threads, .implementations = "matmul:" + name}),
        problem{.m = data.m, .n = data.n, .k = data.k},
        c(DType::kF32, {data.m, data.n}) {
    args.a = data.a.view();
    args.c = c.view();
    if (prepared) {
      weights = Prepare({data.b.view()}, Operand::kPlain);
      args.weights = weights.get();
    } else {
      args.b = data.b.view();
    }
  }
};

Candidate MakeOurs(const MatmulData& data, Row row, const std::string& name,
                   const std::shared_ptr<OurProduct>& ours) {
  auto call = [ours] { Matmul(ours->context, ours->problem, ours->args); };
  ours->context.ResetPeakScratch();
  call();
  const bool packed = ours->weights && PreparedBytes(*ours->weights) > 0;
  row.impl = name + (packed ? " packed" : "");
  if (const double error = LargestError(data, ours->c);
      error > kProductTolerance) {
    throw headwise::Error(
        ErrorCode::kInternal,
        {"bench", "the product in double",
         fmt::format("{} off by {:.1e}", row.impl, error), ""});
  }
  row.extra_bytes =
      static_cast<int64_t>(ours->context.PeakScratchBytes() +
                           (packed ? PreparedBytes(*ours->weights) : 0));
  return {row, 2.0 * data.m * data.n * data.k, Timed(call)};
}

Result BenchOne(const Config& config, const Options& options,
                const MatmulProblem& problem) {
  MatmulData data{problem.m, problem.n, problem.k,
                  Tensor(DType::kF32, {problem.m, problem.k}),
                  Tensor(DType::kF32, {problem.k, problem.n})};
  FillRandom(data.a, 1);
  FillRandom(data.b, 2);
  // Rows have the columns of attention: query_len, key_len and head_dim stand
  // for m, n and k.
  Row row;
  row.op = "matmul";
  row.pass = "forward";
  row.type = "f32";
  row.mask = "none";
  row.query_len = problem.m;
  row.key_len = problem.n;
  row.head_dim = problem.k;
  std::vector<Candidate> candidates;
  Peers peers;
  for (int threads : config.threads) {
    row.threads = threads;
    for (const bool prepared : {true, false}) {
      for (const auto& one : MatmulImplementations().entries) {
        auto ours =
            std::make_shared<OurProduct>(data, threads, one.name, prepared);
        if (!one.why_not({ours->problem, ours->args}).empty()) continue;
        candidates.push_back(MakeOurs(data, row, one.name, ours));
        if (!options.all) break;
      }
    }
    if (options.peers) AddOpenBlasMatmul(data, row, peers);
  }
  std::move(peers.candidates.begin(), peers.candidates.end(),
            std::back_inserter(candidates));
  const LoadWatch watch;
  Measure({.budget_seconds = options.seconds,
           .settle_seconds = SettleSeconds(config)},
          candidates);
  Result result;
  result.title = fmt::format("matmul: {} (m × n × k)", ToString(problem));
  for (const Candidate& candidate : candidates) {
    result.rows.push_back(candidate.row);
  }
  result.notes = std::move(peers.notes);
  if (std::string note = LoadNote(watch); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  result.peer_versions = std::move(peers.versions);
  return result;
}

}  // namespace

std::vector<Result> BenchMatmul(const Config& config, const Options& options) {
  std::vector<Result> results;
  for (const MatmulProblem& shape : MatmulShapes(config)) {
    results.push_back(BenchOne(config, options, shape));
  }
  return results;
}

}  // namespace headwise::bench
