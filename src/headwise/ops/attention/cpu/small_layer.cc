// Few rows of attention with projections. Door: ../small_layer.h.
#include "headwise/ops/attention/small_layer.h"

#include <cstdint>
#include <initializer_list>

#include "headwise/backend/context_use.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/attention/cpu/forward.h"
#include "headwise/ops/attention/validate.h"
#include "headwise/ops/matmul/implementation.h"

namespace headwise {
namespace {

constexpr int64_t kFewRows = 8;  // that cpu.few_rows takes

// f32 of this shape on the host, row behind row.
bool IsDenseF32(const ConstTensorView& view,
                std::initializer_list<int64_t> shape) {
  if (!view || view.type != DType::kF32 || !view.device.is_cpu() ||
      view.rank != static_cast<int>(shape.size())) {
    return false;
  }
  int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    if (view.shape[axis] != shape.begin()[axis] ||
        (view.stride[axis] != stride && view.shape[axis] > 1)) {
      return false;
    }
    stride *= view.shape[axis];
  }
  return true;
}

// A projection [in, out] with its bias.
struct SmallLinear {
  const ConstTensorView& weight;
  const ConstTensorView& bias;
  int64_t in = 0, out = 0;

  bool IsWhole() const {
    return IsDenseF32(weight, {in, out}) && (!bias || IsDenseF32(bias, {out}));
  }
  bool IsApartFrom(const float* begin, const float* end) const {
    const auto apart = [&](const ConstTensorView& view, int64_t size) {
      return !view || view.Raw<float>() + size <= begin ||
             end <= view.Raw<float>();
    };
    return apart(weight, in * out) && apart(bias, out);
  }
  // x [rows, in] dense, y [rows, out] with rows `stride` apart.
  void Run(Context& context, const float* x, int64_t rows, float* y,
           int64_t stride) const {
    MatmulProblem problem;
    problem.m = rows;
    problem.n = out;
    problem.k = in;
    MatmulArgs args;
    args.a = View(x, {rows, in});
    args.b = weight;
    args.bias = bias;
    args.c = View(y, {rows, out});
    args.c.stride[0] = stride;
    kMatmulCpuFewRows.run(context, {problem, args});
  }
};

struct SmallLinears {
  explicit SmallLinears(const SmallLayer& s)
      : q{s.w_q, s.b_q, s.x.shape[2], s.heads * s.head_dim},
        k{s.w_k, s.b_k, s.x.shape[2], s.kv_heads * s.head_dim},
        v{s.w_v, s.b_v, s.x.shape[2], s.kv_heads * s.head_dim},
        o{s.w_o, s.b_o, s.heads * s.head_dim, s.x.shape[2]} {}
  bool AreWhole() const {
    return q.IsWhole() && k.IsWhole() && v.IsWhole() && o.IsWhole();
  }

  SmallLinear q, k, v, o;
};

bool Takes(const Context& context, const SmallLayer& s) {
  if (!context.device().is_cpu() || !s.x || s.x.rank != 3) return false;
  const int64_t batch = s.x.shape[0], count = s.x.shape[1], d = s.x.shape[2];
  if (batch < 1 || count < 1 || batch > kFewRows || batch * count > kFewRows ||
      !IsDenseF32(s.x, {batch, count, d}) ||
      !IsDenseF32(s.out, {batch, count, d})) {
    return false;
  }
  const SmallLinears linears(s);
  const float* const out = s.out.Raw<float>();
  return linears.AreWhole() &&
         linears.o.IsApartFrom(out, out + batch * count * d) &&
         context.PreferredImplementation("matmul").empty() &&
         context.PreferredImplementation("attention").empty();
}

AttentionProblem ProblemOf(const SmallLayer& s) {
  AttentionProblem problem;
  problem.batch = s.x.shape[0];
  problem.heads = s.heads;
  problem.kv_heads = s.kv_heads;
  problem.query_len = problem.key_len = s.x.shape[1];
  problem.head_dim = problem.value_dim = s.head_dim;
  problem.mask = s.mask;
  return problem;
}

// [B, M, heads, D] of rows that are `stride` apart.
TensorView HeadsAt(const AttentionProblem& problem, int64_t heads, float* data,
                   int64_t stride) {
  TensorView view =
      View(data, {problem.batch, problem.query_len, heads, problem.head_dim});
  view.stride[0] = problem.query_len * stride;
  view.stride[1] = stride;
  return view;
}

int64_t WholeLines(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace

bool RunSmallLayer(Context& context, const SmallLayer& layer) {
  const ContextUse use(context);
  if (!Takes(context, layer)) return false;
  const AttentionProblem problem = ProblemOf(layer);
  ValidateProblem(problem);
  const SmallLinears linears(layer);
  const int64_t rows = problem.batch * problem.query_len;
  const int64_t own = linears.q.out, group = linears.k.out;
  const int64_t width = own + 2 * group;
  const int64_t projected = WholeLines(rows * width);
  const int64_t mixed = WholeLines(rows * own);
  const Scratch memory = context.workspace().TakeArray<float>(
      projected + mixed + rows * layer.heads);
  float* const q = memory.Raw<float>();
  float* const k = q + own;
  float* const v = k + group;
  float* const heads = q + projected;
  const float* const x = layer.x.Raw<float>();
  linears.q.Run(context, x, rows, q, width);
  linears.k.Run(context, x, rows, k, width);
  linears.v.Run(context, x, rows, v, width);
  AttentionArgs args;
  args.q = HeadsAt(problem, layer.heads, q, width);
  args.k = HeadsAt(problem, layer.kv_heads, k, width);
  args.v = HeadsAt(problem, layer.kv_heads, v, width);
  args.out = HeadsAt(problem, layer.heads, heads, own);
  // With it the forward's choice is that of calls that somebody may look into.
  args.lse =
      View(heads + mixed, {problem.batch, problem.heads, problem.query_len});
  ForwardF32(context, problem, args);
  linears.o.Run(context, heads, rows, layer.out.Raw<float>(), layer.x.shape[2]);
  return true;
}

}  // namespace headwise
