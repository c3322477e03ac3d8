// The reference: row after row, host memory. Door: implementation.h.
#include <algorithm>
#include <vector>

#include "headwise/ops/head_rows/call_rows.h"
#include "headwise/ops/head_rows/implementation.h"

namespace headwise {
namespace {

Reason WhyNot(const HeadRowsCall& call) {
  return call.args.entropy.device.is_cpu() ? "" : "reads host memory only";
}

struct SlotSums {
  std::vector<double> sums = std::vector<double>(2 * kHeadSlots, 0.0);
  void Add(int slot, double value, double weight) {
    sums[2 * slot] += value;
    sums[2 * slot + 1] += weight;
  }
};

struct Best {
  float score = 0;
  int32_t row = -1;
};

// Head h in sequence b.
void AddSequence(const CallRows& rows, int64_t b, int64_t h, SlotSums& sums,
                 Best (&best)[kBestRows]) {
  const RowResults& from = rows.results;
  std::vector<OwnSink> own;
  for (int n = 0; n < rows.OwnCount(b, h); ++n) {
    own.push_back(rows.Own(b, h, n));
  }
  HeadRow row;
  row.from = &from;
  row.keys = rows.KeysOf(b);
  row.own = own.data();
  row.own_count = static_cast<int>(own.size());
  row.h = h;
  const RowAdder<SlotSums> adder{sums};
  OffsetSums offsets[kOffsetWidth] = {};
  const int64_t begin = rows.query_starts[b], end = rows.query_starts[b + 1];
  for (int64_t t = begin; t < end; ++t) {
    if (!rows.Take(t, begin, row)) continue;
    for (int kind = 0; kind < kBestRows; ++kind) {
      const float score = BestScore(row, kind);
      if (score > best[kind].score) {
        best[kind] = {score, static_cast<int32_t>(row.i)};
      }
    }
    PrepareRow(row);
    adder.AddAll(row);
    if (from.cross) continue;
    adder.AddLocal(row);
    for (int k = -from.before; k <= from.after; ++k) {
      offsets[k + kFarthestOffset].Add(row, k);
    }
  }
  for (int c = 0; c < kOffsetWidth; ++c) {
    StoreOffset(offsets[c], c - kFarthestOffset, sums.sums.data());
  }
}

void Run(Context&, const HeadRowsCall& call) {
  const HeadRowsArgs& a = call.args;
  const CallRows rows = CallRowsOf(call);
  const int64_t heads = rows.results.heads;
  for (int64_t h = 0; h < heads; ++h) {
    double* tallies = a.tallies.Raw<double>() + h * kHeadSlots * kTallyNumbers;
    std::fill_n(tallies, kHeadSlots * kTallyNumbers, 0.0);
    for (int64_t b = 0; b < rows.sequences; ++b) {
      SlotSums sums;
      Best best[kBestRows];
      AddSequence(rows, b, h, sums, best);
      for (int slot = 0; slot < kHeadSlots; ++slot) {
        AddToTally(sums.sums[2 * slot], sums.sums[2 * slot + 1],
                   tallies + slot * kTallyNumbers);
      }
      if (!a.best_rows) continue;
      for (int kind = 0; kind < kBestRows; ++kind) {
        const int64_t at = (b * heads + h) * kBestRows + kind;
        a.best_rows.Raw<int32_t>()[at] = best[kind].row;
        a.best_scores.Raw<float>()[at] = best[kind].score;
      }
    }
    const int64_t columns = a.histogram ? a.histogram.shape[2] : 0;
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t b = 0; b < rows.sequences; ++b) {
        sum += a.histogram.Raw<double>()[(b * heads + h) * columns + c];
      }
      a.histogram_sums.Raw<double>()[h * columns + c] = sum;
    }
  }
}

}  // namespace

const Implementation<HeadRowsCall> kHeadRowsReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
