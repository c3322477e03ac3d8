// Door: blas_choice.h.
#include "headwise/backend/cuda/blas_choice.h"

namespace headwise {
namespace {

// The library's number for its kernels of the Hopper generation.
constexpr int kHopper = 66;
constexpr int64_t kTile = 128;
// Longer sums have so little to do behind them that larger tiles win.
constexpr int64_t kLongSum = 16384;

// Tiles of 128 × 128 that two warpgroups compute in turns, so that what comes
// after the sum (bias, activation, C's old values, the store) is done under the
// other's product, in clusters of two along n or along m. The first answer are
// larger tiles that both compute together, and nothing hides their end.
constexpr BlasChoice kTurnsAlongN = {CUBLASLT_MATMUL_TILE_128x128,
                                     CUBLASLT_CLUSTER_SHAPE_2x1x1, 1};
constexpr BlasChoice kTurnsAlongM = {CUBLASLT_MATMUL_TILE_128x128,
                                     CUBLASLT_CLUSTER_SHAPE_1x2x1, 3};
// For slopes the first answer has the tile and turns, in large clusters.
constexpr BlasChoice kSmallClusters = {{}, CUBLASLT_CLUSTER_SHAPE_2x1x1, {}};

int64_t Tiles(int64_t length) { return (length + kTile - 1) / kTile; }

}  // namespace

std::optional<BlasChoice> BetterChoice(const BlasProduct& p, int algorithm,
                                       int processors) {
  const bool halves = p.type != CUDA_R_32F && p.c_type == p.type;
  const bool many = Tiles(p.m) * Tiles(p.n) >= int64_t{2} * processors;
  if (algorithm != kHopper || !halves || !many || !p.a_along_k) return {};
  if (p.epilogue == BlasEpilogue::kGeluBackward) return kSmallClusters;
  if (p.inner != nullptr || p.k > kLongSum) return {};
  return Tiles(p.n) % 2 == 0 ? kTurnsAlongN : kTurnsAlongM;
}

}  // namespace headwise
