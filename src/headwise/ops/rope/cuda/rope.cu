// cuda: blocks of tokens, whose turns are made once for all heads, of the same
// angles as cpu.f32's. Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/rope/cuda/append.cuh"
#include "headwise/ops/rope/cuda/turn.cuh"
#include "headwise/ops/rope/implementation.h"

namespace headwise {
namespace {

using cuda::rope::kThreads;
using cuda::rope::MakeTurns;
using cuda::rope::Params;
using cuda::rope::Part;
using cuda::rope::TurnPack;

template <int kCount, typename T>
__device__ void Turn(const Params<T>& p, const Part& part, const float* cosine,
                     const float* sine) {
  const int packs = part.width / kCount;  // of one head
  const int all = part.count * p.heads * packs;
  for (int n = threadIdx.x; n < all; n += kThreads) {
    const int i = n % packs * kCount, head = n / packs % p.heads;
    const int t = n / packs / p.heads;
    T* low = p.x + (part.token + t) * p.token_stride + head * p.head_stride +
             (part.begin + i) * p.step;
    T* high = low + p.apart;
    const int turn = t * part.width + i;
    float a[kCount], b[kCount];
    cuda::Load(low, a);
    cuda::Load(high, b);
    TurnPack<kCount>(cosine + turn, sine + turn, a, b);
    cuda::Store(a, low);
    cuda::Store(b, high);
  }
}

// kCount divides half, or is 1, as it is for neighbours.
template <int kCount, typename T>
__global__ void __launch_bounds__(kThreads) RopeKernel(Params<T> p) {
  cuda::Begin();
  __shared__ float cosine[kThreads], sine[kThreads];
  Part part;
  part.token = static_cast<int64_t>(blockIdx.x) * p.block_tokens;
  part.count = static_cast<int>(
      min(static_cast<int64_t>(p.block_tokens), p.tokens - part.token));
  for (part.begin = 0; part.begin < p.half; part.begin += kThreads) {
    part.width = min(kThreads, p.half - part.begin);
    MakeTurns(p, part, cosine, sine);
    __syncthreads();
    Turn<kCount>(p, part, cosine, sine);
    __syncthreads();
  }
}

template <typename T>
Params<T> ParamsOf(const RopeCall& call) {
  const RopeArgs& a = call.args;
  const int64_t half = a.frequencies.shape[0];
  const bool forward = call.problem.direction == RopeDirection::kForward;
  const auto [step, apart] = PlacesOf(call);
  const float scale = call.problem.scale;
  return {
      .scale = scale,
      .back = forward ? scale : -scale,
      .tokens = a.x.shape[0],
      .heads = static_cast<int>(a.x.shape[1]),
      .half = static_cast<int>(half),
      .step = static_cast<int>(step),
      .apart = static_cast<int>(apart),
      .block_tokens = static_cast<int>(std::max<int64_t>(1, kThreads / half)),
      .frequencies = a.frequencies.Raw<float>(),
      .positions = cuda::DeviceIds(a.positions),
      .x = a.x.Raw<T>(),
      .token_stride = a.x.stride[0],
      .head_stride = a.x.stride[1]};
}

Reason WhyNot(const RopeCall& call) {
  const Reason no = cuda::WhyNotFloats({call.args.x});
  if (!no.empty()) return no;
  // Pairs of a token, and blocks that share them, are counted in few bits.
  constexpr int64_t kMost = int64_t{1} << 22;
  return call.args.x.shape[1] * call.args.x.shape[2] > kMost
             ? "takes tokens of up to 2^22 numbers"
             : "";
}

void Run(Context& context, const RopeCall& call) {
  const TensorView& x = call.args.x;
  const int64_t half = call.args.frequencies.shape[0];
  if (x.size() == 0 || half == 0) return;
  cuda::WithFloatType(x.type, [&](auto element) {
    using T = decltype(element);
    constexpr int kCount = cuda::kPack<T>;
    const bool wide = call.problem.pairs == RopePairs::kHalves &&
                      cuda::HasPacks(x, kCount) && half % kCount == 0;
    const Params<T> p = ParamsOf<T>(call);
    if (call.append != nullptr) return cuda::rope::RunAppend(context, call, p);
    cuda::LaunchEarly(
        context, "rope", wide ? RopeKernel<kCount, T> : RopeKernel<1, T>,
        dim3(static_cast<unsigned>(cuda::CeilDiv(p.tokens, p.block_tokens))),
        kThreads, p);
  });
}

}  // namespace

const Implementation<RopeCall> kRopeCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
