// The launches that the generated CUDA files define, one per element type and
// number of columns (CMakeLists.txt lists them), and the tensor maps that the
// Hopper kernel reads through.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// q in boxes of a block's queries, k and v in boxes of a tile's keys, all 64
// columns wide.
struct TensorMaps {
  CUtensorMap q, k, v;
};

// Keys a tile of the Hopper kernel.
inline constexpr int kSm90KeyTile = 128;

// kDim: 64 or 128, the head's own size.
template <class T, int kDim>
void LaunchForwardSm90(const ForwardParams& params, const TensorMaps& maps,
                       bool statistics, int processors, cudaStream_t stream);

// kDim: 64, 128 or 256, the head's size or more.
template <class T, int kDim>
void LaunchForwardSm80(const ForwardParams& params, cudaStream_t stream);
template <class T, int kDim>
void LaunchBackwardSm80(const BackwardParams& params, cudaStream_t stream);

}  // namespace headwise::attention_cuda
