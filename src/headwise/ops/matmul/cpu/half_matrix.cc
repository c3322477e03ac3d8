// Products of few rows with weights in f16, four lines side by side: one long
// stream of memory that shares each load of x. Doors: ../matmul.h
// (HalfMatrix), half_matrix.h.
#include "headwise/ops/matmul/cpu/half_matrix.h"

#include <algorithm>
#include <array>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

// Of one task. Threads walk each its own stretch of them, so that they need not
// be long for the prefetcher; shorter ones (64 KiB) cost 3 % in being taken.
constexpr int64_t kTaskBytes = 160 << 10;

int64_t StepsOf(int64_t k) {
  constexpr int64_t kStep = kHalfStep;
  return (k + kStep - 1) / kStep;
}

// sums[line] = Σ x·w of lines in [begin, end) where x is not finite: as f32.
void DotWide(const float* x, const HalfMatrix& b, int64_t begin, int64_t end,
             float* sums) {
  for (int64_t line = begin; line < end; ++line) {
    sums[line] = 0;
    for (int64_t p = 0; p < b.k(); ++p) sums[line] += x[p] * b.At(p, line);
  }
}

}  // namespace

bool HalfMatrix::Supported() { return HasHalfDots(); }

HalfMatrix::HalfMatrix(std::span<const ConstTensorView> parts) {
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
  const int64_t groups = (n_ + kLines - 1) / kLines;
  group_ = StepsOf(k_) * kLines * kStep;
  packed_ = Tensor(DType::kF16, {groups, group_});
  int64_t line = 0;
  for (const ConstTensorView& part : parts) {
    for (int64_t r = 0; r < part.shape[0]; ++r, ++line) {
      const uint16_t* from = part.As<uint16_t>() + r * part.stride[0];
      uint16_t* to = packed_.As<uint16_t>() + line / kLines * group_ +
                     line % kLines * kStep;
      for (int64_t p = 0; p < k_; p += kStep) {
        std::copy_n(from + p, std::min(kStep, k_ - p), to + p * kLines);
      }
    }
  }
}

float HalfMatrix::At(int64_t p, int64_t line) const {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  if (line >= n_) return 0;
  return FromF16(packed_.As<uint16_t>()[line / kLines * group_ +
                                        p / kStep * kStep * kLines +
                                        line % kLines * kStep + p % kStep]);
}

void MultiplyHalf(Context& context, const MatmulProblem& problem,
                  const MatmulArgs& args, const float* a) {
  const HalfMatrix& b = *args.half_b;
  const int64_t m = problem.m, n = problem.n, k = problem.k;
  std::array<SplitRow, kFewRows> split;
  std::array<bool, kFewRows> finite{};
  for (int64_t i = 0; i < m; ++i) finite[i] = split[i].Set(a + i * k, k);
  constexpr int64_t kLines = kHalfLines;
  const int64_t groups = (n + kLines - 1) / kLines;
  const int64_t bytes = groups * StepsOf(k) * kLines * kHalfStep * 2;
  const Stretches stretches(context.threads(), bytes / kTaskBytes);
  const Scratch memory =
      context.workspace().TakeArray<float>(m * groups * kLines);
  const bool add = problem.store == Store::kAccumulate;
  context.pool().ParallelFor(stretches.tasks(), [&](int64_t task, int) {
    const int64_t place = stretches.Place(task);
    const int64_t begin = groups * place / stretches.tasks();
    const int64_t end = groups * (place + 1) / stretches.tasks();
    const int64_t first = begin * kLines;
    const int64_t last = std::min(end * kLines, n);
    for (int64_t i = 0; i < m; ++i) {
      float* sums = memory.As<float>() + i * groups * kLines;
      if (finite[i]) {
        DotHalf(split[i], b.group(begin), StepsOf(k), end - begin,
                sums + first);
      } else {
        DotWide(a + i * k, b, first, end * kLines, sums);
      }
      float* c = args.c.As<float>() + i * args.c.stride[0];
      if (args.bias) {
        const float* bias = args.bias.As<float>();
        for (int64_t j = first; j < last; ++j) sums[j] += bias[j];
      }
      if (add) {
        for (int64_t j = first; j < last; ++j) c[j] += sums[j];
      } else {
        std::copy(sums + first, sums + last, c + first);
      }
    }
  });
}

}  // namespace headwise
