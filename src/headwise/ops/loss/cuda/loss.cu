// cuda: a block a row, which reads it twice: for the largest logit and the sum
// of exponentials beside it, and for the gradient. Door: ../implementation.h.
#include <limits>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/loss/implementation.h"

namespace headwise {
namespace {

// Few large blocks on a processor: what is read again is still in the cache.
constexpr int kFewThreads = 256, kManyThreads = 1024;
constexpr int64_t kManyClasses = 4096;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
struct Params {
  float smoothing, scale;
  int64_t classes;
  const T* logits;
  T* dlogits;  // null: not wanted
  int64_t logits_stride, dlogits_stride;
  cuda::DeviceIds targets;
  float* losses;
};

// Σ exp(z − top) of what was seen, and Σ z.
struct Sums {
  float top = -kInfinity;
  float exponentials = 0;
  float total = 0;
};

// exp(x) for x ≤ 0, to 2e-6 of it where it counts.
__device__ float Exp(float x) { return __expf(x); }

// 0 for −∞, so that −∞ − shift stays −∞.
__device__ float Shift(float top) { return top == -kInfinity ? 0.0f : top; }

template <int kCount>
__device__ void Add(const float (&z)[kCount], Sums& sums) {
  float top = sums.top;
#pragma unroll
  for (int j = 0; j < kCount; ++j) top = fmaxf(top, z[j]);
  const float shift = Shift(top);
  float sum = sums.exponentials * Exp(sums.top - shift);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    sum += Exp(z[j] - shift);
    sums.total += z[j];
  }
  sums.exponentials = sum;
  sums.top = top;
}

// The sums of a row, in every thread.
template <typename T>
__device__ Sums SumsOf(const T* z, int64_t classes) {
  Sums mine;
  const auto add = [&](int64_t c, auto count) {
    float v[decltype(count)::value];
    cuda::Load(z + c, v);
    Add(v, mine);
  };
  cuda::ForPacks<cuda::kPack<T>>(threadIdx.x, blockDim.x, classes, add, z);
  Sums all;
  all.top = cuda::BlockMax(mine.top);
  all.exponentials =
      cuda::BlockSum(mine.exponentials * Exp(mine.top - Shift(all.top)));
  all.total = cuda::BlockSum(mine.total);
  return all;
}

// dz[c] = of(c, z[c]); dz may be z.
template <typename T, typename Function>
__device__ void WriteRow(const T* z, T* dz, int64_t classes,
                         const Function& of) {
  if (dz == nullptr) return;
  const auto write = [&](int64_t c, auto count) {
    constexpr int kCount = decltype(count)::value;
    float v[kCount];
    cuda::Load(z + c, v);
#pragma unroll
    for (int j = 0; j < kCount; ++j) v[j] = of(c + j, v[j]);
    cuda::Store(v, dz + c);
  };
  cuda::ForPacks<cuda::kPack<T>>(threadIdx.x, blockDim.x, classes, write, z,
                                 dz);
}

template <typename T>
__global__ void __launch_bounds__(kManyThreads) RowKernel(Params<T> p) {
  const int64_t row = blockIdx.x;
  const T* z = p.logits + row * p.logits_stride;
  T* dz = p.dlogits == nullptr ? nullptr : p.dlogits + row * p.dlogits_stride;
  const int64_t target = p.targets.At(row);
  // A target that is none of the classes shows as NaN: nobody waits here to
  // tell the host.
  if (target < 0 || target >= p.classes) {
    const float value = target == kIgnoreTarget ? 0.0f : kNaN;
    if (threadIdx.x == 0) p.losses[row] = value;
    WriteRow(z, dz, p.classes, [&](int64_t, float) { return value; });
    return;
  }
  const float chosen = cuda::ToFloat(z[target]);  // before dz overwrites it
  const Sums sums = SumsOf(z, p.classes);
  const float uniform = p.smoothing / static_cast<float>(p.classes);
  if (threadIdx.x == 0) {
    // Where nothing is smoothed, a class shut out by −∞ does not count.
    const double smooth = p.smoothing > 0 ? double{uniform} * sums.total : 0.0;
    p.losses[row] =
        static_cast<float>(sums.top + log(double{sums.exponentials}) -
                           (1.0 - p.smoothing) * chosen - smooth);
  }
  const float shift = Shift(sums.top), inverse = 1 / sums.exponentials;
  const float wanted = uniform + (1 - p.smoothing);
  WriteRow(z, dz, p.classes, [&](int64_t c, float value) {
    const float share = Exp(value - shift) * inverse;
    return p.scale * (share - (c == target ? wanted : uniform));
  });
}

Reason WhyNot(const CrossEntropyCall& call) {
  return cuda::WhyNotFloats({call.args.logits});
}

void Run(Context& context, const CrossEntropyCall& call) {
  const CrossEntropyArgs& a = call.args;
  const int64_t rows = a.logits.shape[0], classes = a.logits.shape[1];
  if (rows == 0) return;
  cuda::WithFloatType(a.logits.type, [&](auto element) {
    using T = decltype(element);
    const Params<T> p = {.smoothing = call.problem.smoothing,
                         .scale = call.problem.scale,
                         .classes = classes,
                         .logits = a.logits.Raw<T>(),
                         .dlogits = a.dlogits.Raw<T>(),
                         .logits_stride = a.logits.stride[0],
                         .dlogits_stride = a.dlogits.stride[0],
                         .targets = cuda::DeviceIds(a.targets),
                         .losses = a.losses.Raw<float>()};
    cuda::Launch(context, "loss", RowKernel<T>,
                 dim3(static_cast<unsigned>(rows)),
                 classes > kManyClasses ? kManyThreads : kFewThreads, p);
  });
}

}  // namespace

const Implementation<CrossEntropyCall> kCrossEntropyCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
