// Every implementation of the attention operator against the reference, over
// random problems and every pass it has; and against itself with more threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "headwise/error.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/reference_row.h"
#include "headwise/ops/attention/testing/call_results.h"
#include "headwise/ops/attention/testing/random_problem.h"
#include "headwise/ops/attention/testing/tolerances.h"
#include "headwise/tensor/element.h"

namespace headwise::agreement_test {
namespace {

// One implementation's results for one problem, held against the reference's.
class Comparison {
 public:
  Comparison(const RandomProblem& problem, const CallResults& found,
             const CallResults& truth)
      : r_(problem), found_(found), truth_(truth) {
    for (const int64_t h : HeadsOf(r_.problem, r_.args)) active_.insert(h);
  }

  // Empty, or what is wrong.
  std::string Run() {
    for (const CallOutput& output : found_.outputs()) {
      const CallOutput& truth = *truth_.Find(output.name);
      CheckWritten(output);
      if (output.measure == Measure::kArgmax) {
        CheckKeys(output, truth);
      } else {
        CheckValues(output, truth);
      }
    }
    return report_;
  }

  const std::map<Measure, double>& worst() const { return worst_; }

 private:
  void Fail(const CallOutput& output, int64_t n, const std::string& what) {
    if (failed_.insert(output.name).second) {
      report_ += fmt::format("  {}{}: {}\n", output.name,
                             output.tensor.IndexText(n), what);
    }
  }

  bool Active(const CallOutput& output, int64_t n) const {
    return output.head_axis < 0 ||
           active_.count(output.tensor.Index(n, output.head_axis)) > 0;
  }

  void CheckWritten(const CallOutput& output) {
    for (int64_t n = 0; n < output.tensor.size(); ++n) {
      if (Active(output, n) == output.tensor.IsPoison(n)) {
        Fail(output, n,
             Active(output, n) ? "not written" : "written for a closed head");
      }
    }
    if (!output.tensor.GapsIntact()) Fail(output, 0, "wrote between its rows");
  }

  double ToleranceFor(const CallOutput& output) const {
    const AttentionTolerance tolerance = AttentionToleranceOf(r_.problem.type);
    switch (output.measure) {
      case Measure::kOutput:
        return tolerance.output * r_.value_bound;
      case Measure::kGradient:
        return tolerance.gradient;
      default:
        return tolerance.statistics;
    }
  }

  void CheckValues(const CallOutput& output, const CallOutput& truth) {
    const double tolerance = ToleranceFor(output);
    for (int64_t n = 0; n < output.tensor.size(); ++n) {
      if (!Active(output, n)) continue;
      const double a = output.tensor.Get(n);
      const double b = truth.tensor.Get(n);
      if (output.measure == Measure::kSums &&
          output.tensor.Index(n, 2) == kSumArgmaxDistance) {
        CheckArgmaxDistance(output, n);
        continue;
      }
      // −∞ is the LSE of a row that sees nothing; other values that are not
      // finite need only stay so.
      const double error = std::abs(a - b) / std::max(1.0, std::abs(b));
      const bool same = std::isfinite(b) ? error <= tolerance
                        : output.name.ends_with("lse") && std::isinf(b)
                            ? a == b
                            : !std::isfinite(a);
      if (std::isfinite(error)) {
        double& worst = worst_[output.measure];
        worst = std::max(worst, error);
      }
      if (!same) {
        Fail(output, n, fmt::format("expected {}, found {}", b, a));
      }
    }
  }

  // Sums of |p − argmax| rest on the implementation's own choice among keys
  // that are equal to rounding.
  void CheckArgmaxDistance(const CallOutput& output, int64_t n) {
    const CallOutput* argmax = found_.Find("argmax");
    const CallOutput* truth = truth_.Find("sums");
    const bool finite =
        truth->tensor.Get(n - kSumArgmaxDistance + kSumNonFinite) == 0;
    if (argmax == nullptr || !finite) return;
    const int64_t h = output.tensor.Index(n, 1);
    const Sequence s =
        SequenceOf(r_.problem, r_.args, output.tensor.Index(n, 0));
    double sum = 0;
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t at = s.query_begin + i;
      const int64_t j =
          static_cast<int64_t>(Read(argmax->tensor.view(), s.batch, h, at));
      if (j < 0) continue;
      const ConstTensorView& weights = r_.observation.query_weights;
      const double w = weights ? Read(weights, s.batch, at) : 1.0;
      sum += w * static_cast<double>(std::abs(i + s.offset - j));
    }
    const double a = output.tensor.Get(n);
    const double tolerance = AttentionToleranceOf(r_.problem.type).statistics;
    if (std::abs(a - sum) > tolerance * std::max(1.0, std::abs(sum))) {
      Fail(output, n,
           fmt::format("expected {} from its argmax, found {}", sum, a));
    }
  }

  // Keys: the same as the reference's, or as probable to within tolerance.
  void CheckKeys(const CallOutput& output, const CallOutput& truth) {
    for (int64_t n = 0; n < output.tensor.size(); ++n) {
      if (!Active(output, n)) continue;
      const int64_t a = static_cast<int64_t>(output.tensor.Get(n));
      const int64_t b = static_cast<int64_t>(truth.tensor.Get(n));
      if (output.name == "pair is_argmax") {
        CheckPairArgmax(output, n, a);
      } else if (a != b && !EquallyProbable(output, n, a, b)) {
        Fail(output, n, fmt::format("expected key {}, found {}", b, a));
      }
    }
  }

  bool EquallyProbable(const CallOutput& output, int64_t n, int64_t a,
                       int64_t b) const {
    const int64_t h = output.tensor.Index(n, 1);
    RowRef at;
    if (output.name == "top keys") {
      at = r_.rows[output.tensor.Index(n, 0)];
    } else {
      at = RowOf(output.tensor.Index(n, 0), output.tensor.Index(n, 2));
    }
    const ReferenceHead head(r_.problem, r_.args, at.sequence, h);
    const ReferenceRow row = head.Row(at.query);
    if (!row.finite()) return true;
    if (a < 0 || b < 0 || a >= head.sequence().keys) return false;
    if (output.name == "kept_argmax" && r_.observation.excluded_keys &&
        Read(r_.observation.excluded_keys, head.sequence().batch,
             head.sequence().key_begin + a) != 0) {
      return false;
    }
    return std::abs(row.probability[a] - row.probability[b]) <=
           AttentionToleranceOf(r_.problem.type).statistics;
  }

  // The sequence and query of row `row` of slice `batch` of the views.
  RowRef RowOf(int64_t batch, int64_t row) const {
    for (int64_t b = 0; b < r_.problem.batch; ++b) {
      const Sequence s = SequenceOf(r_.problem, r_.args, b);
      const int64_t i = row - s.query_begin;
      if (s.batch == batch && i >= 0 && i < s.query_rows) return {b, i};
    }
    return {};
  }

  void CheckPairArgmax(const CallOutput& output, int64_t n, int64_t found) {
    const int64_t h = output.tensor.Index(n, 0);
    const int64_t pair = output.tensor.Index(n, 1);
    const int64_t r =
        std::upper_bound(r_.pair_offsets.begin(), r_.pair_offsets.end(), pair) -
        r_.pair_offsets.begin() - 1;
    const Sequence s = SequenceOf(r_.problem, r_.args, r_.rows[r].sequence);
    const double argmax = Read(found_.Find("argmax")->tensor.view(), s.batch, h,
                               s.query_begin + r_.rows[r].query);
    const int64_t expected = argmax == r_.pair_keys[pair] ? 1 : 0;
    if (found != expected) {
      Fail(output, n, fmt::format("expected {}, found {}", expected, found));
    }
  }

  const RandomProblem& r_;
  const CallResults& found_;
  const CallResults& truth_;
  std::set<int64_t> active_;
  std::set<std::string> failed_;
  std::map<Measure, double> worst_;
  std::string report_;
};

std::string DifferentBits(const CallResults& one, const CallResults& two) {
  std::string names;
  for (const CallOutput& output : one.outputs()) {
    if (!output.tensor.SameBits(two.Find(output.name)->tensor)) {
      names += "  " + output.name + "\n";
    }
  }
  return names;
}

// By name, so that a failure says which.
class AttentionAgreement : public testing::TestWithParam<std::string> {
 protected:
  static const AttentionImplementation& Implementation() {
    const auto list = AttentionImplementations().entries;
    return *std::find_if(list.begin(), list.end(),
                         [](const auto& e) { return e.name == GetParam(); });
  }

  // Runs the implementation on random problems that it takes.
  void RunProblems(RandomProblemOptions options, int64_t count,
                   const std::set<AttentionPass>& passes,
                   int64_t head_multiple = 0) {
    if (IsFastCuda()) GTEST_SKIP() << "held to the reference by bench_gpu";
    const std::vector<DType> types = TypesTaken();
    if (types.empty()) {
      GTEST_SKIP() << WhyNotForward(PlainProblem(DType::kF32));
    }
    // Of each type the same problems, whoever else is taken.
    for (const DType type : types) {
      options.types = {type};
      RunProblemsOfType(options, type == DType::kF32 ? count : count / 2 + 1,
                        passes, head_multiple);
    }
  }

  void RunProblemsOfType(const RandomProblemOptions& options, int64_t count,
                         const std::set<AttentionPass>& passes,
                         int64_t head_multiple) {
    std::map<Measure, double> worst;
    int failures = 0;
    uint64_t seed = TestSeed();
    for (int64_t done = 0; done < count && failures < 5; ++seed) {
      const RandomProblem problem = MakeRandomProblem(seed, options);
      if (!WhyNotForward(problem.problem).empty()) continue;
      ++done;
      const std::string report = Check(problem, passes, head_multiple, worst);
      if (!report.empty()) {
        ++failures;
        ADD_FAILURE() << problem.Text() << "\n" << report;
      }
    }
    fmt::print(
        "[ {}, {} ] {} problems, worst |Δ|/max(1, |ref|): output {:.1e}, "
        "statistics {:.1e}, sums {:.1e}, gradients {:.1e}\n",
        GetParam(), Name(options.types[0]), count, worst[Measure::kOutput],
        worst[Measure::kStatistic], worst[Measure::kSums],
        worst[Measure::kGradient]);
  }

  // Those that it has, of a plain problem.
  static std::set<AttentionPass> AllPasses() {
    std::set<AttentionPass> passes;
    for (const DType type : TypesTaken()) {
      for (const AttentionPass pass : kAttentionPasses) {
        const std::string reason =
            WhyNot(Implementation(), pass, PlainProblem(type));
        if (reason.empty()) passes.insert(pass);
      }
    }
    return passes;
  }
  static std::set<AttentionPass> ForwardOnly() {
    return {AttentionPass::kForward};
  }

 private:
  static AttentionProblem PlainProblem(DType type) {
    AttentionProblem problem;
    problem.query_len = problem.key_len = 1;
    problem.head_dim = 64;
    problem.type = type;
    problem.device = DeviceOf(GetParam());
    return problem;
  }

  // Fast paths round what they multiply and want aligned rows.
  static bool IsFastCuda() { return GetParam().starts_with("cuda.sm"); }

  static std::string WhyNotForward(AttentionProblem problem) {
    problem.device = DeviceOf(GetParam());
    return WhyNot(Implementation(), AttentionPass::kForward, problem);
  }

  // Empty, or what is wrong; keeps the largest errors.
  static std::string Check(const RandomProblem& problem,
                           const std::set<AttentionPass>& passes,
                           int64_t head_multiple,
                           std::map<Measure, double>& worst) try {
    const CallResults truth(problem, "reference", 1, passes);
    const CallResults found(problem, GetParam(), 1, passes, head_multiple);
    const CallResults threaded(problem, GetParam(), 2, passes, head_multiple);
    Comparison comparison(problem, found, truth);
    std::string report = comparison.Run();
    const std::string different = DifferentBits(found, threaded);
    if (!different.empty()) {
      report += "not the same bits with 2 threads:\n" + different;
    }
    for (const auto& [measure, error] : comparison.worst()) {
      worst[measure] = std::max(worst[measure], error);
    }
    return report;
  } catch (const Error& error) {
    return error.what();
  }

  static std::vector<DType> TypesTaken() {
    std::vector<DType> types;
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (WhyNotForward(PlainProblem(type)).empty()) {
        types.push_back(type);
      }
    }
    return types;
  }
};

TEST_P(AttentionAgreement, WithReferenceOnRandomProblems) {
  RunProblems({}, TestProblems(500), AllPasses());
}

TEST_P(AttentionAgreement, OnSmallProblemsWithEveryOption) {
  RunProblems({.work = 1e5, .max_len = 40}, TestProblems(1000), AllPasses());
}

TEST_P(AttentionAgreement, NonFiniteValuesReachOnlyRowsThatSeeThem) {
  RunProblems({.work = 2e5, .max_len = 300, .non_finite = true},
              TestProblems(400), ForwardOnly());
}

// Decoding: one or a few new rows against all keys that a cache holds.
TEST_P(AttentionAgreement, OnFewQueries) {
  RunProblems({.work = 1e6, .max_query_len = 6}, TestProblems(500),
              AllPasses());
  RunProblems(
      {.work = 2e5, .max_len = 300, .max_query_len = 4, .non_finite = true},
      TestProblems(200), ForwardOnly());
}

TEST_P(AttentionAgreement, OnHeadsOfEveryWidth) {
  RunProblems({.work = 1e5, .max_len = 70, .every_width = true},
              TestProblems(512), AllPasses());
}

// Zero columns behind the heads' own change nothing.
TEST_P(AttentionAgreement, OnPaddedHeads) {
  RunProblems({.work = 1e5, .max_len = 70, .every_width = true},
              TestProblems(256), AllPasses(), /*head_multiple=*/8);
  RunProblems({.work = 2e5, .max_len = 300, .non_finite = true},
              TestProblems(200), ForwardOnly(), /*head_multiple=*/48);
}

std::vector<std::string> NamesBesideTheReference() {
  std::vector<std::string> names;
  for (const AttentionImplementation& entry :
       AttentionImplementations().entries) {
    names.push_back(entry.name);
  }
  names.pop_back();
  return names;
}

INSTANTIATE_TEST_SUITE_P(Every, AttentionAgreement,
                         testing::ValuesIn(NamesBesideTheReference()),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionAgreement);

}  // namespace
}  // namespace headwise::agreement_test
