// What cpu.f32 is made of: one function a step. Door: ../implementation.h.
#pragma once

#include "headwise/ops/gate/implementation.h"

namespace headwise {

void RunOnCpu(Context& context, const ConcreteCall& call);      // concrete.cc
void RunOnCpu(Context& context, const RouteCall& call);         // route.cc
void RunOnCpu(Context& context, const SpanCall& call);          // span.cc
void RunOnCpu(Context& context, const SequenceGateCall& call);  // f32.cc
void RunOnCpu(Context& context, const ComposeCall& call);
void RunOnCpu(Context& context, const ActiveCall& call);

}  // namespace headwise
