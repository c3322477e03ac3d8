// cuda: blocks of tokens, whose turns are made once for all heads, of the same
// angles as cpu.f32's. Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/rope/implementation.h"

namespace headwise {
namespace {

// Threads of a block, and the turns that it makes at a time.
constexpr int kThreads = 256;

template <typename T>
struct Params {
  float sign;  // −1: backward
  int64_t tokens;
  int heads, half;
  int block_tokens;  // tokens of a block
  const float* frequencies;
  cuda::DeviceIds positions;
  T* x;
  int64_t token_stride, head_stride;
};

// Pairs [begin, begin + width) of tokens [token, token + count).
struct Part {
  int64_t token;
  int count, begin, width;
};

// turns: cosine and sine of pair i of token t at t · width + i. The angle is an
// f32 product, as elsewhere: at far positions its rounding is what is learnt.
template <typename T>
__device__ void MakeTurns(const Params<T>& p, const Part& part, float* cosine,
                          float* sine) {
  const int at = threadIdx.x;
  if (at >= part.count * part.width) return;
  const auto position =
      static_cast<float>(p.positions.At(part.token + at / part.width));
  const float frequency = p.frequencies[part.begin + at % part.width];
  sincosf(__fmul_rn(position, frequency), sine + at, cosine + at);
  sine[at] *= p.sign;
}

template <int kCount, typename T>
__device__ void Turn(const Params<T>& p, const Part& part, const float* cosine,
                     const float* sine) {
  const int packs = part.width / kCount;  // of one head
  const int all = part.count * p.heads * packs;
  for (int n = threadIdx.x; n < all; n += kThreads) {
    const int i = n % packs * kCount, head = n / packs % p.heads;
    const int t = n / packs / p.heads;
    T* low = p.x + (part.token + t) * p.token_stride + head * p.head_stride +
             part.begin + i;
    T* high = low + p.half;
    const int turn = t * part.width + i;
    float a[kCount], b[kCount];
    cuda::Load(low, a);
    cuda::Load(high, b);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const float c = cosine[turn + j], s = sine[turn + j];
      const float from = a[j];
      a[j] = from * c - b[j] * s;
      b[j] = b[j] * c + from * s;
    }
    cuda::Store(a, low);
    cuda::Store(b, high);
  }
}

// kCount divides half, or is 1.
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
  return {
      .sign = forward ? 1.0f : -1.0f,
      .tokens = a.x.shape[0],
      .heads = static_cast<int>(a.x.shape[1]),
      .half = static_cast<int>(half),
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
  // A block counts its heads' pairs in 32 bits.
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
    const bool wide = cuda::HasPacks(x, kCount) && half % kCount == 0;
    const Params<T> p = ParamsOf<T>(call);
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
