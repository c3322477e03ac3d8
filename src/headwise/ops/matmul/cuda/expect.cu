// Weights on their way to the cache while small kernels run. Door:
// ../prepared_weights.h.
#include <algorithm>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/matmul/cuda/weights.h"
#include "headwise/ops/matmul/prepared_weights.h"

namespace headwise {
namespace {

constexpr int64_t kMostRows = 8;  // of products that wait for weights
constexpr int64_t kPiece = 4096;  // bytes of one request
constexpr int kThreads = 128;
// Of less the cache may hold all, and a fetch costs as much as it saves.
constexpr int64_t kLeastBytes = int64_t{8} << 20;
// More would push out what was fetched first, or come too late.
constexpr int64_t kMostBytes = int64_t{8} << 20;

// What cuda.rows, put on the chip before its turn, has in its registers
// meanwhile: blocks on a multiprocessor times the bytes that a block loads
// before it waits (rows.cu). A multiple of kPiece.
int64_t HeldBytes(int64_t rows, int64_t processors) {
  const int64_t of_block = (rows <= 2 ? 32 : 16) << 10;
  return processors * (rows == 1 ? 4 : 2) * of_block;
}

__global__ void FetchKernel(const char* from, int64_t pieces) {
#if __CUDA_ARCH__ >= 900
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= pieces) return;
  asm volatile(
      "cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from + at * kPiece),
      "r"(static_cast<unsigned>(kPiece))
      : "memory");
#endif
}

}  // namespace

// Only in recorded work, where a second queue costs nothing to ask.
void ExpectOnDevice(Context& context, const PreparedWeights& weights,
                    int64_t rows) {
  CudaBackend& backend = CudaOf(context);
  if (!backend.recording() || rows > kMostRows ||
      ChipOf(context.device())->major < 9) {
    return;
  }
  const int64_t numbers = weights.n() * weights.k();
  int64_t left = numbers * 2 < kLeastBytes ? 0 : kMostBytes;
  int64_t held = HeldBytes(rows, ChipOf(context.device())->processors);
  for (const ConstTensorView& part : FindOnDevice(context, weights)) {
    const int64_t bytes =
        part.shape[0] * part.stride[0] * ElementSize(part.type);
    const int64_t skipped = std::min(bytes, held) / kPiece * kPiece;
    held -= skipped;
    const int64_t pieces = std::min(bytes - skipped, left) / kPiece;
    if (pieces == 0) continue;
    left -= pieces * kPiece;
    FetchKernel<<<static_cast<unsigned>(cuda::CeilDiv(pieces, kThreads)),
                  kThreads, 0, backend.Beside()>>>(part.Raw<char>() + skipped,
                                                   pieces);
    CheckCuda(cudaGetLastError(), "weights on their way");
  }
}

}  // namespace headwise
