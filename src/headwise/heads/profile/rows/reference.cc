// The reference: head by head and row after row, host memory. Door:
// implementation.h.
#include <algorithm>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/heads/profile/rows/call_rows.h"
#include "headwise/heads/profile/rows/implementation.h"

namespace headwise {
namespace {

Reason WhyNotHost(const HeadRowsCall& call) {
  return call.args.entropy.device.is_cpu() ? "" : "reads host memory only";
}

// Σx and Σw of one head and sequence, by slot.
struct SlotSums {
  std::vector<double> x = std::vector<double>(kHeadSlots, 0.0);
  std::vector<double> w = std::vector<double>(kHeadSlots, 0.0);

  void Add(int slot, double value, double weight) {
    x[slot] += value;
    w[slot] += weight;
  }
  void Clear() {
    std::fill(x.begin(), x.end(), 0);
    std::fill(w.begin(), w.end(), 0);
  }
  // Forms of equal weight share one.
  void FinishOffsets() {
    for (int k = -kFarthestOffset; k <= kFarthestOffset; ++k) {
      for (int form = 0; form < kOffsetForms; ++form) {
        const int shared = form < kOffsetContent ? kOffsetMass : kOffsetContent;
        w[OffsetSlot(form, k)] = w[OffsetSlot(shared, k)];
      }
    }
  }
};

struct BestSoFar {
  float score = 0;
  int32_t row = -1;
};

// Offsets low … high of a row, each seen: shares, and 1 for keys that are kept.
struct BandShares {
  int64_t low = 0, high = 0;
  const double* shares = nullptr;
  const double* kept = nullptr;

  bool Has(int k) const { return k >= low && k <= high; }
  double Share(int k) const { return shares[k - low]; }
  bool IsKept(int k) const { return kept[k - low] != 0; }
};

// OffsetSums of all offsets, and what is near. Most of the time of a row goes
// here, so forms are added for all offsets at once, and one key is the largest.
// kept: for every key 1, or 0 for a sink.
void AddBand(const HeadRow& row, const double* kept, SlotSums& sums) {
  const RowResults& from = *row.from;
  const int64_t low = std::max<int64_t>(-from.before, row.notes->low - row.i);
  const int64_t high =
      std::min<int64_t>(from.after, row.notes->high - 1 - row.i);
  const int width = static_cast<int>(high - low + 1);
  if (width <= 0) return;
  double mass[kOffsetWidth];
  const float* band = row.band() + low;
  for (int c = 0; c < width; ++c) mass[c] = band[c];
  const auto at = [&](std::vector<double>& values, OffsetForm form) {
    return values.data() + OffsetSlot(form, low);
  };
  const auto hit = [&](int32_t key, double weight, OffsetForm form) {
    const int64_t k = key - row.i;
    if (key < 0 || k < low || k > high) return;
    sums.x[OffsetSlot(form, k)] += weight;
  };
  double* __restrict mass_x = at(sums.x, kOffsetMass);
  double* __restrict mass_w = at(sums.w, kOffsetMass);
  double* __restrict chance = at(sums.x, kOffsetChance);
  for (int c = 0; c < width; ++c) {
    mass_x[c] += mass[c];
    mass_w[c] += 1;
    chance[c] += row.chance;
  }
  hit(row.argmax, 1, kOffsetArgmax);
  const double* keys = kept + row.i + low;
  double* __restrict content_x = at(sums.x, kOffsetContent);
  double* __restrict content_w = at(sums.w, kOffsetContent);
  double* __restrict content_chance = at(sums.x, kOffsetContentChance);
  for (int c = 0; c < width; ++c) {
    content_x[c] += keys[c] * mass[c];
    content_w[c] += keys[c] * row.content;
    content_chance[c] += keys[c] * row.content_chance;
  }
  hit(row.kept_argmax, row.content, kOffsetContentArgmax);
  RowAdder<SlotSums>{sums}.AddNear(row, BandShares{low, high, mass, keys});
}

// One head, sequence by sequence.
class HeadAdder {
 public:
  HeadAdder(const CallRows& rows, int64_t h) : rows_(rows) {
    row_.from = &rows.results;
    row_.h = h;
  }

  // Sequence b, into `sums`; its best rows into `best`.
  void Add(int64_t b, BestSoFar (&best)[kBestRows]) {
    row_.keys = rows_.KeysOf(b);
    FindSinks(b);
    sums.Clear();
    const RowAdder<SlotSums> adder{sums};
    const int64_t begin = rows_.query_starts[b];
    for (int64_t t = begin; t < rows_.query_starts[b + 1]; ++t) {
      if (!rows_.Take(t, begin, row_)) continue;
      for (int kind = 0; kind < kBestRows; ++kind) {
        const float score = BestScore(row_, kind);
        if (score > best[kind].score) {
          best[kind] = {score, static_cast<int32_t>(row_.i)};
        }
      }
      PrepareRow(row_);
      adder.AddAll(row_);
      if (!row_.cross()) AddBand(row_, kept_.data(), sums);
    }
    sums.FinishOffsets();
  }

  SlotSums sums;

 private:
  void FindSinks(int64_t b) {
    own_.clear();
    kept_.resize(row_.keys.count);
    for (int64_t j = 0; j < row_.keys.count; ++j) {
      kept_[j] = j == 0 || row_.keys.special[j] != 0 ? 0 : 1;
    }
    for (int n = 0; n < rows_.OwnCount(b, row_.h); ++n) {
      own_.push_back(rows_.Own(b, row_.h, n));
      kept_[own_.back().key] = 0;
    }
    row_.own = own_.data();
    row_.own_count = static_cast<int>(own_.size());
  }

  const CallRows& rows_;
  HeadRow row_;
  std::vector<OwnSink> own_;
  std::vector<double> kept_;
};

void AddHead(const HeadRowsCall& call, const CallRows& rows, int64_t h) {
  const HeadRowsArgs& a = call.args;
  const int64_t heads = rows.results.heads;
  double* tallies = a.tallies.Raw<double>() + h * kHeadSlots * kTallyNumbers;
  if (!call.problem.adds) {
    std::fill_n(tallies, kHeadSlots * kTallyNumbers, 0.0);
  }
  HeadAdder adder(rows, h);
  for (int64_t b = 0; b < rows.sequences; ++b) {
    BestSoFar best[kBestRows];
    adder.Add(b, best);
    for (int slot = 0; slot < kHeadSlots; ++slot) {
      AddToTally(adder.sums.x[slot], adder.sums.w[slot],
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
    double& sum = a.histogram_sums.Raw<double>()[h * columns + c];
    if (!call.problem.adds) sum = 0;
    for (int64_t b = 0; b < rows.sequences; ++b) {
      sum += a.histogram.Raw<double>()[(b * heads + h) * columns + c];
    }
  }
}

void RunHost(Context& context, const HeadRowsCall& call) {
  const CallRows rows = CallRowsOf(call);
  context.pool().ParallelFor(rows.results.heads,
                             [&](int64_t h, int) { AddHead(call, rows, h); });
}

}  // namespace

const Implementation<HeadRowsCall> kHeadRowsReference = {
    .name = "reference", .why_not = WhyNotHost, .run = RunHost};

}  // namespace headwise
