// Products of few rows with weights in f16, four lines side by side: one long
// stream of memory that shares each load of x. Doors: ../matmul.h
// (HalfMatrix), half_matrix.h.
#include "headwise/ops/matmul/cpu/half_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "headwise/backend/cpu/large_memory.h"
#include "headwise/backend/cpu/stretches.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

// What a thread takes at a time: of the order of a microsecond's.
constexpr int64_t kLeastBytes = 8 << 10;
constexpr int64_t kMostBytes = 64 << 10;
constexpr int64_t kMostGroups = 64;  // whose sums are on the stack

int64_t StepsOf(int64_t k) {
  constexpr int64_t kStep = kHalfStep;
  return (k + kStep - 1) / kStep;
}

// sums [count] = Σ x·w of lines from `first` on where x is not finite: as f32.
void DotWide(const float* x, const HalfMatrix& b, int64_t first, int64_t count,
             float* sums) {
  for (int64_t line = 0; line < count; ++line) {
    sums[line] = 0;
    for (int64_t p = 0; p < b.k(); ++p) {
      sums[line] += x[p] * b.At(p, first + line);
    }
  }
}

}  // namespace

bool HalfMatrix::Supported() { return HasHalfDots(); }

size_t HalfMatrix::BytesOf(int64_t n, int64_t k) {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  return static_cast<size_t>((n + kLines - 1) / kLines * kLines * StepsOf(k) *
                             kStep) *
         sizeof(uint16_t);
}

HalfMatrix::HalfMatrix(std::span<const ConstTensorView> parts,
                       std::shared_ptr<LargeMemory> memory) {
  for (const ConstTensorView& part : parts) {
    if (part.data == nullptr || part.type != DType::kF16 || part.rank != 2 ||
        part.stride[1] != 1 || (n_ > 0 && part.shape[1] != k_)) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"matmul", "f16 matrices [n, k] of one k, rows contiguous",
                   ToString(part), ""});
    }
    n_ += part.shape[0];
    k_ = part.shape[1];
  }
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  constexpr int64_t kItem = sizeof(uint16_t);
  group_ = StepsOf(k_) * kLines * kStep;
  auto* packed =
      static_cast<uint16_t*>(memory ? memory->Take(bytes()) : nullptr);
  if (packed != nullptr) {
    owner_ = std::move(memory);
  } else {
    auto own = std::make_shared<Tensor>(
        DType::kF16, std::initializer_list<int64_t>{
                         static_cast<int64_t>(bytes() / sizeof(uint16_t))});
    packed = own->As<uint16_t>();
    owner_ = std::move(own);
  }
  data_ = packed;
  int64_t line = 0;
  for (const ConstTensorView& part : parts) {
    for (int64_t r = 0; r < part.shape[0]; ++r, ++line) {
      const char* from =
          static_cast<const char*>(part.data) + r * part.stride[0] * kItem;
      uint16_t* to = packed + line / kLines * group_ + line % kLines * kStep;
      for (int64_t p = 0; p < k_; p += kStep) {
        std::memcpy(to + p * kLines, from + p * kItem,
                    std::min(kStep, k_ - p) * kItem);
      }
    }
  }
}

float HalfMatrix::At(int64_t p, int64_t line) const {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  if (line >= n_) return 0;
  const uint16_t* four = group(line / kLines);
  return FromF16(
      four[p / kStep * kStep * kLines + line % kLines * kStep + p % kStep]);
}

void MultiplyHalf(Context& context, const MatmulProblem& problem,
                  const MatmulArgs& args, const float* a) {
  const HalfMatrix& b = *args.half_b;
  const int64_t m = problem.m, n = problem.n, k = problem.k;
  // Memory takes long to begin: other threads need not wait for x.
  context.pool().Expect(b.group(0), b.bytes());
  std::array<SplitRow, kFewRows> split;
  std::array<bool, kFewRows> finite{};
  const size_t row = SplitRow::MemoryOf(k);
  const Scratch halves = context.workspace().TakeArray<uint16_t>(m * row);
  for (int64_t i = 0; i < m; ++i) {
    finite[i] = split[i].Set(a + i * k, k, halves.As<uint16_t>() + i * row);
  }
  constexpr int64_t kLines = kHalfLines;
  const int64_t groups = (n + kLines - 1) / kLines;
  const size_t steps = StepsOf(k);
  const int64_t group_bytes =
      std::max<int64_t>(1, static_cast<int64_t>(b.bytes()) / groups);
  const bool add = problem.store == Store::kAccumulate;
  ForStretches(
      context.pool(), groups,
      {std::clamp<int64_t>(kLeastBytes / group_bytes, 1, kMostGroups),
       std::clamp<int64_t>(kMostBytes / group_bytes, 1, kMostGroups)},
      [&](int64_t begin, int64_t end, int64_t stretch_end) {
        std::array<float, kMostGroups * kLines> sums;
        const int64_t first = begin * kLines;
        const int64_t count = std::min(end * kLines, n) - first;
        for (int64_t i = 0; i < m; ++i) {
          if (finite[i]) {
            DotHalf(split[i],
                    {b.group(begin), steps, static_cast<size_t>(end - begin),
                     static_cast<size_t>(stretch_end - begin)},
                    sums.data());
          } else {
            DotWide(a + i * k, b, first, count, sums.data());
          }
          float* c = args.c.As<float>() + i * args.c.stride[0] + first;
          if (args.bias) {
            const float* bias = args.bias.As<float>() + first;
            for (int64_t j = 0; j < count; ++j) sums[j] += bias[j];
          }
          if (add) {
            for (int64_t j = 0; j < count; ++j) c[j] += sums[j];
          } else {
            std::copy_n(sums.begin(), count, c);
          }
        }
      });
}

}  // namespace headwise
