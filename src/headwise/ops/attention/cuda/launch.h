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

// The backward kernel's rows and columns (sm90/gradient.cuh), read in boxes of
// 64 · GradientGroups rows and kSm90GradientColumns.
struct GradientMaps {
  CUtensorMap r1, r2, c1, c2;
};
inline constexpr int kSm90GradientColumns = 64;

// kDim: 64 or 128, the head's own size.
template <class T, int kDim>
void LaunchForwardSm90(const ForwardParams& params, const TensorMaps& maps,
                       bool statistics, int processors, cudaStream_t stream);

// The same for bf16 with the full statistics, where no features, labels or
// excluded keys are looked at; params.forward in blocks of the forward
// kernel's.
template <int kDim>
void LaunchFullSm90(const ObserveParams& params, const TensorMaps& maps,
                    int processors, cudaStream_t stream);

// After LaunchPrepare; maps: for dQ, and for dK and dV.
template <class T, int kDim>
void LaunchBackwardSm90(const BackwardParams& params,
                        const GradientMaps& of_queries,
                        const GradientMaps& of_keys, int processors,
                        cudaStream_t stream);

// kDim: 64, 128, 192 or 256, the keys' size or more; kValueDim: the values',
// the same, but of 192: 128.
template <class T, int kDim, int kValueDim>
void LaunchForwardSm80(const ForwardParams& params, cudaStream_t stream);
// The backward pass's scratch, before either path's kernels.
void LaunchPrepare(const BackwardParams& params, cudaStream_t stream);
// δ from the scores, with the entropy's part; after LaunchPrepare, where there
// is a log_weight. Both kernels need an order of 64 queries a block.
void LaunchDelta(const BackwardParams& params, cudaStream_t stream);
// Adds to dtable; after LaunchDelta.
void LaunchTableGradient(const BackwardParams& params, cudaStream_t stream);
// Adds to dsink_logits; after δ is whole.
void LaunchSinkGradient(const SinkGradientParams& params, cudaStream_t stream);

// A few queries against a long cache; either path.
void LaunchDecode(const DecodeParams& params, cudaStream_t stream);
// Statistics beyond the core, and sums over rows, after a forward pass.
void LaunchObserve(const ObserveParams& params, cudaStream_t stream);
// Its part: p.split_features, and what sides_only asks for.
void LaunchSplitFeatures(const ObserveParams& params, cudaStream_t stream);
void LaunchSides(const ObserveParams& params, cudaStream_t stream);
void LaunchSums(const SumParams& params, cudaStream_t stream);
// The share of each row that a sink took, from its LSE.
void LaunchMissing(const ForwardParams& forward, const RowResult& missing,
                   cudaStream_t stream);
// Second passes.
void LaunchRows(const SecondPassParams& params, int rows, cudaStream_t stream);
void LaunchTop(const SecondPassParams& params, int rows, cudaStream_t stream);
void LaunchPairs(const SecondPassParams& params, cudaStream_t stream);
void LaunchWindow(const SecondPassParams& params, int rows, int columns,
                  cudaStream_t stream);
void LaunchBand(const BandParams& params, cudaStream_t stream);
void LaunchReceived(const ReceivedParams& params, cudaStream_t stream);
void LaunchGram(const GramParams& params, cudaStream_t stream);

// After LaunchPrepare, and LaunchDelta where it is needed.
template <class T, int kDim, int kValueDim>
void LaunchBackwardSm80(const BackwardParams& params, cudaStream_t stream);

}  // namespace headwise::attention_cuda
