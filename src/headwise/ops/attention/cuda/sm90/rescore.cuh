// The scores of one tile again, by one warp alone and from global memory: for
// the rare tile whose exponentials left the range of their reference, when the
// first scores are overwritten and the tile may have left shared memory.
#pragma once

#include "headwise/ops/attention/cuda/device/mma.cuh"
#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda::sm90 {

// What Rescore needs of a tile. query: row 0 of this thread, row 1 lies
// `second` elements behind; keys: the tile's key 0, rows key_row apart.
template <class T>
struct TileSource {
  const T* query;
  int64_t second;
  const T* keys;
  int64_t key_row;
  int columns;         // of a row, a multiple of 8
  int begin, key_len;  // the tile's first key; keys of the sequence
  int position;        // of row 0
};

// Masked scores of the tile. The order of a dot product's terms is free, so
// lane t of four takes the 8-byte pieces t, t + 4, … of every row; past the
// last it reads that again, for no branch, and takes zeros. The loop is not
// unrolled and its results go through the stack: this path must not cost the
// main loop registers.
template <class T, int kCount>
__device__ inline void Rescore(const TileSource<T>& tile, const Band& band,
                               float (&s)[kCount]) {
  float4 found[kCount / 4];
  const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll 1
  for (int k = 0; k < kCount / 4; ++k) {
    const int key = Min(8 * k + lane / 4, tile.key_len - tile.begin - 1);
    float d[4] = {};
#pragma unroll 1
    for (int first = 0; first < tile.columns; first += 16) {
      const int column = first + 4 * t;
      const auto read = [&](const T* row) {
        const uint2 piece = *reinterpret_cast<const uint2*>(
            row + Min(column, tile.columns - 4));
        return column < tile.columns ? piece : make_uint2(0, 0);
      };
      const uint2 a = read(tile.query), b = read(tile.query + tile.second);
      const uint2 c = read(tile.keys + key * tile.key_row);
      SmallProduct<T>(d, a.x, b.x, a.y, b.y, c.x, c.y);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int j = tile.begin + 8 * k + 2 * t + i % 2;
      const bool seen =
          Sees(band, tile.position + 8 * (i / 2), j, tile.key_len);
      d[i] = seen ? d[i] : kMasked;
    }
    found[k] = make_float4(d[0], d[1], d[2], d[3]);
  }
#pragma unroll
  for (int k = 0; k < kCount / 4; ++k) {
    s[4 * k] = found[k].x, s[4 * k + 1] = found[k].y;
    s[4 * k + 2] = found[k].z, s[4 * k + 3] = found[k].w;
  }
}

}  // namespace headwise::attention_cuda::sm90
