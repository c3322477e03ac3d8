// From a panel's final sums to results: outputs, gates, statistics per query
// and sums per head. Included once per target; used by the forward.

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_FINISH_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_FINISH_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_FINISH_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "headwise/ops/attention/cpu/panel-inl.h"
#include "headwise/ops/attention/cpu/results.h"
#include "headwise/ops/attention/cpu/softmax-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// from: [columns, kTileColumns], to: [kTileColumns, columns]; columns a
// multiple of four.
HWY_INLINE void TransposePanel(const float* HWY_RESTRICT from, size_t columns,
                               float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t e = 0; e < columns; ++e) {
    for (size_t i = 0; i < kTileColumns; ++i) {
      to[i * columns + e] = from[e * kTileColumns + i];
    }
  }
#else
  for (size_t i = 0; i < kTileColumns; i += 4) {
    for (size_t e = 0; e < columns; e += 4) {
      Transpose4x4(from + e * kTileColumns + i, kTileColumns, 1.0f,
                   to + i * columns + e, columns);
    }
  }
#endif
}

// histogram: [kHistogramBuckets, kTileColumns], not yet divided by l: the
// differences of what had been summed at the edges, brought to the last
// maximum. Buckets that are empty for all queries are not written.
HWY_INLINE void HistogramOf(const Panel& panel, float* HWY_RESTRICT histogram) {
  const F32 d;
  const VF zero = hn::Zero(d);
  const VF infinite = hn::Set(d, kMinusInfinity);
  const auto finite = [&](VF m) HWY_ATTR {
    return hn::IfThenElse(hn::Eq(m, infinite), zero, m);
  };
  for (size_t lane = 0; lane < kTileColumns; lane += kLanes) {
    const VF m = finite(hn::LoadU(d, panel.m + lane));
    const VF l = hn::LoadU(d, panel.l + lane);
    const VF query = hn::LoadU(d, panel.lane_query + lane);
    VF before = zero;
    for (int e = panel.first_edge; e <= panel.end_edge; ++e) {
      VF mass = l;
      if (e < panel.end_edge) {
        const VF moved =
            AtLeast(hn::Set(d, kLowest),
                    hn::Sub(finite(hn::LoadU(d, panel.edge_m[e] + lane)), m));
        const auto known =
            hn::Lt(query, hn::Set(d, static_cast<float>(panel.crossed[e])));
        mass = hn::IfThenElse(
            known,
            hn::Mul(Exp2Bounded(moved), hn::LoadU(d, panel.edge_l[e] + lane)),
            l);
      }
      const size_t bucket = kHistogramBuckets - 1 - e;
      hn::StoreU(hn::Max(zero, hn::Sub(mass, before)), d,
                 histogram + bucket * kTileColumns + lane);
      before = mass;
    }
  }
}

// The statistics of the query in `lane`.
HWY_INLINE RowResult ResultOf(const ForwardCall& call, const Panel& panel,
                              int64_t lane) {
  RowResult row;
  row.query = panel.first + panel.QueryOf(lane);
  row.position = panel.position + panel.QueryOf(lane);
  row.visible = panel.lane_sinks[lane] + panel.lane_end[lane] -
                int64_t{panel.lane_begin[lane]};
  const double l = panel.l[lane];
  row.empty = panel.m[lane] == kMinusInfinity && !std::isnan(l);
  if (row.empty) return row;
  const double log_l = std::log(l);
  row.inverse = 1.0 / l;
  row.lse = panel.m[lane] * double{kLn2} + log_l;
  row.finite = std::isfinite(row.lse);
  if (call.statistics == Statistics::kNone) return row;
  const double mean = panel.t[lane] * row.inverse;
  row.entropy = std::max(0.0, log_l - double{kLn2} * mean);
  row.max_probability = row.inverse;
  row.argmax = panel.argmax[lane];
  row.distance = panel.d[lane] * row.inverse;
  if (call.statistics == Statistics::kFull) {
    const double square = panel.u[lane] * row.inverse - mean * mean;
    row.varentropy = std::max(0.0, double{kLn2} * double{kLn2} * square);
    row.sum_squares = panel.r[lane] * row.inverse * row.inverse;
    row.kept_argmax = panel.kept_argmax[lane];
    if (row.kept_argmax >= 0) {
      row.kept_max =
          std::exp2(double{panel.kept_m[lane]} - panel.m[lane]) * row.inverse;
    }
  }
  if (!row.finite) row.SetNonFinite();
  return row;
}

// Outputs of a panel, one lane a row: values first, then features from column
// `first_feature` on.
struct LaneOutputs {
  const float* rows = nullptr;  // [kTileColumns, columns]
  size_t columns = 0;
  size_t first_feature = 0;
};

// Lanes [begin, end), which are one head's. histogram: memory for
// [kHistogramBuckets, kTileColumns].
HWY_INLINE void FinishLanes(const ForwardCall& call, ResultWriter& results,
                            const Panel& panel, int64_t begin, int64_t end,
                            const LaneOutputs& outputs, float* histogram) {
  const bool wants_histogram = results.wants_histogram();
  if (wants_histogram) HistogramOf(panel, histogram);
  for (int64_t lane = begin; lane < end; ++lane) {
    RowResult row = ResultOf(call, panel, lane);
    if (call.statistics == Statistics::kFull && row.kept_argmax < 0 &&
        row.finite && !row.empty) {  // kept keys with scores of −∞, if any
      row.kept_argmax =
          results.FirstKept({panel.lane_sinks[lane], panel.lane_begin[lane],
                             panel.lane_end[lane]});
    }
    row.values = outputs.rows + static_cast<size_t>(lane) * outputs.columns;
    row.features = row.values + outputs.first_feature;
    for (int64_t c = 0; c < call.labels; ++c) {
      row.label_mass[c] = panel.label_mass[c][lane];
    }
    row.histogram = wants_histogram ? histogram + lane : nullptr;
    row.histogram_stride = kTileColumns;
    row.histogram_begin = kHistogramBuckets - 1 - panel.end_edge;
    row.histogram_end = kHistogramBuckets - panel.first_edge;
    results.Write(row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_FINISH_INL_H_
