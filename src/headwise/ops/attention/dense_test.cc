// The reference's forward pass, observations and second passes against a dense
// matrix computed on its own (dense_oracle.h).
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "headwise/ops/attention/testing/call_results.h"
#include "headwise/ops/attention/testing/dense_oracle.h"
#include "headwise/ops/attention/testing/random_problem.h"
#include "headwise/tensor/element.h"

namespace headwise::dense_test {
namespace {

// Everything is double, and results are rounded once: half a unit in the last
// place, twice for safety.
constexpr double Rounding(DType type) {
  return type == DType::kBF16 ? 0x1p-8 : type == DType::kF16 ? 0x1p-11 : 2e-7;
}

void ExpectClose(double expected, double found, const std::string& what,
                 DType type = DType::kF32) {
  EXPECT_LE(std::abs(expected - found),
            Rounding(type) * std::max(1.0, std::abs(expected)))
      << what << ": expected " << expected << ", found " << found;
}

class DenseComparison {
 public:
  explicit DenseComparison(uint64_t seed)
      : r_(MakeRandomProblem(seed,
                             {.types = {DType::kF32, DType::kBF16, DType::kF16},
                              .work = 2e4,
                              .max_len = 24})),
        found_(r_, "reference", 1,
               {std::begin(kAttentionPasses), std::end(kAttentionPasses)}),
        heads_(DenseAttention(r_.problem, r_.args)) {}

  void Run() {
    SCOPED_TRACE(r_.Text());
    for (const DenseHead& head : heads_) {
      for (size_t i = 0; i < head.a.size(); ++i) {
        CheckRow(head, static_cast<int64_t>(i));
      }
      CheckSums(head);
      CheckReceived(head);
    }
    CheckRowPasses();
    CheckWindow();
    CheckGram();
  }

 private:
  const TestTensor* Output(const std::string& name) const {
    const CallOutput* output = found_.Find(name);
    return output == nullptr ? nullptr : &output->tensor;
  }

  const DenseHead& Head(int64_t sequence, int64_t h) const {
    for (const DenseHead& head : heads_) {
      if (head.sequence == sequence && head.head == h) return head;
    }
    static const DenseHead kNone;
    return kNone;
  }

  // A of a query and key, 0 outside the matrix (rows that do not count).
  static double At(const DenseHead& head, int64_t i, int64_t j) {
    const bool inside = i < static_cast<int64_t>(head.a.size()) &&
                        j < static_cast<int64_t>(head.a[i].size());
    return inside ? head.a[i][j] : 0;
  }

  void CheckRow(const DenseHead& head, int64_t i) const {
    const int64_t at = head.query_begin + i;
    const AttentionArgs& args = r_.args;
    if (const TestTensor* lse = Output("lse")) {
      const double found = Read(lse->view(), head.batch, head.head, at);
      if (std::isinf(head.lse[i])) {
        EXPECT_EQ(found, head.lse[i]);
      } else {
        ExpectClose(head.lse[i], found, "lse");
      }
    }
    const double g =
        args.gates ? Read(args.gates, head.batch, at, head.head) : 1.0;
    for (size_t e = 0; e < head.o[i].size(); ++e) {
      const double mu = args.replacement ? Read(args.replacement, head.batch,
                                                at, head.head, e)
                                         : 0.0;
      ExpectClose(g * head.o[i][e] + (1 - g) * mu,
                  Read(Output("out")->view(), head.batch, at, head.head, e),
                  "out", r_.problem.type);
      if (const TestTensor* ungated = Output("ungated")) {
        ExpectClose(head.o[i][e],
                    Read(ungated->view(), head.batch, at, head.head, e),
                    "ungated", r_.problem.type);
      }
    }
    for (const char* name :
         {"entropy", "max_probability", "argmax", "distance", "missing",
          "varentropy", "sum_squares", "kept_max", "kept_argmax"}) {
      const TestTensor* rows = Output(name);
      if (rows == nullptr) continue;
      ExpectClose(DenseStatistic(head, r_.observation, name, i, 0),
                  Read(rows->view(), head.batch, head.head, at), name);
    }
    for (const char* name : {"histogram", "feature_mass", "label_mass"}) {
      const TestTensor* rows = Output(name);
      if (rows == nullptr) continue;
      for (int64_t c = 0; c < rows->view().shape[3]; ++c) {
        ExpectClose(DenseStatistic(head, r_.observation, name, i, c),
                    Read(rows->view(), head.batch, head.head, at, c), name);
      }
    }
  }

  double Weight(const DenseHead& head, int64_t i) const {
    const ConstTensorView& w = r_.observation.query_weights;
    return w ? Read(w, head.batch, head.query_begin + i) : 1.0;
  }

  // Σ w · statistic over the rows that see something.
  template <typename Statistic>
  double WeightedSum(const DenseHead& head, Statistic statistic) const {
    double sum = 0;
    for (size_t i = 0; i < head.a.size(); ++i) {
      if (std::isinf(head.lse[i])) continue;
      sum += Weight(head, static_cast<int64_t>(i)) *
             statistic(static_cast<int64_t>(i));
    }
    return sum;
  }

  void CheckSums(const DenseHead& head) const {
    const Observation& o = r_.observation;
    auto named = [&](const char* name, int64_t column) {
      return WeightedSum(head, [&, name, column](int64_t i) {
        return DenseStatistic(head, o, name, i, column);
      });
    };
    for (const char* name : {"histogram", "feature_mass", "label_mass"}) {
      const TestTensor* t = Output(std::string("summed ") + name);
      if (t == nullptr) continue;
      for (int64_t c = 0; c < t->view().shape[2]; ++c) {
        ExpectClose(named(name, c),
                    Read(t->view(), head.sequence, head.head, c), name);
      }
    }
    const TestTensor* sums = Output("sums");
    if (sums == nullptr) return;
    auto visible = [&](int64_t i) {
      return static_cast<double>(
          std::count(head.seen[i].begin(), head.seen[i].end(), true));
    };
    std::map<int, double> expected = {
        {kSumCount, WeightedSum(head, [](int64_t) { return 1.0; })},
        {kSumEntropy, named("entropy", 0)},
        {kSumNormalizedEntropy,
         WeightedSum(head,
                     [&](int64_t i) {
                       return visible(i) < 2
                                  ? 0
                                  : DenseStatistic(head, o, "entropy", i, 0) /
                                        std::log(visible(i));
                     })},
        {kSumMaxProbability, named("max_probability", 0)},
        {kSumDistance, named("distance", 0)},
        {kSumArgmaxDistance,
         WeightedSum(head,
                     [&](int64_t i) {
                       return std::abs(static_cast<double>(i + head.offset) -
                                       DenseStatistic(head, o, "argmax", i, 0));
                     })},
        {kSumVisible, WeightedSum(head, visible)},
        {kSumMissing, named("missing", 0)},
        {kSumNonFinite, 0},
    };
    const bool full = o.statistics == Statistics::kFull;
    expected[kSumVarentropy] = full ? named("varentropy", 0) : 0;
    expected[kSumSquares] = full ? named("sum_squares", 0) : 0;
    expected[kSumKeptMax] = full ? named("kept_max", 0) : 0;
    ASSERT_EQ(expected.size(), size_t{kSumColumns});
    for (const auto& [column, value] : expected) {
      ExpectClose(value, Read(sums->view(), head.sequence, head.head, column),
                  "sum " + std::to_string(column));
    }
  }

  void CheckReceived(const DenseHead& head) const {
    const size_t keys = head.a.empty() ? 0 : head.a[0].size();
    for (size_t j = 0; j < keys; ++j) {
      double plain = 0;
      double weighted = 0;
      for (size_t i = 0; i < head.a.size(); ++i) {
        plain += head.a[i][j];
        weighted += Weight(head, static_cast<int64_t>(i)) * head.a[i][j];
      }
      const int64_t at = head.key_begin + static_cast<int64_t>(j);
      ExpectClose(
          weighted,
          Read(Output("weighted received")->view(), head.batch, head.head, at),
          "weighted received");
      if (const TestTensor* received = Output("received")) {
        ExpectClose(plain, Read(received->view(), head.batch, head.head, at),
                    "received");
      }
    }
  }

  void CheckRowPasses() const {
    for (size_t r = 0; r < r_.rows.size(); ++r) {
      for (const DenseHead& head : heads_) {
        if (head.sequence != r_.rows[r].sequence) continue;
        const int64_t i = r_.rows[r].query;
        for (int64_t j = 0; j < r_.problem.key_len; ++j) {
          ExpectClose(At(head, i, j),
                      Read(Output("rows")->view(), r, head.head, j), "rows");
        }
        for (int64_t n = r_.pair_offsets[r]; n < r_.pair_offsets[r + 1]; ++n) {
          ExpectClose(At(head, i, r_.pair_keys[n]),
                      Read(Output("pair mass")->view(), head.head, n), "pair");
        }
        CheckTopK(head, static_cast<int64_t>(r), i);
      }
    }
  }

  void CheckTopK(const DenseHead& head, int64_t r, int64_t i) const {
    std::vector<std::pair<double, int64_t>> order;  // (−A, key)
    if (i < static_cast<int64_t>(head.a.size())) {
      for (size_t j = 0; j < head.a[i].size(); ++j) {
        if (head.seen[i][j]) order.emplace_back(-head.a[i][j], j);
      }
    }
    std::sort(order.begin(), order.end());
    order.resize(std::max<size_t>(order.size(), r_.top_k), {0.0, -1});
    for (int64_t c = 0; c < r_.top_k; ++c) {
      ExpectClose(-order[c].first,
                  Read(Output("top probabilities")->view(), r, head.head, c),
                  "top probability");
      const int64_t key = static_cast<int64_t>(
          Read(Output("top keys")->view(), r, head.head, c));
      if (key != order[c].second) {  // equal but for rounding
        ExpectClose(-order[c].first, At(head, i, key), "top key");
      }
    }
  }

  void CheckWindow() const {
    if (!r_.has_window) return;
    const WindowRequest& w = r_.window;
    const DenseHead& head = Head(w.sequence, w.head);
    auto edge = [](int64_t begin, int64_t end, int64_t cell, int64_t cells) {
      return begin + cell * (end - begin) / cells;
    };
    for (int64_t r = 0; r < r_.picture_rows; ++r) {
      const int64_t i0 = edge(w.query_begin, w.query_end, r, r_.picture_rows);
      const int64_t i1 = std::max(
          i0 + 1, edge(w.query_begin, w.query_end, r + 1, r_.picture_rows));
      for (int64_t c = 0; c < r_.picture_columns; ++c) {
        const int64_t j0 = edge(w.key_begin, w.key_end, c, r_.picture_columns);
        const int64_t j1 = std::max(
            j0 + 1, edge(w.key_begin, w.key_end, c + 1, r_.picture_columns));
        double sum = 0;
        double largest = 0;
        for (int64_t i = i0; i < i1; ++i) {
          for (int64_t j = j0; j < j1; ++j) {
            sum += At(head, i, j);
            largest = std::max(largest, At(head, i, j));
          }
        }
        const double cells = static_cast<double>((i1 - i0) * (j1 - j0));
        ExpectClose(sum / cells, Read(Output("mean")->view(), r, c), "mean");
        if (const TestTensor* maximum = Output("maximum")) {
          ExpectClose(largest, Read(maximum->view(), r, c), "maximum");
        }
      }
    }
  }

  // The diagonal block of the problem's own heads.
  void CheckGram() const {
    if (Output("gram") == nullptr) return;
    for (const DenseHead& a : heads_) {
      for (const DenseHead& b : heads_) {
        if (a.sequence != 0 || b.sequence != 0) continue;
        double sum = 0;
        double weight = 0;
        for (int64_t s = 0; s < r_.problem.batch; ++s) {
          AddCoefficients(Head(s, a.head), Head(s, b.head), sum, weight);
        }
        ExpectClose(weight == 0 ? 0 : sum / weight,
                    Read(Output("gram")->view(), a.head, b.head), "gram");
      }
    }
  }

  void AddCoefficients(const DenseHead& a, const DenseHead& b, double& sum,
                       double& weight) const {
    for (size_t i = 0; i < a.a.size(); ++i) {
      if (std::isinf(a.lse[i])) continue;
      const double w = Weight(a, static_cast<int64_t>(i));
      weight += w;
      for (size_t j = 0; j < a.a[i].size(); ++j) {
        sum += w * std::sqrt(a.a[i][j] * b.a[i][j]);
      }
    }
  }

  const RandomProblem r_;
  const CallResults found_;
  const std::vector<DenseHead> heads_;
};

TEST(AttentionReference, EqualsTheDenseMatrixInEveryObservation) {
  const uint64_t first = TestSeed();
  for (int64_t n = 0; n < TestProblems(400) && !testing::Test::HasFailure();
       ++n) {
    DenseComparison(first + n).Run();
  }
}

}  // namespace
}  // namespace headwise::dense_test
