// The list of implementations of activations, best first.
#pragma once

#include "headwise/ops/activation/activation.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct ActivationCall {
  const ActivationProblem& problem;
  const ActivationArgs& args;
  const ActivationGrads* grads = nullptr;  // null: the forward
};

ImplementationList<ActivationCall> ActivationImplementations();

// The entries, one per file that makes them.
extern const Implementation<ActivationCall> kActivationReference;
extern const Implementation<ActivationCall> kActivationCpuF32;
extern const Implementation<ActivationCall> kActivationCuda;

}  // namespace headwise
