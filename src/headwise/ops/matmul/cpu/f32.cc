// cpu.f32: packed products on register tiles, run-time dispatch over
// instruction sets by Highway. Door: ../matmul.h.
//
// C is cut into blocks of kBlockRows × kBlockColumns, the tasks. A task packs
// its rows of A (once per worker and block row), then for each slice of the
// depth and each panel of B, which then sits in L1, passes all its panels of A.
#include <algorithm>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/error.h"
#include "headwise/ops/matmul/cpu/f32.h"
#include "headwise/ops/matmul/cpu/few_rows.h"
#include "headwise/ops/matmul/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/matmul/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.
#include "headwise/ops/matmul/cpu/pack-inl.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace {

// A block's packed rows stay in L2 (64 × 1024 × 4 = 256 KiB); 192 is whole
// panels at every vector width.
constexpr size_t kBlockRows = 64;
constexpr size_t kBlockColumns = 192;
// A panel's slice takes half of a 64 KiB L1.
constexpr size_t kSliceBytes = 32 << 10;
constexpr size_t kMaxDepth = kSliceBytes / (kTileColumns * sizeof(float));

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

// Packs lines begin … end − 1 in panels of `width`: [panels, depth, width].
void PackLines(Lines lines, size_t begin, size_t end, size_t depth,
               size_t width, float* to) {
  for (size_t i = begin; i < end; i += width, to += width * depth) {
    PackPanel({lines.data + i * lines.line_stride, lines.line_stride,
               lines.depth_stride},
              std::min(width, end - i), depth, width, 1.0f, to);
  }
}

// A block of C. a: packed rows of the block; b: packed panels from its first
// column on; to: the block.
void ComputeBlock(const float* a, const float* b, size_t k, Target to) {
  const size_t slices = std::max<size_t>(1, DivideUp(k, kMaxDepth));
  const size_t slice = DivideUp(k, slices);
  for (size_t s = 0; s < slices; ++s) {
    const size_t begin = std::min(k, s * slice);
    const size_t depth = std::min(slice, k - begin);
    for (size_t j = 0; j < to.columns; j += kTileColumns) {
      const float* panel = b + j * k + begin * kTileColumns;
      for (size_t i = 0; i < to.rows; i += kTileRows) {
        const Target tile = {to.c + i * to.stride + j,
                             to.stride,
                             std::min(kTileRows, to.rows - i),
                             std::min(kTileColumns, to.columns - j),
                             s == 0 && to.bias ? to.bias + j : nullptr,
                             to.add || s > 0};
        ComputeTile(a + i * k + begin * kTileRows, panel, depth, tile);
      }
    }
  }
}

Lines LinesOf(const ConstTensorView& x, bool lines_first) {
  return {x.As<float>(), x.stride[lines_first ? 0 : 1],
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
  context.pool().ParallelFor(
      DivideUp(n, kBlockColumns), [&](int64_t task, int) {
        const size_t begin = task * kBlockColumns;
        PackLines(lines, begin, std::min(n, begin + kBlockColumns), k,
                  kTileColumns, to + begin * k);
      });
}

// b: packed.
void Multiply(Context& context, const MatmulProblem& problem,
              const MatmulArgs& args, const float* b) {
  const size_t m = problem.m, n = problem.n, k = problem.k;
  const Lines lines = LinesOf(args.a, problem.a == Operand::kPlain);
  const size_t threads = context.threads();
  const size_t block_floats =
      DivideUp(std::min(m, kBlockRows), kTileRows) * kTileRows * k;
  Scratch scratch =
      context.workspace().TakeArray<float>(threads * block_floats);
  std::vector<int64_t> packed_row(threads, -1);  // block row a worker holds
  const size_t across = DivideUp(n, kBlockColumns);
  context.pool().ParallelFor(
      DivideUp(m, kBlockRows) * across, [&](int64_t task, int worker) {
        const size_t i = task / across * kBlockRows;
        const size_t j = task % across * kBlockColumns;
        const size_t rows = std::min(kBlockRows, m - i);
        float* a = scratch.As<float>() + worker * block_floats;
        if (packed_row[worker] != static_cast<int64_t>(i)) {
          PackLines(lines, i, i + rows, k, kTileRows, a);
          packed_row[worker] = static_cast<int64_t>(i);
        }
        const size_t stride = args.c.stride[0];
        ComputeBlock(a, b + j * k, k,
                     {args.c.As<float>() + i * stride + j, stride, rows,
                      std::min(kBlockColumns, n - j),
                      args.bias ? args.bias.As<float>() + j : nullptr,
                      problem.store == Store::kAccumulate});
      });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(Columns);
HWY_EXPORT(PackB);
HWY_EXPORT(Multiply);

int64_t PackedColumns() { return HWY_DYNAMIC_DISPATCH(Columns)(); }

namespace {

int64_t PackedPanels(int64_t n) {
  return (n + PackedColumns() - 1) / PackedColumns();
}

// b as f32 or half; to: [PackedPanels(n), k, PackedColumns].
void PackAny(Context& context, const ConstTensorView& b, Operand operand,
             float* to) {
  if (b.type == DType::kF32) {
    return HWY_DYNAMIC_DISPATCH(PackB)(context, b, operand, to);
  }
  Scratch dense = context.workspace().TakeArray<float>(b.shape[0] * b.shape[1]);
  ConvertToF32(context, b, dense.As<float>());
  HWY_DYNAMIC_DISPATCH(PackB)
  (context, View(dense.As<const float>(), {b.shape[0], b.shape[1]}), operand,
   to);
}

void Run(Context& context, const MatmulProblem& problem,
         const MatmulArgs& args) {
  if (args.packed_b != nullptr) {
    return HWY_DYNAMIC_DISPATCH(Multiply)(context, problem, args,
                                          args.packed_b->data());
  }
  if (args.half_b != nullptr || problem.m <= kFewRows) {
    return MultiplyFewRows(context, problem, args);
  }
  Scratch packed = context.workspace().TakeArray<float>(
      PackedPanels(problem.n) * problem.k * PackedColumns());
  PackAny(context, args.b, problem.b, packed.As<float>());
  HWY_DYNAMIC_DISPATCH(Multiply)(context, problem, args, packed.As<float>());
}

bool IsHalf(DType type) { return type == DType::kBF16 || type == DType::kF16; }

}  // namespace

PackedMatrix::PackedMatrix(Context& context, const ConstTensorView& b,
                           Operand operand) {
  const bool known =
      b.data != nullptr && b.rank == 2 &&
      (IsHalf(b.type)
           ? b.stride[1] == 1
           : b.type == DType::kF32 && (b.stride[0] == 1 || b.stride[1] == 1));
  if (!known) {
    throw Error(ErrorCode::kInvalidArgument,
                {"matmul",
                 "B as an f32 matrix with a stride of 1, or in half precision "
                 "with a last stride of 1",
                 b.data == nullptr ? "null" : ToString(b), ""});
  }
  const bool transposed = operand == Operand::kTransposed;
  n_ = b.shape[transposed ? 0 : 1];
  k_ = b.shape[transposed ? 1 : 0];
  packed_ = Tensor(DType::kF32, {PackedPanels(n_), k_, PackedColumns()});
  PackAny(context, b, operand, packed_.As<float>());
}

const MatmulImplementation kMatmulCpuF32 = {
    "cpu.f32", [](const MatmulProblem&) { return std::string(); }, Run};

}  // namespace headwise
#endif  // HWY_ONCE
