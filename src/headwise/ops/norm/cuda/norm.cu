// cuda: a warp or a block a row, sums in f32; parameter gradients as partial
// sums of blocks of rows that are then added in order. Door:
// ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/norm/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
// Rows up to this width are a warp's, wider ones a block's.
constexpr int64_t kWarpWidth = 2048;
// Rows of one partial sum of parameter gradients, and the most such sums.
constexpr int64_t kLeastRowsPerSum = 32, kMostSums = 256;

// Where segments of a view such as x begin.
struct Segments {
  int64_t per_row = 1;
  int64_t row_stride = 0;
  int64_t segment_stride = 0;

  __device__ int64_t Begin(int64_t row) const {
    return row / per_row * row_stride + row % per_row * segment_stride;
  }
};
template <typename Void>
Segments SegmentsOf(const BasicView<Void>& view) {
  return {view.rank == 3 ? view.shape[1] : 1, view.stride[0],
          view.rank == 3 ? view.stride[1] : 0};
}

// Shared by all kernels; a null pointer is not given.
template <typename T>
struct Params {
  bool layer = false;
  float epsilon = 0;
  int64_t rows = 0, width = 0;
  const T* x = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  T* y = nullptr;
  float *mean = nullptr, *scale = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;
  Segments x_at, y_at, dy_at, dx_at;
};

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

template <typename T, bool kBlock>
__global__ void ForwardKernel(Params<T> p) {
  using Team = RowTeam<kBlock>;
  const int64_t row = Team::Row();
  if (row >= p.rows) return;  // a whole team at once
  const T* x = p.x + p.x_at.Begin(row);
  const float n = static_cast<float>(p.width);
  float mean = 0;
  if (p.layer) {
    float sum = 0;
    for (int64_t i = Team::First(); i < p.width; i += Team::kStep) {
      sum += cuda::ToFloat(x[i]);
    }
    mean = Team::Sum(sum) / n;
  }
  float squares = 0;
  for (int64_t i = Team::First(); i < p.width; i += Team::kStep) {
    const float c = cuda::ToFloat(x[i]) - mean;
    squares += c * c;
  }
  const float scale = 1.0f / sqrtf(Team::Sum(squares) / n + p.epsilon);
  T* y = p.y + p.y_at.Begin(row);
  for (int64_t i = Team::First(); i < p.width; i += Team::kStep) {
    float value = (cuda::ToFloat(x[i]) - mean) * scale;
    if (p.weight != nullptr) value *= p.weight[i];
    if (p.bias != nullptr) value += p.bias[i];
    y[i] = cuda::FromFloat<T>(value);
  }
  if (Team::First() != 0) return;
  if (p.layer && p.mean != nullptr) p.mean[row] = mean;
  if (p.scale != nullptr) p.scale[row] = scale;
}

// dx = r · (dŷ − mean(dŷ) − x̂ · mean(dŷ · x̂)), dŷ = dy · w; the mean(dŷ)
// term belongs to kLayer only.
template <typename T, bool kBlock>
__global__ void BackwardKernel(Params<T> p) {
  using Team = RowTeam<kBlock>;
  const int64_t row = Team::Row();
  if (row >= p.rows) return;
  const T* x = p.x + p.x_at.Begin(row);
  const T* dy = p.dy + p.dy_at.Begin(row);
  const float mean = p.layer ? p.mean[row] : 0.0f;
  const float scale = p.scale[row];
  const auto inner = [&](int64_t i) {
    const float v = cuda::ToFloat(dy[i]);
    return p.weight != nullptr ? v * p.weight[i] : v;
  };
  const auto unit = [&](int64_t i) {
    return (cuda::ToFloat(x[i]) - mean) * scale;
  };
  float sum = 0, dot = 0;
  for (int64_t i = Team::First(); i < p.width; i += Team::kStep) {
    sum += inner(i);
    dot += inner(i) * unit(i);
  }
  const float n = static_cast<float>(p.width);
  const float mean_inner = p.layer ? Team::Sum(sum) / n : 0.0f;
  const float mean_dot = Team::Sum(dot) / n;
  T* dx = p.dx + p.dx_at.Begin(row);
  for (int64_t i = Team::First(); i < p.width; i += Team::kStep) {
    dx[i] = cuda::FromFloat<T>(scale *
                               (inner(i) - mean_inner - unit(i) * mean_dot));
  }
}

// sums [2, gridDim.y, width] = dweight and dbias of blocks of rows. Before dx,
// which may be dy.
template <typename T>
__global__ void ParameterKernel(Params<T> p, int64_t rows_per_sum,
                                float* sums) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.width) return;
  const int64_t begin = blockIdx.y * rows_per_sum;
  const int64_t end = min(begin + rows_per_sum, p.rows);
  float dweight = 0, dbias = 0;
  for (int64_t row = begin; row < end; ++row) {
    const float dy = cuda::ToFloat(p.dy[p.dy_at.Begin(row) + i]);
    const float x = cuda::ToFloat(p.x[p.x_at.Begin(row) + i]);
    dweight += dy * (x - (p.layer ? p.mean[row] : 0.0f)) * p.scale[row];
    dbias += dy;
  }
  sums[blockIdx.y * p.width + i] = dweight;
  sums[(gridDim.y + blockIdx.y) * p.width + i] = dbias;
}

__global__ void AddSumsKernel(const float* sums, int64_t count, int64_t width,
                              float* dweight, float* dbias) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= width) return;
  float weight = 0, bias = 0;
  for (int64_t n = 0; n < count; ++n) {
    weight += sums[n * width + i];
    bias += sums[(count + n) * width + i];
  }
  if (dweight != nullptr) dweight[i] += weight;
  if (dbias != nullptr) dbias[i] += bias;
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
  p.x = a.x.As<T>();
  p.x_at = SegmentsOf(a.x);
  p.weight = a.weight.As<float>();
  p.bias = a.bias.As<float>();
  p.mean = a.mean.As<float>();
  p.scale = a.scale.As<float>();
  if (call.grads == nullptr) {
    p.y = a.y.As<T>();
    p.y_at = SegmentsOf(a.y);
  } else {
    p.dy = call.grads->dy.As<T>();
    p.dy_at = SegmentsOf(call.grads->dy);
    p.dx = call.grads->dx.As<T>();
    p.dx_at = SegmentsOf(call.grads->dx);
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
  cuda::Launch(context, is_forward ? "norm" : "norm backward", kernel,
               dim3(cuda::CeilDiv(p.rows, rows_per_block)), kThreads, p);
}

template <typename T>
void AddParameterGradients(Context& context, const NormGrads& grads,
                           const Params<T>& p) {
  const int64_t rows_per_sum =
      std::max(kLeastRowsPerSum, cuda::CeilDiv(p.rows, kMostSums));
  const int64_t count = cuda::CeilDiv(p.rows, rows_per_sum);
  const Temp sums(context, DType::kF32, {2, count, p.width});
  float* data = sums.view().As<float>();
  const unsigned columns = cuda::CeilDiv(p.width, kThreads);
  cuda::Launch(context, "norm parameters", ParameterKernel<T>,
               dim3(columns, count), kThreads, p, rows_per_sum, data);
  cuda::Launch(context, "norm parameters", AddSumsKernel, dim3(columns),
               kThreads, data, count, p.width, grads.dweight.As<float>(),
               grads.dbias.As<float>());
}

Reason WhyNot(const NormCall& call) {
  return cuda::WhyNotFloats({call.args.x});
}

void Run(Context& context, const NormCall& call) {
  cuda::WithFloatType(call.args.x.type, [&](auto element) {
    const auto p = ParamsOf<decltype(element)>(call);
    if (p.rows == 0 || p.width == 0) return;
    if (call.grads != nullptr && (call.grads->dweight || call.grads->dbias)) {
      AddParameterGradients(context, *call.grads, p);
    }
    LaunchRows(context, p, call.grads == nullptr);
  });
}

}  // namespace

const Implementation<NormCall> kNormCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
