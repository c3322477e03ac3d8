// The list of implementations of gate, best first.
#pragma once

#include <cstdint>
#include <variant>

#include "headwise/ops/gate/gate.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

// The steps, each with its views. Null gradients: the forward.
struct ConcreteCall {
  const ConcreteProblem& problem;
  const ConcreteArgs& args;
  const ConcreteGrads* grads = nullptr;
};
struct RouteCall {
  const RouteProblem& problem;
  const RouteArgs& args;
  const RouteGrads* grads = nullptr;
};
struct SpanCall {
  const SpanProblem& problem;
  const ConstTensorView& spans;
  const TensorView* table = nullptr;  // forward
  const SpanGrads* grads = nullptr;   // backward
};
struct SequenceGateCall {
  const ConstTensorView& starts;
  const ConstTensorView& factors;
  const ConstTensorView& x;
  const TensorView& y;
};
struct ComposeCall {
  const ComposeArgs& args;
};
struct ActiveCall {
  const ConstTensorView& gates;
  const TensorView& active;
};

using GateCall = std::variant<ConcreteCall, RouteCall, SpanCall,
                              SequenceGateCall, ComposeCall, ActiveCall>;

// All views of a call lie on one device.
inline Device DeviceOf(const ConcreteCall& call) {
  return call.args.log_alpha.device;
}
inline Device DeviceOf(const RouteCall& call) {
  return call.args.routes.device;
}
inline Device DeviceOf(const SpanCall& call) { return call.spans.device; }
inline Device DeviceOf(const SequenceGateCall& call) {
  return call.factors.device;
}
inline Device DeviceOf(const ComposeCall& call) { return call.args.own.device; }
inline Device DeviceOf(const ActiveCall& call) { return call.gates.device; }

ImplementationList<GateCall> GateImplementations();

// The entries, one per file that makes them.
extern const Implementation<GateCall> kGateReference;  // reference.cc
extern const Implementation<GateCall> kGateCpuF32;     // cpu/f32.cc
extern const Implementation<GateCall> kGateCuda;       // cuda/gate.cu

// Sizes of a mixture's call.
struct RouteSizes {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t routed = 0;
  int64_t width = 0;  // of the router's logits
};
inline RouteSizes SizesOf(const RouteCall& call) {
  const TensorView& gates = call.args.gates;
  return {gates.shape[0], gates.shape[1], gates.shape[1] - call.problem.shared,
          call.args.routes.shape[1]};
}

}  // namespace headwise
