// Products of few rows with weights in f16, four lines side by side: one long
// stream of memory that shares each load of x. Doors: ../matmul.h
// (HalfMatrix), half_matrix.h.
#include "headwise/ops/matmul/cpu/half_matrix.h"

#include <algorithm>
#include <array>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

// Of one task: several a thread even in small layers, and streams that are
// long enough for the prefetcher.
constexpr int64_t kTaskBytes = 128 << 10;

int64_t StepsOf(int64_t k) {
  constexpr int64_t kStep = kHalfStep;
  return (k + kStep - 1) / kStep;
}

// How many tasks `bytes` of weights make: a multiple of four, so that they
// share out evenly, or one.
int64_t Tasks(int64_t bytes) {
  return bytes < 2 * kTaskBytes ? 1 : (bytes / kTaskBytes + 3) / 4 * 4;
}

// Σ x·w of lines from `line` on where x is not finite: as f32.
void DotWide(const float* x, const HalfMatrix& b, int64_t line,
             std::vector<float>& sums) {
  for (size_t j = 0; j < sums.size(); ++j) {
    sums[j] = 0;
    for (int64_t p = 0; p < b.k(); ++p) {
      sums[j] += x[p] * b.At(p, line + static_cast<int64_t>(j));
    }
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
  const int64_t tasks = Tasks(groups * StepsOf(k) * kLines * kHalfStep * 2);
  const int64_t step = (groups + tasks - 1) / tasks;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t begin = task * step;
    const int64_t end = std::min(groups, begin + step);
    if (begin >= end) return;
    std::vector<float> sums((end - begin) * kLines);
    for (int64_t i = 0; i < m; ++i) {
      if (finite[i]) {
        DotHalf(split[i], b.group(begin), StepsOf(k), end - begin, sums.data());
      } else {
        DotWide(a + i * k, b, begin * kLines, sums);
      }
      const int64_t first = begin * kLines;
      float* c = args.c.As<float>() + i * args.c.stride[0] + first;
      for (int64_t j = 0; j < std::min(end * kLines, n) - first; ++j) {
        float value = sums[j];
        if (args.bias) value += args.bias.As<float>()[first + j];
        c[j] = problem.store == Store::kAccumulate ? c[j] + value : value;
      }
    }
  });
}

}  // namespace headwise
