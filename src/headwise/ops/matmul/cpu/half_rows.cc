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

// Numbers of a group: four lines side by side, [k in steps of 8, 4 lines, 8].
int64_t GroupOf(int64_t k) {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  return StepsOf(k) * kLines * kStep;
}

int64_t GroupsOf(int64_t n) {
  constexpr int64_t kLines = kHalfLines;
  return (n + kLines - 1) / kLines;
}

size_t BytesOf(int64_t n, int64_t k) {
  return static_cast<size_t>(GroupsOf(n) * GroupOf(k)) * sizeof(uint16_t);
}

// Groups [begin, end) of the weights' lines to `to`, which is zero past n and
// k.
void Interleave(const PreparedWeights& weights, int64_t begin, int64_t end,
                uint16_t* to) {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  constexpr int64_t kItem = sizeof(uint16_t);
  const int64_t k = weights.k(), group = GroupOf(k);
  int64_t first = 0;  // line of this part
  for (const ConstTensorView& part : weights.matrices()) {
    const int64_t last = std::min(end * kLines, first + part.shape[0]);
    for (int64_t line = std::max(begin * kLines, first); line < last; ++line) {
      const char* from = static_cast<const char*>(part.data) +
                         (line - first) * part.stride[0] * kItem;
      uint16_t* at =
          to + (line / kLines - begin) * group + line % kLines * kStep;
      for (int64_t p = 0; p < k; p += kStep) {
        std::memcpy(at + p * kLines, from + p * kItem,
                    std::min(kStep, k - p) * kItem);
      }
    }
    first += part.shape[0];
  }
}

// All lines in groups.
class HalfLines : public WeightForm {
 public:
  explicit HalfLines(const PreparedWeights& weights);

  size_t bytes() const override { return BytesOf(n_, k_); }
  const uint16_t* data() const { return data_; }

 private:
  int64_t n_ = 0;
  int64_t k_ = 0;
  const uint16_t* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

HalfLines::HalfLines(const PreparedWeights& weights)
    : n_(weights.n()), k_(weights.k()) {
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
  Interleave(weights, 0, GroupsOf(n_), packed);
}

constexpr FormKey<HalfLines> kHalfLinesForm = {"cpu.half_rows"};

// Null where they may not be kept.
const HalfLines* LinesOf(const PreparedWeights& weights) {
  return weights.Get(
      kHalfLinesForm, [&] { return BytesOf(weights.n(), weights.k()); },
      [&] { return std::make_unique<HalfLines>(weights); });
}

bool HasHalfLines(const PreparedWeights& weights) {
  const auto parts = weights.matrices();
  return HasHalfDots() && !parts.empty() &&
         weights.operand() == Operand::kTransposed &&
         std::all_of(parts.begin(), parts.end(),
                     [](const ConstTensorView& part) {
                       return part.device.is_cpu() && part.type == DType::kF16;
                     });
}

// sums [count] = Σ x·w of the lines of groups where x is not finite: as f32.
void DotWide(const float* x, const uint16_t* groups, int64_t k, int64_t count,
             float* sums) {
  constexpr int64_t kLines = kHalfLines, kStep = kHalfStep;
  for (int64_t line = 0; line < count; ++line) {
    const uint16_t* own =
        groups + line / kLines * GroupOf(k) + line % kLines * kStep;
    sums[line] = 0;
    for (int64_t p = 0; p < k; ++p) {
      sums[line] += x[p] * FromF16(own[p / kStep * kStep * kLines + p % kStep]);
    }
  }
}

// The rows of A, and what becomes of their sums.
class SplitRows {
 public:
  SplitRows(Context& context, const MatmulCall& call)
      : call_(call),
        dense_(context, call),
        memory_(context.workspace().TakeArray<uint16_t>(
            call.problem.m * SplitRow::MemoryOf(call.problem.k))) {
    const int64_t row = SplitRow::MemoryOf(call.problem.k);
    for (int64_t i = 0; i < call.problem.m; ++i) {
      finite_[i] =
          split_[i].Set(dense_.data() + i * call.problem.k, call.problem.k,
                        memory_.Raw<uint16_t>() + i * row);
    }
  }

  // With groups from `begin` on, at most kMostGroups, that lie at `groups`;
  // others are likely to follow them, `following` in all.
  void Multiply(const uint16_t* groups, int64_t begin, int64_t count,
                int64_t following) const {
    constexpr int64_t kLines = kHalfLines;
    const auto& [problem, args] = call_;
    const int64_t k = problem.k, first = begin * kLines;
    const int64_t lines = std::min((begin + count) * kLines, problem.n) - first;
    std::array<float, kMostGroups * kLines> sums;
    for (int64_t i = 0; i < problem.m; ++i) {
      if (finite_[i]) {
        DotHalf(split_[i],
                {groups, static_cast<size_t>(StepsOf(k)),
                 static_cast<size_t>(count), static_cast<size_t>(following)},
                sums.data());
      } else {
        DotWide(dense_.data() + i * k, groups, k, lines, sums.data());
      }
      Store(i, first, lines, sums.data());
    }
  }

 private:
  void Store(int64_t i, int64_t first, int64_t count, float* sums) const {
    const MatmulArgs& args = call_.args;
    float* c = args.c.Raw<float>() + i * args.c.stride[0] + first;
    if (args.bias) {
      const float* bias = args.bias.Raw<float>() + first;
      for (int64_t j = 0; j < count; ++j) sums[j] += bias[j];
    }
    if (call_.problem.store == Store::kAccumulate) {
      for (int64_t j = 0; j < count; ++j) c[j] += sums[j];
    } else {
      std::copy_n(sums, count, c);
    }
  }

  const MatmulCall& call_;
  DenseRows dense_;
  Scratch memory_;
  std::array<SplitRow, kMostRows> split_;
  std::array<bool, kMostRows> finite_{};
};

// Groups that a thread takes at a time, for so many bytes.
int64_t GroupsIn(int64_t bytes, int64_t k) {
  constexpr int64_t kItem = sizeof(uint16_t);
  return std::clamp<int64_t>(bytes / std::max<int64_t>(1, GroupOf(k) * kItem),
                             1, kMostGroups);
}

// Lines that are laid side by side for this product only.
void MultiplyStoredHalves(Context& context, const MatmulCall& call) {
  const PreparedWeights& weights = *call.args.weights;
  const SplitRows rows(context, call);
  const int64_t groups = GroupsOf(call.problem.n);
  const int64_t step = GroupsIn(kLeastBytes, call.problem.k);
  const int64_t room = step * GroupOf(call.problem.k);
  const int64_t threads = context.threads();
  const Scratch memory =
      context.workspace().TakeArray<uint16_t>(threads * room);
  std::fill_n(memory.Raw<uint16_t>(), threads * room, uint16_t{0});
  context.pool().ParallelFor(
      (groups + step - 1) / step, [&](int64_t task, int worker) {
        const int64_t begin = task * step;
        const int64_t end = std::min(groups, begin + step);
        uint16_t* const own = memory.Raw<uint16_t>() + worker * room;
        Interleave(weights, begin, end, own);
        rows.Multiply(own, begin, end - begin, end - begin);
      });
}

void Run(Context& context, const MatmulCall& call) {
  const HalfLines* lines = LinesOf(*call.args.weights);
  if (lines == nullptr) return MultiplyStoredHalves(context, call);
  // Memory takes long to begin: other threads need not wait for x.
  context.pool().Expect(lines->data(), lines->bytes());
  const SplitRows rows(context, call);
  const int64_t k = call.problem.k;
  ForStretches(context.pool(), GroupsOf(call.problem.n),
               {GroupsIn(kLeastBytes, k), GroupsIn(kMostBytes, k)},
               [&](int64_t begin, int64_t end, int64_t stretch_end) {
                 rows.Multiply(lines->data() + begin * GroupOf(k), begin,
                               end - begin, stretch_end - begin);
               });
}

Reason WhyNot(const MatmulCall& call) {
  if (const Reason why = WhyNotPlainProduct(call); !why.empty()) return why;
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
  const HalfLines* lines = LinesOf(weights);
  if (lines != nullptr) context.pool().Expect(lines->data(), lines->bytes());
}

const Implementation<MatmulCall> kMatmulCpuHalfRows = {
    .name = "cpu.half_rows",
    .why_not = WhyNot,
    .run = Run,
    .kept_bytes = [](const MatmulCall& call) {
      return HalfLinesBytes(*call.args.weights);
    }};

}  // namespace headwise
