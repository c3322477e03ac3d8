// cuda.rows: up to eight rows with lines of weights [n, k], at the speed of
// memory: each warp reads four lines 16 bytes a lane at a time, once, and all
// rows use them. Sums in f32 in one order. Door: ../implementation.h.
#include <algorithm>

#include "headwise/ops/activation/cuda/point.cuh"
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/matmul/cuda/weights.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr int kMostRows = 8;
constexpr int kMostParts = 4;  // of one launch
constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;
constexpr int kLines = 4;  // of a warp
// So many warps have enough bytes on the way; several then share the lines.
constexpr int64_t kWantedWarps = 16384;

// Parts of B side by side; those that are not there end where they begin.
template <typename T>
struct Parts {
  const T* data[kMostParts] = {};
  int64_t stride[kMostParts] = {};
  int64_t end[kMostParts] = {};  // columns of C up to here

  __device__ const T* Line(int64_t n) const {
    int64_t begin = 0;
    const T* line = data[0];
#pragma unroll
    for (int i = 0; i < kMostParts; ++i) {
      if (n >= begin && n < end[i]) line = data[i] + (n - begin) * stride[i];
      begin = end[i];
    }
    return line;
  }
};

// f32 or T.
struct Numbers {
  void* data = nullptr;
  bool f32 = true;

  template <typename T>
  __device__ float Load(int64_t at) const {
    return f32 ? static_cast<const float*>(data)[at]
               : cuda::ToFloat(static_cast<const T*>(data)[at]);
  }
  template <typename T>
  __device__ void Store(int64_t at, float value) const {
    if (f32) {
      static_cast<float*>(data)[at] = value;
    } else {
      static_cast<T*>(data)[at] = cuda::FromFloat<T>(value);
    }
  }
};

// What is done to a sum before it is stored.
enum class Finish : uint8_t { kNone, kGelu, kGate };

template <typename T>
struct Params {
  int m = 0;
  int64_t n = 0, k = 0;  // n: columns of C
  int split = 1;         // warps that share the depth of four lines
  Finish finish = Finish::kNone;
  const T* a = nullptr;
  int64_t a_stride = 0;
  Parts<T> b;
  Numbers bias, c, inner;
  int64_t c_stride = 0, inner_stride = 0;
  bool add = false;
  bool fixed = false;  // B does not change: it is read before others are done

  // Lines that make one number of C: a gate's lie n behind each other.
  __host__ __device__ int each() const {
    return finish == Finish::kGate ? 2 : 1;
  }
};

// 16 bytes as floats.
template <typename T>
__device__ inline void Unpack(const uint4& raw, float (&to)[16 / sizeof(T)]) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      to[i] = __uint_as_float(words[i]);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    } else {
      to[2 * i] = __half2float(
          __ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffu)));
      to[2 * i + 1] = __half2float(
          __ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
    }
  }
}

// sum += 16 bytes of each line times those of each row.
template <typename T, int kRows>
__device__ inline void AddChunk(const Params<T>& p, int64_t item,
                                const uint4 (&raw)[kLines],
                                float (&sum)[kRows][kLines]) {
  constexpr int kItems = 16 / sizeof(T);
  float w[kLines][kItems];
#pragma unroll
  for (int l = 0; l < kLines; ++l) Unpack<T>(raw[l], w[l]);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = min(r, p.m - 1);
    float x[kItems];
    Unpack<T>(*reinterpret_cast<const uint4*>(p.a + row * p.a_stride + item),
              x);
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        sum[r][l] = fmaf(x[i], w[l][i], sum[r][l]);
      }
    }
  }
}

// A number of C of its sums: z, or z and what it gates.
template <typename T>
__device__ inline float Finished(const Params<T>& p, int row, int64_t column,
                                 float value, float up) {
  if (p.bias.data != nullptr) value += p.bias.template Load<T>(column);
  if (p.finish == Finish::kGate) {
    if (p.bias.data != nullptr) up += p.bias.template Load<T>(p.n + column);
    return cuda::ActivationAt<Activation::kSilu>(value).value * up;
  }
  if (p.finish == Finish::kGelu) {
    if (p.inner.data != nullptr) {
      p.inner.template Store<T>(row * p.inner_stride + column, value);
    }
    return cuda::ActivationAt<Activation::kGeluTanh>(value).value;
  }
  return value;
}

// One row: four blocks on a multiprocessor. Warps of short lines load once and
// are done, so that at any time half of the blocks have nothing on the way.
template <typename T, int kRows>
__global__ void __launch_bounds__(kThreads, kRows == 1 ? 4 : 2)
    RowsKernel(const Params<T> p) {
  constexpr int kItems = 16 / sizeof(T);
  constexpr int kSteps = kRows <= 2 ? 2 : 1;  // loads of a line on the way
  __shared__ float shared[kWarps][kRows][kLines];
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
  const int groups = kWarps / p.split;
  const int share = warp % p.split;
  const int each = p.each(), results = kLines / each;  // of a warp
  const int64_t block = static_cast<int64_t>(blockIdx.x) * groups * results;
  const int64_t first = block + warp / p.split * results;
  const T* lines[kLines];
#pragma unroll
  for (int l = 0; l < kLines; ++l) {
    const int64_t column = min(first + l / each, p.n - 1);
    lines[l] = p.b.Line(column + l % each * p.n);
  }
  float sum[kRows][kLines] = {};
  const int chunks = static_cast<int>(p.k / kItems);
  const int step = p.split * cuda::kWarp;
  uint4 raw[kSteps][kLines];
  const auto load = [&](int at) {
    if (at >= chunks) return;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      // Past the end the last chunk again, which is not used.
      const int chunk = min(at + s * step, chunks - 1);
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        raw[s][l] = cuda::LoadOnce(lines[l] + int64_t{chunk} * kItems);
      }
    }
  };
  int at = share * cuda::kWarp + lane;
  cuda::LetNextBegin();
  if (!p.fixed) cuda::WaitForLast();
  load(at);
  cuda::WaitForLast();
  for (; at < chunks; at += kSteps * step) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int chunk = at + s * step;
      if (chunk >= chunks) continue;
      AddChunk<T, kRows>(p, int64_t{chunk} * kItems, raw[s], sum);
    }
    load(at + kSteps * step);
  }
  const int64_t rest = int64_t{chunks} * kItems + lane;
  if (share == 0 && rest < p.k) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float x = cuda::ToFloat(p.a[min(r, p.m - 1) * p.a_stride + rest]);
#pragma unroll
      for (int l = 0; l < kLines; ++l) {
        sum[r][l] = fmaf(x, cuda::ToFloat(lines[l][rest]), sum[r][l]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int l = 0; l < kLines; ++l) {
      const float total = cuda::WarpSum(sum[r][l]);
      if (lane == 0) shared[warp][r][l] = total;
    }
  }
  __syncthreads();
  // A thread a result: the shares in order, then the bias, then C.
  const int result = threadIdx.x % (groups * results);
  const int row = threadIdx.x / (groups * results);
  const int64_t column = block + result;
  if (row >= p.m || column >= p.n) return;
  const int line = result % results * each;
  float sum_of[2] = {};
  for (int s = 0; s < p.split; ++s) {
    const auto& lines_of = shared[result / results * p.split + s][row];
    sum_of[0] += lines_of[line];
    sum_of[1] += lines_of[line + each - 1];
  }
  float value = Finished(p, row, column, sum_of[0], sum_of[1]);
  const int64_t place = row * p.c_stride + column;
  if (p.add) value += p.c.template Load<T>(place);
  p.c.template Store<T>(place, value);
}

// By the lines and k alone, so that results repeat.
int SplitFor(int64_t lines, int64_t chunks) {
  int split = 1;
  while (split < kWarps &&
         cuda::CeilDiv(lines, kLines) * split < kWantedWarps &&
         chunks >= 2 * split * cuda::kWarp) {
    split *= 2;
  }
  return split;
}

template <typename T>
void Launch(Context& context, Params<T> p) {
  p.split =
      SplitFor(p.n * p.each(), p.k / (16 / static_cast<int64_t>(sizeof(T))));
  const auto kernel = p.m <= 1   ? RowsKernel<T, 1>
                      : p.m <= 2 ? RowsKernel<T, 2>
                      : p.m <= 4 ? RowsKernel<T, 4>
                                 : RowsKernel<T, 8>;
  const int64_t of_block = kWarps / p.split * (kLines / p.each());
  cuda::LaunchEarly(context, "matmul of few rows", kernel,
                    dim3(cuda::CeilDiv(p.n, of_block)), kThreads, p);
}

Finish FinishOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kGeluTanh:
      return Finish::kGelu;
    case Epilogue::kSiluGated:
      return Finish::kGate;
    default:
      return Finish::kNone;
  }
}

// A as rows along k.
ConstTensorView RowsOf(const MatmulCall& call) {
  return call.problem.a == Operand::kPlain ? call.args.a
                                           : Transposed(call.args.a, 0, 1);
}

Reason WhyNot(const MatmulCall& call) {
  const auto& [problem, args] = call;
  if (!args.c.device.is_cuda()) return "runs on CUDA only";
  if (const Reason why = WhyNotPrecision(problem.precision, args.a.type);
      !why.empty()) {
    return why;
  }
  if (problem.epilogue == Epilogue::kGeluTanhBackward) {
    return "has no backward epilogue";
  }
  if (problem.m > kMostRows) return "takes at most eight rows";
  if (problem.k == 0) return "needs something to multiply";
  if (problem.k >= int64_t{1} << 31) return "counts chunks of k in 32 bits";
  if (OperandOnDevice(call) != Operand::kTransposed) {
    return "takes weights as [n, k] only";
  }
  if (problem.epilogue == Epilogue::kSiluGated &&
      PartsOf(args).size() > kMostParts) {
    return "takes gates of at most four parts";
  }
  const ConstTensorView rows = RowsOf(call);
  if (rows.stride[1] != 1 || !HasAlignedLines(rows)) {
    return "reads 16 bytes of A at a time";
  }
  if (args.weights != nullptr) return "";
  for (const ConstTensorView& part : PartsOf(args)) {
    if (part.type != args.a.type) return "takes weights of A's type only";
    if (part.stride[1] != 1 || !HasAlignedLines(part)) {
      return "reads 16 bytes of B at a time";
    }
  }
  return "";
}

template <typename T>
void RunAs(Context& context, const MatmulCall& call) {
  const auto& [problem, args] = call;
  const ConstTensorView rows = RowsOf(call);
  Params<T> p;
  p.m = static_cast<int>(problem.m);
  p.k = problem.k;
  p.a = rows.Raw<T>();
  p.a_stride = rows.stride[0];
  p.c_stride = args.c.stride[0];
  p.add = problem.store == Store::kAccumulate;
  // Recorded work was done before: what its weights are made of is there.
  p.fixed = args.weights != nullptr && CudaOf(context).recording();
  const auto parts = args.weights != nullptr
                         ? WeightsOnDevice(context, *args.weights, args.a.type)
                         : PartsOf(args);
  p.finish = FinishOf(problem.epilogue);
  int64_t begin = 0;
  for (size_t first = 0; first < parts.size(); first += kMostParts) {
    p.b = {};
    int64_t lines = 0;
    for (size_t i = 0; i < kMostParts; ++i) {
      if (first + i < parts.size()) {
        const ConstTensorView& part = parts[first + i];
        p.b.data[i] = part.Raw<T>();
        p.b.stride[i] = part.stride[0];
        lines += part.shape[0];
      }
      p.b.end[i] = lines;
    }
    if (lines == 0) continue;
    p.n = lines / p.each();
    const TensorView c = Columns(args.c, begin, begin + p.n);
    p.c = {c.data, c.type == DType::kF32};
    const ConstTensorView bias = Slice(args.bias, 0, begin, begin + lines);
    p.bias = {const_cast<void*>(bias.data), bias.type == DType::kF32};
    if (args.inner) {
      const TensorView inner = Columns(args.inner, begin, begin + p.n);
      p.inner = {inner.data, inner.type == DType::kF32};
      p.inner_stride = inner.stride[0];
    }
    Launch(context, p);
    begin += p.n;
  }
}

void Run(Context& context, const MatmulCall& call) {
  cuda::WithFloatType(call.args.a.type, [&](auto element) {
    RunAs<decltype(element)>(context, call);
  });
}

}  // namespace

const Implementation<MatmulCall> kMatmulCudaRows = {
    .name = "cuda.rows", .why_not = WhyNot, .run = Run};

}  // namespace headwise
