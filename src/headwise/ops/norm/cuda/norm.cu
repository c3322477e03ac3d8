// cuda: a warp or a block a row, sums in f32; parameter gradients as partial
// sums of blocks of rows that are then added in order. Door:
// ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/norm/cuda/block_forward.cuh"
#include "headwise/ops/norm/cuda/held_forward.cuh"
#include "headwise/ops/norm/cuda/one_pass.cuh"
#include "headwise/ops/norm/cuda/params.cuh"
#include "headwise/ops/norm/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

using cuda::norm::AddSums;
using cuda::norm::kMostSums;
using cuda::norm::kThreads;
using cuda::norm::Params;
using cuda::norm::RunBlockForward;
using cuda::norm::RunHeldForward;
using cuda::norm::RunInOnePass;
using cuda::norm::SegmentsOf;

// Rows up to this width are a warp's, wider ones a block's.
constexpr int64_t kWarpWidth = 2048;
// Rows of one partial sum of parameter gradients, and the blocks that fill a
// chip.
constexpr int64_t kLeastRowsPerSum = 64, kBlocks = 1024;

// The threads that work on one row: a warp, or the whole block.
template <bool kBlock>
struct RowTeam {
  __device__ static int64_t Row() {
    if constexpr (kBlock) return blockIdx.x;
    return static_cast<int64_t>(blockIdx.x) * (kThreads / cuda::kWarp) +
           threadIdx.x / cuda::kWarp;
  }
  __device__ static int First() {
    return kBlock ? threadIdx.x : threadIdx.x % cuda::kWarp;
  }
  static constexpr int kStep = kBlock ? kThreads : cuda::kWarp;
  __device__ static float Sum(float x) {
    return kBlock ? cuda::BlockSum(x) : cuda::WarpSum(x);
  }
};

// This thread's share of a row, in packs where all rows that `run` reads or
// writes allow it.
template <typename T, bool kBlock, typename Run, typename... Rows>
__device__ void ForShare(int64_t width, const Run& run, const Rows*... rows) {
  using Team = RowTeam<kBlock>;
  cuda::ForPacks<cuda::kPack<T>>(Team::First(), Team::kStep, width, run,
                                 rows...);
}

template <typename T, bool kBlock>
__global__ void ForwardKernel(Params<T> p) {
  cuda::Begin();
  using Team = RowTeam<kBlock>;
  const int64_t row = Team::Row();
  if (row >= p.rows) return;  // a whole team at once
  const T* x = p.x + p.x_at.Begin(row);
  T* y = p.y + p.y_at.Begin(row);
  T* kept = p.Kept(row);
  const float n = static_cast<float>(p.width);
  float mean = 0, sum = 0, squares = 0;
  const auto add = [&](int64_t i, auto count) {
    float v[decltype(count)::value];
    cuda::Load(x + i, v);
#pragma unroll
    for (int j = 0; j < decltype(count)::value; ++j) sum += v[j];
  };
  if (p.layer) {
    ForShare<T, kBlock>(p.width, add, x);
    mean = Team::Sum(sum) / n;
  }
  const auto add_square = [&](int64_t i, auto count) {
    float v[decltype(count)::value];
    cuda::Load(x + i, v);
#pragma unroll
    for (int j = 0; j < decltype(count)::value; ++j) {
      squares += (v[j] - mean) * (v[j] - mean);
    }
  };
  ForShare<T, kBlock>(p.width, add_square, x);
  const float scale = 1.0f / sqrtf(Team::Sum(squares) / n + p.epsilon);
  const auto write = [&](int64_t i, auto count) {
    constexpr int kCount = decltype(count)::value;
    float v[kCount], weight[kCount], bias[kCount];
    cuda::Load(x + i, v);
    if (p.weight != nullptr) cuda::Load(p.weight + i, weight);
    if (p.bias != nullptr) cuda::Load(p.bias + i, bias);
    if (kept != nullptr) cuda::Store(v, kept + i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      v[j] = (v[j] - mean) * scale;
      if (p.weight != nullptr) v[j] *= weight[j];
      if (p.bias != nullptr) v[j] += bias[j];
    }
    cuda::Store(v, y + i);
  };
  ForShare<T, kBlock>(p.width, write, x, y, kept, p.weight, p.bias);
  if (Team::First() != 0) return;
  if (p.layer && p.mean != nullptr) p.mean[row] = mean;
  if (p.scale != nullptr) p.scale[row] = scale;
}

// dx = r · (dŷ − mean(dŷ) − x̂ · mean(dŷ · x̂)), dŷ = dy · w; the mean(dŷ)
// term belongs to kLayer only.
template <typename T, bool kBlock>
__global__ void BackwardKernel(Params<T> p) {
  cuda::Begin();
  using Team = RowTeam<kBlock>;
  const int64_t row = Team::Row();
  if (row >= p.rows) return;
  const T* x = p.x + p.x_at.Begin(row);
  const T* dy = p.dy + p.dy_at.Begin(row);
  T* dx = p.dx + p.dx_at.Begin(row);
  const T* added = p.Added(row);
  const float mean = p.layer ? p.mean[row] : 0.0f;
  const float scale = p.scale[row];
  // dŷ and x̂ from element i on.
  const auto load = [&](int64_t i, auto& inner, auto& unit) {
    constexpr int kCount =
        std::extent_v<std::remove_reference_t<decltype(unit)>>;
    cuda::Load(dy + i, inner);
    cuda::Load(x + i, unit);
    float weight[kCount];
    if (p.weight != nullptr) cuda::Load(p.weight + i, weight);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (p.weight != nullptr) inner[j] *= weight[j];
      unit[j] = (unit[j] - mean) * scale;
    }
  };
  float sum = 0, dot = 0;
  const auto add = [&](int64_t i, auto count) {
    constexpr int kCount = decltype(count)::value;
    float inner[kCount], unit[kCount];
    load(i, inner, unit);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      sum += inner[j];
      dot += inner[j] * unit[j];
    }
  };
  ForShare<T, kBlock>(p.width, add, x, dy, p.weight);
  const float n = static_cast<float>(p.width);
  const float mean_inner = p.layer ? Team::Sum(sum) / n : 0.0f;
  const float mean_dot = Team::Sum(dot) / n;
  const auto write = [&](int64_t i, auto count) {
    constexpr int kCount = decltype(count)::value;
    float inner[kCount], unit[kCount];
    load(i, inner, unit);
    float around[kCount] = {};
    if (added != nullptr) cuda::Load(added + i, around);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      inner[j] =
          around[j] + scale * (inner[j] - mean_inner - unit[j] * mean_dot);
    }
    cuda::Store(inner, dx + i);
  };
  ForShare<T, kBlock>(p.width, write, x, dy, dx, added, p.weight);
}

// sums [2, gridDim.y, width] = dweight and dbias of stretches of rows. A lane
// has kCount columns, and each warp of a block every eighth row of a stretch;
// the warps' sums are added in order. Before dx, which may be dy.
template <int kCount, typename T>
__global__ void ParameterKernel(Params<T> p, int64_t rows_per_sum,
                                float* sums) {
  constexpr int kWarps = kThreads / cuda::kWarp;
  constexpr int kColumns = cuda::kWarp * kCount;
  __shared__ float parts[kWarps][2][kColumns];
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns;
  const int64_t begin = blockIdx.y * rows_per_sum;
  const int64_t end = first + lane * kCount < p.width
                          ? min(begin + rows_per_sum, p.rows)
                          : begin;
  float dweight[kCount] = {}, dbias[kCount] = {};
  for (int64_t row = begin + warp; row < end; row += kWarps) {
    float dy[kCount], x[kCount];
    cuda::Load(p.dy + p.dy_at.Begin(row) + first + lane * kCount, dy);
    cuda::Load(p.x + p.x_at.Begin(row) + first + lane * kCount, x);
    const float mean = p.layer ? p.mean[row] : 0.0f, scale = p.scale[row];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      dweight[j] += dy[j] * (x[j] - mean) * scale;
      dbias[j] += dy[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    parts[warp][0][lane * kCount + j] = dweight[j];
    parts[warp][1][lane * kCount + j] = dbias[j];
  }
  __syncthreads();
  const int which = threadIdx.x / kColumns, column = threadIdx.x % kColumns;
  if (which >= 2 || first + column >= p.width) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += parts[w][which][column];
  const int64_t at = static_cast<int64_t>(which) * gridDim.y + blockIdx.y;
  sums[at * p.width + first + column] = sum;
}

template <typename T>
Params<T> ParamsOf(const NormCall& call) {
  const NormArgs& a = call.args;
  const NormSizes sizes = SizesOf(call);
  Params<T> p;
  p.layer = call.problem.kind == NormKind::kLayer;
  p.epsilon = call.problem.epsilon;
  p.rows = sizes.rows * sizes.segments;
  p.width = sizes.width;
  p.x = a.x.Raw<T>();
  p.x_at = SegmentsOf(a.x);
  p.weight = a.weight.Raw<float>();
  p.bias = a.bias.Raw<float>();
  p.mean = a.mean.Raw<float>();
  p.scale = a.scale.Raw<float>();
  if (call.grads == nullptr) {
    p.y = a.y.Raw<T>();
    p.y_at = SegmentsOf(a.y);
    p.kept = a.kept.Raw<T>();
    p.kept_at = SegmentsOf(a.kept);
  } else {
    p.dy = call.grads->dy.Raw<T>();
    p.dy_at = SegmentsOf(call.grads->dy);
    p.dx = call.grads->dx.Raw<T>();
    p.dx_at = SegmentsOf(call.grads->dx);
    p.added = call.grads->added.Raw<T>();
    p.added_at = SegmentsOf(call.grads->added);
  }
  return p;
}

template <typename T>
void LaunchRows(Context& context, const Params<T>& p, bool is_forward) {
  const bool block = p.width > kWarpWidth;
  const int64_t rows_per_block = block ? 1 : kThreads / cuda::kWarp;
  const auto kernel =
      is_forward ? (block ? ForwardKernel<T, true> : ForwardKernel<T, false>)
                 : (block ? BackwardKernel<T, true> : BackwardKernel<T, false>);
  cuda::LaunchEarly(context, is_forward ? "norm" : "norm backward", kernel,
                    dim3(cuda::CeilDiv(p.rows, rows_per_block)), kThreads, p);
}

template <int kCount, typename T>
void AddStretches(Context& context, const NormGrads& grads,
                  const Params<T>& p) {
  const int64_t columns = cuda::CeilDiv(p.width, cuda::kWarp * kCount);
  const int64_t most = std::clamp<int64_t>(kBlocks / columns, 32, kMostSums);
  const int64_t rows_per_sum =
      std::max(kLeastRowsPerSum, cuda::CeilDiv(p.rows, most));
  const int64_t count = cuda::CeilDiv(p.rows, rows_per_sum);
  const Temp sums(context, DType::kF32, {2, count, p.width});
  float* data = sums.view().Raw<float>();
  cuda::Launch(context, "norm parameters", ParameterKernel<kCount, T>,
               dim3(columns, count), kThreads, p, rows_per_sum, data);
  AddSums(context, data, count, p.width, grads);
}

template <typename T>
void AddParameterGradients(Context& context, const NormCall& call,
                           const Params<T>& p) {
  const NormGrads& grads = *call.grads;
  if (!grads.dweight && !grads.dbias) return;
  const bool in_pairs = p.width % 2 == 0 && cuda::HasPacks(call.args.x, 2) &&
                        cuda::HasPacks(grads.dy, 2);
  in_pairs ? AddStretches<2>(context, grads, p)
           : AddStretches<1>(context, grads, p);
}

Reason WhyNot(const NormCall& call) {
  return cuda::WhyNotFloats({call.args.x});
}

void Run(Context& context, const NormCall& call) {
  cuda::WithFloatType(call.args.x.type, [&](auto element) {
    const auto p = ParamsOf<decltype(element)>(call);
    if (p.rows == 0 || p.width == 0) return;
    if (call.grads != nullptr) {
      if (RunInOnePass(context, call, p)) return;
      AddParameterGradients(context, call, p);
    } else if (RunHeldForward(context, call, p) ||
               (p.width > kWarpWidth && RunBlockForward(context, call, p))) {
      return;
    }
    LaunchRows(context, p, call.grads == nullptr);
  });
}

}  // namespace

const Implementation<NormCall> kNormCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
