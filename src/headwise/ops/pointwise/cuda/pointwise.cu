// cuda: element by element, 16 bytes a thread where elements lie together or
// one stands for all. Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/strided.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/pointwise/implementation.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;

template <typename T>
struct Params {
  PointwiseKind kind = PointwiseKind::kAdd;
  float factor = 1;
  const T* a = nullptr;
  const T* b = nullptr;
  T* y = nullptr;
  cuda::Axes<3> axes;
};

// Each step rounded to T, and none fused with the next.
template <typename T>
__device__ T Result(PointwiseKind kind, float factor, T a, T b) {
  const float x = cuda::ToFloat(a), y = cuda::ToFloat(b);
  const auto round = [](float value) { return cuda::FromFloat<T>(value); };
  switch (kind) {
    case PointwiseKind::kAdd:
      return round(__fadd_rn(x, y));
    case PointwiseKind::kAddScaled:
      return round(__fadd_rn(x, cuda::ToFloat(round(__fmul_rn(factor, y)))));
    case PointwiseKind::kMultiply:
      return round(__fmul_rn(x, y));
    default:  // kScale
      return round(__fmul_rn(factor, x));
  }
}

// kItems elements from `from` on, or the one there as often.
template <typename T, int kItems>
__device__ cuda::Pack<T, kItems> Load(const T* from, bool repeats) {
  if (!repeats) return *reinterpret_cast<const cuda::Pack<T, kItems>*>(from);
  cuda::Pack<T, kItems> pack;
#pragma unroll
  for (int i = 0; i < kItems; ++i) pack.at[i] = *from;
  return pack;
}

template <typename T, int kItems, typename Index>
__global__ void PointwiseKernel(Params<T> p, Index count) {
  const Index n = cuda::ThreadIndex<Index>();
  if (n >= count) return;
  int64_t places[3];
  cuda::Locate(p.axes, n, places);
  const int last = p.axes.count - 1;
  const auto a = Load<T, kItems>(p.a + places[0], p.axes.step[0][last] == 0);
  const auto b = Load<T, kItems>(p.b + places[1], p.axes.step[1][last] == 0);
  cuda::Pack<T, kItems> y;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    y.at[i] = Result<T>(p.kind, p.factor, a.at[i], b.at[i]);
  }
  *reinterpret_cast<cuda::Pack<T, kItems>*>(p.y + places[2]) = y;
}

Reason WhyNot(const PointwiseCall& call) {
  if (Reduces(call)) return "sums nothing";
  return cuda::WhyNotFloats({call.a, call.b, call.y});
}

template <typename T>
void RunAs(Context& context, const PointwiseCall& call) {
  constexpr int kItems = 16 / sizeof(T);
  const ConstTensorView& b =
      call.kind == PointwiseKind::kScale ? call.a : call.b;
  Params<T> p = {.kind = call.kind,
                 .factor = call.factor,
                 .a = call.a.Raw<T>(),
                 .b = b.Raw<T>(),
                 .y = call.y.Raw<T>(),
                 .axes = cuda::AxesOf<3>({call.a, b, call.y})};
  const bool wide =
      cuda::Widen<3>(p.axes, {call.a, b, call.y}, kItems, /*repeats=*/true);
  const int64_t count = p.axes.size();
  cuda::WithIndex(count, [&](auto index) {
    using Index = decltype(index);
    cuda::Launch(
        context, "pointwise",
        wide ? PointwiseKernel<T, kItems, Index> : PointwiseKernel<T, 1, Index>,
        dim3(cuda::CeilDiv(count, kThreads)), kThreads, p,
        static_cast<Index>(count));
  });
}

void Run(Context& context, const PointwiseCall& call) {
  cuda::WithFloatType(call.y.type, [&](auto element) {
    RunAs<decltype(element)>(context, call);
  });
}

}  // namespace

const Implementation<PointwiseCall> kPointwiseCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
