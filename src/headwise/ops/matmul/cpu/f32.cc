// cpu.f32: packed products on register tiles, run-time dispatch over
// instruction sets by Highway. Door: ../implementation.h.
//
// C is cut into blocks, the tasks. For each slice of the depth a task packs its
// rows of A and then, for each panel of B, which then sits in L1, passes all
// its panels of A.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/matmul/cpu/few_rows.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/unaligned.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/matmul/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/matmul/cpu/pack-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

// A panel's slice takes half of L1: of 48 KiB on x86, else of 64 KiB.
constexpr size_t kSliceBytes = HWY_ARCH_X86 ? 24 << 10 : 32 << 10;
constexpr size_t kMaxDepth = kSliceBytes / (kTileColumns * sizeof(float));
// Rows of a block: their slices (at most 64 × 682 × 4 = 171 KiB) stay in L2.
constexpr size_t kMaxBlockRows = 64;
// Of B: what L2 holds beside them needs no prefetching, which costs 1.5 %;
// what it does not gains 8 %.
constexpr size_t kNearBytes = 512 << 10;

size_t DivideUp(size_t a, size_t b) { return (a + b - 1) / b; }

// Where a tile of C goes and what else is added to it.
struct Target {
  float* c = nullptr;  // [rows, columns], `stride` apart
  size_t stride = 0;
  size_t rows = 0;
  size_t columns = 0;
  const float* bias = nullptr;  // [columns] or null
  bool add = false;             // to what C holds
};

HWY_INLINE Row Sum(const Row& p, const Row& q) {
  return {hn::Add(p.x, q.x), hn::Add(p.y, q.y), hn::Add(p.z, q.z)};
}

HWY_INLINE void FinishRow(Row r, const Row& bias, bool add, float* c) {
  r = Sum(r, bias);
  if (add) r = Sum(r, LoadRow(c));
  StoreRow(r, c);
}

HWY_INLINE void FinishHalf(const HalfTile& t, const Row& bias, bool add,
                           float* c, size_t stride) {
  FinishRow(t.r0, bias, add, c);
  FinishRow(t.r1, bias, add, c + stride);
  FinishRow(t.r2, bias, add, c + 2 * stride);
  FinishRow(t.r3, bias, add, c + 3 * stride);
}

// A tile that reaches over the edge of C. values: [target.rows, kTileColumns].
HWY_INLINE void FinishEdge(const float* values, const Target& to) {
  for (size_t i = 0; i < to.rows; ++i) {
    for (size_t j = 0; j < to.columns; ++j) {
      float value = values[i * kTileColumns + j];
      if (to.bias != nullptr) value += to.bias[j];
      float& c = to.c[i * to.stride + j];
      c = to.add ? c + value : value;
    }
  }
}

// a: [depth, kTileRows], b: [depth, kTileColumns].
HWY_NOINLINE void ComputeTile(const float* a, const float* b, size_t depth,
                              const Target& to) {
  HWY_ALIGN float edge[kTileRows * kTileColumns];
  if (to.rows <= kHalfRows) {
    HalfTile t = ZeroHalf();
    AddProduct(t, a, kTileRows, b, depth);
    StoreHalf(t, edge, kTileColumns);
    return FinishEdge(edge, to);
  }
  Tile t = ZeroTile();
  AddProduct(t, a, b, depth);
  if (to.rows < kTileRows || to.columns < kTileColumns) {
    StoreTile(t, edge, kTileColumns);
    return FinishEdge(edge, to);
  }
  const Row bias = to.bias != nullptr ? LoadRow(to.bias) : ZeroRow();
  FinishHalf(t.upper, bias, to.add, to.c, to.stride);
  if constexpr (kTileRows == 8) {
    FinishHalf(t.lower, bias, to.add, to.c + 4 * to.stride, to.stride);
  }
}

// The same with at most two vectors of columns. (A function of its own: within
// the other it costs that 5 %.)
HWY_NOINLINE void ComputeNarrow(const float* a, const float* b, size_t depth,
                                const Target& to) {
  HWY_ALIGN float edge[kTileRows * kTileColumns];
  for (size_t j = 0; j < to.columns; j += kLanes) {
    AddNarrow(a, b + j, depth, edge + j);
  }
  FinishEdge(edge, to);
}

// Lines from `line` and depth `p` on.
Lines From(const Lines& lines, size_t line, size_t p) {
  return {lines.data + static_cast<int64_t>(line) * lines.line_stride +
              static_cast<int64_t>(p) * lines.depth_stride,
          lines.line_stride, lines.depth_stride};
}

// Packs `count` lines in panels: [panels, depth, kWidth], panels `stride`
// apart.
template <size_t kWidth>
void PackLines(const Lines& lines, size_t count, size_t depth, float* to,
               size_t stride) {
  size_t packed = 0;
  if (lines.line_stride == 1) {
    // Side by side: a few rows at a time through all panels, so that cache
    // lines and pages are used up while they are here.
    constexpr size_t kRows = 16;
    packed = count / kWidth * kWidth;
    for (size_t p = 0; p < depth; p += kRows) {
      for (size_t i = 0; i < packed; i += kWidth) {
        for (size_t r = p; r < std::min(depth, p + kRows); ++r) {
          std::memcpy(to + i / kWidth * stride + r * kWidth,
                      From(lines, i, r).data, kWidth * sizeof(float));
        }
      }
    }
  }
  for (size_t i = packed; i < count; i += kWidth) {
    PackPanel(From(lines, i, 0), std::min(kWidth, count - i), depth, kWidth,
              1.0f, to + i / kWidth * stride);
  }
}

// Asks for `count` numbers.
HWY_INLINE void PrefetchAll(const float* p, size_t count) {
  constexpr size_t kLine = 64 / sizeof(float);
  for (size_t i = 0; i < count; i += kLine) hwy::Prefetch(p + i);
}

// A block of C. rows: of A, from the block's first on; a: room for a slice of
// them, packed; b: packed panels from the block's first column on.
void ComputeBlock(const Lines& rows, float* a, const float* b, size_t k,
                  const Target& to) {
  const size_t slices = std::max<size_t>(1, DivideUp(k, kMaxDepth));
  const size_t slice = DivideUp(k, slices);
  const bool far = to.columns * k * sizeof(float) > kNearBytes;
  for (size_t s = 0; s < slices; ++s) {
    const size_t begin = std::min(k, s * slice);
    const size_t depth = std::min(slice, k - begin);
    PackLines<kTileRows>(From(rows, 0, begin), to.rows, depth, a,
                         kTileRows * depth);
    for (size_t j = 0; j < to.columns; j += kTileColumns) {
      const float* panel = b + j * k + begin * kTileColumns;
      for (size_t i = 0; i < to.rows; i += kTileRows) {
        // Each tile of this panel asks for its part of the next one.
        if (far && j + kTileColumns < to.columns) {
          const size_t part =
              DivideUp(depth * kTileColumns * kTileRows, to.rows);
          PrefetchAll(panel + kTileColumns * k + i / kTileRows * part, part);
        }
        const Target tile = {to.c + i * to.stride + j,
                             to.stride,
                             std::min(kTileRows, to.rows - i),
                             std::min(kTileColumns, to.columns - j),
                             s == 0 && to.bias ? to.bias + j : nullptr,
                             to.add || s > 0};
        const bool narrow = tile.columns <= 2 * kLanes;
        (narrow ? ComputeNarrow : ComputeTile)(a + i * depth, panel, depth,
                                               tile);
      }
    }
  }
}

// How C is cut: blocks down and across, of whole tiles, as equal as can be.
struct Cut {
  size_t down = 1;
  size_t across = 1;
};

// No cut changes a sum, so it may look at the threads: the one whose busiest
// thread, with its blocks the largest, has least to do. A block's time goes
// like (rows + 2)·(columns + 8): a number of A is packed in the time of 8
// columns, one of B loaded in that of two rows.
Cut CutFor(size_t m, size_t n, size_t threads) {
  const size_t tiles = DivideUp(m, kTileRows);
  const size_t panels = DivideUp(n, kTileColumns);
  const size_t least = DivideUp(m, kMaxBlockRows);
  Cut best;
  size_t best_time = SIZE_MAX;
  for (size_t down = least; down <= std::min(tiles, least + threads); ++down) {
    for (size_t across = 1; across <= std::min(panels, threads); ++across) {
      const size_t rounds = DivideUp(down * across, threads);
      const size_t rows = DivideUp(tiles, down) * kTileRows;
      const size_t columns = DivideUp(panels, across) * kTileColumns;
      const size_t time = rounds * (rows + 2) * (columns + 8);
      if (time >= best_time) continue;
      best_time = time;
      best = {down, across};
    }
  }
  return best;
}

Lines LinesOf(const ConstTensorView& x, bool lines_first) {
  return {x.Raw<float>(), x.stride[lines_first ? 0 : 1],
          x.stride[lines_first ? 1 : 0]};
}

}  // namespace

int64_t Columns() { return kTileColumns; }

// b: [k, n] or [n, k]; to: [⌈n / kTileColumns⌉, k, kTileColumns].
void PackB(Context& context, const ConstTensorView& b, Operand operand,
           float* to) {
  const bool transposed = operand == Operand::kTransposed;
  const size_t n = b.shape[transposed ? 0 : 1];
  const size_t k = b.shape[transposed ? 1 : 0];
  const Lines lines = LinesOf(b, transposed);
  // A few panels, a part of the depth: a small matrix is enough for many
  // threads.
  constexpr size_t kColumns = 96 / kTileColumns * kTileColumns, kDepth = 128;
  const size_t across = DivideUp(n, kColumns);
  context.pool().ParallelFor(
      DivideUp(k, kDepth) * across,
      [&](int64_t task, int) {
        const size_t j = task % across * kColumns;
        const size_t p = task / across * kDepth;
        PackLines<kTileColumns>(From(lines, j, p), std::min(kColumns, n - j),
                                std::min(kDepth, k - p),
                                to + j * k + p * kTileColumns,
                                kTileColumns * k);
      },
      n * k * 8);  // a copy costs about as much as eight products
}

// b: packed.
void Multiply(Context& context, const MatmulProblem& problem,
              const MatmulArgs& args, const float* b) {
  const size_t m = problem.m, n = problem.n, k = problem.k;
  const Lines lines = LinesOf(args.a, problem.a == Operand::kPlain);
  const size_t threads = context.threads();
  const Cut cut = CutFor(m, n, threads);
  const size_t tiles = DivideUp(m, kTileRows);
  const size_t panels = DivideUp(n, kTileColumns);
  const size_t room = kMaxBlockRows * std::min(k, kMaxDepth);
  Scratch scratch = context.workspace().TakeArray<float>(threads * room);
  context.pool().ParallelFor(
      cut.down * cut.across,
      [&](int64_t task, int worker) {
        const size_t y = task / cut.across, x = task % cut.across;
        const size_t i = y * tiles / cut.down * kTileRows;
        const size_t i_end = (y + 1) * tiles / cut.down * kTileRows;
        const size_t j = x * panels / cut.across * kTileColumns;
        const size_t j_end = (x + 1) * panels / cut.across * kTileColumns;
        const size_t stride = args.c.stride[0];
        ComputeBlock(From(lines, i, 0), scratch.Raw<float>() + worker * room,
                     b + j * k, k,
                     {args.c.Raw<float>() + i * stride + j, stride,
                      std::min(m, i_end) - i, std::min(n, j_end) - j,
                      args.bias ? args.bias.Raw<float>() + j : nullptr,
                      problem.store == Store::kAccumulate});
      },
      problem.m * problem.n * problem.k);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(Columns);
HWY_EXPORT(PackB);
HWY_EXPORT(Multiply);

namespace {

// Columns of B in one packed panel on this machine: three vectors.
int64_t PackedColumns() { return HWY_DYNAMIC_DISPATCH(Columns)(); }

int64_t PackedPanels(int64_t n) {
  return (n + PackedColumns() - 1) / PackedColumns();
}

// The axis of B along C's columns.
int ColumnAxis(Operand operand) {
  return operand == Operand::kTransposed ? 0 : 1;
}

// Columns of B from `begin` on, as many as `to` has, as f32: B is its parts
// side by side, each f32 or half at any address.
void Gather(Context& context, std::span<const ConstTensorView> parts,
            Operand operand, int64_t begin, const TensorView& to) {
  const int axis = ColumnAxis(operand);
  const int64_t end = begin + to.shape[axis];
  int64_t first = 0;  // column of this part
  for (const ConstTensorView& part : parts) {
    const int64_t from = std::max(begin, first);
    const int64_t until = std::min(end, first + part.shape[axis]);
    if (from < until) {
      ConvertToF32(context, Slice(part, axis, from - first, until - first),
                   Slice(to, axis, from - begin, until - begin));
    }
    first += part.shape[axis];
  }
}

// Columns [begin, begin + count) of B; to: [PackedPanels(count), k,
// PackedColumns].
void PackColumnsOfB(Context& context, std::span<const ConstTensorView> parts,
                    Operand operand, int64_t begin, int64_t count, float* to) {
  const int axis = ColumnAxis(operand);
  if (parts.size() == 1 && parts[0].type == DType::kF32 &&
      IsAligned(parts[0])) {
    return HWY_DYNAMIC_DISPATCH(PackB)(
        context, Slice(parts[0], axis, begin, begin + count), operand, to);
  }
  // Some panels at a time: a second copy of all of B would double its memory.
  const int64_t k = parts[0].shape[1 - axis];
  const int64_t most = std::min(count, 32 * PackedColumns());
  const Scratch dense = context.workspace().TakeArray<float>(most * k);
  for (int64_t at = 0; at < count; at += most) {
    const int64_t columns = std::min(most, count - at);
    const TensorView as_f32 = View(
        dense.Raw<float>(), axis == 0 ? Shape{columns, k} : Shape{k, columns});
    Gather(context, parts, operand, begin + at, as_f32);
    HWY_DYNAMIC_DISPATCH(PackB)(context, as_f32, operand, to + at * k);
  }
}

// B in the order in which the register tiles read it:
// [⌈n / width⌉, k, width], zero past n.
struct Packed : WeightForm {
  Tensor values;
  size_t bytes() const override { return values.bytes(); }
};

constexpr FormKey<Packed> kPacked = {"cpu.f32"};

size_t PackedBytes(const MatmulCall& call) {
  return static_cast<size_t>(PackedPanels(call.problem.n) * call.problem.k *
                             PackedColumns()) *
         sizeof(float);
}

// Null where they may not be kept.
const float* PackedOf(Context& context, const MatmulCall& call) {
  const PreparedWeights& weights = *call.args.weights;
  const Packed* form = weights.Get(
      kPacked, [&] { return PackedBytes(call); },
      [&] {
        auto packed = std::make_unique<Packed>();
        packed->values = Tensor(DType::kF32, {PackedPanels(weights.n()),
                                              weights.k(), PackedColumns()});
        PackColumnsOfB(context, weights.matrices(), weights.operand(), 0,
                       weights.n(), packed->values.Raw<float>());
        return packed;
      });
  return form != nullptr ? form->values.Raw<float>() : nullptr;
}

// Weights that are packed anew for this product, some columns at a time: each
// column's sums are those of the whole.
void MultiplyStored(Context& context, const MatmulCall& call) {
  constexpr int64_t kMostBytes = int64_t{4} << 20;  // packed, beside L2
  const auto& [problem, args] = call;
  const int64_t panel = problem.k * PackedColumns();
  const int64_t panels = std::clamp<int64_t>(
      kMostBytes / std::max<int64_t>(1, panel * sizeof(float)), 1,
      PackedPanels(problem.n));
  const Scratch packed = context.workspace().TakeArray<float>(panels * panel);
  const int64_t most = panels * PackedColumns();
  for (int64_t begin = 0; begin < problem.n; begin += most) {
    const int64_t end = std::min(problem.n, begin + most);
    PackColumnsOfB(context, args.weights->matrices(), args.weights->operand(),
                   begin, end - begin, packed.Raw<float>());
    MatmulProblem some = problem;
    some.n = end - begin;
    MatmulArgs views = args;
    views.c = Columns(args.c, begin, end);
    if (args.bias) views.bias = Slice(args.bias, 0, begin, end);
    HWY_DYNAMIC_DISPATCH(Multiply)(context, some, views, packed.Raw<float>());
  }
}

Reason WhyNot(const MatmulCall& call) {
  if (const Reason why = WhyNotPlainProduct(call); !why.empty()) return why;
  if (!HalvesLieTogether(call.args)) {
    return "takes halves of B with a last stride of 1 only";
  }
  return WhyNotOnHost(DType::kF32, {call.args.a, call.args.c});
}

void Run(Context& context, const MatmulCall& call) {
  const auto& [problem, args] = call;
  if (args.weights != nullptr) {
    const float* kept = PackedOf(context, call);
    if (kept == nullptr) return MultiplyStored(context, call);
    return HWY_DYNAMIC_DISPATCH(Multiply)(context, problem, args, kept);
  }
  const Scratch packed = context.workspace().TakeArray<float>(
      PackedPanels(problem.n) * problem.k * PackedColumns());
  PackColumnsOfB(context, PartsOf(args), problem.b, 0, problem.n,
                 packed.Raw<float>());
  HWY_DYNAMIC_DISPATCH(Multiply)(context, problem, args, packed.Raw<float>());
}

}  // namespace

const Implementation<MatmulCall> kMatmulCpuF32 = {.name = "cpu.f32",
                                                  .why_not = WhyNot,
                                                  .run = Run,
                                                  .kept_bytes = PackedBytes};

}  // namespace headwise
#endif  // HWY_ONCE
