// cuda: the formulas of the reference in f32. Door: ../implementation.h.
#include "headwise/ops/activation/cuda/point.cuh"
#include "headwise/ops/activation/implementation.h"
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"

namespace headwise {
namespace {

// Rows of a view; a null pointer is not given.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  __device__ T* At(int64_t row) const {
    return data == nullptr ? nullptr : data + row * stride;
  }
};

template <typename T>
struct Params {
  Rows<const T> x, up, dy;
  Rows<T> y, dx, dup;
};

template <typename T>
Params<T> ParamsOf(const ActivationCall& call) {
  const auto from = [](const ConstTensorView& view) {
    return Rows<const T>{view.Raw<T>(), view.stride[0]};
  };
  const auto to = [](const TensorView& view) {
    return Rows<T>{view.Raw<T>(), view.stride[0]};
  };
  Params<T> p;
  p.x = from(call.args.x);
  p.up = from(call.args.up);
  p.y = to(call.args.y);
  if (call.grads == nullptr) return p;
  p.dy = from(call.grads->dy);
  p.dx = to(call.grads->dx);
  p.dup = to(call.grads->dup);
  return p;
}

template <typename T, Activation kKind>
__global__ void ForwardKernel(Params<T> p, cuda::RowShare share) {
  cuda::Begin();
  share.ForRows([&](int64_t row, int64_t first, int64_t step) {
    const T *x = p.x.At(row), *up = p.up.At(row);
    T* y = p.y.At(row);
    const auto apply = [&](int64_t i, auto count) {
      constexpr int kCount = decltype(count)::value;
      float v[kCount], gate[kCount];
      cuda::Load(x + i, v);
      if (up != nullptr) cuda::Load(up + i, gate);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        v[j] = cuda::ActivationAt<kKind>(v[j]).value;
        if (up != nullptr) v[j] *= cuda::UpAt<kKind>(gate[j]).value;
      }
      cuda::Store(v, y + i);
    };
    cuda::ForPacks<cuda::kPack<T>>(first, step, share.width, apply, x, up, y);
  });
}

// All is read before anything is written: y may be x or up, dx dy.
template <typename T, Activation kKind>
__global__ void BackwardKernel(Params<T> p, cuda::RowShare share) {
  cuda::Begin();
  share.ForRows([&](int64_t row, int64_t first, int64_t step) {
    const T *x = p.x.At(row), *up = p.up.At(row), *dy = p.dy.At(row);
    T *y = p.y.At(row), *dx = p.dx.At(row), *dup = p.dup.At(row);
    const auto apply = [&](int64_t i, auto count) {
      constexpr int kCount = decltype(count)::value;
      float v[kCount], gate[kCount], d[kCount], dgate[kCount];
      cuda::Load(x + i, v);
      cuda::Load(dy + i, d);
      if (up != nullptr) cuda::Load(up + i, gate);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const cuda::ActivationPoint point = cuda::ActivationAt<kKind>(v[j]);
        const cuda::ActivationPoint u = up != nullptr
                                            ? cuda::UpAt<kKind>(gate[j])
                                            : cuda::ActivationPoint{1, 0};
        dgate[j] = d[j] * point.value * u.slope;
        d[j] = d[j] * u.value * point.slope;
        v[j] = point.value * u.value;
      }
      if (up != nullptr) cuda::Store(dgate, dup + i);
      if (y != nullptr) cuda::Store(v, y + i);
      cuda::Store(d, dx + i);
    };
    cuda::ForPacks<cuda::kPack<T>>(first, step, share.width, apply, x, up, dy,
                                   y, dx, up != nullptr ? dup : nullptr);
  });
}

template <typename T>
using Kernel = void (*)(Params<T>, cuda::RowShare);

template <typename T, Activation kKind>
Kernel<T> KernelOf(bool is_forward) {
  return is_forward ? ForwardKernel<T, kKind> : BackwardKernel<T, kKind>;
}

template <typename T>
Kernel<T> KernelFor(const ActivationCall& call) {
  using enum Activation;
  const bool is_forward = call.grads == nullptr;
  switch (call.problem.kind) {
    case kRelu:
      return KernelOf<T, kRelu>(is_forward);
    case kGelu:
      return KernelOf<T, kGelu>(is_forward);
    case kGeluTanh:
      return KernelOf<T, kGeluTanh>(is_forward);
    case kSilu:
      return KernelOf<T, kSilu>(is_forward);
    case kTanh:
      return KernelOf<T, kTanh>(is_forward);
    case kClampedSilu:
      return KernelOf<T, kClampedSilu>(is_forward);
  }
  return nullptr;
}

bool IsDense(const ActivationCall& call) {
  const ActivationArgs& a = call.args;
  ActivationGrads g;
  if (call.grads != nullptr) g = *call.grads;
  return cuda::AreDense({a.x, a.up, a.y, g.dy, g.dx, g.dup});
}

Reason WhyNot(const ActivationCall& call) {
  return cuda::WhyNotFloats({call.args.x});
}

void Run(Context& context, const ActivationCall& call) {
  const int64_t rows = call.args.x.shape[0], width = call.args.x.shape[1];
  if (rows == 0 || width == 0) return;
  const bool dense = IsDense(call);
  cuda::WithFloatType(call.args.x.type, [&](auto element) {
    using T = decltype(element);
    const cuda::RowShare share(dense ? 1 : rows, dense ? rows * width : width,
                               cuda::kPack<T>);
    cuda::LaunchEarly(context, "activation", KernelFor<T>(call), share.Grid(),
                      share.threads, ParamsOf<T>(call), share);
  });
}

}  // namespace

const Implementation<ActivationCall> kActivationCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
