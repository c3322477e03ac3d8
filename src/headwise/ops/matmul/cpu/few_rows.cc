// cpu.few_rows. Doors: ../implementation.h, few_rows.h.
//
// Where B's columns are contiguous (a linear layer's weight [n, k]) a task
// takes some of them, four at a time, as dot products with all rows of A. Where
// its rows are ([k, n]) a task takes a strip of columns and adds up rows, four
// at a time. The order of sums depends on (m, n, k) alone.
#include "headwise/ops/matmul/cpu/few_rows.h"

#include <algorithm>
#include <cstring>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/check_view.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/matmul/cpu/few_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

// Up to this many rows packing B, or reading it as f32 where it is stored in
// half, would take longer.
constexpr int64_t kMostRows = 8;

using F16 = hwy::float16_t;
using BF16 = hwy::bfloat16_t;

// kLanes numbers as f32, and one of them.
HWY_INLINE VF LoadF32(const float* p) { return hn::LoadU(F32(), p); }
template <typename Half>
HWY_INLINE VF LoadF32(const Half* p) {
  const hn::Rebind<Half, F32> d;
  return hn::PromoteTo(F32(), hn::LoadU(d, p));
}
HWY_INLINE float OneF32(const float* p) { return *p; }
HWY_INLINE float OneF32(const F16* p) {
  return FromF16(LoadUnaligned<uint16_t>(p, 0));
}
HWY_INLINE float OneF32(const BF16* p) {
  return FromBf16(LoadUnaligned<uint16_t>(p, 0));
}

// Lines of B: columns or rows, whichever are contiguous, `stride` apart.
template <typename T>
struct LinesOf {
  const T* data = nullptr;
  int64_t stride = 0;
  const T* at(size_t line) const {
    return data + static_cast<int64_t>(line) * stride;
  }
};

// Dot products of kRows (2 or 4) rows a [kRows, k] with four lines of b.
// sums: [kRows, 4].
template <int kRows, typename T>
HWY_INLINE void DotFourLines(const LinesOf<T>& b, size_t line,
                             const float* HWY_RESTRICT a, size_t k,
                             float* HWY_RESTRICT sums) {
  const T* HWY_RESTRICT b0 = b.at(line);
  const T* HWY_RESTRICT b1 = b.at(line + 1);
  const T* HWY_RESTRICT b2 = b.at(line + 2);
  const T* HWY_RESTRICT b3 = b.at(line + 3);
  const auto load = [&](size_t i) HWY_ATTR {
    return Four{LoadF32(b0 + i), LoadF32(b1 + i), LoadF32(b2 + i),
                LoadF32(b3 + i)};
  };
  Four s0 = ZeroFour(), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + kLanes <= k; i += kLanes) {
    const Four lines = load(i);
    AddFour(lines, LoadF32(a + i), s0);
    AddFour(lines, LoadF32(a + k + i), s1);
    if constexpr (kRows > 2) {
      AddFour(lines, LoadF32(a + 2 * k + i), s2);
      AddFour(lines, LoadF32(a + 3 * k + i), s3);
    }
  }
  StoreSums(s0, sums, 1);
  StoreSums(s1, sums + 4, 1);
  if constexpr (kRows > 2) {
    StoreSums(s2, sums + 8, 1);
    StoreSums(s3, sums + 12, 1);
  }
  for (; i < k; ++i) {
    for (size_t row = 0; row < kRows; ++row) {
      const float x = a[row * k + i];
      sums[row * 4] += x * OneF32(b0 + i);
      sums[row * 4 + 1] += x * OneF32(b1 + i);
      sums[row * 4 + 2] += x * OneF32(b2 + i);
      sums[row * 4 + 3] += x * OneF32(b3 + i);
    }
  }
}

// One line with one row: one long stream of memory, and enough sums that none
// waits for the one before.
template <typename T>
HWY_INLINE float DotLine(const T* HWY_RESTRICT b, const float* HWY_RESTRICT a,
                         size_t k) {
  const F32 d;
  Four s = ZeroFour(), t = s;
  size_t i = 0;
  for (; i + 8 * kLanes <= k; i += 8 * kLanes) {
    const auto add = [&](size_t at, VF& sum) HWY_ATTR {
      const size_t from = i + at * kLanes;
      sum = hn::MulAdd(LoadF32(b + from), LoadF32(a + from), sum);
    };
    add(0, s.v0), add(1, s.v1), add(2, s.v2), add(3, s.v3);
    add(4, t.v0), add(5, t.v1), add(6, t.v2), add(7, t.v3);
  }
  for (; i + kLanes <= k; i += kLanes) {
    s.v0 = hn::MulAdd(LoadF32(b + i), LoadF32(a + i), s.v0);
  }
  const VF sum = hn::Add(hn::Add(hn::Add(s.v0, t.v0), hn::Add(s.v1, t.v1)),
                         hn::Add(hn::Add(s.v2, t.v2), hn::Add(s.v3, t.v3)));
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < k; ++i) total += a[i] * OneF32(b + i);
  return total;
}

// sums [m, 4]: all rows of a with four lines; rows in fours, then two, one.
template <typename T>
HWY_INLINE void DotRows(const LinesOf<T>& b, size_t line, const float* a,
                        size_t m, size_t k, float* sums) {
  size_t row = 0;
  for (; row + 4 <= m; row += 4) {
    DotFourLines<4>(b, line, a + row * k, k, sums + row * 4);
  }
  if (row + 2 <= m) {
    DotFourLines<2>(b, line, a + row * k, k, sums + row * 4);
    row += 2;
  }
  for (size_t x = 0; row < m && x < 4; ++x) {
    sums[row * 4 + x] = DotLine(b.at(line + x), a + row * k, k);
  }
}

// Where C is and what else is added to it.
struct Target {
  const MatmulProblem& problem;
  const MatmulArgs& args;

  HWY_INLINE void Put(size_t i, size_t j, float value) const {
    if (args.bias) value += args.bias.Raw<float>()[j];
    float& c = args.c.Raw<float>()[static_cast<int64_t>(i) * args.c.stride[0] +
                                   static_cast<int64_t>(j)];
    c = problem.store == Store::kAccumulate ? c + value : value;
  }
  HWY_INLINE void PutLanes(size_t i, size_t j, VF values) const {
    const F32 d;
    if (args.bias) {
      values = hn::Add(values, hn::LoadU(d, args.bias.Raw<float>() + j));
    }
    float* c = args.c.Raw<float>() +
               static_cast<int64_t>(i) * args.c.stride[0] +
               static_cast<int64_t>(j);
    if (problem.store == Store::kAccumulate) {
      values = hn::Add(hn::LoadU(d, c), values);
    }
    hn::StoreU(values, d, c);
  }
  HWY_INLINE void PutTile(size_t i, size_t j, const Four& values) const {
    PutLanes(i, j, values.v0);
    PutLanes(i, j + kLanes, values.v1);
    PutLanes(i, j + 2 * kLanes, values.v2);
    PutLanes(i, j + 3 * kLanes, values.v3);
  }
};

// Lines [begin, end) are columns of C.
template <typename T>
HWY_NOINLINE void DotTask(const LinesOf<T>& b, const float* a, size_t begin,
                          size_t end, const Target& to) {
  const size_t m = to.problem.m, k = to.problem.k;
  HWY_ALIGN float sums[kMostRows * 4];
  size_t j = begin;
  for (; j + 4 <= end; j += 4) {
    DotRows(b, j, a, m, k, sums);
    for (size_t i = 0; i < m; ++i) {
      for (size_t x = 0; x < 4; ++x) to.Put(i, j + x, sums[i * 4 + x]);
    }
  }
  for (; j < end; ++j) {
    for (size_t i = 0; i < m; ++i) to.Put(i, j, DotLine(b.at(j), a + i * k, k));
  }
}

// sums [width] += Σ a[p]·b[p] over `lines` (≤ 4) lines from `line` on.
template <typename T>
HWY_INLINE void AddLines(const LinesOf<T>& b, size_t line, size_t lines,
                         size_t begin, size_t width,
                         const float* HWY_RESTRICT a,
                         float* HWY_RESTRICT sums) {
  const F32 d;
  size_t j = 0;
  if (lines == 4) {
    const T* HWY_RESTRICT b0 = b.at(line) + begin;
    const T* HWY_RESTRICT b1 = b.at(line + 1) + begin;
    const T* HWY_RESTRICT b2 = b.at(line + 2) + begin;
    const T* HWY_RESTRICT b3 = b.at(line + 3) + begin;
    for (; j + kLanes <= width; j += kLanes) {
      VF sum = hn::LoadU(d, sums + j);
      sum = hn::MulAdd(LoadF32(b0 + j), hn::Set(d, a[0]), sum);
      sum = hn::MulAdd(LoadF32(b1 + j), hn::Set(d, a[1]), sum);
      sum = hn::MulAdd(LoadF32(b2 + j), hn::Set(d, a[2]), sum);
      sum = hn::MulAdd(LoadF32(b3 + j), hn::Set(d, a[3]), sum);
      hn::StoreU(sum, d, sums + j);
    }
  }
  for (; j < width; ++j) {
    for (size_t p = 0; p < lines; ++p) {
      sums[j] += a[p] * OneF32(b.at(line + p) + begin + j);
    }
  }
}

// Columns of C that a task adds up, in L1 with four lines of B.
constexpr size_t kStrip = 128;

// Columns whose sums stay in registers.
constexpr size_t kTile = 4 * kLanes;

// Bytes of B that the caches of a core keep from call to call: its lines can
// then be walked in narrow tiles. Longer ones come from memory in strips.
constexpr size_t kKeptBytes = 256 << 10;

template <typename T>
HWY_INLINE Four LoadTile(const T* HWY_RESTRICT line) {
  return {LoadF32(line), LoadF32(line + kLanes), LoadF32(line + 2 * kLanes),
          LoadF32(line + 3 * kLanes)};
}

// Rows from `row` on, kRows (1, 2 or 4) of them, and kTile columns of C.
template <int kRows, typename T>
HWY_INLINE void AddTile(const LinesOf<T>& b, const float* HWY_RESTRICT a,
                        size_t row, size_t column, const Target& to) {
  const F32 d;
  const size_t k = to.problem.k;
  Four s0 = ZeroFour(), s1 = s0, s2 = s0, s3 = s0;
  for (size_t p = 0; p < k; ++p) {
    const Four lines = LoadTile(b.at(p) + column);
    AddFour(lines, hn::Set(d, a[p]), s0);
    if constexpr (kRows > 1) AddFour(lines, hn::Set(d, a[k + p]), s1);
    if constexpr (kRows > 2) {
      AddFour(lines, hn::Set(d, a[2 * k + p]), s2);
      AddFour(lines, hn::Set(d, a[3 * k + p]), s3);
    }
  }
  to.PutTile(row, column, s0);
  if constexpr (kRows > 1) to.PutTile(row + 1, column, s1);
  if constexpr (kRows > 2) {
    to.PutTile(row + 2, column, s2);
    to.PutTile(row + 3, column, s3);
  }
}

template <typename T>
HWY_INLINE void AddTiles(const LinesOf<T>& b, const float* a, size_t column,
                         const Target& to) {
  const size_t m = to.problem.m, k = to.problem.k;
  size_t row = 0;
  for (; row + 4 <= m; row += 4) AddTile<4>(b, a + row * k, row, column, to);
  if (row + 2 <= m) {
    AddTile<2>(b, a + row * k, row, column, to);
    row += 2;
  }
  if (row < m) AddTile<1>(b, a + row * k, row, column, to);
}

// Lines are rows of B; columns [begin, end) of C. The sums of tiles are those
// of strips, where lines come in fours.
template <typename T>
HWY_NOINLINE void AddTask(const LinesOf<T>& b, const float* a, size_t begin,
                          size_t end, const Target& to) {
  const size_t m = to.problem.m, k = to.problem.k;
  if (k % 4 == 0 && k * to.problem.n * sizeof(T) <= kKeptBytes) {
    for (; begin + kTile <= end; begin += kTile) AddTiles(b, a, begin, to);
    if (begin == end) return;
  }
  HWY_ALIGN float sums[kMostRows * kStrip] = {};
  for (size_t p = 0; p < k; p += 4) {
    for (size_t i = 0; i < m; ++i) {
      AddLines(b, p, std::min<size_t>(4, k - p), begin, end - begin,
               a + i * k + p, sums + i * kStrip);
    }
  }
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = begin; j < end; ++j) {
      to.Put(i, j, sums[i * kStrip + j - begin]);
    }
  }
}

// Bytes of B in one task: several tasks a thread, each far longer than the
// taking of it.
constexpr size_t kTaskBytes = 32 << 10;

template <typename T>
void MultiplyTyped(Context& context, const MatmulProblem& problem,
                   const MatmulArgs& args, const float* a) {
  const bool transposed = problem.b == Operand::kTransposed;
  const int64_t along_n = args.b.stride[transposed ? 0 : 1];
  const int64_t along_k = args.b.stride[transposed ? 1 : 0];
  const size_t n = problem.n, k = problem.k;
  const Target to = {problem, args};
  const bool dots = along_k == 1;
  const LinesOf<T> b = {static_cast<const T*>(args.b.data),
                        dots ? along_n : along_k};
  const size_t step =
      dots ? std::max<size_t>(4, kTaskBytes / (k * sizeof(T) + 1) / 4 * 4)
           : kStrip;
  context.pool().ParallelFor((n + step - 1) / step,
                             [&](int64_t task, int) {
                               const size_t begin = task * step;
                               const size_t end = std::min(n, begin + step);
                               dots ? DotTask(b, a, begin, end, to)
                                    : AddTask(b, a, begin, end, to);
                             },
                             problem.m * problem.n * problem.k);
}

template <typename T>
void ConvertLine(const T* HWY_RESTRICT from, size_t count,
                 float* HWY_RESTRICT to) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(LoadF32(from + i), F32(), to + i);
  }
  for (; i < count; ++i) to[i] = OneF32(from + i);
}

}  // namespace

int64_t MostRows() { return kMostRows; }

// a: [m, k], dense.
void MultiplyAny(Context& context, const MatmulProblem& problem,
                 const MatmulArgs& args, const float* a) {
  switch (args.b.type) {
    case DType::kF16:
      return MultiplyTyped<F16>(context, problem, args, a);
    case DType::kBF16:
      return MultiplyTyped<BF16>(context, problem, args, a);
    default:
      return MultiplyTyped<float>(context, problem, args, a);
  }
}

// Row r of a matrix at any address.
void ConvertRow(const ConstTensorView& from, int64_t r, float* to) {
  const int64_t at = r * from.stride[0];
  const size_t count = from.shape[1];
  switch (from.type) {
    case DType::kF16:
      return ConvertLine(static_cast<const F16*>(from.data) + at, count, to);
    case DType::kBF16:
      return ConvertLine(static_cast<const BF16*>(from.data) + at, count, to);
    default:
      std::memcpy(to,
                  static_cast<const char*>(from.data) +
                      at * static_cast<int64_t>(sizeof(float)),
                  count * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(MostRows);
HWY_EXPORT(MultiplyAny);
HWY_EXPORT(ConvertRow);

DenseRows::DenseRows(Context& context, const MatmulCall& call) {
  const ConstTensorView& a = call.args.a;
  const int64_t m = call.problem.m, k = call.problem.k;
  const bool plain = call.problem.a == Operand::kPlain;
  const int64_t along_m = a.stride[plain ? 0 : 1];
  const int64_t along_k = a.stride[plain ? 1 : 0];
  data_ = a.Raw<float>();
  if (along_k == 1 && (m == 1 || along_m == k)) return;
  copy_ = context.workspace().TakeArray<float>(m * k);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      copy_.Raw<float>()[i * k + p] = data_[i * along_m + p * along_k];
    }
  }
  data_ = copy_.Raw<float>();
}

void ConvertToF32(Context& context, const ConstTensorView& from,
                  const TensorView& to) {
  constexpr int64_t kRowsOfTask = 64;
  const int64_t rows = from.shape[0];
  context.pool().ParallelFor(
      (rows + kRowsOfTask - 1) / kRowsOfTask, [&](int64_t task, int) {
        const int64_t end = std::min(rows, (task + 1) * kRowsOfTask);
        for (int64_t r = task * kRowsOfTask; r < end; ++r) {
          HWY_DYNAMIC_DISPATCH(ConvertRow)
          (from, r, to.Raw<float>() + r * to.stride[0]);
        }
      });
}

namespace {

Reason WhyNot(const MatmulCall& call) {
  if (const Reason why = WhyNotPlainProduct(call); !why.empty()) return why;
  if (call.problem.m > HWY_DYNAMIC_DISPATCH(MostRows)()) {
    return "takes at most eight rows";
  }
  for (const ConstTensorView& part : PartsOf(call.args)) {
    if (!IsAligned(part)) return "reads B where it lies, which is not aligned";
  }
  if (!HalvesLieTogether(call.args)) {
    return "takes halves of B with a last stride of 1 only";
  }
  return WhyNotOnHost(DType::kF32, {call.args.a, call.args.c});
}

// Part by part: each is read as it is stored.
void Run(Context& context, const MatmulCall& call) {
  const DenseRows a(context, call);
  MatmulProblem problem = call.problem;
  problem.b = OperandOfB(call);
  MatmulArgs args = call.args;
  for (const ConstTensorView& part : PartsOf(call.args)) {
    problem.n = ColumnsOf(part, problem.b);
    args.b = part;
    HWY_DYNAMIC_DISPATCH(MultiplyAny)(context, problem, args, a.data());
    args.c.data = args.c.Raw<float>() + problem.n;
    if (args.bias) args.bias.data = args.bias.Raw<float>() + problem.n;
  }
}

}  // namespace

const Implementation<MatmulCall> kMatmulCpuFewRows = {
    .name = "cpu.few_rows", .why_not = WhyNot, .run = Run};

}  // namespace headwise
#endif  // HWY_ONCE
