// Validation of problems and of the forward and backward calls. Door:
// validate.h.
#include "headwise/ops/attention/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/view_checks.h"

namespace headwise {
namespace {

void CheckRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    ThrowInvalid(fmt::format("{} between {} and {}", name, low, high),
                 fmt::to_string(value));
  }
}

// Values of an i32 host view, each within [low, high].
void CheckValues(const char* name, const ConstTensorView& view, int64_t low,
                 int64_t high) {
  if (!view) return;
  for (int64_t i = 0; i < view.shape[0]; ++i) {
    const int64_t value = view.Raw<int32_t>()[i];
    if (value < low || value > high) {
      ThrowInvalid(fmt::format("{} between {} and {}", name, low, high),
                   fmt::format("{} at sequence {}", value, i));
    }
  }
}

// Starts begin at 0, never fall, end at the number of rows, and no sequence is
// longer than the problem says.
void CheckStarts(const char* name, const ConstTensorView& view, int64_t rows,
                 int64_t longest) {
  const int32_t* starts = view.Raw<int32_t>();
  const int64_t batch = view.shape[0] - 1;
  if (starts[0] != 0 || starts[batch] != rows) {
    ThrowInvalid(fmt::format("{} from 0 to {}, the rows there are", name, rows),
                 fmt::format("{} to {}", starts[0], starts[batch]));
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = int64_t{starts[b + 1]} - starts[b];
    if (length < 0 || length > longest) {
      ThrowInvalid(
          fmt::format("{} that rise by 0 to {} (the longest)", name, longest),
          fmt::format("{} then {} at sequence {}", starts[b], starts[b + 1],
                      b));
    }
  }
}

void CheckLengthsAndStarts(const AttentionProblem& problem,
                           const AttentionArgs& args, ViewChecker& views) {
  const int64_t batch = problem.batch;
  if (problem.packed && (args.query_lengths || args.key_lengths)) {
    ThrowInvalid("starts alone for packed sequences", "lengths",
                 "lengths belong to ragged batches");
  }
  if (!problem.packed && (args.query_starts || args.key_starts)) {
    ThrowInvalid("no starts where the problem is not packed", "starts",
                 "set packed, or give lengths");
  }
  views.Input("query_lengths", args.query_lengths, DType::kI32, {batch});
  views.Input("key_lengths", args.key_lengths, DType::kI32, {batch});
  views.Input(
      "query_offsets", args.query_offsets, DType::kI32,
      {GivesPositions(problem, args) ? SizesOf(problem, args).queries : batch});
  if (problem.packed) {
    views.Input("query_starts", args.query_starts, DType::kI32, {batch + 1},
                ViewNeed::kRequired);
    views.Input("key_starts", args.key_starts, DType::kI32, {batch + 1},
                ViewNeed::kRequired);
  }
  if (!problem.device.is_cpu()) return;  // contents are out of reach
  CheckValues("query_lengths", args.query_lengths, 0, problem.query_len);
  CheckValues("key_lengths", args.key_lengths, 0, problem.key_len);
  CheckValues("query_offsets", args.query_offsets, -kMaxPosition, kMaxPosition);
  if (problem.packed) {
    const ViewSizes n = SizesOf(problem, args);
    CheckStarts("query_starts", args.query_starts, n.queries,
                problem.query_len);
    CheckStarts("key_starts", args.key_starts, n.keys, problem.key_len);
  }
}

// Places of queries that do not stand one after the other.
void CheckPositions(const AttentionProblem& problem,
                    const AttentionArgs& args) {
  if (!problem.device.is_cpu() || problem.bias != AttentionBias::kNone ||
      args.observation != nullptr || args.query_offsets.stride[0] != 1) {
    ThrowInvalid(
        "a query_offset of each query on the CPU, dense, without a bias or "
        "statistics",
        ToString(problem), "or one of each sequence");
  }
  for (int64_t b = 0; b < problem.batch; ++b) {
    const Sequence s = SequenceOf(problem, args, b);
    if (!std::is_sorted(s.positions, s.positions + s.query_rows)) {
      ThrowInvalid("query_offsets that never fall within a sequence",
                   fmt::format("those of sequence {}", b));
    }
  }
}

void CheckScoreParameters(const AttentionProblem& problem,
                          const AttentionArgs& args, ViewChecker& views) {
  if (problem.bias == AttentionBias::kAlibi) {
    views.Input("alibi_slopes", args.alibi_slopes, DType::kF32, {problem.heads},
                ViewNeed::kRequired);
  }
  if (problem.bias == AttentionBias::kRelative) {
    views.Input("relative_table", args.relative_table, DType::kF32,
                {problem.heads, 2 * problem.relative_reach + 1},
                ViewNeed::kRequired);
  }
  views.Input("sink_logits", args.sink_logits, DType::kF32, {problem.heads});
}

void CheckActiveHeads(const AttentionProblem& problem,
                      const AttentionArgs& args) {
  int64_t last = -1;
  for (const int32_t head : args.active_heads.heads()) {
    if (head <= last || head >= problem.heads) {
      ThrowInvalid(fmt::format("active_heads ascending within 0 … {}",
                               problem.heads - 1),
                   last < 0 ? fmt::to_string(head)
                            : fmt::format("{} after {}", head, last));
    }
    last = head;
  }
}

void CheckGates(const AttentionProblem& problem, const AttentionArgs& args,
                ViewChecker& views) {
  const ViewSizes n = SizesOf(problem, args);
  const int64_t heads = problem.heads;
  views.Input("gates", args.gates, DType::kF32, {n.batch, n.queries, heads});
  views.Input("replacement", args.replacement, DType::kF32,
              {n.batch, n.queries, heads, ValueDim(problem)});
}

// A statistic that needs more than was asked for.
void CheckLevel(const Observation& o, Statistics least, const char* name,
                const TensorView& view) {
  if (!view || o.statistics >= least) return;
  ThrowInvalid(least == Statistics::kFull ? "statistics = kFull"
                                          : "statistics = kCore or kFull",
               std::string("less, and a view for ") + name);
}

void CheckRowStatistics(const AttentionProblem& problem, const ViewSizes& n,
                        const Observation& o, ViewChecker& views) {
  const RowStatistics& rows = o.rows;
  const int64_t heads = problem.heads;
  auto add = [&](const char* name, const TensorView& view, DType type,
                 Statistics least) {
    CheckLevel(o, least, name, view);
    views.Output(name, view, type, {n.batch, heads, n.queries});
  };
  add("entropy", rows.entropy, DType::kF32, Statistics::kCore);
  add("max_probability", rows.max_probability, DType::kF32, Statistics::kCore);
  add("argmax", rows.argmax, DType::kI32, Statistics::kCore);
  add("distance", rows.distance, DType::kF32, Statistics::kCore);
  add("missing", rows.missing, DType::kF32, Statistics::kCore);
  add("varentropy", rows.varentropy, DType::kF32, Statistics::kFull);
  add("sum_squares", rows.sum_squares, DType::kF32, Statistics::kFull);
  add("kept_max", rows.kept_max, DType::kF32, Statistics::kFull);
  add("kept_argmax", rows.kept_argmax, DType::kI32, Statistics::kFull);
  CheckLevel(o, Statistics::kFull, "histogram", rows.histogram);
  views.Output("histogram", rows.histogram, DType::kF32,
               {n.batch, heads, n.queries, kHistogramBuckets});
  views.Output("feature_mass", rows.feature_mass, DType::kF32,
               {n.batch, heads, n.queries, o.key_features.shape[2]});
  views.Output("label_mass", rows.label_mass, DType::kF32,
               {n.batch, heads, n.queries, o.query_labels.shape[0]});
}

void CheckSummed(const AttentionProblem& problem, const Observation& o,
                 ViewChecker& views) {
  const SummedStatistics& summed = o.summed;
  const int64_t batch = problem.batch;
  const int64_t heads = problem.heads;
  CheckLevel(o, Statistics::kCore, "sums", summed.sums);
  CheckLevel(o, Statistics::kFull, "summed histogram", summed.histogram);
  views.Output("sums", summed.sums, DType::kF64, {batch, heads, kSumColumns});
  views.Output("summed histogram", summed.histogram, DType::kF64,
               {batch, heads, kHistogramBuckets});
  views.Output("summed feature_mass", summed.feature_mass, DType::kF64,
               {batch, heads, o.key_features.shape[2]});
  views.Output("summed label_mass", summed.label_mass, DType::kF64,
               {batch, heads, o.query_labels.shape[0]});
}

void CheckObservation(const AttentionProblem& problem,
                      const AttentionArgs& args, const Observation& o,
                      ViewChecker& views) {
  const ViewSizes n = SizesOf(problem, args);
  const int64_t features = o.key_features.shape[2];
  const int64_t labels = o.query_labels.shape[0];
  if ((o.rows.feature_mass || o.summed.feature_mass) && !o.key_features) {
    ThrowInvalid("key_features for the feature mass", "none");
  }
  if ((o.rows.label_mass || o.summed.label_mass ||
       bool{o.query_labels} != bool{o.key_labels}) &&
      !(o.query_labels && o.key_labels)) {
    ThrowInvalid("query_labels and key_labels together", "one or none");
  }
  if (o.query_labels)
    CheckRange("label channels", labels, 1, kMaxLabelChannels);
  if (o.key_features) CheckRange("features", features, 1, kMaxPosition);
  views.Input("key_features", o.key_features, DType::kF32,
              {n.batch, n.keys, features});
  views.Input("query_labels", o.query_labels, DType::kI32,
              {labels, n.batch, n.queries});
  views.Input("key_labels", o.key_labels, DType::kI32,
              {labels, n.batch, n.keys});
  views.Input("excluded_keys", o.excluded_keys, DType::kU8, {n.batch, n.keys});
  views.Input("query_weights", o.query_weights, DType::kF32,
              {n.batch, n.queries});
  CheckRowStatistics(problem, n, o, views);
  CheckSummed(problem, o, views);
}

}  // namespace

void ValidateProblem(const AttentionProblem& problem) {
  constexpr int64_t kMax = kMaxPosition;
  CheckRange("batch", problem.batch, 0, kMax);
  CheckRange("heads", problem.heads, 1, kMax);
  CheckRange("kv_heads", problem.kv_heads, 1, kMax);
  CheckRange("query_len", problem.query_len, 0, kMax);
  CheckRange("key_len", problem.key_len, 0, kMax);
  CheckRange("head_dim", problem.head_dim, 1, kMax);
  CheckRange("value_dim", problem.value_dim, 0, kMax);
  CheckRange("relative_reach", problem.relative_reach, 0, kMax);
  if (problem.heads % problem.kv_heads != 0) {
    ThrowInvalid(
        "heads a multiple of kv_heads",
        fmt::format("{} heads, {} kv_heads", problem.heads, problem.kv_heads));
  }
  // A view's elements are counted with 63 bits, in bytes.
  int64_t bytes = 8;
  for (const int64_t size :
       {problem.batch, std::max(problem.query_len, problem.key_len),
        problem.heads, std::max(problem.head_dim, ValueDim(problem))}) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      ThrowInvalid("sizes whose product fits 63 bits", ToString(problem));
    }
  }
  const AttentionMask& mask = problem.mask;
  CheckRange("mask.before", mask.before, 0, kUnlimited);
  CheckRange("mask.after", mask.after, 0, kUnlimited);
  CheckRange("mask.query_offset", mask.query_offset, -kMax, kMax);
  CheckRange("mask.sinks", mask.sinks, 0, kUnlimited);
  if (problem.type != DType::kF32 && problem.type != DType::kBF16 &&
      problem.type != DType::kF16) {
    ThrowInvalid("type f32, bf16 or f16", Name(problem.type));
  }
  if (problem.precision > Precision::kF16) {
    ThrowInvalid("a precision of stored, bf16 or f16",
                 fmt::to_string(static_cast<int>(problem.precision)));
  }
  if (!std::isfinite(problem.scale)) {
    ThrowInvalid("a finite scale", fmt::to_string(problem.scale));
  }
  if (!std::isfinite(problem.soft_cap) || problem.soft_cap < 0) {
    ThrowInvalid("a finite soft_cap ≥ 0", fmt::to_string(problem.soft_cap));
  }
}

void CheckScoreInputs(const AttentionProblem& problem,
                      const AttentionArgs& args, ViewChecker& views) {
  ValidateProblem(problem);
  const ViewSizes n = SizesOf(problem, args);
  views.Input("q", args.q, problem.type,
              {n.batch, n.queries, problem.heads, problem.head_dim},
              ViewNeed::kRequired);
  views.Input("k", args.k, problem.type,
              {n.batch, n.keys, problem.kv_heads, problem.head_dim},
              ViewNeed::kRequired);
  CheckLengthsAndStarts(problem, args, views);
  if (GivesPositions(problem, args)) CheckPositions(problem, args);
  CheckScoreParameters(problem, args, views);
  CheckActiveHeads(problem, args);
}

void ValidateForward(const AttentionProblem& problem,
                     const AttentionArgs& args) {
  ViewChecker views(problem.device);
  CheckScoreInputs(problem, args, views);
  CheckGates(problem, args, views);
  const ViewSizes n = SizesOf(problem, args);
  const int64_t heads = problem.heads;
  const int64_t value_dim = ValueDim(problem);
  views.Input("v", args.v, problem.type,
              {n.batch, n.keys, problem.kv_heads, value_dim},
              ViewNeed::kRequired);
  views.Output("out", args.out, problem.type,
               {n.batch, n.queries, heads, value_dim}, ViewNeed::kRequired);
  views.Output("lse", args.lse, DType::kF32, {n.batch, heads, n.queries});
  views.Output("ungated", args.ungated, problem.type,
               {n.batch, n.queries, heads, value_dim});
  if (args.observation != nullptr) {
    CheckObservation(problem, args, *args.observation, views);
  }
  views.CheckOverlap();
}

void ValidateBackward(const AttentionProblem& problem,
                      const AttentionArgs& args, const AttentionGrads& grads) {
  ViewChecker views(problem.device);
  CheckScoreInputs(problem, args, views);
  CheckGates(problem, args, views);
  const ViewSizes n = SizesOf(problem, args);
  const int64_t heads = problem.heads;
  const int64_t value_dim = ValueDim(problem);
  const bool gated{args.gates};
  views.Input("v", args.v, problem.type,
              {n.batch, n.keys, problem.kv_heads, value_dim},
              ViewNeed::kRequired);
  views.Input("lse", args.lse, DType::kF32, {n.batch, heads, n.queries},
              ViewNeed::kRequired);
  views.Input(gated ? "ungated" : "out", gated ? args.ungated : args.out,
              problem.type, {n.batch, n.queries, heads, value_dim},
              ViewNeed::kRequired);
  views.Input("dout", grads.dout, problem.type,
              {n.batch, n.queries, heads, value_dim}, ViewNeed::kRequired);
  views.Input("dentropy", grads.dentropy, DType::kF32,
              {n.batch, heads, n.queries});
  views.Output("dq", grads.dq, problem.type,
               {n.batch, n.queries, heads, problem.head_dim});
  views.Output("dk", grads.dk, problem.type,
               {n.batch, n.keys, problem.kv_heads, problem.head_dim});
  views.Output("dv", grads.dv, problem.type,
               {n.batch, n.keys, problem.kv_heads, value_dim});
  views.Output("dgates", grads.dgates, DType::kF32,
               {n.batch, n.queries, heads});
  views.Output("received", grads.received, DType::kF32,
               {n.batch, heads, n.keys});
  if (grads.drelative_table && problem.bias != AttentionBias::kRelative) {
    ThrowInvalid("bias = kRelative for drelative_table", ToString(problem));
  }
  views.Output("drelative_table", grads.drelative_table, DType::kF32,
               {heads, 2 * problem.relative_reach + 1});
  if (grads.dsink_logits && !args.sink_logits) {
    ThrowInvalid("sink_logits for dsink_logits", "none",
                 "give the forward call's, or leave dsink_logits out");
  }
  views.Output("dsink_logits", grads.dsink_logits, DType::kF32, {heads});
  views.CheckOverlap();
}

}  // namespace headwise
