// Which of cuBLASLt's algorithms a product takes, told by its sizes alone:
// nothing is timed, so that results repeat (measured: ops/matmul/README.md).
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>

#include "headwise/backend/cuda/blas.h"

namespace headwise {

// What to change about the library's first answer.
struct BlasChoice {
  std::optional<cublasLtMatmulTile_t> tile;
  cublasLtClusterShape_t cluster = CUBLASLT_CLUSTER_SHAPE_AUTO;
  std::optional<uint32_t> option;
  bool operator==(const BlasChoice&) const = default;
};

// Nothing where the first answer is as good as any. algorithm: its number;
// processors: of the GPU.
std::optional<BlasChoice> BetterChoice(const BlasProduct& product,
                                       int algorithm, int processors);

}  // namespace headwise
