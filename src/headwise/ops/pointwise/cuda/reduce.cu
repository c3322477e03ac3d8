// cuda.reduce: sums in f64 over blocks of rows or elements, which a second
// kernel adds in order; marks. Door: ../implementation.h.
#include <algorithm>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/strided.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/ops/pointwise/implementation.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
// A block of column sums: so many columns beside each other, and threads down.
constexpr int kColumns = 32, kDown = kThreads / kColumns;
constexpr int64_t kLeastRowsPerSum = 128, kMostSums = 256;
// Of squares and marks: how many blocks share a view.
constexpr int64_t kMostBlocks = 1024, kLeastPerBlock = 4096;

// sums [gridDim.y, columns] = Σ over blocks of rows.
template <typename T, typename Index>
__global__ void ColumnSumKernel(const T* x, cuda::Axes<1> rows, Index row_count,
                                int64_t column_step, int64_t columns,
                                int64_t rows_per_sum, double* sums) {
  __shared__ double shared[kDown][kColumns];
  const int beside = threadIdx.x % kColumns, down = threadIdx.x / kColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + beside;
  const int64_t begin = blockIdx.y * rows_per_sum;
  const int64_t end =
      min(begin + rows_per_sum, static_cast<int64_t>(row_count));
  double sum = 0;
  for (int64_t row = begin + down; row < end && column < columns;
       row += kDown) {
    int64_t places[1];
    cuda::Locate(rows, static_cast<Index>(row), places);
    sum += cuda::ToFloat(x[places[0] + column * column_step]);
  }
  shared[down][beside] = sum;
  __syncthreads();
  if (down != 0 || column >= columns) return;
  for (int i = 1; i < kDown; ++i) sum += shared[i][beside];
  sums[blockIdx.y * columns + column] = sum;
}

// The same for rows that lie together, kN columns a lane: a block has 32 · kN
// of them, and each of its warps every eighth row.
template <int kN, typename T, typename Index>
__global__ void PackedColumnSumKernel(const T* x, cuda::Axes<1> rows,
                                      Index row_count, int64_t columns,
                                      int64_t rows_per_sum, double* sums) {
  __shared__ double shared[kDown][kN][kColumns];
  const int lane = threadIdx.x % kColumns, warp = threadIdx.x / kColumns;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns * kN;
  const int64_t column = first + lane * kN;
  const int64_t begin = blockIdx.y * rows_per_sum;
  const int64_t end =
      min(begin + rows_per_sum, static_cast<int64_t>(row_count));
  double sum[kN] = {};
  if (column < columns) {
#pragma unroll 4
    for (int64_t row = begin + warp; row < end; row += kDown) {
      int64_t places[1];
      cuda::Locate(rows, static_cast<Index>(row), places);
      float v[kN];
      cuda::Load(x + places[0] + column, v);
#pragma unroll
      for (int j = 0; j < kN; ++j) sum[j] += v[j];
    }
  }
#pragma unroll
  for (int j = 0; j < kN; ++j) shared[warp][j][lane] = sum[j];
  __syncthreads();
  for (int i = threadIdx.x; i < kColumns * kN; i += kThreads) {
    const int j = i % kN, of = i / kN;
    if (first + i >= columns) continue;
    double total = shared[0][j][of];
    for (int w = 1; w < kDown; ++w) total += shared[w][j][of];
    sums[blockIdx.y * columns + first + i] = total;
  }
}

// sums [count, columns] in one order, to the result.
__global__ void AddColumnsKernel(const double* sums, int64_t count,
                                 int64_t columns, float* to) {
  __shared__ double shared[kDown][kColumns];
  const int beside = threadIdx.x % kColumns, down = threadIdx.x / kColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + beside;
  double sum = 0;
#pragma unroll 8
  for (int64_t i = down; i < count; i += kDown) {
    sum += column < columns ? sums[i * columns + column] : 0.0;
  }
  shared[down][beside] = sum;
  __syncthreads();
  if (down != 0 || column >= columns) return;
  for (int i = 1; i < kDown; ++i) sum += shared[i][beside];
  to[column] += static_cast<float>(sum);
}

template <typename T>
void ColumnSums(Context& context, const PointwiseCall& call) {
  constexpr int kN = cuda::kPack<T>;
  const ConstTensorView& x = call.a;
  const int last = x.rank - 1;
  const int64_t columns = x.shape[last];
  const cuda::Axes<1> axes = cuda::AxesOf<1>({At(x, last, 0)});
  const int64_t rows = axes.size();
  const int64_t rows_per_sum =
      std::max(kLeastRowsPerSum, cuda::CeilDiv(rows, kMostSums));
  const int64_t count = cuda::CeilDiv(rows, rows_per_sum);
  const Temp sums(context, DType::kF64, {count, columns});
  double* data = sums.view().Raw<double>();
  const bool packed =
      columns % kN == 0 && x.stride[last] == 1 && cuda::HasPacks(x, kN);
  cuda::WithIndex(rows, [&](auto index) {
    using Index = decltype(index);
    if (packed) {
      cuda::Launch(context, "column sums", PackedColumnSumKernel<kN, T, Index>,
                   dim3(cuda::CeilDiv(columns, kColumns * kN), count), kThreads,
                   x.Raw<T>(), axes, static_cast<Index>(rows), columns,
                   rows_per_sum, data);
      return;
    }
    cuda::Launch(context, "column sums", ColumnSumKernel<T, Index>,
                 dim3(cuda::CeilDiv(columns, kColumns), count), kThreads,
                 x.Raw<T>(), axes, static_cast<Index>(rows), x.stride[last],
                 columns, rows_per_sum, data);
  });
  cuda::Launch(context, "column sums", AddColumnsKernel,
               dim3(cuda::CeilDiv(columns, kColumns)), kThreads, data, count,
               columns, call.y.Raw<float>());
}

// run(value) for every element of this block's share.
template <typename T, int kItems, typename Index, typename Run>
__device__ void ForShare(const T* x, const cuda::Axes<1>& axes, Index count,
                         int64_t per_block, const Run& run) {
  const int64_t begin = blockIdx.x * per_block;
  const int64_t end = min(begin + per_block, static_cast<int64_t>(count));
  for (int64_t n = begin + threadIdx.x; n < end; n += kThreads) {
    int64_t places[1];
    cuda::Locate(axes, static_cast<Index>(n), places);
    const auto pack =
        *reinterpret_cast<const cuda::Pack<T, kItems>*>(x + places[0]);
#pragma unroll
    for (int i = 0; i < kItems; ++i) run(cuda::ToFloat(pack.at[i]));
  }
}

// sums [gridDim.x]
template <typename T, int kItems, typename Index>
__global__ void SquaresKernel(const T* x, cuda::Axes<1> axes, Index count,
                              int64_t per_block, double* sums) {
  double sum = 0;
  ForShare<T, kItems>(x, axes, count, per_block, [&](float value) {
    sum = fma(static_cast<double>(value), static_cast<double>(value), sum);
  });
  sum = cuda::BlockSum64(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// One block: shares in order, thread by thread.
__global__ void AddSquaresKernel(const double* sums, int64_t count,
                                 double* to) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = cuda::BlockSum64(sum);
  if (threadIdx.x == 0) *to += sum;
}

// Whoever finds one writes the same.
template <typename T, int kItems, typename Index>
__global__ void MarkKernel(const T* x, cuda::Axes<1> axes, Index count,
                           int64_t per_block, float limit, int32_t* mark) {
  bool beyond = false;
  ForShare<T, kItems>(x, axes, count, per_block, [&](float value) {
    beyond = beyond || !(fabsf(value) <= limit);
  });
  if (beyond) *mark = 1;
}

template <typename T>
void SquaresOrMark(Context& context, const PointwiseCall& call) {
  constexpr int kItems = 16 / sizeof(T);
  cuda::Axes<1> axes = cuda::AxesOf<1>({call.a});
  const bool wide = cuda::Widen<1>(axes, {call.a}, kItems);
  const int64_t count = axes.size();
  const int64_t per_block = std::max(kLeastPerBlock / (wide ? kItems : 1),
                                     cuda::CeilDiv(count, kMostBlocks));
  const int64_t blocks = cuda::CeilDiv(count, per_block);
  const bool squares = call.kind == PointwiseKind::kSumOfSquares;
  Temp sums;
  if (squares) sums = Temp(context, DType::kF64, {blocks});
  cuda::WithIndex(count, [&](auto index) {
    using Index = decltype(index);
    const Index all = static_cast<Index>(count);
    if (squares) {
      cuda::Launch(
          context, "sum of squares",
          wide ? SquaresKernel<T, kItems, Index> : SquaresKernel<T, 1, Index>,
          dim3(blocks), kThreads, call.a.Raw<T>(), axes, all, per_block,
          sums.view().Raw<double>());
    } else {
      cuda::Launch(
          context, "mark",
          wide ? MarkKernel<T, kItems, Index> : MarkKernel<T, 1, Index>,
          dim3(blocks), kThreads, call.a.Raw<T>(), axes, all, per_block,
          call.factor, call.y.Raw<int32_t>());
    }
  });
  if (!squares) return;
  cuda::Launch(context, "sum of squares", AddSquaresKernel, dim3(1), kThreads,
               sums.view().Raw<double>(), blocks, call.y.Raw<double>());
}

Reason WhyNot(const PointwiseCall& call) {
  if (!Reduces(call)) return "knows sums only";
  return cuda::WhyNotFloats({call.a});
}

void Run(Context& context, const PointwiseCall& call) {
  cuda::WithFloatType(call.a.type, [&](auto element) {
    using T = decltype(element);
    call.kind == PointwiseKind::kColumnSums ? ColumnSums<T>(context, call)
                                            : SquaresOrMark<T>(context, call);
  });
}

}  // namespace

const Implementation<PointwiseCall> kPointwiseCudaReduce = {
    .name = "cuda.reduce", .why_not = WhyNot, .run = Run};

}  // namespace headwise
