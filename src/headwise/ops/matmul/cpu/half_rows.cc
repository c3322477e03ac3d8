// cpu.half_rows: one or two rows with weights in f16, four lines side by side:
// one long stream of memory that shares each load of x. Doors:
// ../implementation.h, half_rows.h.
#include "headwise/ops/matmul/cpu/half_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "headwise/backend/cpu/stretches.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/matmul/cpu/few_rows.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

// What a thread takes at a time: of the order of a microsecond's.
constexpr int64_t kLeastBytes = 8 << 10;
constexpr int64_t kMostBytes = 64 << 10;
constexpr int64_t kMostGroups = 64;  // whose sums are on the stack
// More rows share the conversion to f32.
constexpr int64_t kMostRows = 2;

int64_t StepsOf(int64_t k) {
  constexpr int64_t kStep = kHalfStep;
  return (k + kStep - 1) / kStep;
}

size_t BytesOf(int64_t n, int64_t k) {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  return static_cast<size_t>((n + kLines - 1) / kLines * kLines * StepsOf(k) *
                             kStep) *
         sizeof(uint16_t);
}

// Four lines side by side.
class HalfLines : public WeightForm {
 public:
  explicit HalfLines(const PreparedWeights& weights);

  size_t bytes() const override { return BytesOf(n_, k_); }
  int64_t k() const { return k_; }
  // B's element (p, line), 0 past n.
  float At(int64_t p, int64_t line) const;
  // [k in steps of 8, 4 lines, 8], zero past n and k.
  const uint16_t* group(int64_t index) const { return data_ + index * group_; }

 private:
  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t group_ = 0;  // numbers of four lines
  const uint16_t* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

HalfLines::HalfLines(const PreparedWeights& weights)
    : n_(weights.n()), k_(weights.k()) {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  constexpr int64_t kItem = sizeof(uint16_t);
  group_ = StepsOf(k_) * kLines * kStep;
  const std::shared_ptr<LargeMemory>& memory = weights.memory();
  auto* packed =
      static_cast<uint16_t*>(memory ? memory->Take(bytes()) : nullptr);
  if (packed != nullptr) {
    owner_ = memory;
  } else {
    auto own = std::make_shared<Tensor>(
        DType::kF16, Shape{static_cast<int64_t>(bytes() / sizeof(uint16_t))});
    packed = own->Raw<uint16_t>();
    owner_ = std::move(own);
  }
  data_ = packed;
  int64_t line = 0;
  for (const ConstTensorView& part : weights.parts()) {
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

float HalfLines::At(int64_t p, int64_t line) const {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  if (line >= n_) return 0;
  const uint16_t* four = group(line / kLines);
  return FromF16(
      four[p / kStep * kStep * kLines + line % kLines * kStep + p % kStep]);
}

const HalfLines& LinesOf(const PreparedWeights& weights) {
  return static_cast<const HalfLines&>(
      weights.Get(PreparedWeights::Kind::kCpuHalfLines,
                  [&] { return std::make_unique<HalfLines>(weights); }));
}

bool HasHalfLines(const PreparedWeights& weights) {
  const auto parts = weights.parts();
  return HasHalfDots() && !parts.empty() &&
         weights.operand() == Operand::kTransposed &&
         std::all_of(parts.begin(), parts.end(),
                     [](const ConstTensorView& part) {
                       return part.device.is_cpu() && part.type == DType::kF16;
                     });
}

// sums [count] = Σ x·w of lines from `first` on where x is not finite: as f32.
void DotWide(const float* x, const HalfLines& b, int64_t first, int64_t count,
             float* sums) {
  for (int64_t line = 0; line < count; ++line) {
    sums[line] = 0;
    for (int64_t p = 0; p < b.k(); ++p) {
      sums[line] += x[p] * b.At(p, first + line);
    }
  }
}

void Run(Context& context, const MatmulCall& call) {
  const MatmulProblem& problem = call.problem;
  const MatmulArgs& args = call.args;
  const HalfLines& b = LinesOf(*args.weights);
  const DenseRows dense(context, call);
  const float* a = dense.data();
  const int64_t m = problem.m, n = problem.n, k = problem.k;
  // Memory takes long to begin: other threads need not wait for x.
  context.pool().Expect(b.group(0), b.bytes());
  std::array<SplitRow, kMostRows> split;
  std::array<bool, kMostRows> finite{};
  const size_t row = SplitRow::MemoryOf(k);
  const Scratch halves = context.workspace().TakeArray<uint16_t>(m * row);
  for (int64_t i = 0; i < m; ++i) {
    finite[i] = split[i].Set(a + i * k, k, halves.Raw<uint16_t>() + i * row);
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
          float* c = args.c.Raw<float>() + i * args.c.stride[0] + first;
          if (args.bias) {
            const float* bias = args.bias.Raw<float>() + first;
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

Reason WhyNot(const MatmulCall& call) {
  if (const Reason why = WhyNotEpilogue(call); !why.empty()) return why;
  if (call.args.weights == nullptr) return "takes prepared weights only";
  if (call.problem.m > kMostRows) return "takes at most two rows";
  if (!HasHalfLines(*call.args.weights)) {
    return HasHalfDots() ? "takes transposed f16 weights only"
                         : "needs a processor that multiplies halves";
  }
  return WhyNotOnHost(DType::kF32, {call.args.a, call.args.c});
}

}  // namespace

size_t HalfLinesBytes(const PreparedWeights& weights) {
  return HasHalfLines(weights) ? BytesOf(weights.n(), weights.k()) : 0;
}

void ExpectHalfLines(Context& context, const PreparedWeights& weights,
                     int64_t rows) {
  if (rows > kMostRows || !HasHalfLines(weights)) return;
  const HalfLines& lines = LinesOf(weights);
  context.pool().Expect(lines.group(0), lines.bytes());
}

const Implementation<MatmulCall> kMatmulCpuHalfRows = {
    .name = "cpu.half_rows", .why_not = WhyNot, .run = Run};

}  // namespace headwise
