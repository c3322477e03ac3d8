// Validation of the second passes. Door: validate.h.
#include <fmt/format.h>

#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/validate.h"
#include "headwise/ops/attention/view_checks.h"

namespace headwise {
namespace {

void CheckScoresAndLse(const AttentionProblem& problem,
                       const AttentionArgs& args, ViewChecker& views) {
  CheckScoreInputs(problem, args, views);
  if (GivesPositions(problem, args)) {
    ThrowInvalid("a query_offset of each sequence", "one of each query");
  }
  const ViewSizes n = SizesOf(problem, args);
  views.Input("lse", args.lse, DType::kF32, {n.batch, problem.heads, n.queries},
              ViewNeed::kRequired);
}

// Rows that a sequence has; unknown (the longest) where starts are on a device.
int64_t QueryRows(const AttentionProblem& problem, const AttentionArgs& args,
                  int64_t sequence) {
  if (!problem.device.is_cpu()) return problem.query_len;
  return SequenceOf(problem, args, sequence).query_rows;
}

int64_t KeyRows(const AttentionProblem& problem, const AttentionArgs& args,
                int64_t sequence) {
  if (!problem.device.is_cpu()) return problem.key_len;
  return SequenceOf(problem, args, sequence).key_rows;
}

void CheckSequence(const AttentionProblem& problem, int64_t sequence) {
  if (sequence < 0 || sequence >= problem.batch) {
    ThrowInvalid(fmt::format("a sequence below {}", problem.batch),
                 fmt::to_string(sequence));
  }
}

void CheckRowRefs(const AttentionProblem& problem, const AttentionArgs& args,
                  std::span<const RowRef> rows) {
  for (size_t r = 0; r < rows.size(); ++r) {
    CheckSequence(problem, rows[r].sequence);
    const int64_t count = QueryRows(problem, args, rows[r].sequence);
    if (rows[r].query < 0 || rows[r].query >= count) {
      ThrowInvalid(fmt::format("a query below {} in sequence {}", count,
                               rows[r].sequence),
                   fmt::format("{} at row {}", rows[r].query, r));
    }
  }
}

void CheckSpan(const char* what, int64_t begin, int64_t end, int64_t size) {
  if (begin < 0 || begin >= end || end > size) {
    ThrowInvalid(fmt::format("a window of {} within 0 … {}", what, size),
                 fmt::format("[{}, {})", begin, end));
  }
}

bool SameValues(const ConstTensorView& a, const ConstTensorView& b) {
  if (bool{a} != bool{b}) return false;
  for (int64_t i = 0; a && i < a.shape[0]; ++i) {
    if (a.Raw<int32_t>()[i] != b.Raw<int32_t>()[i]) return false;
  }
  return true;
}

void CheckSameSequences(const HeadSource& first, const HeadSource& other) {
  const AttentionProblem& p = first.problem;
  const AttentionProblem& o = other.problem;
  const AttentionArgs& a = first.args;
  const AttentionArgs& b = other.args;
  const bool same_problem = p.batch == o.batch && p.query_len == o.query_len &&
                            p.key_len == o.key_len && p.packed == o.packed &&
                            p.mask == o.mask && p.device == o.device;
  const bool same_values =
      !p.device.is_cpu() || (SameValues(a.query_lengths, b.query_lengths) &&
                             SameValues(a.key_lengths, b.key_lengths) &&
                             SameValues(a.query_starts, b.query_starts) &&
                             SameValues(a.key_starts, b.key_starts) &&
                             SameValues(a.query_offsets, b.query_offsets));
  if (!same_problem || !same_values) {
    ThrowInvalid("sources of the same batch, lengths and mask",
                 ToString(p) + " and " + ToString(o));
  }
}

}  // namespace

void ValidateRows(const AttentionProblem& problem, const AttentionArgs& args,
                  std::span<const RowRef> rows,
                  const TensorView& probabilities) {
  ViewChecker views(problem.device);
  CheckScoresAndLse(problem, args, views);
  CheckRowRefs(problem, args, rows);
  views.Output(
      "probabilities", probabilities, DType::kF32,
      {static_cast<int64_t>(rows.size()), problem.heads, problem.key_len},
      ViewNeed::kRequired);
  views.CheckOverlap();
}

void ValidateTopK(const AttentionProblem& problem, const AttentionArgs& args,
                  std::span<const RowRef> rows, const TensorView& keys,
                  const TensorView& probabilities) {
  ViewChecker views(problem.device);
  CheckScoresAndLse(problem, args, views);
  CheckRowRefs(problem, args, rows);
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t k = keys.shape[2];
  if (count > 0 && keys && k < 1) {
    ThrowInvalid("keys i32 [rows, heads, k], k ≥ 1", ToString(keys));
  }
  if (count > 0 && !keys) ThrowInvalid("keys i32 [rows, heads, k]", "no keys");
  views.Output("keys", keys, DType::kI32, {count, problem.heads, k},
               ViewNeed::kRequired);
  views.Output("probabilities", probabilities, DType::kF32,
               {count, problem.heads, k}, ViewNeed::kRequired);
  views.CheckOverlap();
}

void ValidatePairs(const AttentionProblem& problem, const AttentionArgs& args,
                   const PairList& pairs, const ConstTensorView& argmax,
                   const TensorView& mass, const TensorView& is_argmax) {
  ViewChecker views(problem.device);
  CheckScoresAndLse(problem, args, views);
  CheckRowRefs(problem, args, pairs.rows);
  const ViewSizes n = SizesOf(problem, args);
  const int64_t rows = static_cast<int64_t>(pairs.rows.size());
  const int64_t count = static_cast<int64_t>(pairs.keys.size());
  if (static_cast<int64_t>(pairs.offsets.size()) != rows + 1) {
    ThrowInvalid(fmt::format("{} offsets for {} rows", rows + 1, rows),
                 fmt::to_string(pairs.offsets.size()));
  }
  if (pairs.offsets[0] != 0 || pairs.offsets[rows] != count) {
    ThrowInvalid(
        fmt::format("offsets from 0 to {} keys", count),
        fmt::format("{} to {}", pairs.offsets[0], pairs.offsets[rows]));
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (pairs.offsets[r + 1] < pairs.offsets[r] ||
        pairs.offsets[r + 1] > count) {
      ThrowInvalid(
          "offsets that never fall",
          fmt::format("{} then {}", pairs.offsets[r], pairs.offsets[r + 1]));
    }
    const int64_t keys = KeyRows(problem, args, pairs.rows[r].sequence);
    for (int64_t i = pairs.offsets[r]; i < pairs.offsets[r + 1]; ++i) {
      if (pairs.keys[i] < 0 || pairs.keys[i] >= keys) {
        ThrowInvalid(fmt::format("a key below {} in sequence {}", keys,
                                 pairs.rows[r].sequence),
                     fmt::format("{} at pair {}", pairs.keys[i], i));
      }
    }
  }
  if (is_argmax && !argmax) {
    ThrowInvalid("argmax of the forward call for is_argmax", "none");
  }
  views.Input("argmax", argmax, DType::kI32,
              {n.batch, problem.heads, n.queries});
  views.Output("mass", mass, DType::kF32, {problem.heads, count},
               ViewNeed::kRequired);
  views.Output("is_argmax", is_argmax, DType::kU8, {problem.heads, count});
  views.CheckOverlap();
}

void ValidateBand(const AttentionProblem& problem, const AttentionArgs& args,
                  int64_t before, int64_t after, const TensorView& mass,
                  const TensorView& first) {
  ViewChecker views(problem.device);
  CheckScoresAndLse(problem, args, views);
  if (before < 0 || after < 0 || before > kMaxPosition ||
      after > kMaxPosition) {
    ThrowInvalid("a band of 0 or more keys before and after a query",
                 fmt::format("{} and {}", before, after));
  }
  const ViewSizes n = SizesOf(problem, args);
  views.Output("mass", mass, DType::kF32,
               {n.batch, problem.heads, n.queries, before + after + 1},
               ViewNeed::kRequired);
  views.Output("first", first, DType::kF32,
               {n.batch, problem.heads, n.queries});
  views.CheckOverlap();
}

void ValidateReceived(const AttentionProblem& problem,
                      const AttentionArgs& args,
                      const ConstTensorView& query_weights,
                      const TensorView& received) {
  ViewChecker views(problem.device);
  CheckScoresAndLse(problem, args, views);
  const ViewSizes n = SizesOf(problem, args);
  views.Input("query_weights", query_weights, DType::kF32,
              {n.batch, n.queries});
  views.Output("received", received, DType::kF32,
               {n.batch, problem.heads, n.keys}, ViewNeed::kRequired);
  views.CheckOverlap();
}

void ValidateWindow(const AttentionProblem& problem, const AttentionArgs& args,
                    const WindowRequest& window, const TensorView& maximum,
                    const TensorView& mean) {
  ViewChecker views(problem.device);
  CheckScoresAndLse(problem, args, views);
  CheckSequence(problem, window.sequence);
  if (window.head < 0 || window.head >= problem.heads) {
    ThrowInvalid(fmt::format("a head below {}", problem.heads),
                 fmt::to_string(window.head));
  }
  if (!args.active_heads.Has(window.head)) {
    ThrowInvalid("a window of an active head", fmt::to_string(window.head));
  }
  CheckSpan("queries", window.query_begin, window.query_end,
            QueryRows(problem, args, window.sequence));
  CheckSpan("keys", window.key_begin, window.key_end,
            KeyRows(problem, args, window.sequence));
  const TensorView& given = maximum ? maximum : mean;
  if (!given) ThrowInvalid("a view for the maximum or the mean", "none");
  if (given.rank != 2 || given.shape[0] < 1 || given.shape[1] < 1) {
    ThrowInvalid("a picture f32 [rows, columns] of at least one cell",
                 ToString(given));
  }
  views.Output("maximum", maximum, DType::kF32,
               {given.shape[0], given.shape[1]});
  views.Output("mean", mean, DType::kF32, {given.shape[0], given.shape[1]});
  views.CheckOverlap();
}

void ValidateGram(std::span<const HeadSource> sources,
                  const ConstTensorView& query_weights,
                  const TensorView& gram) {
  if (sources.empty()) ThrowInvalid("at least one source", "none");
  ViewChecker views(sources[0].problem.device);
  int64_t heads = 0;
  for (const HeadSource& source : sources) {
    CheckScoresAndLse(source.problem, source.args, views);
    CheckSameSequences(sources[0], source);
    heads += source.problem.heads;
  }
  const ViewSizes n = SizesOf(sources[0].problem, sources[0].args);
  views.Input("query_weights", query_weights, DType::kF32,
              {n.batch, n.queries});
  views.Output("gram", gram, DType::kF64, {heads, heads}, ViewNeed::kRequired);
  views.CheckOverlap();
}

}  // namespace headwise
