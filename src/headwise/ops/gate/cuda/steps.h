// What cuda is made of: one function a step. Door: ../implementation.h.
#pragma once

#include "headwise/ops/gate/implementation.h"

namespace headwise {

void RunOnCuda(Context& context, const ConcreteCall& call);  // concrete.cu
void RunOnCuda(Context& context, const RouteCall& call);     // route.cu
void RunOnCuda(Context& context, const SpanCall& call);      // gate.cu
void RunOnCuda(Context& context, const SequenceGateCall& call);
void RunOnCuda(Context& context, const ComposeCall& call);
void RunOnCuda(Context& context, const ActiveCall& call);

}  // namespace headwise
