// cuda: every copy but those of one run of memory, which the device's own
// copies do. Elements of one type move as words of up to 16 bytes; what crosses
// to the host is made dense, and cast, on the device. Door:
// ../implementation.h.
#include <bit>
#include <cstring>

#include "headwise/ops/copy/cuda/cast.cuh"
#include "headwise/ops/copy/implementation.h"
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/strided.cuh"
#include "headwise/ops/cuda/why_not.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/walk.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
constexpr int kCastItems = 8;  // of a thread

// Rows that are chosen by numbers, of `size` elements each. Steps are in the
// units of the axes.
struct ChosenRows {
  CopyKind kind = CopyKind::kCopy;  // kCopy: all is one row
  const int32_t* index = nullptr;
  int64_t count = 1;
  int64_t size = 0;
  int64_t each = 1;      // kAppend: rows of a sequence
  int64_t capacity = 0;  // kAppend
  int64_t from[2] = {}, to[2] = {};
};

struct Params {
  const void* from = nullptr;
  void* to = nullptr;
  cuda::Axes<2> axes;  // of a row
  ChosenRows rows;
};

// Where element n comes from and goes to; false: nowhere.
template <typename Index>
__device__ bool Find(const Params& p, Index n, int64_t (&places)[2]) {
  if (p.rows.kind == CopyKind::kCopy) {
    cuda::Locate(p.axes, n, places);
    return true;
  }
  const Index size = static_cast<Index>(p.rows.size);
  const Index row = n / size;
  cuda::Locate(p.axes, n - row * size, places);
  if (p.rows.kind == CopyKind::kAppend) {
    const Index each = static_cast<Index>(p.rows.each);
    const Index sequence = row / each, i = row - sequence * each;
    const int64_t at = static_cast<int64_t>(p.rows.index[sequence]) + i;
    if (at < 0 || at >= p.rows.capacity) return false;
    places[0] += sequence * p.rows.from[0] + i * p.rows.from[1];
    places[1] += sequence * p.rows.to[0] + at * p.rows.to[1];
    return true;
  }
  const int64_t chosen = p.rows.index[row];
  const bool gather = p.rows.kind == CopyKind::kGather;
  places[0] += (gather ? chosen : static_cast<int64_t>(row)) * p.rows.from[0];
  places[1] += (gather ? static_cast<int64_t>(row) : chosen) * p.rows.to[0];
  return true;
}

// This thread's word. Steps are in bytes.
template <typename Word, typename Index>
__device__ inline void MoveWord(const Params& p, Index count) {
  const Index n = cuda::ThreadIndex<Index>();
  int64_t places[2];
  if (n >= count || !Find(p, n, places)) return;
  *reinterpret_cast<Word*>(static_cast<char*>(p.to) + places[1]) =
      *reinterpret_cast<const Word*>(static_cast<const char*>(p.from) +
                                     places[0]);
}

template <typename Word, typename Index>
__global__ void MoveKernel(Params p, Index count) {
  cuda::Begin();
  MoveWord<Word>(p, count);
}

// Two appends side by side, one an index of the grid's second axis.
template <typename Word, typename Index>
__global__ void MoveBothKernel(Params one, Params other, Index count,
                               Index other_count) {
  cuda::Begin();
  if (blockIdx.y == 0) {
    MoveWord<Word>(one, count);
  } else {
    MoveWord<Word>(other, other_count);
  }
}

template <typename From, typename To, int kItems, typename Index>
__global__ void CastKernel(Params p, Index count) {
  cuda::Begin();
  const Index n = cuda::ThreadIndex<Index>();
  int64_t places[2];
  if (n >= count || !Find(p, n, places)) return;
  const auto in = *reinterpret_cast<const cuda::Pack<From, kItems>*>(
      static_cast<const From*>(p.from) + places[0]);
  cuda::Pack<To, kItems> out;
#pragma unroll
  for (int i = 0; i < kItems; ++i) {
    out.at[i] = cuda::FromFloat<To>(cuda::ToFloat(in.at[i]));
  }
  *reinterpret_cast<cuda::Pack<To, kItems>*>(static_cast<To*>(p.to) +
                                             places[1]) = out;
}

template <typename Index>
__global__ void CastAnyKernel(Params p, DType from, DType to, Index count) {
  cuda::Begin();
  const Index n = cuda::ThreadIndex<Index>();
  int64_t places[2];
  if (n >= count || !Find(p, n, places)) return;
  if (IsFloatType(to)) {
    StoreDouble(p.to, to, places[1], LoadDouble(p.from, from, places[0]));
  } else {
    StoreInteger(p.to, to, places[1], LoadInteger(p.from, from, places[0]));
  }
}

template <typename Word, typename Index>
__global__ void FillKernel(char* to, cuda::Axes<1> axes, Word word,
                           Index count) {
  cuda::Begin();
  const Index n = cuda::ThreadIndex<Index>();
  if (n >= count) return;
  int64_t places[1];
  cuda::Locate(axes, n, places);
  *reinterpret_cast<Word*>(to + places[0]) = word;
}

// run(Word{}) with a word of so many bytes.
template <typename Run>
void WithWord(int64_t bytes, const Run& run) {
  switch (bytes) {
    case 16:
      return run(uint4{});
    case 8:
      return run(uint64_t{});
    case 4:
      return run(uint32_t{});
    case 2:
      return run(uint16_t{});
    default:
      return run(uint8_t{});
  }
}

template <int kViews>
void StepsToBytes(cuda::Axes<kViews>& axes, int64_t size) {
  for (auto& steps : axes.step) {
    for (int64_t& step : steps) step *= size;
  }
}

template <typename Kernel, typename... Rest>
void LaunchOver(Context& context, Kernel kernel, int64_t count,
                const Rest&... rest) {
  cuda::LaunchEarly(context, "copy", kernel,
                    dim3(cuda::CeilDiv(count, kThreads)), kThreads, rest...);
}

// Whether vectors of `bytes` may also begin where rows begin.
bool RowsAllow(const ChosenRows& rows, int64_t size, int64_t bytes) {
  for (const auto& steps : {rows.from, rows.to}) {
    if (steps[0] * size % bytes != 0 || steps[1] * size % bytes != 0) {
      return false;
    }
  }
  return true;
}

Params ParamsOf(const CopyCall& call) {
  Params p;
  p.from = call.from.data;
  p.to = call.to.data;
  const int outer = call.kind == CopyKind::kCopy     ? 0
                    : call.kind == CopyKind::kAppend ? 2
                                                     : 1;
  p.axes = cuda::AxesOf<2>({call.from, call.to}, outer);
  p.rows.kind = call.kind;
  if (outer == 0) return p;
  p.rows.index = call.index.Raw<int32_t>();
  p.rows.count = call.index.shape[0];
  for (int i = 0; i < outer; ++i) {
    p.rows.from[i] = call.from.stride[i];
    p.rows.to[i] = call.to.stride[i];
  }
  if (outer == 2) {
    p.rows.each = call.from.shape[1];
    p.rows.count *= p.rows.each;
    p.rows.capacity = call.to.shape[1];
  }
  return p;
}

// Whether the call can be moved in words of `bytes`; p then counts in them.
bool WidenTo(const CopyCall& call, int64_t bytes, Params& p) {
  const int64_t size = ElementSize(call.to.type);
  return bytes <= size ||
         (RowsAllow(p.rows, size, bytes) &&
          cuda::Widen<2>(p.axes, {call.from, call.to}, bytes / size));
}

// Elements to move, once steps are in bytes.
int64_t InBytes(const CopyCall& call, Params& p) {
  const int64_t size = ElementSize(call.to.type);
  p.rows.size = p.axes.size();
  StepsToBytes(p.axes, size);
  for (int64_t* step :
       {p.rows.from, p.rows.from + 1, p.rows.to, p.rows.to + 1}) {
    *step *= size;
  }
  return p.rows.count * p.rows.size;
}

void MoveBoth(Context& context, const CopyCall& call) {
  const CopyCall beside = {.kind = call.kind,
                           .from = call.from_beside,
                           .index = call.index,
                           .to = call.to_beside};
  Params one = ParamsOf(call), other = ParamsOf(beside);
  int64_t bytes = 16;
  while (true) {
    Params wide = one, wide_other = other;
    if (WidenTo(call, bytes, wide) && WidenTo(beside, bytes, wide_other)) {
      one = wide;
      other = wide_other;
      break;
    }
    bytes /= 2;
  }
  const int64_t count = InBytes(call, one);
  const int64_t other_count = InBytes(beside, other);
  const int64_t most = std::max(count, other_count);
  WithWord(bytes, [&](auto word) {
    cuda::WithIndex(most, [&](auto index) {
      using Index = decltype(index);
      cuda::LaunchEarly(context, "copy", MoveBothKernel<decltype(word), Index>,
                        dim3(cuda::CeilDiv(most, kThreads), 2), kThreads, one,
                        other, static_cast<Index>(count),
                        static_cast<Index>(other_count));
    });
  });
}

// Elements as words as long as strides and addresses allow.
void Move(Context& context, const CopyCall& call, Params p) {
  if (call.to_beside) return MoveBoth(context, call);
  int64_t bytes = 16;
  while (!WidenTo(call, bytes, p)) bytes /= 2;
  const int64_t count = InBytes(call, p);
  WithWord(bytes, [&](auto word) {
    cuda::WithIndex(count, [&](auto index) {
      using Index = decltype(index);
      LaunchOver(context, MoveKernel<decltype(word), Index>, count, p,
                 static_cast<Index>(count));
    });
  });
}

template <typename From, typename To>
void CastFloats(Context& context, const CopyCall& call, Params p) {
  const int64_t least =
      static_cast<int64_t>(std::min(sizeof(From), sizeof(To)));
  const bool wide = RowsAllow(p.rows, least, 16) &&
                    cuda::Widen<2>(p.axes, {call.from, call.to}, kCastItems);
  p.rows.size = p.axes.size();
  const int64_t count = p.rows.count * p.rows.size;
  cuda::WithIndex(count, [&](auto index) {
    using Index = decltype(index);
    LaunchOver(context,
               wide ? CastKernel<From, To, kCastItems, Index>
                    : CastKernel<From, To, 1, Index>,
               count, p, static_cast<Index>(count));
  });
}

void CastAny(Context& context, const CopyCall& call, Params p) {
  p.rows.size = p.axes.size();
  const int64_t count = p.rows.count * p.rows.size;
  cuda::WithIndex(count, [&](auto index) {
    using Index = decltype(index);
    LaunchOver(context, CastAnyKernel<Index>, count, p, call.from.type,
               call.to.type, static_cast<Index>(count));
  });
}

// All views on the device.
void CopyThere(Context& context, const CopyCall& call) {
  const Params p = ParamsOf(call);
  if (call.from.type == call.to.type) return Move(context, call, p);
  if (!cuda::IsFloat(call.from.type) || !cuda::IsFloat(call.to.type)) {
    return CastAny(context, call, p);
  }
  cuda::WithFloatType(call.from.type, [&](auto from) {
    cuda::WithFloatType(call.to.type, [&](auto to) {
      CastFloats<decltype(from), decltype(to)>(context, call, p);
    });
  });
}

void Fill(Context& context, const CopyCall& call) {
  // One element as the host writes it, repeated to 16 bytes.
  alignas(16) std::array<char, 16> pattern = {};
  const int64_t size = ElementSize(call.to.type);
  Write(TensorView(pattern.data(), call.to.type, {1}), call.value, 0);
  for (int64_t at = size; at < 16; at += size) {
    std::memcpy(pattern.data() + at, pattern.data(), size);
  }
  cuda::Axes<1> axes = cuda::AxesOf<1>({call.to});
  int64_t bytes = 16;
  while (bytes > size && !cuda::Widen<1>(axes, {call.to}, bytes / size)) {
    bytes /= 2;
  }
  const int64_t count = axes.size();
  StepsToBytes(axes, size);
  WithWord(bytes, [&](auto word) {
    std::memcpy(&word, pattern.data(), sizeof(word));
    cuda::WithIndex(count, [&](auto index) {
      using Index = decltype(index);
      LaunchOver(context, FillKernel<decltype(word), Index>, count,
                 static_cast<char*>(call.to.data), axes, word,
                 static_cast<Index>(count));
    });
  });
}

// The host's bytes from the first to the last of a view on the device, gaps
// and all: one transfer, after which no address is odd.
ConstTensorView Upload(Context& context, const ConstTensorView& host,
                       Temp& copy) {
  int64_t low = 0, high = 1;
  for (int i = 0; i < host.rank; ++i) {
    const int64_t reach = host.stride[i] * (host.shape[i] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const int64_t size = ElementSize(host.type);
  copy = Temp(context, DType::kU8, {(high - low) * size});
  char* memory = copy.view().Raw<char>();
  context.backend()->Copy(memory,
                          static_cast<const char*>(host.data) + low * size,
                          (high - low) * size);
  ConstTensorView view = host;
  view.data = memory - low * size;
  view.device = context.device();
  return view;
}

// dense, on the device, to a view of the host of the same type.
void Download(Context& context, const ConstTensorView& dense,
              const TensorView& host) {
  const Walk<2> walk({dense, host});
  const int64_t size = ElementSize(host.type);
  const int64_t step = walk.step()[1];
  const auto copy = [&](char* to, const char* from, int64_t count) {
    if (step == 1 || count == 1) {
      return context.backend()->Copy(to, from, count * size);
    }
    CheckCuda(cudaMemcpy2DAsync(to, step * size, from, size, size, count,
                                cudaMemcpyDeviceToHost, StreamOf(context)),
              "cudaMemcpy2DAsync");
  };
  walk.ForRuns(0, walk.size(), [&](const auto& places, int64_t count) {
    char* to = static_cast<char*>(host.data) + places[1] * size;
    const char* from = static_cast<const char*>(dense.data) + places[0] * size;
    if (step > 0) return copy(to, from, count);
    for (int64_t i = 0; i < count; ++i) {
      copy(to + i * step * size, from + i * size, 1);
    }
  });
}

Reason WhyNot(const CopyCall& call) {
  if (IsOnHost(call)) return "serves devices only";
  if (!IsPlain(call.from.type)) return "reads no blocks";
  const bool zero = std::bit_cast<uint64_t>(call.value) == 0;  // not −0
  const bool one_run =
      (call.kind == CopyKind::kFill && zero &&
       cuda::AxesOf<1>({call.to}).IsOneRun()) ||
      (call.kind == CopyKind::kCopy && call.from.type == call.to.type &&
       cuda::AxesOf<2>({call.from, call.to}).IsOneRun());
  return one_run ? "leaves one run of memory to the device's own copies" : "";
}

void Run(Context& context, const CopyCall& call) {
  if (call.kind == CopyKind::kFill) return Fill(context, call);
  Temp staged;
  CopyCall there = call;
  if (call.from.device.is_cpu()) {
    there.from = Upload(context, call.from, staged);
  } else if (call.to.device.is_cpu()) {
    staged = Temp(context, call.to.type,
                  std::span(call.to.shape).first(call.to.rank));
    there.to = staged.view();
  }
  CopyThere(context, there);
  if (call.to.device.is_cpu()) Download(context, staged.view(), call.to);
}

}  // namespace

const Implementation<CopyCall> kCopyCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
