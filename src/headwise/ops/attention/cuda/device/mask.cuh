// Masks a tile of scores held as softmax.cuh describes.
#pragma once

#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/schedule.h"

namespace headwise::attention_cuda {

// Row r of the thread, at `position`; column: the thread's first key.
template <int kCount>
__device__ inline void MaskRow(float (&s)[kCount], int r, const Band& band,
                               int position, int column, int key_len) {
  const int end = Min(key_len, position + band.after + 1) - column;
  const int begin = position - band.before - column;
  const int sinks = band.sinks - column;
#pragma unroll
  for (int k = 0; k < kCount / 4; ++k) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int j = 8 * k + b;
      const bool seen = j < end && (j >= begin || j < sinks);
      s[4 * k + 2 * r + b] = seen ? s[4 * k + 2 * r + b] : kMasked;
    }
  }
}

// position: of the thread's row 0, row 1 is 8 below.
template <int kCount>
__device__ inline void MaskTile(float (&s)[kCount], const Band& band,
                                int position, int column, int key_len) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    MaskRow(s, r, band, position + 8 * r, column, key_len);
  }
}

}  // namespace headwise::attention_cuda
