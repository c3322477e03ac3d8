// The forward of the fast CUDA paths, with what it observes, against the
// reference: a few queries of short contexts, which a block walks whole, and of
// long ones, which blocks share; many queries. Skipped where there is no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>

#include "headwise/error.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/reference_row.h"
#include "headwise/ops/attention/testing/call_results.h"
#include "headwise/ops/attention/testing/random_problem.h"
#include "headwise/ops/test_device.h"

namespace headwise::attention_cuda {
namespace {

// Statistics are sums of f32; outputs are rounded to the problem's type, and
// so are probabilities before they meet the values.
double ToleranceFor(const RandomProblem& problem, const CallOutput& output) {
  if (output.measure != Measure::kOutput) return 1e-2;
  return (problem.problem.type == DType::kBF16 ? 2e-2 : 3e-3) *
         problem.value_bound;
}

// Empty, or what is wrong.
std::string Compare(const RandomProblem& problem, const CallOutput& found,
                    const CallOutput& truth) {
  std::set<int64_t> active;
  for (const int64_t h : HeadsOf(problem.problem, problem.args)) {
    active.insert(h);
  }
  const double tolerance = ToleranceFor(problem, found);
  for (int64_t n = 0; n < found.tensor.size(); ++n) {
    const bool written = found.head_axis < 0 || active.count(found.tensor.Index(
                                                    n, found.head_axis)) > 0;
    if (written == found.tensor.IsPoison(n)) {
      return found.name + found.tensor.IndexText(n) +
             (written ? " not written\n" : " written for a closed head\n");
    }
    if (!written) continue;
    const double a = found.tensor.Get(n), b = truth.tensor.Get(n);
    const double error = std::abs(a - b) / std::max(1.0, std::abs(b));
    if (a == b || error <= tolerance) continue;
    return fmt::format("{}{}: expected {}, found {}\n", found.name,
                       found.tensor.IndexText(n), b, a);
  }
  return "";
}

class CudaForward : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (ContextFor("attention", GetParam()) == nullptr) {
      GTEST_SKIP() << "no GPU";
    }
  }

  // So many problems that the path takes.
  static void RunProblems(const RandomProblemOptions& options, int64_t count) {
    const std::set<AttentionPass> forward = {AttentionPass::kForward};
    const uint64_t last = TestSeed() + 30 * static_cast<uint64_t>(count);
    int64_t done = 0;
    for (uint64_t seed = TestSeed(); done < count && seed < last; ++seed) {
      const RandomProblem problem = MakeRandomProblem(seed, options);
      std::unique_ptr<CallResults> found, again;
      const bool taken = IsTaken([&] {
        found = std::make_unique<CallResults>(problem, GetParam(), 1, forward);
        again = std::make_unique<CallResults>(problem, GetParam(), 1, forward);
      });
      if (!taken) continue;
      ++done;
      const CallResults truth(problem, "reference", 1, forward);
      std::string report;
      for (const CallOutput& output : found->outputs()) {
        if (!output.tensor.SameBits(again->Find(output.name)->tensor)) {
          report += output.name + " differs from run to run\n";
        }
        if (output.measure == Measure::kOutput ||
            output.measure == Measure::kStatistic) {
          report += Compare(problem, output, *truth.Find(output.name));
        }
      }
      ASSERT_EQ(report, "") << problem.Text();
    }
    if (done == 0) GTEST_SKIP() << "not for this chip";
  }
};

TEST_P(CudaForward, OfFewQueriesAndShortContexts) {
  RunProblems({.types = {DType::kBF16, DType::kF16},
               .work = 1e6,
               .max_len = 300,
               .max_query_len = 8},
              TestProblems(400));
}

TEST_P(CudaForward, OfFewQueriesAndLongContexts) {
  RunProblems(
      {.types = {DType::kBF16, DType::kF16}, .work = 4e6, .max_query_len = 3},
      TestProblems(100));
}

TEST_P(CudaForward, OfManyQueries) {
  RunProblems(
      {.types = {DType::kBF16, DType::kF16}, .work = 8e6, .max_len = 500},
      TestProblems(200));
}

TEST_P(CudaForward, OfSinkLogits) {
  RunProblems({.types = {DType::kBF16, DType::kF16},
               .work = 4e6,
               .max_len = 500,
               .sinks = 1},
              TestProblems(300));
}

INSTANTIATE_TEST_SUITE_P(Every, CudaForward,
                         testing::Values("cuda.sm90", "cuda.sm80"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace headwise::attention_cuda
