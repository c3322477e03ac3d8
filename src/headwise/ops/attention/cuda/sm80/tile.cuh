// Tiles of 64 rows in shared memory and the products a warp makes of them.
// Rows are kDim elements long; 16-byte pieces are permuted within groups of
// eight by the row, so that the matrix loads meet no bank twice.
#pragma once

#include "headwise/ops/attention/cuda/device/mma.cuh"

namespace headwise::attention_cuda::sm80 {

inline constexpr int kRows = 64;      // of every tile
inline constexpr int kThreads = 128;  // 4 warps, 16 rows each

template <class T, int kDim>
struct Tile {
  alignas(128) T data[kRows][kDim];
};

template <class T, int kDim>
__device__ inline uint32_t PieceAddress(const Tile<T, kDim>& tile, int row,
                                        int piece) {
  return static_cast<uint32_t>(
      __cvta_generic_to_shared(&tile.data[row][8 * (piece ^ (row & 7))]));
}

// Rows 0 … rows − 1 of `from` [rows, dim], the rest zeros; in the background.
template <class T, int kDim>
__device__ inline void LoadTile(Tile<T, kDim>& tile, const T* from,
                                int64_t stride, int rows, int dim) {
  constexpr int kPieces = kDim / 8;
  // As many pieces of a row at once as divide the threads.
  constexpr int kAcross = kThreads % kPieces == 0 ? kPieces : 8;
  constexpr int kStep = kThreads / kAcross;
#pragma unroll
  for (int first = 0; first < kPieces; first += kAcross) {
    const int piece = first + threadIdx.x % kAcross;
    int row = threadIdx.x / kAcross;
    const T* at = from + row * stride + 8 * piece;
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      const bool valid = row < rows && 8 * piece < dim;
      CopyAsync(PieceAddress(tile, row, piece), valid ? at : from, valid);
      row += kStep;
      at += kStep * stride;
    }
  }
}

// d[16 × 64] += A[16 rows of a][16 · steps] · B[64][16 · steps]ᵀ.
template <class T, int kDim>
__device__ inline void RowProduct(float (&d)[32], const Tile<T, kDim>& a,
                                  int first_row, const Tile<T, kDim>& b,
                                  int steps = kDim / 16) {
  const int lane = threadIdx.x % 32, in = lane % 8, block = lane / 8;
#pragma unroll 4
  for (int k = 0; k < steps; ++k) {
    uint32_t x[4];
    LoadBlocks(x, PieceAddress(a, first_row + in + 8 * (block & 1),
                               2 * k + (block >> 1)));
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      uint32_t y[4];
      LoadBlocks(y, PieceAddress(b, 16 * n + in + 8 * (block >> 1),
                                 2 * k + (block & 1)));
      SmallProduct<T>(d + 8 * n, x[0], x[1], x[2], x[3], y[0], y[1]);
      SmallProduct<T>(d + 8 * n + 4, x[0], x[1], x[2], x[3], y[2], y[3]);
    }
  }
}

// d[16 × kOut] += A[16 × 64] · B[64][first … first + kOut − 1], A in registers.
template <class T, int kDim, int kOut>
__device__ inline void ColumnProduct(float (&d)[kOut / 2],
                                     const uint32_t (&a)[4][4],
                                     const Tile<T, kDim>& b, int first) {
  const int lane = threadIdx.x % 32, in = lane % 8, block = lane / 8;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#pragma unroll
    for (int n = 0; n < kOut / 16; ++n) {
      uint32_t y[4];
      LoadBlocksTransposed(y, PieceAddress(b, 16 * k + in + 8 * (block & 1),
                                           first / 8 + 2 * n + (block >> 1)));
      SmallProduct<T>(d + 8 * n, a[k][0], a[k][1], a[k][2], a[k][3], y[0],
                      y[1]);
      SmallProduct<T>(d + 8 * n + 4, a[k][0], a[k][1], a[k][2], a[k][3], y[2],
                      y[3]);
    }
  }
}

// A 16 × 64 result as the next product's operand.
template <class T>
__device__ inline void AsOperand(const float (&d)[32], uint32_t (&a)[4][4]) {
#pragma unroll
  for (int i = 0; i < 16; ++i)
    a[i / 4][i % 4] = Pack<T>(d[2 * i], d[2 * i + 1]);
}

}  // namespace headwise::attention_cuda::sm80
