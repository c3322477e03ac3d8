// cuda: the mask of base/rng.h's Philox, bit for bit; a block of it for four
// values. Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/dropout/implementation.h"

namespace headwise {
namespace {

template <typename T>
struct Params {
  uint64_t seed, stream;
  uint32_t least;  // word that keeps its value
  float keep;      // what a kept value is multiplied with
  const T* x;
  T* y;
  int64_t x_stride, y_stride;
};

// Philox 4x32-10, as base/rng.cc has it.
__device__ uint4 PhiloxAt(uint64_t key, uint64_t stream, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter);
  uint32_t c1 = static_cast<uint32_t>(counter >> 32);
  uint32_t c2 = static_cast<uint32_t>(stream);
  uint32_t c3 = static_cast<uint32_t>(stream >> 32);
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// The words of values n, n + 1, …
template <typename T, int kCount>
__device__ void WordsAt(const Params<T>& p, uint64_t n,
                        uint32_t (&words)[kCount]) {
  if (kCount % 4 == 0 && n % 4 == 0) {
#pragma unroll
    for (int j = 0; j + 3 < kCount; j += 4) {
      const uint4 block = PhiloxAt(p.seed, p.stream, n / 4 + j / 4);
      words[j] = block.x;
      words[j + 1] = block.y;
      words[j + 2] = block.z;
      words[j + 3] = block.w;
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const uint4 block = PhiloxAt(p.seed, p.stream, (n + j) / 4);
    const uint32_t place = (n + j) % 4;
    words[j] = place == 0   ? block.x
               : place == 1 ? block.y
               : place == 2 ? block.z
                            : block.w;
  }
}

template <typename T>
__global__ void DropoutKernel(Params<T> p, cuda::RowShare share) {
  share.ForRows([&](int64_t row, int64_t first, int64_t step) {
    const T* x = p.x + row * p.x_stride;
    T* y = p.y + row * p.y_stride;
    const auto drop = [&](int64_t i, auto count) {
      constexpr int kCount = decltype(count)::value;
      float v[kCount];
      uint32_t words[kCount];
      cuda::Load(x + i, v);
      WordsAt(p, static_cast<uint64_t>(row * share.width + i), words);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        v[j] = words[j] >= p.least ? v[j] * p.keep : 0.0f;
      }
      cuda::Store(v, y + i);
    };
    cuda::ForPacks<cuda::kPack<T>>(first, step, share.width, drop, x, y);
  });
}

Reason WhyNot(const DropoutCall& call) {
  return cuda::WhyNotFloats({call.args.x});
}

void Run(Context& context, const DropoutCall& call) {
  const auto& [x, y] = call.args;
  const int64_t rows = x.shape[0], width = x.shape[1];
  if (rows == 0 || width == 0) return;
  cuda::WithFloatType(x.type, [&, &x = x, &y = y](auto element) {
    using T = decltype(element);
    const Params<T> p = {.seed = call.mask.seed,
                         .stream = call.mask.stream,
                         .least = LeastKept(call.mask),
                         .keep = 1.0f / (1.0f - call.mask.rate),
                         .x = x.Raw<T>(),
                         .y = y.Raw<T>(),
                         .x_stride = x.stride[0],
                         .y_stride = y.stride[0]};
    const bool dense = cuda::AreDense({x, y});
    const cuda::RowShare share(dense ? 1 : rows, dense ? rows * width : width,
                               cuda::kPack<T>);
    cuda::Launch(context, "dropout", DropoutKernel<T>, share.Grid(),
                 share.threads, p, share);
  });
}

}  // namespace

const Implementation<DropoutCall> kDropoutCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
