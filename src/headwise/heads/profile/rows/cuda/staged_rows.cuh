// A stretch of one head's rows in shared memory: loaded side by side and
// prepared once, for all that is added up of them. Only head_rows.cu includes
// this.
#pragma once

#include <cuda_pipeline.h>

#include "headwise/heads/profile/rows/call_rows.h"

namespace headwise::head_rows_cuda {

// Rows of a stretch. Sums of a sequence are those of its stretches: they depend
// on this number, and not on the chip.
inline constexpr int kStretch = 256;

// Where the stretches of a sequence begin among those of all: with room for one
// that is not full in each sequence before it.
HEADWISE_ROW_HD int64_t FirstStretch(const int32_t* query_starts, int64_t b) {
  return query_starts[b] / kStretch + b;
}
HEADWISE_ROW_HD int64_t StretchesOf(const int32_t* query_starts, int64_t b) {
  return (query_starts[b + 1] - query_starts[b] + kStretch - 1) / kStretch;
}
inline int64_t MostStretches(int64_t rows, int64_t sequences) {
  return rows / kStretch + sequences;
}

// Records of an odd number of words: threads side by side, each at its row,
// meet no bank of shared memory twice.
struct OddNotes {
  RowNotes notes;
  int32_t none;
};
inline constexpr int kNoteWords = sizeof(RowNotes) / 4;
static_assert(sizeof(RowNotes) % 8 == 0 && alignof(RowNotes) == 4 &&
              sizeof(OddNotes) == sizeof(RowNotes) + 4);
inline constexpr int kOddFeatures = kKeyFeatures + 1;
static_assert(kOddFeatures % 2 == 1);

struct StagedRows {
  // By PrepareRow.
  double visible[kStretch], content[kStretch], content_visible[kStretch];
  double chance[kStretch], content_chance[kStretch];
  OwnSink own[kMostOwnSinks];
  bool counted[kStretch];
  // As the call has them.
  float entropy[kStretch], max[kStretch], distance[kStretch];
  float kept_max[kStretch], below_end[kStretch];
  int32_t argmax[kStretch], kept_argmax[kStretch];
  OddNotes notes[kStretch];
  float features[kStretch * kOddFeatures];
  float labels[kStretch * kLabelChannels];
  float band[kStretch * kOffsetWidth];
};

// `count` records of kFrom words, each copied to one of kTo.
template <int kFrom, int kTo>
__device__ __forceinline__ void StartCopy(const void* from, int count,
                                          void* to) {
  const auto* words = static_cast<const uint32_t*>(from);
  auto* there = static_cast<uint32_t*>(to);
  for (int n = static_cast<int>(threadIdx.x); n < count * kFrom;
       n += static_cast<int>(blockDim.x)) {
    __pipeline_memcpy_async(there + n / kFrom * kTo + n % kFrom, words + n, 4);
  }
}

// The stretch of a block. Without kSinks no head has sinks of its own, which is
// the rule, and nothing asks for them.
template <bool kSinks>
class Stretch {
 public:
  // Of all stretches this one, of head h; every thread of the block calls it.
  // Loads and prepares the rows, if there are any.
  __device__ __forceinline__ Stretch(const CallRows& rows, int64_t n, int64_t h,
                                     StagedRows& staged)
      : staged_(staged), results_(rows.results) {
    ShowStaged(h);
    const int64_t b = SequenceOf(rows, n);
    if (b < 0) return;
    first_ = (n - FirstStretch(rows.query_starts, b)) * kStretch;
    const int64_t begin = rows.query_starts[b] + first_;
    count_ = static_cast<int>(
        min(int64_t{kStretch}, rows.query_starts[b + 1] - begin));
    if (count_ <= 0) return;
    keys_ = rows.KeysOf(b);
    own_count_ = kSinks ? rows.OwnCount(b, h) : 0;
    Load(rows.results, h * rows.results.rows + begin, begin);
    if constexpr (kSinks) {
      for (int i = static_cast<int>(threadIdx.x); i < own_count_;
           i += static_cast<int>(blockDim.x)) {
        staged_.own[i] = rows.Own(b, h, i);
      }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int r = static_cast<int>(threadIdx.x); r < count_;
         r += static_cast<int>(blockDim.x)) {
      Prepare(r);
    }
    __syncthreads();
  }
  __device__ bool empty() const { return count_ <= 0; }

  // use(row) for those of a warp's rows that count, each in one lane.
  template <typename Use>
  __device__ __forceinline__ void ForRows(const Use& use) const {
    for (int r = static_cast<int>(threadIdx.x) % 32; r < count_; r += 32) {
      if (!staged_.counted[r]) continue;
      HeadRow row = At(r);
      row.visible = staged_.visible[r];
      row.content = staged_.content[r];
      row.content_visible = staged_.content_visible[r];
      row.chance = staged_.chance[r];
      row.content_chance = staged_.content_chance[r];
      row.argmax = staged_.argmax[r];
      row.kept_argmax = staged_.kept_argmax[r];
      use(row);
    }
  }

 private:
  // That has this stretch; −1: none. A thread a sequence.
  __device__ __forceinline__ static int64_t SequenceOf(const CallRows& rows,
                                                       int64_t n) {
    __shared__ int64_t found;
    if (threadIdx.x == 0) found = -1;
    __syncthreads();
    for (int64_t b = threadIdx.x; b < rows.sequences; b += blockDim.x) {
      if (FirstStretch(rows.query_starts, b) <= n &&
          n < FirstStretch(rows.query_starts, b + 1)) {
        found = b;
      }
    }
    __syncthreads();
    return found;
  }

  // at: of the first row among those of all heads; t: among the call's.
  __device__ __forceinline__ void Load(const RowResults& from, int64_t at,
                                       int64_t t) {
    StartCopy<kNoteWords, kNoteWords + 1>(from.notes + t, count_,
                                          staged_.notes);
    StartCopy<1, 1>(from.entropy + at, count_, staged_.entropy);
    StartCopy<1, 1>(from.max + at, count_, staged_.max);
    StartCopy<1, 1>(from.distance + at, count_, staged_.distance);
    StartCopy<1, 1>(from.kept_max + at, count_, staged_.kept_max);
    StartCopy<1, 1>(from.argmax + at, count_, staged_.argmax);
    StartCopy<1, 1>(from.kept_argmax + at, count_, staged_.kept_argmax);
    if (from.below_end != nullptr) {
      StartCopy<1, 1>(from.below_end + at, count_, staged_.below_end);
    }
    StartCopy<kKeyFeatures, kOddFeatures>(from.feature_mass + at * kKeyFeatures,
                                          count_, staged_.features);
    if (from.causal) {
      StartCopy<kLabelChannels, kLabelChannels>(
          from.label_mass + at * kLabelChannels, count_, staged_.labels);
    }
    if (!from.cross) {
      const int width = from.before + from.after + 1;
      StartCopy<1, 1>(from.band + at * width, count_ * width, staged_.band);
    }
  }

  // Lets the results be those here, of one head.
  __device__ __forceinline__ void ShowStaged(int64_t h) {
    results_.heads = 1;
    results_.rows = kStretch;
    results_.features = kOddFeatures;
    results_.entropy = staged_.entropy;
    results_.max = staged_.max;
    results_.distance = staged_.distance;
    results_.kept_max = staged_.kept_max;
    results_.below_end = staged_.below_end;
    results_.argmax = staged_.argmax;
    results_.kept_argmax = staged_.kept_argmax;
    results_.feature_mass = staged_.features;
    results_.label_mass = staged_.labels;
    results_.band = staged_.band;
    results_.pair_mass += h * results_.pairs;
  }

  __device__ __forceinline__ HeadRow At(int r) const {
    HeadRow row;
    row.from = &results_;
    row.notes = &staged_.notes[r].notes;
    row.keys = keys_;
    row.own = staged_.own;
    row.own_count = kSinks ? own_count_ : 0;
    row.t = r;
    row.i = first_ + r;
    return row;
  }

  __device__ __forceinline__ void Prepare(int r) {
    HeadRow row = At(r);
    const bool counted = IsCounted(row);
    staged_.counted[r] = counted;
    if (!counted) return;
    PrepareRow(row);
    staged_.visible[r] = row.visible;
    staged_.content[r] = row.content;
    staged_.content_visible[r] = row.content_visible;
    staged_.chance[r] = row.chance;
    staged_.content_chance[r] = row.content_chance;
  }

  StagedRows& staged_;
  RowResults results_;
  KeyNotes keys_;
  int own_count_ = 0;
  int count_ = 0;      // rows
  int64_t first_ = 0;  // the first of them, in its sequence
};

}  // namespace headwise::head_rows_cuda
