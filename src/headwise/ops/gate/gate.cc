// Gate's entry points and its list of implementations. Door: gate.h.
#include "headwise/ops/gate/gate.h"

#include <string>

#include "headwise/ops/check_view.h"
#include "headwise/ops/gate/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void Check(const char* name, const ConstTensorView& view, const Shape& shape,
           Device device, DType type = DType::kF32) {
  CheckDense("gate", name, view, type, shape, device);
}

// Any strides.
void CheckLoose(const char* name, const ConstTensorView& view,
                const Shape& shape, Device device) {
  if (view && view.type == DType::kF32 && view.device == device &&
      ShapeOf(view) == shape) {
    return;
  }
  const ConstTensorView wanted(nullptr, DType::kF32, shape, device);
  Refuse("gate", std::string(name) + " " + ToString(wanted),
         view ? ToString(view) : "none");
}

void CheckRank(const char* name, const ConstTensorView& view, int rank) {
  if (view.rank == rank) return;
  Refuse("gate", std::string(name) + " of rank " + std::to_string(rank),
         view ? ToString(view) : "none");
}

// [B + 1], from 0 up to the tokens; what a device holds is taken at its word.
void CheckStarts(const ConstTensorView& starts, int64_t tokens, Device device) {
  CheckRank("starts", starts, 1);
  Check("starts", starts, ShapeOf(starts), device, DType::kI32);
  const int64_t count = starts.shape[0];
  if (count == 0) {
    Refuse("gate", "starts of at least one entry", ToString(starts));
  }
  if (!device.is_cpu()) return;
  const int32_t* at = starts.Raw<int32_t>();
  bool ascends = at[0] == 0 && at[count - 1] == tokens;
  for (int64_t b = 1; b < count; ++b) ascends = ascends && at[b - 1] <= at[b];
  if (!ascends) {
    Refuse("gate", "starts that ascend from 0 to " + std::to_string(tokens),
           "from " + std::to_string(at[0]) + " to " +
               std::to_string(at[count - 1]));
  }
}

void CheckConcrete(const ConcreteCall& call, const ConstTensorView& tokens) {
  const ConcreteArgs& a = call.args;
  const Device device = DeviceOf(call);
  CheckRank("log_alpha", a.log_alpha, 1);
  const int64_t heads = a.log_alpha.shape[0];
  Check("log_alpha", a.log_alpha, {heads}, device);
  CheckRank(call.grads == nullptr ? "gates" : "dgates", tokens, 2);
  CheckStarts(a.starts, tokens.shape[0], device);
  Check("slopes", a.slopes, {a.starts.shape[0] - 1, heads}, device);
  if (call.problem.temperature > 0 && call.problem.low < 0 &&
      call.problem.high > 1) {
    return;
  }
  Refuse("gate", "temperature > 0, low < 0 and high > 1",
         std::to_string(call.problem.temperature) + ", " +
             std::to_string(call.problem.low) + " and " +
             std::to_string(call.problem.high));
}

void CheckRoute(const RouteCall& call) {
  const RouteArgs& a = call.args;
  CheckRank("gates", a.gates, 2);
  CheckRank("routes", a.routes, 2);
  const RouteSizes sizes = SizesOf(call);
  const int64_t shared = call.problem.shared, active = call.problem.active;
  if (shared < 0 || shared >= sizes.heads || active < shared ||
      active > sizes.heads) {
    Refuse("gate", "0 ≤ shared ≤ active ≤ heads, and a head that is not shared",
           std::to_string(shared) + ", " + std::to_string(active) + " and " +
               std::to_string(sizes.heads));
  }
  const Device device = DeviceOf(call);
  const int64_t width = shared > 0 ? sizes.heads + 2 : sizes.heads;
  Check("routes", a.routes, {sizes.tokens, width}, device);
  Check("gates", a.gates, {sizes.tokens, sizes.heads}, device);
  Check("chosen", a.chosen, {sizes.routed}, device, DType::kF64);
  if (a.mean) Check("mean", a.mean, {sizes.routed}, device, DType::kF64);
}

void CheckSpans(const SpanProblem& problem, const ConstTensorView& spans,
                const char* name, const ConstTensorView& table) {
  CheckRank("spans", spans, 1);
  Check("spans", spans, {spans.shape[0]}, spans.device);
  if (problem.ramp < 1 || problem.limit < 0 || problem.reach < 0) {
    Refuse("gate", "ramp > 0, limit ≥ 0 and reach ≥ 0",
           std::to_string(problem.ramp) + ", " + std::to_string(problem.limit) +
               " and " + std::to_string(problem.reach));
  }
  Check(name, table, {spans.shape[0], 2 * problem.reach + 1}, spans.device);
}

}  // namespace

ImplementationList<GateCall> GateImplementations() {
  static const Implementation<GateCall> kList[] = {kGateCuda, kGateCpuF32,
                                                   kGateReference};
  return {"gate", kList};
}

void ConcreteForward(Context& context, const ConcreteProblem& problem,
                     const ConcreteArgs& args) {
  const ConcreteCall call{problem, args};
  CheckConcrete(call, args.gates);
  const Device device = DeviceOf(call);
  const int64_t heads = args.log_alpha.shape[0];
  Check("gates", args.gates, {args.gates.shape[0], heads}, device);
  if (args.noise) {
    Check("noise", args.noise, {args.starts.shape[0] - 1, heads}, device,
          DType::kF64);
  }
  if (args.open) Check("open", args.open, {heads}, device, DType::kF64);
  Dispatch<GateCall>(context, GateImplementations(), call);
}

void ConcreteBackward(Context& context, const ConcreteProblem& problem,
                      const ConcreteArgs& args, const ConcreteGrads& grads) {
  const ConcreteCall call{problem, args, &grads};
  CheckConcrete(call, grads.dgates);
  const Device device = DeviceOf(call);
  const int64_t heads = args.log_alpha.shape[0];
  Check("dgates", grads.dgates, {grads.dgates.shape[0], heads}, device);
  Check("dlog_alpha", grads.dlog_alpha, {heads}, device);
  Dispatch<GateCall>(context, GateImplementations(), call);
}

void RouteForward(Context& context, const RouteProblem& problem,
                  const RouteArgs& args) {
  const RouteCall call{problem, args};
  CheckRoute(call);
  Dispatch<GateCall>(context, GateImplementations(), call);
}

void RouteBackward(Context& context, const RouteProblem& problem,
                   const RouteArgs& args, const RouteGrads& grads) {
  const RouteCall call{problem, args, &grads};
  CheckRoute(call);
  const RouteSizes sizes = SizesOf(call);
  Check("dgates", grads.dgates, {sizes.tokens, sizes.heads}, DeviceOf(call));
  Check("dlogits", grads.dlogits, {sizes.tokens, sizes.width}, DeviceOf(call));
  Dispatch<GateCall>(context, GateImplementations(), call);
}

void SpanForward(Context& context, const SpanProblem& problem,
                 const ConstTensorView& spans, const TensorView& table) {
  CheckSpans(problem, spans, "table", table);
  Dispatch<GateCall>(context, GateImplementations(),
                     SpanCall{problem, spans, &table});
}

void SpanBackward(Context& context, const SpanProblem& problem,
                  const ConstTensorView& spans, const SpanGrads& grads) {
  CheckSpans(problem, spans, "dtable", grads.dtable);
  Check("dspans", grads.dspans, {spans.shape[0]}, spans.device);
  Dispatch<GateCall>(context, GateImplementations(),
                     SpanCall{problem, spans, nullptr, &grads});
}

void GateSequences(Context& context, const ConstTensorView& starts,
                   const ConstTensorView& factors, const ConstTensorView& x,
                   const TensorView& y) {
  CheckRank("y", y, 2);
  CheckStarts(starts, y.shape[0], factors.device);
  Check("factors", factors, {starts.shape[0] - 1, y.shape[1]}, factors.device);
  if (x) Check("x", x, ShapeOf(y), factors.device);
  Check("y", y, ShapeOf(y), factors.device);
  Dispatch<GateCall>(context, GateImplementations(),
                     SequenceGateCall{starts, factors, x, y});
}

void ComposeGates(Context& context, const ComposeArgs& args) {
  CheckRank("own", args.own, 3);
  const Device device = args.own.device;
  const Shape shape = ShapeOf(args.own);
  Check("own", args.own, shape, device);
  CheckLoose("outer", args.outer, shape, device);
  Check("product", args.product, shape, device);
  if (args.replacement) {
    CheckRank("share", args.share, 4);
    const Shape wide = {shape[0], shape[1], shape[2], args.share.shape[3]};
    CheckLoose("replacement", args.replacement, wide, device);
    Check("share", args.share, wide, device);
  }
  if (args.own.size() == 0) return;
  Dispatch<GateCall>(context, GateImplementations(), ComposeCall{args});
}

void MarkActive(Context& context, const ConstTensorView& gates,
                const TensorView& active) {
  CheckRank("gates", gates, 2);
  Check("gates", gates, ShapeOf(gates), gates.device);
  Check("active", active, {gates.shape[1]}, gates.device, DType::kI32);
  Dispatch<GateCall>(context, GateImplementations(), ActiveCall{gates, active});
}

}  // namespace headwise
